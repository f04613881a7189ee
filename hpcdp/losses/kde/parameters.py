"""Parameters of `kde`, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hpcdp.losses.kind import LossKind, Parameters, Seconds, plain_seconds, refuse_strings

if TYPE_CHECKING:
    from hpcdp.mechanisms.outputs import Schema

Bandwidth = Literal["silverman", "sheather-jones"]


class KdeParameters(Parameters):
    """Parameters of `kde`.

    bandwidth: a rule, or a number in the outputs' own unit. floor: a density estimate counts as known from this many times
    1/(n·h), with n the draws and h the bandwidth of its side, or 1/(√(2π)·n·h₀·h₁) of two columns.
    """

    bandwidth: Bandwidth | Annotated[float, Field(gt=0.0, strict=True, allow_inf_nan=False)] = "silverman"
    floor: Annotated[float, Field(ge=1e-6, strict=True, allow_inf_nan=False)] = 1.0


def refuse_unestimable(are_strings: bool, columns: int) -> None:
    """Raise ValueError where outputs are no numbers, or of more than two columns."""
    refuse_strings("kde", are_strings)
    if columns > 2:
        raise ValueError(
            f"loss: 'kde' needs outputs of one or two columns, as densities of more take too many outputs; these have "
            f"{columns}; accepted: knn, learned, or frequency where values are few"
        )


class KdeKind(LossKind):
    """`kde`."""

    parameters = KdeParameters
    loss = "hpcdp.losses.kde.kde:Kde"

    def refuse(self, parameters: KdeParameters, schema: Schema, train: int) -> None:
        """Outputs are one or two columns of numbers."""
        refuse_unestimable(schema.kind == "bytes", schema.columns or 1)

    def seconds(self, parameters: KdeParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Two columns take a grid of two dimensions."""
        return (schema.columns != 2 and plain_seconds(schema, many_valued)) or (1.5e-7, 1.5e-7, 5.0e-4)
