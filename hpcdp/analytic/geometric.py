"""A count with the sum of one-sided geometric variates added to it."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import integer, positive, refusal
from hpcdp.analytic.discrete import Discrete

Array = NDArray[np.float64]

_BEYOND = 1e-40  # the mass that is left out
_MOST_OUTCOMES = 1 << 20


def geometric_sum_pmf(values: ArrayLike, epsilon: float, terms: int = 1) -> Array:
    """Return the probabilities of the sum of independent variates with P(k) = (1 - e^-epsilon) e^(-epsilon k), k = 0, 1, ...

    The sum of m is negative binomial: P(k) = C(k + m - 1, m - 1) (1 - e^-epsilon)^m e^(-epsilon k).

    Args:
        values: whole numbers k, any shape; below 0 nothing has mass.
        epsilon: the rate at which the probabilities fall, > 0.
        terms: m, how many variates are added, >= 1.

    Returns:
        float64 of the shape of `values`.

    Raises:
        ValueError: a parameter is out of range, or values are no integers.
    """
    return np.exp(_log_pmf(values, positive("epsilon", epsilon), integer("terms", terms, 1)))


def geometric_sum_pair(first: int, second: int, *, epsilon: float, terms: int = 1) -> Discrete:
    """Return the exact pair of two counts, each with a sum of one-sided geometric variates added to it.

    Of counts that differ by one and m terms, let x be how far the output is above the smaller count. The larger count's law is
    e^epsilon x / (x + m - 1) times as likely, which rises to e^epsilon far out, where little mass is, unless m = 1; at x = 0
    the loss is infinite the other way round. Outputs beyond which either law has less than 1e-40 are left out.

    Args:
        first, second: the counts of D and of D'.
        epsilon: as in `geometric_sum_pmf`, > 0: the level of one variate for counts that differ by one.
        terms: how many variates are added, >= 1.

    Raises:
        ValueError: a value out of range, or laws of more than 2^20 outputs.
    """
    rate, added = positive("epsilon", epsilon), integer("terms", terms, 1)
    centres = [_whole("first", first), _whole("second", second)]
    reach = added
    # Beyond x, ratios of neighbours are at most the one there, so the rest is at most a geometric series.
    while reach <= _MOST_OUTCOMES and not _log_beyond(reach, rate, added) < math.log(_BEYOND):
        reach *= 2
    outputs = reach + abs(centres[0] - centres[1]) + 1
    if outputs > _MOST_OUTCOMES:
        raise refusal("epsilon, terms", (rate, added), f"those whose sums have at most {_MOST_OUTCOMES} values of mass")
    values = min(centres) + np.arange(outputs)
    return Discrete(*(np.exp(_log_pmf(values - centre, rate, added)) for centre in centres))


def _log_pmf(values: ArrayLike, rate: float, terms: int) -> Array:
    given = np.asarray(values)
    if given.dtype.kind not in "iu":
        raise refusal("values", values, "integers")
    k = np.maximum(given, 0).astype(np.float64)
    ways = sum((np.log1p(k / i) for i in range(1, terms)), np.zeros(k.shape))
    return np.where(given >= 0, ways + terms * math.log(-math.expm1(-rate)) - rate * k, -np.inf)


def _log_beyond(value: int, rate: float, terms: int) -> float:
    """A limit of the logarithm of the mass from this value on; infinity where the probabilities still rise."""
    falls = -rate + math.log1p((terms - 1) / (value + 1))
    return math.inf if falls >= 0.0 else float(_log_pmf(value, rate, terms)) - math.log(-math.expm1(falls))


def _whole(name: str, count: int) -> int:
    return integer(name, count, -(1 << 53))
