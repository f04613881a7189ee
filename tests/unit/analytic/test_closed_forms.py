"""Closed forms against reference numbers and independent derivations; which exact pair belongs to a mechanism."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from analytic_curves import CURVES
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
    exact,
    gaussian_mu,
    gaussian_sigma,
    register,
)


def test_calibrated_gaussian_noise():
    sigma = gaussian_sigma(1.0, 1e-5)
    assert sigma == pytest.approx(4.844805, abs=5.01e-7)
    assert GaussianShift(1.0 / sigma).delta(1.0) == pytest.approx(4.11e-8, abs=5.01e-11)


def test_dp_is_its_four_outcomes():
    epsilon0, delta0 = 0.9, 0.04
    likely = (1 - delta0) * math.exp(epsilon0) / (1 + math.exp(epsilon0))
    p = np.array([delta0, likely, 1 - delta0 - likely, 0.0])
    curve, pair = ApproximateDP(epsilon0, delta0), Discrete(p, p[::-1])
    grid, sizes = np.linspace(0, 2, 37), np.linspace(0, 1, 53)
    np.testing.assert_allclose(curve.delta(grid), pair.delta(grid), rtol=0, atol=1e-15)
    np.testing.assert_allclose(curve.tradeoff(sizes), pair.tradeoff(sizes), rtol=0, atol=1e-15)
    etas = [0.0, 0.2, 0.7, 1.0, 2.0, 3.0, np.inf]
    np.testing.assert_allclose(curve.point(etas), pair.point(etas), rtol=0, atol=1e-15)
    assert curve.delta(epsilon0) == delta0


def test_mu_of_a_delta():
    for epsilon, mu in itertools.product((0.0, 0.4, 3.0), (0.03, 0.7, 6.0)):
        delta = GaussianShift(mu).delta(epsilon)
        if delta > 1e-250:
            assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)
    # The exact calibration needs less noise than the classical one.
    assert gaussian_mu(1.0, [1e-5])[0] > 1.0 / gaussian_sigma(1.0, 1e-5)


def test_level_where_the_spectrum_turns_flat():
    # Beyond its level the spectrum stays at delta; the smallest level is meant, not any of them.
    assert ApproximateDP(0.6, 0.03).epsilon(0.03) == pytest.approx(0.6, rel=1e-12)
    assert ApproximateDP(0.6, 0.03).epsilon(0.02) == math.inf


def test_extreme_levels_stay_finite():
    levels = np.array([0.0, 1e-300, 1.0, 500.0, 800.0, 1e6, 1e300, np.inf])
    with np.errstate(all="raise", under="ignore"):
        for curve in [*CURVES.values(), LaplaceShift(1000.0), GaussianShift(60.0), ApproximateDP(1000.0)]:
            for direction in ("forward", "reverse"):
                values = curve.delta(levels, direction)
                assert np.isfinite(values).all()
                assert (np.diff(values) <= 0.0).all()
            assert np.isfinite(curve.tradeoff([0.0, 5e-324, 1e-300, 0.5, 1.0])).all()
            assert np.isfinite(curve.point([0.0, 5e-324, 1.0, 1e308, np.inf])).all()
    assert LaplaceShift(1000.0).delta(800.0) == pytest.approx(-math.expm1(-100.0))
    assert GaussianShift(60.0).delta(1800.0) == pytest.approx(0.5, abs=0.01)
    assert Discrete([1 - 1e-9, 1e-9], [1e-320, 1.0]).delta(720.0) > 0.5


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=7).filter(
        lambda weights: all(sum(column) > 0 for column in zip(*weights, strict=True))
    ),
    st.floats(0.0, 4.0),
)
@settings(max_examples=60)
def test_discrete_against_all_tests(weights, epsilon):
    first, second = (np.array(column, float) for column in zip(*weights, strict=True))
    p, q = first / first.sum(), second / second.sum()
    curve = Discrete(p, q)
    sets = np.array(list(itertools.product((False, True), repeat=p.size)))
    kept, power = sets @ p, sets @ q
    assert curve.delta(epsilon) == pytest.approx((kept - math.exp(epsilon) * power).max(), abs=1e-12)
    # No deterministic test is below the curve, and the curve's corners are deterministic tests.
    assert (1.0 - power >= curve.tradeoff(np.clip(kept, 0, 1)) - 1e-12).all()
    for alpha, beta in np.transpose(curve.point([0.0, 0.5, 1.0, 2.0, 1e9])):
        assert np.min(np.abs(kept - alpha) + np.abs(1.0 - power - beta)) < 1e-12
        assert beta == pytest.approx(curve.tradeoff(min(alpha, 1.0)), abs=1e-12)


def test_points_are_strict_at_atoms():
    curve = Discrete([0.5, 0.5], [0.25, 0.75])
    alpha, beta = curve.point([0.49, 0.5, 1.49, 1.5])
    np.testing.assert_array_equal(alpha, [1.0, 0.5, 0.5, 0.0])
    np.testing.assert_array_equal(beta, [0.0, 0.25, 0.25, 1.0])
    shift = LaplaceShift(0.7)
    low, high = np.exp(-0.7), np.exp(0.7)
    alpha, beta = shift.point([np.nextafter(low, 0), low, np.nextafter(high, 0), high])
    np.testing.assert_allclose(alpha, [1.0, 0.5, 0.5 * low, 0.0], rtol=1e-15)
    np.testing.assert_allclose(beta, [0.0, 0.5 * low, 0.5, 1.0], rtol=1e-15)
    np.testing.assert_array_equal(GaussianShift(0.0).point([0.99, 1.0]), [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(LaplaceShift(0.0).point([0.99, 1.0]), [[1.0, 0.0], [0.0, 1.0]])


def test_registry_of_vector_noise():
    zero, spread, one = np.zeros(50), np.full(50, 1 / 50), np.eye(50)[3]
    parameters = {"epsilon": 1.0, "delta": 1e-5}
    even = exact("gaussian", parameters, zero, spread)
    single = exact("gaussian", parameters, zero, one)
    assert even.delta(0.0) == pytest.approx(0.01164, abs=5.01e-6)
    assert single.delta(0.0) == pytest.approx(0.08220, abs=5.01e-6)
    assert exact("gaussian", {"sigma": 2.0}, zero, 3.0 * one) == GaussianShift(1.5)
    assert exact("laplace", {"epsilon": 0.5}, zero, one) == LaplaceShift(0.5)
    assert exact("laplace", {"epsilon": 0.5, "sensitivity": 4}, zero, one) == LaplaceShift(0.125)
    assert exact("laplace", {"scale": 0.25}, one, zero) == LaplaceShift(4.0)
    assert exact("laplace", {"epsilon": 1.0}, one, one) == LaplaceShift(0.0)
    assert exact("laplace", {"epsilon": 1.0}, zero, spread).delta(0.0) == pytest.approx(0.056052, abs=6e-6)
    assert exact("laplace", {"epsilon": 1.0}, np.zeros(3), np.zeros(2)) is None
    assert exact("some.module:mechanism", {}, zero, one) is None


def test_registry_of_aggregates():
    d, d_prime = np.array([1.0, 7.0, 3.0]), np.array([1.0, 7.0])
    limits = {"lower": 0.0, "upper": 5.0, "epsilon": 2.0}
    # The removed row, 3, moves the mean by 3/10 where the sensitivity is 5/10.
    assert exact("bounded_mean", {**limits, "count": 10}, d, d_prime).epsilon0 == pytest.approx(1.2)
    assert exact("bounded_sum", limits, d, d_prime).epsilon0 == pytest.approx(1.2)
    wide = {"lower": -4.0, "upper": 5.0, "epsilon": 2.0}
    assert exact("bounded_sum", wide, d, d_prime).epsilon0 == pytest.approx(2.0 * 3.0 / 9.0)
    normal = {**limits, "noise": "gaussian", "delta": 1e-3}
    sigma = gaussian_sigma(2.0, 1e-3, 5.0)
    assert exact("bounded_sum", normal, d, d_prime) == GaussianShift(3.0 / sigma)
    table = np.column_stack((np.zeros(3), d))
    assert exact("bounded_sum", {**limits, "column": 1}, table, table[:2]).epsilon0 == pytest.approx(1.2)
    assert exact("bounded_sum", limits, table, table[:2]) == LaplaceShift(0.0)


def test_registry_takes_new_families_once():
    @register("test-only")
    def build(d, d_prime, *, level):
        return LaplaceShift(level)

    assert exact("test-only", {"level": 2}, np.zeros(1), np.zeros(1)) == LaplaceShift(2.0)
    with pytest.raises(ValueError, match="test-only"):
        register("test-only")(build)
    with pytest.raises(ValueError, match=r"parameters of test-only.*accepted: level"):
        exact("test-only", {"height": 2}, np.zeros(1), np.zeros(1))
