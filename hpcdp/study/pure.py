"""The section [pure] of a study file: pure ε of a pair, of a data set, of each row."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from hpcdp.study.section import Key, Section

_FLOOR, _LOWER_FLOOR, _MANY = 1e-3, 1e-4, 10**5  # τ, τ with so many training samples: settings of the paper's Section V


def _interval(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(v) in (int, float) for v in value):
        low, high = float(value[0]), float(value[1])
        if low < high:
            return low, high
    raise ValueError(f"an interval is [low, high] with low < high, both finite; given: {value!r}")


def _point(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return value


Number = bool | int | float | str
Finite = Annotated[float, Field(allow_inf_nan=False)]
Interval = Annotated[tuple[Finite, Finite], BeforeValidator(_interval)]
Point = Annotated[Number | tuple[Number, ...], BeforeValidator(_point)]
Listed = BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)


class Pure(Section):
    """[pure]: in place of cells by ε, one set and one output of each pair, chosen by training.

    within: C, an interval a column; everywhere where it is left out. floor: τ of the published estimate, a probability or a
    density. at: outputs at which an interval for the loss is wanted. test: which pairs get fresh samples.
    """

    within: Annotated[tuple[Interval, ...] | None, Listed, Key("learned")] = None
    floor: Annotated[float, Field(gt=0, lt=1)] | None = None
    at: Annotated[tuple[Point, ...], Listed, Key("family")] = ()
    test: Annotated[Literal["winner", "all"], Key("family")] = "winner"

    @model_validator(mode="after")
    def _some_interval(self) -> Self:
        if self.within is not None and not self.within:
            raise ValueError("within: an interval a column; given: []")
        return self

    def floor_of(self, train: int) -> float:
        """τ with so many training samples."""
        if self.floor is not None:
            return self.floor
        return _LOWER_FLOOR if train >= _MANY else _FLOOR
