"""Sums of weighted draws: on the safe side of exact arithmetic, whatever the cuts and the order."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from weighted_cells import cells, one_cell

from hpcdp.notions import _weighted_kernels as kernels
from hpcdp.notions.weighted_sums import (
    Sums,
    add_sums,
    count_leftover,
    sum_lower,
    sum_upper,
)

SCALE = 2**40


def random_draws(rng, n):
    """Weights from e^−30 to e^8, some of them 0 or unknown, with errors from none to e^0.1; classes 0 to 4."""
    logs = rng.uniform(-30.0, 8.0, n)
    errors = np.where(rng.random(n) < 0.3, 0.0, 10.0 ** rng.uniform(-17.0, -1.0, n))
    logs[rng.random(n) < 0.1] = -np.inf
    errors[rng.random(n) < 0.05] = np.inf
    return logs, errors, rng.integers(0, 5, n)


def exact_range(log_weight, error):
    """The least and the largest weight, in the digits of the context; infinity where nothing is known."""
    if error == np.inf:
        return Decimal(0), Decimal("inf")
    if log_weight == -np.inf:
        return Decimal(0), Decimal(0)
    center, off = Decimal(float(log_weight)), Decimal(float(error))
    return (center - off).exp(), (center + off).exp()


SLACK = Decimal(2) ** -41
"""Relative: what the kernels' interval is wider than the exact one at each end, 2^-43 with some rounding, is far below."""


def check_sums(draws, given, upper, lower):
    """Sums of `given` cells are on the safe side of exact ones, and no further away than each draw's rounding explains."""
    with localcontext() as context:
        context.prec = 60
        for j, (least, rate, cutoff) in enumerate(zip(given.least, given.rates, given.cutoffs, strict=True)):
            rate, cutoff = Decimal(float(rate)), Decimal(float(cutoff))
            low_exact = low_loss = up_exact = up_loss = Decimal(0)
            for log_weight, error, number in zip(*draws, strict=True):
                if number < least:
                    continue
                small, large = exact_range(log_weight, error)
                # The least and the largest that exact arithmetic would add; a doubt within SLACK at the cut-off goes either way.
                gain = (1 + min(rate * small, Decimal("2979.9"))).ln() * SCALE
                low_exact += gain if large <= cutoff else 0
                if large <= cutoff:
                    low_loss += 1 + gain * SLACK + (gain if large * (1 + SLACK) > cutoff else 0)
                stake = rate * min(large, cutoff)
                loss = -(1 - stake).ln() * SCALE
                up_exact += loss if small <= cutoff else 0
                if small * (1 - SLACK) <= cutoff:
                    up_loss += 1 + (loss + SCALE * stake / (1 - stake)) * SLACK + (loss if small > cutoff else 0)
            assert low_exact - low_loss <= int(lower.logs[j]) <= low_exact
            assert up_exact <= int(upper.logs[j]) <= up_exact + up_loss


def test_sums_are_on_the_safe_side_of_exact_ones() -> None:
    rng = np.random.default_rng(5)
    for _ in range(8):
        draws = random_draws(rng, 40)
        cutoffs = np.exp(rng.uniform(-3.0, 6.0, 7))
        given = cells(rng.integers(0, 6, 7), rng.choice([1e-9, 0.01, 0.5, 0.998], 7) / cutoffs, cutoffs)
        check_sums(draws, given, sum_upper(*draws, given), sum_lower(*draws, given))


def test_the_check_of_sums_sees_the_other_rounding() -> None:
    """The planted fault: P rounded up, Q rounded down, which one unit shows."""
    rng = np.random.default_rng(6)
    draws = random_draws(rng, 60)
    draws[1][:] = 0.0
    given = cells([0, 2], [0.004, 0.003], [200.0, 300.0])
    upper, lower = sum_upper(*draws, given), sum_lower(*draws, given)
    with pytest.raises(AssertionError):
        check_sums(draws, given, upper, lower._replace(logs=lower.logs + 60))
    with pytest.raises(AssertionError):
        check_sums(draws, given, upper._replace(logs=upper.logs - 60), lower)


