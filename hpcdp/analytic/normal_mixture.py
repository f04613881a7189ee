"""One normal law against a mixture of the same law moved by different distances, to one side or to both."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from hpcdp._check import refusal
from hpcdp.analytic._cells import panel_edges
from hpcdp.analytic._curve import Curve, Direction, checked
from hpcdp.analytic._divergence import Parts
from hpcdp.analytic.discrete import SUM_TOLERANCE

Array = NDArray[np.float64]

MOST_SHIFT = 1e100
"""Its square is a number."""

_BLOCK = 1 << 20  # numbers in memory at once
_BISECTIONS, _SHARPEST, _PANELS, _WIDTH = 100, 1e-9, 40, 2.0  # of the peak of an integrand, and panels around it
_FAR = 30.0  # beyond it, the scaled tail of the other side overflows
_NO_DENSITY = 39.0  # beyond it, a normal density is no float
_SMALLEST, _CLOSE = 1e-300, 1e-15  # of a level that is searched
_RESOLVED, _ROUNDING = 1e-13, 1e-14  # of an integral: what halving may change, and what rounding does where 1 is lost


@dataclass(frozen=True, eq=False)
class NormalMixture(Curve):
    """P = N(0, 1) against Q = the sum over i of weights_i N(shifts_i, 1).

    The likelihood ratio q/p at x is the sum of weights_i exp(shifts_i x - shifts_i^2 / 2). Its logarithm is convex, so that it is
    below a level on an interval, whose ends Newton's method finds. Where no shift is below 0 it increases in x, and the best
    tests reject where x is large: T(a) = sum of weights_i Phi(Phi^-1(1 - a) - shifts_i) (Neyman and Pearson; Askin et al. 2025,
    for DP-SGD). The spectrum is summed and integrated from terms >= 0, so that a small delta keeps its digits: within
    1e-12 of it, and what the rounding of the level makes of it, which is more where delta falls to 0 at a finite level. The pair
    is not symmetric.

    Args:
        shifts: distances in units of the standard deviation, from -1e100 to 1e100, shape (k,).
        weights: probabilities, shape (k,), of sum 1 within 1e-9; they are then divided by their sum.

    Raises:
        ValueError: the shapes differ, or a value is out of range.
    """

    shifts: Array
    weights: Array

    def __init__(self, shifts: ArrayLike, weights: ArrayLike) -> None:
        moved = checked("shifts", shifts, -MOST_SHIFT, MOST_SHIFT)
        masses = checked("weights", weights, 0.0, 1.0)
        if moved.ndim != 1 or moved.shape != masses.shape or not moved.size:
            raise refusal("shifts, weights", (moved.shape, masses.shape), "equal shapes (k,) with k >= 1")
        if abs(masses.sum() - 1.0) > SUM_TOLERANCE:
            raise refusal("weights: sum", float(masses.sum()), f"1 within {SUM_TOLERANCE:g}")
        possible = masses > 0.0
        object.__setattr__(self, "shifts", moved[possible])
        object.__setattr__(self, "weights", masses[possible] / masses.sum())

    @cached_property
    def _log_still(self) -> float:
        """Logarithm of the weight of what is not moved: the infimum of log q/p."""
        still = self.weights[self.shifts == 0.0].sum()
        return math.log(still) if still > 0.0 else -math.inf

    @cached_property
    def _moved(self) -> tuple[Array, Array]:
        """The shifts that are not 0, and the logarithms of weight times exp(-shift^2 / 2)."""
        moved = self.shifts != 0.0
        return self.shifts[moved], np.log(self.weights[moved]) - 0.5 * self.shifts[moved] ** 2

    @cached_property
    def _lowest(self) -> float:
        """The infimum of the logarithm of what the moved parts add up to in q/p: finite where they lie on both sides."""
        shifts, logs = self._moved
        if not shifts.size or shifts.min() > 0.0 or shifts.max() < 0.0:
            return -math.inf
        # The slope rises through 0 where the terms of both sides weigh the same.
        left, right = shifts < 0.0, shifts > 0.0
        slopes = np.log(np.abs(shifts)) + logs
        low, high = -1.0, 1.0
        while _log_sum(slopes[left] + shifts[left] * low) < _log_sum(slopes[right] + shifts[right] * low):
            low *= 2.0
        while _log_sum(slopes[left] + shifts[left] * high) > _log_sum(slopes[right] + shifts[right] * high):
            high *= 2.0
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            falls = _log_sum(slopes[left] + shifts[left] * middle) > _log_sum(slopes[right] + shifts[right] * middle)
            low, high = (middle, high) if falls else (low, middle)
        return _log_sum(logs + shifts * high)

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        sign, excess = (-1.0, self._forward) if direction == "forward" else (1.0, self._reverse)
        return _elementwise(lambda level: excess(level, *self._below(sign * level)), 1, epsilon)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            low, high = _elementwise(self._below, 2, np.log(eta))
        return np.minimum(ndtr(low) + ndtr(-high), 1.0), np.minimum(self._mass_between(low, high), 1.0)

    def _tradeoff(self, alpha: Array) -> Array:
        edge = -ndtri(alpha)
        if self._lowest > -math.inf:
            return self._mass_between(*_elementwise(self._of_size, 2, alpha))
        if self.shifts.min() < 0.0:
            return self._mass_between(-edge, np.full(alpha.shape, np.inf))
        return self._mass_between(np.full(alpha.shape, -np.inf), edge)

    def _of_size(self, alpha: float) -> tuple[float, float]:
        """The interval where q/p is low and beyond which P has this mass, where shifts lie on both sides."""
        from scipy.optimize import brentq

        if alpha == 0.0 or alpha == 1.0:
            return (-math.inf, math.inf if alpha == 0.0 else -math.inf)

        def excess(level: float) -> float:
            low, high = self._below(level)
            return math.log(ndtr(low) + ndtr(-high)) - math.log(alpha) if high > low else -math.log(alpha)

        least = float(np.logaddexp(self._log_still, self._lowest))
        reach = 1.0
        while excess(least + reach) > 0.0:
            reach *= 2.0
        root = brentq(lambda above: excess(least + above), 0.0, reach, xtol=_SMALLEST, rtol=_CLOSE)
        return self._below(least + root)

    def _parts(self, order: float) -> Parts:
        return Parts(((self._log_densities, self._edges(order)),))

    def _log_densities(self, x: Array) -> tuple[Array, Array]:
        log_p = _log_density(x)
        return log_p, log_p + self._log_ratio(x)

    def _log_ratio(self, x: Array) -> Array:
        """log q/p at points (m,)."""
        logs, ratio = np.log(self.weights) - 0.5 * np.square(self.shifts), np.empty(x.shape)
        step = max(1, _BLOCK // self.shifts.size)
        for first in range(0, x.size, step):
            block = slice(first, first + step)
            terms = logs + np.multiply.outer(x[block], self.shifts)
            most = terms.max(axis=1)
            ratio[block] = most + np.log(np.exp(terms - most[:, None]).sum(axis=1))
        return ratio

    def _edges(self, order: float) -> Array:
        """Panels that hold p^a q^(1 − a), q^a p^(1 − a) and the like, but for next to nothing of them.

        The logarithm of the first bends at least as a normal density's, around its one peak, which may be sharp. The second is
        at most k^(a − 1) times the sum over the k parts of weight^a e^(a(a − 1)shift²/2) N(a·shift, 1).
        """
        low, high = (1.0 - order) * float(self.shifts.max()), (1.0 - order) * float(self.shifts.min())
        for _ in range(_BISECTIONS):
            peak = 0.5 * (low + high)
            terms = np.log(self.weights) - 0.5 * np.square(self.shifts) + self.shifts * peak
            shares = np.exp(terms - terms.max())
            rising = (order - 1.0) * float(self.shifts @ shares / shares.sum()) < -peak
            low, high = (peak, high) if rising else (low, peak)
        steps = np.geomspace(_SHARPEST, 1.0, _PANELS)
        reach = 12.0 + math.sqrt(2.0 * order * math.log(self.shifts.size) + 80.0)
        places = np.unique(np.concatenate((order * self.shifts, self.shifts, [0.0])))
        firsts = np.flatnonzero(np.diff(places, prepend=-np.inf) > 2.0 * reach)
        lasts = np.append(firsts[1:], places.size) - 1
        blocks = [
            panel_edges(np.empty(0), places[first] - reach, places[last] + reach, _WIDTH)
            for first, last in zip(firsts, lasts, strict=True)
        ]
        around = peak + np.concatenate(
            (-steps[::-1], [0.0], steps, np.arange(2.0, _FAR + 11.0), -np.arange(2.0, _FAR + 11.0))
        )
        return np.unique(np.concatenate((around, *blocks)))

    def _mass_between(self, low: Array, high: Array) -> Array:
        """Q(low < X < high)."""
        first, last = low.ravel(), high.ravel()
        out = np.empty(first.shape)
        step = max(1, _BLOCK // self.shifts.size)
        for start in range(0, first.size, step):
            block = slice(start, start + step)
            left, right = (ends[block, None] - self.shifts for ends in (first, last))
            # From the nearer tail, which keeps its digits.
            left, right = np.where(left > 0.0, -right, left), np.where(left > 0.0, -left, right)
            out[block] = (ndtr(right) - ndtr(left)) @ self.weights
        return out.reshape(low.shape)

    def _below(self, level: float) -> tuple[float, float]:
        """The interval on which log q/p is below `level`; from -inf to -inf where nowhere."""
        shifts, logs = self._moved
        if level < self._log_still or (level == self._log_still and shifts.size):
            return -math.inf, -math.inf
        if level == math.inf or not shifts.size:
            return -math.inf, math.inf
        goal = level + math.log(-math.expm1(self._log_still - level))  # what the moved parts add up to there
        if goal <= self._lowest:
            return -math.inf, -math.inf
        return -_last_root(-shifts, logs, goal), _last_root(shifts, logs, goal)

    def _reverse(self, level: float, low: float, high: float) -> float:
        """Q - e^level P of all x outside the interval."""
        return sum(_excess(sign * self.shifts, self.weights, x) for sign, x in ((-1.0, -low), (1.0, high)))

    def _forward(self, level: float, low: float, high: float) -> float:
        """P - e^level Q of the interval, as a sum or an integral of terms >= 0: e^-level is q/p at its ends."""
        if not high > low or (low == -math.inf and high == math.inf):
            return 0.0
        if low > -math.inf and high < math.inf:
            return self._inside(level, max(low, -_NO_DENSITY), min(high, _NO_DENSITY))
        shifts, x = (self.shifts, high) if high < math.inf else (-self.shifts, -low)
        if x > _FAR:
            inflated = np.exp(level + np.log(self.weights) + log_ndtr(x - shifts))
            return float(ndtr(x) - inflated.sum())
        shares = np.exp(level + np.log(self.weights) + shifts * x - 0.5 * shifts**2)  # of q at x, sum 1
        return float(_density(x) * (shares @ (_mills(-x) - _mills(shifts - x))))

    def _inside(self, level: float, low: float, high: float) -> float:
        """The integral of p - e^level q between two ends."""
        if not high > low:
            return 0.0
        logs = level + np.log(self.weights) + self.shifts * low - 0.5 * np.square(self.shifts)
        shares, reach = np.exp(logs - _log_sum(logs)), (high - low) * float(np.abs(self.shifts).max())

        def log_ratios(x: Array) -> tuple[Array, Array]:
            """Logarithms of p and of e^level q/p, which is 1 at both ends."""
            if reach < 1.0:  # from its value at the low end, since on a short interval it is nearly 1 everywhere
                return _log_density(x), np.log1p(np.expm1(np.multiply.outer(x - low, self.shifts)) @ shares)
            return _log_density(x), level + self._log_ratio(x)

        edges = np.linspace(low, high, 2 + int((high - low) / _WIDTH))
        parts = Parts(((log_ratios, edges),))
        depth = -level - float(np.logaddexp(self._log_still, self._lowest))
        lost = _ROUNDING / (reach if reach < 1.0 else max(depth, _SMALLEST))
        return parts._integral(lambda log_p, ratio: (log_p, np.maximum(-np.expm1(ratio), 0.0)), max(_RESOLVED, lost))


def _elementwise(function: Callable[[float], Any], results: int, values: Array) -> Any:
    """A function of one number on an array, which gives so many arrays of its shape."""
    return np.vectorize(lambda value: function(float(value)), otypes=[np.float64] * results)(values)


def _last_root(shifts: Array, logs: Array, goal: float) -> float:
    """The largest x at which the convex Σ e^(logs + shifts x) is e^goal, by Newton from the right."""
    rising = shifts > 0.0
    with np.errstate(over="ignore"):
        x = float(((goal - logs[rising]) / shifts[rising]).min(initial=np.inf))
    while math.isfinite(x):
        terms = logs + shifts * x
        most = terms.max()
        parts = np.exp(terms - most)
        total, slope = parts.sum(), float(shifts @ parts)
        if not slope > 0.0:
            break
        step = (float(most) + math.log(total) - goal) * float(total / slope)
        if not x - step < x:
            break
        x -= step
    return x


def _excess(shifts: Array, weights: Array, x: float) -> float:
    """Q(X > x) - c P(X > x) where c >= 1 is q/p at x >= 0, as a sum of terms >= 0 where shifts are."""
    if x == math.inf or x == -math.inf:
        return 0.0
    moved = x - shifts
    near = np.maximum(moved, -_FAR)
    excess = _density(near) * (_mills(near) - _mills(x))
    excess = np.where(moved < -_FAR, ndtr(-moved) - _density(moved) * _mills(x), excess)
    return float(weights @ excess)


def _log_sum(logs: Array) -> float:
    most = float(logs.max())
    return most + math.log(np.exp(logs - most).sum())


def _density(x: ArrayLike) -> Array:
    near = np.minimum(np.abs(x), 1e150)  # whose square is a float, and whose density is 0 already
    return np.asarray(np.exp(-0.5 * np.square(near)) / math.sqrt(2.0 * math.pi))


def _log_density(x: Array) -> Array:
    return -0.5 * np.square(x) - 0.5 * math.log(2.0 * math.pi)


def _mills(x: ArrayLike) -> Array:
    """P(X > x) over the density at x, for x >= -30."""
    return np.asarray(math.sqrt(0.5 * math.pi) * erfcx(np.divide(x, math.sqrt(2.0))))
