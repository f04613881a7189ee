"""Trade-off curves of several outputs together, against brute force and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pairs_of_laws import DIRECTIONS, LEVELS, PAIRS, SIZES, P, Q, every_pair

from hpcdp.analytic import Discrete, GaussianShift
from hpcdp.notions.curve import TradeOffCurve


def product(*pairs):
    """The laws of independent outputs, by brute force."""
    laws = [np.ones(1), np.ones(1)]
    for pair in pairs:
        laws = [np.outer(law, part).ravel() for law, part in zip(laws, pair, strict=True)]
    return Discrete(*(law / law.sum() for law in laws))


@pytest.mark.parametrize("first, second", list(itertools.combinations_with_replacement(PAIRS, 2)))
def test_tensor_of_discrete_pairs_is_exact(first, second):
    both = TradeOffCurve.from_discrete(*PAIRS[first]).tensor(TradeOffCurve.from_discrete(*PAIRS[second]))
    truth = product(PAIRS[first], PAIRS[second])
    np.testing.assert_allclose(both(SIZES), truth.tradeoff(SIZES), atol=2e-15)
    for direction in DIRECTIONS:
        np.testing.assert_allclose(both.delta(LEVELS, direction), truth.delta(LEVELS, direction), atol=2e-15)


@every_pair
def test_power_of_discrete_pairs_is_exact(p, q):
    curve = TradeOffCurve.from_discrete(p, q)
    for count in (1, 2, 5):
        np.testing.assert_allclose(curve.power(count)(SIZES), product(*[(p, q)] * count).tradeoff(SIZES), atol=1e-14)


def test_power_of_randomised_response_is_binomial():
    from scipy.stats import binom

    curve = TradeOffCurve.from_discrete([0.6, 0.4], [0.4, 0.6])
    for count, exact in ((40, True), (2000, False)):
        ones = np.arange(count + 1)
        truth = Discrete(*(law / law.sum() for law in (binom.pmf(ones, count, 0.4), binom.pmf(ones, count, 0.6))))
        whole = curve.power(count)
        assert (whole.alpha.size <= count + 2) == exact
        np.testing.assert_allclose(whole(SIZES), truth.tradeoff(SIZES), atol=1e-11)
        assert whole.is_symmetric(1e-11)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
def test_tensor_of_gaussians(tolerance):
    # 1e-6 is beyond the number of exact products, 1e-4 is not
    parts = [TradeOffCurve.from_curve(GaussianShift(mu), tolerance) for mu in (0.6, 0.8)]
    over = parts[0].tensor(parts[1])(SIZES) - GaussianShift(1.0).tradeoff(SIZES)
    assert over.max() <= 2 * tolerance
    assert over.min() >= -1e-10


@pytest.mark.parametrize("mu, count, within", [(1.0, 2, 3e-6), (0.1, 100, 3e-6), (0.02, 2500, 3e-6)])
def test_power_of_gaussians_from_below(mu, count, within):
    # lines of the exact spectrum are below T, and so is every power of them
    levels = np.linspace(0.0, 8.0 * mu + 0.5 * mu**2, 4001)
    below = TradeOffCurve.from_delta(levels, GaussianShift(mu).delta(levels)).power(count)
    under = GaussianShift(mu * count**0.5).tradeoff(SIZES) - below(SIZES)
    assert under.min() >= -1e-12
    assert under.max() <= within
    # polygons through points of T are above it, by no more than they say, and the grid takes them below again
    above = TradeOffCurve.from_curve(GaussianShift(mu), 1e-8).power(count)
    over = above(SIZES) - GaussianShift(mu * count**0.5).tradeoff(SIZES)
    assert over.max() <= count * 1e-8
    assert over.min() >= -within


def test_a_power_on_the_grid_is_on_or_below_the_exact_one():
    p, q = np.array([0.45, 0.25, 0.2, 0.1, 0.0]), np.array([0.1, 0.2, 0.3, 0.35, 0.05])
    curve = TradeOffCurve.from_discrete(p, q)
    truth = product(*[(p, q)] * 7).tradeoff(SIZES)
    np.testing.assert_allclose(curve.power(7)(SIZES), truth, atol=1e-14)
    np.testing.assert_allclose(curve.power(3).tensor(curve.power(4))(SIZES), truth, atol=1e-14)
    # twelve losses of five kinds have 1820 sums, more than a power takes exactly; two halves are 210 by 210 outcomes
    grid, exact = curve.power(12), curve.power(6).tensor(curve.power(6))
    assert exact.alpha.size < 2000 < grid.alpha.size
    for under in (
        exact(SIZES) - grid(SIZES),
        *(grid.delta(LEVELS, direction) - exact.delta(LEVELS, direction) for direction in DIRECTIONS),
    ):
        assert under.min() >= -1e-12
        assert under.max() <= 1e-6
    both = grid.tensor(exact)  # on a grid as well
    np.testing.assert_allclose(both(SIZES), exact.power(2)(SIZES), atol=1e-6)


def test_what_only_one_law_can_give_adds_up():
    # the mass of infinite loss of n outputs, and a curve that reaches 0
    p, q = [0.9, 0.1, 0.0], [0.0, 0.998, 0.002]
    for curve, count in ((TradeOffCurve.from_discrete(p, q), 200), (TradeOffCurve.from_discrete(P, Q), 500)):
        shared = 1.0 - curve.delta(np.inf), 1.0 - curve.delta(np.inf, "reverse")
        whole = curve.power(count)
        assert whole.delta(np.inf) == pytest.approx(1.0 - shared[0] ** count, abs=1e-12)
        assert whole.delta(np.inf, "reverse") == pytest.approx(1.0 - shared[1] ** count, abs=1e-12)
    equal = TradeOffCurve.from_discrete([0.5, 0.5], [0.5, 0.5])
    assert equal.power(10**6)(0.25) == pytest.approx(0.75, abs=1e-15)
