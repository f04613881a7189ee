"""Votes of vectors, bits, strings and sequences: all that is no single column of reals."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import PlainCounter
from hpcdp.losses.frequency.distinct import learn_distinct
from hpcdp.losses.frequency.frequency import Frequency
from hpcdp.losses.frequency.parameters import FrequencyParameters
from hpcdp.losses.knn._sequences import SequenceVotes, first_of, hold_numbers
from hpcdp.losses.knn._strata import Strata, VoteSource, few_valued
from hpcdp.losses.knn._tree import BallVotes
from hpcdp.losses.knn.parameters import Metric
from hpcdp.losses.line.step import StepVotes
from hpcdp.losses.protocol import Model, Outputs, Side

Floats = NDArray[np.float64]

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
    """What is learned of k votes by a metric; threads: that score vectors of real columns at once, NUMBA_NUM_THREADS or 1."""

    k: int
    metric: Metric
    threads: int | None = None

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
        rows, codes = learn_distinct(np.concatenate([a, b]))
        c0 = np.bincount(codes[: a.shape[0]], minlength=rows.size)
        c1 = np.bincount(codes[a.shape[0] :], minlength=rows.size)
        held = c0 + c1
        if 2 * held[held < common].sum() > codes.size:
            common = self.k
        threads = self.threads or int(os.environ.get("NUMBA_NUM_THREADS", "1"))
        return BallVotes.learn(rows, c0, c1, self.k, self.metric, common, threads)
