"""[pairs] of a study: the databases that are compared, given, neighbours of given ones, random ones, or a domain; in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, PrivateAttr, Tag, model_validator

from hpcdp.errors import StudyError
from hpcdp.keys import canonical_json
from hpcdp.mechanisms.code_digest import digest_value
from hpcdp.mechanisms.tabular import is_frame, row_codes
from hpcdp.study.section import WHOLE, Key, Rows, Section, refuse_all_but_one

_LISTED, _CALLED = "(list)", "(call)"  # messages leave out parts of a location in parentheses


class _Given(Section):
    """What is said of a DataFrame, which is kept beside it."""

    _given: Any = PrivateAttr(None)

    @property
    def given(self) -> Any:
        """The DataFrame, where it was given in this process."""
        return self._given


class Framed(_Given):
    """A database that was given as a DataFrame: what a study says of it. The codes of its rows are stored as arrays are."""

    frame: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    rows: Annotated[int, Field(ge=0), WHOLE]
    levels: Annotated[int, Field(ge=1), WHOLE, Key("law", absent=1)] = 1

    @classmethod
    def of(cls, frame: Any) -> Framed:
        """What is said of a DataFrame, which is kept beside it."""
        digest = "0" * 32  # of what `Frames.of` refuses, which names the column
        with suppress(StudyError):
            digest = digest_value(frame)
        made = cls(frame=digest, rows=len(frame), levels=frame.index.nlevels)
        made._given = frame.copy()
        return made


class FramedRows(_Given):
    """Rows that edits set rows of DataFrames to, which were given as a DataFrame: codes of their values, without labels."""

    codes: Annotated[list[list[int]], Field(min_length=1)]

    @classmethod
    def of(cls, frame: Any) -> FramedRows:
        """What is said of a DataFrame, which is kept beside it."""
        made = cls(codes=row_codes(frame, {}, "values").tolist())
        made._given = frame.copy()
        return made


_ROWS, _FRAME = "(rows)", "(frame)"
Rowed = Annotated[
    Annotated[list[Any], Tag(_ROWS)] | Annotated[Framed, Tag(_FRAME)],
    Discriminator(lambda value: _FRAME if isinstance(value, dict | Framed) else _ROWS),
    BeforeValidator(lambda v: Framed.of(v) if is_frame(v) else v.tolist() if isinstance(v, np.ndarray) else v),
]
"""A database of numbers, as the list of its rows, or a DataFrame by what is said of it."""

Edits = Annotated[
    Annotated[list[Any], Tag(_ROWS)] | Annotated[FramedRows, Tag(_FRAME)],
    Discriminator(lambda value: _FRAME if isinstance(value, dict | FramedRows) else _ROWS),
    BeforeValidator(lambda value: FramedRows.of(value) if is_frame(value) else value),
]
"""Rows of numbers, or a DataFrame of rows."""


class GivenPair(Section):
    """One ordered pair (D, D')."""

    d: Rowed = Field(repr=False)
    d_prime: Rowed = Field(repr=False)


class GivenCall(Section):
    """A callable that returns ordered pairs, as `hpcdp.patterns` has some ready."""

    call: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = Field(default_factory=dict, repr=False)


class Relative(Section):
    """T, and the neighbours of each of its databases: one row removed, or one row edited to other values."""

    databases: list[Rowed] | None = Field(None, repr=False)
    file: str | None = None
    call: str | None = None
    rows: Rows = "all"
    relation: Literal["remove", "edit"] = "remove"
    values: Edits | None = Field(None, repr=False)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        refuse_all_but_one(self, "databases", "file", "call")
        if self.databases is not None and not self.databases:
            raise ValueError("databases: at least one database")
        if isinstance(self.rows, tuple) and (not self.rows or len(set(self.rows)) < len(self.rows)):
            raise ValueError('rows: "all" or a list of distinct row numbers, at least one')
        if self.values is not None and (self.relation != "edit" or not self.values):
            raise ValueError('values: a list of at least one row, with relation = "edit" only')
        is_framed = any(isinstance(database, Framed) for database in self.databases or ())
        if self.values is not None and isinstance(self.values, FramedRows) != is_framed:
            raise ValueError("values: a DataFrame of rows where databases are DataFrames, and else a list of rows")
        return self


class Distributional(Section):
    """One distribution of Δ: what draws databases, which rows are held, and at which values."""

    call: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = Field(default_factory=dict, repr=False)
    index: Rows = "all"
    values: list[Any] = Field(repr=False)
    exchangeable: bool = False

    @model_validator(mode="after")
    def _rows_and_values(self) -> Self:
        if isinstance(self.index, tuple) and (not self.index or len(set(self.index)) < len(self.index)):
            raise ValueError('index: "all" or a list of distinct row numbers, at least one')
        if len({canonical_json(value) for value in self.values}) < max(2, len(self.values)):
            raise ValueError("values: a list of at least two distinct values of a row")
        return self


class Domain(Section):
    """All pairs of numbers of an interval, by the midpoints of equal buckets: local privacy."""

    lower: Annotated[float, Field(allow_inf_nan=False)]
    upper: Annotated[float, Field(allow_inf_nan=False)]
    points: Annotated[int, Field(ge=2, le=100_000), WHOLE]
    lipschitz: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # an assumption, a density's change by a unit

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        if not self.lower < self.upper or not math.isfinite(self.upper - self.lower):
            raise ValueError(f"lower < upper; given: {self.lower:g} and {self.upper:g}")
        return self

    @property
    def midpoints(self) -> list[float]:
        """Of the buckets, ascending."""
        step = (self.upper - self.lower) / self.points
        return [self.lower + (number + 0.5) * step for number in range(self.points)]

    @property
    def change(self) -> float:
        """By how much the density of an input differs from that of its bucket's midpoint, at most."""
        return 0.5 * self.lipschitz * (self.upper - self.lower) / self.points


class Pairs(Section):
    """[pairs]: exactly one of given, relative, distributional, domain."""

    given: (
        Annotated[
            Annotated[list[GivenPair], Tag(_LISTED)] | Annotated[GivenCall, Tag(_CALLED)],
            Discriminator(lambda value: _CALLED if isinstance(value, (dict, GivenCall)) else _LISTED),
        ]
        | None
    ) = None
    relative: Relative | None = None
    distributional: Annotated[
        list[Distributional] | None, BeforeValidator(lambda v: [v] if isinstance(v, dict) else v)
    ] = None
    domain: Annotated[Domain | None, Key("law", absent=None)] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        refuse_all_but_one(self, "given", "relative", "distributional", "domain")
        if self.given == []:
            raise ValueError("given: at least one pair")
        if self.distributional is not None and not self.distributional:
            raise ValueError("distributional: at least one distribution")
        return self


_NAMED = 10  # pairs that a warning lists

LEFT_OUT = "(left out)"
"""In the place of what is not handed on."""


def describe_pair(number: int, origin: dict[str, Any]) -> str:
    """A neighbour in words: whose rows were removed, edited or held, and in which view; never what is in a row of a database."""
    if "view" in origin:
        rest = {key: part for key, part in origin.items() if key != "view"}
        return f"{describe_pair(number, rest)}, view {origin['view']}"
    if "values" in origin:
        return f"distribution {origin['distribution']} with row {origin['index']} held at its two values"
    if "rows" not in origin:
        return f"d_prime of pair {number}"
    rows = origin["rows"]
    which = f"row {rows[0]}" if len(rows) == 1 else f"one of the equal rows {', '.join(map(str, rows[:4]))}"
    if len(rows) > 4:
        which += ", …"
    if "value" in origin:
        return f"database {origin['database']} with {which} edited"
    return f"database {origin['database']} without {which}"


def describe_equal(numbers: Sequence[int]) -> str:
    """What is said of pairs that compare a database with itself; nothing where there are none."""
    named = f"pair{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_NAMED]))}{', …' * (len(numbers) > _NAMED)}"
    return f"D and D′ are equal in {named}: δ is 0 there, whatever the mechanism does" if numbers else ""


def describe_side(number: int, origin: dict[str, Any], is_neighbour: bool) -> str:
    """D or D′ of a pair in words, by numbers alone."""
    if "values" in origin:
        which = f"the {('first', 'second')[is_neighbour]} value of pair {number}"
        return f"distribution {origin['distribution']} with row {origin['index']} held at {which}"
    if "points" in origin:
        return f"midpoint {origin['points'][is_neighbour]} of pairs.domain"
    if is_neighbour:
        return describe_pair(number, origin)
    return f"database {origin['database']}" if "database" in origin else f"d of pair {number}"
