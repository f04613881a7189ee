"""knn: L̂ from the votes of the nearest training outputs; continuous, discrete and mixed outputs alike.

The k nearest training points of an output, out of the pooled points of both sides, are the closed ball whose radius is the
distance to the k-th nearest: all points in it vote. A value that at least k points hold is an atom: its own points vote,
alone, and they vote in nobody else's ball. L̂ = log(v0/n0) - log(v1/n1), with n the draws of each side.

Strata of vectors: rows that agree in all columns with few distinct values are learned on their own. Of sequences what is no
number makes strata, and the numbers have the metric. A sequence is its frame (its length, nesting, strings and nulls, with a
gap for each number) and its numbers. Outputs of one frame are vectors of one length, and knn runs among them as it does among
vectors. Frames without numbers, and strings, are values like any others. Values of fewer than `rare` points, and the outputs
of frames of fewer, are one value; so is what training never saw.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import isqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import PlainCounter
from hpcdp.losses.distinct import Distinct, learn_both, learn_distinct
from hpcdp.losses.frequency import Frequency, FrequencyCounter
from hpcdp.losses.knn._tree import BallVotes
from hpcdp.losses.line.step import StepCounter, StepModel, StepVotes
from hpcdp.losses.parameters import MOST_SEQUENCES, FrequencyParameters, KnnParameters, Metric, choose_k
from hpcdp.losses.protocol import Counter, Model, Outputs, Side

__all__ = ["Knn", "KnnParameters", "choose_k"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class VoteSource(Protocol):
    """Something that knows the votes of every output."""

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        ...


def few_valued(rows: Floats, k: int) -> NDArray[np.bool_]:
    """Which columns of pooled training rows (points, d) have few values, held by max(k, √points) points each on average."""
    points = rows.shape[0]
    # With fewer than k points a stratum is all one ball; a small k must not make strata of rounded numbers.
    most = points // max(k, isqrt(points), 1)
    return np.array([np.unique(column).size <= most for column in rows.T], np.bool_)


@dataclass(frozen=True, eq=False)
class Strata:
    """One vote source per stratum; `few` are the columns that make the strata, `rest` those that the sources see."""

    keys: Distinct
    sources: list[VoteSource]
    few: Ints
    rest: Ints

    @classmethod
    def learn(
        cls, a: Floats, b: Floats, few: NDArray[np.bool_], learn: Callable[[Floats, Floats], VoteSource], least: int
    ) -> Strata | None:
        """Strata of training rows a, b (size, d); None where most points are in strata of fewer than `least`."""
        columns, rest = np.flatnonzero(few), np.flatnonzero(~few)
        keys, codes = learn_distinct(np.concatenate([a[:, columns], b[:, columns]]))
        sizes = np.bincount(codes, minlength=keys.size)
        if 2 * sizes[sizes < least].sum() > codes.size:
            return None
        sources = [
            learn(a[in_a][:, rest], b[in_b][:, rest])
            for in_a, in_b in zip(
                group(codes[: a.shape[0]], keys.size), group(codes[a.shape[0] :], keys.size), strict=True
            )
        ]
        return cls(keys, sources, columns, rest)

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64; nobody votes in a stratum that training never saw."""
        outputs = np.asarray(outputs, np.float64)
        v0, v1 = np.zeros(outputs.shape[0], np.int64), np.zeros(outputs.shape[0], np.int64)
        members = group(self.keys.find(outputs[:, self.few]), self.keys.size)
        for source, places in zip(self.sources, members, strict=True):
            if places.size:
                v0[places], v1[places] = source.votes(outputs[places][:, self.rest])
        return v0, v1


