"""Parameters of `kde`. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcdp.losses.kind import Parameters

Bandwidth = Literal["silverman", "sheather-jones"]


class KdeParameters(Parameters):
    """Parameters of `kde`.

    bandwidth: a rule, or a number in the outputs' own unit. floor: a density estimate counts as known from this many times
    1/(n·h), with n the draws and h the bandwidth of its side, or 1/(√(2π)·n·h₀·h₁) of two columns.
    """

    bandwidth: Bandwidth | Annotated[float, Field(gt=0.0, strict=True, allow_inf_nan=False)] = "silverman"
    floor: Annotated[float, Field(ge=1e-6, strict=True, allow_inf_nan=False)] = 1.0
