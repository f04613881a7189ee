"""The exponential mechanism over a finite range."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import positive, refusal
from hpcdp.analytic.discrete import Discrete

Array = NDArray[np.float64]


def exponential_pmf(scores: ArrayLike, epsilon: float, sensitivity: float = 1.0) -> Array:
    """Return the probabilities proportional to exp(epsilon u / (2 sensitivity)) of McSherry and Talwar (2007).

    Args:
        scores: the utility u of every outcome, (k,), finite.
        epsilon: the nominal privacy level, > 0.
        sensitivity: how far a score can move between neighbours, > 0.

    Returns:
        float64 of shape (k,), of sum 1.

    Raises:
        ValueError: a value out of range.
    """
    values = np.asarray(scores)
    if values.ndim != 1 or not values.size or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise refusal("scores", scores, "finite numbers of shape (k,), k >= 1")
    rate = positive("epsilon", epsilon) / (2.0 * positive("sensitivity", sensitivity))
    weights = np.exp(rate * (values - values.max()))
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def exponential_pair(first: ArrayLike, second: ArrayLike, *, epsilon: float, sensitivity: float = 1.0) -> Discrete:
    """Return the exact pair of the exponential mechanism whose outcomes score `first` under D, `second` under D'.

    Args:
        first, second: scores of the same outcomes, (k,) each.
        epsilon: the nominal privacy level, > 0.
        sensitivity: as in `exponential_pmf`.

    Raises:
        ValueError: a value out of range, or shapes that differ.
    """
    return Discrete(exponential_pmf(first, epsilon, sensitivity), exponential_pmf(second, epsilon, sensitivity))