def test_each_draw_near_the_cut_off_counts_below_it_or_beyond_it() -> None:
    """Where float errors decide, a draw is in the upper mean, or in the leftover, or in both; never in neither."""
    for cutoff in (1e-12, 0.3, 1.0, 5.0, 77.7):
        center = math.log(cutoff)
        logs = center + np.arange(-4000, 4001) * np.spacing(abs(center) + 1e-3)
        for error in (0.0, 1e-15, 1e-9):
            given = cells([0], [0.5 / cutoff], [cutoff])
            for k in range(0, logs.size, 37):
                draw = logs[k : k + 1], np.array([error]), np.array([0])
                below = sum_upper(*draw, given).logs[0] > 0
                beyond = count_leftover(*draw, given)[0][0] > 0
                with localcontext() as context:
                    context.prec = 60
                    small, large = exact_range(logs[k], error)
                    assert below or small > Decimal(cutoff)
                    assert beyond or large <= Decimal(cutoff)
                    assert sum_lower(*draw, given).logs[0] == 0 or large <= Decimal(cutoff)
                assert below or beyond


def test_own_logarithm_and_exponential_are_as_near_as_the_kernels_assume() -> None:
    rng = np.random.default_rng(7)
    signed = np.append(10.0 ** rng.uniform(-18.0, 3.4, 2000), -(10.0 ** rng.uniform(-18.0, math.log10(0.9991), 2000)))
    with localcontext() as context:
        context.prec = 60
        for x in signed:
            assert abs(Decimal(float(kernels._log1p(x))) / (1 + Decimal(float(x))).ln() - 1) < Decimal(2) ** -50
        for x in rng.uniform(-700.0, 700.0, 2000):
            assert abs(Decimal(float(kernels._exp(x))) / Decimal(float(x)).exp() - 1) < Decimal(2) ** -51


def test_one_logarithm_is_rounded_to_its_side() -> None:
    """Of a weight that is known exactly, and of a cut-off that stands for a larger one: within two units."""
    rng = np.random.default_rng(13)
    with localcontext() as context:
        context.prec = 60
        for _ in range(5000):
            weight, gain, stake = rng.uniform(0.1, 1.0), 10.0 ** rng.uniform(-6.0, 3.4), rng.uniform(0.99, 0.998)
            exact = (1 + Decimal(gain) * Decimal(weight)).ln() * SCALE
            assert exact - 2 <= int(kernels._lower_units(weight, weight, gain, np.inf)) <= exact
            rate = stake / weight
            exact = -(1 - Decimal(rate) * Decimal(weight)).ln() * SCALE
            assert exact <= int(kernels._upper_units(0.0, np.inf, rate, weight)) <= exact + 2


def test_sums_do_not_depend_on_cuts_and_order() -> None:
    rng = np.random.default_rng(8)
    n = 5000
    draws = random_draws(rng, n)
    given = cells(rng.permutation(42) % 6, rng.uniform(0.1, 0.9, 42) / 50.0, np.full(42, 50.0))
    for add in (sum_lower, sum_upper):
        whole = add_sums([add(*draws, given)])
        for _ in range(5):
            cuts = np.sort(np.append(rng.integers(0, n, 30), [0, 0, 512, 1024, n]))  # empty chunks too
            parts = [
                add(*(values[a:b] for values in draws), given)
                for a, b in zip(np.append(0, cuts), np.append(cuts, n), strict=True)
            ]
            back = add_sums(parts[::-1])
            assert add_sums(parts).logs == whole.logs == back.logs
            assert back.draws == n
            assert (back.weights == add_sums(parts).weights).all()
            np.testing.assert_allclose(back.weights, whole.weights, rtol=n * 2.3e-16)
            order = rng.permutation(n)
            assert add_sums([add(*(values[order] for values in draws), given)]).logs == whole.logs
    hits, union = count_leftover(*draws, given)
    halves = [count_leftover(*(values[part] for values in draws), given) for part in (slice(0, 99), slice(99, n))]
    assert (hits == halves[0][0] + halves[1][0]).all()
    assert union == halves[0][1] + halves[1][1]


