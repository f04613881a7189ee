"""Fingerprints of chunks: those that zlib and NumPy make, also where a kernel does most of the work."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hpcdp.store import arrays
from hpcdp.store._print_kernels import LAGS
from hpcdp.store.arrays import fingerprint

POLYNOMIAL = 0x104C11DB7  # CRC-32's


def by_zlib(outputs: NDArray[np.generic]) -> str:
    """The fingerprint as it is defined: CRC-32 and the sum of words."""
    raw = outputs.tobytes()
    padded = raw[: len(raw) // 8 * 8]
    total = (sum(np.frombuffer(padded, np.uint64).tolist()) + sum(raw[len(padded) :])) % (1 << 64)
    return f"{zlib.crc32(raw):08x}{total:016x}"


@settings(max_examples=15)
@given(size=st.integers(arrays._MANY, arrays._MANY + 2 * LAGS[0]), others=st.integers(0, 7), seed=st.integers(0, 2**32))
def test_the_kernel_and_zlib_give_the_same(size: int, others: int, seed: int) -> None:
    """Of every remainder of the kernel's steps, and of bytes that make no word."""
    raw = np.frombuffer(np.random.default_rng(seed).bytes(8 * size + others), np.uint8)
    assert fingerprint(raw) == by_zlib(raw)


@pytest.mark.parametrize("size", [0, 1, arrays._MANY - 1, arrays._MANY, 1 << 18])
def test_fingerprints_are_what_they_were(size: int) -> None:
    for outputs in (np.random.default_rng(size).normal(size=size), np.zeros(size), np.arange(size)):
        assert fingerprint(outputs) == by_zlib(outputs)


def test_every_bit_counts() -> None:
    words = np.random.default_rng(5).integers(0, 2**63, arrays._MANY, dtype=np.uint64)
    whole = fingerprint(words)
    for place in (0, 1, LAGS[0] - 1, LAGS[0], LAGS[-1], words.size // 2, words.size - LAGS[-1], words.size - 1):
        for bit in (0, 31, 32, 63):
            words[place] ^= np.uint64(1 << bit)
            assert fingerprint(words)[:8] != whole[:8]
            words[place] ^= np.uint64(1 << bit)
    assert fingerprint(words) == whole


def _remainder(degree: int) -> int:
    """Of x to this power divided by CRC-32's polynomial."""
    found = 1
    for _ in range(degree):
        found <<= 1
        found ^= POLYNOMIAL if found >> 32 else 0
    return found


def test_the_lags_are_those_of_a_multiple_of_the_polynomial() -> None:
    one, two, three = LAGS
    assert _remainder(64 * three) ^ _remainder(64 * (three - one)) ^ _remainder(64 * (three - two)) ^ 1 == 0
