"""Limits of weighted draws, how levels are split, and the choice of rates: against exact arithmetic."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from weighted_cells import one_cell

from hpcdp.notions.stakes import choose_lower, choose_upper, expected_lower, expected_upper
from hpcdp.notions.weighted import (
    certify,
    leftover_draws,
    leftover_limit,
    lower_mean,
    split_level,
    upper_mean,
)
from hpcdp.notions.weighted_sums import (
    add_sums,
    estimate_mean,
    spread,
    sum_lower,
)

SCALE = 2**40


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
    for bad in ((-1, 1.0, 5, 0.1), (0.5, 1.0, 5, 0.1), (1, 0.0, 5, 0.1), (1, 1.0, 0, 0.1), (1, 1.0, 5, 1.0)):
        with pytest.raises(ValueError, match="accepted"):
            lower_mean(*bad)
    with pytest.raises(ValueError, match=r"0\.999"):
        upper_mean(1, 1.0, 1.0, 5, 0.1)


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
    for bad in ((np.nan, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1000.0), (1.0, 0.0, 0.0, np.nan), (1.1, 0.0, 0.0, 0.0)):
        with pytest.raises(ValueError, match="accepted"):
            certify(*bad)


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


@pytest.mark.parametrize("level", [0.05, 0.05 / 42])
@pytest.mark.parametrize("ratio", [3.0, 10.0, 100.0])
def test_split_is_near_the_best_where_the_leftover_takes_most_draws(level, ratio) -> None:
    """Draws go with ln(1/level); ratio: those of the leftover over those of the means, all at the whole level."""

    def draws(mean, rest):
        return ratio * -math.log(rest) - math.log(mean)

    split = split_level(level)
    best = min(draws(level * s, level * (1.0 - 2.0 * s)) for s in np.linspace(0.0005, 0.4995, 1000))
    assert draws(split.p, split.leftover) <= 1.025 * best  # as docs/mathematics-draws.md says


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


def test_estimate_and_its_error() -> None:
    weights = np.array([0.0, 0.5, 0.25, 2.0, 3.0])
    with np.errstate(divide="ignore"):
        chunks = [sum_lower(np.log(weights), np.zeros(5), np.array([1, 1, 1, 1, 0]), one_cell(1.0, 1.0))] * 2
    seen = np.where(np.arange(5) < 4, weights, 0.0)
    mean, error = estimate_mean(add_sums(chunks))
    np.testing.assert_allclose([mean[0], error[0]], [seen.mean(), seen.std(ddof=1) / math.sqrt(10)], rtol=1e-14)


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


def largest(bound, low, high):
    """The largest value of a function of a rate between two rates, sought in its logarithm."""
    ends = math.log(low), math.log(high)
    return -minimize_scalar(lambda x: -bound(math.exp(x)), ends, ends, method="bounded").fun


@pytest.mark.parametrize("draws, level", [(50, 0.05), (2000, 0.0025), (2**20, 0.05 / 42), (2**40, 0.05)])
def test_chosen_rates_are_the_best(draws, level) -> None:
    """The bound is flat where it is best: a hundredth of an octave costs at most 1e-4 of its distance to the mean."""
    rng = np.random.default_rng(12)
    for weights in (rng.lognormal(-2.0, 1.5, 300), np.full(40, 0.3), np.append(np.zeros(30), 1e-9 * rng.random(70))):
        top, cutoff = weights.max(), 1.2 * weights.max()
        given = weights, np.full(weights.size, 0.4 / weights.size), draws, level, cutoff
        mean = float(given[0] @ given[1])
        bet = choose_lower(*given)
        assert bet.bound == expected_lower(bet.rate, *given)
        best = largest(partial(at_rate, expected_lower, given, 1.0), 1e-12 / top, 2000.0 / top)
        assert bet.bound >= best - 1e-4 * (mean - best)
        bet = choose_upper(*given)
        assert bet.bound == expected_upper(bet.rate, *given)
        best = -largest(partial(at_rate, expected_upper, given, -1.0), 1e-12 / cutoff, 0.998 / cutoff)
        assert bet.rate * cutoff <= 0.999
        assert bet.bound <= best + 1e-4 * (best - mean)


def at_rate(expected, given, sign, rate):
    return sign * expected(rate, *given)


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
    for bad in ((every, every, 10, 0.1, 1.0), (every, -every, 10, 0.1, 1.0), (every, every / 5, 10, 0.1, 0.5)):
        with pytest.raises(ValueError, match="accepted"):
            choose_lower(*bad)
