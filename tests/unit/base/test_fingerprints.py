"""Fingerprints of chunks: what they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hpcdp.store.arrays import fingerprint


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit: RFC 3720, appendix B.4."""
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 * (found & 1))
    return found ^ 0xFFFFFFFF


def as_defined(outputs: NDArray[np.generic]) -> str:
    """CRC-32C and the sum of words."""
    raw = outputs.tobytes()
    padded = raw[: len(raw) // 8 * 8]
    total = (sum(np.frombuffer(padded, np.uint64).tolist()) + sum(raw[len(padded) :])) % (1 << 64)
    return f"{crc32c(raw):08x}{total:016x}"


@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 14])
def test_fingerprints_are_what_they_were(size: int) -> None:
    rng = np.random.default_rng(size)
    for outputs in (
        rng.normal(size=size),
        np.zeros(size),
        np.arange(size)[::-1],
        np.frombuffer(rng.bytes(size + 5), np.uint8),
    ):
        assert fingerprint(outputs) == as_defined(outputs)


def test_a_checksum_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720's check value
    assert fingerprint(np.frombuffer(b"123456789", np.uint8))[:8] == "e3069283"


def test_every_bit_counts() -> None:
    words = np.random.default_rng(5).integers(0, 2**63, 1 << 17, dtype=np.uint64)
    whole = fingerprint(words)
    for place in (0, 1, words.size // 2, words.size - 1):
        for bit in (0, 31, 32, 63):
            words[place] ^= np.uint64(1 << bit)
            assert fingerprint(words)[:8] != whole[:8]
            words[place] ^= np.uint64(1 << bit)
    assert fingerprint(words) == whole
