"""Laplace or normal noise around one number, given that the output lies in an interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from hpcdp._check import positive, real, refusal
from hpcdp.mechanisms.additive import vector

Array = NDArray[np.float64]
Law = tuple[float, float, float, float]


def truncated(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    scale: float,
    noise: str = "laplace",
    lower: float = 0.0,
    upper: float = 1.0,
) -> Array:
    """Draw from a Laplace or normal density around the database's one number, renormalised on [lower, upper].

    Gorla et al. 2023. Laplace: (upper - lower)/scale-DP for all numbers of the interval, which its two ends attain, and
    1/(scale² (1 - exp(-(upper - lower)/scale)))-Lipschitz at most. Gaussian: (upper - lower)²/(2 scale²)-DP at the ends.

    Args:
        database: one number, from `lower` to `upper`.
        size: how many outputs.
        rng: the source of randomness; one uniform an output, for the inverse cdf.
        scale: of Laplace noise, or the standard deviation of Gaussian noise, > 0, in the unit of outputs.
        noise: "laplace" or "gaussian".
        lower, upper: the interval, lower < upper.

    Returns:
        float64 of shape (size,), from `lower` to `upper`.

    Raises:
        ValueError: a parameter or the database is refused.
    """
    x, s, start, stop = truncated_law(database, scale, noise, lower, upper)
    u = rng.random(size)
    if noise == "gaussian":
        below, above = ndtr((start - x) / s), ndtr((stop - x) / s)
        drawn = x + s * ndtri(below + u * (above - below))
    else:
        left, right = (-math.expm1(-distance / s) for distance in (x - start, stop - x))
        u *= left + right
        with np.errstate(divide="ignore"):
            drawn = np.where(
                u < left, x + s * np.log1p(np.minimum(u, left) - left), x - s * np.log1p(-np.maximum(u - left, 0.0))
            )
    return np.clip(drawn, start, stop)


def truncated_law(database: NDArray[Any], scale: float, noise: str, lower: float, upper: float) -> Law:
    """Return the number, the scale, and both ends of the interval.

    Raises:
        ValueError: a parameter or the database is refused.
    """
    if noise not in ("laplace", "gaussian"):
        raise refusal("noise", noise, '"laplace" or "gaussian"')
    start, stop = real("lower", lower), real("upper", upper)
    if not start < stop or not math.isfinite(stop - start):
        raise refusal("lower, upper", (lower, upper), "lower < upper")
    values = vector(database)
    if values.size != 1 or not start <= values[0] <= stop:
        raise refusal("database", values, f"one number from {start:g} to {stop:g}")
    return float(values[0]), positive("scale", scale), start, stop
