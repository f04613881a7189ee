"""Trade-off points (f-DP) for the η grid: type-I and type-II errors of the test that rejects when q/p > η."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.bounds import binomial_upper, hoeffding_radius

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Points of each pair, arrays of shape (pairs, etas), NaN where counts are missing.

    alpha, beta: α̃ = share of M(D) outputs with L̂ < −log η, β̃ = share of M(D') outputs with L̂ ≥ −log η. The mean point lies
    on or above T (Askin et al. 2025, Theorem 5.1(1)). radius: w(γ), finite-sample, for all η of all pairs at once (DKW).
    alpha_upper, beta_upper: exact one-sided limits, finite-sample, simultaneous over all points.
    """

    alpha: Floats
    beta: Floats
    radius: Floats
    alpha_upper: Floats
    beta_upper: Floats


def make_tradeoff(rejected: Ints, test: Ints, confidence: float, families: int = 1) -> TradeOff:
    """From counts (pairs, etas, 2) of rejections (L̂ < −log η) of D and D', and test outputs (pairs, 2).

    The radius is w(γ/(pairs·families)): DKW covers every η of a family of nested sets at once, a union bound the rest.
    families: at most so many a pair; 1 where all η are of one L̂.
    """
    pairs, etas, _ = rejected.shape
    failure = 1.0 - confidence
    known = (rejected >= 0).all(axis=-1)
    trials = np.broadcast_to(test[:, None, :], rejected.shape)
    alpha, beta, alpha_upper, beta_upper, radius = (np.full(known.shape, np.nan) for _ in range(5))
    n, x = trials[known], rejected[known]
    if x.size:
        level = failure / (2 * pairs * etas)
        alpha[known] = x[:, 0] / n[:, 0]
        beta[known] = (n[:, 1] - x[:, 1]) / n[:, 1]
        alpha_upper[known] = binomial_upper(x[:, 0], n[:, 0], level)
        beta_upper[known] = binomial_upper(n[:, 1] - x[:, 1], n[:, 1], level)
        radius[known] = hoeffding_radius(n.min(axis=1), failure / (pairs * families))
    return TradeOff(alpha, beta, radius, alpha_upper, beta_upper)
