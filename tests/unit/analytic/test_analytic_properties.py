"""What every spectrum and trade-off curve satisfies."""

import itertools
import math

import numpy as np
import pytest
from analytic_curves import CURVES, both, every_curve

from hpcdp.analytic import (
    ApproximateDP,
    Curve,
    Discrete,
    GaussianShift,
    gaussian_mu,
    gaussian_sigma,
)


@every_curve
@both
def test_spectrum_properties(curve, direction):
    factors = np.linspace(1.0, 9.0, 401)
    delta = curve.delta(np.log(factors), direction)
    assert ((delta >= 0.0) & (delta <= 1.0)).all()
    assert (np.diff(delta) <= 1e-15).all()
    assert (np.diff(delta, 2) >= -1e-14).all()  # convex in e^epsilon
    assert (delta >= 1.0 - factors * (1.0 - delta[0]) - 1e-14).all()
    assert (np.diff(delta) >= -np.diff(factors) - 1e-14).all()
    assert curve.delta(0.0, "forward") == pytest.approx(float(curve.delta(0.0, "reverse")), abs=1e-15)


@every_curve
def test_tradeoff_properties(curve):
    sizes = np.linspace(0.0, 1.0, 501)
    beta = curve.tradeoff(sizes)
    assert (np.diff(beta) <= 1e-15).all()
    assert (np.diff(beta, 2) >= -1e-13).all()
    assert (beta <= 1.0 - sizes + 1e-15).all()
    assert beta[-1] == pytest.approx(0.0, abs=1e-15)


@every_curve
def test_points_lie_on_both_curves(curve):
    etas = np.concatenate(([0.0], np.geomspace(1e-3, 1e3, 61), [1.0, math.exp(0.37), math.exp(-0.6)]))
    alpha, beta = curve.point(etas)
    np.testing.assert_allclose(
        curve.tradeoff(np.minimum(alpha, 1.0)), np.minimum(beta, curve.tradeoff(0.0)), atol=1e-12
    )
    up, down = etas >= 1.0, (etas <= 1.0) & (etas > 0.0)
    reverse = 1.0 - beta[up] - etas[up] * alpha[up]
    forward = 1.0 - alpha[down] - beta[down] / etas[down]
    np.testing.assert_allclose(curve.delta(np.log(etas[up]), "reverse"), reverse, atol=1e-11)
    np.testing.assert_allclose(curve.delta(-np.log(etas[down]), "forward"), forward, atol=1e-11)


@every_curve
def test_spectrum_from_tradeoff(curve):
    # The supremum over a grid is a lower bound of the supremum, close to it where the grid is fine.
    sizes = np.concatenate(([0.0], np.geomspace(1e-9, 1.0, 20001)))
    beta = curve.tradeoff(sizes)
    for epsilon in (0.0, 0.11, 0.42, 1.3):
        reverse = (1.0 - beta - math.exp(epsilon) * sizes).max()
        forward = (1.0 - sizes - math.exp(epsilon) * beta).max()  # the inverse curve is the same set of points
        for value, direction in ((reverse, "reverse"), (forward, "forward")):
            truth = float(curve.delta(epsilon, direction))
            assert truth - 3e-3 < value <= truth + 1e-12


@every_curve
def test_tradeoff_from_spectrum(curve):
    levels = np.concatenate((np.linspace(0.0, 14.0, 10001), np.linspace(14.0, 140.0, 3001)))[:, None]
    sizes = np.linspace(0.0, 1.0, 23)
    steep = 1.0 - curve.delta(levels, "reverse") - np.exp(levels) * sizes
    flat = np.exp(-levels) * (1.0 - curve.delta(levels, "forward") - sizes)
    dual = np.maximum(np.maximum(steep, flat).max(axis=0), 0.0)
    truth = curve.tradeoff(sizes)
    assert (dual <= truth + 1e-12).all()
    assert (dual >= truth - 1e-3).all()


def test_reversed_pair_has_the_inverse_tradeoff():
    curve, reverse = CURVES["zeros"], Discrete(CURVES["zeros"].q, CURVES["zeros"].p)
    sizes = np.linspace(0.0, 0.49, 50)  # the curve falls strictly there
    np.testing.assert_allclose(reverse.tradeoff(curve.tradeoff(sizes)), sizes, atol=1e-14)
    assert curve.tradeoff(0.0) == pytest.approx(0.4)
    assert curve.delta(np.inf) == pytest.approx(0.5)
    assert curve.delta(np.inf, "reverse") == pytest.approx(0.6)


@every_curve
@both
def test_level_of_a_delta(curve, direction):
    for delta in (1e-9, 1e-4, 0.02, 0.31, 1.0):
        level = float(curve.epsilon(delta, direction))
        if level == math.inf:
            assert curve.delta(np.inf, direction) > delta
            continue
        assert curve.delta(level, direction) <= delta
        if level > 0.0:
            assert curve.delta(np.nextafter(level, 0.0), direction) > delta


def test_level_where_the_spectrum_turns_flat():
    # Beyond its level the spectrum stays at delta; the smallest level is meant, not any of them.
    assert ApproximateDP(0.6, 0.03).epsilon(0.03) == pytest.approx(0.6, rel=1e-12)
    assert ApproximateDP(0.6, 0.03).epsilon(0.02) == math.inf


def test_mu_of_a_delta():
    for epsilon, mu in itertools.product((0.0, 0.4, 3.0), (0.03, 0.7, 6.0)):
        delta = GaussianShift(mu).delta(epsilon)
        if delta > 1e-250:
            assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)
    # The exact calibration needs less noise than the classical one.
    assert gaussian_mu(1.0, [1e-5])[0] > 1.0 / gaussian_sigma(1.0, 1e-5)


def test_spectrum_of_the_unordered_pair():
    grid = np.linspace(0.0, 0.6, 13)
    curve = CURVES["counts"]
    np.testing.assert_array_equal(curve.spectrum(grid), np.maximum(curve.delta(grid), curve.delta(grid, "reverse")))
    assert (curve.spectrum(grid) > curve.delta(grid)).any()


def test_curves_keep_shapes():
    for curve in CURVES.values():
        assert isinstance(curve, Curve)
        for shape in ((), (3,), (2, 3), (0,)):
            levels = np.full(shape, 0.3)
            assert curve.delta(levels).shape == curve.tradeoff(levels).shape == shape
            assert curve.epsilon(levels).shape == curve.spectrum(levels).shape == shape
            assert [part.shape for part in curve.point(levels)] == [shape, shape]
            assert curve.delta(levels).dtype == np.float64
