"""Votes of vectors, bits, strings and sequences: all that is no single column of reals."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._plain import PlainCounter
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency.distinct import Rows
from hpcdp.losses.frequency.frequency import Frequency
from hpcdp.losses.frequency.parameters import FrequencyParameters
from hpcdp.losses.knn._bits import BitModel, are_bits
from hpcdp.losses.knn._sequences import SequenceModel, hold_numbers
from hpcdp.losses.knn._steps import StepVotes
from hpcdp.losses.knn._strata import Strata, VoteSource, few_valued
from hpcdp.losses.knn._tree import BallVotes
from hpcdp.losses.knn.parameters import Metric
from hpcdp.losses.protocol import Model, Outputs, Side

Floats = NDArray[np.float64]

# Where all columns have few values, a row of this many points is an atom (frequency). Fewer tell too little, the
# standard error of their L̂ being at least 2/√points; a larger limit puts more rows into balls that mix their losses.
_COMMON = 20
# Strings have no distance but equality: those of fewer points become one value, which tells nothing, so just the rarest.
_RARE_BYTES = 5


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
class Learner:
    """What is learned of k votes by a metric; threads: that score vectors of real columns at once, NUMBA_NUM_THREADS or 1."""

    k: int
    metric: Metric
    threads: int | None = None

    def learn(self, p: Side, q: Side) -> Model:
        """From training outputs of D (p) and D' (q), which have one shape and kind."""
        k = self.k
        if p.dtype == object:
            rare = min(_RARE_BYTES, k)
            if hold_numbers((p, q)):
                return SequenceModel.learn(p, q, rare, self.votes)
            return Frequency(FrequencyParameters(rare=rare)).fit(p, q)
        if are_bits(p.outputs, p.size + q.size, k, self.metric):
            return BitModel.learn(p.outputs, q.outputs, k, min(_COMMON, k), p.draws, q.draws)
        if p.outputs.ndim == 2 and p.outputs.shape[1] > 1:
            return VectorModel(self.votes(p.outputs, q.outputs), p.draws, q.draws)
        return Frequency(FrequencyParameters(rare=k)).fit(
            p, q
        )  # hamming: the ball around a rare value holds all the rare values

    def votes(self, p: Outputs, q: Outputs) -> VoteSource:
        """A source of votes of vectors (size, d)."""
        k = self.k
        a, b = np.asarray(p, np.float64), np.asarray(q, np.float64)
        few = few_valued(np.concatenate([a, b]), k)
        if few.any() and not few.all():
            strata = Strata.learn(a, b, few, lambda x, y: self._balls(x, y, k), k)
            if strata is not None:
                return strata
        return self._balls(a, b, min(_COMMON, k) if few.all() else k)

    def _balls(self, a: Floats, b: Floats, common: int) -> VoteSource:
        """Balls over all columns; atoms are rows of at least `common` (<= k) points, or of k where most are rarer."""
        if a.shape[1] == 1 and self.metric != "hamming":
            return StepVotes.learn(np.sort(a[:, 0]), np.sort(b[:, 0]), self.k)
        rows, codes = Rows.learn(np.concatenate([a, b]))
        c0 = np.bincount(codes[: a.shape[0]], minlength=rows.size)
        c1 = np.bincount(codes[a.shape[0] :], minlength=rows.size)
        held = c0 + c1
        if 2 * held[held < common].sum() > codes.size:
            common = self.k
        threads = self.threads or int(os.environ.get("NUMBA_NUM_THREADS", "1"))
        return BallVotes.learn(rows, c0, c1, self.k, self.metric, common, threads)
