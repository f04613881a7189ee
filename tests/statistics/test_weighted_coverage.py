"""Bounds from weighted draws: coverage against exact truths."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtr
from weighted_cells import one_cell

from hpcdp.importance.bounds import certify, leftover_limit, lower_mean, split_level, upper_mean
from hpcdp.importance.sums import count_leftover, sum_lower, sum_upper
from hpcdp.importance.training import choose_lower, choose_upper


@dataclass
class Law:
    """A law that is drawn with weights. mean: of the whole set; within: of w 1_S 1{w <= cutoff}.

    draw, plain: log w, errors and classes; plain draws are those of the law itself, for the leftover, which is mean − within.
    """

    cutoff: float
    mean: float
    within: float
    draw: Callable
    plain: Callable


def gaussian_logs(x, locations, parts, law=0.0):
    """log of the density of N(law, 1) over that of a mixture of N(location, 1)."""
    mixture = sum(part * np.exp(-((x - location) ** 2) / 2.0) for location, part in zip(locations, parts, strict=True))
    return -((x - law) ** 2) / 2.0 - np.log(mixture)


def strata(rng, n, locations, parts):
    """Normal draws, a fixed number from each location."""
    sizes = np.round(np.array(parts) * n).astype(int)
    return rng.standard_normal(n) + np.repeat(locations, sizes)


def tilted_gaussian(n, threshold=2.0, top=0.5, law=0.0, parts=(0.2, 0.2, 0.6), end=None):
    """N(law, 1) with three strata, one of plain draws; S = {x > threshold}; weights fall with x, those below end are cut off."""
    locations = (law, (law + threshold) / 2.0, threshold)
    end = threshold + top if end is None else end
    cutoff = math.exp(gaussian_logs(np.array(end), locations, parts, law))

    def judged(x):
        return gaussian_logs(x, locations, parts, law), np.full(x.size, 1e-13), (x > threshold).astype(np.int64)

    return Law(
        cutoff, ndtr(law - threshold), ndtr(law - max(end, threshold)),
        lambda rng: judged(strata(rng, n, locations, parts)),
        lambda rng, size: judged(law + rng.standard_normal(size)),
    )  # fmt: skip


def heavy(n, shift=1.5, least=-1.0, cut=-1.0):
    """N(0, 1) drawn as N(shift, 1): lognormal weights without a limit, in S = {x > least}, those of x < cut beyond M."""
    cutoff = math.exp(shift * shift / 2.0 - shift * (cut + 0.3))

    def judged(x):
        return shift * shift / 2.0 - shift * x, np.full(x.size, 1e-13), (x > least).astype(np.int64)

    return Law(
        cutoff, ndtr(-least), ndtr(-(cut + 0.3)),
        lambda rng: judged(rng.standard_normal(n) + shift),
        lambda rng, size: judged(rng.standard_normal(size)),
    )  # fmt: skip


def wrong_within_errors(n):
    """Computed weights are a fifth too large, within their stated errors: who neglects these exceeds P(S)."""
    true = tilted_gaussian(n, 2.0, end=2.0)

    def draw(rng):
        logs, _, classes = true.draw(rng)
        return logs + 0.2, np.full(logs.size, 0.2), classes

    return Law(true.cutoff * 1.5, true.mean, true.within, draw, true.plain)


LAWS = {
    "tilted Gaussian": (tilted_gaussian, 500),
    "heavy": (heavy, 400),
    "a tenth of S beyond M, hardly drawn": (lambda n: heavy(n, shift=2.5, least=-1.0, cut=-0.8), 2000),
    "wrong within errors": (wrong_within_errors, 2000),
}
LEVEL, PLAIN = 0.1, 300
by_runs = pytest.mark.parametrize("runs", [200, pytest.param(2000, marks=pytest.mark.slow)])


def train(law, rng, n, level):
    """λ and κ from one training run, as a study would have them."""
    logs, _, classes = law.draw(rng)
    weights = np.exp(logs[(classes > 0)])
    weights = weights[weights <= law.cutoff]
    shares = np.full(weights.size, 1.0 / logs.size)
    return tuple(choose(weights, shares, n, level, law.cutoff).rate for choose in (choose_lower, choose_upper))


def run_limits(law, rates, rng, level):
    """Lower limit, upper limit and limit of the leftover of one run."""
    logs, errors, classes = law.draw(rng)
    totals = [
        add(logs, errors, classes, one_cell(rate, law.cutoff))
        for add, rate in zip((sum_lower, sum_upper), rates, strict=True)
    ]
    hits, _ = count_leftover(*law.plain(rng, PLAIN), one_cell(rates[1], law.cutoff))
    lower = lower_mean(totals[0], rates[0], logs.size, level)
    upper = upper_mean(totals[1], rates[1], law.cutoff, logs.size, level)
    return float(lower[0]), float(upper[0]), float(leftover_limit(hits, PLAIN, level)[0])


def is_nominal(failures, runs, level):
    """No more failures than 4 standard deviations above what the level allows: a false alarm has a chance of some 1e-4."""
    return failures <= runs * level + 4.0 * math.sqrt(runs * level * (1.0 - level))


@by_runs
@pytest.mark.parametrize("name", LAWS)
def test_coverage(runs, name) -> None:
    make, n = LAWS[name]
    law, rng = make(n), np.random.default_rng(20)
    rates = train(law, rng, n, LEVEL)
    found = np.array([run_limits(law, rates, rng, LEVEL) for _ in range(runs)])
    lower, upper, leftover = found.T
    failures = {
        "lower": (lower > law.mean).sum(),
        "upper": (upper < law.within).sum(),
        "leftover": (leftover < law.mean - law.within - 1e-12).sum(),
        "whole": (upper + leftover < law.mean).sum(),
    }
    print(name, {kind: int(count) for kind, count in failures.items()}, np.median(found, axis=0), law.mean, law.within)
    for kind, count in failures.items():
        assert is_nominal(count, runs, 2 * LEVEL if kind == "whole" else LEVEL), kind


@by_runs
def test_coverage_of_certified_deltas(runs) -> None:
    """P = N(1, 1), Q = N(0, 1), each with proposals of its own; the exact δ of S is not exceeded more often than .2."""
    n, threshold, epsilon, level = 600, 2.0, 1.0, 0.2
    p, q = tilted_gaussian(n, threshold, law=1.0, end=threshold), tilted_gaussian(n, threshold, top=0.1)
    rng, split = np.random.default_rng(21), split_level(level)
    rates = train(p, rng, n, split.p)[0], train(q, rng, n, split.q)[1]
    exact = p.mean - math.exp(epsilon) * q.mean
    found = []
    for _ in range(runs):
        first = lower_mean(sum_lower(*p.draw(rng), one_cell(rates[0], p.cutoff)), rates[0], n, split.p)
        cell = one_cell(rates[1], q.cutoff)
        second = upper_mean(sum_upper(*q.draw(rng), cell), rates[1], q.cutoff, n, split.q)
        found.append(certify(first, second, leftover_limit(*_hits(q, rng, cell), split.leftover), epsilon).lower[0])
    assert is_nominal((np.array(found) > exact).sum(), runs, level)
    assert np.median(found) > 0.3 * exact  # a bound, and not 0


def _hits(law, rng, cell, size=2000):
    return count_leftover(*law.plain(rng, size), cell)[0], size
