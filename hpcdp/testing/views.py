"""Views: numbers that stand for outputs, each of which a few lines of NumPy can compute again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.mechanisms.outputs import Outputs

Floats = NDArray[np.float64]

_MOST_COLUMNS = 32  # looked at one by one, those whose means differ most
_MOST_LINE = 256  # columns of a line, whose covariances are solved
_MOST_VALUES, _FEWEST = 256, 8  # values that are told apart, each seen so often while learning


@dataclass(frozen=True)
class View:
    """A number of each output.

    name: "number", "value", "column", "line", "max", "argmax", "min" or "sum". column: of "column". centre, weights: of "line":
    weights times the columns and their distances from the centre. values: of "value", whose place it gives, −1 of all others.
    """

    name: str
    column: int = 0
    centre: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    values: tuple[Any, ...] = ()

    def apply(self, outputs: Outputs) -> Floats:
        """The number of each of some canonical outputs, shape (size,)."""
        if self.name == "number":
            return np.asarray(outputs, np.float64)
        if self.name == "value":
            return np.array([self._places.get(value, -1) for value in keys_of(outputs)], np.float64)
        numbers = np.asarray(outputs, np.float64)
        if self.name == "column":
            return numbers[:, self.column]
        if self.name == "line":
            return _features(numbers, np.array(self.centre)) @ np.array(self.weights)
        return np.asarray(getattr(numbers, self.name)(axis=1), np.float64)

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.values)}


def keys_of(outputs: Outputs) -> list[Any]:
    """Outputs as what can be told apart: bytes, or tuples of numbers."""
    return outputs.tolist() if outputs.ndim == 1 else [tuple(row) for row in outputs.tolist()]


def views_of(p: Outputs, q: Outputs) -> list[View]:
    """The views that suit outputs of D (p) and D' (q), seen while learning."""
    numbers = [View("number")] if p.dtype != object and p.ndim == 1 else []
    if numbers and not (_is_rounded(p) or _is_rounded(q)):
        return numbers
    common = Counter(keys_of(p)) + Counter(keys_of(q))
    values = tuple(value for value, count in common.most_common(_MOST_VALUES) if count >= _FEWEST)
    found = [View("value", values=values)] if values else []
    if p.dtype == object or numbers:
        return [*found, *numbers] or [View("value")]
    a, b = np.asarray(p, np.float64), np.asarray(q, np.float64)
    spread = np.sqrt(a.var(0) + b.var(0)) + np.finfo(float).tiny
    apart = np.argsort(-np.abs(a.mean(0) - b.mean(0)) / spread, kind="stable")[:_MOST_COLUMNS]
    found += [View("column", column=int(column)) for column in np.sort(apart)]
    found += [View(name) for name in ("max", "argmax", "min", "sum")]
    return [*found, _line(a, b)] if a.shape[1] <= _MOST_LINE else found


def _is_rounded(outputs: Outputs) -> bool:
    """Whether some are integers that float64 does not tell from their neighbours."""
    return outputs.dtype == np.int64 and bool(((outputs > 1 << 53) | (outputs < -(1 << 53))).any())


def _features(numbers: Floats, centre: Floats) -> Floats:
    return np.hstack([numbers, np.abs(numbers - centre)])


def _line(a: Floats, b: Floats) -> View:
    """Fisher's discriminant of the columns and their distances from the medians, which see a shift and a changed width."""
    centre = np.median(np.concatenate([a, b]), axis=0)
    x, y = _features(a, centre), _features(b, centre)
    within = (np.atleast_2d(np.cov(x.T)) + np.atleast_2d(np.cov(y.T))) / 2.0
    ridge = 1e-6 * np.diag(within).mean() + np.finfo(float).tiny
    weights = np.linalg.lstsq(within + ridge * np.eye(within.shape[0]), x.mean(0) - y.mean(0), rcond=None)[0]
    return View("line", centre=tuple(centre.tolist()), weights=tuple(weights.tolist()))
