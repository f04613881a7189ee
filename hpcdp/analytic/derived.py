"""Pairs made of a pair: the other way round, seen in a random batch of rows only, and both ways at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import positive, refusal
from hpcdp.analytic._curve import Curve, Direction, invert_non_increasing
from hpcdp.analytic._divergence import Parts, renyi_of_spectrum

Array = NDArray[np.float64]

_NOTHING = 1e-300  # δ beyond which no moment of an order that fits a number has anything
_TIE = 1e-14  # support values that differ by this are equal up to rounding
_ROUNDING = 4e-16
_ROUNDS = 200  # some 30 do where the curve is smooth, as many as there are corners where it is not


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
