"""knn: L̂ from the votes of the nearest training outputs; continuous, discrete and mixed outputs alike.

The k nearest training points of an output, out of the pooled points of both sides, are the closed ball whose radius
is the distance to the k-th nearest: all points in it vote. A value that at least k points hold is an atom: its own
points vote, alone, and they vote in nobody else's ball. L̂ = log(v0/n0) - log(v1/n1), with n the draws of each side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.frequency.frequency import FrequencyCounter
from hpcdp.losses.knn._vectors import Learner
from hpcdp.losses.knn.parameters import KnnParameters, choose_k
from hpcdp.losses.line.step import StepCounter, StepModel
from hpcdp.losses.protocol import Counter, Model, Side

__all__ = ["Knn", "KnnParameters", "choose_k"]

Floats = NDArray[np.float64]


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
        is_column = p.dtype != object and (p.outputs.ndim == 1 or p.outputs.shape[1] == 1)
        if is_column and self.parameters.metric != "hamming":
            return StepModel(p.ascending, q.ascending, k, p.draws, q.draws)
        return Learner(k, self.parameters.metric, self.threads).learn(p, q)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> Counter:
        """The counter whose `state` this is."""
        if "starts" in state:
            return StepCounter.restore(state)
        return FrequencyCounter.restore(state)
