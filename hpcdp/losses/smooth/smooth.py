"""smooth: L̂ as a smooth function of the output; for laws whose log-ratio is smooth the one that reaches the smallest δ.

Numbers: the line is cut into cells, the training outputs are counted by cell, and L̂ is a smoothing spline of the
log-ratio of the counts. Atoms have their own log-ratio. Vectors: logistic regression brings them to the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._sort import ascending
from hpcdp.losses.counts import classes_of
from hpcdp.losses.kind import refuse_strings
from hpcdp.losses.line.cells import LineCells
from hpcdp.losses.line.projected import ProjectedCounter, restore_steps
from hpcdp.losses.line.step import StepCounter
from hpcdp.losses.protocol import Outputs, Side
from hpcdp.losses.smooth._spline import fit_log_ratio
from hpcdp.losses.smooth._vectors import Predictor, learn_predictor
from hpcdp.losses.smooth.parameters import SmoothParameters

__all__ = ["Smooth", "SmoothLine", "SmoothParameters", "SmoothVectors"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmoothLine:
    """L̂ of scalar outputs: losses (cells,), natural log, ±inf allowed, one for each cell."""

    cells: LineCells
    losses: Floats

    @classmethod
    def learn(cls, a: Floats, b: Floats, n0: int, n1: int) -> SmoothLine:
        """From sorted training outputs a and b of n0 and n1 draws."""
        if not a.size + b.size:
            return cls(LineCells.of(np.zeros(1), np.zeros(0)), np.zeros(3))
        cells = LineCells.of(a, b)
        n0, n1 = max(1, n0), max(1, n1)
        return cls(cells, fit_log_ratio(cells.centres, cells.tally(a), cells.tally(b), n0, n1, cells.atoms))

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size,) or (size, 1), shape (size,), natural log."""
        return self.losses[self.cells.lookup.runs(self.coordinate(outputs))]

    def coordinate(self, outputs: Outputs) -> Floats:
        """Where each output lies on the line: the output itself, shape (size,), float64."""
        return np.ascontiguousarray(outputs, np.float64).reshape(-1)

    def counter(self, thresholds: Floats) -> StepCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        thresholds = np.asarray(thresholds, np.float64)
        return StepCounter.merged(self.cells.starts, classes_of(self.losses, thresholds), thresholds)


@dataclass(frozen=True, eq=False)
class SmoothVectors:
    """L̂ of vector outputs: a smooth function of a linear predictor, which is itself an estimate of the log-ratio."""

    predictor: Predictor
    line: SmoothLine

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size, d), shape (size,), natural log."""
        return self.line.score(self.coordinate(outputs))

    def coordinate(self, outputs: Outputs) -> Floats:
        """The linear predictor of each output of shape (size, d), shape (size,), finite, natural log."""
        return self.predictor.coordinate(outputs)

    def projection(self) -> Predictor:
        """What brings outputs to the line."""
        return self.predictor

    def counter(self, thresholds: Floats) -> ProjectedCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return ProjectedCounter(self.predictor, self.line.counter(thresholds))


@dataclass(frozen=True)
class Smooth:
    """The smooth estimator of L (`SmoothParameters`); see this module."""

    parameters: SmoothParameters = field(default_factory=SmoothParameters)

    def fit(self, p: Side, q: Side) -> SmoothLine | SmoothVectors:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind; integers and booleans are reals.

        Raises:
            ValueError: the outputs are no numbers.
        """
        refuse_strings("smooth", p.dtype == object)
        if p.outputs.ndim == 1 or p.outputs.shape[1] == 1:
            return SmoothLine.learn(p.ascending, q.ascending, p.draws, q.draws)
        predictor, *places = learn_predictor(p, q, self.parameters.degree)
        a, b = (ascending(place) for place in places)
        return SmoothVectors(predictor, SmoothLine.learn(a, b, p.draws, q.draws))

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> StepCounter | ProjectedCounter:
        """The counter whose `state` this is."""
        return restore_steps(state, Predictor.restore)

    def restore_projection(self, state: Mapping[str, NDArray[Any]]) -> Predictor:
        """The projection whose `state` this is."""
        return Predictor.restore(state)