def group(codes: Ints, size: int) -> list[Ints]:
    """Places of each code 0 … size - 1, in order; negative codes belong nowhere."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(size + 1))
    return [order[start:stop] for start, stop in pairwise(bounds)]


Learn = Callable[[Floats, Floats], VoteSource]

# Strings and numbers as `hpcdp.mechanisms.special` writes them; parsing JSON would take three times as long.
_TOKENS = re.compile(rb'("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d*[1-9])?(?:e[+-]\d+)?)')
_BETWEEN = b"[],nul"
_GAP = b"{}"  # no canonical output has a brace outside a string
_HEAD = 1 << 12


def split(output: bytes) -> tuple[bytes, list[float]]:
    """The frame and the numbers of canonical bytes; a string is its own frame."""
    if not output.startswith(b"["):
        return output, []
    parts = _TOKENS.split(output)
    if b"".join(parts[::2]).translate(None, _BETWEEN):  # a string that begins like a sequence
        return output, []
    numbers = []
    for place in range(1, len(parts), 2):
        if not parts[place].startswith(b'"'):
            numbers.append(float(parts[place]))
            parts[place] = _GAP
    return b"".join(parts), numbers


def hold_numbers(sides: Sequence[Side]) -> bool:
    """Whether one of the first outputs is a sequence with numbers."""
    return any(split(output)[1] for side in sides for block in islice(side.blocks(), 1) for output in block[:_HEAD])


@dataclass(frozen=True, eq=False)
class SequenceVotes:
    """Votes of each frame, last of all rare ones, and sources of votes among the numbers of a frame's outputs, if any."""

    frames: Distinct
    c0: Ints  # votes of each frame's points, and last those of all rare ones
    c1: Ints
    # among the numbers of a frame's outputs; None without numbers, or of too few points
    sources: list[VoteSource | None]

    @classmethod
    def learn(cls, p: Outputs, q: Outputs, rare: int, learn: Learn) -> SequenceVotes:
        """From training outputs, object arrays of canonical bytes; `learn` makes votes of numbers (size, d) of two sides."""
        words, *held = learn_both(p, q)
        parts = [split(word) for word in words.values()]
        frames, of_word = learn_distinct(_objects([frame for frame, _ in parts]))
        numbers = [own for _, own in parts]
        c0, c1 = (np.bincount(of_word, weights=side, minlength=frames.size).astype(np.int64) for side in held)
        few = c0 + c1 < rare
        sources: list[VoteSource | None] = [None] * frames.size
        for frame, members in enumerate(group(of_word, frames.size)):
            if not few[frame] and numbers[members[0]]:
                table = np.array([numbers[word] for word in members])
                sources[frame] = learn(*(np.repeat(table, side[members], axis=0) for side in held))
        rest = (c0[few].sum(), c1[few].sum())
        c0[few], c1[few] = rest
        return cls(frames, np.append(c0, rest[0]), np.append(c1, rest[1]), sources)

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size,) of canonical bytes, int64, shape (size,) each."""
        words, codes = learn_distinct(outputs)  # each distinct output is looked at once
        parts = [split(word) for word in words.values()]
        indices = self.frames.find(_objects([frame for frame, _ in parts]))
        v0, v1 = self.c0[indices], self.c1[indices]
        for source, members in zip(self.sources, group(indices, self.frames.size), strict=True):
            if source is not None and members.size:
                v0[members], v1[members] = source.votes(np.array([parts[word][1] for word in members]))
        return v0[codes], v1[codes]


def _objects(words: list[bytes]) -> Outputs:
    out = np.empty(len(words), object)
    out[:] = words
    return out


def first_of(side: Side) -> Outputs:
    """The first `MOST_SEQUENCES` outputs of a side."""
    if side.size <= MOST_SEQUENCES:
        return side.outputs
    blocks, size = [], 0
    for block in side.blocks():
        blocks.append(block[: MOST_SEQUENCES - size])
        size += blocks[-1].size
        if size == MOST_SEQUENCES:
            break
    return np.concatenate(blocks)


# Where all columns have few values, a row of this many points is an atom (frequency). Fewer tell too little, the
# standard error of their L̂ being at least 2/√points; a larger limit puts more rows into balls that mix their losses.
_COMMON = 20
# Strings have no distance but equality: those of fewer points become one value, which tells nothing, so just the rarest.
_RARE_BYTES = 5


@dataclass(frozen=True, eq=False)
class VotesModel:
    """L̂ of outputs from a source of votes, of n0 and n1 draws."""

    source: VoteSource
    n0: int
    n1: int

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output, shape (size,), natural log; ±inf where one side has no vote."""
        return log_ratios(*self.source.votes(outputs), self.n0, self.n1)

    def counter(self, thresholds: Floats) -> PlainCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return PlainCounter(self, thresholds)


