"""The planned test of a privacy check: its cells, its laws, and the power that it says, against frequencies and exact values."""

import functools
import importlib
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, laplace, norm

from hpcdp.errors import MechanismError, StudyError
from hpcdp.study.claims import as_claim
from hpcdp.testing.checks import EXAMPLE, Check, PairOfLaws, check_of, make, passed
from hpcdp.testing.planned import Cell, Declared, Sizes, View, choose_cell, levels_of, lower_bound
from hpcdp.testing.power import laws_of, plan_sizes, power
from hpcdp.testing.suite import Declaration, rate_of_a_run


def drawing(law, rng):
    return lambda side, _stage, size: law.draw(side, size, rng)


def frequency(law, claim, sizes, level, times, seed):
    """How often the whole of the test rejects: learning, choosing and testing by draws."""
    levels, claimed = levels_of(as_claim(claim))
    rng, found = np.random.default_rng(seed), 0
    for _ in range(times):
        draws = drawing(law, rng)
        cell = choose_cell(draws, sizes, levels, claimed)
        counts = [cell.count(draws(side, "test", sizes.test)) for side in (0, 1)]
        found += bool(lower_bound(cell, counts, sizes.test, level) > cell.claimed)
    return found / times


@pytest.mark.slow
def test_the_power_is_how_often_the_test_rejects():
    claim, catches, total, level = "dp(epsilon=0.5)", "delta(0.5) >= 0.15", 700, 1e-3
    # two points are 3.3 standard errors of both means where the power is a half, and more elsewhere: by chance in 1 of 1,000
    laws, sizes = laws_of(catches), Sizes.of(total)
    law = laws[len(laws) // 2]
    said, seen = power(law, claim, sizes, level), frequency(law, claim, sizes, level, 10_000, seed=3)
    assert 0.02 < said < 0.998  # neither is a matter of course
    assert abs(said - seen) < 0.02


@pytest.mark.parametrize("catches", ["laplace(epsilon=1.7)", "gaussian(mu=0.6)", "gaussian(epsilon=1, delta=0.01)"])
def test_probabilities_of_sets_are_those_of_the_noise(catches):
    (law,) = laws_of(catches)
    cell = Cell("forward", 0.3, 0.0, View("number"), ((-np.inf, -1.2), (-0.1, 0.4), (2.0, np.inf)))
    exact = (laplace if catches.startswith("laplace") else norm)(0.0, law.scale)
    for side in (0, 1):
        expected = sum(exact.cdf(b - side) - exact.cdf(a - side) for a, b in cell.intervals)
        assert law.share(cell, side) == pytest.approx(expected, abs=1e-14)
        counted = cell.count(law.draw(side, 20_000, np.random.default_rng(side)))
        assert 1e-5 < binom.cdf(counted, 20_000, expected) < 1 - 1e-5


@pytest.mark.parametrize("epsilon, delta", [(0.4, 0.0), (1.2, 0.03), (2.5, 0.2)])
def test_randomised_response_stands_on_the_curve_of_its_claim(epsilon, delta):
    claim = as_claim(f"dp(epsilon={epsilon}, delta={delta})")
    (law,) = laws_of(claim.text)
    for level in (0.0, 0.3 * epsilon, epsilon, 1.5 * epsilon):
        assert law.delta(level) == pytest.approx(float(claim.delta(level)), abs=1e-14)
    caught = laws_of("delta(0.7) >= 0.3")
    assert all(law.delta(0.7) >= 0.3 - 1e-15 for law in caught)  # each set of a delta has it, rounded
    assert [p[0] - math.exp(0.7) * q[0] for p, q in (law.both for law in caught)] == pytest.approx([0.3] * len(caught))


@pytest.mark.parametrize(
    "catches, said",
    [
        ("laplace(epsilon=0)", "accepted: laplace"),
        ("delta(1) >= 2", "0 < D <= 1"),
        ("delta(1e) >= 0.1", "accepted: laplace"),
        ("renyi(order=2, epsilon=1)", "accepted: laplace"),
        ("nonsense", "catches accepts laplace"),
        ("laplace(epsilon=0.9)", "which dp(epsilon=1) allows"),
        pytest.param("delta(2) >= 1e-9", None, marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_caught_is_refused_in_words(catches, said):
    if said is None:  # however little it is: no power, and no refusal
        assert plan_sizes("dp(epsilon=1)", catches, 1e-3, 400)[1] < 0.9
        return
    with pytest.raises(StudyError) as refused:
        plan_sizes("dp(epsilon=1)", catches, 1e-3, 1000)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_views_find_what_single_columns_do_not_show():
    rng = np.random.default_rng(1)
    sizes = Sizes.of(8000)

    def turned(side, _stage, size):  # what differs is a difference of two columns that vary together
        common = 20.0 * rng.normal(size=(size, 1))
        return np.hstack([common, common + rng.normal(size=(size, 1)) + 2.0 * side])

    def widened(side, _stage, size):
        return rng.normal(size=(size, 3)) * (1.0 + 0.6 * side)

    def paired(side, _stage, size):  # each column alone is a fair coin
        first = rng.random(size) < 0.5
        return np.stack([first, first ^ (rng.random(size) < (0.8 if side else 0.2))], axis=1)

    for draws, least in ((turned, 0.5), (widened, 0.15), (paired, 0.5)):
        cell = choose_cell(draws, sizes, np.zeros(1), np.zeros(1))
        counts = [cell.count(draws(side, "test", 20_000)) for side in (0, 1)]
        assert float(lower_bound(cell, counts, 20_000, 1e-3)) > least, draws.__name__


@pytest.mark.parametrize("large", [1 << 62, -(1 << 62), 1 << 53, -(1 << 53) - 1])
def test_integers_that_float64_does_not_tell_apart_are_told_apart(large):
    rng, sizes = np.random.default_rng(5), Sizes(2000, 2000, 4000)

    def draws(side, _stage, size):
        return large + (rng.random(size) < (0.9 if side else 0.1)).astype(np.int64)

    cell = choose_cell(draws, sizes, np.zeros(1), np.zeros(1))
    counts = [cell.count(draws(side, "test", 4000)) for side in (0, 1)]
    assert float(lower_bound(cell, counts, 4000, 1e-3)) > 0.7


def same_seed(database, size, rng):
    return database.sum() + np.random.default_rng(5).laplace(0.0, 1.0, size)


def same_noise(database, size, rng):
    return np.full(size, database.sum() + rng.laplace(0.0, 1.0))


def two_valued(database, size, rng):
    return np.where(rng.random(size) < (0.6 if database.sum() else 0.4), 1, 0)


def constant(database, size, rng):
    return 0.0 * (database.sum() + rng.random(size))


@pytest.mark.parametrize(("function", "said"), [(same_seed, "identical outputs"), (same_noise, "again and again")])
def test_draws_that_depend_on_each_other_are_an_error(function, said):
    given = {"claim": "dp(epsilon=1)", "catches": "laplace(epsilon=2)", "seconds": 1.0}
    declared = Declared(**given, weight=1, level=1e-3, draws=Sizes(500, 500, 1000), power=0.99)
    with pytest.raises(MechanismError, match=said):
        make(Check("test::depends#1", function, np.array([1.0]), np.array([0.0]), **given), declared)
    for independent in (two_valued, constant):
        assert not make(
            Check("test::good#1", independent, np.array([1.0]), np.array([0.0]), **given), declared
        ).violated


def needs_more(database, epsilon, rng):
    return database[0] + rng.laplace(0.0, 1.0 / epsilon)


GIVEN = {
    "f": two_valued,
    "d": [0.0],
    "d_prime": [1.0],
    "claim": "dp(epsilon=1)",
    "catches": "laplace(epsilon=2)",
    "seconds": 1.0,
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"catches": None, "seconds": None}, ["missing: catches, seconds;"]),
        (dict.fromkeys(GIVEN), ["missing: f, d, d_prime, claim, catches, seconds;"]),
        (
            {"f": needs_more, "catches": None, "seconds": True},
            [
                "missing: catches;",
                "seconds: True was",
                "needs_more(database, epsilon, rng) was given",
                "functools.partial",
            ],
        ),
        ({"f": 3, "claim": 1}, ["f: 3 was given", "claim: 1 was given"]),
        ({"seconds": math.inf, "catches": ["a"]}, ["seconds: inf was given", "catches: ['a'] was given"]),
        ({"d": np.array([1.0]), "d_prime": [1]}, ["d_prime: the same database as d"]),
    ],
)
def test_all_that_a_check_lacks_is_said_at_once(changed, words):
    with pytest.raises(StudyError) as caught:
        check_of("test::a#1", **{**GIVEN, **changed})
    for one in [*words, EXAMPLE]:
        assert one in str(caught.value)
    for name in GIVEN.keys() - changed.keys():
        assert f" {name}: " not in str(caught.value)
    for function in (two_valued, functools.partial(needs_more, epsilon=1.0), lambda d: d.sum()):
        assert check_of("test::a#1", **{**GIVEN, "f": function}).function is function


@pytest.mark.parametrize("is_seeded", [True, False])
def test_whether_a_rerun_draws_the_same_is_seen(is_seeded):
    def noisy(database, size, rng):
        return database[0] + (rng if is_seeded else np.random.default_rng()).laplace(size=size)

    assert PairOfLaws(noisy, [0.0], [1.0], 1).repeats == is_seeded


@pytest.mark.parametrize("name", ["hpcdp", "hpcdp.testing"])
def test_a_fixture_is_not_imported(name):
    module = importlib.import_module(name)
    with pytest.raises(AttributeError, match=r"is a pytest fixture.*def test_sum\(assert_private\)"):
        _ = module.assert_private
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'assert_privat'"):
        _ = module.assert_privat


def too_little_noise(database, size, rng):
    return database[0] + rng.laplace(0.0, 0.8, size)


@pytest.mark.parametrize("power, said", [(0.99951, "99.9 %"), (0.99499, "99.4 %"), (1.0 - 1e-9, "99.9 %")])
def test_the_power_that_is_said_is_rounded_down(power, said):
    claim, catches = "dp(epsilon=1)", "laplace(epsilon=1.25)"
    check = Check("test::a#1", too_little_noise, [0.0], [1.0], claim, catches, 3.0)
    declared = Declared(claim, catches, 3.0, 1, 1e-3, Sizes(4, 4, 8), power)
    assert f"would have been found with probability {said} (simulated" in passed(check, declared)


# Checks whose claims are exactly true


def test_the_levels_of_a_suite_are_its_rate() -> None:
    """Each check is exact at its own level, so that together they fail no more often."""
    for rate in (0.1, 1e-3):
        empty = Declaration(rate, 20, {})
        entry = Declared("dp(epsilon=1)", "dp(epsilon=2)", 1.0, 1, empty.level(1), Sizes(1, 1, 1), 1.0)
        suite = Declaration(rate, 20, {f"test_{number}#1": entry for number in range(20)})
        assert 0.999 * rate < sum(check.level for check in suite.checks.values()) <= rate * (1 + 1e-12)


def at_its_claim(database, size, rng):
    return database[0] + rng.laplace(0.0, 1.0, size)


@pytest.mark.slow
def test_a_check_as_it_is_made_fails_no_more_often_than_its_level():
    """Where what chooses the set is as many draws as what tests it, a test on the former fails far more often."""
    runs, level, claim, catches = 400, 0.05, "dp(epsilon=1)", "laplace(epsilon=2)"
    declared = Declared(claim, catches, 1.0, 1, level, Sizes(64, 128, 128), 1.0)
    checks = (Check(f"test::a#{number}", at_its_claim, [0.0], [1.0], claim, catches, 1.0) for number in range(runs))
    failed = sum(make(check, declared).violated for check in checks)
    assert binom.sf(failed - 1, runs, level) > 1e-6


@pytest.mark.slow
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
    # the first call is repeated, to see whether outputs come again; then two calls are compared first, that learn and choose
    assert len(set(begun[:-4])) == len(begun[:-4]) - 3


ENTRY = Declared("dp(epsilon=1)", "laplace(epsilon=2)", 1.0, 1, 1e-3, Sizes(500, 600, (1 << 16) + 1000), 1.0)


def test_a_function_with_one_value_that_is_no_number_is_refused_and_a_leak_by_others_found():
    def only(database, size, rng):
        return np.where(rng.random(size) < database[0], np.nan, np.inf)

    check = Check("test::a#1", only, [1.0], [1.0], "dp(epsilon=1)", "laplace(epsilon=2)", 1.0)
    with pytest.raises(MechanismError, match="every output that was drawn is nan, so that there is nothing to compare"):
        make(check, ENTRY)
    assert make(replace(check, d_prime=[0.0]), ENTRY).violated


def test_runs_share_a_rate():
    assert rate_of_a_run("0.05", "10") == 0.005
    for given in (("1", "10"), ("0.05", "0"), ("much", "10"), ("0.05", "1.5")):
        with pytest.raises(StudyError, match=r"hpcdp_(false_alarm|runs): .* was given; accepted: a"):
            rate_of_a_run(*given)
