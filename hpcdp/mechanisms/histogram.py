"""The noisy histogram and its faulty twin."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import positive, refusal
from hpcdp.mechanisms.additive import draw_laplace
from hpcdp.mechanisms.noiseless import histogram_counts, histogram_each

Array = NDArray[np.float64]


def noisy_histogram(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    values: ArrayLike,
    epsilon: float,
    variant: Literal["correct", "faulty"] = "correct",
) -> Array:
    """Draw the numbers of rows equal to each of `values`, plus Laplace noise; "faulty" has the wrong scale.

    "correct" (Ding et al. 2018, Alg. 9) has noise of scale 1 / epsilon: epsilon-DP holds when a row is removed, which
    moves one bin by 1; an edit moves two bins, so it has level 2 · epsilon. "faulty" (Alg. 10) has noise of scale
    epsilon: its true level is 1 / epsilon (2 / epsilon for an edit), which violates the claim where epsilon < 1.
    Lu et al. 2024, Fig. 9b.

    Args:
        database: numbers of shape (rows,) or (rows, columns); rows may be none.
        size: how many outputs.
        rng: the source of randomness; one call draws all the noise.
        values: k different values, each a number, or a list of one number per column; rows of other values are not
            counted.
        epsilon: the nominal privacy level, > 0.
        variant: "correct" or "faulty".

    Returns:
        float64 of shape (size,) for one value, else (size, k).

    Raises:
        ValueError: a parameter or the database is refused.
    """
    scale = histogram_scale(epsilon, variant)
    return draw_laplace(histogram_counts(database, values).astype(np.float64), scale, size, rng)


def noisy_histogram_each(
    databases: NDArray[Any],
    rng: np.random.Generator,
    *,
    values: ArrayLike,
    epsilon: float,
    variant: Literal["correct", "faulty"] = "correct",
) -> Array:
    """Draw one noisy histogram of each database (size, rows) or (size, rows, columns): (size,) or (size, k)."""
    scale = histogram_scale(epsilon, variant)
    counts = histogram_each(databases, rng, values=values)
    return counts + rng.laplace(0.0, scale, counts.shape)


def histogram_scale(epsilon: float, variant: str = "correct") -> float:
    """Return the scale of the noise: 1 / epsilon, or (faulty) epsilon.

    Raises:
        ValueError: an unknown variant, or a value out of range.
    """
    level = positive("epsilon", epsilon)
    if variant not in ("correct", "faulty"):
        raise refusal("variant", variant, '"correct" or "faulty"')
    return level if variant == "faulty" else positive("1 / epsilon", 1.0 / level)


noisy_histogram.each = noisy_histogram_each  # type: ignore[attr-defined]
