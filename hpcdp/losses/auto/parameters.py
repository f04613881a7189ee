"""Parameters of `auto`, which has none, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.kind import LossKind, Parameters, Seconds
from hpcdp.losses.knn.parameters import KnnKind, KnnParameters
from hpcdp.losses.learned.parameters import LearnedKind, LearnedParameters
from hpcdp.losses.smooth.parameters import SmoothKind, SmoothParameters

if TYPE_CHECKING:
    from hpcdp.mechanisms.outputs import Schema

TAUGHT = 1 << 15
"""Vectors of a half of the training outputs of a database that teach what is judged."""

FEWEST_LEARNED = 1 << 10
"""Vectors of a half with which `learned` is a candidate: it takes long, and few teach a classifier nothing that others lack."""

JUDGED = 1 << 13
"""Vectors of the other half that judge: `knn` takes long for each."""
_CELLS_BYTES = 1 << 25  # what 2¹⁶ cells and their sets at some 40 thresholds take


class AutoParameters(Parameters):
    """Parameters of `auto`: none, because training outputs decide."""


class AutoKind(LossKind):
    """`auto`."""

    parameters = AutoParameters
    loss = "hpcdp.losses.auto.auto:Auto"
    sizes = (1 << 18, 7 << 18)  # of 2²¹ samples an eighth learns, in whole chunks
    joins_sets = True
    otherwise = "knn"

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
