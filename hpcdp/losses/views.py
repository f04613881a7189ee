"""Views: functions of one output that a loss sees in its place, such as the bits that the machine printed.

A view is fixed before any test output is drawn, and sees no database. So every bound of its numbers is one of the mechanism's.

And outputs that hold NaN, an infinity or None: classes of their own, told by their frequencies, beside any loss for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.plugins import load_plugin, plugins
from hpcdp.errors import MechanismError
from hpcdp.losses import VIEWS
from hpcdp.losses.counts import classes_by
from hpcdp.losses.distinct import Distinct
from hpcdp.losses.frequency import Frequency, FrequencyCounter, FrequencyModel
from hpcdp.losses.parameters import FrequencyParameters
from hpcdp.losses.protocol import Counter, Decides, Decision, Loss, Model, Outputs, Side, ascending, decided
from hpcdp.mechanisms.outputs import canonicalise
from hpcdp.mechanisms.special import has_special, is_special
from hpcdp.mechanisms.user_code import import_callable

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
class _SpecialCounter:
    """numbers: of outputs without special values; None: all of them are one class. others: what is known of the rest."""

    numbers: Counter | None
    others: FrequencyModel
    thresholds: Floats

    @cached_property
    def _rest(self) -> FrequencyCounter:
        return self.others.counter(self.thresholds)

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        if self.numbers is not None and not has_special(outputs):
            return self.numbers.count(outputs)
        plain, rest, _ = split(outputs)
        own = self._rest.count(np.zeros_like(plain)) if self.numbers is None else self.numbers.count(plain)
        return own + self._rest.count(rest)

    def classes_of(self, outputs: Outputs) -> NDArray[np.integer] | None:
        """Class of each output, (size,); None where the numbers' counter can only count."""
        plain, rest, rows = split(outputs)
        own = self._rest.classes_of(np.zeros_like(plain)) if self.numbers is None else classes_by(self.numbers, plain)
        if own is None:
            return None
        classes = np.empty(len(outputs), np.int64)
        classes[rows], classes[~rows] = self._rest.classes_of(rest), own
        return classes

    def state(self) -> dict[str, NDArray[Any]] | None:
        """Those of both, the latter where training has seen any; None when fitting again is the way."""
        own = {} if self.numbers is None else self.numbers.state()
        if own is None or not self.others.distinct.size:
            return own
        more = self.others.distinct.state() | {"losses": self.others.losses}
        return own | {f"{_KEY}{name}": array for name, array in more.items()}


@dataclass(frozen=True, eq=False)
class _SpecialModel(Decides):
    """The same of a model. sides: training outputs with special values, of each side."""

    numbers: Model | None
    others: FrequencyModel
    sides: tuple[Outputs, Outputs] = ()  # type: ignore[assignment]

    def score(self, outputs: Outputs) -> Floats:
        if self.numbers is not None and not has_special(outputs):
            return self.numbers.score(outputs)
        plain, rest, rows = split(outputs)
        scores = np.empty(len(outputs))
        scores[rows] = self.others.score(rest)
        scores[~rows] = self.others.score(np.zeros_like(plain)) if self.numbers is None else self.numbers.score(plain)
        return scores

    def decide(self, thresholds: Floats) -> tuple[Counter, Decision | None]:
        """The counter, and how that of the other outputs was chosen, if it was."""
        own, decision = (None, None) if self.numbers is None else decided(self.numbers, thresholds)
        if decision is not None:
            rest = self.others.counter(thresholds)
            judged = decision.judged + np.stack([rest.count(side) for side in self.sides])
            decision = replace(decision, judged=judged)
        return _SpecialCounter(own, self.others, thresholds), decision


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
            return _SpecialModel(None, Frequency().fit(Side(both[0], p.draws), Side(both[1], q.draws)))
        special = Frequency().fit(Side(others, p.draws), Side(rest, q.draws))
        return _SpecialModel(self.loss.fit(one, other), special, (others, rest))

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> Counter:
        """The counter whose `state` this is."""
        of = {name.removeprefix(_KEY): array for name, array in state.items() if name.startswith(_KEY)}
        own = {name: array for name, array in state.items() if not name.startswith(_KEY)}
        others = FrequencyModel(Distinct.restore(of), of["losses"]) if of else _NONE
        return _SpecialCounter(self.loss.restore(own, thresholds) if own else None, others, thresholds)


def _divided(side: Side) -> tuple[Side, Outputs]:
    """The side without special values, kept because one D serves many pairs, and the outputs that have them."""
    if not has_special(side.outputs):
        return side, side.outputs[:0]
    if "special" not in side.kept:
        plain, rest, _ = split(side.outputs)
        side.kept["special"] = Side(plain, side.draws, side.is_sorted), rest
    special: tuple[Side, Outputs] = side.kept["special"]
    return special


