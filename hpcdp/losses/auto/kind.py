"""What `auto` says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.auto.parameters import FEWEST_LEARNED, JUDGED, TAUGHT, AutoParameters
from hpcdp.losses.kind import LossKind, Seconds
from hpcdp.losses.knn.kind import KnnKind
from hpcdp.losses.knn.parameters import KnnParameters
from hpcdp.losses.learned.kind import LearnedKind
from hpcdp.losses.learned.parameters import LearnedParameters
from hpcdp.losses.smooth.kind import SmoothKind
from hpcdp.losses.smooth.parameters import SmoothParameters

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
        taught, judged = (4 * min(train // 2, most) for most in (TAUGHT, JUDGED))
        smooth = SmoothKind().seconds(SmoothParameters(), schema, train, many_valued)
        each = 2 * (smooth[2] + knn[2]) + taught * (smooth[0] + knn[0]) + judged * (smooth[1] + knn[1])
        if train // 2 < FEWEST_LEARNED:
            return smooth[0], smooth[1], smooth[2] + each
        learned = LearnedKind().seconds(LearnedParameters(), schema, train, many_valued)
        each += 2 * learned[2] + taught * learned[0] + judged * learned[1]
        return learned[0], learned[1], learned[2] + each

    def memory(self, parameters: AutoParameters, schema: Schema, train: int) -> int:
        """Sequences as `knn` holds them; of numbers both halves too, and cells."""
        if schema.kind == "bytes":
            return KnnKind().memory(KnnParameters(), schema, train)
        return 2 * super().memory(parameters, schema, train) + _CELLS_BYTES
