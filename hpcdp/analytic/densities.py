"""Exact log densities, or log probabilities, of single outputs of built-in mechanisms whose outputs have one column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic._exact import complete, mechanism_law
from hpcdp.analytic.noisy_max import index_pmf, noise_law, real_log_density, truncated_log_density, value_log_density
from hpcdp.mechanisms.additive import Added, vector
from hpcdp.mechanisms.exponential import exponential_rate, noisy_max_scale, noisy_max_variant, real_score, truncated_law
from hpcdp.mechanisms.table import probability_row

Array = NDArray[np.float64]
LogDensity = Callable[[NDArray[Any]], Array]
"""Of outputs (size,): the natural log of their density or probability, (size,); −inf where there is none."""


def exact_log_density(mechanism: str, parameters: Mapping[str, Any], database: NDArray[Any]) -> LogDensity | None:
    """The exact law of a built-in mechanism on a database; None where unknown, of other names, or with several columns."""
    law = mechanism_law(mechanism)
    if law is None and mechanism not in _LAWS:
        return None
    own = complete(mechanism, parameters)
    return _LAWS[mechanism](database, **own) if law is None else _shifted(law(database, False, **own))


def _shifted(law: Added) -> LogDensity | None:
    if law.noise is None or law.centres.size != 1:
        return None
    centre, spread = float(law.centres.ravel()[0]), law.spread
    if law.noise == "laplace":
        return lambda t: np.asarray(-np.abs(t - centre) / spread - np.log(2.0 * spread), np.float64)
    return lambda t: np.asarray(
        -0.5 * ((t - centre) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2.0 * np.pi), np.float64
    )


def _exponential_real(database: NDArray[Any], *, lower: float, upper: float, **unit: Any) -> LogDensity:
    rate = exponential_rate(lower=lower, upper=upper, **unit)
    return real_log_density(real_score(database, lower, upper), rate)


def _truncated(database: NDArray[Any], *, noise: str, **interval: Any) -> LogDensity:
    return truncated_log_density(noise, truncated_law(database, noise=noise, **interval))


def _noisy_max(database: NDArray[Any], *, variant: str, **size: Any) -> LogDensity:
    noise, output = noisy_max_variant(variant)
    spread = noisy_max_scale(**size)
    answers, law = vector(database) / spread, noise_law(noise)
    if output == "value":
        return lambda t: value_log_density(np.asarray(t, np.float64) / spread, answers, law) - np.log(spread)
    return _table(np.arange(answers.size), index_pmf(answers, law))


def _randomized_response(database: NDArray[Any], *, epsilon: float, values: int) -> LogDensity | None:
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
    "exponential_real": _exponential_real,
    "truncated": _truncated,
    "noisy_max": _noisy_max,
    "randomized_response": _randomized_response,
    "pmf": _pmf,
}
