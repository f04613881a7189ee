"""The pair the other way round."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._divergence import Parts
from hpcdp.analytic._invert import invert_non_increasing

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reversed(Curve):
    """(Q, P), where `curve` is the pair (P, Q).

    Its trade-off curve is the inverse of the other one (Dong, Roth and Su 2022), found by bisection.

    Args:
        curve: the pair (P, Q).
    """

    curve: Curve

    def pure(self) -> float | None:
        return self.curve.pure()

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        return self.curve.delta(epsilon, "reverse" if direction == "forward" else "forward")

    def _point(self, eta: Array) -> tuple[Array, Array]:
        # p/q > eta is q/p < 1/eta, so q/p <= the number before it.
        with np.errstate(divide="ignore", over="ignore"):
            before = np.nextafter(1.0 / eta, 0.0)
        alpha, beta = self.curve.point(before)
        never = eta == np.inf
        return np.where(never, 0.0, beta), np.where(never, 1.0, alpha)

    def _tradeoff(self, alpha: Array) -> Array:
        return invert_non_increasing(lambda size: self.curve.tradeoff(np.minimum(size, 1.0)), alpha)

    def _parts(self, order: float) -> Parts:
        return self.curve._parts(order).reversed()

    def _renyi(self, order: float, direction: Direction) -> float:
        return self.curve._renyi(order, "reverse" if direction == "forward" else "forward")
