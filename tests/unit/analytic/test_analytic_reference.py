"""Reference numbers of the closed forms."""

import itertools
import math

import numpy as np
import pytest
from analytic_curves import COUNT_P, COUNT_Q, COUNT_R
from scipy import optimize, stats

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
    exact,
    gaussian_sigma,
)


def test_laplace_spectrum_reference():
    grid = [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    truth = ".393469 .390429 .378115 .362372 .329680 .295312 .259182 .221199 .181269 .139292 .095163 .048771"
    for direction in ("forward", "reverse"):
        values = LaplaceShift(1.0).delta(grid, direction)
        np.testing.assert_allclose(values, np.array(truth.split(), float), rtol=0, atol=5.01e-7)
    assert LaplaceShift(10.0).delta(0.05) == pytest.approx(0.993091, abs=5.01e-7)
    assert LaplaceShift(1.0).delta(1.0) == 0.0


def test_gaussian_spectrum_reference():
    sigma = gaussian_sigma(1.0, 1e-5)
    assert sigma == pytest.approx(4.844805, abs=5.01e-7)
    curve = GaussianShift(1.0 / sigma)
    grid = [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    truth = ".082198 .077683 .061122 .043850 .020088 .007779 .002513 .000671 .000147 .000026 .000004"
    np.testing.assert_allclose(curve.delta(grid), np.array(truth.split(), float), rtol=0, atol=5.01e-7)
    assert curve.delta(0.9) == pytest.approx(4e-7, abs=5.01e-8)
    assert curve.delta(1.0) == pytest.approx(4.11e-8, abs=5.01e-11)


def test_laplace_and_gaussian_curves_cross():
    lap, gauss = LaplaceShift(1.0), GaussianShift(1.0 / gaussian_sigma(1.0, 1e-5))

    def gap(epsilon):
        return float(lap.delta(epsilon) - gauss.delta(epsilon))

    assert 1.0 - optimize.brentq(gap, 0.99, 1.0, xtol=1e-14) == pytest.approx(8.2e-8, abs=5.01e-10)


def test_exponential_mechanism_both_directions():
    grid = [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    forward = [0.242922, 0.198507, 0.149420, 0.095170, 0.035215, 0.0]
    reverse = [0.242922, 0.207715, 0.168806, 0.125804, 0.078279, 0.025757]
    curve = Discrete(COUNT_P, COUNT_Q)
    np.testing.assert_allclose(curve.delta(grid), forward, rtol=0, atol=5.01e-7)
    np.testing.assert_allclose(curve.delta(grid, "reverse"), reverse, rtol=0, atol=5.01e-7)
    swapped = Discrete(COUNT_Q, COUNT_P)
    np.testing.assert_array_equal(curve.delta(grid, "reverse"), swapped.delta(grid))
    assert curve.epsilon(1e-12) == pytest.approx(0.4544, abs=5.01e-5)
    assert curve.epsilon(1e-12, "reverse") == pytest.approx(0.5456, abs=5.01e-5)


def test_exponential_mechanism_relative_to_one_database():
    # Registry, table and spectrum together: databases 0, 1, 2 are {0,1,1}, {0,1}, {1,1}.
    parameters = {"outcomes": [0, 1, 2], "table": [COUNT_P, COUNT_Q, COUNT_R]}
    grid = np.arange(8) / 10
    truth = [0.242922, 0.207715, 0.168806, 0.125804, 0.085839, 0.069128, 0.050660, 0.030250]
    curves = [exact("pmf", parameters, np.array([0]), np.array([other])) for other in (1, 2)]
    values = np.max([curve.spectrum(grid) for curve in curves], axis=0)
    np.testing.assert_allclose(values, truth, rtol=0, atol=5.01e-7)


def test_noiseless_histogram_reference():
    def curve(rows):
        ones = np.arange(rows + 1)
        return Discrete(stats.binom.pmf(ones - 1, rows - 1, 0.5), stats.binom.pmf(ones, rows - 1, 0.5))

    truth = {100: 0.079589, 200: 0.056348, 500: 0.035665, 1000: 0.025225, 5000: 0.011283, 49000: 0.003604}
    for rows, delta in truth.items():
        assert curve(rows).delta(0.0) == pytest.approx(delta, abs=5.01e-7)
    values = curve(100).delta([0.05, 0.1, 0.2, 0.5])
    np.testing.assert_allclose(values, [0.058834, 0.041837, 0.018464, 0.000599], rtol=0, atol=5.01e-7)


def test_tradeoff_reference():
    sizes = [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]
    gauss = [0.90764, 0.74049, 0.61086, 0.43708, 0.31718, 0.15866, 0.06370, 0.01126]
    lap = [0.97282, 0.86409, 0.72817, 0.45985, 0.30657, 0.18394, 0.11036, 0.03679]
    np.testing.assert_allclose(GaussianShift(1.0).tradeoff(sizes), gauss, rtol=0, atol=5.01e-6)
    np.testing.assert_allclose(LaplaceShift(1.0).tradeoff(sizes), lap, rtol=0, atol=5.01e-6)


def test_randomised_response():
    for epsilon0, k in itertools.product((0.3, 1.7), (2, 5)):
        keep, other = math.exp(epsilon0), 1.0
        p, q = np.full((2, k), other) / (keep + k - 1)
        p[0] = q[1] = keep / (keep + k - 1)
        grid = np.linspace(0.0, 2.0, 41)
        truth = np.maximum(0.0, (keep - np.exp(grid)) / (keep + k - 1))
        np.testing.assert_allclose(Discrete(p, q).delta(grid), truth, rtol=0, atol=1e-15)


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
