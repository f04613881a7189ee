"""64-bit hashes of outputs, the same in every process: numbers, rows and bytes.

Of single numbers they differ whenever the numbers do (every step can be undone); of rows and bytes two given values
share one with probability 2⁻⁶⁴ (heuristic: the hash taken as random).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.losses.protocol import Outputs

Hashes = NDArray[np.uint64]

_START = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@kernel(inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), a permutation of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@kernel()
def _hash_rows(words, out):  # type: ignore[no-untyped-def]
    """h ← mix((h + start) ⊕ word) over the words of each row, from h = 0."""
    for i in range(words.shape[0]):
        h = np.uint64(0)
        for c in range(words.shape[1]):
            h = _mix((h + _START) ^ words[i, c])
        out[i] = h


@kernel()
def _hash_bytes(data, ends, out):  # type: ignore[no-untyped-def]
    """The same over words of 8 bytes, the last one filled with zeros, from h = mix(length)."""
    start = np.int64(0)
    for i in range(ends.size):
        h = _mix(np.uint64(ends[i] - start))
        word, place = np.uint64(0), np.uint64(0)
        for j in range(start, ends[i]):
            word |= np.uint64(data[j]) << place
            place += np.uint64(8)
            if place == 64:
                h = _mix((h + _START) ^ word)
                word, place = np.uint64(0), np.uint64(0)
        out[i] = _mix((h + _START) ^ word)
        start = ends[i]


def hash_outputs(outputs: Outputs) -> Hashes:
    """Hash of each output, shape (size,), uint64; equal outputs of one dtype and shape have equal hashes."""
    out = np.empty(outputs.shape[0], np.uint64)
    if outputs.dtype == object:
        ends = np.cumsum(np.fromiter(map(len, outputs), np.int64, outputs.size))
        _hash_bytes(np.frombuffer(b"".join(outputs), np.uint8), ends, out)
    else:
        _hash_rows(_words(outputs), out)
    return out


def _words(outputs: NDArray[Any]) -> Hashes:
    """Numeric outputs as rows of 64-bit words that are equal where the outputs are, shape (size, words)."""
    if outputs.dtype == np.bool_ and outputs.ndim == 2:
        return pack_bits(outputs)
    if outputs.dtype == np.bool_:
        return outputs.astype(np.uint64)[:, None]
    number = np.float64 if outputs.dtype.kind == "f" else np.int64
    table = np.ascontiguousarray(np.add(outputs, number(0), dtype=number))  # −0.0 becomes 0.0
    return table.view(np.uint64).reshape(outputs.shape[0], prod(outputs.shape[1:]))


def pack_bits(outputs: NDArray[np.bool_]) -> Hashes:
    """Bits (size, d), d >= 1, in words of 64, shape (size, ceil(d/64)), uint64; the last word ends in zeros."""
    words = np.zeros((outputs.shape[0], 8 * -(-outputs.shape[1] // 64)), np.uint8)
    words[:, : -(-outputs.shape[1] // 8)] = np.packbits(outputs, axis=1, bitorder="little")
    return words.view("<u8").astype(np.uint64, copy=False)
