"""Sizes that targets decide: forecasts, rounds of screening, and whether planned tests are long enough."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from hpcdp.analytic import GaussianShift
from hpcdp.planning.refining import _by_sides
from hpcdp.planning.spans import without
from hpcdp.planning.target_draws import rates_of
from hpcdp.planning.targets import (
    LEARNING,
    Forecast,
    first_refined,
    forecast_target,
    next_screen,
    next_sizes,
    target_column,
)
from hpcdp.study.estimate import Target
from hpcdp.study.sizes import MANY, Sizes, first_sizes


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


def test_sizes():
    target, chunk = Target(epsilon=1.0), 1 << 18
    now, wide = Sizes(1 << 20, 1 << 19, 0), Forecast(1.0, 1e-6, 0.9e-6, 1.1e-6, 1e10)
    grown = next_sizes(target, now, wide, chunk, True, 0)
    assert grown.test == 0
    assert 1.0 <= grown.refine / min(LEARNING * 1e10, 64 * now.refine) <= 1.25
    late = Sizes(1 << 29, 1 << 28, 0)
    final = next_sizes(target, late, wide, chunk, True, 0)
    assert 1.0 <= final.test / 1e10 <= 1.25
    assert final.test % chunk == 0
    assert next_sizes(target, late, wide, chunk, True, 3).refine >= 4 * late.refine  # rivals race before all are tested
    assert next_sizes(target, now, wide, chunk, False, 3) == Sizes(now.refine, now.validation, chunk)
    assert first_sizes(1000, chunk, MANY) == Sizes(chunk, chunk, 0)
    assert first_sizes(1000, chunk, MANY + 1) == Sizes(0, 0, 0, screen=1000)
    hopeless = Forecast(1.0, 1e-12, 0.0, 1e-11, 1e16)
    assert next_sizes(target, late, hopeless, chunk, True, 0).refine > late.refine
    most = target.most * 18 * target.relative_error**2  # what tells δ̂ just well enough where its test takes the most
    assert next_sizes(target, Sizes(1 << 32, 1 << 32, 0), hopeless, chunk, True, 0).refine == pytest.approx(
        most, rel=0.07
    )
    assert next_sizes(target, Sizes(1 << 34, 1 << 34, 0), hopeless, chunk, True, 0).test == 1 << 34
    blind = next_sizes(target, now, Forecast(1.0, 0.0, 0.0, 1e-5, None), chunk, True, 0)
    assert blind == Sizes(4 << 20, 4 << 20, 0)
    uneven = next_sizes(target, late, Forecast(1.0, 1e-6, 0.9e-6, 1.1e-6, 1e10, 4.0), chunk, True, 0)
    assert uneven.split == (chunk // 4, chunk)
    assert uneven.tests[1] == 4 * uneven.tests[0]
    assert 1.0 <= sum(uneven.tests) / 2e10 <= 1.1


@pytest.mark.parametrize("error", [0.03, 0.1])
@pytest.mark.parametrize("direction", [None, "forward", "reverse"])
@pytest.mark.parametrize(("mu", "epsilon", "start"), [(1.0, 4.887, 1 << 24), (0.25, 1.0, 1 << 24), (3.0, 4.0, 1 << 11)])
def test_planned_tests_are_long_enough(mu, epsilon, start, direction, error):
    """Whole histories of decisions, on counts of the exact sets: looks that end early by chance must not spoil the error."""
    runs = 400 if direction is None else 2000
    found, tallied = histories(mu, epsilon, start, direction, error, runs)
    print(f"μ = {mu}, {direction}, error {error}: {np.quantile(found, [0.5, 0.8, 0.99]).round(3)}")
    assert np.mean(np.array(found) <= 1.0) > 0.8 - 4 * math.sqrt(0.8 * 0.2 / runs), "about four of five"
    assert np.quantile(found, 0.99) < 1.5
    assert np.median(found) > 0.6, "nor is much wasted"
    if direction is not None and mu == 1.0 and error == 0.1:
        with patch("hpcdp.planning.targets._MOST_TALLY_RATIO", 1.0):
            _, equal = histories(mu, epsilon, start, direction, error, runs)
        assert np.mean(tallied) < 0.75 * np.mean(equal), "tallies of each side as many as it needs are fewer"


def histories(mu, epsilon, start, direction, error, runs):
    """Of so many seeds: the test's standard error over the one asked for, and tallies of both sides."""
    a, b = rates_of(GaussianShift(mu).spectrum, epsilon)
    delta, variances = a - math.exp(epsilon) * b, (a * (1 - a), math.exp(2 * epsilon) * b * (1 - b))
    target = Target(epsilon=1.0, direction=direction, relative_error=error, most=10**14)
    shown = slice(None, None, -1) if direction == "reverse" else slice(None)  # of D and D', which side is not inflated
    found, tallied = [], []
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
        tallied.append(seen.sum())
    return found, tallied


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


