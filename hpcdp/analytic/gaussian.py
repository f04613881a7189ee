"""The Gaussian mechanism: normal noise around two centres.

Noisy gradient descent on the mean of some numbers, when the rows of one database are all equal.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr, ndtri

from hpcdp._check import integer, non_negative, positive, real, refusal
from hpcdp.analytic._curve import Curve, Direction, checked, invert_non_increasing
from hpcdp.analytic._divergence import Parts
from hpcdp.analytic.normal_mixture import NormalMixture
from hpcdp.mechanisms._batches import check_batch
from hpcdp.mechanisms.additive import noise_sigma
from hpcdp.mechanisms.toy_dpsgd import batch_sums, joint_locations, noise_deviation, row_values, step_shares

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


MOST_PARTS = 1 << 16
"""Parts of a mixture that are summed up; with two kinds of batches these are those of 16 updates."""


def toy_dpsgd_pair(
    shift: float = 1.0,
    *,
    rows: int = 10,
    batch: int = 5,
    rate: float = 0.2,
    sigma: float = 0.2,
    updates: int = 10,
) -> NormalMixture:
    """Return the exact pair of toy DP-SGD on equal rows (P) and on the same with one row moved by `shift` (Q).

    P = N(c, s^2) with s^2 = sum over t of (rate (1 - rate)^(updates - t) sigma)^2. Q is the mixture over the sets I of
    updates whose batch holds the row, the empty set among them, of N(c + mu_I, s^2) with mu_I = sum over t in I of
    rate (1 - rate)^(updates - t) shift / batch, and weights (m/r)^|I| (1 - m/r)^(updates - |I|). The mechanism is
    Algorithm 4 of Askin et al. 2025; the formula printed there has equal weights, so it is for m/r = 1/2.

    Args:
        shift: how far the row that differs is from the others; its sign does not matter.
        rows: r, of each database.
        batch: m, rows of a batch.
        rate: the length of a step, above 0 and at most 1.
        sigma: the standard deviation of the noise of each gradient, > 0.
        updates: how many steps, from 1; the parts of the mixture are 2 ** updates, at most 2 ** 16.

    Raises:
        ValueError: a parameter is refused.
    """
    changed = np.zeros(integer("rows", rows, 1))
    changed[0] = abs(real("shift", shift))
    curve = equal_rows_pair(0.0, changed, batch=batch, rate=rate, sigma=sigma, updates=updates)
    if curve is None:
        raise refusal("updates", updates, f"at most {int(math.log2(MOST_PARTS))}, which make 2 ** updates parts")
    return curve


def equal_rows_pair(
    value: float, rows: ArrayLike, *, batch: int, rate: float, sigma: float, updates: int
) -> NormalMixture | None:
    """The exact pair of rows that equal `value` (P) and of rows on one side of it (Q); None of both sides or > 2 ** 16 parts."""
    shares = step_shares(rate, updates)
    others = row_values(np.asarray(rows))
    check_batch(others.size, batch, None)
    spread = noise_deviation(rate, sigma, updates)
    apart = others - real("value", value)
    if apart.min() < 0.0 < apart.max():
        return None
    law = batch_sums(np.abs(apart), batch)
    if law is None or updates * math.log2(law[0].size) > math.log2(MOST_PARTS):
        return None
    shifts, weights = joint_locations(shares / (batch * spread), *law)
    return NormalMixture(shifts, weights)
