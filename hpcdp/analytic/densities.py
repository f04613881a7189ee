"""Exact log densities, or log probabilities, of single outputs of built-in mechanisms whose outputs have one column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic._noise import noise_law
from hpcdp.analytic.noisy_max import index_pmf, value_log_density
from hpcdp.analytic.truncated import truncated_log_density
from hpcdp.mechanisms.additive import noise_scale, noise_sigma, vector
from hpcdp.mechanisms.aggregates import aggregate_noise, clipped_mean, clipped_sum, mean_sensitivity, sum_sensitivity
from hpcdp.mechanisms.exponential_real import exponential_rate, real_score
from hpcdp.mechanisms.noisy_max import noisy_max_scale, noisy_max_variant
from hpcdp.mechanisms.table import probability_row
from hpcdp.mechanisms.truncated import truncated_law

Array = NDArray[np.float64]
LogDensity = Callable[[NDArray[Any]], Array]
"""Of outputs (size,): the natural log of their density or probability, (size,); −inf where there is none."""


def exact_log_density(mechanism: str, parameters: Mapping[str, Any], database: NDArray[Any]) -> LogDensity | None:
    """The exact law of a built-in mechanism on one database; None where it is not known, or outputs have several columns.

    Args:
        mechanism: the name of a built-in mechanism, as in a study file; any other name gives None.
        parameters: its keyword arguments, which it accepts.
        database: which it accepts.
    """
    make = _LAWS.get(mechanism)
    return None if make is None else make(database, **parameters)


def _shifted(noise: str, centre: float, spread: float) -> LogDensity:
    if noise == "laplace":
        return lambda t: np.asarray(-np.abs(t - centre) / spread - np.log(2.0 * spread), np.float64)
    return lambda t: np.asarray(
        -0.5 * ((t - centre) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2.0 * np.pi), np.float64
    )


def _laplace(
    database: NDArray[Any], *, epsilon: float | None = None, sensitivity: float = 1.0, scale: float | None = None
) -> LogDensity | None:
    rows = vector(database)
    return _shifted("laplace", float(rows[0]), noise_scale(epsilon, sensitivity, scale)) if rows.size == 1 else None


def _gaussian(
    database: NDArray[Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sensitivity: float = 1.0,
    sigma: float | None = None,
) -> LogDensity | None:
    rows = vector(database)
    spread = noise_sigma(epsilon, delta, sensitivity, sigma)
    return _shifted("gaussian", float(rows[0]), spread) if rows.size == 1 else None


def _bounded_sum(database: NDArray[Any], *, lower: float, upper: float, column: int = 0, **noise: Any) -> LogDensity:
    centre = clipped_sum(database, lower=lower, upper=upper, column=column)
    return _aggregated(centre, sum_sensitivity(lower, upper), **noise)


def _bounded_mean(
    database: NDArray[Any], *, lower: float, upper: float, count: int, column: int = 0, **noise: Any
) -> LogDensity:
    centre = clipped_mean(database, lower=lower, upper=upper, count=count, column=column)
    return _aggregated(centre, mean_sensitivity(lower, upper, count), **noise)


def _aggregated(
    centre: float, sensitivity: float, *, epsilon: float, delta: float | None = None, noise: str = "laplace"
) -> LogDensity:
    return _shifted(noise, float(centre), aggregate_noise(noise, epsilon, delta, sensitivity))


def _exponential_real(
    database: NDArray[Any],
    *,
    epsilon: float | None = None,
    rate: float | None = None,
    lower: float = 1.0,
    upper: float = 2.0,
) -> LogDensity:
    score, unit = real_score(database, lower, upper), exponential_rate(epsilon, rate, lower, upper)
    whole = np.log(unit) - np.log1p(-np.expm1(-unit * score))
    return lambda t: np.where(np.asarray(t) >= 0.0, whole - unit * np.abs(t - score), -np.inf)


def _truncated(
    database: NDArray[Any], *, scale: float, noise: str = "laplace", lower: float = 0.0, upper: float = 1.0
) -> LogDensity:
    return truncated_log_density(noise, truncated_law(database, scale, noise, lower, upper))


def _noisy_max(
    database: NDArray[Any],
    *,
    variant: str,
    epsilon: float | None = None,
    scale: float | None = None,
    sensitivity: float = 1.0,
    monotonic: bool = False,
) -> LogDensity:
    noise, output = noisy_max_variant(variant)
    spread = noisy_max_scale(epsilon, scale, sensitivity, monotonic)
    answers, law = vector(database) / spread, noise_law(noise)
    if output == "value":
        return lambda t: value_log_density(np.asarray(t, np.float64) / spread, answers, law) - np.log(spread)
    return _table(np.arange(answers.size), index_pmf(answers, law))


def _randomized_response(database: NDArray[Any], *, epsilon: float, values: int = 2) -> LogDensity | None:
    rows = np.asarray(database)
    if rows.shape != (1,):
        return None
    pmf = np.exp(np.where(np.arange(values) == rows[0], epsilon, 0.0))
    return _table(np.arange(values), pmf / pmf.sum())


def _pmf(database: NDArray[Any], *, outcomes: Any, table: Any) -> LogDensity:
    names = np.array([o.encode() if isinstance(o, str) else o for o in outcomes])
    return _table(names, probability_row(database, outcomes=outcomes, table=table))


def _table(outcomes: NDArray[Any], probabilities: Array) -> LogDensity:
    with np.errstate(divide="ignore"):
        logs = dict(zip(outcomes.tolist(), np.log(probabilities).tolist(), strict=True))
    return lambda t: np.array([logs.get(value, -np.inf) for value in t.tolist()], np.float64)


_LAWS: Mapping[str, Callable[..., LogDensity | None]] = {
    "laplace": _laplace,
    "gaussian": _gaussian,
    "bounded_sum": _bounded_sum,
    "bounded_mean": _bounded_mean,
    "exponential_real": _exponential_real,
    "truncated": _truncated,
    "noisy_max": _noisy_max,
    "randomized_response": _randomized_response,
    "pmf": _pmf,
}
