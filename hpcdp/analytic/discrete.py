"""Any two distributions on finitely many outcomes.

Counts: without noise, of answers that are right by chance, with geometric noise, released above a threshold.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from hpcdp._check import fraction, integer, positive, real, refusal
from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._divergence import Parts
from hpcdp.mechanisms.additive import sum_noise
from hpcdp.mechanisms.local import rappor_probabilities

Array = NDArray[np.float64]

_AT_ONCE = 1 << 16  # numbers in memory
_SMALL, _NEAR_ONE = (
    1e-8,
    1.5,
)  # of deltas that rounding spoils, and of roots of e^epsilon at which its complement is small
SUM_TOLERANCE = 1e-9
"""How far the sum of the probabilities may be from 1; they are then divided by their sum."""


@dataclass(frozen=True, eq=False)
class Discrete(Curve):
    """Two pmfs over the same k outcomes; an outcome may be impossible under either, so of infinite loss.

    Args:
        p, q: probabilities of the same outcomes under P and under Q, shape (k,); entries >= 0, each sums
            to 1 within 1e-9.

    Raises:
        ValueError: the shapes differ, an entry is negative or not finite, or a sum is not 1.
    """

    p: Array
    q: Array

    def __init__(self, p: ArrayLike, q: ArrayLike) -> None:
        first, second = _pmf("p", p), _pmf("q", q)
        if first.shape != second.shape:
            raise refusal("q", second, f"an array of the shape of p, {first.shape}")
        object.__setattr__(self, "p", first)
        object.__setattr__(self, "q", second)

    @cached_property
    def _ratio(self) -> Array:
        """q/p, infinity where p = 0; impossible outcomes have p = q = 0 and weigh nothing anywhere."""
        return np.asarray(np.divide(self.q, self.p, out=np.full(self.p.shape, np.inf), where=self.p > 0.0))

    def pure(self) -> float:
        with np.errstate(divide="ignore"):
            return float(np.abs(np.log(self._ratio[(self.p > 0.0) | (self.q > 0.0)])).max())

    @cached_property
    def _vertices(self) -> tuple[Array, Array]:
        """Corners (alpha, beta) of the curve, alpha ascending: outcomes rejected by descending q/p (Neyman and Pearson)."""
        order = np.argsort(-self._ratio, kind="stable")
        order = order[self.p[order] > 0.0]  # outcomes with p = 0 are rejected at no cost, at alpha = 0
        alpha = np.concatenate(([0.0], np.cumsum(self.p[order])))
        # Tail sums, not 1 - sums: a small beta keeps its digits.
        beta = np.concatenate((np.cumsum(self.q[order][::-1])[::-1], [0.0]))
        return alpha, beta

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        kept, inflated = (self.p, self.q) if direction == "forward" else (self.q, self.p)
        with np.errstate(over="ignore"):
            roots = np.exp(0.5 * epsilon.ravel())
        out = _positive_sums(kept, inflated, roots)
        for row in np.flatnonzero((out < _SMALL) & (roots < _NEAR_ONE)):
            if kept[kept > inflated * roots[row] ** 2].sum() > 0.5:
                # All of P - e^epsilon Q is 1 - e^epsilon: the outcomes that have little mass tell the rest with more digits.
                rest = _positive_sums(-kept, -inflated, roots[row : row + 1])[0]
                out[row] = max(rest - np.expm1(epsilon.ravel()[row]), 0.0)
        return out.reshape(epsilon.shape)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        alpha, beta = np.empty(eta.shape), np.empty(eta.shape)
        for index in np.ndindex(eta.shape):
            rejected = self._ratio > eta[index]
            alpha[index], beta[index] = self.p[rejected].sum(), self.q[~rejected].sum()
        return np.minimum(alpha, 1.0), np.minimum(beta, 1.0)  # sums may round to just above 1

    def _tradeoff(self, alpha: Array) -> Array:
        return np.asarray(np.interp(alpha, *self._vertices))

    def _parts(self, order: float) -> Parts:
        with np.errstate(divide="ignore"):
            return Parts((), np.log(self.p), np.log(self.q))


def _positive_sums(kept: Array, inflated: Array, roots: Array) -> Array:
    """The sum of the positive parts of kept - root^2 inflated at each root (m,), of shape (m,)."""
    alone = np.maximum(kept[inflated == 0.0], 0.0).sum()
    kept, inflated = kept[inflated != 0.0], inflated[inflated != 0.0]
    out = np.empty(roots.size)
    rows = max(1, _AT_ONCE // max(1, kept.size))
    with np.errstate(over="ignore"):
        # In two halves, so that the factor overflows only where the product exceeds 1.
        for start in range(0, out.size, rows):
            block = roots[start : start + rows, None]
            out[start : start + rows] = alone + np.maximum(kept - (inflated * block) * block, 0.0).sum(axis=1)
    return out


def _pmf(name: str, values: ArrayLike) -> Array:
    accepted = "probabilities of shape (k,): entries >= 0 of sum 1"
    given: NDArray[Any] = np.asarray(values)
    if given.dtype.kind not in "iuf" or given.ndim != 1 or given.size == 0:
        raise refusal(name, values, accepted)
    array = given.astype(np.float64)
    if not (np.isfinite(array) & (array >= 0.0)).all() or abs(array.sum() - 1.0) > SUM_TOLERANCE:
        raise refusal(name, values, accepted)
    return np.asarray(array / array.sum(), dtype=np.float64)


_BEYOND = 1e-40  # the mass that is left out
_MOST_OUTCOMES = 1 << 20


def noiseless_count(rows: int, probability: float) -> Discrete:
    """Return the exact pair of the number of ones among independent rows, one row given as 1 (P) and as 0 (Q).

    The other rows - 1 are 1 with the given probability: P is the law of 1 + Bin(rows - 1, probability), Q that of
    Bin(rows - 1, probability). The likelihood ratio p/q at s ones is s (1 - probability) / ((rows - s) probability)
    (Liu, Lu, Xia and Zikas 2020; Lu, Magdon-Ismail, Wei and Zikas 2024, Fig. 8). The outcomes are 0 ... rows.
    Its histogram of zeros and ones has the same pair.

    Args:
        rows: of the database, >= 1.
        probability: of a one in each other row, from 0 to 1.

    Raises:
        ValueError: a value out of range.
    """
    others = integer("rows", rows, 1) - 1
    law = np.exp(binomial_log_pmf(others, fraction("probability", probability)))
    return Discrete(np.concatenate(([0.0], law)), np.concatenate((law, [0.0])))


def randomized_response_pair(differing: int, *, epsilon: float, values: int = 2) -> Discrete:
    """Return the exact pair of k-ary randomised response on rows of which some differ, each answered independently.

    A row keeps its value with probability e^epsilon / (e^epsilon + k - 1) and else takes one of the others. The loss
    of a row that differs is epsilon at D's value, -epsilon at that of D', and 0 elsewhere; the outcomes here are
    the sums over the rows that differ, -m ... m in units of epsilon. For one row delta is
    (e^epsilon - e^x) / (e^epsilon + k - 1) at level x < epsilon.

    Args:
        differing: how many rows differ, m >= 0.
        epsilon: the level of one row, > 0.
        values: how many values a row may have, k >= 2.

    Raises:
        ValueError: a value out of range.
    """
    count, level, others = (
        integer("differing", differing, 0),
        positive("epsilon", epsilon),
        integer("values", values, 2),
    )
    share = 1.0 / (1.0 + (others - 1) * np.exp(-level))
    one_row = np.array([share * np.exp(-level), (others - 2) * share * np.exp(-level), share])
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, one_row)
    net = np.arange(-count, count + 1)
    # The pair is symmetric: q of a sum is p of its negative, which is e^-loss times as likely.
    p = np.where(net >= 0, total, total[::-1] * np.exp(level * np.minimum(net, 0)))
    return Discrete(p, p[::-1])


def rappor_pair(
    first: ArrayLike,
    second: ArrayLike,
    *,
    f: float = 0.75,
    p: float = 0.45,
    q: float = 0.55,
    one_time: bool = False,
) -> Discrete:
    """Return the exact pair of one RAPPOR report of two Bloom filters (Erlingsson, Pihur and Korolova 2014).

    Bits are reported independently, so only those that differ matter, and of them how many are reported as 1 among
    those set in `first` only and among those set in `second` only: a sum of two independent binomials.

    Args:
        first, second: the bits of the filters under D and under D', (bits,) of 0 and 1.
        f: probability that a permanent bit is replaced by a fair coin, from 0 to 1.
        p, q: probabilities that a reported bit is 1 when the permanent one is 0 and 1, from 0 to 1.
        one_time: the permanent bits are what is reported; p and q then play no part.

    Raises:
        ValueError: a value out of range, or shapes that differ.
    """
    one, other = _bits("first", first), _bits("second", second)
    if one.shape != other.shape:
        raise refusal("second", other, f"as many bits as first, {one.size}")
    unset, set_ = rappor_probabilities(f=f, p=p, q=q, one_time=one_time)
    only_first, only_second = int(np.sum(one & ~other)), int(np.sum(other & ~one))
    laws = [
        np.add.outer(binomial_log_pmf(only_first, mine), binomial_log_pmf(only_second, theirs)).ravel()
        for mine, theirs in ((set_, unset), (unset, set_))
    ]
    return Discrete(*(np.exp(law) for law in laws))


def _bits(name: str, given: ArrayLike) -> NDArray[np.bool_]:
    bits = np.asarray(given)
    if bits.ndim != 1 or not bits.size or bits.dtype.kind not in "biuf" or not np.isin(bits, (0, 1)).all():
        raise refusal(name, given, "zeros and ones of shape (bits,)")
    return bits.astype(np.bool_)


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
    centres = [integer(name, count, -(1 << 53)) for name, count in (("first", first), ("second", second))]
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


def binomial_log_pmf(trials: int, probability: float) -> Array:
    """Return log P(Bin(trials, probability) = s), (trials + 1,): ratios are summed from the mode."""
    if probability in (0.0, 1.0):
        out = np.full(trials + 1, -np.inf)
        out[trials if probability else 0] = 0.0
        return out
    ones = np.arange(trials, dtype=np.float64)
    steps = np.log((trials - ones) / (ones + 1.0)) + np.log(probability) - np.log1p(-probability)
    mode = min(int((trials + 1) * probability), trials)
    upwards, downwards = np.cumsum(steps[mode:]), np.cumsum(-steps[:mode][::-1])[::-1]
    out = np.concatenate((downwards, [0.0], upwards))
    return np.asarray(out - np.log(np.exp(out).sum()))
