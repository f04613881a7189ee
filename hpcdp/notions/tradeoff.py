"""Trade-off points (f-DP) for the η grid: type-I and type-II errors of the test that rejects when q/p > η.

Cells that drew and trained for themselves too: BayBox points, and Fig. 1 of Lu et al. from its testing errors.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.bounds import binomial_lower, binomial_upper, hoeffding_radius
from hpcdp.notions.spectrum import Cells

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
    """From rejections (pairs, etas, 2) and outputs (pairs, 2): DKW covers all η of a family, a union bound the rest."""
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


def make_risk_cells(errors: Ints, tests: Ints, epsilons: Floats, level: Floats, confidence: float) -> Cells:
    """Cells of the literal estimator from errors, −1 where not done, and tests, (pairs, 2, epsilons), in the place of counts.

    lower: 1 − 2 e^ε·(exact upper limit of the risk), finite-sample, simultaneous. upper: approximate, regret is ignored.
    """
    known = errors >= 0
    inflation = np.broadcast_to(np.exp(epsilons), known.shape)[known]
    delta, error, lower, upper = (np.full(known.shape, np.nan) for _ in range(4))
    if known.any():
        x, n = errors[known], tests[known]
        risk = x / n
        delta[known] = np.maximum(0.0, 1.0 - 2.0 * inflation * risk)
        error[known] = 2.0 * inflation * np.sqrt(risk * (1.0 - risk) / n)
        lower[known] = np.maximum(0.0, 1.0 - 2.0 * inflation * binomial_upper(x, n, level[known]))
        optimistic = binomial_lower(x, n, 0.5 * (1.0 - confidence))
        upper[known] = np.clip(1.0 - 2.0 * inflation * optimistic, 0.0, 1.0)
    best_beyond = np.fmax.accumulate(lower[..., ::-1], axis=-1)[..., ::-1]
    return Cells(delta, error, np.where(known, best_beyond, np.nan), upper, errors, tests)


def make_point_cells(rejected: Ints, test: Ints, confidence: float) -> TradeOff:
    """Trade-off points whose every (pair, η) drew, trained and counted for itself; arrays of shape (pairs, etas), −1: not done.

    With a classifier of its own for each η there is no one empirical distribution, so DKW does not give every η at once: a union
    bound over all cells, the radius by Hoeffding's inequality (Askin et al. 2025, Theorem 5.1(1)). Finite-sample, simultaneous.
    """
    pairs, etas, _ = rejected.shape
    each = make_tradeoff(rejected.reshape(-1, 1, 2), test.reshape(-1, 2), confidence)  # a cell is a pair with one η
    return TradeOff(**{field.name: getattr(each, field.name).reshape(pairs, etas) for field in fields(each)})
