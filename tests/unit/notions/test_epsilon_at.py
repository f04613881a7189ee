"""ε at a given δ: regions against every count of small samples with planted faults, brackets, and levels of a result."""

from __future__ import annotations

import math

import numpy as np
import pytest
from results import changed, measured, unmeasured
from scipy.special import ndtr
from scipy.stats import binom
from studies import make_study

from hpcdp.analytic import GaussianShift, LaplaceShift
from hpcdp.errors import StudyError
from hpcdp.notions.bounds import BERGER_BOOS_SHARE
from hpcdp.notions.epsilon_at import (
    BELOW,
    BEYOND,
    BRACKETED,
    UNRESOLVED,
    cell_corners,
    corner_epsilon,
    crossing,
    spectrum_epsilon,
)
from hpcdp.notions.pure import pure_lower
from hpcdp.report.notions import show_as
from hpcdp.results.levels import NO_ESTIMATE, level_at

DELTAS = (0.0, 1e-3, 0.02, 0.1, 0.3)


def exactly(a, b, delta):
    """The smallest ε >= 0 with a − e^ε·b <= δ."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > delta, np.maximum(0.0, np.log((a - delta) / b)), 0.0)


def misses(corners, a, b, slack=1e-9):
    """Cells whose limit is above the truth at some δ."""
    found = [corner_epsilon(*corners, delta) > exactly(a, b, delta) + slack for delta in DELTAS]
    return np.any(found, axis=0)


# every pair of counts, exact probabilities


SIZES = (11, 8)
COUNTS = np.stack([v.ravel() for v in np.meshgrid(*(np.arange(n + 1) for n in SIZES), indexing="ij")], axis=1)


def worst_miss(corners, probabilities):
    """The largest probability over laws that some δ is missed."""
    found = []
    for a in probabilities:
        for b in probabilities:
            p = binom.pmf(COUNTS[:, 0], SIZES[0], a) * binom.pmf(COUNTS[:, 1], SIZES[1], b)
            found.append(p[misses(corners, a, b)].sum())
    return max(found)


@pytest.mark.few
@pytest.mark.parametrize(
    ("inflation", "level", "split"),
    [
        (1.0, 0.05, False),
        pytest.param(1.6, 0.3, False, marks=pytest.mark.slow),
        (math.e, 0.05, False),
        pytest.param(1.0, 0.3, True, marks=pytest.mark.slow),
        (1.6, 0.05, True),
        (math.e, 0.3, True),
    ],
)
def test_a_region_misses_with_its_level_at_most_for_all_delta_at_once(inflation, level, split):
    many = len(COUNTS)
    arguments = (COUNTS, np.full((many, 2), SIZES), np.full(many, inflation), np.full(many, level))
    a, b = cell_corners(*arguments, np.full(many, split))
    laws = np.concatenate([[1e-6, 0.01], np.linspace(0.03, 0.99, 33)])
    worst = worst_miss((a, b), laws)
    print(f"worst {worst:.4f} of {level}")
    assert worst <= level
    # planted: the shares themselves for a region
    assert worst_miss((COUNTS[:, :1] / SIZES[0], COUNTS[:, 1:] / SIZES[1]), laws) > level


@pytest.mark.parametrize("level", [0.05, 0.4])
def test_the_interval_of_the_joint_region_misses_with_its_share_of_the_level_at_most(level):
    """Exactly, of all counts: what the joint bound's own level has not paid for would be on top of it."""
    size = 60
    x = np.arange(size + 1)
    counts, many = np.stack([np.zeros_like(x), x], axis=1), x.size
    no = np.zeros(many, np.bool_)
    _, b = cell_corners(counts, np.full((many, 2), size), np.ones(many), np.full(many, level), no)
    worst = max(binom.pmf(x, size, p)[(p < b[:, 0]) | (p > b[:, 1])].sum() for p in np.linspace(0.005, 0.995, 397))
    print(f"worst {worst:.5f} of {BERGER_BOOS_SHARE * level:.5f}")
    assert worst <= BERGER_BOOS_SHARE * level


