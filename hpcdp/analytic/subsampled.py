"""A pair whose difference is seen only when a random batch of rows holds the row that differs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import positive, refusal
from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._divergence import Parts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Subsampled(Curve):
    """P against (1 - rate) P + rate Q, where `curve` is the pair (P, Q): its trade-off curve is rate T + (1 - rate) Id.

    Id(a) = 1 - a. It is the exact pair of a mechanism on random batches if all batches of D, and those of D' without the
    row that differs, give one law P, those with that row give one law Q, and a batch holds it with probability `rate`.
    Two cases in which this is so, for D' = D with one row changed (the edit relation):

    - batches of m rows of r without replacement, rate = m/r; all rows of D are equal, and the mechanism does not look at
      the order of rows, or m = 1. So it is with the sum of m of r zeros and normal noise (Askin et al. 2025, App. B.2).
    - Poisson sampling; the sum of rows that are 0 in D, of which one is not 0 in D'.

    Where the other rows differ from each other, P is not one law and this is not the pair's curve. It is not symmetric.

    Args:
        curve: the pair (P, Q).
        rate: how often a batch holds the row that differs, above 0 and at most 1.

    Raises:
        ValueError: the rate is out of range.
    """

    curve: Curve
    rate: float

    def __post_init__(self) -> None:
        if positive("rate", self.rate) > 1.0:
            raise refusal("rate", self.rate, "a number above 0, at most 1")

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        # 1 - e^level (1 - rate) without a difference of numbers near 1: the digits of small rates and deltas are in it
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            kept = np.log1p(-self.rate)
            if direction == "reverse":
                # rate Q + (1 - rate) P - e^epsilon P = rate (Q - e^level P)
                level = epsilon + np.log(-np.expm1(kept - epsilon)) - np.log(self.rate)
                return self.rate * self.curve.delta(np.maximum(level, 0.0), "reverse")
            # P - e^epsilon (rate Q + (1 - rate) P) = share (P - e^level Q)
            share = np.maximum(-np.expm1(epsilon + kept), 0.0) if self.rate < 1.0 else np.ones(epsilon.shape)
            level = np.where(share > 0.0, epsilon + np.log(self.rate) - np.log(share), np.inf)
        return share * self.curve.delta(np.maximum(level, 0.0), "forward")

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            inner = (eta - (1.0 - self.rate)) / self.rate
        inner = np.where(eta < np.inf, np.minimum(inner, np.finfo(np.float64).max), np.inf)  # only infinity is infinity
        alpha, beta = self.curve.point(np.maximum(inner, 0.0))
        beta = self.rate * beta + (1.0 - self.rate) * (1.0 - alpha)
        # The ratio of the laws is at least 1 - rate everywhere.
        return np.where(inner < 0.0, 1.0, alpha), np.where(inner < 0.0, 0.0, beta)

    def _tradeoff(self, alpha: Array) -> Array:
        return self.rate * self.curve.tradeoff(alpha) + (1.0 - self.rate) * (1.0 - alpha)

    def _parts(self, order: float) -> Parts:
        return self.curve._parts(order).mixed(self.rate)
