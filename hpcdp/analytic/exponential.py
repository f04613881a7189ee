"""The exponential mechanism over a finite range, and for one number on the half-line; noise that is cut to an interval."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import non_negative, positive
from hpcdp.analytic._curve import finite_vector
from hpcdp.analytic.discrete import Discrete
from hpcdp.analytic.piecewise import Piecewise
from hpcdp.mechanisms.exponential import Law

Array = NDArray[np.float64]

_REACH = 45.0  # in units of 1/rate: the mass beyond is below 1e-19


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
    values = finite_vector("scores", scores)
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


def exponential_real_pair(first: float, second: float, rate: float) -> Piecewise:
    """Return the exact pair of densities rate · exp(-rate · |s - t|) / (2 - exp(-rate · s)) on t >= 0.

    Args:
        first, second: the numbers s under D and under D', >= 0.
        rate: > 0.

    Raises:
        ValueError: a value out of range.
    """
    both = non_negative("first", first), non_negative("second", second)
    unit = positive("rate", rate)
    reach = max(both) + _REACH / unit

    one, other = (real_log_density(s, unit) for s in both)
    return Piecewise([(lambda t: (one(t), other(t)), np.unique([0.0, *both, reach]))])


def real_log_density(score: float, rate: float) -> Callable[[Array], Array]:
    """The log density of `exponential_real` around a number; −inf below 0."""
    whole = np.log(rate) - np.log1p(-np.expm1(-rate * score))
    return lambda t: np.where(np.asarray(t) >= 0.0, whole - rate * np.abs(np.asarray(t) - score), -np.inf)


def truncated_log_density(noise: str, law: Law) -> Callable[[Array], Array]:
    """The log density of `truncated`, −inf outside the interval. noise: "laplace" or "gaussian"; law: `truncated_law`'s."""
    x, s, start, stop = law
    if noise == "gaussian":
        mass = 0.5 * (math.erf((x - start) / (s * math.sqrt(2.0))) + math.erf((stop - x) / (s * math.sqrt(2.0))))
        whole = -math.log(s) - 0.5 * math.log(2.0 * math.pi) - math.log(mass)
    else:
        whole = -math.log(s) - math.log(-math.expm1(-(x - start) / s) - math.expm1(-(stop - x) / s))

    def log_density(t: Array) -> Array:
        z = np.abs(np.asarray(t, np.float64) - x) / s
        inside = (np.asarray(t) >= start) & (np.asarray(t) <= stop)
        return np.where(inside, whole - (0.5 * z * z if noise == "gaussian" else z), -np.inf)

    return log_density


def truncated_pair(noise: str, first: Law, second: Law) -> Piecewise:
    """Return the exact pair of `truncated` on two numbers, D's law first, of the same interval and scale."""
    densities = [truncated_log_density(noise, law) for law in (first, second)]
    edges = np.unique([first[2], first[0], second[0], first[3]])
    return Piecewise([(lambda t: (densities[0](t), densities[1](t)), edges)])
