"""Parameters of `histogram`. Imports nothing numerical, for fast validation."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hpcdp.losses.kind import Parameters

FINE = 5040
"""Bins in which training outputs are counted where training chooses their number: it has 60 divisors."""

_MOST_BINS = 10**6
_NARROWEST = 2.0**20  # a bin's width in units of the last place of the range's ends


def _range(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2 and all(type(v) in (int, float) for v in value):
        low, high = float(value[0]), float(value[1])
        if math.isfinite(high - low) and low < high:
            if (high - low) / FINE < _NARROWEST * math.ulp(max(abs(low), abs(high))):
                raise ValueError(f"an interval that floats resolve into {FINE} bins; given: {value!r}")
            return low, high
    raise ValueError(f"an interval [low, high] with low < high, both finite; given: {value!r}")


def _bins(value: Any) -> Any:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if whole == "auto" or (type(whole) is int and 1 <= whole <= _MOST_BINS):
        return whole
    raise ValueError(f'"auto" or an integer from 1 to {_MOST_BINS:,}; given: {value!r}')


class HistogramParameters(Parameters):
    """Parameters of `histogram`.

    range: the interval in which all outputs lie, in their own unit. lipschitz: C: by how much a density changes in one unit, at
    most: an assumption. bins: how many, or "auto": as many as training outputs make the interval narrowest with.
    """

    range: Annotated[tuple[float, float], BeforeValidator(_range)]
    lipschitz: Annotated[float, Field(gt=0.0, strict=True, allow_inf_nan=False)]
    bins: Annotated[int | Literal["auto"], BeforeValidator(_bins)] = "auto"

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.range[1] - self.range[0]
