"""What `auto` says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.auto.parameters import JUDGED, TAUGHT, AutoParameters
from hpcdp.losses.kind import LossKind, Seconds
from hpcdp.losses.knn.kind import KnnKind
from hpcdp.losses.knn.parameters import KnnParameters
from hpcdp.losses.learned.kind import LearnedKind
from hpcdp.losses.learned.parameters import LearnedParameters

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

_CELLS_BYTES = 1 << 25  # what 2¹⁶ cells and their sets at some 40 thresholds take


class AutoKind(LossKind):
    """`auto`."""

    parameters = AutoParameters
    sizes = (1 << 18, 7 << 18)  # of 2²¹ samples an eighth learns, in whole chunks
    joins_sets = True
    otherwise = "knn"

    def make(self, parameters: AutoParameters) -> Loss:
        """The loss."""
        from hpcdp.losses.auto.auto import Auto

        return Auto(parameters)

    def seconds(self, parameters: AutoParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Three splines of a line; of vectors what the candidates take to be judged, and `learned`, which may be chosen."""
        knn = KnnKind().seconds(KnnParameters(), schema, min(train, TAUGHT), many_valued)
        if schema.kind == "bytes":
            return knn
        if schema.columns in (None, 1):
            return 4.0e-7, 1.5e-8, 8.0e-2
        learned = LearnedKind().seconds(LearnedParameters(), schema, train, many_valued)
        taught, judged = (4 * min(train // 2, most) for most in (TAUGHT, JUDGED))
        return learned[0], learned[1], 0.1 + taught * (knn[0] + learned[0]) + judged * (knn[1] + learned[1])

    def memory(self, parameters: AutoParameters, schema: Schema, train: int) -> int:
        """Sequences as `knn` holds them; of numbers both halves too, and cells."""
        if schema.kind == "bytes":
            return KnnKind().memory(KnnParameters(), schema, train)
        return 2 * super().memory(parameters, schema, train) + _CELLS_BYTES
