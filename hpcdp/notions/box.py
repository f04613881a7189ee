"""One test of a pair against a claimed trade-off curve: upper limits of its two errors, and what they leave of the claim,
of ε at a given δ, and of μ of Gaussian differential privacy.

Arrays of errors have a last axis of two: the first error, whose size the curve T0 is a function of, and the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from hpcdp.notions.bounds import binomial_upper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TradeOffFunction = Callable[[Floats], Floats]
Limits = Literal["exact", "hoeffding"]


def error_limits(errors: Ints, test: Ints, level: Floats, limits: Limits = "exact") -> Floats:
    """Upper limits (…, 2) of both errors at `level` together; "exact" (Clopper–Pearson) or "hoeffding". Finite-sample."""
    half = 0.5 * np.broadcast_to(level, errors.shape[:-1])[..., None]
    if limits == "exact":
        return binomial_upper(errors, test, np.broadcast_to(half, errors.shape))
    return np.asarray(errors / test + np.sqrt(-np.log(half) / (2.0 * test)))


def margins(claimed: TradeOffFunction, errors: Floats) -> Floats:
    """T0 at the first error minus the second, (…) of (…, 2); above 0 the claim is violated (Askin et al. 2025, eq. 20)."""
    first, second = errors[..., 0], errors[..., 1]
    return np.asarray(claimed(np.minimum(first, 1.0)) - second - np.where(first > 1.0, 1.0, 0.0))


def promises(claimed: TradeOffFunction, errors: Floats, size: Ints, level: float, limits: Limits = "exact") -> Floats:
    """How far below the claim tests with errors (…, 2) lie, in units of what boxes of `size` outputs take away."""
    over = error_limits(np.rint(errors * size).astype(np.int64), size, np.full(errors.shape[:-1], level), limits)
    gap = margins(claimed, errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = gap / (gap - margins(claimed, over))
    return np.where(np.isnan(share), 0.0, share)


def epsilon_lower(alpha_upper: ArrayLike, beta_upper: ArrayLike, delta: ArrayLike) -> Floats:
    """Lower bound on the ε at which the unordered pair can have this δ; as sure as the two limits are, finite-sample.

    Errors α and β show δ_QP(ε) >= 1 − β − e^ε α and δ_PQ(ε) >= 1 − α − e^ε β, so ε >= ln((1 − δ − β)/α), ln((1 − δ − α)/β)
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1). Infinite where a limit is 0 and the other errors leave room.
    """
    a, b, d = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (alpha_upper, beta_upper, delta)))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(np.maximum(1.0 - d - second, 0.0) / first) for first, second in ((a, b), (b, a))]
    return np.fmax(0.0, np.fmax(*logs))  # 0/0 says nothing


def mu_lower(alpha_upper: ArrayLike, beta_upper: ArrayLike) -> Floats:
    """Lower bound on the μ of GDP, Φ⁻¹(1 − α) − Φ⁻¹(β) (Dong, Roth and Su 2022, Definition 3). Finite-sample."""
    a, b = np.broadcast_arrays(np.asarray(alpha_upper, np.float64), np.asarray(beta_upper, np.float64))
    with np.errstate(invalid="ignore"):
        mu = -ndtri(a) - ndtri(b)
    return np.maximum(0.0, np.where(np.isnan(mu), 0.0, mu))
