"""Sizes that targets decide and what a plan says of them, whether planned tests are long enough, and sizes that pass a claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from studies import make_study

from hpcdp.analytic import GaussianShift, LaplaceShift
from hpcdp.driver.plan import plan
from hpcdp.engine.derived import fewest
from hpcdp.methods.sample_split.method import METHOD
from hpcdp.methods.sample_split.targets import (
    forecast_target,
    foresee,
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


# Outputs after which a bound would pass a claim


def test_a_claim_at_the_rates_is_never_passed():
    assert METHOD.passing(0.3, 0.1, 2.0, 0.05, 0.1, 100) is None
    assert METHOD.passing(0.3, 0.1, 2.0, 0.05, 0.3, 100) is None


def test_fewest_is_exact_where_it_can_be():
    assert fewest(lambda n: n >= 777, 100) == 777
    assert fewest(lambda n: n >= 777, 1000) == 1000
    assert 10**9 <= fewest(lambda n: n >= 10**9, 1) <= 1.001 * 10**9
    assert fewest(lambda n: n < 0, 1) is None


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 3.0), (0.3, 0.7), (2.0, 0.0)])
def test_rates_of_normal_noise(mu, epsilon):
    a, b = rates_of(GaussianShift(mu).spectrum, epsilon)
    assert a == pytest.approx(ndtr(mu / 2 - epsilon / mu), rel=1e-3)
    assert b == pytest.approx(ndtr(-mu / 2 - epsilon / mu), rel=1e-3)


def test_rates_of_laplace_noise():
    # L > ε on a half-line that has P = 1 − e^((ε − 1)/2)/2 and Q = e^(−(1 + ε)/2)/2
    a, b = rates_of(LaplaceShift(1.0).spectrum, 0.4)
    assert a == pytest.approx(1 - math.exp(-0.3) / 2, rel=1e-4)
    assert b == pytest.approx(math.exp(-0.7) / 2, rel=1e-4)


def study_with(claim=None, **target):
    study = make_study(
        "gaussian",
        {"sigma": 1.0},
        [([0.0], [1.0])],
        seed=1,
        train=1000,
        epsilons=[0.0, 1.0, 3.0, 12.0],
        keep="none",
        target=target,
    )
    return study.model_copy(update={"study": study.study.model_copy(update={"claim": claim})})


def test_draws_give_the_error_that_is_asked_for():
    study = study_with("gaussian(mu=1)", epsilon=3.0, relative_error=0.05)
    words, draws = foresee(study)
    assert "gaussian(mu=1)" in words
    a, b, delta = ndtr(-2.5), ndtr(-3.5), float(GaussianShift(1.0).delta(3.0))
    error = math.sqrt((a * (1 - a) + math.exp(6.0) * b * (1 - b)) / draws)
    assert error == pytest.approx(0.05 * delta, rel=1e-3)
    by_delta, draws_by_delta = foresee(study_with("gaussian(mu=1)", delta=1e-3, relative_error=0.05))
    assert (by_delta, draws_by_delta) == (words, draws), "the last ε of the grid with δ of 10⁻³ is 3"
    assert foresee(study_with(epsilon=3.0)) is None


def test_plans_say_it():
    assert "at most 1.0e+11 test draws per database" in " ".join(str(plan(study_with(epsilon=3.0), 2)).split())
    text = " ".join(str(plan(study_with("gaussian(mu=1)", epsilon=12.0), 2)).split())
    assert "raise target.most" in text
    assert "δ is 0" in " ".join(str(plan(study_with("dp(epsilon=2)", epsilon=3.0), 2)).split())