GROUP = "hpcdp.views"
"""The entry points of views that other packages offer: functions of outputs (size,) or (size, d)."""

_RARE = 20  # training outputs of both sides, below which classes of bits are one
_MANTISSA, _EXPONENT, _LEADING = np.uint64((1 << 52) - 1), np.uint64(0x7FF), np.uint64(1 << 52)
_OFFSET = 1100  # that makes exponents positive: those of float64 and of its lowest bits are from -1074 to 1024

View = Callable[[Outputs], Outputs]


def value(outputs: Outputs) -> Outputs:
    """The outputs as a study without views has them: −0.0 is 0.0, and NaN is NaN, whatever its payload."""
    return canonicalise(outputs, len(outputs)) if outputs.dtype.kind == "f" else outputs


def bits(outputs: Outputs) -> Outputs:
    """Class of the bits of each real, int64: its sign, its exponent and that of its lowest bit that is set; not of others."""
    if outputs.dtype.kind != "f":
        return outputs
    words = np.ascontiguousarray(outputs, np.float64).view(np.uint64)
    sign, field, mantissa = words >> np.uint64(63), (words >> np.uint64(52)) & _EXPONENT, words & _MANTISSA
    whole = np.where(field > 0, mantissa | _LEADING, mantissa)  # what the number is, times a power of two
    lowest = np.frexp((whole & (~whole + np.uint64(1))).astype(np.float64))[1] - 1
    highest = np.frexp(whole.astype(np.float64))[1] - 1 - (whole > (1 << 53) - 1)
    shift = np.maximum(field.astype(np.int64), 1) - 1075
    code = (sign.astype(np.int64) << 24) | ((highest + shift + _OFFSET) << 12) | (lowest + shift + _OFFSET)
    code = np.where(whole == 0, sign.astype(np.int64) << 24, code)
    is_nan = (field == _EXPONENT) & (mantissa > 0)
    return np.where(is_nan, -1 - (words & ~(_EXPONENT << np.uint64(52))).astype(np.int64), code)


def view_named(name: str, folder: Path) -> View:
    """The view of this name: hpcdp's own, an entry point, or "package.module:function" there; StudyError where there is none."""
    if name in VIEWS:
        return {"value": value, "bits": bits}[name]
    plugin = load_plugin(GROUP, name) if name in plugins(GROUP) else import_callable(name, folder, "estimate.view")
    return _Checked(name, plugin)


@dataclass(frozen=True)
class _Checked:
    """Somebody's view, whose features are brought to a canonical form."""

    name: str
    function: View

    def __call__(self, outputs: Outputs) -> Outputs:
        try:
            return canonicalise(self.function(outputs.copy()), len(outputs))
        except MechanismError as error:
            raise MechanismError(f"estimate.view {self.name}: {error}".replace("the mechanism", "it")) from None


@dataclass(frozen=True, eq=False)
class _Counter:
    """Counts what a view makes of outputs."""

    view: View
    own: Counter

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        return self.own.count(self.view(outputs))

    def classes_of(self, outputs: Outputs) -> NDArray[np.integer] | None:
        """Class of each output, (size,); None where the own counter can only count."""
        return classes_by(self.own, self.view(outputs))

    def state(self) -> dict[str, NDArray[Any]] | None:
        return self.own.state()


@dataclass(frozen=True, eq=False)
class _Model(Decides):
    """Scores what a view makes of outputs."""

    view: View
    own: Model

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        return self.own.score(self.view(outputs))

    def decide(self, thresholds: NDArray[np.float64]) -> tuple[Counter, Decision | None]:
        counter, decision = decided(self.own, thresholds)
        return _Counter(self.view, counter), decision


@dataclass(frozen=True, eq=False)
class Viewed:
    """A loss of what a view makes of outputs."""

    name: str
    view: View
    loss: Loss

    @classmethod
    def of(cls, name: str, folder: Path, loss: Loss) -> Viewed:
        """The loss that sees this view; bits are classes, of which frequencies are told."""
        return cls(
            name, view_named(name, folder), Frequency(FrequencyParameters(rare=_RARE)) if name == "bits" else loss
        )

    def fit(self, p: Side, q: Side) -> Model:
        """Learn from what the view makes of training outputs of D (p) and D' (q)."""
        return _Model(self.view, self.loss.fit(self._seen(p), self._seen(q)))

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: NDArray[np.float64]) -> Counter:
        """The counter whose `state` this is."""
        return _Counter(self.view, self.loss.restore(state, thresholds))

    def _seen(self, side: Side) -> Side:
        """Features of a side, kept because one D serves many pairs."""
        if self.name not in side.kept:
            features = self.view(side.outputs)
            is_line = features.dtype.kind == "f" and features.ndim == 1
            side.kept[self.name] = Side(ascending(features) if is_line else features, side.draws, is_line)
        seen: Side = side.kept[self.name]
        return seen
