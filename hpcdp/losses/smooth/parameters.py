"""Parameters of `smooth`, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from hpcdp.losses.kind import LossKind, Parameters, Seconds, refuse_strings

if TYPE_CHECKING:
    from hpcdp.mechanisms.outputs import Schema

PRODUCTS = 10
"""Columns of which all products of two are features; of more, squares only."""


class SmoothParameters(Parameters):
    """Parameters of `smooth`.

    degree: of the polynomial that brings vectors to the line; "auto" chooses on outputs that it did not learn from.
    """

    degree: Literal["auto", 1, 2] = "auto"

    @field_validator("degree", mode="before")
    @classmethod
    def _is_no_boolean(cls, degree: Any) -> Any:
        if isinstance(degree, bool):
            raise PydanticCustomError("literal_error", "'auto', 1 or 2")
        return degree


class SmoothKind(LossKind):
    """`smooth`."""

    parameters = SmoothParameters
    loss = "hpcdp.losses.smooth.smooth:Smooth"
    projects = True

    def refuse(self, parameters: SmoothParameters, schema: Schema, train: int) -> None:
        """Outputs are numbers."""
        refuse_strings("smooth", schema.kind == "bytes")

    def seconds(self, parameters: SmoothParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """A spline takes a while however few points there are; each column adds a little."""
        if schema.columns is None:
            return 6.0e-8, 1.5e-8, 3.0e-2
        columns = schema.columns
        features = 1 + 2 * columns if columns > PRODUCTS else 1 + columns + columns * (columns + 1) // 2
        each = 3.0e-2 + 1.3e-8 * features**3  # Newton's steps, whatever the number of outputs
        return 4.0e-7 + 5.0e-8 * columns, 1.0e-8 + 4.0e-9 * columns, each
