"""What an exact pair says of the unordered pair of databases: its symmetrised trade-off curve."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import refusal
from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._divergence import renyi_of_spectrum
from hpcdp.analytic.reversed_pair import Reversed

Array = NDArray[np.float64]

_NOTHING = 1e-300  # δ beyond which no moment of an order that fits a number has anything
_TIE = 1e-14  # support values that differ by this are equal up to rounding
_ROUNDING = 4e-16
_ROUNDS = 200  # some 30 do where the curve is smooth, as many as there are corners where it is not


@dataclass(frozen=True, eq=False)
class Symmetrised(Curve):
    """The pair whose curve is C[T], the greatest convex minorant of T and of its inverse (Dong, Roth and Su 2022).

    Its spectrum is the larger of both directions, in both. A line of slope -eta supports it at a point of T or of the
    inverse, whichever has the lower line. So T is found by halving the chord around a size at the point that its slope
    supports, until no point is below the chord: exact up to rounding for every pair. The closed form with the point x* of
    slope -1, T itself up to x*, holds where T is nowhere above its inverse before x*. That is so for a subsampled
    symmetric pair; in general T and its inverse may cross there, and then the closed form is no minorant.

    Args:
        curve: the pair (P, Q) in either order. Of a `Discrete` one, `TradeOffCurve.symmetrise` is exact too, and much faster.

    Raises:
        ValueError: no exact curve.
    """

    curve: Curve

    def __post_init__(self) -> None:
        if not isinstance(self.curve, Curve):
            raise refusal("curve", self.curve, "a curve of hpcdp.analytic")

    def pure(self) -> float | None:
        return self.curve.pure()

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        return self.curve.spectrum(epsilon)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            own, other = self.curve.point(eta), Reversed(self.curve).point(eta)
        lead = _support(eta, *other) - _support(eta, *own)
        takes_own = np.where(np.abs(lead) <= _TIE, own[0] <= other[0], lead > 0.0)
        return np.where(takes_own, own[0], other[0]), np.where(takes_own, own[1], other[1])

    def _renyi(self, order: float, direction: Direction) -> float:
        return renyi_of_spectrum(self.curve.spectrum, order, float(self.epsilon(_NOTHING)))

    def _tradeoff(self, alpha: Array) -> Array:
        sizes = alpha.ravel()
        end = float(1.0 - self.curve.spectrum(np.inf))  # C(0), and the size from which on C is 0
        # the first point of slope -1; the line from there to its mirror image has that slope
        x, y = (float(part) for part in self._point(np.asarray(1.0)))
        corners = np.array([[0.0, end], [x, y], [y, x], [end, 0.0], [1.0, 0.0]])
        place = np.clip(np.searchsorted(corners[:, 0], sizes, side="right") - 1, 0, 3)
        left, right = corners[place], corners[place + 1]
        open_ = np.flatnonzero((place == 0) | (place == 2))
        for _ in range(_ROUNDS):
            open_ = open_[right[open_, 0] > left[open_, 0]]
            if not open_.size:
                break
            width, height = (right[open_] - left[open_]).T
            slope = np.maximum(-height, 0.0) / width
            new = np.stack(self._point(slope), axis=-1)
            chord = left[open_, 1] - slope * (new[:, 0] - left[open_, 0])
            below = (new[:, 1] < chord - _ROUNDING * left[open_, 1]) & (new[:, 0] > left[open_, 0])
            below &= new[:, 0] < right[open_, 0]
            open_, new = open_[below], new[below]
            before = new[:, 0] <= sizes[open_]
            left[open_[before]], right[open_[~before]] = new[before], new[~before]
        wide = right[:, 0] - left[:, 0]
        share = np.divide(sizes - left[:, 0], wide, out=np.zeros(sizes.shape), where=wide > 0.0)
        return ((1.0 - share) * left[:, 1] + share * right[:, 1]).reshape(alpha.shape)


def _support(eta: Array, alpha: Array, beta: Array) -> Array:
    """1 - delta of the line of slope -eta through a point: beta + eta alpha, or alpha + beta / eta where eta < 1."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steep = beta + np.where(alpha > 0.0, eta * alpha, 0.0)
        flat = alpha + np.where(beta > 0.0, beta / eta, 0.0)
    return np.where(eta >= 1.0, steep, flat)
