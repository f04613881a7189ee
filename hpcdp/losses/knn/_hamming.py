"""Closed-ball votes under the Hamming metric: exact integer distances to all distinct training rows.

A tree prunes nothing here, since most distances are equal. So positions of values are packed into bit planes: plane
b holds bit b of the positions of 64 columns' values. Two rows differ in as many columns as the union of their planes'
XORs has bits. Rows of booleans are their one plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.losses.frequency._hashes import pack_bits

Ints = NDArray[np.int64]

_ODD = np.uint64(0x5555555555555555)
_PAIRS = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)


@kernel()
def _vote(queries, unknown, rows, c0, total, k, columns, v0, v1):  # type: ignore[no-untyped-def]
    """Votes of the smallest whole ball with at least k voters, or of all voters when there are fewer.

    queries, rows: (…, words, planes) uint64. unknown: (queries, words) uint64, columns whose value no row has.
    c0, total: votes of the first side and of both, of each row.
    """
    words, planes = rows.shape[1], rows.shape[2]
    near = np.zeros((columns + 1, 2), np.int64)
    for i in range(queries.shape[0]):
        near[:] = 0
        for j in range(rows.shape[0]):
            distance = np.int64(0)
            for w in range(words):
                differ = unknown[i, w]
                for plane in range(planes):
                    differ |= queries[i, w, plane] ^ rows[j, w, plane]
                differ -= (
                    differ >> np.uint64(1)
                ) & _ODD  # and now how many of its bits are set, by pairs, nibbles and bytes
                differ = (differ & _PAIRS) + ((differ >> np.uint64(2)) & _PAIRS)
                differ = (differ + (differ >> np.uint64(4))) & _NIBBLES
                distance += np.int64((differ * _BYTES) >> np.uint64(56))
            near[distance, 0] += c0[j]
            near[distance, 1] += total[j]
        first = both = np.int64(0)
        for ring in range(columns + 1):
            first += near[ring, 0]
            both += near[ring, 1]
            if both >= k:
                break
        v0[i], v1[i] = first, both - first


@dataclass(frozen=True, eq=False)
class HammingSearch:
    """Balls over distinct rows; values: distinct ones of each column, none of booleans; planes: (rows, words, planes) uint64."""

    values: tuple[NDArray[Any], ...]
    planes: NDArray[np.uint64]
    c0: Ints
    c1: Ints
    k: int

    @classmethod
    def over(cls, rows: NDArray[Any], c0: Ints, c1: Ints, k: int) -> HammingSearch:
        """A search over distinct rows (rows, d) with training counts c0, c1 of both sides."""
        values = () if rows.dtype == np.bool_ else tuple(np.unique(column) for column in rows.T)
        return cls(values, _pack(values, rows)[0], c0, c1, k)

    def votes(self, outputs: NDArray[Any]) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        v0, v1 = np.empty(outputs.shape[0], np.int64), np.empty(outputs.shape[0], np.int64)
        _vote(*_pack(self.values, outputs), self.planes, self.c0, self.c0 + self.c1, self.k, outputs.shape[1], v0, v1)
        return v0, v1


def _pack(values: tuple[NDArray[Any], ...], rows: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Bit planes of the rows, (rows, words, planes), and a bit for each value that is not among `values`."""
    words = (rows.shape[1] + 63) // 64
    unknown = np.zeros((rows.shape[0], words), np.uint64)
    if not values:
        return pack_bits(rows)[:, :, None], unknown
    planes = max(1, max(v.size - 1 for v in values).bit_length())  # of the positions 0 … size - 1
    out = np.zeros((rows.shape[0], words, planes), np.uint64)
    for c, known in enumerate(values):
        if not known.size:
            continue
        place = np.minimum(np.searchsorted(known, rows[:, c]), known.size - 1)
        bits = (place[:, None] >> np.arange(planes)) & 1
        word, shift = divmod(c, 64)
        out[:, word, :] |= bits.astype(np.uint64) << np.uint64(shift)
        unknown[:, word] |= (known[place] != rows[:, c]).astype(np.uint64) << np.uint64(shift)
    return out, unknown
