"""The rate of a whole suite of privacy checks, whose claims are exactly true, and faults that must show."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from hpcdp.study.claims import as_claim
from hpcdp.testing.alternatives import laws_of
from hpcdp.testing.declaration import Declaration, Declared
from hpcdp.testing.planned import Cell, Sizes, choose_cell, levels_of, lower_bound
from hpcdp.testing.views import View

SUITES, CHECKS = 2000, 20
ALARM = 1e-6  # probability that a test here is red by chance


def declared(false_alarm):
    """Twenty checks that fill a suite's places."""
    empty = Declaration(false_alarm, CHECKS, {})
    entry = Declared("dp(epsilon=1)", "dp(epsilon=2)", 1.0, 1, empty.level(1), (1, 1, 1), 1.0)
    return Declaration(false_alarm, CHECKS, {f"test_{number}#1": entry for number in range(CHECKS)})


def failed_suites(level, seed):
    """Of 2,000 suites those with a failed check; counts are of the exact rates of randomised response at its own ε."""
    rng, failed = np.random.default_rng(seed), np.zeros(SUITES, bool)
    for number in range(CHECKS):
        epsilon, test = 0.25 + 0.1 * number, 1000 + 150 * number
        cell = Cell("forward", epsilon, 0.0, View("number"), ((-np.inf, 0.5),))
        shares = [1.0 / (1.0 + math.exp(-epsilon)), 1.0 / (1.0 + math.exp(epsilon))]
        counts = rng.binomial(test, shares, (SUITES, 2))
        failed |= lower_bound(cell, counts, test, level) > cell.claimed
    return int(failed.sum())


def is_within(failed, suites, rate):
    return binom.sf(failed - 1, suites, rate) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 1e-3])
def test_a_suite_of_true_claims_fails_no_more_often_than_its_rate(rate):
    suite = declared(rate)
    assert sum(check.level for check in suite.checks.values()) <= rate * (1 + 1e-12)
    failed = failed_suites(next(iter(suite.checks.values())).level, seed=1)
    assert is_within(failed, SUITES, rate)
    if rate == 0.1:
        assert failed > 0.5 * rate * SUITES  # exactly at the claims a rate is nearly used


@pytest.mark.slow
def test_a_leaked_share_shows():
    assert not is_within(failed_suites(2 * declared(0.1).level(1), seed=2), SUITES, 0.1)  # each check has two
    assert not is_within(failed_suites(1e-3, seed=3), SUITES, 1e-3)  # each has the whole rate


def failed_trained(suites, seed, leaks):
    """The same with training: Laplace noise exactly at its claim. leaks: the draws that choose test too."""
    rng, level, sizes = np.random.default_rng(seed), declared(0.1).level(1), Sizes(64, 128, 128)
    (law,), (levels, claimed) = laws_of("laplace(epsilon=1)"), levels_of(as_claim("dp(epsilon=1)"))
    failed = 0
    for _ in range(suites):
        found = False
        for _ in range(CHECKS):
            made = {}

            def draws(side, stage, size, made=made):
                made[side, stage] = law.draw(side, size, rng)
                return made[side, stage]

            cell = choose_cell(draws, sizes, levels, claimed)
            tested = [made[side, "choose"] if leaks else draws(side, "test", sizes.test) for side in (0, 1)]
            counts = [cell.count(outputs) for outputs in tested]
            found |= bool(lower_bound(cell, counts, sizes.test, level) > cell.claimed)
        failed += found
    return failed


@pytest.mark.release
def test_training_costs_no_part_of_the_rate():
    assert is_within(failed_trained(SUITES, 4, leaks=False), SUITES, 0.1)


@pytest.mark.slow
def test_a_test_on_training_draws_shows():
    assert not is_within(failed_trained(100, 5, leaks=True), 100, 0.1)
