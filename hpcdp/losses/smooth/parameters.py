"""Parameters of `smooth`. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from hpcdp.losses.kind import Parameters

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
