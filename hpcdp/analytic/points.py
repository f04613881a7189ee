"""Privacy spectra known at finitely many levels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal
from hpcdp.analytic._curve import checked
from hpcdp.analytic.dp import approximate_tradeoff

Array = NDArray[np.float64]


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
        """Return the spectrum, or its upper bound between the known levels.

        Args:
            epsilon: levels >= 0, any shape.

        Returns:
            float64 of the shape of `epsilon`, between 0 and 1.

        Raises:
            ValueError: a negative or NaN level.
        """
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

        Args:
            alpha: sizes between 0 and 1, any shape.

        Returns:
            float64 of the shape of `alpha`, between 0 and 1 - alpha.

        Raises:
            ValueError: a size out of range.
        """
        sizes = checked("alpha", alpha, 0.0, 1.0)
        curve = np.zeros(sizes.shape)
        for level, mass in zip(self.epsilons, self.deltas, strict=True):
            np.maximum(curve, approximate_tradeoff(sizes, float(level), float(mass)), out=curve)
        return curve
