"""The additive exceedance counts: integer histograms of outputs over the classes that thresholds of L̂ make.

T sorted distinct thresholds t_0 < … < t_{T-1} cut the extended line in 2T + 1 classes: class 2j is the open interval
below t_j (above t_{j-1}), class 2j + 1 is the point t_j. So both strict counts, above and below each threshold,
come from one histogram, and histograms of disjoint chunks add up in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.protocol import Counter, Model, Outputs


def merge_thresholds(epsilons: Iterable[float], etas: Iterable[float]) -> NDArray[np.float64]:
    """All thresholds of L̂ that cells need, sorted and distinct: ε (forward), −ε (reverse), −log η (trade-off)."""
    eps = np.asarray(list(epsilons), np.float64)
    eta = np.asarray(list(etas), np.float64)
    return np.unique(np.concatenate([eps, -eps, eta_thresholds(eta)]) + 0.0)  # + 0.0: no negative zero


def audit_etas() -> tuple[float, ...]:
    """The thresholds on q/p of an audit whose study has none: e^-8 to e^8 in steps of e^0.1, six digits each."""
    return tuple(float(f"{eta:.6g}") for eta in np.exp(np.linspace(-8.0, 8.0, 161)))


def eta_thresholds(etas: NDArray[np.float64]) -> NDArray[np.float64]:
    """−log η, the threshold of L below which q/p > η; etas > 0, same shape."""
    return -np.log(etas) + 0.0


def classes_of(losses: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Class of each loss among the 2T + 1 of sorted distinct thresholds (T,), shape (size,), int64."""
    return np.searchsorted(thresholds, losses, "left") + np.searchsorted(thresholds, losses, "right")


def classes_by(counter: Counter, outputs: Outputs) -> NDArray[np.integer] | None:
    """Class of each output by a counter, shape (size,); None where it can only count, as one of somebody's may."""
    tell = getattr(counter, "classes_of", None)
    return None if tell is None else tell(outputs)


def count_losses(losses: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Histogram of losses (size,) over these classes, int64."""
    return np.bincount(classes_of(losses, thresholds), minlength=2 * thresholds.size + 1).astype(np.int64)


def above(histogram: NDArray[np.int64]) -> NDArray[np.int64]:
    """Strictly above each threshold, shape (…, T), from histograms of shape (…, 2T + 1)."""
    tail = np.cumsum(histogram[..., ::-1], axis=-1)[..., ::-1]
    return tail[..., 2::2]


def below(histogram: NDArray[np.int64]) -> NDArray[np.int64]:
    """Strictly below each threshold, shape (…, T), from histograms of shape (…, 2T + 1)."""
    return np.cumsum(histogram, axis=-1)[..., :-1:2]


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
