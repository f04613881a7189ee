"""Pure ε: a certified lower limit from the counts of one set, and what a set promises before it is tested.

For a set of outputs with probabilities a under the one law and b under the other, ln(a/b) is at most the pure level of the
pair, sup |ln p − ln q| (Askin, Kutta and Dette, S&P 2022, Theorem 1). Finite-sample: `pure_lower`. Heuristic: `promised`.
**Asymptotic**: `LossAt`, the second stage of MPL (their Algorithm 4): the loss at a point; the point, the sign and the bandwidths
were fixed by training, the sums of weights are of fresh outputs.
**Heuristic**: `choose_regions`, the set {L̂ > c} ∩ C that promises the largest certified limit, chosen by training outputs alone.
Whatever is chosen, the limit stays certified: fresh outputs that decided nothing are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from hpcdp._check import binomial_counts, open_unit
from hpcdp.losses.counts import above, below, classes_of
from hpcdp.losses.distinct import tally
from hpcdp.losses.local import Within, counter_inside, in_region, inside
from hpcdp.losses.protocol import Counter, Model, Outputs, Side
from hpcdp.notions import _joint_kernels as kernels
from hpcdp.notions._binomial_kernels import upper_limit
from hpcdp.notions.bounds import _LOSS, BERGER_BOOS_SHARE

Floats = NDArray[np.float64]

STEPS = 1024
"""Steps of a certified limit in one unit of ε: it is a multiple of 1/1024."""

_CHANCE = 0.01  # that a limit of training, one of all candidate sets together, fails


def pure_lower(x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, level: ArrayLike) -> Floats:
    """Lower limit on max(0, ln(a/b)) from X0 ~ Bin(n0, a), X1 ~ Bin(n1, b). Finite-sample: it fails with probability <= level.

    The exact test behind `joint_lower` is asked whether a <= c·b, for every ln c = i/1024, i = 1, 2, …: the limit is the last
    i/1024 before the first that it does not reject, 0 where that is the first of all. A limit above max(0, ln(a/b)) means that
    the next i/1024 from there on was rejected although a <= c·b was true, which one test at the level does with probability <=
    level. So no share of the level goes to the many c. At most ln(100·n1).
    """
    s0, t0 = binomial_counts(x0, n0, ("x0", "n0"))
    s1, t1 = binomial_counts(x1, n1, ("x1", "n1"))
    spread = np.broadcast_arrays(s0, t0, s1, t1, open_unit("level", level))
    limits = [_limit(*cell) for cell in zip(*(array.ravel().tolist() for array in spread), strict=True)]
    return np.array(limits, np.float64).reshape(spread[0].shape)


def _limit(x0: float, n0: float, x1: float, n1: float, level: float) -> float:
    gamma = BERGER_BOOS_SHARE * level
    target, side = level - gamma, 0.5 * gamma
    b_range = upper_limit(n1 - x1, n1, side)[1], upper_limit(x1, n1, side)[0]
    z = -float(ndtri(target))

    def rejects(x: float, c: float, theta: float) -> bool:
        return bool(kernels.rejects_ratio(x, n0, x1, n1, c, b_range, theta, math.log(target), z, _LOSS))

    c, caution, a, b = math.exp(1.0 / STEPS), 0.9, x0 / n0, x1 / n1
    if not rejects(x0, c * (1.0 + 1e-15), 0.0):
        return 0.0
    while (
        True
    ):  # many c at once: a test at c with x0 − d in place of x0 and θ rejects only if those of c to c + step do
        margin = a - c * b - z * math.sqrt(a * (1.0 - a) / n0 + c * c * b * (1.0 - b) / n1)
        step = caution * max(0.0, margin) / (b_range[1] + b)
        if math.log1p(step / c) < 1.0 / STEPS:
            break
        if rejects(x0 - math.ceil(step * (n0 / n1) * x1 * (1.0 + 1e-12)), c, step * b_range[1]):
            c, caution = c + step, min(0.95, 1.1 * caution)
        else:
            caution *= 0.5
    steps = max(1, math.floor(math.log(c) * STEPS * (1.0 - 1e-12)))
    while rejects(x0, math.exp((steps + 1) / STEPS) * (1.0 + 1e-15), 0.0):
        steps += 1
    return steps / STEPS


def promised(x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, z: ArrayLike) -> Floats:
    """About `pure_lower`'s limit at counts and a normal quantile: margins by Wilson and Hilferty (1931). **Heuristic.**"""
    some, other, n0, n1, z = (np.asarray(v, np.float64) for v in (x0, x1, n0, n1, z))
    with np.errstate(divide="ignore", invalid="ignore"):
        a, least = some / n0, np.maximum(other, 0.5)
        low = np.maximum(1.0 - 1.0 / (9.0 * some) - z * np.sqrt((1.0 - a) / some) / 3.0, 1e-3) ** 3
        high = (other + 1.0) * (1.0 - 1.0 / (9.0 * (other + 1.0)) + z / (3.0 * np.sqrt(other + 1.0))) ** 3
        promise = np.log(a * n1 / least) - np.hypot(np.log(low), np.log(high / least))
    return np.where(some > 0.0, promise, -np.inf)


def promised_after(x0: ArrayLike, x1: ArrayLike, n: int, tests: int, level: float, candidates: ArrayLike = 1) -> Floats:
    """The limit that n training outputs promise for so many tests, less a margin over all candidate sets. **Heuristic.**"""
    some, other = np.asarray(x0, np.float64), np.asarray(x1, np.float64)
    prudence = -ndtri(_CHANCE / np.maximum(1, candidates))
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = np.log(some / np.maximum(other, 0.5))
        noise = plain - promised(some, n, other, n, prudence)
    growth, z = tests / n, -float(ndtri(level))
    return np.where(some > 0.0, promised(some * growth, tests, other * growth, tests, z) - noise, -np.inf)