def test_a_corner_is_the_smallest_of_the_whole_edge():
    rng = np.random.default_rng(5)
    x = rng.integers(0, 900, (200, 2))
    n = np.full((200, 2), 1000)
    c, level = np.exp(rng.uniform(0, 2, 200)), np.full(200, 0.01)
    a, b = cell_corners(x, n, c, level, np.zeros(200, bool))
    theta = a[:, 0] - c * b[:, 0]
    np.testing.assert_allclose(theta, a[:, 1] - c * b[:, 1], atol=1e-12)
    inside = np.linspace(b[:, 0], b[:, 1], 101, axis=1)
    for delta in DELTAS:
        edge = corner_epsilon(theta[:, None] + c[:, None] * inside, inside, delta)
        np.testing.assert_allclose(corner_epsilon(a, b, delta), edge, atol=1e-9)


# the pieces


def test_crossings():
    epsilons = np.array([0.5, 1.0, 1.5, 2.0])
    t = np.exp(epsilons)
    values = 0.4 - 0.05 * t  # a straight line in e^ε, so that interpolation is exact
    sure = np.ones(4, bool)
    assert crossing(epsilons, values, sure, 0.1) == (pytest.approx(math.log(6.0)), BRACKETED)
    assert crossing(epsilons, values, sure, values[2]) == (pytest.approx(1.5), BRACKETED)
    assert crossing(epsilons, values, sure, 0.001) == (2.0, BEYOND)
    assert crossing(epsilons, values, sure, 0.39) == (0.5, BELOW)
    assert crossing(np.append(0.0, epsilons), np.append(0.35, values), sure[[0, *range(4)]], 0.39) == (0.0, BRACKETED)
    noisy = np.array([0.3, 0.05, 0.15, 0.02])  # δ never rises: what counts is the last place above
    assert crossing(epsilons, noisy, sure, 0.1)[0] > 1.5
    limits = np.array([0.3, 0.2, 1e-4, 1e-4])
    known = np.array([True, True, False, False])
    assert crossing(epsilons, limits, known, 0.1)[1] == BRACKETED
    assert crossing(epsilons, limits, known, 1e-5) == (1.0, UNRESOLVED)
    where, found = crossing(epsilons, limits, ~sure, 1e-5)
    assert math.isnan(where)
    assert found == UNRESOLVED


@pytest.mark.parametrize("curve", [GaussianShift(1.0), LaplaceShift(1.0)])
def test_bounds_on_delta_give_bounds_on_epsilon(curve):
    epsilons = np.linspace(0, 3, 31)
    truth = curve.delta(epsilons)
    for wanted, delta in zip(epsilons, truth, strict=True):
        found = spectrum_epsilon(epsilons, truth, float(delta))
        assert (found <= wanted + 1e-12).all()
        assert found.max() >= epsilons[truth > delta].max(initial=0.0)
    assert spectrum_epsilon(np.array([1.0, 2.0]), np.array([1.0, np.nan]), 0.1).tolist() == [math.inf, 0.0]


# whole results


