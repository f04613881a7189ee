"""Spectra known at finitely many levels."""

import numpy as np
from analytic_curves import every_curve

from hpcdp.analytic import SpectrumPoints, TradeOffPoints


def test_points_interpolate_in_the_factor():
    points = SpectrumPoints(np.log([1.5, 2.0, 4.0]), [0.3, 0.2, 0.1])
    factors = np.array([1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 4.0, 50.0])
    truth = [0.8, 0.55, 0.3, 0.25, 0.2, 0.15, 0.1, 0.1]
    np.testing.assert_allclose(points.spectrum(np.log(factors)), truth, atol=1e-15)
    assert SpectrumPoints([5.0], [0.1]).spectrum(0.0) == 1.0
    np.testing.assert_array_equal(SpectrumPoints([0.0], [0.25]).spectrum([0.0, 3.0, np.inf]), 0.25)
    far = SpectrumPoints([1.0, 2000.0], [0.5, 0.1])
    np.testing.assert_allclose(far.spectrum([1.0, 1000.0, 2000.0, 3000.0]), [0.5, 0.5, 0.1, 0.1])


@every_curve
def test_points_of_a_curve_bound_it(curve):
    known = np.array([0.05, 0.3, 0.35, 1.0, 2.5])
    points = SpectrumPoints(known, curve.spectrum(known))
    levels, sizes = np.linspace(0.0, 6.0, 301), np.linspace(0.0, 1.0, 41)
    bound = points.spectrum(levels)
    assert (bound >= curve.spectrum(levels) - 1e-14).all()
    np.testing.assert_allclose(points.spectrum(known), curve.spectrum(known), atol=1e-15)
    beta = points.tradeoff(sizes)
    assert (beta <= curve.tradeoff(sizes) + 1e-14).all()
    # The maximum over the known points is the maximum over all levels of the bound.
    fine = np.linspace(0.0, 6.0, 20001)[:, None]
    delta = points.spectrum(fine)
    dual = np.maximum(1.0 - delta - np.exp(fine) * sizes, np.exp(-fine) * (1.0 - delta - sizes))
    assert (dual.max(axis=0) <= beta + 1e-14).all()


@every_curve
def test_tradeoff_points_of_a_curve_bound_it(curve):
    known = np.array([0.0, 0.03, 0.1, 0.11, 0.4, 0.75, 1.0])
    points = TradeOffPoints(known, curve.tradeoff(known))
    sizes, levels = np.linspace(0.0, 1.0, 2001), np.linspace(0.0, 6.0, 101)
    found = points.tradeoff(sizes)
    assert (found <= curve.tradeoff(sizes) + 1e-9).all()
    np.testing.assert_allclose(points.tradeoff(known), curve.tradeoff(known), atol=1e-15)
    convex = points.convex(sizes)
    assert (convex <= found + 1e-12).all()
    assert (np.diff(convex, 2) >= -1e-12).all()
    for direction in ("forward", "reverse"):
        assert (points.delta(levels, direction) >= curve.delta(levels, direction) - 1e-9).all()
    # δ of (Q, P) is the supremum over the sizes of the curve that the points give, of (P, Q) over its other axis.
    fine = np.unique(np.concatenate([np.linspace(0.0, 1.0, 20_001), known]))
    beta = points.tradeoff(fine)
    step = 1.0 / 20_000
    for direction, (first, second) in (("reverse", (fine, beta)), ("forward", (beta, fine))):
        gain = np.maximum((1.0 - second - np.exp(levels)[:, None] * first).max(axis=1), 0.0)
        found = points.delta(levels, direction)
        assert (found >= gain - 1e-12).all()
        if direction == "reverse":  # the grid is one of sizes; over errors it is as coarse as the curve is steep
            assert (found <= gain + step * (1.0 + np.exp(levels)) + 1e-12).all()


def test_tradeoff_points_between_two_lines():
    # Slopes −2, −1 and −0.5: at .15 the first segment gives .7, the third .725; the chord between them is at .75.
    points = TradeOffPoints([0.0, 0.1, 0.2, 0.6], [0.9, 0.7, 0.6, 0.4])
    np.testing.assert_allclose(points.tradeoff([0.15, 0.05, 0.18]), [0.625, 0.75, 0.61])
    np.testing.assert_allclose(points.tradeoff([0.4, 0.8, 1.0]), [0.4, 0.2, 0.0])
    two = TradeOffPoints([0.2, 0.5], [0.6, 0.3])
    np.testing.assert_allclose(two.tradeoff([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]), [0.8, 0.7, 0.6, 0.3, 0.3, 0.1, 0.0])