def test_cells_are_the_nested_sets_that_they_say() -> None:
    """Against one mask a cell, each draw within a unit; classes of one byte, cells in any order, classes beyond all cells."""
    rng = np.random.default_rng(9)
    logs, errors, _ = random_draws(rng, 3000)
    errors[:] = 0.0
    classes = rng.integers(0, 250, 3000).astype(np.uint8)
    given = cells(rng.integers(0, 249, 42), rng.uniform(0.01, 0.9, 42) / 9.0, rng.uniform(1.0, 9.0, 42))
    lower, upper = sum_lower(logs, errors, classes, given), sum_upper(logs, errors, classes, given)
    hits, union = count_leftover(logs, errors, classes, given)
    weights, beyond = np.exp(logs), np.zeros(3000, bool)
    for j in range(42):
        inside = classes >= given.least[j]
        kept = inside & (weights <= given.cutoffs[j])
        np.testing.assert_allclose(lower.weights[j], weights[inside].sum(), rtol=1e-12)
        np.testing.assert_allclose(lower.squares[j], (weights[inside] ** 2).sum(), rtol=1e-12)
        np.testing.assert_allclose(
            lower.logs[j] / SCALE, np.log1p(given.rates[j] * weights[kept]).sum(), atol=3000 / SCALE
        )
        np.testing.assert_allclose(
            upper.logs[j] / SCALE, -np.log1p(-given.rates[j] * weights[kept]).sum(), atol=3000 / SCALE
        )
        beyond |= inside & ~kept
        assert hits[j] == (inside & ~kept).sum()
    assert union == beyond.sum()


def test_the_largest_chunk_does_not_overflow() -> None:
    n = kernels.LARGEST_CHUNK
    draws = np.full(n, 699.0), np.zeros(n), np.ones(n, np.uint8)
    first = tuple(values[:1] for values in draws)
    for add, given in ((sum_lower, one_cell(1e300, np.inf)), (sum_upper, one_cell(0.999, 1.0))):
        draws[0][:] = 699.0 if add is sum_lower else -1e-12
        largest = int(add(*first, given).logs[0])
        assert 6.9 * SCALE < largest < 8 * SCALE
        found = add(*draws, given)
        assert found.logs[0] == n * largest
        assert add_sums([found] * 3).logs == (3 * n * largest,)  # beyond int64
        with pytest.raises(ValueError, match="at most 1048576 draws"):
            add(np.append(draws[0], 0.0), np.append(draws[1], 0.0), np.append(draws[2], 1), given)


def test_no_draws_and_no_cells() -> None:
    none = np.zeros(0), np.zeros(0), np.zeros(0)
    assert sum_upper(*none, one_cell(0.5, 1.0)).logs.tolist() == [0]
    assert count_leftover(*none, one_cell(0.5, 1.0))[1] == 0
    draws = np.zeros(3), np.zeros(3), np.ones(3, int)
    assert sum_lower(*draws, cells([], [], [])).logs.shape == (0,)
    assert add_sums([sum_lower(*draws, cells([], [], []))]).logs == ()


def test_weights_of_which_nothing_is_known_stay_safe() -> None:
    draws = np.zeros(2), np.array([np.inf, np.inf]), np.ones(2, int)
    given = one_cell(0.5, 1.0)
    assert sum_lower(*draws, given).logs[0] == 0
    assert sum_upper(*draws, given).logs[0] >= 2 * math.log(2.0) * SCALE
    assert count_leftover(*draws, given)[1] == 2


def test_sums_refuse() -> None:
    fine = (np.zeros(2), np.zeros(2), np.zeros(2, int))
    for k, bad, word in (
        (0, [0.0, np.nan], "log_weights"),
        (0, [0.0, 701.0], "log_weights"),
        (0, [0.0], "shapes"),
        (1, [0.0, -1.0], "errors"),
        (1, [0.0, np.nan], "errors"),
        (2, [0, -1], "classes"),
        (2, [0.0, 1.0], "classes"),
    ):
        with pytest.raises(ValueError, match=word):
            sum_lower(*(bad if i == k else good for i, good in enumerate(fine)), one_cell(1.0, 1.0))
    with pytest.raises(ValueError, match=r"0\.999"):
        sum_upper(*fine, one_cell(1.0, 1.0))
    with pytest.raises(ValueError, match="cutoffs"):
        count_leftover(*fine, one_cell(1.0, np.inf))
    for arguments in (([-1], [1.0], [1.0]), ([0], [0.0], [1.0]), ([0], [1.0], [0.0]), ([0], [1.0, 1.0], [1.0])):
        with pytest.raises(ValueError, match="accepted"):
            cells(*arguments)
    with pytest.raises(ValueError, match="one or more"):
        add_sums([])


def test_sums_have_the_types_that_records_take() -> None:
    found = sum_upper(np.zeros(3), np.zeros(3), np.ones(3, int), one_cell(0.5, 1.5))
    assert isinstance(found, Sums)
    assert found.logs.dtype == np.int64
    assert found.weights.dtype == found.squares.dtype == np.float64
