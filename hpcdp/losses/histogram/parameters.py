"""Parameters of `histogram`, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hpcdp.losses.kind import LossKind, Parameters, Seconds

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

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


class HistogramKind(LossKind):
    """`histogram`, whose counts belong to laws and not to pairs."""

    parameters = HistogramParameters
    method = "histogram"
    bounds_pure = True

    def make(self, parameters: HistogramParameters) -> Loss:
        """None: its bins are counted law by law."""
        raise ValueError("loss 'histogram' counts bins, law by law; hpcdp.losses.histogram.counting does so")

    def refuse(self, parameters: HistogramParameters, schema: Schema, train: int) -> None:
        """Outputs are one real number each."""
        from hpcdp.mechanisms.outputs import describe

        if schema.kind != "float" or schema.columns is not None:
            raise ValueError(f"loss: histogram: outputs that are one real number each; given: {describe(schema)}")

    def refuse_outputs(self, parameters: HistogramParameters, least: float, most: float) -> None:
        """All of them lie in the range."""
        from hpcdp.losses.histogram.counting import refuse_outside

        refuse_outside([least, most], parameters.range)

    def seconds(self, parameters: HistogramParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Nothing is learned beyond counts."""
        return 3.0e-9, 3.0e-9, 1.0e-4

    def memory(self, parameters: HistogramParameters, schema: Schema, train: int) -> int:
        """Counts alone."""
        return 1 << 20
