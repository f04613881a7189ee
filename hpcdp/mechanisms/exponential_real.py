"""The exponential mechanism for one number, on the half-line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import non_negative, positive, refusal
from hpcdp.mechanisms.additive import vector

_BISECTIONS = 200


def exponential_real(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    epsilon: float | None = None,
    rate: float | None = None,
    lower: float = 1.0,
    upper: float = 2.0,
) -> NDArray[np.float64]:
    """Draw t >= 0 with density rate · exp(-rate · |s - t|) / (2 - exp(-rate · s)), s the database's one number.

    McSherry and Talwar 2007 with the utility -|s - t|; Askin, Kutta and Dette 2022, Section V. The claim holds: it is
    epsilon-DP for all s between `lower` and `upper`, with rate · (upper - lower) + ln(2 - exp(-rate · upper))
    - ln(2 - exp(-rate · lower)) = epsilon, which the pair of both ends attains.

    Args:
        database: one number s, from `lower` to `upper`.
        size: how many outputs.
        rng: the source of randomness; one uniform an output, for the inverse cdf.
        epsilon: the nominal privacy level, > 0; exactly one of `epsilon` and `rate`.
        rate: the rate itself, > 0; the interval then only says which s are accepted.
        lower, upper: between which numbers s lies, 0 <= lower < upper.

    Returns:
        float64 of shape (size,), >= 0.

    Raises:
        ValueError: a parameter or the database is refused.
    """
    found, s = exponential_rate(epsilon, rate, lower, upper), real_score(database, lower, upper)
    mass = 1.0 - math.exp(-found * s)  # times the normaliser: what lies left of s
    u = rng.random(size) * (1.0 + mass)
    with np.errstate(divide="ignore"):
        left = s + np.log1p(np.minimum(u, mass) - mass) / found
        right = s - np.log1p(-np.maximum(u - mass, 0.0)) / found
    return np.asarray(np.maximum(np.where(u < mass, left, right), 0.0))


def real_score(database: NDArray[Any], lower: float, upper: float) -> float:
    """Return the one number of a database.

    Raises:
        ValueError: there are more or none, or it is not from `lower` to `upper`.
    """
    values = vector(database)
    if values.size != 1 or not lower <= values[0] <= upper:
        raise refusal("database", values, f"one number from {lower:g} to {upper:g}")
    return float(values[0])


def exponential_rate(epsilon: float | None, rate: float | None, lower: float, upper: float) -> float:
    """Return the rate: as given, or that at which the level over the interval is `epsilon`, by bisection.

    Raises:
        ValueError: both or none of `epsilon` and `rate`, or a value out of range.
    """
    if (epsilon is None) == (rate is None):
        raise refusal("epsilon, rate", (epsilon, rate), "exactly one of the two")
    start, stop = non_negative("lower", lower), positive("upper", upper)
    if not start < stop:
        raise refusal("lower, upper", (lower, upper), "0 <= lower < upper")
    if rate is not None:
        return positive("rate", rate)
    level = positive("epsilon", epsilon)
    low, high = 0.0, level / (stop - start)  # the logarithms do not decrease in s
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exponential_level(middle, start, stop) < level else (low, middle)
    return high


def exponential_level(rate: float, first: float, second: float) -> float:
    """Return the pure level of two numbers s: rate · |s - s'| + |ln(2 - exp(-rate · s')) - ln(2 - exp(-rate · s))|."""
    logs = [math.log1p(-math.expm1(-rate * s)) for s in (first, second)]
    return rate * abs(first - second) + abs(logs[0] - logs[1])
