"""Bounded mean and bounded sum of one column, with Laplace or Gaussian noise."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import integer, real, refusal
from hpcdp.mechanisms.additive import draw_gaussian, draw_laplace, noise_scale, noise_sigma

Array = NDArray[np.float64]
Noise = Literal["laplace", "gaussian"]


def clipped_mean(database: NDArray[Any], *, lower: float, upper: float, count: int, column: int = 0) -> float:
    """Return lower + sum(clip(x, lower, upper) - lower) / count for the numbers x of one column.

    A row that is missing stands for `lower`, so `count` stays the same for a database and its neighbours.

    Raises:
        ValueError: a parameter, the database or the column is refused.
    """
    low, high = _limits(lower, upper)
    values = np.clip(_column(database, column), low, high)
    return float(_mean(values, low, count))


def clipped_sum(database: NDArray[Any], *, lower: float, upper: float, column: int = 0) -> float:
    """Return sum(clip(x, lower, upper)) for the numbers x of one column; 0 for no rows.

    Raises:
        ValueError: a parameter, the database or the column is refused.
    """
    low, high = _limits(lower, upper)
    return float(np.sum(np.clip(_column(database, column), low, high)))


def mean_sensitivity(lower: float, upper: float, count: int) -> float:
    """Return how far one row can move `clipped_mean`: (upper - lower) / count, removed or edited."""
    low, high = _limits(lower, upper)
    return (high - low) / integer("count", count, 1)


def sum_sensitivity(lower: float, upper: float) -> float:
    """Return how far one row can move `clipped_sum`: max(|lower|, |upper|) removed, upper - lower edited.

    The larger of the two is returned, so it holds for both neighbouring relations.
    """
    low, high = _limits(lower, upper)
    return max(abs(low), abs(high), high - low)


def aggregate_noise(noise: str, epsilon: float | None, delta: float | None, sensitivity: float) -> float:
    """Return the scale of the Laplace noise or the standard deviation of the Gaussian noise.

    Raises:
        ValueError: an unknown `noise`, a `delta` with Laplace noise or none with Gaussian noise, or a
            value out of range.
    """
    if noise == "laplace":
        if delta is not None:
            raise refusal("delta", delta, 'no delta with noise = "laplace"')
        return noise_scale(epsilon, sensitivity)
    if noise == "gaussian":
        return noise_sigma(epsilon, delta, sensitivity)
    raise refusal("noise", noise, '"laplace" or "gaussian"')


def bounded_mean(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    lower: float,
    upper: float,
    count: int,
    epsilon: float,
    delta: float | None = None,
    noise: Noise = "laplace",
    column: int = 0,
) -> Array:
    """Draw outputs of the noisy mean of one column, clipped to [lower, upper].

    The noise is added to `clipped_mean`; its scale follows from sensitivity (upper - lower) / count.

    Args:
        database: (rows,) or (rows, columns); rows may be none; the column's numbers must not be NaN.
        size: how many outputs.
        rng: the source of randomness; one call draws all the noise.
        lower: the lower limit that values are clipped to, finite.
        upper: the upper limit that values are clipped to, finite, above `lower`.
        count: what the sum is divided by, public, the same for a database and its neighbours, >= 1.
        epsilon: the nominal privacy level, > 0.
        delta: the nominal failure mass, 0 < delta < 1; with Gaussian noise only, and required there.
        noise: "laplace" or "gaussian" (classical calibration, see `noise_sigma`).
        column: which column, from 0; must be 0 for a database of shape (rows,).

    Returns:
        float64 of shape (size,).

    Raises:
        ValueError: a parameter or the database is refused.
    """
    centre = clipped_mean(database, lower=lower, upper=upper, count=count, column=column)
    spread = aggregate_noise(noise, epsilon, delta, mean_sensitivity(lower, upper, count))
    return (draw_laplace if noise == "laplace" else draw_gaussian)(centre, spread, size, rng)


def bounded_mean_each(
    databases: NDArray[Any],
    rng: np.random.Generator,
    *,
    lower: float,
    upper: float,
    count: int,
    epsilon: float,
    delta: float | None = None,
    noise: Noise = "laplace",
    column: int = 0,
) -> Array:
    """Draw one output of `bounded_mean` on each database (size, rows) or (size, rows, columns), shape (size,)."""
    low, high = _limits(lower, upper)
    spread = aggregate_noise(noise, epsilon, delta, mean_sensitivity(lower, upper, count))
    values = np.clip(_columns(databases, column), low, high)
    return _add_noise(_mean(values, low, count), noise, spread, rng)


def bounded_sum(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float | None = None,
    noise: Noise = "laplace",
    column: int = 0,
) -> Array:
    """Draw outputs of the noisy sum of one column, clipped to [lower, upper].

    The noise is added to `clipped_sum`; its scale follows from sensitivity
    max(|lower|, |upper|, upper - lower), which holds when a row is removed and when one is edited.

    Args:
        database: (rows,) or (rows, columns); rows may be none; the column's numbers must not be NaN.
        size: how many outputs.
        rng: the source of randomness; one call draws all the noise.
        lower: the lower limit that values are clipped to, finite.
        upper: the upper limit that values are clipped to, finite, above `lower`.
        epsilon: the nominal privacy level, > 0.
        delta: the nominal failure mass, 0 < delta < 1; with Gaussian noise only, and required there.
        noise: "laplace" or "gaussian" (classical calibration, see `noise_sigma`).
        column: which column, from 0; must be 0 for a database of shape (rows,).

    Returns:
        float64 of shape (size,).

    Raises:
        ValueError: a parameter or the database is refused.
    """
    centre = clipped_sum(database, lower=lower, upper=upper, column=column)
    spread = aggregate_noise(noise, epsilon, delta, sum_sensitivity(lower, upper))
    return (draw_laplace if noise == "laplace" else draw_gaussian)(centre, spread, size, rng)


def bounded_sum_each(
    databases: NDArray[Any],
    rng: np.random.Generator,
    *,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float | None = None,
    noise: Noise = "laplace",
    column: int = 0,
) -> Array:
    """Draw one output of `bounded_sum` on each database (size, rows) or (size, rows, columns), shape (size,)."""
    low, high = _limits(lower, upper)
    spread = aggregate_noise(noise, epsilon, delta, sum_sensitivity(lower, upper))
    return _add_noise(np.clip(_columns(databases, column), low, high).sum(axis=1), noise, spread, rng)


bounded_mean.each = bounded_mean_each  # type: ignore[attr-defined]
bounded_sum.each = bounded_sum_each  # type: ignore[attr-defined]


def _mean(clipped: Array, low: float, count: int) -> Array:
    """The mean over the last axis where a missing row stands for `low`."""
    return np.asarray(low + np.sum(clipped - low, axis=-1) / integer("count", count, 1))


def _add_noise(centres: Array, noise: str, spread: float, rng: np.random.Generator) -> Array:
    draw = rng.laplace if noise == "laplace" else rng.normal
    return centres + draw(0.0, spread, centres.shape)


def _columns(databases: NDArray[Any], column: int) -> Array:
    """One column of each database, (size, rows)."""
    values = np.asarray(databases)
    if values.ndim not in (2, 3):
        raise refusal("databases", databases, "an array of numbers of shape (size, rows) or (size, rows, columns)")
    return _column(values.reshape(-1, *values.shape[2:]), column).reshape(values.shape[:2])


def _limits(lower: float, upper: float) -> tuple[float, float]:
    low, high = real("lower", lower), real("upper", upper)
    if not low < high:
        raise refusal("lower, upper", (lower, upper), "lower < upper")
    return low, high


def _column(database: NDArray[Any], column: int) -> Array:
    values = np.asarray(database)
    if values.ndim not in (1, 2) or values.dtype.kind not in "biuf":
        raise refusal("database", database, "an array of numbers of shape (rows,) or (rows, columns)")
    columns = 1 if values.ndim == 1 else values.shape[1]
    if integer("column", column, 0) >= columns:
        raise refusal("column", column, f"a column of the database, 0 to {columns - 1}")
    chosen = (values if values.ndim == 1 else values[:, column]).astype(np.float64)
    if np.isnan(chosen).any():
        raise refusal("database", database, "a column without NaN")
    return chosen
