"""What several claims say together of a mechanism that publishes all their outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.analytic import (
    ApproximateDP,
    Curve,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    SpectrumPoints,
    TradeOffPoints,
)
from hpcdp.analytic.tradeoff_points import minorant, with_ends
from hpcdp.notions.curve import TradeOffCurve

Floats = NDArray[np.float64]

_ROUNDING = 1e-11  # ten times that of a product on the grid


class Bound(Protocol):
    """What a claim stands for: an exact curve, or points of a spectrum or of a trade-off curve."""

    def spectrum(self, epsilon: ArrayLike) -> Floats:
        """Return the largest delta allowed in either direction at levels >= 0, same shape."""

    def tradeoff(self, alpha: ArrayLike) -> Floats:
        """Return the smallest type-II error allowed at sizes between 0 and 1, same shape."""


def tensor(bounds: Sequence[Bound]) -> Bound:
    """The trade-off curve of independent outputs together, each of which meets its own bound: their tensor product.

    Dong, Roth and Su (2022), Section 3. The product of Gaussian curves is exact, that of Laplace curves as `LaplaceVector`
    says. Any other is a polygon on or below the exact product, made of `TradeOffCurve.below` of each part: it claims no more
    than the parts do, so that a violation of it is one of them. Its delta is too large by e^epsilon 1e-11, which the polygon is
    lowered by, and at most 6e-8 more where it was measured: Laplace with Gaussian noise, their epsilon from 0.01 to 4 and mu
    from 0.1 to 4, at levels from 0 to 10.

    Args:
        bounds: one or more.
    """
    shifts = [bound.mu for bound in bounds if isinstance(bound, GaussianShift)]
    distances = [bound.epsilon0 for bound in bounds if isinstance(bound, LaplaceShift)]
    parts = [bound for bound in bounds if not isinstance(bound, GaussianShift | LaplaceShift)]
    if shifts:
        parts.append(GaussianShift(math.hypot(*shifts)))
    if distances:
        parts.append(LaplaceShift(distances[0]) if len(distances) == 1 else LaplaceVector(distances))
    if len(parts) == 1:
        return parts[0]
    whole = reduce(TradeOffCurve.tensor, map(polygon, parts))
    return TradeOffCurve(*minorant(whole.alpha, np.maximum(whole.beta - _ROUNDING, 0.0)))


def polygon(bound: Bound) -> TradeOffCurve:
    """A convex polygon on or below the bound."""
    if isinstance(bound, ApproximateDP):
        return TradeOffCurve.from_delta([bound.epsilon0], [bound.delta0])
    if isinstance(bound, SpectrumPoints):
        return TradeOffCurve.from_delta(bound.epsilons, bound.deltas)
    if isinstance(bound, TradeOffPoints):
        return TradeOffCurve(*with_ends(*bound.hull))
    if isinstance(bound, TradeOffCurve):  # of a product
        return bound.convex()
    assert isinstance(bound, Curve)
    return TradeOffCurve.below(bound)
