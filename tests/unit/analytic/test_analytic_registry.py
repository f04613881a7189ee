"""Which exact pair belongs to a built-in mechanism."""

import numpy as np
import pytest

from hpcdp.analytic import (
    GaussianShift,
    LaplaceShift,
    exact,
    gaussian_sigma,
    register,
)


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
