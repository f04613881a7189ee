"""Exactness and tightness of the binomial bounds, against exact sums by NumPy and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, gammaln, ndtri

from hpcdp.notions import _joint_kernels as joint
from hpcdp.notions.bounds import (
    binomial_lower,
    binomial_upper,
    hoeffding_radius,
    joint_lower,
    normal_upper,
    split_lower,
    standard_error,
)

Floats = NDArray[np.float64]


def pmf(n: int, p: Floats) -> Floats:
    """Binomial probabilities of 0..n (last axis) for every p."""
    k = np.arange(n + 1.0)
    choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    p = np.asarray(p)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.where(k > 0, k * np.log(p), 0.0) + np.where(k < n, (n - k) * np.log1p(-p), 0.0)
    return np.exp(choose + log)


def exact_probability(a: Floats, n0: int, b: Floats, n1: int, x0: int, x1: int, c: float) -> Floats:
    """P(T >= t_obs), T = X0/n0 − c·X1/n1, summed over every x1: no blocks, no cut-offs; near-ties belong to the event."""
    k = x0 + np.ceil(c * n0 / n1 * (np.arange(n1 + 1.0) - x1) - 1e-9)
    inside = np.clip(k, 1, n0)
    at_least = betainc(inside, n0 - inside + 1.0, np.asarray(a)[..., None])
    at_least = np.where(k <= 0, 1.0, np.where(k > n0, 0.0, at_least))
    found: Floats = (pmf(n1, b) * at_least).sum(axis=-1)
    return found


def grid_bound(x0: int, n0: int, x1: int, n1: int, c: float, level: float, points: int) -> float:
    """The inverted test with the sup over b taken on a plain grid with both ends: what joint_lower must not exceed."""
    gamma = level / 20.0
    low, high = float(binomial_lower(x1, n1, gamma / 2)), float(binomial_upper(x1, n1, gamma / 2))
    rejected, kept = -c * high, 1.0 - c * low
    for _ in range(34):
        theta = 0.5 * (rejected + kept)
        left, right = max(low, -theta / c), min(high, (1.0 - theta) / c)
        if left < right:
            b = np.linspace(left, right, points)
            largest = exact_probability(np.clip(theta + c * b, 0.0, 1.0), n0, b, n1, x0, x1, c).max()
        else:
            largest = 0.0 if left >= high else 1.0
        if largest <= level - gamma:
            rejected = theta
        else:
            kept = theta
    return kept


# --- limits of one proportion


@pytest.mark.parametrize("n", [1, 7, 300, 2**18, 10**9, 10**11])
@pytest.mark.parametrize("level", [0.3, 0.05, 0.05 / 42, 1e-8])
def test_limits_fail_with_just_less_than_their_level(n: int, level: float) -> None:
    x = np.unique(np.array([1, 2, 5, 40, n // 1000, n // 20, n // 3, n // 2, n - n // 3, n - 20, n]).clip(1, n))
    lower, upper = binomial_lower(x, n, level), binomial_upper(n - x, n, level)
    at_lower = betainc(x, n - x + 1.0, lower) / level - 1.0
    at_upper = np.where(upper < 1.0, betaincc(n - x + 1.0, x, upper), 0.0) / level - 1.0
    assert (at_lower <= 1e-10).all()
    assert (at_upper <= 1e-10).all()
    # loose by the blocks of the sum (share 1/16 of a deviation: 1/16^2/24), and by one rounding of a number near 1
    assert (at_lower > -2e-4 - n * 2.3e-16).all()
    assert (at_upper > -2e-4 - x * 2.3e-16 / lower).all()


def test_limits_of_none_and_all() -> None:
    for n in (1, 20, 10**11):
        assert binomial_lower(0, n, 1e-3) == 0.0
        assert binomial_upper(n, n, 1e-3) == 1.0
        np.testing.assert_allclose(binomial_lower(n, n, 1e-3), 1e-3 ** (1.0 / n), rtol=1e-12)
        np.testing.assert_allclose(binomial_upper(0, n, 1e-3), -np.expm1(np.log(1e-3) / n), rtol=1e-12)


@pytest.mark.parametrize("start", [0, 90, 10**6, 25 * 10**9, 10**11 - 60])
def test_limits_grow_with_every_success(start: int) -> None:
    x = start + np.arange(60)
    assert (np.diff(binomial_lower(x, 10**11, 1e-5)) > 0.0).all()
    assert (np.diff(binomial_upper(x, 10**11, 1e-5)) > 0.0).all()


# --- the joint bound


def test_probability_is_an_upper_bound_and_close() -> None:
    """The compiled sum over blocks against the exact sum, where the target level lies; both choices of the outer side."""
    rng = np.random.default_rng(4)
    seen = {(swapped, wide): 0 for swapped in (False, True) for wide in (False, True)}
    for trial in range(400):
        # every other one large enough for blocks of several values
        n0, n1 = (int(n) for n in np.exp(rng.uniform(math.log(8000) if trial % 2 else 0.0, math.log(20_000), 2)))
        n1 = n0 if rng.random() < 0.5 else n1
        c = float(rng.choice([0.4, 1.0, 1.3, 2.0, math.e, 20.0]))
        x0, x1 = (int(rng.binomial(n, p)) for n, p in ((n0, rng.beta(0.5, 0.5)), (n1, rng.beta(0.3, 1.0))))
        low, high = float(binomial_lower(x1, n1, 1e-5)), float(binomial_upper(x1, n1, 1e-5))
        table, swapped = joint.cell_table(float(x0), float(n0), float(x1), float(n1), c, (low, high), 5.2)
        wide = bool((table.u_square > 0.0).any())
        spread = math.hypot(*(f * math.sqrt((x + 1) * (n - x + 1) / n) / n for f, x, n in ((1, x0, n0), (c, x1, n1))))
        theta = x0 / n0 - c * x1 / n1 - rng.uniform(0.0, 4.0) * spread
        b = rng.uniform(max(low, -theta / c), max(low, -theta / c, min(high, (1.0 - theta) / c)))
        a = theta + c * b
        if not (0.0 < a < 1.0 and 0.0 < b < 1.0):
            continue
        exact = float(exact_probability(np.array(a), n0, np.array(b), n1, x0, x1, c))
        found = math.exp(joint.log_probability(table, swapped, a, 1.0 - a, b, 1.0 - b, 5.2))
        assert found >= exact * (1.0 - 1e-9)
        if exact > 1e-4:
            assert found <= exact * 1.06 + 1e-5
            seen[swapped, wide] += 1
    assert min(seen.values()) > 5, seen


CELLS = [
    (122, 200, 47, 200, math.exp(0.5)),
    (30, 300, 2, 300, 7.0),
    (3, 50, 0, 50, math.e),
    (270, 300, 93, 300, 1.0),
    (60, 200, 60, 600, 1.3),
]
WIDE = [
    (388, 2468, 0, 217, 21.5, 0.05),
    (230, 740, 0, 134, 26.92237227877258, 0.05),
    (24, 116, 0, 116, 30.364538311245553, 0.05),
    (157, 278, 2, 119, 16.40655327624366, 0.05 / 42),
    (1081, 1865, 0, 237, 32.558564933032024, 0.05 / 18_564),
]
"""Cells whose search ended at a wide interval of b, 2.7 to 6.6 % of the margin below what the test rejects."""


@pytest.mark.few
@pytest.mark.parametrize("cell", [*((*c, level) for c in CELLS for level in (0.05, 0.05 / 42, 1e-6)), *WIDE])
def test_joint_bound_is_just_below_that_of_fine_grids(cell: tuple[float, ...]) -> None:
    """The sum may be loose by 0.02 in its logarithm and the search ends 0.015 below the target. The logarithm of a tail at
    z falls at least as fast as −z²/2, so that 0.035 is worth at most 0.035/z² of a normal margin; twice that here.
    """
    x0, n0, x1, n1, c, level = cell
    bound, fine = float(joint_lower(*cell)), grid_bound(*cell, points=160)  # type: ignore[arg-type]
    loose = 2.0 * 0.035 / ndtri(level) ** 2 if cell in WIDE else 0.015
    assert fine - loose * (x0 / n0 - c * x1 / n1 - fine) <= bound <= fine + 1e-9


@pytest.mark.parametrize("n0, n1", [(12, 12), (20, 20), (16, 13)])
@pytest.mark.parametrize("level", [0.3, 0.05, 0.005])
def test_coverage_by_full_enumeration(n0: int, n1: int, level: float) -> None:
    a = b = np.concatenate([np.linspace(0.0, 1.0, 33), [0.003, 0.01, 0.02, 0.98, 0.99, 0.997]])
    weight0, weight1 = pmf(n0, a), pmf(n1, b)
    x0, x1 = np.arange(n0 + 1)[:, None], np.arange(n1 + 1)[None, :]
    for c in (0.5, 1.0, math.exp(0.5), 7.3):
        theta = a[:, None] - c * b[None, :]
        worst = {}
        for bound in (joint_lower, split_lower):
            found = bound(x0, n0, x1, n1, c, level)
            fails = (found > theta[..., None, None] + 1e-12).astype(np.float64)
            failure = np.einsum("ix,jy,ijxy->ij", weight0, weight1, fails)
            worst[bound.__name__] = failure.max()
            assert failure.max() <= level * (1.0 + 1e-9)
        # the joint bound spends more of its level, which is what makes it tighter
        assert worst["joint_lower"] > worst["split_lower"]


@pytest.mark.slow
def test_extremes_are_finite_and_in_range() -> None:
    n = np.array([1, 2, 1000, 10**6, 10**11])[:, None, None, None]
    share0 = np.array([0.0, 1e-9, 0.3, 1.0])[:, None, None]
    share1 = np.array([0.0, 1e-10, 0.4, 1.0])[:, None]
    c = np.array([1e-200, 1e-3, 1.0, math.exp(5.0), 1e9, 1e100])
    x0, x1 = np.rint(share0 * n).astype(np.int64), np.rint(share1 * n).astype(np.int64)
    for level in (0.4, 1e-8):
        bound = joint_lower(x0, n, x1, n, c, level)
        estimate = x0 / n - c * x1 / n
        assert bound.shape == (5, 4, 4, 6)
        assert (bound >= -c * (1.0 + 1e-12)).all()
        assert (bound <= estimate + 1e-12 * (1.0 + c)).all()


def test_bounds_that_have_a_closed_form() -> None:
    c, level = math.exp(5.0), 1e-8
    for n in (10**3, 10**11):  # x0 = n, x1 = 0, large c: P(T >= t) = a^n (1 − b)^n, largest at a = 1
        expected = -c * math.expm1(math.log(0.95 * level) / n)
        assert expected <= 1.0 - joint_lower(n, n, 0, n, c, level) < 1.015 * expected
    one = np.tile(binomial_lower([3, 9], 20, 0.01), (2, 1))
    np.testing.assert_array_equal(joint_lower([3, 9], 20, [[4], [0]], 20, 0.0, 0.01), one)  # without inflation
    expected = binomial_lower(61, 100, 0.005) - 1.5 * binomial_upper(20, 100, 0.005)
    assert split_lower(61, 100, 20, 100, 1.5, 0.01) == expected


# --- the rest


def test_hoeffding_radius() -> None:
    np.testing.assert_allclose(hoeffding_radius([1000, 4000], 0.05), np.sqrt(np.log(80.0) / np.array([2000.0, 8000.0])))
    # every threshold at once: the largest gap of two empirical distribution functions, 2,000 repetitions
    rng = np.random.default_rng(2)
    n, gamma = 200, 0.2
    samples = np.sort(rng.random((2000, 2, n)), axis=-1)
    gap = np.maximum(np.arange(1, n + 1) / n - samples, samples - np.arange(n) / n).max(axis=(1, 2))
    failures = (gap > hoeffding_radius(n, gamma)).mean()
    assert 0.1 < failures <= gamma + 4.0 * math.sqrt(gamma * (1.0 - gamma) / 2000)


def test_standard_error_and_the_normal_limit_above_it() -> None:
    rng = np.random.default_rng(3)
    drawn = rng.binomial(500, 0.6, 40_000) / 500 - 3.0 * rng.binomial(2000, 0.1, 40_000) / 2000
    # a standard deviation of 40,000 draws errs by 0.35 %: five of these
    assert standard_error(300, 500, 200, 2000, 3.0) == pytest.approx(drawn.std(), rel=0.018)
    assert standard_error(0, 5, 5, 5, 2.0) == 0.0
    counts = (610, 1000, 240, 1000, 1.6)
    expected = 0.61 - 1.6 * 0.24 + ndtri(0.95) * standard_error(*counts)
    assert normal_upper(*counts, 0.95) == pytest.approx(expected, rel=1e-3)
    assert (normal_upper([0, 5], 1000, [0, 0], 1000, 1.6, 0.95) > [0.0, 0.005]).all()
    np.testing.assert_array_equal(normal_upper([1000, 0], 1000, [0, 1000], 1000, 2.0, 0.95), [1.0, 0.0])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: binomial_lower(3, 2, 0.1), r"successes, trials: \(3, 2\)"),
        (lambda: binomial_upper(-1, 2, 0.1), r"successes, trials: \(-1, 2\)"),
        (lambda: binomial_upper(0, 0, 0.1), "trials: 0"),
        (lambda: binomial_upper(1.5, 2, 0.1), "successes: 1.5"),
        (lambda: binomial_lower(1, 2, [0.1, 1.0]), "level: 1.0"),
        (lambda: joint_lower(1, 2, 3, 2, 1.0, 0.1), r"x1, n1: \(3, 2\)"),
        (lambda: joint_lower(1, 2, 1, 2, -0.5, 0.1), "inflation: -0.5"),
        (lambda: joint_lower(1, 2, 1, 2, math.nan, 0.1), "inflation: nan"),
        (lambda: split_lower(1, 2, 1, 2, math.inf, 0.1), "inflation: inf"),
        (lambda: split_lower(1, 2, 1, 2, 1.0, 0.0), "level: 0.0"),
        (lambda: hoeffding_radius(10, 2.0), "gamma: 2.0"),
        (lambda: normal_upper(1, 2, 1, 2, 1.0, 1.0), "confidence: 1.0"),
        (lambda: standard_error("1", 2, 1, 2, 1.0), "x0: 'str"),
    ],
)
def test_refusals_name_the_argument_and_the_value(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
