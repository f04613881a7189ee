"""What `histogram` says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.histogram.parameters import HistogramParameters
from hpcdp.losses.kind import LossKind, Seconds

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema


class HistogramKind(LossKind):
    """`histogram`, whose counts belong to laws and not to pairs."""

    parameters = HistogramParameters
    way = "histogram"
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
