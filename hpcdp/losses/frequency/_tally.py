"""Training counts of more distinct values than memory would hold: values are told apart by as many bits of their hash
as leave a bounded number of classes.

The number of bits follows from the training outputs alone, not from their order or how they come in blocks: it is the
largest that leaves at most the given number of classes. Counts of classes are exact. A class of several values is one
value of a coarser output, so the bounds hold as they do for any fixed function of the output; what is lost is accuracy:
values that share a class have one L̂.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.losses.frequency._hashes import hash_outputs
from hpcdp.losses.protocol import Outputs

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

_ALL_BITS = 64
_BLOCK, _SHORT_BLOCK = 1 << 20, 1 << 16


class Tally:
    """Counts of both sides by the leading bits of the hash; at most `most` >= 2 classes.

    keys: the classes' leading bits, ascending, uint64. counts: (classes, 2), int64. bits: how many bits are leading.
    """

    def __init__(self, most: int) -> None:
        self.most, self.bits = most, _ALL_BITS
        self.keys: Keys = np.empty(0, np.uint64)
        self.counts: Ints = np.empty((0, 2), np.int64)

    def add_all(self, blocks: Iterable[Outputs], side: int) -> None:
        """Count the blocks of training outputs of side 0 or 1."""
        waiting, size = list[Keys](), 0
        enough = min(max(self.most, _SHORT_BLOCK), _BLOCK)  # uniting costs time for all classes
        for block in blocks:
            waiting.append(hash_outputs(block))
            size += block.shape[0]
            if size >= enough:
                self._add(waiting, side)
                waiting, size = [], 0
        self._add(waiting, side)

    def _add(self, hashes: list[Keys], side: int) -> None:
        if not hashes:
            return
        keys, held = np.unique(np.concatenate(hashes) >> np.uint64(_ALL_BITS - self.bits), return_counts=True)
        united, counts = (
            np.empty(self.keys.size + keys.size, np.uint64),
            np.zeros((self.keys.size + keys.size, 2), np.int64),
        )
        size = _unite(self.keys, self.counts, keys, held, side, united, counts)
        bits, left = self.bits, united[:size]
        while 1 + np.count_nonzero(left[1:] != left[:-1]) > self.most:
            bits, left = bits - 1, left >> np.uint64(1)
        if bits == self.bits:
            self.keys, self.counts = left, counts[:size]
        else:
            first = np.flatnonzero(np.concatenate([[True], left[1:] != left[:-1]]))
            self.bits, self.keys, self.counts = bits, left[first], np.add.reduceat(counts[:size], first, axis=0)


@kernel()
def _unite(known, counts, keys, held, side, out, sums):  # type: ignore[no-untyped-def]
    """Merge ascending keys, held by so many of one side, into ascending known ones; returns how many keys that makes."""
    i = j = n = 0
    while i < known.size or j < keys.size:
        if j == keys.size or (i < known.size and known[i] <= keys[j]):
            out[n] = known[i]
            sums[n] = counts[i]
            if j < keys.size and known[i] == keys[j]:
                sums[n, side] += held[j]
                j += 1
            i += 1
        else:
            out[n] = keys[j]
            sums[n, side] = held[j]
            j += 1
        n += 1
    return n
