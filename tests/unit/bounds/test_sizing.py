"""Sizes that targets decide, whether planned tests are long enough, and the sizes after which a bound would pass a claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from hpcdp.analytic import GaussianShift
from hpcdp.engine.derived import fewest
from hpcdp.methods.sample_split.method import METHOD
from hpcdp.methods.sample_split.targets import (
    forecast_target,
    next_sizes,
    rates_of,
    target_column,
)
from hpcdp.study.estimate import Target
from hpcdp.study.problem import Sizes


def curve_shares(grid):
    """P and Q of {L > ε} for normal laws at 0 and 1: outputs below 1/2 − ε."""
    return ndtr(0.5 - grid), ndtr(-0.5 - grid)


def test_forecasts():
    target = Target(epsilon=1.0, relative_error=0.1)
    # the sets {L > ε} and {L < −ε} of two normal laws at distance 1
    grid = np.array([0.0, 1.0])
    a, b = curve_shares(grid)
    shares = np.broadcast_to(np.stack([a, b], axis=-1), (2, 2, 2))
    assert target_column(target, grid, shares[None]) == 1
    forecast = forecast_target(target, 1.0, shares[:, 1], (10**6, 10**6))
    delta = float(GaussianShift(1.0).delta(1.0))
    assert forecast.delta == pytest.approx(delta, rel=1e-9)
    spread = np.sqrt((a[1] * (1 - a[1]) + np.e**2 * b[1] * (1 - b[1])) / forecast.draws)
    assert 0.9 < spread / (0.1 * delta) < 1.0
    assert forecast.low < delta < forecast.high
    assert forecast_target(target, 1.0, shares[:, 1], (20, 20)).draws is None  # 6 outputs tell too little
    # 300 outputs of D and none of D', each of which would take e^5 of D away: they may be what is missing
    few = np.broadcast_to([3e-5, 0.0], (2, 2))
    assert forecast_target(target, 5.0, few, (10**7, 10**7)).draws is None
    assert forecast_target(target, 1.0, few, (10**7, 10**7)).draws is not None
    assert forecast_target(target, 0.0, np.ones((2, 2)), (100, 100)).draws is None  # nothing varies
    assert target_column(Target(delta=0.2), grid, shares[None]) == 0  # δ(0) = .38, δ(1) = .13
    assert target_column(Target(delta=0.1), grid, shares[None]) == 1


@pytest.mark.parametrize("direction", [None, "forward", "reverse"])
def test_planned_tests_are_long_enough(direction):
    """Whole histories of decisions, on counts of the exact sets: looks that end early by chance must not spoil the error.

    Tests half as long would show.
    """
    found = np.array(histories(1.0, 4.887, 1 << 24, direction, 0.1, 100))
    assert np.median(found) > 0.6, "nor is much wasted"
    least = 0.8 - 4 * math.sqrt(0.8 * 0.2 / 100)
    assert np.mean(found <= 1.0) > least
    assert np.mean(math.sqrt(2.0) * found <= 1.0) < least


def histories(mu, epsilon, start, direction, error, runs):
    """Of so many seeds: the test's standard error over the one asked for."""
    a, b = rates_of(GaussianShift(mu).spectrum, epsilon)
    delta, variances = a - math.exp(epsilon) * b, (a * (1 - a), math.exp(2 * epsilon) * b * (1 - b))
    target = Target(epsilon=1.0, direction=direction, relative_error=error, most=10**14)
    shown = slice(None, None, -1) if direction == "reverse" else slice(None)  # of D and D', which side is not inflated
    found = []
    for seed in range(runs):
        rng = np.random.default_rng([17, seed])
        now, counts, seen = Sizes(start, start, 0), np.zeros(2), np.zeros(2, np.int64)
        while not now.test:
            each = np.array([sum(sizes) for sizes in now.tallies])
            counts, seen = counts + rng.binomial(each - seen, [a, b][shown]), each
            shares = np.broadcast_to((counts / seen)[shown], (2, 2))
            now = next_sizes(target, now, forecast_target(target, epsilon, shares, seen), 1 << 6, True, 0)
        variance = sum(v / n for v, n in zip(variances, now.tests[shown], strict=True))
        found.append(math.sqrt(variance) / delta / error)
    return found


@pytest.mark.parametrize("seen", [(10**15, 10**15), (10**14, 10**15), (10**15, 10**14)])
def test_each_side_of_the_tallies_is_weighed_by_its_own_number(seen):
    """The forecast's error, what equal sides would tell, and what is drawn in their place, against the exact variances."""
    a, b = curve_shares(np.array([4.0]))[0][0], curve_shares(np.array([4.0]))[1][0]
    shares, variances = np.broadcast_to([a, b], (2, 2)), (a * (1 - a), np.exp(8.0) * b * (1 - b))
    for direction in ("forward", "reverse"):
        target = Target(epsilon=4.0, direction=direction)
        v = variances if direction == "forward" else variances[::-1]  # of one draw of D and of D'
        forecast = forecast_target(target, 4.0, shares, seen)
        error = math.sqrt(v[0] / seen[0] + v[1] / seen[1])
        assert forecast.high - forecast.delta == pytest.approx(3.0 * error, rel=1e-6)
        equal = forecast.told * seen[0]
        assert equal == pytest.approx(sum(v) / error**2, rel=1e-6)
        d, d_prime = forecast.tallies
        assert v[0] / d + v[1] / d_prime == pytest.approx(sum(v), rel=1e-6)
        ratio = d_prime / d if direction == "forward" else d / d_prime
        assert ratio == pytest.approx(min(4.0, math.sqrt(variances[1] / variances[0])), rel=1e-6)
        assert d + d_prime < 2.0
        a1, b1 = (share[0] for share in curve_shares(np.array([1.0])))  # 1.5 to 1: too little to save
        assert forecast_target(target, 1.0, np.broadcast_to([a1, b1], (2, 2)), seen).tallies == (1.0, 1.0)


def test_one_direction_takes_fewer_draws():
    a, b = curve_shares(np.array([4.0]))
    shares = np.broadcast_to(np.stack([a, b], axis=-1), (2, 1, 2))[:, 0]
    tallied = (10**17, 10**17)  # neither errors nor one output more make a difference
    both = forecast_target(Target(epsilon=0.5), 4.0, shares, tallied)
    for direction in ("forward", "reverse"):
        one = forecast_target(Target(epsilon=0.5, direction=direction), 4.0, shares, tallied)
        first, second = a[0] * (1 - a[0]), np.exp(8.0) * b[0] * (1 - b[0])
        ratio = np.sqrt(second / first)
        assert one.ratio == pytest.approx(ratio if direction == "forward" else 1 / ratio)
        # two equal sides against the best split: 2 (v0 + v1) against (√v0 + √v1)²
        saved = (np.sqrt(first) + np.sqrt(second)) ** 2 / (2 * (first + second))
        assert one.draws / both.draws == pytest.approx(saved)
        assert saved < 0.7


# Outputs after which a bound would pass a claim


def test_a_claim_at_the_rates_is_never_passed():
    assert METHOD.passing(0.3, 0.1, 2.0, 0.05, 0.1, 100) is None
    assert METHOD.passing(0.3, 0.1, 2.0, 0.05, 0.3, 100) is None


def test_fewest_is_exact_where_it_can_be():
    assert fewest(lambda n: n >= 777, 100) == 777
    assert fewest(lambda n: n >= 777, 1000) == 1000
    assert 10**9 <= fewest(lambda n: n >= 10**9, 1) <= 1.001 * 10**9
    assert fewest(lambda n: n < 0, 1) is None
