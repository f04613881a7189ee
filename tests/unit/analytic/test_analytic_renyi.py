"""Rényi divergences of exact pairs, against closed forms, sums, and direct quadrature of densities."""

import itertools
import math

import numpy as np
import pytest
from analytic_curves import CURVES, both, every_curve
from scipy.integrate import quad
from scipy.stats import norm

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    NormalMixture,
    Reversed,
    Subsampled,
    Symmetrised,
    noisy_max_value,
    randomized_response_pair,
)

ORDERS = np.array([1.0, 1.0 + 1e-9, 1.004, 1.3, 2.0, 5.7, 31.0])
CLOSE = 1e-9
above = pytest.mark.parametrize("order", [1.0, 1.004, 1.7, 3.2, 9.0])


def by_sum(p, q, order):
    """The definition, of laws that may have outcomes of no mass under P."""
    p, q = p[p > 0.0], q[p > 0.0]
    if order == 1.0:
        return float(np.sum(p * np.log(p / q)))
    return math.log(float(np.sum(p**order * q ** (1.0 - order)))) / (order - 1.0)


def by_quadrature(p, q, order, points):
    """The definition, of densities that are smooth between the points."""

    def integrand(x):
        loss = math.log(p(x)) - math.log(q(x))
        return p(x) * (loss if order == 1.0 else math.exp((order - 1.0) * loss))

    pieces = [quad(integrand, a, b, epsabs=0.0, epsrel=1e-12, limit=200)[0] for a, b in itertools.pairwise(points)]
    return sum(pieces) if order == 1.0 else math.log(sum(pieces)) / (order - 1.0)


@pytest.mark.parametrize("mu", [0.0, 3e-4, 0.83, 6.1])
def test_gaussian(mu):
    np.testing.assert_allclose(GaussianShift(mu).renyi(ORDERS), ORDERS * mu**2 / 2, rtol=CLOSE)
    for order in ORDERS:  # its densities say the same
        parts = GaussianShift(mu)._parts(float(order))
        assert parts.renyi(float(order)) == pytest.approx(order * mu**2 / 2, rel=CLOSE, abs=1e-13)


@pytest.mark.parametrize("level", [0.0, 0.02, 1.0, 2.9])
def test_laplace(level):
    curve = LaplaceShift(level)
    assert curve.renyi(1.0) == pytest.approx(level + math.exp(-level) - 1.0, abs=1e-15)
    for order in (1.3, 2.0, 5.7, 31.0):  # Mironov (2017), Proposition 6
        shares = order / (2.0 * order - 1.0), (order - 1.0) / (2.0 * order - 1.0)
        moment = shares[0] * math.exp((order - 1.0) * level) + shares[1] * math.exp(-order * level)
        assert curve.renyi(order) == pytest.approx(math.log(moment) / (order - 1.0), abs=1e-14)
        assert curve._parts(order).renyi(order) == pytest.approx(float(curve.renyi(order)), abs=1e-12)
    assert LaplaceShift(1.0).renyi(2.0) == pytest.approx(0.61912, abs=5e-6)


def test_laplace_in_several_columns():
    shifts = np.array([0.3, 0.0, 1.1, 0.6])
    curve = LaplaceVector(shifts)
    np.testing.assert_allclose(curve.renyi(ORDERS), sum(LaplaceShift(s).renyi(ORDERS) for s in shifts), rtol=CLOSE)
    for order in (1.0, 2.0, 5.7):  # and so does the density of its loss
        assert curve._parts(order).renyi(order) == pytest.approx(float(curve.renyi(order)), rel=CLOSE)


@above
@both
def test_discrete(order, direction):
    rng = np.random.default_rng(51)
    p, q = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(7))
    p[2] = 0.0
    p /= p.sum()
    curve = Discrete(p, q)
    if direction == "reverse":
        assert curve.renyi(order, "reverse") == np.inf  # Q has an outcome that P has not
    else:
        assert curve.renyi(order) == pytest.approx(by_sum(p, q, order), abs=1e-13)
    assert Reversed(curve).renyi(order, direction) == curve.renyi(
        order, {"forward": "reverse"}.get(direction, "forward")
    )


def test_randomized_response_adds_up_over_rows():
    level, share = 0.8, 1.0 / (1.0 + math.exp(-0.8))
    one = np.array([by_sum(np.array([share, 1 - share]), np.array([1 - share, share]), a) for a in ORDERS[2:]])
    np.testing.assert_allclose(randomized_response_pair(3, epsilon=level).renyi(ORDERS[2:]), 3 * one, rtol=CLOSE)
    np.testing.assert_allclose(ApproximateDP(level).renyi(ORDERS[2:]), one, rtol=CLOSE)
    assert (ApproximateDP(level, 1e-6).renyi(ORDERS) == np.inf).all()


@above
@both
def test_mixture_of_normal_laws(order, direction):
    curve = NormalMixture([0.0, 0.7, 2.4], [0.3, 0.6, 0.1])
    densities = [norm.pdf, lambda x: float(curve.weights @ norm.pdf(x - curve.shifts))]
    if direction == "reverse":
        densities.reverse()
    truth = by_quadrature(*densities, order, np.arange(-36.0, 37.0, 3.0))
    assert curve.renyi(order, direction) == pytest.approx(truth, rel=CLOSE)


def test_far_shifts():
    # ends at which one part alone counts
    curve = NormalMixture([1e4], [1.0])
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.renyi([1.0, 2.0, 7.0], direction), np.array([1.0, 2.0, 7.0]) * 5e7, rtol=CLOSE)
    rare = NormalMixture([0.0, 300.0], [1.0 - 1e-9, 1e-9])
    assert rare.renyi(2.0, "reverse") == pytest.approx(300.0**2 + 2.0 * math.log(1e-9), rel=CLOSE)
    assert rare.renyi(2.0) == pytest.approx(-math.log1p(-1e-9), rel=1e-6)


