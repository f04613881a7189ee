"""Numbers on a line: a spline by default, and at each threshold what halves of the training outputs resolve to be better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.auto._vectors import halves_of
from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.line.cells import MOST_CELLS, LineCells
from hpcdp.losses.line.step import StepCounter
from hpcdp.losses.protocol import Decision, Outputs, Side
from hpcdp.losses.refined.choice import CellTally
from hpcdp.losses.refined.refined import Taught, decide
from hpcdp.losses.smooth.smooth import SmoothLine

Floats = NDArray[np.float64]

_FEWEST_CELLS = 1 << 12  # more than the spline's groups
_CELLS = 4  # for each training output, until there are enough for any number of them
_FEW = 64  # values, and on average outputs that hold each, whose frequencies need no help


@dataclass(frozen=True, eq=False)
class AutoLine:
    """L̂ of scalar training outputs of D (p) and D' (q), at least one, sorted, so that their order changes nothing."""

    p: Side
    q: Side

    @classmethod
    def of(cls, p: Side, q: Side) -> AutoLine:
        """From outputs in any order."""
        return cls(*(Side(side.ascending, side.draws, is_sorted=True) for side in (p, q)))

    @cached_property
    def _cells(self) -> LineCells:
        most = _CELLS * (self.p.size + self.q.size)
        return LineCells.of(self.p.ascending, self.q.ascending, most=min(MOST_CELLS, max(_FEWEST_CELLS, most)))

    @cached_property
    def _default(self) -> SmoothLine:
        return SmoothLine.learn(self.p.ascending, self.q.ascending, self.p.draws, self.q.draws)

    def score(self, outputs: Outputs) -> Floats:
        """The default L̂ of each output of shape (size,) or (size, 1), shape (size,), natural log: that of `smooth`.

        At thresholds where another was chosen the counter's sets are not those of this L̂.
        """
        return self._default.score(outputs)

    def counter(self, thresholds: Floats) -> StepCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return self.decide(thresholds)[0]

    def decide(self, thresholds: Floats) -> tuple[StepCounter, Decision]:
        """The counter, and what decided at each threshold."""
        thresholds = np.asarray(thresholds, np.float64)
        halves = zip(halves_of(self.p), halves_of(self.q), strict=True)
        one, other = (self._taught(*half, thresholds) for half in halves)
        refined = decide(self._cells, (one, other), self._taught(self.p, self.q, thresholds), thresholds)
        counter = StepCounter.merged(self._cells.starts, refined.classes, thresholds)
        return counter, Decision(refined.chosen, refined.judged)

    def _taught(self, p: Side, q: Side, thresholds: Floats) -> Taught:
        cells = self._cells
        n0, n1 = max(1, p.draws), max(1, q.draws)
        tally = CellTally(cells.tally(p.ascending), cells.tally(q.ascending), n0, n1)
        losses = {"knn": _votes(p, q, cells.centres, thresholds)}
        if self._comes_again or cells.atoms.any():
            own = log_ratios(tally.p, tally.q, n0, n1)
            losses["frequency"] = own if self._comes_again else np.where(cells.atoms, own, losses["knn"])
        return Taught(tally, losses)

    @cached_property
    def _comes_again(self) -> bool:
        """Whether most outputs are values that another output has too."""
        return 2 * count_values(self.p, self.q) <= self.p.size + self.q.size


def _votes(p: Side, q: Side, outputs: Floats, thresholds: Floats) -> Floats:
    """Of each output a number that lies among the thresholds where L̂ of `knn` does: classes take a quarter of what votes take."""
    model = Knn().fit(p, q)
    if not (p.draws and q.draws):  # halves of a few outputs
        return model.score(outputs)
    counter = model.counter(thresholds)
    assert isinstance(counter, StepCounter)
    between = 0.5 * thresholds[:-1] + 0.5 * thresholds[1:]
    among = np.empty(counter.classes)
    among[0::2], among[1::2] = np.concatenate([[-np.inf], between, [np.inf]]), thresholds
    return among[counter.codes[counter.lookup.runs(outputs)]]


def count_values(p: Side, q: Side) -> int:
    """How many distinct values the scalar outputs of both sides have."""
    values = [x[np.append(True, x[1:] != x[:-1])] for x in (p.ascending, q.ascending) if x.size]
    return int(np.unique(np.concatenate(values)).size)


def has_few_values(p: Side, q: Side) -> bool:
    """Whether scalar outputs have so few values, each held by so many of them, that their frequencies tell all."""
    values = count_values(p, q)
    return values <= _FEW and p.size + q.size >= _FEW * values
