"""[mechanism] and [pure] of a study: what draws outputs and how it is called; pure ε of a pair, of a data set, of each row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, PrivateAttr, Tag

from hpcdp._base.plugins import import_path
from hpcdp.errors import StudyError
from hpcdp.mechanisms import BUILTINS, READERS
from hpcdp.mechanisms.code_digest import digest_function
from hpcdp.mechanisms.special import MOST_RAISED
from hpcdp.mechanisms.user_code import name_of, unsendable
from hpcdp.study.section import NULL, Key, Seconds, Section, one_of_types


class ProgramCall(Section):
    """mechanism.call as a table: a program in an environment of its own. timeout: seconds a chunk may take."""

    command: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1), Key("law")]
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False), Key("nothing", "change")] = 600.0
    start_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False), Key("nothing", "change")] = 120.0


class FunctionCall(Section):
    """mechanism.call of a function that was given as an object: what a store keeps of it, its name and its digest."""

    function: Annotated[str, Field(min_length=1), Key("law")]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{32}$"), Key("nothing", "change")]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionCall:
        """What is kept of a function; StudyError where it cannot be sent to another process, as what has no digest cannot."""
        name = name_of(function)
        try:
            return cls(function=name, digest=digest_function(function))
        except StudyError as error:
            raise unsendable(name, str(error)) from None


_NAME, _PROGRAM, _FUNCTION = "(name)", "(program)", "(function)"  # in parentheses, messages leave them out


def _mechanism(given: Any) -> Any:
    """A built-in's name or an import path; of a mechanism that a package offers, its import path."""
    return import_path("hpcdp.mechanisms", given, (*BUILTINS, *READERS))


def _kind_of_call(value: Any) -> str:
    if isinstance(value, FunctionCall) or (isinstance(value, dict) and "function" in value):
        return _FUNCTION
    return _PROGRAM if isinstance(value, dict | ProgramCall) else _NAME


class MechanismSection(Section):
    """[mechanism]: a built-in's name, "package.module:callable", a program, or a function of this process; its parameters."""

    call: Annotated[
        Annotated[str, Field(min_length=1), BeforeValidator(_mechanism), Tag(_NAME)]
        | Annotated[ProgramCall, Tag(_PROGRAM)]
        | Annotated[FunctionCall, Tag(_FUNCTION)],
        Discriminator(_kind_of_call),
        Key("law"),
    ]
    parameters: Annotated[dict[str, Any], Key("law")] = Field(default_factory=dict)
    reproducible: Annotated[bool, Key("law", absent=True)] = True
    timeout: Annotated[Seconds | None, Key("nothing", "change", absent=None)] = None
    raises: Annotated[
        Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=MOST_RAISED)] | None,
        Key("law", absent=None),
    ] = None
    isolated: Annotated[bool, Key("nothing", "change", absent=True)] = True
    impossible: Annotated[
        Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] | None, Key("family", "change", absent=None)
    ] = None
    _function: Callable[..., Any] | None = PrivateAttr(None)

    def holding(self, function: Callable[..., Any] | None) -> None:
        """The function was given as an object in this process; None: it is known by its name and digest alone."""
        self._function = function

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function, where it was given as an object in this process."""
        return self._function

    @property
    def handed(self) -> dict[str, Any]:
        """What tasks need of a function that was given and stores do not have: by digest itself; by import path its digest."""
        if self._function is None:
            return {}
        if isinstance(self.call, FunctionCall):
            return {self.call.digest: self._function}
        return {str(self.call): digest_function(self._function, code_alone=True)}


_FLOOR, _LOWER_FLOOR, _MANY = 1e-3, 1e-4, 10**5  # τ, τ with so many training samples: settings of the paper's Section V


def _interval(value: Any) -> tuple[float, float] | None:
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(v) in (int, float) for v in value):
        low, high = float(value[0]), float(value[1])
        if low < high and math.isfinite(low) and math.isfinite(high):
            return low, high
    return None


def _intervals(value: Any) -> Any:
    intervals = [_interval(v) for v in value] if isinstance(value, (list, tuple)) else []
    if value is not None and (not intervals or None in intervals):
        raise ValueError(
            f"a list of intervals [low, high] with low < high, both finite, one a column; given: {value!r}"
        )
    return None if value is None else tuple(intervals)


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
    """[pure]: in place of cells by ε, one set and one output of each pair, chosen by training."""

    within: Annotated[
        tuple[Interval, ...] | None,
        BeforeValidator(_intervals),
        one_of_types({"type": "array", "items": _INTERVAL, "minItems": 1}, NULL),
        Key("learned"),
    ] = None
    floor: Annotated[float, Field(gt=0, lt=1)] | None = None
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