@pytest.fixture(scope="module")
def result():
    epsilons = [0.0, 0.5, 1.0, 1.5, 2.0, 9.0]
    return measured("gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=7, train=20000, test=60000, epsilons=epsilons)


def test_levels_of_a_result_against_the_exact_curve(result):
    curve = GaussianShift(1.0)
    fine = np.linspace(0.0, 6.0, 60001)
    for delta in (0.03, 0.1, 0.2):
        level, exact = result.epsilon_at(delta), fine[np.argmax(curve.delta(fine) <= delta)]
        assert 0.6 * min(exact, 2.0) < level.lower <= exact
        assert level.found == BRACKETED
        assert level.lower < level.estimate_low <= level.estimate < level.upper
        assert level.estimate == pytest.approx(exact, abs=0.1)
    for delta, exact in ((0.0, math.inf), (1e-6, fine[np.argmax(curve.delta(fine) <= 1e-6)])):
        level = result.epsilon_at(delta)
        assert 0.6 * 2.0 < level.lower <= exact
        assert level.estimate is None
    assert result.epsilon_at(1e-6).found == UNRESOLVED
    assert result.epsilon_at(0.9).lower == 0.0
    with pytest.raises(StudyError, match=r"1.5 was given; accepted: a number from 0 to below 1"):
        result.epsilon_at(1.5)


def exact_counts(result, epsilons, n=10**9):
    """The result with the counts to expect of the exact sets of normals with μ = 1, forward, and nothing else."""
    epsilons = np.asarray(epsilons)
    a, b = ndtr(0.5 - epsilons), ndtr(-0.5 - epsilons)
    delta = a - np.exp(epsilons) * b
    exceed = np.zeros((1, 2, epsilons.size, 2), np.int64)
    exceed[0, 0] = np.rint(n * np.stack([a, b], axis=1))
    cells = np.stack([delta, np.zeros(epsilons.size)])[None]
    known = {name: np.zeros(cells.shape) for name in ("lower", "level", "training_delta")}
    known |= {"epsilon": epsilons, "exceed": exceed, "test": np.full(exceed.shape, n), "delta": cells}
    known |= {"spectrum_delta": delta, "spectrum_upper": delta, "spectrum_lower": np.zeros(epsilons.size)}
    return changed(result, **known, **{f"spectrum_{k}": np.zeros(epsilons.size, int) for k in ("pair", "direction")})


def test_between_two_epsilons_the_estimate_is_a_bracket(result):
    """Mathematics: μ = 1, ends 1 and 1.5, δ = 0.06: 1.4671 by the sets of both ends, 1.4683 exactly, 1.4813 by the chord."""
    ends = exact_counts(result, [1.0, 1.5])
    level = ends.epsilon_at(0.06)
    assert (level.estimate_low, level.estimate) == (pytest.approx(1.4671, abs=5e-5), pytest.approx(1.4813, abs=5e-5))
    assert "[1.4670, 1.4814]" in show_as(ends, "table", {"delta": [level.delta]})
    text = " ".join(show_as(ends, "table", {"delta": [level.delta]}).split())
    assert "Interpolation errs by at most its width; both ends are too low if the learned set misses part of δ." in text
    grid, fine = np.linspace(0.0, 4.0, 9), np.linspace(0.05, 3.9, 40)
    whole = exact_counts(result, grid)
    for exact, delta in zip(fine, GaussianShift(1.0).delta(fine), strict=True):
        found = whole.epsilon_at(float(delta))
        assert found.estimate_low - 1e-4 <= exact <= found.estimate + 1e-4
        assert found.estimate - found.estimate_low <= 0.5  # a step of the grid
    without = changed(whole)
    del without.arrays["exceed"]  # of ways without counts of sets, δ̂ alone
    by_delta = [level_at(arrays, whole.resolution, 0.06) for arrays in (whole.arrays, without.arrays | {"errors": ()})]
    assert 1.0 < by_delta[1].estimate_low < by_delta[0].estimate_low < by_delta[0].estimate == by_delta[1].estimate


def test_delta_0_alone_has_a_test_of_its_own(result):
    level, arrays = result.epsilon_at(0.0, alone=True), result.arrays
    exceed, test, share = (
        arrays[name][1].reshape(-1, *arrays[name][1].shape[3:]) for name in ("exceed", "test", "level")
    )
    exceed, test, share = (values[arrays["level"][1].ravel() > 0.0] for values in (exceed, test, share))
    limits = pure_lower(exceed[:, 0], test[:, 0], exceed[:, 1], test[:, 1], share)
    assert level.lower == limits.max()
    assert level.lower > 0.9 * result.epsilon_at(0.0).lower > 1.0
    assert result.epsilon_at(0.1, alone=True) == result.epsilon_at(0.1)


def test_nothing_is_known_yet():
    nothing = unmeasured(make_study("gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=7, epsilons=[0.0, 1.0]))
    level = nothing.epsilon_at(0.1)
    assert (level.estimate, level.found, level.lower, level.upper, level.pair) == (None, NO_ESTIMATE, 0.0, None, None)
    assert nothing.resolution.warnings == ()
    assert "INCOMPLETE" in show_as(nothing, "table", {"delta": [level.delta]})
