"""One normal law against a mixture of the same law moved by different distances, all in one direction."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._base.special import erfcx, log_ndtr, ndtr, ndtri
from hpcdp._check import refusal
from hpcdp.analytic._curve import Curve, Direction, checked
from hpcdp.analytic._divergence import Parts
from hpcdp.analytic._quadrature import panel_edges
from hpcdp.analytic.discrete import SUM_TOLERANCE

Array = NDArray[np.float64]

MOST_SHIFT = 1e100
"""Its square is a number."""

_BLOCK = 1 << 20  # numbers in memory at once
_BISECTIONS, _SHARPEST, _PANELS, _WIDTH = 100, 1e-9, 40, 2.0  # of the peak of an integrand, and panels around it
_FAR = 30.0  # beyond it, the scaled tail of the other side overflows


@dataclass(frozen=True, eq=False)
class NormalMixture(Curve):
    """P = N(0, 1) against Q = the sum over i of weights_i N(shifts_i, 1), all shifts >= 0.

    The likelihood ratio q/p at x is the sum of weights_i exp(shifts_i x - shifts_i^2 / 2), which increases in x, so the
    best tests reject where x is large: T(a) = sum of weights_i Phi(Phi^-1(1 - a) - shifts_i) (Neyman and Pearson; Askin
    et al. 2025, for DP-SGD). The thresholds of the spectrum are found by Newton's method. The pair is not symmetric.

    Args:
        shifts: distances in units of the standard deviation, from 0 to 1e100, shape (k,).
        weights: probabilities, shape (k,), of sum 1 within 1e-9; they are then divided by their sum.

    Raises:
        ValueError: the shapes differ, or a value is out of range.
    """

    shifts: Array
    weights: Array

    def __init__(self, shifts: ArrayLike, weights: ArrayLike) -> None:
        moved = checked("shifts", shifts, 0.0, MOST_SHIFT)
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
        """The shifts > 0, and the logarithms of weight times exp(-shift^2 / 2)."""
        moved = self.shifts > 0.0
        return self.shifts[moved], np.log(self.weights[moved]) - 0.5 * self.shifts[moved] ** 2

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        one = self._forward if direction == "forward" else self._reverse
        out = np.zeros(epsilon.shape)
        for index in np.ndindex(epsilon.shape):
            level = float(epsilon[index])
            x = self._where(-level if direction == "forward" else level)
            if math.isfinite(x):
                out[index] = one(level, x)
        return out

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            levels = np.log(eta)
        x = np.empty(eta.shape)
        for index in np.ndindex(eta.shape):
            x[index] = self._where(float(levels[index]))
        return ndtr(-x), np.minimum(self._mass_below(x), 1.0)

    def _tradeoff(self, alpha: Array) -> Array:
        return self._mass_below(-ndtri(alpha))

    def _parts(self, order: float) -> Parts:
        return Parts(((self._log_densities, self._edges(order)),))

    def _log_densities(self, x: Array) -> tuple[Array, Array]:
        log_p = -0.5 * np.square(x) - 0.5 * math.log(2.0 * math.pi)
        logs, ratio = np.log(self.weights) - 0.5 * np.square(self.shifts), np.empty(x.shape)
        step = max(1, _BLOCK // self.shifts.size)
        for first in range(0, x.size, step):
            block = slice(first, first + step)
            terms = logs + np.multiply.outer(x[block], self.shifts)
            most = terms.max(axis=1)
            ratio[block] = most + np.log(np.exp(terms - most[:, None]).sum(axis=1))
        return log_p, log_p + ratio

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

    def _mass_below(self, x: Array) -> Array:
        """Q(X < x)."""
        flat = x.ravel()
        out = np.empty(flat.shape)
        step = max(1, _BLOCK // self.shifts.size)
        for first in range(0, flat.size, step):
            block = slice(first, first + step)
            out[block] = ndtr(flat[block, None] - self.shifts) @ self.weights
        return out.reshape(x.shape)

    def _where(self, level: float) -> float:
        """The x at which log q/p is `level`; -inf where it is above that everywhere, inf where nowhere."""
        shifts, logs = self._moved
        if level < self._log_still or (level == self._log_still and shifts.size):
            return -math.inf
        if level == math.inf or not shifts.size:
            return math.inf
        goal = level + math.log(-math.expm1(self._log_still - level))  # what the moved parts add up to there
        # Convex and increasing, so Newton's steps from the right fall to the root and never pass it.
        with np.errstate(over="ignore"):
            x = float(((goal - logs) / shifts).min())
        while math.isfinite(x):
            terms = logs + shifts * x
            most = terms.max()
            parts = np.exp(terms - most)
            total = parts.sum()
            step = (float(most) + math.log(total) - goal) * float(total / (shifts @ parts))
            if not x - step < x:
                break
            x -= step
        return x

    def _reverse(self, level: float, x: float) -> float:
        """Q(X > x) - e^level P(X > x), as a sum of terms >= 0: e^level is q/p at x >= 0."""
        moved = x - self.shifts
        near = np.maximum(moved, -_FAR)
        excess = _density(near) * (_mills(near) - _mills(x))
        excess = np.where(moved < -_FAR, ndtr(-moved) - _density(moved) * _mills(x), excess)
        return float(self.weights @ excess)

    def _forward(self, level: float, x: float) -> float:
        """P(X < x) - e^level Q(X < x), likewise: e^-level is q/p at x."""
        if x > _FAR:
            inflated = np.exp(level + np.log(self.weights) + log_ndtr(x - self.shifts))
            return float(ndtr(x) - inflated.sum())
        shares = np.exp(level + np.log(self.weights) + self.shifts * x - 0.5 * self.shifts**2)  # of q at x, sum 1
        return float(_density(x) * (shares @ (_mills(-x) - _mills(self.shifts - x))))


def _density(x: ArrayLike) -> Array:
    near = np.minimum(np.abs(x), 1e150)  # whose square is a float, and whose density is 0 already
    return np.asarray(np.exp(-0.5 * np.square(near)) / math.sqrt(2.0 * math.pi))


def _mills(x: ArrayLike) -> Array:
    """P(X > x) over the density at x, for x >= -30."""
    return np.asarray(math.sqrt(0.5 * math.pi) * erfcx(np.divide(x, math.sqrt(2.0))))
