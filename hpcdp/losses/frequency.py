"""frequency: L̂ of discrete outputs, from how often each value occurs in training (the plug-in estimate).

`Tally`: training counts of more distinct values than memory would hold: values are told apart by as many bits of their hash
as leave a bounded number of classes.

The number of bits follows from the training outputs alone, not from their order or how they come in blocks: it is the largest
that leaves at most the given number of classes. Counts of classes are exact. A class of several values is one value of a
coarser output, so the bounds hold as they do for any fixed function of the output; what is lost is accuracy: values that
share a class have one L̂.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import classes_of
from hpcdp.losses.distinct import Distinct, hash_outputs, learn_sides
from hpcdp.losses.parameters import FrequencyParameters
from hpcdp.losses.protocol import Outputs, Side

__all__ = ["Frequency", "FrequencyCounter", "FrequencyModel", "FrequencyParameters"]

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

_ALL_BITS = 64
_BLOCK, _SHORT_BLOCK = 1 << 20, 1 << 16


class Tally:
    """Counts (classes, 2) of both sides by the leading bits of the hash, ascending keys; at most `most` >= 2 classes."""

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


Floats = NDArray[np.float64]

_WHOLE = 1 << 20  # so many training points of both sides are looked at together, and all their values told apart


@dataclass(frozen=True, eq=False)
class FrequencyCounter:
    """Counts outputs by the class of their value; codes: (values + 1,) int32, the last one of unseen values."""

    distinct: Distinct
    codes: NDArray[np.int32]
    classes: int

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        """Histogram of outputs over the 2T + 1 classes of L̂, shape (2T + 1,), int64."""
        counts = np.bincount(self.distinct.find(outputs) + 1, minlength=self.codes.size)  # number 0: unseen
        out = np.zeros(self.classes, np.int64)
        np.add.at(out, np.roll(self.codes, 1), counts)
        return out

    def classes_of(self, outputs: Outputs) -> NDArray[np.int32]:
        """Class of each output, shape (size,)."""
        return self.codes[self.distinct.find(outputs)]

    def state(self) -> dict[str, NDArray[Any]]:
        """The values, their classes and the number of classes."""
        return self.distinct.state() | {"codes": self.codes, "classes": np.array(self.classes)}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> FrequencyCounter:
        """The counter that `state` came from."""
        return cls(Distinct.restore(state), state["codes"], int(state["classes"]))


@dataclass(frozen=True, eq=False)
class FrequencyModel:
    """L̂ of each distinct value; losses: (values + 1,), the last one of unseen values."""

    distinct: Distinct
    losses: Floats

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output, shape (size,), natural log; ±inf where one side never gave the value."""
        return self.losses[self.distinct.find(outputs)]

    def counter(self, thresholds: Floats) -> FrequencyCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        codes = classes_of(self.losses, thresholds).astype(np.int32)
        differ = codes[:-1] != codes[-1]  # values that count like unseen ones are as good as unseen
        return FrequencyCounter(self.distinct.only(differ), codes[np.append(differ, True)], 2 * thresholds.size + 1)


@dataclass(frozen=True)
class Frequency:
    """L̂(o) = ln(c_P/n_P) − ln(c_Q/n_Q) from training counts c and draws n.

    It is ±inf where one count is 0 and 0 where both are. Values that fewer than `rare` pooled training points hold are
    one value, which unseen values join when rare > 0. Equality decides: -0.0 is 0.0; rows and bytes are equal where their
    64-bit hashes are. Many training points are read block by block, and at most `distinct` classes of values are told apart.
    """

    block_kinds: ClassVar[frozenset[str]] = frozenset({"bool", "int", "float", "bytes"})

    parameters: FrequencyParameters = field(default_factory=FrequencyParameters)

    def fit(self, p: Side, q: Side) -> FrequencyModel:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind."""
        if p.size + q.size > min(self.parameters.distinct, _WHOLE):
            tally = Tally(self.parameters.distinct)
            for number, side in enumerate((p, q)):
                tally.add_all(side.blocks(), number)
            distinct, counts = Distinct(tally.keys, tally.bits), tally.counts
        else:
            distinct, *both = learn_sides(p, q)
            counts = np.stack(both, axis=1)
        common = counts.sum(axis=1) >= self.parameters.rare
        v0, v1 = np.concatenate([counts[common], counts[~common].sum(axis=0, keepdims=True)]).T
        return FrequencyModel(distinct.only(common), log_ratios(v0, v1, p.draws, q.draws))

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> FrequencyCounter:
        """The counter whose `state` this is."""
        return FrequencyCounter.restore(state)
