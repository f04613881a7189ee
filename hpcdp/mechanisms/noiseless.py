"""Counts and histograms without noise: for distributional pairs, where the randomness is that of the databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal

Ints = NDArray[np.int64]


def count(database: NDArray[Any], size: int, rng: np.random.Generator, *, value: float | Sequence[float] = 1) -> Ints:  # noqa: ARG001
    """Return the number of rows equal to `value`, without noise (for distributional pairs).

    Deterministic: no finite level of DP, since neighbours with different counts give different outputs. Distributional
    DP, where rows are drawn from a distribution, is what it may have (Liu, Lu, Xia and Zikas 2020; Lu et al. 2024,
    Fig. 8).

    Args:
        database: numbers of shape (rows,) or (rows, columns); rows may be none.
        size: how many outputs.
        rng: not used.
        value: a number, or a list of one number per column.

    Returns:
        int64 of shape (size,), all equal.

    Raises:
        ValueError: the value or the database is refused.
    """
    counts = count_rows(
        np.asarray(database)[None], [value], "value", "a finite number, or one finite number per column"
    )
    return np.full(size, counts[0, 0])


def count_each(databases: NDArray[Any], rng: np.random.Generator, *, value: float | Sequence[float] = 1) -> Ints:  # noqa: ARG001
    """Return the count of each database (size, rows) or (size, rows, columns): int64 of shape (size,)."""
    return count_rows(databases, [value], "value", "a finite number, or one finite number per column")[:, 0]


def histogram(database: NDArray[Any], size: int, rng: np.random.Generator, *, values: ArrayLike) -> Ints:  # noqa: ARG001
    """Return the numbers of rows equal to each of `values`, without noise (for distributional pairs).

    Deterministic: no finite level of DP, see `count`.

    Args:
        database: numbers of shape (rows,) or (rows, columns); rows may be none.
        size: how many outputs.
        rng: not used.
        values: k different values, each a number, or a list of one number per column; rows of other values are not
            counted.

    Returns:
        int64 of shape (size,) for one value, else (size, k); all rows equal.

    Raises:
        ValueError: the values or the database are refused.
    """
    counts = histogram_counts(database, values)
    return np.full(size, counts[0]) if counts.size == 1 else np.tile(counts, (size, 1))


def histogram_each(databases: NDArray[Any], rng: np.random.Generator, *, values: ArrayLike) -> Ints:  # noqa: ARG001
    """Return the counts of each database (size, rows) or (size, rows, columns): int64 of (size,) or (size, k)."""
    counts = count_rows(databases, values)
    return counts[:, 0] if counts.shape[1] == 1 else counts


def histogram_counts(database: NDArray[Any], values: ArrayLike) -> Ints:
    """Return the number of rows of one database equal to each of k values, int64 of shape (k,).

    Raises:
        ValueError: the values or the database are refused.
    """
    return count_rows(np.asarray(database)[None], values)[0]


def count_rows(
    databases: NDArray[Any],
    values: ArrayLike,
    name: str = "values",
    accepted: str = "a list of different finite numbers, or of rows of them as long as the database's",
) -> Ints:
    """Return the number of rows of each database equal to each of k values, int64 of shape (size, k).

    Args:
        databases: (size, rows) or (size, rows, columns).
        values: (k,) numbers, or (k, columns).
        name: what a refusal calls the values.
        accepted: what it says is accepted.

    Raises:
        ValueError: the values or the databases are refused.
    """
    rows = np.asarray(databases)
    if rows.ndim not in (2, 3) or rows.dtype.kind not in "biuf":
        raise refusal("database", databases, "numbers of shape (rows,) or (rows, columns)")
    try:
        wanted = np.asarray(values)
    except ValueError:
        raise refusal(name, values, accepted) from None
    if wanted.dtype.kind not in "biuf" or wanted.size == 0 or not np.isfinite(wanted).all():
        raise refusal(name, values, accepted)
    if wanted.shape[1:] != rows.shape[2:] or wanted.ndim == 0 or np.unique(wanted, axis=0).shape != wanted.shape:
        raise refusal(name, values, f"{accepted}; the database's rows have shape {rows.shape[2:]}")
    out = np.empty((rows.shape[0], wanted.shape[0]), np.int64)
    for number, value in enumerate(wanted):
        equal = rows == value
        out[:, number] = np.count_nonzero(equal if rows.ndim == 2 else equal.all(axis=2), axis=1)
    return out


count.each = count_each  # type: ignore[attr-defined]
histogram.each = histogram_each  # type: ignore[attr-defined]
