"""knn: L̂ from the votes of the nearest training outputs; continuous, discrete and mixed outputs alike.

The k nearest training points of an output, out of the pooled points of both sides, are the closed ball whose radius
is the distance to the k-th nearest: all points in it vote. A value that at least k points hold is an atom: its own
points vote, alone, and they vote in nobody else's ball. L̂ = log(v0/n0) - log(v1/n1), with n the draws of each side.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._plain import PlainCounter
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency.distinct import Rows
from hpcdp.losses.frequency.frequency import Frequency, FrequencyCounter
from hpcdp.losses.frequency.parameters import FrequencyParameters
from hpcdp.losses.knn._bits import BitModel, are_bits
from hpcdp.losses.knn._sequences import SequenceModel, hold_numbers
from hpcdp.losses.knn._strata import Strata, VoteSource, few_valued
from hpcdp.losses.knn._tree import BallVotes
from hpcdp.losses.knn.parameters import KnnParameters, choose_k
from hpcdp.losses.line.step import Lookup, StepCounter, Votes, learn_votes
from hpcdp.losses.protocol import Counter, Model, Outputs, Side

__all__ = ["Knn", "KnnParameters", "choose_k"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Where all columns have few values, a row of this many points is an atom (frequency). Fewer tell too little, the
# standard error of their L̂ being at least 2/√points; a larger limit puts more rows into balls that mix their losses.
_COMMON = 20
# Strings have no distance but equality: those of fewer points become one value, which tells nothing, so just the rarest.
_RARE_BYTES = 5


@dataclass(frozen=True, eq=False)
class StepVotes:
    """Votes of one column as a step function."""

    steps: Votes
    lookup: Lookup

    @classmethod
    def learn(cls, a: Floats, b: Floats, k: int) -> StepVotes:
        """Votes among sorted training samples a and b of the two sides."""
        steps = learn_votes(a, b, k, max(1, a.size), max(1, b.size))  # the votes do not depend on the draws
        return cls(steps, Lookup.over(steps.starts))

    def votes(self, outputs: Floats) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size,) or (size, 1), int64, shape (size,) each."""
        runs = self.lookup.runs(np.ascontiguousarray(outputs, np.float64).reshape(-1))
        return self.steps.v0[runs], self.steps.v1[runs]


@dataclass(frozen=True, eq=False)
class StepModel:
    """L̂ of scalar outputs as a step function of training samples a and b, sorted float64, of n0 and n1 draws."""

    a: Floats
    b: Floats
    k: int
    n0: int
    n1: int

    @cached_property
    def _source(self) -> StepVotes:
        return StepVotes.learn(self.a, self.b, self.k)

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size,) or (size, 1), shape (size,), natural log."""
        return log_ratios(*self._source.votes(outputs), self.n0, self.n1)

    def counter(self, thresholds: Floats) -> StepCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        votes = learn_votes(self.a, self.b, self.k, self.n0, self.n1, thresholds)
        return StepCounter.of(votes, thresholds)


@dataclass(frozen=True, eq=False)
class VectorModel:
    """L̂ of vector outputs from a source of votes, of n0 and n1 draws."""

    source: VoteSource
    n0: int
    n1: int

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size, d), shape (size,), natural log."""
        return log_ratios(*self.source.votes(np.asarray(outputs, np.float64)), self.n0, self.n1)

    def counter(self, thresholds: Floats) -> PlainCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return PlainCounter(self, thresholds)


@dataclass(frozen=True)
class Knn:
    """The k-nearest-neighbour estimator of L (Lu et al., "Eureka", S&P 2024), with the vote rules of this module."""

    block_kinds: ClassVar[frozenset[str]] = frozenset({"bytes"})

    parameters: KnnParameters = field(default_factory=KnnParameters)
    threads: int | None = None  # that score vectors of real columns at once; None: NUMBA_NUM_THREADS, or 1

    def fit(self, p: Side, q: Side) -> Model:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind.

        Scalars: a step function. Vectors: columns of few values are strata, the others have the metric; where all have
        few values, rows of enough points have their frequencies and the rare rows the metric. Strings: frequencies.
        Sequences: what is no number makes strata (see `hpcdp.losses.knn._sequences`).

        Raises:
            ValueError: a given k is above the training draws.
        """
        rule, points = self.parameters.k, p.size + q.size
        if isinstance(rule, int):
            k = max(1, min(choose_k(rule, p.draws + q.draws), points))  # a region may hold fewer points than k
        else:
            k = choose_k(rule, points)
        if p.dtype == object:
            rare = min(_RARE_BYTES, k)
            if hold_numbers((p, q)):
                return SequenceModel.learn(p, q, rare, lambda a, b: self._learn_vectors(a, b, k))
            return Frequency(FrequencyParameters(rare=rare)).fit(p, q)
        if are_bits(p.outputs, points, k, self.parameters.metric):
            return BitModel.learn(p.outputs, q.outputs, k, min(_COMMON, k), p.draws, q.draws)
        if p.outputs.ndim == 2 and p.outputs.shape[1] > 1:
            return VectorModel(self._learn_vectors(p.outputs, q.outputs, k), p.draws, q.draws)
        if self.parameters.metric == "hamming":  # the ball around a rare value holds all the rare values
            return Frequency(FrequencyParameters(rare=k)).fit(p, q)
        return StepModel(p.ascending, q.ascending, k, p.draws, q.draws)

    def _learn_vectors(self, p: Outputs, q: Outputs, k: int) -> VoteSource:
        a, b = np.asarray(p, np.float64), np.asarray(q, np.float64)
        few = few_valued(np.concatenate([a, b]), k)
        if few.any() and not few.all():
            strata = Strata.learn(a, b, few, lambda x, y: self._learn_metric(x, y, k, k), k)
            if strata is not None:
                return strata
        return self._learn_metric(a, b, k, min(_COMMON, k) if few.all() else k)

    def _learn_metric(self, a: Floats, b: Floats, k: int, common: int) -> VoteSource:
        """Balls over all columns; atoms are rows of at least `common` (<= k) points, or of k where most are rarer."""
        if a.shape[1] == 1 and self.parameters.metric != "hamming":
            return StepVotes.learn(np.sort(a[:, 0]), np.sort(b[:, 0]), k)
        rows, codes = Rows.learn(np.concatenate([a, b]))
        c0 = np.bincount(codes[: a.shape[0]], minlength=rows.size)
        c1 = np.bincount(codes[a.shape[0] :], minlength=rows.size)
        held = c0 + c1
        if 2 * held[held < common].sum() > codes.size:
            common = k
        threads = self.threads or int(os.environ.get("NUMBA_NUM_THREADS", "1"))
        return BallVotes.learn(rows, c0, c1, k, self.parameters.metric, common, threads)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> Counter:
        """The counter whose `state` this is."""
        return StepCounter.restore(state) if "starts" in state else FrequencyCounter.restore(state)
