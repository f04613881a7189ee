"""A noisy count that is released only above a threshold, of a group that one of two databases does not have."""

import math

import numpy as np
from scipy.special import ndtr

from hpcdp._check import real
from hpcdp.analytic.discrete import Discrete
from hpcdp.mechanisms.noisy_sum import sum_noise


def threshold_release_pair(
    count: float, threshold: float, *, sigma: float | None = None, scale: float | None = None
) -> Discrete:
    """Return the exact pair of a group's count, released with noise where that is above a threshold (P), and of no group (Q).

    Without the group nothing is released, so that all that is released tells the databases apart, whatever its value: the pair
    is that of two outcomes, "nothing" and "something". With the probability t that the noisy count is above the threshold,
    delta is t at all levels forward, and max(0, 1 - e^epsilon (1 - t)) in reverse. So release
    Korolova, Kenthapadi, Mishra and Ntoulas (2009).

    Args:
        count: rows of the group in D, or their sum, finite.
        threshold: finite.
        sigma: the standard deviation of normal noise, > 0; or
        scale: the scale of Laplace noise, > 0.

    Raises:
        ValueError: a value out of range, or not one of sigma and scale.
    """
    noise, spread = sum_noise(sigma, scale)
    above = (real("count", count) - real("threshold", threshold)) / spread
    if noise == "gaussian":
        released, kept = float(ndtr(above)), float(ndtr(-above))
    else:
        rare = 0.5 * math.exp(-abs(above))
        released, kept = (rare, 1.0 - rare) if above < 0.0 else (1.0 - rare, rare)
    return Discrete(np.array([kept, released]), np.array([1.0, 0.0]))
