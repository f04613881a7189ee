"""What `kde` says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.kde.parameters import KdeParameters
from hpcdp.losses.kind import LossKind, Seconds, plain_seconds

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema


class KdeKind(LossKind):
    """`kde`."""

    parameters = KdeParameters

    def make(self, parameters: KdeParameters) -> Loss:
        """The loss."""
        from hpcdp.losses.kde.kde import Kde

        return Kde(parameters)

    def refuse(self, parameters: KdeParameters, schema: Schema, train: int) -> None:
        """Outputs are one or two columns of numbers."""
        from hpcdp.losses.kde.kde import refuse_unestimable

        refuse_unestimable(schema)

    def seconds(self, parameters: KdeParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Two columns take a grid of two dimensions."""
        return (schema.columns != 2 and plain_seconds(schema, many_valued)) or (1.5e-7, 1.5e-7, 5.0e-4)
