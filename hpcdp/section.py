"""What the sections of a study file share: their base, and the types of grids, rows and names."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Section(BaseModel):
    """A frozen table of the study file; unknown keys are errors, and no type is turned into another."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _grid(value: Any) -> Any:
    """{start, stop, count} (stop included) or a list of numbers -> a sorted tuple of distinct floats."""
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"start", "stop", "count"})
        missing = sorted({"start", "stop", "count"} - set(value))
        if unknown or missing:
            wrong = f"missing: {missing or 'none'}, unknown: {unknown or 'none'}"
            raise ValueError(f"a grid is {{start, stop, count}}; {wrong}")
        start, stop, count = value["start"], value["stop"], value["count"]
        if type(count) is not int or count < 1:
            raise ValueError("count is a positive integer")
        if not _is_number(start) or not _is_number(stop) or not stop >= start:
            raise ValueError("start and stop are finite numbers with stop >= start")
        if count == 1:
            return (float(start),)
        step = (stop - start) / (count - 1)
        points = [start + step * i for i in range(count - 1)] + [stop]
        value = [round(p, 12) if abs(round(p, 12) - p) <= 4e-16 * max(1.0, abs(p)) else p for p in points]
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("a grid has at least one point")
        if not all(_is_number(v) for v in value):
            raise ValueError("a grid is a list of finite numbers or {start, stop, count}")
        points = sorted(float(v) + 0.0 for v in value)
        if len(set(points)) < len(points):
            raise ValueError("the points of a grid are distinct")
        return tuple(points)
    raise ValueError("a grid is a list of finite numbers or {start, stop, count}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


Grid = Annotated[tuple[float, ...], BeforeValidator(_grid)]
OptionalGrid = Annotated[tuple[float, ...], BeforeValidator(lambda v: () if v in ([], ()) else _grid(v))]
Names = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Field(min_length=1),
    BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v),
]
Rows = Annotated[
    Literal["all"] | tuple[Annotated[int, Field(ge=0)], ...],
    BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v),
]
