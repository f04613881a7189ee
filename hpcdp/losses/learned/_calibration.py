"""Calibration: scores become log-odds on training samples that the classifier did not learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Platt:
    """Log-odds = slope · score + intercept (Platt 1999); low, high: what stands for a score of −∞ and ∞."""

    slope: float
    intercept: float
    low: float
    high: float

    def logits(self, scores: Floats) -> Floats:
        """Log-odds of D' of scores (size,), shape (size,)."""
        return self.slope * _finite(scores, self.low, self.high) + self.intercept

    def state(self) -> dict[str, NDArray[Any]]:
        """The four numbers."""
        return {"platt": np.array([self.slope, self.intercept, self.low, self.high])}


@dataclass(frozen=True, eq=False)
class Isotonic:
    """Log-odds of the rising function of the score that fits best (Zadrozny and Elkan 2002); score, chance: (points,)."""

    score: Floats
    chance: Floats

    def logits(self, scores: Floats) -> Floats:
        """Log-odds of D' of scores (size,), shape (size,)."""
        return logit(np.interp(scores, self.score, self.chance))

    def state(self) -> dict[str, NDArray[Any]]:
        """The points of the function."""
        return {"isotonic_score": self.score, "isotonic_chance": self.chance}


Calibration = Platt | Isotonic
"""A map from scores, larger where D' is likelier, to log-odds of D'."""


def learn_calibration(method: str, scores: Floats, is_other: NDArray[np.bool_]) -> Calibration:
    """ "platt" or "isotonic", from scores (size,) of held-out rows and whether each came from D'.

    Isotonic chances stay 1/(size + 2) away from 0 and 1: held-out rows cannot tell more.
    """
    finite = scores[np.isfinite(scores)]
    low, high = (finite.min(), finite.max()) if finite.size else (-1.0, 1.0)
    scores = np.nan_to_num(_finite(scores, low, high))
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        least = 1.0 / (scores.size + 2)
        isotonic = IsotonicRegression(y_min=least, y_max=1.0 - least).fit(scores, is_other)
        return Isotonic(isotonic.X_thresholds_, isotonic.y_thresholds_)
    from sklearn.linear_model import LogisticRegression

    width = float(scores.std()) or 1.0
    line = LogisticRegression().fit(scores[:, None] / width, is_other)
    return Platt(float(line.coef_[0, 0]) / width, float(line.intercept_[0]), float(low), float(high))


def _finite(scores: Floats, low: float, high: float) -> Floats:
    """Scores with ±∞ replaced; a NaN stays one."""
    return np.nan_to_num(scores, nan=np.nan, posinf=high, neginf=low)


def restore_calibration(state: Mapping[str, NDArray[Any]]) -> Calibration | None:
    """The calibration that `state` holds, if any."""
    if "platt" in state:
        return Platt(*map(float, state["platt"]))
    if "isotonic_score" in state:
        return Isotonic(state["isotonic_score"], state["isotonic_chance"])
    return None
