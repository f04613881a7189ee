"""The plain counter: score, then compare with the thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.counts import classes_of, count_losses
from hpcdp.losses.protocol import Model, Outputs


@dataclass(frozen=True, eq=False)
class PlainCounter:
    """Counts by the scores of a model, for sorted distinct thresholds (T,); it is restored by fitting again."""

    model: Model
    thresholds: NDArray[np.float64]

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        """Histogram of outputs over the 2T + 1 classes of L̂, shape (2T + 1,), int64."""
        return count_losses(self.model.score(outputs), self.thresholds)

    def classes_of(self, outputs: Outputs) -> NDArray[np.int64]:
        """Class of each output, shape (size,)."""
        return classes_of(self.model.score(outputs), self.thresholds)

    def state(self) -> dict[str, NDArray[Any]] | None:
        """None: the model is too large to keep."""
        return None
