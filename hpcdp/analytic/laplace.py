"""The Laplace mechanism when one number is shifted."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import non_negative
from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._divergence import Parts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LaplaceShift(Curve):
    """Laplace noise around 0 (P) and around a shift (Q); the pair is symmetric.

    The spectrum is Lemma 2 of Lu, Magdon-Ismail, Wei and Zikas (2024); the trade-off curve follows from the
    Neyman-Pearson lemma, as q/p has atoms at both ends and is continuous between.

    Args:
        epsilon0: the distance of the two centres in units of the noise scale, >= 0; 0 means P = Q. It is
            the pure privacy level of the pair.

    Raises:
        ValueError: epsilon0 is no finite number >= 0.
    """

    epsilon0: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon0", non_negative("epsilon0", self.epsilon0))

    def pure(self) -> float:
        return self.epsilon0

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        return -np.expm1(-0.5 * np.maximum(self.epsilon0 - epsilon, 0.0))

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", divide="ignore"):
            # The atoms of q/p sit at these two values: comparing thresholds, not their logs, keeps "strict".
            least, most = np.exp(-self.epsilon0), np.exp(self.epsilon0)
            level = np.clip(np.log(eta), -self.epsilon0, self.epsilon0)
        alpha = 0.5 * np.exp(-0.5 * (self.epsilon0 + level))
        beta = 0.5 * np.exp(-0.5 * (self.epsilon0 - level))
        low, high = (eta < least) | (eta == 0.0), eta >= most
        alpha = np.where(low, 1.0, np.where(high, 0.0, alpha))
        beta = np.where(low, 0.0, np.where(high, 1.0, beta))
        return alpha, beta

    def _tradeoff(self, alpha: Array) -> Array:
        edge = 0.5 * np.exp(-self.epsilon0)
        right = np.exp(-self.epsilon0) * (1.0 - alpha)
        with np.errstate(divide="ignore", over="ignore"):
            # In log space, as e^epsilon0 overflows where alpha underflows.
            scaled = self.epsilon0 + np.log(alpha)
            left, middle = 1.0 - np.exp(scaled), 0.25 * np.exp(-scaled)
        return np.where(alpha < edge, left, np.where(alpha <= 0.5, middle, right))

    def _parts(self, order: float) -> Parts:
        def densities(x: Array) -> tuple[Array, Array]:
            return -x - math.log(2.0), x - self.epsilon0 - math.log(2.0)

        ends = -math.log(2.0) - np.array([0.0, self.epsilon0])
        edges = np.linspace(0.0, self.epsilon0, 2 + int(min(self.epsilon0, 1000.0)))
        return Parts(((densities, edges),), ends, ends[::-1])

    def _renyi(self, order: float, direction: Direction) -> float:
        # e^((a−1)·epsilon0) times 1 − (a − 1)/(2a − 1)·(1 − e^(−(2a−1)·epsilon0)) is the moment
        less = math.expm1(-(2.0 * order - 1.0) * self.epsilon0) / (2.0 * order - 1.0)
        if order == 1.0:
            return self.epsilon0 + less
        return self.epsilon0 + math.log1p((order - 1.0) * less) / (order - 1.0)
