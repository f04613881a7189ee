"""The sum of the rows, with Laplace or normal noise of a given size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import positive, refusal
from hpcdp.mechanisms.additive import draw_gaussian, draw_laplace

Array = NDArray[np.float64]


def noisy_sum(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    sigma: float | None = None,
    scale: float | None = None,
) -> Array:
    """Draw the sum of the rows, column by column, plus normal noise of deviation `sigma` or Laplace noise of `scale`.

    Rows are not clipped, so how private it is depends on how far one row can move the sum.

    Args:
        database: finite numbers of shape (rows,) or (rows, columns); rows may be none, which sum to 0.
        size: how many outputs.
        rng: the source of randomness; one call draws all the noise.
        sigma: the standard deviation of normal noise, > 0; exactly one of `sigma` and `scale`.
        scale: the scale of Laplace noise, > 0.

    Returns:
        float64 of shape (size,) for numbers or one column, else (size, columns).

    Raises:
        ValueError: a parameter or the database is refused.
    """
    noise, spread = sum_noise(sigma, scale)
    return (draw_gaussian if noise == "gaussian" else draw_laplace)(row_sum(database), spread, size, rng)


def noisy_sum_each(
    databases: NDArray[Any], rng: np.random.Generator, *, sigma: float | None = None, scale: float | None = None
) -> Array:
    """Draw one noisy sum of each database (size, rows) or (size, rows, columns): (size,) or (size, columns)."""
    noise, spread = sum_noise(sigma, scale)
    values = np.asarray(databases)
    if values.ndim not in (2, 3):
        raise refusal("databases", databases, "an array of numbers of shape (size, rows) or (size, rows, columns)")
    sums = _numbers(values).sum(axis=1)
    sums = sums[:, 0] if sums.ndim == 2 and sums.shape[1] == 1 else sums
    return np.asarray(sums + (rng.normal if noise == "gaussian" else rng.laplace)(0.0, spread, sums.shape))


noisy_sum.each = noisy_sum_each  # type: ignore[attr-defined]


def row_sum(database: NDArray[Any]) -> Array:
    """Return the sum of the rows, float64 of shape () or (columns,).

    Raises:
        ValueError: the database is not finite numbers of shape (rows,) or (rows, columns).
    """
    values = np.asarray(database)
    if values.ndim not in (1, 2) or 0 in values.shape[1:]:
        raise refusal("database", database, "finite numbers of shape (rows,) or (rows, columns)")
    return np.asarray(_numbers(values).sum(axis=0))


def sum_noise(sigma: float | None, scale: float | None) -> tuple[str, float]:
    """Return which noise is meant, "gaussian" or "laplace", and its deviation or scale.

    Raises:
        ValueError: not exactly one of the two, or it is no finite number > 0.
    """
    if (sigma is None) == (scale is None):
        raise refusal("sigma, scale", (sigma, scale), "exactly one of the two")
    return ("gaussian", positive("sigma", sigma)) if scale is None else ("laplace", positive("scale", scale))


def _numbers(values: NDArray[Any]) -> Array:
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise refusal("database", values, "finite numbers of shape (rows,) or (rows, columns)")
    return values.astype(np.float64)
