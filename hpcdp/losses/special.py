"""Outputs that hold NaN, an infinity or None: classes of their own, told by their frequencies, beside any loss for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.frequency.distinct import Distinct
from hpcdp.losses.frequency.frequency import Frequency, FrequencyCounter, FrequencyModel
from hpcdp.losses.protocol import Counter, Decides, Decision, Loss, Model, Outputs, Side
from hpcdp.mechanisms.special import has_special, is_special

Floats = NDArray[np.float64]

_FEWEST = 32  # outputs of a side without such values that teach a loss; fewer are one class
_KEY = "special."  # of what a counter's state has for them
_NONE = FrequencyModel(Distinct(np.empty(0, np.uint64)), np.zeros(1))  # where training has seen none: L̂ is 0


def split(outputs: Outputs) -> tuple[Outputs, Outputs, NDArray[np.bool_]]:
    """Outputs of numbers alone; the others, with 0 for each number; and which those are, shape (size,)."""
    entries = is_special(outputs)
    rows = np.asarray(entries.reshape(len(outputs), -1).any(axis=1), np.bool_)
    return outputs[~rows], np.where(entries, outputs, outputs.dtype.type(0))[rows], rows


@dataclass(frozen=True, eq=False)
class _Counter:
    """numbers: of outputs without special values; None: all of them are one class. others: what is known of the rest."""

    numbers: Counter | None
    others: FrequencyModel
    thresholds: Floats

    @cached_property
    def _rest(self) -> FrequencyCounter:
        return self.others.counter(self.thresholds)

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        """Histogram over the 2T + 1 classes, shape (2T + 1,), int64."""
        if self.numbers is not None and not has_special(outputs):
            return self.numbers.count(outputs)
        plain, rest, _ = split(outputs)
        own = self._rest.count(np.zeros_like(plain)) if self.numbers is None else self.numbers.count(plain)
        return own + self._rest.count(rest)

    def state(self) -> dict[str, NDArray[Any]] | None:
        """Those of both, the latter where training has seen any; None when fitting again is the way."""
        own = {} if self.numbers is None else self.numbers.state()
        if own is None or not self.others.distinct.size:
            return own
        more = self.others.distinct.state() | {"losses": self.others.losses}
        return own | {f"{_KEY}{name}": array for name, array in more.items()}


@dataclass(frozen=True, eq=False)
class _Model:
    """The same of a model."""

    numbers: Model | None
    others: FrequencyModel

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output, shape (size,)."""
        if self.numbers is not None and not has_special(outputs):
            return self.numbers.score(outputs)
        plain, rest, rows = split(outputs)
        scores = np.empty(len(outputs))
        scores[rows] = self.others.score(rest)
        scores[~rows] = self.others.score(np.zeros_like(plain)) if self.numbers is None else self.numbers.score(plain)
        return scores

    def counter(self, thresholds: Floats) -> Counter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return _Counter(None if self.numbers is None else self.numbers.counter(thresholds), self.others, thresholds)


@dataclass(frozen=True, eq=False)
class _Deciding(_Model):
    """The same of a model that chooses among estimators. sides: training outputs with special values, of each side."""

    sides: tuple[Outputs, Outputs]

    def decide(self, thresholds: Floats) -> tuple[Counter, Decision]:
        """The counter, and how that of the other outputs was chosen."""
        assert isinstance(self.numbers, Decides)
        own, decision = self.numbers.decide(thresholds)
        rest = self.others.counter(thresholds)
        judged = decision.judged + np.stack([rest.count(side) for side in self.sides])
        return _Counter(own, self.others, thresholds), replace(decision, judged=judged)


@dataclass(frozen=True, eq=False)
class WithSpecial:
    """A loss of numbers that takes outputs with NaN, infinities and None too, each combination of them as a value of its own."""

    loss: Loss

    @property
    def serves_any_thresholds(self) -> bool:
        """As the loss has it."""
        return bool(getattr(self.loss, "serves_any_thresholds", False))

    def fit(self, p: Side, q: Side) -> Model:
        """Learn from training outputs of D (p) and D' (q)."""
        (one, others), (other, rest) = _divided(p), _divided(q)
        if min(one.size, other.size) < _FEWEST and (len(others) or len(rest)):
            both = [np.concatenate([of, np.zeros_like(side.outputs)]) for of, side in ((others, one), (rest, other))]
            return _Model(None, Frequency().fit(Side(both[0], p.draws), Side(both[1], q.draws)))
        special = Frequency().fit(Side(others, p.draws), Side(rest, q.draws))
        own = self.loss.fit(one, other)
        return _Deciding(own, special, (others, rest)) if isinstance(own, Decides) else _Model(own, special)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> Counter:
        """The counter whose `state` this is."""
        of = {name.removeprefix(_KEY): array for name, array in state.items() if name.startswith(_KEY)}
        own = {name: array for name, array in state.items() if not name.startswith(_KEY)}
        others = FrequencyModel(Distinct.restore(of), of["losses"]) if of else _NONE
        return _Counter(self.loss.restore(own, thresholds) if own else None, others, thresholds)


def _divided(side: Side) -> tuple[Side, Outputs]:
    """The side without special values, kept because one D serves many pairs, and the outputs that have them."""
    if not has_special(side.outputs):
        return side, side.outputs[:0]
    if "special" not in side.kept:
        plain, rest, _ = split(side.outputs)
        side.kept["special"] = Side(plain, side.draws, side.is_sorted), rest
    special: tuple[Side, Outputs] = side.kept["special"]
    return special
