"""What every spectrum and trade-off curve satisfies, those symmetrised and those known at a few points included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from analytic_curves import CURVES, both, every_curve

from hpcdp.analytic import (
    Curve,
    Discrete,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    NormalMixture,
    Piecewise,
    Reversed,
    SpectrumPoints,
    Subsampled,
    Symmetrised,
    TradeOffPoints,
    noiseless_count,
    noisy_max_index,
    noisy_max_value,
    randomized_response_pair,
    rappor_pair,
    sparse_vector,
    toy_dpsgd_pair,
)
from hpcdp.notions.curve import TradeOffCurve

ONES, ZEROS = np.ones(4), np.zeros(4)
FIRST, SECOND = np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0])


def normals(x):
    """Two normal laws of different width: the loss turns at 0."""
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi), -0.125 * x * x - 0.5 * math.log(8 * math.pi)


def wide_normals(x):
    return normals(x)[::-1]


def svt(variant, cutoff=1, swap=False):
    first, second = (SECOND, FIRST) if swap else (FIRST, SECOND)
    return sparse_vector(first, second, variant=variant, epsilon=1.3, threshold=0.7, cutoff=cutoff)


BOTH = ("forward", "reverse")


def either(make, first, second, *rest):
    """A pair of two databases, and that of the same two the other way round."""
    return make(first, second, *rest), make(second, first, *rest)


COUNT, MIXTURE = noiseless_count(30, 0.2), NormalMixture([-2.0, 0.0, 0.5, 3.0], [0.125, 0.25, 0.5, 0.125])
SUBSAMPLED = Symmetrised(Subsampled(GaussianShift(1.0), 0.5))
# sides of slopes -5, -0.99 and 0: the inverse starts at 0.605, far below 1
CROSSING = Discrete([0.1, 0.5 / 0.99, 0.9 - 0.5 / 0.99], [0.5, 0.5, 0.0])
NUMERICAL = {
    "two shifts": [LaplaceVector([0.3, 1.1])] * 2,
    "50 shifts": [LaplaceVector(np.full(50, 0.02))] * 2,
    "turning loss": [Piecewise([(law, [-60.0, 60.0])]) for law in (normals, wide_normals)],
    "NM1": either(noisy_max_index, FIRST, SECOND, 1.5),
    "NM2": either(noisy_max_value, ONES, ZEROS, 2.0),
    "NM4": either(noisy_max_value, ONES, ZEROS, 2.0, "exponential"),
    "SVT 1": [svt(1, 2, swap) for swap in (False, True)],
    "SVT 3": [svt(3, 1, swap) for swap in (False, True)],
    "SVT 5": [svt(5, 1, swap) for swap in (False, True)],
    "responses": [randomized_response_pair(3, epsilon=0.4, values=4)] * 2,
    "rappor": either(rappor_pair, [1, 1, 0, 0], [0, 0, 0, 1]),
    "counts": [COUNT, Discrete(COUNT.q, COUNT.p)],
    "two-sided mixture": [MIXTURE, Reversed(MIXTURE)],
    "subsampled, symmetrised": [SUBSAMPLED] * 2,
    "dp-sgd, symmetrised": [Symmetrised(toy_dpsgd_pair(updates=3))] * 2,
    "crossing, symmetrised": [Symmetrised(CROSSING)] * 2,
}
ACCURACY = 1e-12  # of curves found by quadrature, convolution and enumeration, as documented
ALL = [pytest.param(curve, True, id=name) for name, curve in CURVES.items()]
ALL += [
    pytest.param(curve, False, id=f"{name}, numerical", marks=[pytest.mark.slow] * (name == "dp-sgd, symmetrised"))
    for name, (curve, _) in NUMERICAL.items()
]
every = pytest.mark.parametrize(("curve", "closed"), ALL)


@pytest.mark.few
@every
def test_shapes_of_both_curves(curve, closed):
    slack = 1e-15 if closed else ACCURACY  # of a value; second differences of closed forms lose a digit or two
    factors, sizes = np.linspace(1.0, 9.0, 401), np.linspace(0.0, 1.0, 501)
    for direction in BOTH:
        delta = curve.delta(np.log(factors), direction)
        assert ((delta >= 0.0) & (delta <= 1.0)).all()
        assert (np.diff(delta) <= slack).all()
        assert (np.diff(delta, 2) >= -max(slack, 1e-14)).all()  # convex in e^epsilon
        assert (delta >= 1.0 - factors * (1.0 - delta[0]) - max(slack, 1e-14)).all()
        assert (np.diff(delta) >= -np.diff(factors) - max(slack, 1e-14)).all()
    assert curve.delta(0.0, "forward") == pytest.approx(float(curve.delta(0.0, "reverse")), abs=slack)
    np.testing.assert_array_equal(
        curve.spectrum(factors), np.maximum(*(curve.delta(factors, direction) for direction in BOTH))
    )
    beta = curve.tradeoff(sizes)
    assert (np.diff(beta) <= slack).all()
    assert (np.diff(beta, 2) >= -max(slack, 1e-13)).all()
    assert (beta <= 1.0 - sizes + slack).all()
    assert beta[-1] == pytest.approx(0.0, abs=slack)
    assert beta[0] == pytest.approx(1.0 - float(curve.delta(np.inf, "reverse")), abs=max(slack, 1e-13))


@every
def test_points_lie_on_both_curves(curve, closed):
    near, nearer = (1e-11, 1e-12) if closed else (1e-10, 1e-10)  # rounding of a difference of values times eta
    etas = np.concatenate(([0.0], np.geomspace(1e-3, 1e3, 61), [1.0, math.exp(0.37), math.exp(-0.6)]))
    alpha, beta = curve.point(etas)
    on_curve = curve.tradeoff(np.minimum(alpha, 1.0))
    np.testing.assert_allclose(on_curve, np.minimum(beta, curve.tradeoff(0.0)), atol=nearer)
    up, down = etas >= 1.0, (etas <= 1.0) & (etas > 0.0)
    reverse = 1.0 - beta[up] - etas[up] * alpha[up]
    forward = 1.0 - alpha[down] - beta[down] / etas[down]
    np.testing.assert_allclose(curve.delta(np.log(etas[up]), "reverse"), reverse, atol=near)
    np.testing.assert_allclose(curve.delta(-np.log(etas[down]), "forward"), forward, atol=near)
    np.testing.assert_allclose(curve.point(np.inf), [0.0, 1.0], rtol=0, atol=1e-14)


@pytest.mark.few
@every
@both
def test_level_of_a_delta(curve, closed, direction):
    """The smallest level at which δ is reached; infinite where δ at infinity is more."""
    step, slack = (2.0**-53, 0.0) if closed else (1e-9, ACCURACY)
    for delta in (1e-9, 1e-4, 0.02, 0.31, 1.0) if closed else (1e-4, 0.02, 0.31):
        level = float(curve.epsilon(delta, direction))
        below = min(level * (1.0 - step), 1e300)
        assert level == math.inf or curve.delta(level, direction) <= delta
        assert level == 0.0 or curve.delta(below, direction) > delta - slack


@pytest.mark.parametrize(
    ("curve", "swapped"),
    [
        pytest.param(*pair, id=name, marks=pytest.mark.slow if name == "two-sided mixture" else ())
        for name, pair in NUMERICAL.items()
    ],
)
def test_swapping_the_databases_swaps_the_directions(curve, swapped):
    levels, sizes = np.linspace(0.0, 3.0, 61), np.linspace(0.0, 1.0, 41)
    np.testing.assert_allclose(curve.delta(levels), swapped.delta(levels, "reverse"), atol=1e-12)
    np.testing.assert_allclose(curve.delta(levels, "reverse"), swapped.delta(levels), atol=1e-12)
    # The trade-off curve of the swapped pair is the inverse: T(T'(a)) <= a, with equality where T' falls.
    assert (curve.tradeoff(swapped.tradeoff(sizes)) <= sizes + 1e-10).all()
    # A point of one at 1/eta is a point of the other at eta, but for the atoms at the threshold, of which there are none.
    etas = np.array([0.0123, 0.377, 0.913, 1.077, 2.19, 33.3])
    np.testing.assert_allclose(curve.point(etas), swapped.point(1.0 / etas)[::-1], atol=1e-10)


def test_curves_keep_shapes():
    for curve in CURVES.values():
        assert isinstance(curve, Curve)
        for shape in ((), (3,), (2, 3), (0,)):
            levels = np.full(shape, 0.3)
            assert curve.delta(levels).shape == curve.tradeoff(levels).shape == shape
            assert curve.epsilon(levels).shape == curve.spectrum(levels).shape == shape
            assert [part.shape for part in curve.point(levels)] == [shape, shape]
            assert curve.delta(levels).dtype == np.float64


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
    factors = np.exp(levels)[:, None]
    forward, reverse = (np.maximum((1.0 - y - factors * x).max(axis=1), 0.0) for x, y in ((beta, fine), (fine, beta)))
    assert (points.delta(levels) >= forward - 1e-12).all()
    assert (points.delta(levels, "reverse") >= reverse - 1e-12).all()
    # the grid is one of sizes; over errors it is as coarse as the curve is steep
    assert (points.delta(levels, "reverse") <= reverse + step * (1.0 + np.exp(levels)) + 1e-12).all()


def test_tradeoff_points_between_two_lines():
    # Slopes −2, −1 and −0.5: at .15 the first segment gives .7, the third .725; the chord between them is at .75.
    points = TradeOffPoints([0.0, 0.1, 0.2, 0.6], [0.9, 0.7, 0.6, 0.4])
    np.testing.assert_allclose(points.tradeoff([0.15, 0.05, 0.18]), [0.625, 0.75, 0.61])
    np.testing.assert_allclose(points.tradeoff([0.4, 0.8, 1.0]), [0.4, 0.2, 0.0])
    two = TradeOffPoints([0.2, 0.5], [0.6, 0.3])
    np.testing.assert_allclose(two.tradeoff([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]), [0.8, 0.7, 0.6, 0.3, 0.3, 0.1, 0.0])


# Symmetrised curves

SIZES = np.unique(np.concatenate((np.linspace(0.0, 1.0, 101), np.geomspace(1e-9, 1.0, 31))))
LEVELS = np.linspace(0.0, 3.0, 31)
TO_SYMMETRISE = {
    "subsampled": SUBSAMPLED.curve,
    "subsampled laplace": Subsampled(LaplaceShift(1.0), 0.3),
    "dp-sgd": toy_dpsgd_pair(updates=3),
    "lopsided": Discrete([0.5, 0.3, 0.15, 0.05, 0.0], [0.2, 0.25, 0.3, 0.15, 0.1]),
    "crossing": CROSSING,
} | {name: CURVES[name] for name in ("laplace 12", "gaussian 3e-4", "gaussian 9", "dp (.6, .03)")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "dp-sgd" else ()) for name in TO_SYMMETRISE]
)
def test_it_is_the_hull_of_both_curves(name):
    """Which of a symmetric pair is the curve."""
    curve, both = TO_SYMMETRISE[name], Symmetrised(TO_SYMMETRISE[name])
    hull = TradeOffCurve.from_curve(curve, 1e-7).symmetrise()
    over = hull(SIZES) - both.tradeoff(SIZES)
    assert over.min() > -1e-14
    assert over.max() <= 1e-7
    np.testing.assert_array_equal(both.delta(LEVELS), curve.spectrum(LEVELS))
    np.testing.assert_array_equal(both.delta(LEVELS, "reverse"), curve.spectrum(LEVELS))
    # the order of the pair is forgotten
    np.testing.assert_allclose(Symmetrised(Reversed(curve)).tradeoff(SIZES), both.tradeoff(SIZES), atol=1e-14)
