"""Views: functions of one output that a loss sees in its place, such as the bits that the machine printed.

A view is fixed before any test output is drawn, and sees no database. So every bound of its numbers is one of the mechanism's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.plugins import load_plugin, plugins
from hpcdp.errors import MechanismError
from hpcdp.losses import VIEWS
from hpcdp.losses._sort import ascending
from hpcdp.losses.frequency.frequency import Frequency
from hpcdp.losses.frequency.parameters import FrequencyParameters
from hpcdp.losses.protocol import Counter, Decides, Decision, Loss, Model, Outputs, Side
from hpcdp.mechanisms.outputs import canonicalise
from hpcdp.mechanisms.user_code import import_callable

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
    """Class of the bits of each real: its sign, its exponent and the exponent of its lowest bit that is set.

    Zeros of both signs and every payload of NaN are classes of their own. A float32 has the classes of the same number.

    Args:
        outputs: float64, shape (size,) or (size, d); others are given back.

    Returns:
        int64 of that shape.
    """
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
    """The view of this name: hpcdp's own, an entry point, or "package.module:function". folder: the study's.

    Raises:
        StudyError: there is no such function.
    """
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
        """Histogram over the classes."""
        return self.own.count(self.view(outputs))

    def state(self) -> dict[str, NDArray[Any]] | None:
        """That of the counter of features."""
        return self.own.state()


@dataclass(frozen=True, eq=False)
class _Model:
    """Scores what a view makes of outputs."""

    view: View
    own: Model

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        """L̂ of each output."""
        return self.own.score(self.view(outputs))

    def counter(self, thresholds: NDArray[np.float64]) -> Counter:
        """A counter for these thresholds."""
        return _Counter(self.view, self.own.counter(thresholds))


class _Deciding(_Model):
    """The same of a model that chooses among estimators."""

    def decide(self, thresholds: NDArray[np.float64]) -> tuple[Counter, Decision]:
        """The counter, and how it was chosen."""
        assert isinstance(self.own, Decides)
        counter, decision = self.own.decide(thresholds)
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
        own = self.loss.fit(*(self._seen(side) for side in (p, q)))
        return (_Deciding if isinstance(own, Decides) else _Model)(self.view, own)

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
