"""Noisy stochastic gradient descent on the mean of some numbers: training with differential privacy in small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import integer, positive, real, refusal
from hpcdp.mechanisms._batches import MOST_KINDS, blocks, check_batch, draw_places, enumerate_batches
from hpcdp.mechanisms.additive import one_or_many

Array = NDArray[np.float64]


@one_or_many
def toy_dpsgd(
    databases: NDArray[Any],
    many: bool,
    size: int,
    rng: np.random.Generator,
    *,
    batch: int = 5,
    rate: float = 0.2,
    sigma: float = 0.2,
    updates: int = 10,
    start: float = 0.0,
) -> Array:
    """Draw the last of `updates` noisy gradient steps t <- t - rate (mean over a batch of (t - x) + Z) towards the mean.

    Each step has its own batch, drawn from all rows without replacement, and its own Z ~ N(0, sigma^2); Askin, Dette,
    Dunsche, Kutta, Lu, Wei and Zikas 2025, Algorithm 4, with exactly `updates` steps. The result is
    start (1 - rate)^updates + sum over t of rate (1 - rate)^(updates - t) (mean of batch t - Z_t), so the noise of all
    steps is one normal number; where there are few different batch sums (up to 4096, as rows repeat or are few), the
    draws are divided among them at once. Both have the law of the loop exactly.

    Args:
        database: finite numbers of shape (rows,); rows with columns are refused.
        batch: rows of a batch, from 1 to the number of rows.
        rate: the length of a step, above 0 and at most 1.
        sigma: the standard deviation of the noise of each gradient, > 0.
        updates: how many steps, >= 1.
        start: where the first step starts, finite.

    Returns float64 of shape (size,).
    """
    shares = step_shares(rate, updates)
    rows = row_values(databases, many)
    check_batch(rows.shape[-1], batch, None)
    # noise around what is left of the start
    left = real("start", start) * (1.0 - rate) ** updates
    out = np.asarray(left + noise_deviation(rate, sigma, updates) * rng.standard_normal(size))
    if many:
        for block in blocks(size, updates * max(batch, rows.shape[1])):
            own = np.repeat(rows[block], updates, axis=0)
            places, _ = draw_places(rows.shape[1], own.shape[0], rng, batch=batch)
            out[block] += np.take_along_axis(own, places, axis=1).sum(axis=1).reshape(-1, updates) @ (shares / batch)
        return out
    law = batch_sums(rows, batch)
    if law is None:
        for block in blocks(size, updates * batch):
            places, _ = draw_places(rows.size, updates * out[block].size, rng, batch=batch)
            out[block] += rows[places].sum(axis=1).reshape(-1, updates) @ (shares / batch)
        return out
    sums, probabilities = law
    # the steps in groups whose batches have at most MOST_KINDS joint outcomes
    together = shares.size if sums.size == 1 else max(1, int(math.log(MOST_KINDS) / math.log(sums.size) + 1e-9))
    for first in range(0, shares.size, together):
        where, weights = joint_locations(shares[first : first + together] / batch, sums, probabilities)
        # Independent draws are their numbers per location, which are multinomial, in random order.
        out += rng.permutation(np.repeat(where, rng.multinomial(size, weights)))
    return out


def step_shares(rate: float, updates: int) -> Array:
    """Return the share of each step's gradient in the result, rate (1 - rate)^(updates - t): shape (updates,), t from 1."""
    if positive("rate", rate) > 1.0:
        raise refusal("rate", rate, "a number above 0, at most 1")
    return np.asarray(rate * (1.0 - rate) ** np.arange(integer("updates", updates, 1) - 1.0, -1.0, -1.0))


def noise_deviation(rate: float, sigma: float, updates: int) -> float:
    """Return the standard deviation of the noise in the result: sigma times the Euclidean norm of the steps' shares."""
    return positive("sigma", sigma) * float(np.linalg.norm(step_shares(rate, updates)))


def row_values(databases: NDArray[Any], many: bool = False) -> Array:
    """Return the rows as float64 of shape (rows,), of many databases (size, rows)."""
    values = np.asarray(databases)
    if values.ndim != 1 + many or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise refusal("database", databases, "finite numbers of shape (rows,); rows with columns have no toy_dpsgd")
    return values.astype(np.float64)


def batch_sums(rows: Array, batch: int) -> tuple[Array, Array] | None:
    """Return the different sums of a random batch of the rows, ascending, and their probabilities; None where too many."""
    values, repeats = np.unique(rows, return_counts=True)
    kinds = enumerate_batches(tuple(repeats.tolist()), batch, None)
    if kinds is None:
        return None
    sums, place = np.unique(kinds.counts @ values, return_inverse=True)
    return sums, np.asarray(np.bincount(place, weights=kinds.probabilities), np.float64)


def joint_locations(shares: Array, sums: Array, probabilities: Array) -> tuple[Array, Array]:
    """Return the values of the sum over steps of share times batch sum, and their probabilities, k ** steps each."""
    where, weights = np.zeros(1), np.ones(1)
    for share in shares:
        where = np.add.outer(where, share * sums).ravel()
        weights = np.multiply.outer(weights, probabilities).ravel()
    return where, weights
