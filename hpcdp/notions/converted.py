"""What certified limits of both error rates say of ε at a given δ, and of μ of Gaussian differential privacy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]


def epsilon_lower(alpha_upper: ArrayLike, beta_upper: ArrayLike, delta: ArrayLike) -> Floats:
    """Lower bound on the ε at which the unordered pair can have this δ; as sure as the two limits are, finite-sample.

    A test with errors α and β shows δ_QP(ε) >= 1 − β − e^ε α and δ_PQ(ε) >= 1 − α − e^ε β. So ε is at least
    max(0, ln((1 − δ − β)/α), ln((1 − δ − α)/β)) (Askin et al. 2025, Section 6.4, where a fitted curve took the place of
    this bound; Kairouz, Oh and Viswanath 2015, Theorem 2.1).

    Args:
        alpha_upper, beta_upper: upper limits of the errors of one test, between 0 and 1; they broadcast.
        delta: masses from 0 to 1.

    Returns:
        float64 of the common shape, >= 0, natural log; infinite where a limit is 0 and the other errors leave room.
    """
    a, b, d = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (alpha_upper, beta_upper, delta)))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [np.log(np.maximum(1.0 - d - second, 0.0) / first) for first, second in ((a, b), (b, a))]
    return np.fmax(0.0, np.fmax(*found))  # 0/0 says nothing


def mu_lower(alpha_upper: ArrayLike, beta_upper: ArrayLike) -> Floats:
    """Lower bound on the μ for which the pair can be μ-GDP; as sure as the two limits are, finite-sample.

    T(α) >= Φ(Φ⁻¹(1 − α) − μ) for the test's errors, so μ >= Φ⁻¹(1 − α) − Φ⁻¹(β) (Dong, Roth and Su 2022, Definition 3).

    Args:
        alpha_upper, beta_upper: upper limits of the errors of one test, between 0 and 1; they broadcast.

    Returns:
        float64 of the common shape, >= 0; infinite where a limit is 0 and the other one is below 1.
    """
    a, b = np.broadcast_arrays(np.asarray(alpha_upper, np.float64), np.asarray(beta_upper, np.float64))
    with np.errstate(invalid="ignore"):
        found = -ndtri(a) - ndtri(b)
    return np.maximum(0.0, np.where(np.isnan(found), 0.0, found))