@dataclass(frozen=True)
class LossAt:
    """The loss at one point from fresh outputs, ln f − ln f', and its standard error (equation 24); NaN where a density is 0."""

    loss: float
    error: float

    @property
    def is_told(self) -> bool:
        """Whether both densities are above 0."""
        return not math.isnan(self.loss)

    @classmethod
    def of(
        cls, sums: Sequence[int], tests: Sequence[int], bandwidths: Sequence[float], floor: float, unit: int
    ) -> LossAt:
        """From sums of weights of both laws; bandwidths: one a column, none of counts; floor: τ or 0; unit: a kernel's peak."""
        columns = len(bandwidths)
        volume = math.prod(bandwidths)
        peak = unit * (2.0 * math.pi) ** (0.5 * columns) * volume if columns else 1.0
        densities = [max(total / (n * peak), floor) for total, n in zip(sums, tests, strict=True)]
        if not all(densities):
            return cls(math.nan, math.nan)
        if columns:
            square = (2.0 * math.sqrt(math.pi)) ** -columns / volume
            variance = sum(square / (f * n) for f, n in zip(densities, tests, strict=True))
        else:
            variance = sum((1.0 / f - 1.0) / n for f, n in zip(densities, tests, strict=True))
        return cls(math.log(densities[0]) - math.log(densities[1]), math.sqrt(variance))

    def lower(self, sign: float, level: float) -> float:
        """Equation 26 with the sign that training found: a lower bound on the pure level, which may be negative. Asymptotic."""
        return sign * self.loss + float(ndtri(level)) * self.error

    def literal(self, level: float) -> float:
        """Equation 26 to the letter, with the absolute value: where the loss is 0 it is above 0 in 2·level of all runs."""
        return abs(self.loss) + float(ndtri(level)) * self.error

    def interval(self, level: float) -> tuple[float, float]:
        """Two-sided interval for the loss at the point, from equations 24 and 25. Asymptotic, for each point by itself."""
        z = -float(ndtri(0.5 * level))
        return self.loss - z * self.error, self.loss + z * self.error


Ints = NDArray[np.int64]

_SEEN = 1 << 12  # outputs of a law whose L̂ are candidates for c
_MOST = 1 << 9  # candidates


@dataclass(frozen=True)
class Region:
    """A set of a direction: {L̂ > above} ∩ C forward, {−L̂ > above} ∩ C reverse; promised: by training, a score, no bound."""

    direction: int
    above: float
    promised: float

    @property
    def threshold(self) -> float:
        """Of L̂ itself."""
        return (self.above if self.direction == 0 else -self.above) + 0.0

    def count(self, counter: Counter, outputs: Outputs, within: Within) -> int:
        """How many outputs lie in it. counter: of L̂ at its threshold alone."""
        inside = outputs if within is None else outputs[in_region(outputs, within)]
        return int(counter.count(inside)[2 if self.direction == 0 else 0])


def choose_regions(model: Model, p: Side, q: Side, within: Within, tests: int, level: float) -> tuple[Region, Region]:
    """The best set of each direction within C, forward first, by training outputs p and q alone."""
    told = tally(p), tally(q)
    points, histograms = (
        _of_outputs(model, [inside(side, within) for side in (p, q)], within)
        if told[0] is None or told[1] is None
        else _of_values(model, (told[0], told[1]), within)
    )
    # (side, direction, c), the side that is not inflated first
    counts = np.stack([above(histograms), below(histograms)[::-1]], axis=1)
    sets = [np.unique(each).size for each in counts.sum(axis=0)]
    promises = promised_after(counts[0], counts[1], p.draws, tests, level, np.array(sets)[:, None])
    return _best(0, points, promises[0]), _best(1, -points[::-1], promises[1][::-1])


def _candidates(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    points = np.sort(np.append(scores[np.isfinite(scores)], 0.0) + 0.0)
    points = points[np.append(True, points[1:] != points[:-1])]
    return points[np.unique(np.linspace(0, points.size - 1, min(points.size, _MOST)).round().astype(np.int64))]


def _of_outputs(model: Model, sides: Sequence[Outputs], within: Within) -> tuple[NDArray[np.float64], Ints]:
    """Candidates for c, and the histogram of each side's outputs by L̂ among them."""
    seen = [outputs[:: max(1, -(-outputs.shape[0] // _SEEN))] for outputs in sides]
    points = _candidates(np.concatenate([model.score(x) for x in seen if x.shape[0]] or [np.empty(0)]))
    counter = counter_inside(model, points, within)
    return points, np.stack(
        [counter.count(x) if x.shape[0] else np.zeros(2 * points.size + 1, np.int64) for x in sides]
    )


def _of_values(model: Model, sides: Sequence[tuple[Outputs, Ints]], within: Within) -> tuple[NDArray[np.float64], Ints]:
    """The same of distinct outputs and how often each is there."""
    kept = [in_region(values, within) for values, _ in sides]
    distinct = [(values[own], counts[own]) for (values, counts), own in zip(sides, kept, strict=True)]
    scores = [model.score(values) if values.shape[0] else np.empty(0) for values, _ in distinct]
    points = _candidates(np.concatenate(scores))
    return points, np.stack(
        [
            np.bincount(classes_of(score, points), counts, 2 * points.size + 1).astype(np.int64)
            for score, (_, counts) in zip(scores, distinct, strict=True)
        ]
    )


def _best(direction: int, above: NDArray[np.float64], promises: NDArray[np.float64]) -> Region:
    """Of equal promises the one with the smallest c, which is the largest set."""
    place = int(np.argmax(promises))
    return Region(direction, float(above[place]) + 0.0, float(promises[place]))
