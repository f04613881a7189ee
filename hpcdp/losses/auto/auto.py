"""auto: training outputs alone decide which estimator of L judges the test outputs.

Numbers on a line: a spline of the log-ratio, half-lines and intervals, `knn` and, where values come again, their
frequencies, at each threshold (see `hpcdp.losses.auto._line`); a few values: `frequency`. Vectors: `smooth`, `learned` or
`knn` (`hpcdp.losses.auto._vectors`). Strings and sequences: `knn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.auto._line import AutoLine, has_few_values
from hpcdp.losses.auto._vectors import LOSS, AutoVectors, ChosenCounter
from hpcdp.losses.auto.parameters import AutoParameters
from hpcdp.losses.frequency.frequency import Frequency
from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.protocol import Counter, Model, Side

__all__ = ["Auto", "AutoParameters"]


@dataclass(frozen=True)
class Auto:
    """The estimator of L that training outputs choose; see this module."""

    block_kinds: ClassVar[frozenset[str]] = Knn.block_kinds

    parameters: AutoParameters = field(default_factory=AutoParameters)

    def fit(self, p: Side, q: Side) -> Model:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind."""
        if p.dtype == object or not (p.size and q.size):
            return Knn().fit(p, q)
        if p.outputs.ndim == 2 and p.outputs.shape[1] > 1:
            return AutoVectors(p, q)
        return Frequency().fit(p, q) if has_few_values(p, q) else AutoLine.of(p, q)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: NDArray[np.float64]) -> Counter:
        """The counter whose `state` this is."""
        return (ChosenCounter if LOSS in state else Knn()).restore(state, thresholds)
