"""The Gaussian mechanism: normal noise around two centres."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr, ndtri

from hpcdp._check import non_negative, positive
from hpcdp.analytic._curve import Curve, Direction, checked, invert_non_increasing
from hpcdp.analytic._divergence import Parts
from hpcdp.analytic.normal_mixture import NormalMixture
from hpcdp.mechanisms.additive import noise_sigma

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianShift(Curve):
    """Normal noise around 0 (P) and around a shift (Q), in any dimension; the pair is symmetric.

    The spectrum is Theorem 8 of Balle and Wang (2018); the trade-off curve is the one that defines mu-GDP
    in Dong, Roth and Su (2022).

    Args:
        mu: the L2 distance of the two centres in units of the standard deviation, >= 0; 0 means P = Q.

    Raises:
        ValueError: mu is no finite number >= 0.
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", non_negative("mu", self.mu))

    def pure(self) -> float:
        return float("inf") if self.mu > 0.0 else 0.0

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        return _gaussian_delta(np.asarray(self.mu), epsilon)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        if self.mu == 0.0:
            return np.where(eta < 1.0, 1.0, 0.0), np.where(eta < 1.0, 0.0, 1.0)
        with np.errstate(divide="ignore", over="ignore"):
            level = np.log(eta) / self.mu
        return ndtr(-level - 0.5 * self.mu), ndtr(level - 0.5 * self.mu)

    def _tradeoff(self, alpha: Array) -> Array:
        return np.asarray(ndtr(-ndtri(alpha) - self.mu))

    def _parts(self, order: float) -> Parts:
        return NormalMixture([self.mu], [1.0])._parts(order)

    def _renyi(self, order: float, direction: Direction) -> float:
        return 0.5 * order * self.mu**2


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the classical noise deviation sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon.

    Dwork and Roth (2014), Theorem A.1. It is proved to give (epsilon, delta)-differential privacy for
    epsilon < 1, where it is larger than need be.

    Args:
        epsilon: the nominal privacy level, > 0.
        delta: the nominal failure mass, 0 < delta < 1.
        sensitivity: the L2 sensitivity, > 0.

    Returns:
        the standard deviation, in the unit of the sensitivity.

    Raises:
        ValueError: a value out of range.
    """
    return noise_sigma(epsilon, delta, sensitivity)


def gaussian_textbook_delta(epsilon: ArrayLike, sigma: float, sensitivity: float = 1.0) -> Array:
    """Return the textbook's upper bound on the spectrum of Gaussian noise, not its truth (see `GaussianShift`).

    min(1, 1.25 exp(-(sigma epsilon / sensitivity)^2 / 2)): the classical calibration of Dwork and Roth (2014), Theorem
    A.1, solved for delta; the loose curve of Fig. 6a of Lu, Magdon-Ismail, Wei and Zikas (2024). It is proved
    for epsilon < 1.

    Args:
        epsilon: levels >= 0, any shape.
        sigma: the standard deviation, > 0.
        sensitivity: the L2 distance of the two centres, > 0.

    Returns:
        float64 of the shape of `epsilon`, between 0 and 1.

    Raises:
        ValueError: a value out of range.
    """
    levels = checked("epsilon", epsilon, 0.0, np.inf)
    units = levels * (positive("sigma", sigma) / positive("sensitivity", sensitivity))
    return np.asarray(np.minimum(1.0, 1.25 * np.exp(-0.5 * units * units)))


def gaussian_mu(epsilon: float, delta: ArrayLike) -> Array:
    """Return the smallest mu whose exact spectrum reaches `delta` at `epsilon`, by bisection.

    A Gaussian mechanism is (epsilon, delta)-differentially private exactly when its mu is no larger
    (Balle and Wang 2018, Theorem 8).

    Args:
        epsilon: the privacy level, >= 0, finite.
        delta: masses, 0 < delta < 1, any shape.

    Returns:
        float64 of the shape of `delta`.

    Raises:
        ValueError: a value out of range.
    """
    level = np.asarray(non_negative("epsilon", epsilon))
    masses = checked("delta", delta, np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0))
    return invert_non_increasing(lambda mu: -_gaussian_delta(mu, level), -masses)


def _gaussian_delta(mu: Array, epsilon: Array) -> Array:
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), and its limit 0 at mu = 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.where(mu > 0.0, epsilon / mu, np.inf)
        first, second = 0.5 * mu - gap, -0.5 * mu - gap
        # e^epsilon times the density at `second` is the density at `first`, so the scaled tail erfcx
        # takes the place of e^epsilon Phi, which would overflow times underflow.
        density = 0.5 * np.exp(-0.5 * first * first)
        near = ndtr(first) - density * erfcx(-second / np.sqrt(2.0))
        tail = density * (erfcx(-np.minimum(first, 0.0) / np.sqrt(2.0)) - erfcx(-second / np.sqrt(2.0)))
    return np.where(gap == np.inf, 0.0, np.where(first > 0.0, near, np.maximum(tail, 0.0)))
