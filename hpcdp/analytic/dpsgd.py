"""Noisy gradient descent on the mean of some numbers, when the rows of one database are all equal."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import integer, real, refusal
from hpcdp.analytic.normal_mixture import NormalMixture
from hpcdp.mechanisms._batches import check_batch
from hpcdp.mechanisms.toy_dpsgd import batch_sums, joint_locations, noise_deviation, row_values, step_shares

Array = NDArray[np.float64]

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
    """Return the exact pair of rows that all equal `value` (P) and of other rows, none below it or none above it (Q).

    The databases may differ in their numbers of rows. None where rows lie on both sides, so that the likelihood ratio is
    not monotone, or where the mixture has more than 2 ** 16 parts.

    Raises:
        ValueError: a parameter or the rows are refused.
    """
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