def test_tallies_of_each_side_grow_and_never_shrink():
    target, chunk = Target(epsilon=4.0, direction="forward"), 1000
    now = Sizes(10**6, 10**6, 0)
    wide = Forecast(4.0, 1e-6, 0.7e-6, 1.3e-6, None, tallies=(0.3, 1.2))
    grown = next_sizes(target, now, wide, chunk, True, 0)
    assert grown.refine == grown.validation == 10**6  # .3 of 1.6 times as many are fewer
    assert grown.d_prime[0] == grown.d_prime[1]
    assert 1.0 <= grown.d_prime[0] / (1.2 * 1.6e6) <= 1.07
    assert grown.of("refine", 0) == grown.refine
    assert grown.of("validation", 1) == grown.d_prime[1]
    assert grown.drawn == 2 * grown.refine + 2 * grown.d_prime[0]
    assert len({sizes.model_key("pilot") for sizes in (now, grown, replace(grown, refine=2 * 10**6))}) == 3
    assert next_sizes(target, grown, replace(wide, tallies=(1.0, 1.0)), chunk, True, 0).refine > grown.refine
    assert next_sizes(target, grown, replace(wide, told=1.5, draws=1e16), chunk, True, 0).refine >= grown.refine


def test_what_is_left_of_each_side():
    rng = np.random.default_rng(21)
    for _ in range(300):
        chunks = [rng.random(30) < share for share in rng.random(2)]
        left = [[range(at, at + 1) for at in np.flatnonzero(side)] for side in chunks]
        if rng.random() < 0.5:  # as gaps are: joined
            left = [without([range(30)], without([range(30)], side)) for side in left]
        found = {sides: {c for part in parts for c in part} for sides, parts in _by_sides(*left)}
        assert found.get((0, 1), set()) == set(np.flatnonzero(chunks[0] & chunks[1]))
        assert found.get((0,), set()) == set(np.flatnonzero(chunks[0] & ~chunks[1]))
        assert found.get((1,), set()) == set(np.flatnonzero(chunks[1] & ~chunks[0]))


def test_screening_rounds():
    target = Target(epsilon=1.0)
    known = [Forecast(1.0, 0.2, 0.1, 0.3, 1e6)] * 20
    assert next_screen(target, 1000, known, 1000) == 4000
    assert next_screen(target, 1000, known[:MANY], 1000) == 0  # few are refined instead
    assert next_screen(target, 1000, known, 2) == 0  # 20 · 4000 draws are more than 3 % of 2 · 10⁶
    assert next_screen(target, 1 << 19, known, 10**6) == 0  # more than testing one takes
    blind = [Forecast(1.0, 0.0, 0.0, 0.3, None)] * 1000
    assert next_screen(target, 1000, blind, 1000) == (4000 if LEARNING * target.most >= 4000 else 0)
    refined = first_refined(Sizes(0, 0, 0, screen=16_000), 2000, 1000)
    assert refined == Sizes(16_000, 16_000, 0, screen=16_000)


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


def curve_shares(grid):
    """P and Q of {L > ε} for normal laws at 0 and 1: outputs below 1/2 − ε."""
    from scipy.special import ndtr

    return ndtr(0.5 - grid), ndtr(-0.5 - grid)
