"""What `smooth` says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.kind import LossKind, Seconds
from hpcdp.losses.smooth.parameters import PRODUCTS, SmoothParameters

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema


class SmoothKind(LossKind):
    """`smooth`."""

    parameters = SmoothParameters
    projects = True

    def make(self, parameters: SmoothParameters) -> Loss:
        """The loss."""
        from hpcdp.losses.smooth.smooth import Smooth

        return Smooth(parameters)

    def refuse(self, parameters: SmoothParameters, schema: Schema, train: int) -> None:
        """Outputs are numbers."""
        from hpcdp.losses.smooth.smooth import refuse_unsmooth

        refuse_unsmooth(schema)

    def seconds(self, parameters: SmoothParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """A spline takes a while however few points there are; each column adds a little."""
        if schema.columns is None:
            return 6.0e-8, 1.5e-8, 3.0e-2
        columns = schema.columns
        features = 1 + 2 * columns if columns > PRODUCTS else 1 + columns + columns * (columns + 1) // 2
        each = 3.0e-2 + 1.3e-8 * features**3  # Newton's steps, whatever the number of outputs
        return 4.0e-7 + 5.0e-8 * columns, 1.0e-8 + 4.0e-9 * columns, each
