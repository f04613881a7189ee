"""Vectors: `smooth`, unless halves of the training outputs resolve that another loss is better at more thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.auto.parameters import FEWEST_LEARNED, JUDGED, TAUGHT
from hpcdp.losses.counts import count_losses
from hpcdp.losses.frequency._hashes import hash_outputs
from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.learned.learned import Learned
from hpcdp.losses.protocol import Counter, Decision, Loss, Model, Outputs, Side
from hpcdp.losses.refined.choice import CellTally, Fold, resolved_better
from hpcdp.losses.smooth.smooth import Smooth

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
        """Histogram over the 2T + 1 classes, int64."""
        return self.counter.count(outputs)

    def classes_of(self, outputs: Outputs) -> NDArray[np.integer]:
        """Class of each output, shape (size,)."""
        classes: NDArray[np.integer] = self.counter.classes_of(outputs)  # type: ignore[attr-defined]
        return classes

    def state(self) -> dict[str, NDArray[Any]] | None:
        """The counter's own, and the name."""
        state = self.counter.state()
        return None if state is None else {**state, LOSS: np.frombuffer(self.name.encode(), np.uint8)}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> ChosenCounter:
        """The counter whose `state` this is."""
        name = state[LOSS].tobytes().decode()
        own = {key: array for key, array in state.items() if key != LOSS}
        return cls(name, _losses()[name].restore(own, thresholds))


@dataclass(frozen=True, eq=False)
class AutoVectors:
    """L̂ of training outputs of D (p) and D' (q), numbers of two columns or more."""

    p: Side
    q: Side

    @cached_property
    def _default(self) -> Model:
        return Smooth().fit(self.p, self.q)

    def score(self, outputs: Outputs) -> Floats:
        """The default L̂ of each output of shape (size, d), shape (size,), natural log: that of `smooth`.

        Where another loss was chosen the counter's sets are not those of this L̂.
        """
        return self._default.score(outputs)

    def counter(self, thresholds: Floats) -> Counter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return self.decide(thresholds)[0]

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
    """Two halves of a side, about as large, each with its part of the draws.

    A hash of its place decides: outputs may be sorted, and every other one of them would be a half that knows the other.
    """
    first = (hash_outputs(np.arange(side.size)) >> np.uint64(63)).astype(np.bool_)
    outside = side.draws - side.size  # of a region
    parts = (side.outputs[first], outside // 2), (side.outputs[~first], outside - outside // 2)
    return tuple(Side(x, x.shape[0] + rest, side.is_sorted) for x, rest in parts)  # type: ignore[return-value]
