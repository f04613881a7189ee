"""The Laplace mechanism when one number, or several, are shifted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import non_negative, refusal
from hpcdp.analytic._cells import gauss, panel_edges, panel_nodes
from hpcdp.analytic._curve import Curve, Direction, checked
from hpcdp.analytic._divergence import Parts
from hpcdp.analytic._losses import TiltedSum, count_knots, sum_losses, sum_on_grid
from hpcdp.analytic.piecewise import Piecewise

Array = NDArray[np.float64]

_MOST_KNOTS = 4096.0
_MOST_COORDINATES = 100  # beyond, adding the coordinates one by one takes seconds and the grid is as good
_PANEL = 1.0
_SMALL = 1e-6  # deltas that are summed from terms >= 0
_WIDE, _NODES = 4.0, 20  # panels over which e^loss is resolved by so many nodes more than the density needs


@dataclass(frozen=True)
class LaplaceShift(Curve):
    """Laplace noise around 0 (P) and around a shift (Q); the pair is symmetric.

    The spectrum is Lemma 2 of Lu, Magdon-Ismail, Wei and Zikas (2024); the trade-off curve follows from the
    Neyman-Pearson lemma, as q/p has atoms at both ends and is continuous between.

    Args:
        epsilon0: the distance of the two centres in units of the noise scale, >= 0; 0 means P = Q. It is
            the pure privacy level of the pair.

    Raises:
        ValueError: epsilon0 is no finite number >= 0.
    """

    epsilon0: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon0", non_negative("epsilon0", self.epsilon0))

    def pure(self) -> float:
        return self.epsilon0

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        return -np.expm1(-0.5 * np.maximum(self.epsilon0 - epsilon, 0.0))

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", divide="ignore"):
            # The atoms of q/p sit at these two values: comparing thresholds, not their logs, keeps "strict".
            least, most = np.exp(-self.epsilon0), np.exp(self.epsilon0)
            level = np.clip(np.log(eta), -self.epsilon0, self.epsilon0)
        alpha = 0.5 * np.exp(-0.5 * (self.epsilon0 + level))
        beta = 0.5 * np.exp(-0.5 * (self.epsilon0 - level))
        low, high = (eta < least) | (eta == 0.0), eta >= most
        alpha = np.where(low, 1.0, np.where(high, 0.0, alpha))
        beta = np.where(low, 0.0, np.where(high, 1.0, beta))
        return alpha, beta

    def _tradeoff(self, alpha: Array) -> Array:
        edge = 0.5 * np.exp(-self.epsilon0)
        right = np.exp(-self.epsilon0) * (1.0 - alpha)
        with np.errstate(divide="ignore", over="ignore"):
            # In log space, as e^epsilon0 overflows where alpha underflows.
            scaled = self.epsilon0 + np.log(alpha)
            left, middle = 1.0 - np.exp(scaled), 0.25 * np.exp(-scaled)
        return np.where(alpha < edge, left, np.where(alpha <= 0.5, middle, right))

    def _parts(self, order: float) -> Parts:
        def densities(x: Array) -> tuple[Array, Array]:
            return -x - math.log(2.0), x - self.epsilon0 - math.log(2.0)

        ends = -math.log(2.0) - np.array([0.0, self.epsilon0])
        edges = np.linspace(0.0, self.epsilon0, 2 + int(min(self.epsilon0, 1000.0)))
        return Parts(((densities, edges),), ends, ends[::-1])

    def _renyi(self, order: float, direction: Direction) -> float:
        # e^((a−1)·epsilon0) times 1 − (a − 1)/(2a − 1)·(1 − e^(−(2a−1)·epsilon0)) is the moment
        less = math.expm1(-(2.0 * order - 1.0) * self.epsilon0) / (2.0 * order - 1.0)
        if order == 1.0:
            return self.epsilon0 + less
        return self.epsilon0 + math.log1p((order - 1.0) * less) / (order - 1.0)


@dataclass(frozen=True, eq=False)
class LaplaceVector(Curve):
    """Laplace noise around 0 (P) and around a vector of shifts (Q); the pair is symmetric.

    The privacy loss is the sum of the coordinates' independent losses, each with atoms at the two ends. With up
    to 4096 knots (12 different shifts, or 100 equal ones) its atoms are exact and its density, a polynomial
    between two knots times an exponential, is convolved in Legendre series: the spectrum is right within 1e-12,
    as measured against closed forms and a direct integral, and one below 1e-6 is summed from positive terms, so that
    it keeps its digits. Otherwise each loss is spread over a grid of 2^18
    steps so that P and Q keep their masses, as in Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022): the
    spectrum is then an upper bound up to rounding, too large by at most 2e-8 where it was measured.

    Args:
        shifts: the distances of the centres, coordinate by coordinate, in units of the noise scale, (d,);
            their sum is the pure privacy level.

    Raises:
        ValueError: a shift is no finite number >= 0, or the shape is not (d,) with d >= 1.
    """

    shifts: Array

    def __init__(self, shifts: ArrayLike) -> None:
        distances = checked("shifts", shifts, 0.0, np.finfo(np.float64).max)
        if distances.ndim != 1 or not distances.size:
            raise refusal("shifts", distances, "an array of shape (d,), d >= 1")
        object.__setattr__(self, "shifts", distances)

    @cached_property
    def _positive(self) -> Array:
        return np.sort(self.shifts[self.shifts > 0.0])[::-1]

    @cached_property
    def _law(self) -> TiltedSum | None:
        """The law of the loss by which the curve is exact; None where there is a closed form or the grid."""
        few = count_knots(self._positive) <= _MOST_KNOTS and self._positive.size <= _MOST_COORDINATES
        return sum_losses(self._positive) if few and self._positive.size > 1 else None

    @cached_property
    def _curve(self) -> Curve:
        if self._positive.size <= 1:
            return LaplaceShift(float(self._positive.sum()))
        if self._law is not None:
            return _by_series(self._law, _log_factor(self._positive))
        return sum_on_grid(self._positive)

    def pure(self) -> float:
        return float(self.shifts.sum())

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        # The pure level is known, and at most e^-745 is left where a mass of Q underflows.
        below = epsilon < self.shifts.sum()
        out = np.where(below, self._curve._delta(epsilon, direction), 0.0)
        if self._law is not None:
            for index in map(tuple, np.argwhere(below & (out < _SMALL))):
                out[index] = _excess(self._law, _log_factor(self._positive), float(epsilon[index]))
        return out

    def _point(self, eta: Array) -> tuple[Array, Array]:
        return self._curve._point(eta)

    def _tradeoff(self, alpha: Array) -> Array:
        return self._curve._tradeoff(alpha)

    def _parts(self, order: float) -> Parts:
        return self._curve._parts(order)

    def _renyi(self, order: float, direction: Direction) -> float:
        # Divergences of independent coordinates add up.
        return math.fsum(LaplaceShift(float(shift))._renyi(order, direction) for shift in self.shifts)


def laplace_pair(shifts: ArrayLike) -> Curve:
    """Return the pair of Laplace noise around 0 and around `shifts`: the closed form where one is not 0.

    Args:
        shifts: distances in units of the noise scale, >= 0, (d,).

    Raises:
        ValueError: as `LaplaceVector`.
    """
    vector = LaplaceVector(shifts)
    if np.count_nonzero(vector.shifts) <= 1:
        return LaplaceShift(float(vector.shifts.max()))
    return vector


def _log_factor(shifts: Array) -> float:
    """Logarithm of the mass of the even measure before it is made 1, times e^(-s/2) of every coordinate."""
    return float(np.sum(np.log1p(0.5 * shifts) - 0.5 * shifts))


def _excess(law: TiltedSum, log_factor: float, level: float) -> float:
    """Delta as the mean of the positive part of 1 - e^(level - loss) under P, a sum of terms >= 0 that keeps its digits."""
    places = law.places > level
    loss, masses = law.places[places], law.atoms[places]
    if level < law.knots[-1]:
        edges = panel_edges(law.knots, max(level, float(law.knots[0])), float(law.knots[-1]), _WIDE)
        nodes, weights = panel_nodes(edges, gauss(_NODES + law.series.shape[1]))
        loss, masses = np.append(loss, nodes), np.append(masses, weights * law.density(nodes))
    return math.fsum(masses * np.exp(log_factor + 0.5 * loss) * -np.expm1(level - loss))


def _by_series(law: TiltedSum, log_factor: float) -> Curve:
    def log_densities(loss: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            middle = log_factor + np.log(law.density(loss))
        return middle + 0.5 * loss, middle - 0.5 * loss

    with np.errstate(divide="ignore"):
        atoms = np.log(law.atoms) + log_factor
    width = float(law.knots[-1] - law.knots[0])
    edges = np.unique(np.concatenate((law.knots, np.linspace(law.knots[0], law.knots[-1], 2 + int(width / _PANEL)))))
    p, q = np.exp(atoms + 0.5 * law.places), np.exp(atoms - 0.5 * law.places)
    return Piecewise([(log_densities, edges)], np.minimum(p, 1.0), np.minimum(q, 1.0))
