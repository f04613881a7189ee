"""The rate of a whole suite of privacy checks, whose claims are exactly true, and faults that must show."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from hpcdp.study.claims import as_claim
from hpcdp.testing.alternatives import laws_of
from hpcdp.testing.checks import Check, make
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


def at_its_claim(database, size, rng):
    return database[0] + rng.laplace(0.0, 1.0, size)


@pytest.mark.slow
def test_a_check_as_it_is_made_fails_no_more_often_than_its_level():
    """Where what chooses the set is as many draws as what tests it, a test on the former fails far more often."""
    runs, level, claim, catches = 400, 0.05, "dp(epsilon=1)", "laplace(epsilon=2)"
    declared = Declared(claim, catches, 1.0, 1, level, (64, 128, 128), 1.0)
    checks = (Check(f"test::a#{number}", at_its_claim, [0.0], [1.0], claim, catches, 1.0) for number in range(runs))
    failed = sum(make(check, declared).violated for check in checks)
    assert is_within(failed, runs, level)


def test_draws_that_test_come_from_generators_that_nothing_else_was_given():
    begun, sizes = [], []

    def noted(database, size, rng):
        begun.append(str(rng.bit_generator.state))
        sizes.append(size)
        return at_its_claim(database, size, rng)

    make(Check("test::a#1", noted, [0.0], [1.0], "dp(epsilon=1)", "laplace(epsilon=2)", 1.0), ENTRY)
    assert sizes[-4:] == [1 << 16, 1000] * 2  # the chunks that test, of both sides
    assert len(set(begun[-4:])) == 4
    assert not set(begun[-4:]) & set(begun[:-4])
    assert len(set(begun[:-4])) == len(begun[:-4]) - 2  # where two calls are compared first, that learn and choose


ENTRY = Declared("dp(epsilon=1)", "laplace(epsilon=2)", 1.0, 1, 1e-3, (500, 600, (1 << 16) + 1000), 1.0)
