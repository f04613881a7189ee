"""What (epsilon, delta)-differential privacy itself allows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import fraction, non_negative
from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._divergence import Parts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ApproximateDP(Curve):
    """The least private symmetric pair that is (epsilon0, delta0)-differentially private.

    Its trade-off curve is f_{epsilon,delta}, equation 12 of Askin, Dette, Dunsche, Kutta, Lu, Wei and Zikas
    (2025). A pair with this curve has four outcomes: of loss infinity, epsilon0, -epsilon0, -infinity.
    The spectrum is that pair's, the tightest that the curve implies.

    Args:
        epsilon0: the privacy level, >= 0, finite.
        delta0: the failure mass, between 0 and 1.

    Raises:
        ValueError: a value out of range.
    """

    epsilon0: float
    delta0: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon0", non_negative("epsilon0", self.epsilon0))
        object.__setattr__(self, "delta0", fraction("delta0", self.delta0))

    @property
    def _unlikely(self) -> float:
        """Mass, under P, of the outcome that Q makes e^epsilon0 times as likely."""
        return float((1.0 - self.delta0) * np.exp(-self.epsilon0) / (1.0 + np.exp(-self.epsilon0)))

    def pure(self) -> float:
        return float("inf") if self.delta0 > 0.0 else self.epsilon0

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        # (e^epsilon0 - e^epsilon) / (1 + e^epsilon0), without overflow
        gap = -np.expm1(np.minimum(epsilon - self.epsilon0, 0.0)) / (1.0 + np.exp(-self.epsilon0))
        return np.asarray(self.delta0 + (1.0 - self.delta0) * gap)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            least, most = np.exp(-self.epsilon0), np.exp(self.epsilon0)
        low, high = (eta < least) | (eta == 0.0), eta >= most
        finite = 1.0 - self.delta0
        alpha = np.where(low, finite, np.where(high, 0.0, self._unlikely))
        beta = np.where(low, 0.0, np.where(high, finite, self._unlikely))
        return alpha, np.where(eta == np.inf, 1.0, beta)

    def _tradeoff(self, alpha: Array) -> Array:
        return approximate_tradeoff(alpha, self.epsilon0, self.delta0)

    def _parts(self, order: float) -> Parts:
        shared = np.log1p(-self.delta0) if self.delta0 < 1.0 else -np.inf
        likely = shared - np.log1p(np.exp(-self.epsilon0))
        alone = np.log(self.delta0) if self.delta0 > 0.0 else -np.inf
        p = np.array([alone, likely, likely - self.epsilon0, -np.inf])
        return Parts((), p, p[::-1])


def approximate_tradeoff(alpha: Array, epsilon: float, delta: float) -> Array:
    """Return f_{epsilon,delta}(alpha), the trade-off curve of (epsilon, delta)-differential privacy.

    max{0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)}, equation 12 of Askin, Dette,
    Dunsche, Kutta, Lu, Wei and Zikas (2025).

    Args:
        alpha: float64 sizes between 0 and 1, any shape.
        epsilon: the privacy level, >= 0.
        delta: the failure mass, between 0 and 1.

    Returns:
        float64 of the shape of `alpha`.
    """
    with np.errstate(divide="ignore", over="ignore"):
        # In log space, as e^epsilon overflows where alpha is 0.
        steep = 1.0 - delta - np.exp(epsilon + np.log(alpha))
    flat = np.exp(-epsilon) * (1.0 - delta - alpha)
    return np.asarray(np.maximum(0.0, np.maximum(steep, flat)))
