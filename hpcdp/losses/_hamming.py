"""Closed-ball votes under the Hamming metric: exact integer distances to all distinct training rows.

A tree prunes nothing here, since most distances are equal. So positions of values are packed into bit planes: plane
b holds bit b of the positions of 64 columns' values. Two rows differ in as many columns as the union of their planes'
XORs has bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_ODD = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


@njit(cache=True, nogil=True, inline="always")
def _count_bits(x):  # type: ignore[no-untyped-def]
    x = x - ((x >> np.uint64(1)) & _ODD)
    x = (x & _PAIRS) + ((x >> np.uint64(2)) & _PAIRS)
    x = (x + (x >> np.uint64(4))) & _NIBBLES
    return np.int64((x * _BYTES) >> np.uint64(56))


@njit(cache=True, nogil=True)
def _vote(queries, rows, c0, c1, k, columns, v0, v1):  # type: ignore[no-untyped-def]
    """queries, rows: (…, words, planes) uint64. Votes of the smallest whole ball with at least k voters."""
    words, planes = rows.shape[1], rows.shape[2]
    near0, near1 = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, np.int64)
    for i in range(queries.shape[0]):
        near0[:] = 0
        near1[:] = 0
        for j in range(rows.shape[0]):
            distance = 0
            for w in range(words):
                differ = np.uint64(0)
                for b in range(planes):
                    differ |= queries[i, w, b] ^ rows[j, w, b]
                distance += _count_bits(differ)
            near0[distance] += c0[j]
            near1[distance] += c1[j]
        a = b1 = np.int64(0)
        for distance in range(columns + 1):
            a += near0[distance]
            b1 += near1[distance]
            if a + b1 >= k:
                break
        v0[i], v1[i] = a, b1


@dataclass(frozen=True, eq=False)
class HammingSearch:
    """Balls over distinct rows; values: distinct values of each column; planes: (rows, words, planes) uint64."""

    values: tuple[NDArray[Any], ...]
    planes: NDArray[np.uint64]
    c0: Ints
    c1: Ints
    k: int

    @classmethod
    def over(cls, rows: NDArray[np.float64], c0: Ints, c1: Ints, k: int) -> HammingSearch:
        """A search over distinct rows (rows, d) with training counts c0, c1 of both sides."""
        values = tuple(np.unique(rows[:, c]) for c in range(rows.shape[1]))
        return cls(values, _pack(values, rows), c0, c1, k)

    def votes(self, outputs: NDArray[np.float64]) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        v0, v1 = np.empty(outputs.shape[0], np.int64), np.empty(outputs.shape[0], np.int64)
        _vote(_pack(self.values, outputs), self.planes, self.c0, self.c1, self.k, outputs.shape[1], v0, v1)
        return v0, v1


def _pack(values: tuple[NDArray[Any], ...], rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Bit planes of the rows, (rows, words, planes); a value that is not among `values` differs from them all."""
    planes = max(1, max(v.size for v in values).bit_length())  # positions 0 … size, size for an unknown value
    out = np.zeros((rows.shape[0], (len(values) + 63) // 64, planes), np.uint64)
    for c, known in enumerate(values):
        place = np.searchsorted(known, rows[:, c])
        unknown = place == known.size
        place[unknown] = 0
        unknown |= (known[place] != rows[:, c]) if known.size else True
        place[unknown] = known.size
        bits = (place[:, None] >> np.arange(planes)) & 1
        out[:, c // 64, :] |= bits.astype(np.uint64) << np.uint64(c % 64)
    return out
