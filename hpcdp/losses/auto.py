"""auto: training outputs alone decide which estimator of L judges the test outputs.

Numbers on a line: a spline of the log-ratio, half-lines and intervals, `knn` and, where values come again, their
frequencies, at each threshold (see `AutoLine`); a few values: `frequency`. Vectors: `smooth`, `learned` or
`knn` (`AutoVectors`). Strings and sequences: `knn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import classes_by, count_losses
from hpcdp.losses.distinct import hash_outputs
from hpcdp.losses.frequency import Frequency
from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.learned.learned import Learned
from hpcdp.losses.line.cells import MOST_CELLS, LineCells
from hpcdp.losses.line.step import StepCounter
from hpcdp.losses.parameters import FEWEST_LEARNED, JUDGED, TAUGHT, AutoParameters
from hpcdp.losses.protocol import Counter, Decides, Decision, Loss, Model, Outputs, Side
from hpcdp.losses.refined import CellTally, Fold, Taught, decide, resolved_better
from hpcdp.losses.smooth import Smooth, SmoothLine

__all__ = ["Auto", "AutoParameters"]

Floats = NDArray[np.float64]

_FEWEST = 64  # outputs of a half: with fewer nothing is resolved, and nothing is chosen

LOSS = "loss"
"""Of a counter's state: the name of the loss, as bytes."""


def _losses() -> dict[str, Loss]:
    """By name; the first is the default, and of two that are not told apart the former stays."""
    return {"smooth": Smooth(), "learned": Learned(), "knn": Knn()}


@dataclass(frozen=True, eq=False)
class ChosenCounter:
    """The counter of the loss of this name."""

    name: str
    counter: Counter

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        return self.counter.count(outputs)

    def classes_of(self, outputs: Outputs) -> NDArray[np.integer] | None:
        return classes_by(self.counter, outputs)

    def state(self) -> dict[str, NDArray[Any]] | None:
        state = self.counter.state()
        return None if state is None else {**state, LOSS: np.frombuffer(self.name.encode(), np.uint8)}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> ChosenCounter:
        """The counter whose `state` this is."""
        name = state[LOSS].tobytes().decode()
        own = {key: array for key, array in state.items() if key != LOSS}
        return cls(name, _losses()[name].restore(own, thresholds))


@dataclass(frozen=True, eq=False)
class AutoVectors(Decides):
    """L̂ of training outputs of D (p) and D' (q), numbers of two columns or more."""

    p: Side
    q: Side

    @cached_property
    def _default(self) -> Model:
        return Smooth().fit(self.p, self.q)

    def score(self, outputs: Outputs) -> Floats:
        """The default L̂ of each output of shape (size, d), (size,): that of `smooth`, not of another that was chosen."""
        return self._default.score(outputs)

    def decide(self, thresholds: Floats) -> tuple[Counter, Decision]:
        """The counter, and the loss whose it is."""
        thresholds = np.asarray(thresholds, np.float64)
        losses = _losses()
        chosen, judged = _choose(losses, self.p, self.q, thresholds)
        if judged is None:
            counter = ChosenCounter("smooth", self._default.counter(thresholds))
            seen = np.stack([counter.count(side.outputs) for side in (self.p, self.q)])
            return counter, Decision(["smooth"] * thresholds.size, seen)
        counter = ChosenCounter(chosen, losses[chosen].fit(self.p, self.q).counter(thresholds))
        return counter, Decision([chosen] * thresholds.size, judged)


def projecting_loss(p: Side, q: Side, thresholds: Floats) -> str:
    """The loss that is to bring vectors to the line: "smooth", unless halves of training resolve that another is better."""
    losses = {name: loss for name, loss in _losses().items() if hasattr(loss, "restore_projection")}
    return _choose(losses, p, q, np.asarray(thresholds, np.float64))[0]


def _choose(losses: dict[str, Loss], p: Side, q: Side, thresholds: Floats) -> tuple[str, NDArray[np.int64] | None]:
    """The best by halves of training outputs that judge each other, and its counts there; None where these are too few."""
    halves = list(zip(halves_of(p), halves_of(q), strict=True))
    fewest = min(side.size for half in halves for side in half)
    if fewest < FEWEST_LEARNED:
        losses.pop("learned", None)
    if fewest < _FEWEST:
        return "smooth", None
    scores = [_judge(losses, *pair) for pair in (halves, halves[::-1])]
    folds = [_fold(judged, thresholds) for judged in scores]
    chosen = "smooth"
    for name in losses:
        if resolved_better(folds, name, chosen, thresholds) > 0:
            chosen = name
    judged = sum(np.stack([count_losses(side, thresholds) for side in judged[chosen]]) for judged in scores)
    return chosen, np.asarray(judged)


Sides = tuple[Side, Side]
Scores = dict[str, tuple[Floats, Floats]]


def _judge(losses: Mapping[str, Loss], learned: Sides, judging: Sides) -> Scores:
    """L̂ of each loss, from some of one half, of some of the other."""
    p, q = (_first(side, TAUGHT) for side in learned)
    rows = [side.outputs[:JUDGED] for side in judging]
    models = {name: loss.fit(p, q) for name, loss in losses.items()}
    return {name: (model.score(rows[0]), model.score(rows[1])) for name, model in models.items()}


def _first(side: Side, most: int) -> Side:
    outputs = side.outputs[:most]
    return Side(outputs, round(side.draws * outputs.shape[0] / max(1, side.size)))


def _fold(scores: Scores, thresholds: Floats) -> Fold:
    """What judges: each output of the other half is a cell."""
    sizes = [side.size for side in next(iter(scores.values()))]
    p = np.repeat([1, 0], sizes).astype(np.int64)
    sets = {name: np.concatenate(sides) > thresholds[:, None] for name, sides in scores.items()}
    return Fold(sets, CellTally(p, 1 - p, max(1, sizes[0]), max(1, sizes[1])))


def halves_of(side: Side) -> tuple[Side, Side]:
    """Two halves of a side with their parts of the draws, by a hash of the place: neighbours in a sorted side know each other."""
    # outputs may be sorted, and every other one of them would be a half that knows the other
    first = (hash_outputs(np.arange(side.size)) >> np.uint64(63)).astype(np.bool_)
    outside = side.draws - side.size  # of a region
    parts = (side.outputs[first], outside // 2), (side.outputs[~first], outside - outside // 2)
    return tuple(Side(x, x.shape[0] + rest, side.is_sorted) for x, rest in parts)  # type: ignore[return-value]


_FEWEST_CELLS = 1 << 12  # more than the spline's groups
_CELLS = 4  # for each training output, until there are enough for any number of them
_FEW = 64  # values, and on average outputs that hold each, whose frequencies need no help


@dataclass(frozen=True, eq=False)
class AutoLine(Decides):
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
        """The default L̂ of each output, shape (size,), natural log: that of `smooth`, not of another that was chosen."""
        return self._default.score(outputs)

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