@dataclass(frozen=True)
class Learner:
    """What is learned of k votes by a metric."""

    k: int
    metric: Metric

    def learn(self, p: Side, q: Side) -> Model:
        """From training outputs of D (p) and D' (q), which have one shape and kind."""
        if p.dtype == object and hold_numbers((p, q)):
            heads = first_of(p), first_of(q)
            draws = [round(side.draws * x.size / max(1, side.size)) for side, x in zip((p, q), heads, strict=True)]
            return VotesModel(SequenceVotes.learn(heads[0], heads[1], min(_RARE_BYTES, self.k), self.votes), *draws)
        if p.dtype != object and p.outputs.ndim == 2 and p.outputs.shape[1] > 1:
            return VotesModel(self.votes(p.outputs, q.outputs), p.draws, q.draws)
        # of numbers under the Hamming metric the ball around a rare value holds all the rare values
        rare = min(_RARE_BYTES, self.k) if p.dtype == object else self.k
        return Frequency(FrequencyParameters(rare=rare)).fit(p, q)

    def votes(self, p: Outputs, q: Outputs) -> VoteSource:
        """A source of votes of vectors (size, d)."""
        k, points = self.k, p.shape[0] + q.shape[0]
        if p.dtype == np.bool_ and self.metric != "chebyshev" and points >= 2 * max(k, isqrt(points), 1):
            return self._balls(p, q, min(_COMMON, k))  # bits stay bits: all their columns have few values
        a, b = np.asarray(p, np.float64), np.asarray(q, np.float64)
        few = few_valued(np.concatenate([a, b]), k)
        if few.any() and not few.all():
            strata = Strata.learn(a, b, few, lambda x, y: self._balls(x, y, k), k)
            if strata is not None:
                return strata
        return self._balls(a, b, min(_COMMON, k) if few.all() else k)

    def _balls(self, a: Outputs, b: Outputs, common: int) -> VoteSource:
        """Balls over all columns; atoms are rows of at least `common` (<= k) points, or of k where most are rarer."""
        if a.shape[1] == 1 and self.metric != "hamming":
            return StepVotes.learn(np.sort(a[:, 0]), np.sort(b[:, 0]), self.k)
        rows, c0, c1 = learn_both(a, b)
        held = c0 + c1
        if 2 * held[held < common].sum() > held.sum():
            common = self.k
        return BallVotes.learn(rows, c0, c1, self.k, self.metric, common)


@dataclass(frozen=True)
class Knn:
    """The k-nearest-neighbour estimator of L (Lu et al., "Eureka", S&P 2024), with the vote rules of this module."""

    block_kinds: ClassVar[frozenset[str]] = frozenset({"bytes"})

    parameters: KnnParameters = field(default_factory=KnnParameters)

    def fit(self, p: Side, q: Side) -> Model:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind."""
        rule, points = self.parameters.k, p.size + q.size
        if isinstance(rule, int):
            k = max(1, min(choose_k(rule, p.draws + q.draws), points))  # a region may hold fewer points than k
        else:
            k = choose_k(rule, points)
        is_column = p.dtype != object and (p.outputs.ndim == 1 or p.outputs.shape[1] == 1)
        if is_column and self.parameters.metric != "hamming":
            return StepModel(p.ascending, q.ascending, k, p.draws, q.draws)
        return Learner(k, self.parameters.metric).learn(p, q)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> Counter:
        """The counter whose `state` this is."""
        if "starts" in state:
            return StepCounter.restore(state)
        return FrequencyCounter.restore(state)
