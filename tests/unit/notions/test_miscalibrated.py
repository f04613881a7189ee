"""An L̂ of poor calibration: nothing that is printed is below what is certified beside it, and limits hold for all learned sets.

Gaussian noise, means 0 and 1; L̂ = 5 for x < 0, else 0.5. The sets of ε = 0, 1, 4 are everything, {x < 0} and {x < 0}: at
ε = 0 its own set holds nothing, that of ε = 1 holds 0.34. Counts are those to expect, so that truths are exact.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
from results import changed, measured
from scipy.special import ndtr
from scipy.stats import binom

from hpcdp.notions.resolution import largest_upper
from hpcdp.notions.spectrum import lower_bounds, make_cells, maximum
from hpcdp.report.notions import show_as
from hpcdp.report.notions import text as table_of

LEVELS = np.array([0.0, 1.0, 4.0])
N = 20_000
A, B = 0.5, float(ndtr(-1.0))  # of {x < 0}, under D and D′


def counted(exceed, pairs=1, seed=1, epsilons=LEVELS):
    """A result with these counts, shape (pairs, 2, 3, 2), of N outputs per database, its bounds made from them."""
    given = [([0.0], [1.0 + pair]) for pair in range(pairs)]
    blank = measured("gaussian", {"sigma": 1.0}, given, seed=seed, train=64, test=64, epsilons=epsilons.tolist())
    test = np.full_like(exceed, N)
    level = np.full(exceed.shape[:3], 0.05 / exceed[..., 0].size)  # all cells have as much, whatever training saw
    cells = make_cells(exceed, test, None, epsilons, level, 0.95, lower_bounds)
    largest = {f"spectrum_{name}": value for name, value in asdict(maximum(cells)).items()}
    return changed(blank, level=level, **asdict(cells), **largest)


def shifted_counts():
    exceed = np.zeros((1, 2, 3, 2), np.int64)
    exceed[0, 0] = [[N, N], *[[round(A * N), round(B * N)]] * 2]
    return exceed


@pytest.fixture(scope="module", name="shifted")
def shifted_fixture():
    return counted(shifted_counts())


def never_below_what_is_certified(result):
    for row in result.spectrum():
        shown = [row["delta"], row["upper"]] if row["resolved"] else [row["limit"]]
        assert min(shown) >= row["lower"], row
    for cell in result.cells():
        assert not cell["resolved"] or cell["delta"] >= cell["lower"], cell


def test_certified_and_resolved_are_families_apart_and_limits_speak_of_all_sets(shifted):
    never_below_what_is_certified(shifted)
    rows = shifted.spectrum()
    # the own set of ε = 0 tells nothing, and the order ends there
    assert [row["resolved"] for row in rows] == [False, False, False]
    assert 0.5 * (A - math.e * B) < rows[1]["lower"] < A - math.e * B
    assert 0.30 < rows[0]["lower"] < A - B  # of the set learned for ε = 1
    assert rows[1]["delta"] == pytest.approx(A - math.e * B, abs=1e-4)
    assert A - B < rows[0]["limit"] < A - B + 0.02
    text = " ".join(table_of(shifted).split())
    assert "no set of outputs that was learned for any ε of the study shows x or more" in text
    assert "at ε = 0 a better L̂, for another set certifies more than δ̂" in text


def test_the_limit_of_all_sets_covers_the_largest():
    rng = np.random.default_rng(3)
    n, own, every = np.full((2, 2), N), 0, 0
    for x0, x1 in zip(rng.binomial(N, A, 300), rng.binomial(N, B, 300), strict=True):
        x = np.array([[N, N], [x0, x1]])
        every += largest_upper(x, n, np.array([1.0]), 0.95)[0] < A - B
        own += largest_upper(x[:1], n[:1], np.ones(1), 0.95)[0] < A - B
    assert every <= binom.ppf(1 - 1e-4, 300, 0.05)
    assert own == 300


@pytest.mark.parametrize("delta", [0.0, 0.001, 0.05, 0.06, 0.2, 0.3])
def test_no_epsilon_is_below_the_certified_one(shifted, delta):
    for result in (shifted, changed(shifted, epsilon=np.array([0.2, 1.0, 4.0]))):
        level = result.epsilon_at(delta)
        assert level.lower > 0.0
        assert all(v >= level.lower for v in (level.estimate, level.upper) if v is not None)
        assert level.found != "below the grid" or level.reach >= level.lower
        assert "are at least what is certified" in show_as(result, "table", {"delta": [level.delta]})
