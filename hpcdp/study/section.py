"""What the sections of a study file share: their base, and the types of grids, rows and names."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

_MOST_POINTS = 100_000  # of a grid: cells of one pair are twice as many

ALWAYS: Any = object()
"""What the absence of a key means that every store has: nothing."""

STORED = {"for": "a store"}
"""The context of what a store holds of a study (`Section`)."""


@dataclass(frozen=True)
class Key:
    """What a key of the study file says about itself; records, refusals, stored studies and defaults follow from it."""

    # what is drawn; what training teaches; L̂ beyond that; which bounds hold together; no number
    decides: Literal["law", "pilot", "learned", "family", "nothing"]
    may: Literal["stay", "grow", "gain", "change"] = "stay"  # from one version of a stored study to the next
    absent: Any = ALWAYS  # what absence in a store means, and what is never stored
    added: Callable[[], Any] | None = None  # what a command adds by itself, which a file may lack
    kept: bool = False  # whether a file without the key goes on with what a store says


class Section(BaseModel):
    """A frozen table of the study file; unknown keys are errors, and no type is turned into another."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    def keys(cls) -> dict[str, Key]:
        """What its keys say about themselves, in their order; of tables within, and of what is no setting, nothing."""
        return dict(_said(cls))

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, dump: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """For a store, what absence means there; else only what it means in a file too, so that it can be read again."""
        values: dict[str, Any] = dump(self)
        fields, is_stored = type(self).model_fields, info.context is STORED
        absent = {
            name: key.absent
            for name, key in _said(type(self)).items()
            if key.absent is not ALWAYS and (is_stored or key.absent == fields[name].default)
        }
        return {name: value for name, value in values.items() if name not in absent or value != absent[name]}


@cache
def _said(section: type[Section]) -> dict[str, Key]:
    keys = ((name, [m for m in field.metadata if isinstance(m, Key)]) for name, field in section.model_fields.items())
    return {name: said[0] for name, said in keys if said}


def refuse_all_but_one(section: Section, *keys: str) -> None:
    """ValueError unless exactly one of these keys is given."""
    given = [key for key in keys if getattr(section, key) is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(keys)}; given: {', '.join(given) or 'none'}")


def whole(value: Any) -> Any:
    """1e4 as 10000: TOML writes large integers as floats, and one without a fraction can mean nothing else."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(whole)
"""Of keys that take integers; it stands behind their ranges."""


def grid(value: Any) -> Any:
    """{start, stop, count} (stop included) or a list of numbers -> a sorted tuple of distinct floats."""
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"start", "stop", "count"})
        missing = sorted({"start", "stop", "count"} - set(value))
        if unknown or missing:
            wrong = f"missing: {missing or 'none'}, unknown: {unknown or 'none'}"
            raise ValueError(f"a grid is {{start, stop, count}}; {wrong}")
        start, stop, count = value["start"], value["stop"], whole(value["count"])
        if type(count) is not int or not 1 <= count <= _MOST_POINTS:
            raise ValueError(f"count is an integer from 1 to {_MOST_POINTS:,}; given: {value['count']!r}")
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
        if len(value) > _MOST_POINTS:
            raise ValueError(f"a grid has at most {_MOST_POINTS:,} points; given: {len(value):,}")
        if not all(_is_number(v) for v in value):
            raise ValueError("a grid is a list of finite numbers or {start, stop, count}")
        points = sorted(float(v) + 0.0 for v in value)
        if len(set(points)) < len(points):
            raise ValueError("the points of a grid are distinct")
        return tuple(points)
    raise ValueError("a grid is a list of finite numbers or {start, stop, count}")


_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = rf"^(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})$"
"""What durations look like: "90s", "10 min", "1.5h"."""


def duration_seconds(text: str) -> float:
    """Seconds of a duration; ValueError where it is none."""
    match = re.fullmatch(_DURATION, text)
    if match is None:
        raise ValueError(f'a duration such as "90s", "10 min", "1.5h" or "1d"; given: {text!r}')
    return float(match[1]) * _UNITS[match[2]]


def _is_number(value: Any) -> bool:
    with suppress(OverflowError):  # an integer beyond all floats
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return False


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        value = duration_seconds(value)
    if not _is_number(value) or not value > 0:
        raise ValueError('seconds, above 0, or a duration such as "90s", "10 min" or "1.5h"')
    return float(value)


def one_of_types(*kinds: dict[str, Any]) -> WithJsonSchema:
    """What a JSON Schema says of a key that a file may write in several ways, which no type shows."""
    return WithJsonSchema({"anyOf": list(kinds)}, mode="validation")


def grid_of(*empty: Any, given: Any = (), most: int = _MOST_POINTS, **bounds: float) -> tuple[Any, WithJsonSchema]:
    """How a grid is checked, and its JSON Schema. empty: what stands for no points, then `given`. bounds: of each point."""

    def checked(value: Any) -> Any:
        if any(value is one or (type(value) is type(one) and value == one) for one in empty):
            return given
        points = grid(value)
        if len(points) > most:
            raise ValueError(f"at most {most} points; given: {len(points)}")
        for name, (words, holds) in _BOUNDS.items():
            if name in bounds and (beyond := [point for point in points if not holds(point, bounds[name])]):
                raise ValueError(f"{words} {bounds[name]:g}; given: {beyond[0]}")
        return points

    point = {"type": "number", **bounds}
    least = 0 if [] in empty else 1
    listed = {"type": "array", "items": point, "minItems": least, "maxItems": most, "uniqueItems": True}
    parts = {"start": point, "stop": {"type": "number"}, "count": {"type": "integer", "minimum": 1, "maximum": most}}
    table = {"type": "object", "properties": parts, "required": [*parts], "additionalProperties": False}
    return BeforeValidator(checked), one_of_types(listed, table, *([NULL] if None in empty else []))


_BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "minimum": ("at least", operator.ge),
    "exclusiveMinimum": ("above", operator.gt),
    "maximum": ("at most", operator.le),
}
NULL = {"type": "null"}
DURATION = {"type": "string", "pattern": _DURATION}
Seconds = Annotated[float, BeforeValidator(_seconds), one_of_types({"type": "number", "exclusiveMinimum": 0}, DURATION)]
Rows = Annotated[
    Literal["all"] | tuple[Annotated[int, Field(ge=0)], ...],
    BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v),
    one_of_types(
        {"const": "all"},
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True},
    ),
]
