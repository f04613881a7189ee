"""The exact pairs of the built-in mechanisms: noise on a vector, aggregates, histograms and tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.analytic._curve import Curve
from hpcdp.analytic._registry import register
from hpcdp.analytic.discrete import Discrete
from hpcdp.analytic.gaussian import GaussianShift
from hpcdp.analytic.laplace import LaplaceShift
from hpcdp.analytic.laplace_vector import laplace_pair
from hpcdp.mechanisms.additive import noise_scale, noise_sigma, vector
from hpcdp.mechanisms.aggregates import (
    aggregate_noise,
    clipped_mean,
    clipped_sum,
    mean_sensitivity,
    sum_sensitivity,
)
from hpcdp.mechanisms.histogram import histogram_scale
from hpcdp.mechanisms.noiseless import histogram_counts
from hpcdp.mechanisms.table import probability_row

Database = NDArray[Any]


@register("laplace")
def _laplace(
    d: Database,
    d_prime: Database,
    *,
    epsilon: float | None = None,
    sensitivity: float = 1.0,
    scale: float | None = None,
) -> Curve | None:
    spread = noise_scale(epsilon, sensitivity, scale)
    first, second = vector(d), vector(d_prime)
    if first.shape != second.shape:
        return None
    return laplace_pair(np.abs(first - second) / spread)


@register("gaussian")
def _gaussian(
    d: Database,
    d_prime: Database,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sensitivity: float = 1.0,
    sigma: float | None = None,
) -> Curve | None:
    spread = noise_sigma(epsilon, delta, sensitivity, sigma)
    first, second = vector(d), vector(d_prime)
    if first.shape != second.shape:
        return None
    return GaussianShift(float(np.linalg.norm(first - second)) / spread)


@register("bounded_mean")
def _bounded_mean(
    d: Database,
    d_prime: Database,
    *,
    lower: float,
    upper: float,
    count: int,
    epsilon: float,
    delta: float | None = None,
    noise: str = "laplace",
    column: int = 0,
) -> Curve:
    first, second = (
        clipped_mean(database, lower=lower, upper=upper, count=count, column=column) for database in (d, d_prime)
    )
    spread = aggregate_noise(noise, epsilon, delta, mean_sensitivity(lower, upper, count))
    return _shift(noise, abs(first - second) / spread)


@register("bounded_sum")
def _bounded_sum(
    d: Database,
    d_prime: Database,
    *,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float | None = None,
    noise: str = "laplace",
    column: int = 0,
) -> Curve:
    first, second = (clipped_sum(database, lower=lower, upper=upper, column=column) for database in (d, d_prime))
    spread = aggregate_noise(noise, epsilon, delta, sum_sensitivity(lower, upper))
    return _shift(noise, abs(first - second) / spread)


@register("pmf")
def _pmf(d: Database, d_prime: Database, *, outcomes: Sequence[float] | Sequence[str], table: ArrayLike) -> Curve:
    first, second = (probability_row(database, outcomes=outcomes, table=table) for database in (d, d_prime))
    return Discrete(first, second)


@register("noisy_histogram")
def _noisy_histogram(
    d: Database, d_prime: Database, *, values: ArrayLike, epsilon: float, variant: str = "correct"
) -> Curve:
    # A bin that does not change has loss 0: one changes when a row is removed, two when it is edited.
    scale = histogram_scale(epsilon, variant)
    first, second = (histogram_counts(database, values) for database in (d, d_prime))
    return laplace_pair(np.abs(first - second) / scale)


def _shift(noise: str, distance: float) -> Curve:
    return LaplaceShift(distance) if noise == "laplace" else GaussianShift(distance)