@above
@both
def test_subsampled(order, direction):
    level, rate = 1.4, 0.35
    curve = Subsampled(LaplaceShift(level), rate)

    def p(x):
        return 0.5 * math.exp(-abs(x))

    def q(x):
        return (1.0 - rate) * p(x) + rate * p(x - level)

    pair = (p, q) if direction == "forward" else (q, p)
    truth = by_quadrature(*pair, order, [-60.0, -20.0, -5.0, 0.0, level, 5.0, 20.0, 60.0])
    assert curve.renyi(order, direction) == pytest.approx(truth, rel=CLOSE)
    gaussian, mixture = Subsampled(GaussianShift(1.2), rate), NormalMixture([0.0, 1.2], [1.0 - rate, rate])
    assert gaussian.renyi(order, direction) == pytest.approx(float(mixture.renyi(order, direction)), rel=CLOSE)


@above
@both
def test_densities_and_atoms(order, direction):
    curve = noisy_max_value([1.0, 0.0], [0.2, 0.5], scale=0.8)
    level = {"forward": 1.0, "reverse": -1.0}[direction]

    def density(x, answers):
        laws = [(0.5 * math.exp(-abs(x - a) / 0.8) / 0.8, a) for a in answers]
        below = [0.5 * math.exp(min(x - a, 0) / 0.8) if x < a else 1 - 0.5 * math.exp(-(x - a) / 0.8) for a in answers]
        return laws[0][0] * below[1] + laws[1][0] * below[0]

    answers = ([1.0, 0.0], [0.2, 0.5])[:: int(level)]
    points = [-30.0, -10.0, -3.0, 0.0, 0.2, 0.5, 1.0, 3.0, 10.0, 30.0]
    truth = by_quadrature(*(lambda x, a=a: density(x, a) for a in answers), order, points)
    assert curve.renyi(order, direction) == pytest.approx(truth, rel=1e-8, abs=1e-10)


@above
def test_symmetrised_of_a_symmetric_pair_is_the_pair(order):
    for curve in (GaussianShift(0.9), LaplaceShift(1.3)):
        assert Symmetrised(curve).renyi(order) == pytest.approx(float(curve.renyi(order)), rel=CLOSE)
    one_sided = Subsampled(LaplaceShift(1.3), 0.5)
    assert Symmetrised(one_sided).renyi(order) >= max(one_sided.renyi(order, d) for d in ("forward", "reverse"))


@every_curve
@both
def test_the_spectrum_says_the_same(curve, direction):
    """Sason and Verdú's integral of δ in both directions, at an order and in pairs that nothing else is tested at."""
    other, order, most = {"forward": "reverse", "reverse": "forward"}[direction], 1.6, 200.0
    found = float(curve.renyi(order, direction))
    if not math.isfinite(found):
        assert curve.delta(np.inf, direction) > 0.0
        return
    levels = np.unique(np.concatenate(([0.0], np.geomspace(1e-7, most, 6001), np.linspace(0.0, 16.0, 3001))))
    values = np.exp((order - 1.0) * levels) * curve.delta(levels, direction)
    values = values + np.exp(-order * levels) * curve.delta(levels, other)
    integral = float(np.sum(0.5 * (values[1:] + values[:-1]) * np.diff(levels)))
    assert found == pytest.approx(math.log1p(order * (order - 1.0) * integral) / (order - 1.0), rel=2e-4, abs=1e-9)


@every_curve
@both
def test_divergences_rise_with_the_order_and_end_at_the_pure_level(curve, direction):
    values = curve.renyi(np.array([1.0, 1.001, 1.1, 2.0, 8.0, 64.0]), direction)
    finite = np.isfinite(values)
    assert (np.diff(values[finite]) >= -1e-12).all()
    assert (values[finite] >= 0.0).all()
    assert finite.all() or not finite.any()


def test_large_orders_come_near_the_pure_level():
    pair = Discrete([0.7, 0.2, 0.1], [0.5, 0.2, 0.3])
    assert pair.renyi(1e12) == pytest.approx(math.log(1.4), rel=1e-9)
    assert pair.renyi(1e12, "reverse") == pytest.approx(math.log(3.0), rel=1e-9)
    assert LaplaceShift(1.3).renyi(1e12) == pytest.approx(1.3, rel=1e-9)


def test_shapes_and_refusals():
    curve = CURVES["laplace .37"]
    assert curve.renyi(np.ones((2, 3))).shape == (2, 3)
    assert curve.renyi(2).shape == ()
    for order in (0.5, np.nan, np.inf, "2"):
        with pytest.raises(ValueError, match="order"):
            curve.renyi(order)
    with pytest.raises(ValueError, match="direction"):
        curve.renyi(2.0, "sideways")


def test_orders_at_which_quadrature_is_lost_are_refused():
    """Their moment lies where no panel looks; the divergence would be told as 0."""
    pair = Subsampled(GaussianShift(1.0), 0.1)
    assert float(pair.renyi(1e7, "reverse")) == pytest.approx(0.5e7 + np.log(0.1), rel=1e-6)
    with pytest.raises(ValueError, match="where the moment of this pair lies"):
        pair.renyi(1e9, "reverse")
    assert float(Subsampled(LaplaceShift(2.0), 0.1).renyi(1e100)) == pytest.approx(0.0904352, rel=1e-5)
