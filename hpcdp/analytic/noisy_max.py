"""Report noisy max: which of several noisy answers is largest, or its value; noise laws of scale 1.

The exponential mechanism over a finite range, and for one number on the half-line; noise that is cut to an interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import non_negative, positive, refusal
from hpcdp.analytic._cells import LogDensities, gauss, panel_edges, panel_nodes
from hpcdp.analytic._curve import finite_vector
from hpcdp.analytic.discrete import Discrete
from hpcdp.analytic.piecewise import Piecewise
from hpcdp.mechanisms.exponential import Law

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """A noise law of scale 1: the logarithms of its density, of P(X <= x) and of P(X > x), elementwise."""

    log_pdf: Callable[[Array], Array]
    log_cdf: Callable[[Array], Array]
    log_sf: Callable[[Array], Array]


def _laplace_log_cdf(x: Array) -> Array:
    return np.where(x < 0.0, x - np.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))


def _exponential_log_cdf(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-np.maximum(x, 0.0)))


LAPLACE = Noise(lambda x: -np.abs(x) - np.log(2.0), _laplace_log_cdf, lambda x: _laplace_log_cdf(-x))
_LAWS = {
    "laplace": LAPLACE,
    "exponential": Noise(
        lambda x: np.where(x >= 0.0, -x, -np.inf), _exponential_log_cdf, lambda x: -np.maximum(x, 0.0)
    ),
}


def noise_law(noise: str) -> Noise:
    """Return the noise law of this name; ValueError where it is neither "laplace" nor "exponential"."""
    if noise not in _LAWS:
        raise refusal("noise", noise, '"laplace" or "exponential"')
    return _LAWS[noise]


_RULE = gauss(24)
_PANEL = 0.5  # in units of the noise scale
_REACH = 45.0  # the noise beyond has mass below 1e-19


def noisy_max_index(first: ArrayLike, second: ArrayLike, scale: float, noise: str = "laplace") -> Discrete:
    """Return the exact pair of the index of the largest noisy answer (Ding et al. 2018, Alg. 5 and 6).

    Answer i is largest with probability integral of f(t - q_i) prod_{j != i} F(t - q_j) dt, by Gauss-Legendre
    quadrature on panels that end at the answers; right within 1e-13.

    Args:
        first, second: the answers q under D and under D', (k,) each, finite.
        scale: of the noise, > 0.
        noise: "laplace" or "exponential".

    Raises:
        ValueError: a value out of range, or shapes that differ.
    """
    law = noise_law(noise)
    laws = [index_pmf(answers, law) for answers in _scaled(first, second, scale)]
    return Discrete(*laws)


def noisy_max_value(first: ArrayLike, second: ArrayLike, scale: float, noise: str = "laplace") -> Piecewise:
    """Return the exact pair of the value of the largest noisy answer (Ding et al. 2018, Alg. 7 and 8).

    Its density is sum_i f(t - q_i) prod_{j != i} F(t - q_j). Exponential noise gives unequal supports where the
    largest answers differ: the density is 0 below the largest.

    Args:
        first, second: the answers q under D and under D', (k,) and (m,), finite.
        scale: of the noise, > 0.
        noise: "laplace" or "exponential".

    Raises:
        ValueError: a value out of range.
    """
    law = noise_law(noise)
    one, other = _scaled(first, second, scale, equal=False)
    breaks = np.unique(np.concatenate((one, other)))
    reach = _REACH + np.log(breaks.size)
    edges = np.concatenate(([breaks[0] - reach], breaks, [breaks[-1] + reach]))
    return Piecewise([(_log_densities(one, other, law), edges)])


def _log_densities(one: Array, other: Array, law: Noise) -> LogDensities:
    return lambda t: (value_log_density(t, one, law), value_log_density(t, other, law))


def value_log_density(t: Array, answers: Array, law: Noise) -> Array:
    """Log density of the value at t (size,), of answers in units of the noise scale."""
    gaps = t[:, None] - answers
    log_cdf = law.log_cdf(gaps)
    with np.errstate(invalid="ignore"):
        # prod F sum f/F, except where an F is 0: then all the density is 0, or this is an edge.
        ratios = np.where(np.isfinite(log_cdf), law.log_pdf(gaps) - log_cdf, -np.inf)
        return np.asarray(log_cdf.sum(axis=1) + np.logaddexp.reduce(ratios, axis=1))


def index_pmf(answers: Array, law: Noise) -> Array:
    """Probability of each index, of answers in units of the noise scale."""
    breaks = np.unique(answers)
    edges = panel_edges(breaks, breaks[0] - _REACH, breaks[-1] + _REACH, _PANEL)
    nodes, weights = panel_nodes(edges, _RULE)
    gaps = nodes[:, None] - answers
    log_cdf = law.log_cdf(gaps)
    possible = np.isfinite(log_cdf)
    finite = np.where(possible, log_cdf, 0.0)
    # All the others are below t, but where one of them cannot be.
    others = np.where((~possible).sum(axis=1, keepdims=True) - ~possible > 0, -np.inf, 0.0)
    others = others + finite.sum(axis=1, keepdims=True) - finite
    return np.asarray(weights @ np.exp(law.log_pdf(gaps) + others))


def _scaled(first: ArrayLike, second: ArrayLike, scale: float, *, equal: bool = True) -> tuple[Array, Array]:
    """Both vectors of answers in units of the noise scale."""
    spread = positive("scale", scale)
    one, other = finite_vector("first", first) / spread, finite_vector("second", second) / spread
    if equal and one.shape != other.shape:
        raise refusal("second", second, f"as many answers as first, {one.size}")
    return one, other


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
