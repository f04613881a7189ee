"""Laplace or normal noise around one number, given that the output lies in an interval."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic.piecewise import Piecewise
from hpcdp.mechanisms.truncated import Law

Array = NDArray[np.float64]


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
