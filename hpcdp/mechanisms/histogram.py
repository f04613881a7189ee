"""Counts and histograms: without noise, for distributional pairs, where the randomness is that of the databases, and with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import positive, refusal
from hpcdp.mechanisms.additive import Added, additive, rows_of_numbers


@additive
def count(databases: NDArray[Any], many: bool, *, value: float | Sequence[float] = 1) -> Added:
    """Return the number of rows equal to `value`, without noise (for distributional pairs).

    Deterministic: no finite level of DP, since neighbours with different counts give different outputs. Distributional
    DP, where rows are drawn from a distribution, is what it may have (Liu, Lu, Xia and Zikas 2020; Lu et al. 2024,
    Fig. 8).

    Args:
        database: numbers of shape (rows,) or (rows, columns); rows may be none.
        value: a number, or a list of one number per column.

    Returns int64 of shape (size,), all equal.
    """
    return Added(_count(databases, many, [value], "value", "a finite number, or one finite number per column"), None)


@additive
def histogram(databases: NDArray[Any], many: bool, *, values: ArrayLike) -> Added:
    """Return the numbers of rows equal to each of `values`, without noise (for distributional pairs).

    Deterministic: no finite level of DP, see `count`.

    Args:
        database: numbers of shape (rows,) or (rows, columns); rows may be none.
        values: k different values, each a number, or a list of one number per column; rows of other values are not
            counted.

    Returns int64 of shape (size,) for one value, else (size, k); all rows equal.
    """
    return Added(_count(databases, many, values), None)


@additive
def noisy_histogram(
    databases: NDArray[Any],
    many: bool,
    *,
    values: ArrayLike,
    epsilon: float,
    variant: Literal["correct", "faulty"] = "correct",
) -> Added:
    """Draw the numbers of rows equal to each of `values`, plus Laplace noise; "faulty" has the wrong scale.

    "correct" (Ding et al. 2018, Alg. 9) has noise of scale 1 / epsilon: epsilon-DP holds when a row is removed, which
    moves one bin by 1; an edit moves two bins, so it has level 2 · epsilon. "faulty" (Alg. 10) has noise of scale
    epsilon: its true level is 1 / epsilon (2 / epsilon for an edit), which violates the claim where epsilon < 1.
    Lu et al. 2024, Fig. 9b.

    Args:
        database, values: as `histogram`.
        variant: "correct" or "faulty".

    Returns float64 of shape (size,) for one value, else (size, k).
    """
    level = positive("epsilon", epsilon)
    if variant not in ("correct", "faulty"):
        raise refusal("variant", variant, '"correct" or "faulty"')
    scale = level if variant == "faulty" else positive("1 / epsilon", 1.0 / level)
    return Added(_count(databases, many, values), "laplace", scale)


def _count(
    databases: NDArray[Any],
    many: bool,
    values: ArrayLike,
    name: str = "values",
    accepted: str = "a list of different finite numbers, or of rows of them as long as the database's",
) -> NDArray[np.int64]:
    """The number of rows equal to each of k values, (k,) or (k, columns): (k,) of one database, (size,) or (size, k) of many."""
    databases, shape = rows_of_numbers(databases, many)
    try:
        wanted = np.asarray(values)
    except ValueError:
        raise refusal(name, values, accepted) from None
    if wanted.dtype.kind not in "biuf" or wanted.size == 0 or not np.isfinite(wanted).all():
        raise refusal(name, values, accepted)
    if wanted.shape[1:] != shape[1:] or wanted.ndim == 0 or np.unique(wanted, axis=0).shape != wanted.shape:
        raise refusal(name, values, f"{accepted}; the database's rows have shape {shape[1:]}")
    equal = (databases == value for value in wanted)
    axis = 1 if many else None
    held = [np.count_nonzero(each if len(shape) == 1 else each.all(axis=-1), axis=axis) for each in equal]
    return np.asarray(held[0] if many and len(held) == 1 else np.array(held).T, np.int64)
