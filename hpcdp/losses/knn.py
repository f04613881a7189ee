"""knn: L̂ from the votes of the nearest training outputs; continuous, discrete and mixed outputs alike.

The k nearest training points of an output, out of the pooled points of both sides, are the closed ball whose radius
is the distance to the k-th nearest: all points in it vote. A value that at least k points hold is an atom: its own
points vote, alone, and they vote in nobody else's ball. L̂ = log(v0/n0) - log(v1/n1), with n the draws of each side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._distinct import Rows
from hpcdp.losses._plain import PlainCounter
from hpcdp.losses._protocol import Counter, Model, Outputs, Side
from hpcdp.losses._step import Lookup, StepCounter, Votes, learn_votes
from hpcdp.losses._strata import Strata, VoteSource, few_valued
from hpcdp.losses._tree import BallVotes
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency import Frequency, FrequencyCounter, learn_frequencies
from hpcdp.losses.parameters import FrequencyParameters, KnnParameters, choose_k

__all__ = ["Knn", "KnnParameters", "choose_k"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_RARE = 5  # XXX


@dataclass(frozen=True, eq=False)
class StepModel:
    """L̂ of scalar outputs as a step function of training samples a and b, sorted float64, of n0 and n1 draws."""

    a: Floats
    b: Floats
    k: int
    n0: int
    n1: int

    @cached_property
    def _steps(self) -> StepVotes:
        return StepVotes.learn(self.a, self.b, self.k)

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size,) or (size, 1), shape (size,), natural log."""
        return log_ratios(*self._steps.votes(np.asarray(outputs, np.float64)), self.n0, self.n1)

    def counter(self, thresholds: Floats) -> StepCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        votes = learn_votes(self.a, self.b, self.k, self.n0, self.n1, thresholds)
        return StepCounter.of(votes, thresholds)


@dataclass(frozen=True, eq=False)
class StepVotes:
    """Votes of one column as a step function."""

    steps: Votes
    lookup: Lookup

    @classmethod
    def learn(cls, a: Floats, b: Floats, k: int) -> StepVotes:
        """Votes among sorted training samples a and b of the two sides."""
        steps = learn_votes(a, b, k, max(1, a.size), max(1, b.size))  # draws do not matter to votes
        return cls(steps, Lookup.over(steps.starts))

    def votes(self, outputs: Floats) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size,) or (size, 1), int64, shape (size,) each."""
        runs = self.lookup.runs(np.ascontiguousarray(outputs, np.float64).reshape(-1))
        return self.steps.v0[runs], self.steps.v1[runs]


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
    """The k-nearest-neighbour estimator of L (Lu et al., S&P 2024), with the vote rules of this module."""

    parameters: KnnParameters = KnnParameters()

    def fit(self, p: Side, q: Side) -> Model:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind.

        Raises:
            ValueError: a given k is above the training draws.
        """
        points = p.size + q.size
        if isinstance(self.parameters.k, int):
            k = max(1, min(choose_k(self.parameters.k, p.draws + q.draws), points))  # a region may hold fewer points
        else:
            k = choose_k(self.parameters.k, points)
        if p.outputs.dtype == object:
            return Frequency(FrequencyParameters(rare=_RARE)).fit(p, q)
        if p.outputs.ndim == 1 or p.outputs.shape[1] == 1:
            if self.parameters.metric == "hamming":  # the ball around a rare value holds all the rare values
                return Frequency(FrequencyParameters(rare=k)).fit(p, q)
            return StepModel(p.ascending, q.ascending, k, p.draws, q.draws)
        return self._fit_vectors(p, q, k)

    def _fit_vectors(self, p: Side, q: Side, k: int) -> Model:
        a, b = np.asarray(p.outputs, np.float64), np.asarray(q.outputs, np.float64)
        few = few_valued(np.concatenate([a, b]), k)
        if few.all():
            frequencies = _fit_common(p, q)
            if frequencies is not None:
                return frequencies
        elif few.any():
            strata = Strata.learn(a, b, few, lambda x, y: self._learn(x, y, k), least=k)
            if strata is not None:
                return VectorModel(strata, p.draws, q.draws)
        return VectorModel(self._learn(a, b, k), p.draws, q.draws)

    def _learn(self, a: Floats, b: Floats, k: int) -> VoteSource:
        if a.shape[1] == 1 and self.parameters.metric != "hamming":
            return StepVotes.learn(np.sort(a[:, 0]), np.sort(b[:, 0]), k)
        return BallVotes.learn(a, b, k, self.parameters.metric)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> Counter:  # noqa: ARG002
        """The counter whose `state` this is."""
        return StepCounter.restore(state) if "starts" in state else FrequencyCounter.restore(state)


def _fit_common(p: Side, q: Side) -> Model | None:
    """Frequencies of whole rows, or None when most training points are in rare rows."""
    rows, codes = Rows.learn(np.concatenate([p.outputs, q.outputs]))
    c0 = np.bincount(codes[: p.size], minlength=rows.size)
    c1 = np.bincount(codes[p.size :], minlength=rows.size)
    held = c0 + c1
    if 2 * held[held < _RARE].sum() > codes.size:
        return None
    return learn_frequencies(rows, c0, c1, p.draws, q.draws, _RARE)
