"""Fingerprints of chunks: what they are made of, as stores of before have them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from hpcdp.store.arrays import fingerprint


def as_defined(outputs: NDArray[np.generic]) -> str:
    """CRC-32 and the sum of words."""
    raw = outputs.tobytes()
    padded = raw[: len(raw) // 8 * 8]
    total = (sum(np.frombuffer(padded, np.uint64).tolist()) + sum(raw[len(padded) :])) % (1 << 64)
    return f"{zlib.crc32(raw):08x}{total:016x}"


@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 18])
def test_fingerprints_are_what_they_were(size: int) -> None:
    rng = np.random.default_rng(size)
    for outputs in (
        rng.normal(size=size),
        np.zeros(size),
        np.arange(size),
        np.frombuffer(rng.bytes(size + 5), np.uint8),
    ):
        assert fingerprint(outputs) == as_defined(outputs)


def test_a_fingerprint_that_was_recorded() -> None:
    assert fingerprint(np.arange(1000.0)) == "daddb9bc9261600000000000"


def test_every_bit_counts() -> None:
    words = np.random.default_rng(5).integers(0, 2**63, 1 << 17, dtype=np.uint64)
    whole = fingerprint(words)
    for place in (0, 1, words.size // 2, words.size - 1):
        for bit in (0, 31, 32, 63):
            words[place] ^= np.uint64(1 << bit)
            assert fingerprint(words)[:8] != whole[:8]
            words[place] ^= np.uint64(1 << bit)
    assert fingerprint(words) == whole
