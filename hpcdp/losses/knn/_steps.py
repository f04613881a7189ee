"""Votes of one column of reals: step functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.line.step import Lookup, StepCounter, Votes, learn_votes
from hpcdp.losses.protocol import Outputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
