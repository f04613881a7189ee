"""The section [pure] of a study file: pure ε of a pair, of a data set, of each row."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from hpcdp.study.section import NULL, Key, Section, one_of_types

_FLOOR, _LOWER_FLOOR, _MANY = 1e-3, 1e-4, 10**5  # τ, τ with so many training samples: settings of the paper's Section V


def _interval(value: Any) -> tuple[float, float] | None:
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(v) in (int, float) for v in value):
        low, high = float(value[0]), float(value[1])
        if low < high and math.isfinite(low) and math.isfinite(high):
            return low, high
    return None


def _intervals(value: Any) -> Any:
    found = [_interval(v) for v in value] if isinstance(value, (list, tuple)) else []
    if value is not None and (not found or None in found):
        raise ValueError(
            f"a list of intervals [low, high] with low < high, both finite, one a column; given: {value!r}"
        )
    return None if value is None else tuple(found)


def _floor(value: Any) -> Any:
    if value is not None and not (type(value) in (int, float) and 0.0 < value < 1.0):
        raise ValueError(f"a number above 0 and below 1; given: {value!r}")
    return value


def _points(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"a list of outputs; given: {value!r}")
    for point in value:
        parts = point if isinstance(point, (list, tuple)) else [point]
        if any(isinstance(v, float) and not math.isfinite(v) for v in parts):
            raise ValueError(f"finite outputs; given: {point!r}")
    return tuple(tuple(v) if isinstance(v, list) else v for v in value)


Number = bool | int | float | str
Interval = tuple[float, float]
Point = Number | tuple[Number, ...]


_NUMBER = {"type": ["number", "string", "boolean"]}
_INTERVAL = {"type": "array", "prefixItems": [{"type": "number"}] * 2, "minItems": 2, "maxItems": 2}


class Pure(Section):
    """[pure]: in place of cells by ε, one set and one output of each pair, chosen by training.

    within: C, an interval a column; everywhere where it is left out. floor: τ of the published estimate, a probability or a
    density. at: outputs at which an interval for the loss is wanted. test: which pairs get fresh samples.
    """

    within: Annotated[
        tuple[Interval, ...] | None,
        BeforeValidator(_intervals),
        one_of_types({"type": "array", "items": _INTERVAL, "minItems": 1}, NULL),
        Key("learned"),
    ] = None
    floor: Annotated[
        float | None,
        BeforeValidator(_floor),
        one_of_types({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, NULL),
    ] = None
    at: Annotated[
        tuple[Point, ...],
        BeforeValidator(_points),
        one_of_types({"type": "array", "items": {"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER}]}}),
        Key("family"),
    ] = ()
    test: Annotated[Literal["winner", "all"], Key("family")] = "winner"

    def floor_of(self, train: int) -> float:
        """τ with so many training samples."""
        if self.floor is not None:
            return self.floor
        return _LOWER_FLOOR if train >= _MANY else _FLOOR
