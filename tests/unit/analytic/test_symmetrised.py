"""Symmetrised exact curves, against the hull of points, closed forms and the reference numbers."""

from __future__ import annotations

import numpy as np
import pytest
from analytic_curves import CURVES
from scipy.special import ndtr

from hpcdp.analytic import Discrete, GaussianShift, LaplaceShift, Reversed, Subsampled, Symmetrised, toy_dpsgd_pair
from hpcdp.notions.curve import TradeOffCurve

SIZES = np.unique(np.concatenate((np.linspace(0.0, 1.0, 101), np.geomspace(1e-9, 1.0, 31))))
LEVELS = np.linspace(0.0, 3.0, 31)
SUBSAMPLED = Subsampled(GaussianShift(1.0), 0.5)

ASYMMETRIC = {
    "subsampled": SUBSAMPLED,
    "subsampled laplace": Subsampled(LaplaceShift(1.0), 0.3),
    "dp-sgd": toy_dpsgd_pair(updates=3),
    "lopsided": Discrete([0.5, 0.3, 0.15, 0.05, 0.0], [0.2, 0.25, 0.3, 0.15, 0.1]),
    # sides of slopes -5, -0.99 and 0: the inverse starts at 0.605, far below 1
    "crossing": Discrete([0.1, 0.5 / 0.99, 0.9 - 0.5 / 0.99], [0.5, 0.5, 0.0]),
}
every_asymmetric = pytest.mark.parametrize("curve", ASYMMETRIC.values(), ids=ASYMMETRIC)


def test_reference_values():
    sizes = [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]
    betas = [0.94882, 0.84524, 0.75543, 0.61854, 0.50859, 0.30854, 0.13714, 0.02623]
    np.testing.assert_allclose(Symmetrised(SUBSAMPLED).tradeoff(sizes), betas, atol=6e-6)


def test_closed_form_of_the_subsampled_gaussian():
    # x* is the fixed point of the Gaussian curve, where it and so the subsampled one has slope -1
    fixed = ndtr(-0.5)
    assert SUBSAMPLED.tradeoff(fixed) == pytest.approx(0.5, abs=1e-15)
    middle, right = (fixed < SIZES) & (SIZES < 0.5), SIZES >= 0.5
    closed = np.where(middle, fixed + 0.5 - SIZES, SUBSAMPLED.tradeoff(SIZES))
    closed[right] = Reversed(SUBSAMPLED).tradeoff(SIZES[right])
    np.testing.assert_allclose(Symmetrised(SUBSAMPLED).tradeoff(SIZES), closed, atol=2e-15)


@every_asymmetric
def test_it_is_the_hull_of_both_curves(curve):
    both = Symmetrised(curve)
    hull = TradeOffCurve.from_curve(curve, 1e-7).symmetrise()
    over = hull(SIZES) - both.tradeoff(SIZES)
    assert over.min() > -1e-14
    assert over.max() <= 1e-7
    np.testing.assert_array_equal(both.delta(LEVELS), curve.spectrum(LEVELS))
    np.testing.assert_array_equal(both.delta(LEVELS, "reverse"), curve.spectrum(LEVELS))
    # the order of the pair is forgotten
    np.testing.assert_allclose(Symmetrised(Reversed(curve)).tradeoff(SIZES), both.tradeoff(SIZES), atol=1e-14)


def test_closed_form_needs_more_than_one_point():
    # T has slope -1 at 0.1 alone, and T(0.1) = 0.5 > 0.1; but it is not below its inverse before 0.1
    curve = ASYMMETRIC["crossing"]
    np.testing.assert_allclose(curve.tradeoff([0.0, 0.1]), [1.0, 0.5], atol=1e-15)
    np.testing.assert_allclose(Symmetrised(curve).tradeoff([0.0, 0.1]), [0.1 + 0.5 / 0.99, 0.5], atol=1e-15)


@pytest.mark.parametrize(
    "name", ["laplace .37", "laplace 12", "gaussian .8", "gaussian 3e-4", "gaussian 9", "dp (.6, .03)"]
)
def test_a_symmetric_pair_stays_as_it_is(name):
    curve = CURVES[name]
    both = Symmetrised(curve)
    np.testing.assert_allclose(both.tradeoff(SIZES), curve.tradeoff(SIZES), atol=1e-15)
    etas = np.concatenate(([0.0], np.geomspace(1e-3, 1e3, 31) * 1.01, [np.inf]))
    for found, known in zip(both.point(etas), curve.point(etas), strict=True):
        np.testing.assert_allclose(found, known, atol=1e-13)


@every_asymmetric
def test_points_lie_on_the_curve_and_support_it(curve):
    both = Symmetrised(curve)
    etas = np.concatenate(([0.0], np.geomspace(1e-3, 1e3, 31), [0.99, 1.0, 5.0, np.inf]))
    alpha, beta = both.point(etas)
    np.testing.assert_allclose(both.tradeoff(alpha), np.minimum(beta, both.tradeoff(0.0)), atol=1e-12)
    order = np.argsort(etas)
    assert (np.diff(alpha[order]) <= 1e-14).all()
    assert (np.diff(beta[order]) >= -1e-14).all()
    up = (etas >= 1.0) & (etas < np.inf)
    np.testing.assert_allclose(1.0 - beta[up] - etas[up] * alpha[up], curve.spectrum(np.log(etas[up])), atol=1e-13)
    down = (etas > 0.0) & (etas <= 1.0)
    np.testing.assert_allclose(
        1.0 - alpha[down] - beta[down] / etas[down], curve.spectrum(-np.log(etas[down])), atol=1e-13
    )


def test_shapes_and_refusals():
    both = Symmetrised(SUBSAMPLED)
    for shape in ((), (3,), (2, 3), (0,)):
        assert both.tradeoff(np.full(shape, 0.3)).shape == shape
        assert both.point(np.full(shape, 0.3))[0].shape == shape
    with pytest.raises(ValueError, match=r"curve: 3 was given; accepted: a curve of hpcdp\.analytic"):
        Symmetrised(3)
