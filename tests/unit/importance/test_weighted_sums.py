"""Weighted draws: their sums, limits, split levels and rates, on the safe side of exact arithmetic."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from weighted_cells import cells, one_cell

from hpcdp.importance import sums as kernels
from hpcdp.importance.bounds import certify, leftover_draws, leftover_limit, lower_mean, split_level, spread, upper_mean
from hpcdp.importance.sums import count_leftover, sum_lower, sum_upper
from hpcdp.importance.training import choose_lower, choose_upper

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
            assert low_exact - low_loss <= int(lower[j]) <= low_exact
            assert up_exact <= int(upper[j]) <= up_exact + up_loss


def test_sums_are_on_the_safe_side_of_exact_ones() -> None:
    rng = np.random.default_rng(5)
    for _ in range(8):
        draws = random_draws(rng, 40)
        cutoffs = np.exp(rng.uniform(-3.0, 6.0, 7))
        given = cells(rng.integers(0, 6, 7), rng.choice([1e-9, 0.01, 0.5, 0.998], 7) / cutoffs, cutoffs)
        check_sums(draws, given, sum_upper(*draws, given), sum_lower(*draws, given))


@pytest.mark.slow
def test_each_draw_near_the_cut_off_counts_below_it_or_beyond_it() -> None:
    """Where float errors decide, a draw is in the upper mean, or in the leftover, or in both; never in neither."""
    for cutoff in (1e-12, 0.3, 1.0, 5.0, 77.7):
        center = math.log(cutoff)
        logs = center + np.arange(-4000, 4001) * np.spacing(abs(center) + 1e-3)
        for error in (0.0, 1e-15, 1e-9):
            given = cells([0], [0.5 / cutoff], [cutoff])
            for k in range(0, logs.size, 37):
                draw = logs[k : k + 1], np.array([error]), np.array([0])
                below = sum_upper(*draw, given)[0] > 0
                beyond = count_leftover(*draw, given)[0][0] > 0
                with localcontext() as context:
                    context.prec = 60
                    small, large = exact_range(logs[k], error)
                    assert below or small > Decimal(cutoff)
                    assert beyond or large <= Decimal(cutoff)
                    assert sum_lower(*draw, given)[0] == 0 or large <= Decimal(cutoff)
                assert below or beyond


def test_sums_do_not_depend_on_cuts_and_order() -> None:
    rng = np.random.default_rng(8)
    n = 5000
    draws = random_draws(rng, n)
    given = cells(rng.permutation(42) % 6, rng.uniform(0.1, 0.9, 42) / 50.0, np.full(42, 50.0))
    for add in (sum_lower, sum_upper):
        whole = add(*draws, given)
        for _ in range(5):
            cuts = np.sort(np.append(rng.integers(0, n, 30), [0, 0, 512, 1024, n]))  # empty chunks too
            parts = [
                add(*(values[a:b] for values in draws), given)
                for a, b in zip(np.append(0, cuts), np.append(cuts, n), strict=True)
            ]
            assert (np.sum(parts, axis=0) == whole).all()
            order = rng.permutation(n)
            assert (add(*(values[order] for values in draws), given) == whole).all()
    hits, union = count_leftover(*draws, given)
    halves = [count_leftover(*(values[part] for values in draws), given) for part in (slice(0, 99), slice(99, n))]
    assert (hits == halves[0][0] + halves[1][0]).all()
    assert union == halves[0][1] + halves[1][1]


def test_cells_are_the_nested_sets_that_they_say() -> None:
    """Against one mask a cell, each draw within a unit; classes of one byte, classes beyond all cells."""
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
        np.testing.assert_allclose(lower[j] / SCALE, np.log1p(given.rates[j] * weights[kept]).sum(), atol=3000 / SCALE)
        np.testing.assert_allclose(
            upper[j] / SCALE, -np.log1p(-given.rates[j] * weights[kept]).sum(), atol=3000 / SCALE
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
        largest = int(add(*first, given)[0])
        assert 6.9 * SCALE < largest < 8 * SCALE
        found = add(*draws, given)
        assert found[0] == n * largest


def test_sums_of_nothing_and_of_what_is_not_known() -> None:
    none, draws = (np.zeros(0),) * 3, (np.zeros(3), np.zeros(3), np.ones(3, int))
    assert sum_upper(*none, one_cell(0.5, 1.0)).tolist() == [0]
    assert count_leftover(*none, one_cell(0.5, 1.0))[1] == 0
    draws, given = (np.zeros(2), np.array([np.inf, np.inf]), np.ones(2, int)), one_cell(0.5, 1.0)
    assert sum_lower(*draws, given)[0] == 0
    assert sum_upper(*draws, given)[0] >= 2 * math.log(2.0) * SCALE
    assert count_leftover(*draws, given)[1] == 2


# --- the limits, against 60 digits


def test_limits_are_rounded_to_the_safe_side() -> None:
    rng = np.random.default_rng(10)
    with localcontext() as context:
        context.prec = 60
        for _ in range(2000):
            n = int(10.0 ** rng.uniform(0.0, 15.0))
            total = int(n * SCALE * min(7.9, 10.0 ** rng.uniform(-8.0, 0.9)))
            level, cutoff = float(10.0 ** rng.uniform(-12.0, -0.01)), float(10.0 ** rng.uniform(-9.0, 3.0))
            rate = float(rng.choice([1e-6, 0.1, 0.9]) / cutoff)
            logs, cost, big = Decimal(total) / SCALE, -Decimal(level).ln(), Decimal(rate)
            lower = (((logs - cost) / n).exp() - 1) / big
            found = Decimal(float(lower_mean(total, rate, n, level)))
            # The logarithms' difference is rounded by 2^-48 of their sum; its exponential has a slope of at most e^8.
            assert found <= max(lower, 0)
            assert found >= 1 or found >= lower - abs(lower) * Decimal(2) ** -47 - (
                Decimal(2) ** -46 * (logs + cost) / n * (lower * big + 1) / big
            )
            upper = (1 - ((-logs - cost) / n).exp()) / big
            found = Decimal(float(upper_mean(total, rate, cutoff, n, level)))
            assert found >= min(upper, Decimal(cutoff), 1)
            assert found <= upper * (1 + Decimal(2) ** -46)


def test_a_lower_limit_just_above_0_is_rounded_down() -> None:
    """Where the sum hardly exceeds ln(1/level), most of it cancels."""
    rng = np.random.default_rng(14)
    with localcontext() as context:
        context.prec = 60
        for _ in range(2000):
            n, level = int(10.0 ** rng.uniform(1.0, 12.0)), float(10.0 ** rng.uniform(-12.0, -0.01))
            cost = -Decimal(level).ln()
            total = int(cost * SCALE * (1 + Decimal(float(10.0 ** rng.uniform(-13.0, -9.0))))) + 1
            exact = ((Decimal(total) / SCALE - cost) / n).exp() - 1
            assert 0 <= Decimal(float(lower_mean(total, 1.0, n, level))) <= exact


def test_limits_at_their_ends() -> None:
    assert lower_mean(0, 1e-9, 10, 0.05) == 0.0
    assert lower_mean([10**40], 1e-3, 2**53, 0.05)[0] == 1.0
    assert upper_mean([10**40], 0.5, 1.0, 10, 0.05)[0] == 1.0
    assert lower_mean(10**40, 1e-307, 10, 0.05) == upper_mean(10**20, 1e-307, 2.0, 10, 0.05) == 1.0
    assert lower_mean((), np.zeros(0), 10, 0.05).shape == (0,)
    assert upper_mean(10 * SCALE, 0.5 / 0.2, 0.2, 1, 0.05) == 0.2
    np.testing.assert_allclose(upper_mean(0, 0.5, 1.0, 1000, 0.05), -2.0 * np.expm1(np.log(0.05) / 1000), rtol=1e-12)
    assert lower_mean(np.zeros((3, 1), np.int64), np.ones(4), 7, 0.1).shape == (3, 4)


def test_certified_is_rounded_down() -> None:
    rng = np.random.default_rng(11)
    p, q, r = rng.random((3, 500)) ** np.array([[1.0], [6.0], [9.0]])
    epsilon = rng.uniform(-1.0, 6.0, 500)
    found = certify(p, q, r, epsilon)
    assert ((found.lower >= 0.0) & (found.lower <= found.within) & (found.within <= p)).all()
    with localcontext() as context:
        context.prec = 60
        for i in range(500):
            c = Decimal(float(epsilon[i])).exp()
            within = Decimal(float(p[i])) - c * Decimal(float(q[i]))
            lower = within - c * Decimal(float(r[i]))
            slack = Decimal(2) ** -46 * (1 + c)
            assert max(within, 0) - slack <= Decimal(float(found.within[i])) <= max(within, 0)
            assert max(lower, 0) - slack <= Decimal(float(found.lower[i])) <= max(lower, 0)
    assert certify(1.0, 0.0, 0.0, 200.0).lower <= 1.0


def test_split_sums_to_no_more_than_the_level() -> None:
    for level in (0.5, 0.05, 0.05 / 42, 1e-12):
        split = split_level(level)
        with localcontext() as context:
            context.prec = 60
            assert (
                Decimal(level) * (1 - Decimal(2) ** -47)
                <= sum(Decimal(float(part)) for part in split)
                <= Decimal(level)
            )


def test_leftover_draws_are_enough_and_hardly_more() -> None:
    for share in (0.3, 1e-3, 1e-9):
        for epsilon in (0.0, 1.0, 5.0):
            for level in (0.5, 0.045, 1e-6):
                draws = leftover_draws(share, epsilon, level)
                assert math.exp(epsilon) * leftover_limit(0, draws, level) <= share
                fewer = math.floor(draws * (1.0 - 1e-13)) - 1
                assert fewer < 1 or math.exp(epsilon) * leftover_limit(0, fewer, level) > share
    assert leftover_draws(2.0, 0.5, 0.05) == 1
    for bad in ((0.0, 0.0, 0.1), (1.0, 1000.0, 0.1), (0.1, 0.0, 1.0)):
        with pytest.raises(ValueError, match="accepted"):
            leftover_draws(*bad)


def test_the_spread_of_strata_is_the_variance_of_their_sum() -> None:
    """Exactly, over all outcomes of strata of 1, 2 and 3 draws; a stratum of one counts E w² for its variance."""
    laws = [(np.array([0.0, 3.0]), 1), (np.array([1.0, 1.5]), 2), (np.array([0.0, 4.0]), 3)]  # each value as likely
    told = []
    for drawn in itertools.product(*(itertools.product(values, repeat=size) for values, size in laws)):
        sums, squares = (np.array([[float(np.sum(np.power(own, k)))] for own in drawn]) for k in (1, 2))
        told.append(float(spread(sums, squares, [size for _, size in laws])[0]))
    exact = [size * float(values.var()) for values, size in laws]
    assert np.mean(told) == pytest.approx(exact[1] + exact[2] + float((laws[0][0] ** 2).mean()), rel=1e-12)


# --- the choice of rates


def test_choice_without_weights() -> None:
    for weights in (np.zeros(0), np.zeros(3)):
        lower, upper = (
            choose(weights, np.full(weights.size, 0.1), 1000, 0.05, 4.0) for choose in (choose_lower, choose_upper)
        )
        assert lower == (0.25, 0.0)
        assert upper.rate == 0.125
        np.testing.assert_allclose(upper.bound, upper_mean(0, 0.125, 4.0, 1000, 0.05), rtol=1e-12)
    every = np.ones(5)  # all draws in S with one weight: any larger rate is better, up to the largest
    assert choose_lower(every, every / 5.0, 1000, 0.05, 1.0).rate <= 2.0**11
