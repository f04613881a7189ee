"""What is known of a spectrum from one or a few levels: (epsilon, delta)-differential privacy, and points of a curve."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import fraction, non_negative, refusal
from hpcdp.analytic._curve import Curve, Direction, checked
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
    """
    with np.errstate(divide="ignore", over="ignore"):
        # In log space, as e^epsilon overflows where alpha is 0.
        steep = 1.0 - delta - np.exp(epsilon + np.log(alpha))
    flat = np.exp(-epsilon) * (1.0 - delta - alpha)
    return np.asarray(np.maximum(0.0, np.maximum(steep, flat)))


@dataclass(frozen=True, eq=False)
class SpectrumPoints:
    """A spectrum of an unordered pair that is known at finitely many levels, and what follows between them.

    Between two levels the spectrum is interpolated linearly in e^epsilon: the spectrum is convex there, so
    the true one is no larger. Below the first level it is min(1, delta_1 + e^epsilon_1 - e^epsilon), as in
    footnote 2 of Dandekar, Basu and Bressan (2021); beyond the last level it is delta_k.

    Args:
        epsilons: levels >= 0, finite, strictly increasing, shape (k,).
        deltas: the spectrum at these levels, between 0 and 1, shape (k,).

    Raises:
        ValueError: a value out of range, levels that do not increase, or shapes that differ.
    """

    epsilons: Array
    deltas: Array

    def __init__(self, epsilons: ArrayLike, deltas: ArrayLike) -> None:
        levels = checked("epsilon", epsilons, 0.0, np.finfo(np.float64).max)
        masses = checked("delta", deltas, 0.0, 1.0)
        if levels.ndim != 1 or levels.size == 0 or levels.shape != masses.shape:
            raise refusal("epsilon, delta", (levels.shape, masses.shape), "equal shapes (k,) with k >= 1")
        back = np.flatnonzero(np.diff(levels) <= 0.0)
        if back.size:
            pair = (float(levels[back[0]]), float(levels[back[0] + 1]))
            raise refusal("epsilon", pair, "a strictly increasing sequence")
        object.__setattr__(self, "epsilons", levels)
        object.__setattr__(self, "deltas", masses)

    def spectrum(self, epsilon: ArrayLike) -> Array:
        """Return the spectrum, as `Curve` does, or its upper bound between the known levels."""
        levels = checked("epsilon", epsilon, 0.0, np.inf)
        known, masses = self.epsilons, self.deltas
        if known.size == 1:
            between = np.full(levels.shape, masses[0])
        else:
            right = np.clip(np.searchsorted(known, levels, side="right"), 1, known.size - 1)
            inside = np.clip(levels, known[right - 1], known[right])
            # (e^x - e^a) / (e^b - e^a) with exponents <= 0 only, so that nothing overflows
            weight = np.exp(inside - known[right]) * np.expm1(known[right - 1] - inside)
            weight = weight / np.expm1(known[right - 1] - known[right])
            between = (1.0 - weight) * masses[right - 1] + weight * masses[right]
        with np.errstate(over="ignore", invalid="ignore"):
            rise = np.exp(known[0]) * -np.expm1(np.minimum(levels - known[0], 0.0))
        below = np.minimum(1.0, masses[0] + rise)
        return np.asarray(np.where(levels < known[0], below, between), dtype=np.float64)

    def tradeoff(self, alpha: ArrayLike) -> Array:
        """Return the trade-off curve that the known points imply: max over points of f_{epsilon,delta}.

        Dong, Roth and Su (2022), the primal-dual relation between a trade-off curve and a spectrum. The
        levels between the points add nothing to the maximum, as the spectrum there is a bound that follows
        from the points.
        """
        sizes = checked("alpha", alpha, 0.0, 1.0)
        curve = np.zeros(sizes.shape)
        for level, mass in zip(self.epsilons, self.deltas, strict=True):
            np.maximum(curve, approximate_tradeoff(sizes, float(level), float(mass)), out=curve)
        return curve
