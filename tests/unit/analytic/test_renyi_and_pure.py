"""Rényi divergences and pure levels of exact pairs, against closed forms, sums and direct quadrature of densities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from analytic_curves import CURVES, both, every_curve

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
    exact,
    exponential_real_pair,
    randomized_response_pair,
)
from hpcdp.mechanisms.exponential import exponential_level, exponential_rate

ORDERS = np.array([1.0, 1.0 + 1e-9, 1.004, 1.3, 2.0, 5.7, 31.0])
CLOSE = 1e-9
above = pytest.mark.parametrize("order", [1.0, 1.004, 1.7, 9.0])


def by_sum(p, q, order):
    """The definition."""
    if order == 1.0:
        return float(np.sum(p * np.log(p / q)))
    return math.log(float(np.sum(p**order * q ** (1.0 - order)))) / (order - 1.0)


def test_closed_forms():
    for mu in (0.0, 3e-4, 0.83, 6.1):
        np.testing.assert_allclose(GaussianShift(mu).renyi(ORDERS), ORDERS * mu**2 / 2, rtol=CLOSE)
    for level in (0.0, 0.02, 1.0, 2.9):  # Mironov (2017), Proposition 6
        laplace, a = LaplaceShift(level), np.array([1.3, 2.0, 5.7, 31.0])
        assert laplace.renyi(1.0) == pytest.approx(level + math.exp(-level) - 1.0, abs=1e-15)
        moment = a * np.exp((a - 1.0) * level) + (a - 1.0) * np.exp(-a * level)
        np.testing.assert_allclose(laplace.renyi(a), np.log(moment / (2.0 * a - 1.0)) / (a - 1.0), rtol=0, atol=1e-14)
    # divergences of independent outputs add up
    shifts = np.array([0.3, 0.0, 1.1, 0.6])
    apart = sum(LaplaceShift(s).renyi(ORDERS) for s in shifts)
    np.testing.assert_allclose(LaplaceVector(shifts).renyi(ORDERS), apart, rtol=CLOSE)
    share = 1.0 / (1.0 + math.exp(-0.8))
    orders = np.delete(ORDERS, 1)  # where the definition loses its digits
    one = [by_sum(np.array([share, 1 - share]), np.array([1 - share, share]), a) for a in orders]
    several = randomized_response_pair(3, epsilon=0.8).renyi(orders)
    np.testing.assert_allclose(several, 3 * np.array(one), rtol=CLOSE)
    np.testing.assert_allclose(ApproximateDP(0.8).renyi(orders), one, rtol=CLOSE)
    assert (ApproximateDP(0.8, 1e-6).renyi(ORDERS) == np.inf).all()


@pytest.mark.slow
def test_far_shifts():
    # ends at which one part alone counts
    curve = NormalMixture([1e4], [1.0])
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.renyi([1.0, 2.0, 7.0], direction), np.array([1.0, 2.0, 7.0]) * 5e7, rtol=CLOSE)
    rare = NormalMixture([0.0, 300.0], [1.0 - 1e-9, 1e-9])
    assert rare.renyi(2.0, "reverse") == pytest.approx(300.0**2 + 2.0 * math.log(1e-9), rel=CLOSE)
    assert rare.renyi(2.0) == pytest.approx(-math.log1p(-1e-9), rel=1e-6)


@above
def test_symmetrised_of_a_symmetric_pair_is_the_pair(order):
    for curve in (GaussianShift(0.9), LaplaceShift(1.3)):
        assert Symmetrised(curve).renyi(order) == pytest.approx(float(curve.renyi(order)), rel=CLOSE)
    one_sided = Subsampled(LaplaceShift(1.3), 0.5)
    assert Symmetrised(one_sided).renyi(order) >= max(one_sided.renyi(order, d) for d in ("forward", "reverse"))


FINITE = [
    pytest.param(
        curve, direction, id=f"{name} {direction}", marks=pytest.mark.slow if name in ("all moved", "dp-sgd") else ()
    )
    for name, curve in CURVES.items()
    for direction in ("forward", "reverse")
    if curve.delta(np.inf, direction) == 0.0
]


@pytest.mark.parametrize(("curve", "direction"), FINITE)
def test_the_spectrum_says_the_same(curve, direction):
    """Sason and Verdú's integral of δ in both directions, at an order and in pairs that nothing else is tested at."""
    other, order, most = {"forward": "reverse", "reverse": "forward"}[direction], 1.6, 200.0
    found = float(curve.renyi(order, direction))
    levels = np.unique(np.concatenate(([0.0], np.geomspace(1e-7, most, 6001), np.linspace(0.0, 16.0, 3001))))
    values = np.exp((order - 1.0) * levels) * curve.delta(levels, direction)
    values = values + np.exp(-order * levels) * curve.delta(levels, other)
    integral = float(np.sum(0.5 * (values[1:] + values[:-1]) * np.diff(levels)))
    assert found == pytest.approx(math.log1p(order * (order - 1.0) * integral) / (order - 1.0), rel=2e-4, abs=1e-9)


@every_curve
@both
def test_divergences_rise_with_the_order_and_are_infinite_with_the_loss(curve, direction):
    values = curve.renyi(np.array([1.0, 1.001, 1.1, 2.0, 8.0, 64.0]), direction)
    finite = np.isfinite(values)
    assert (finite == (curve.delta(np.inf, direction) == 0.0)).all()
    assert (np.diff(values[finite]) >= -1e-12).all()
    assert (values[finite] >= 0.0).all()


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


# Pure levels


def level(name, parameters, d, d_prime):
    return exact(name, parameters, np.array(d, float), np.array(d_prime, float)).pure()


@pytest.mark.parametrize(("epsilon", "rate"), [(0.2, 0.1158341), (0.7, 0.5416625), (1.5, 1.3992280)])
def test_rate_and_level_over_the_interval(epsilon, rate):
    assert exponential_rate(epsilon, None, 1.0, 2.0) == pytest.approx(rate, abs=5.1e-8)
    assert level("exponential_real", {"epsilon": epsilon}, [1.0], [2.0]) == pytest.approx(epsilon, abs=1e-12)
    assert level("exponential_real", {"epsilon": epsilon}, [1.2], [1.7]) < epsilon
    assert exponential_real_pair(1.15, 1.9, rate).pure() == pytest.approx(exponential_level(rate, 1.15, 1.9), abs=1e-12)


def test_pure_levels_of_families():
    assert LaplaceShift(0.7).pure() == 0.7
    assert LaplaceVector([0.3, 0.0, 0.4]).pure() == pytest.approx(0.7)
    assert GaussianShift(1.0).pure() == math.inf
    assert GaussianShift(0.0).pure() == 0.0
    assert ApproximateDP(0.4).pure() == 0.4
    assert ApproximateDP(0.4, 1e-9).pure() == math.inf
    pair = Discrete([0.5, 0.3, 0.2, 0.0], [0.25, 0.3, 0.45, 0.0])
    assert pair.pure() == Reversed(pair).pure() == Symmetrised(pair).pure() == pytest.approx(math.log(0.45 / 0.2))
    assert Discrete([1.0, 0.0], [0.5, 0.5]).pure() == math.inf
    for noise, pure in (("laplace", 1.0 / 2.0), ("gaussian", 0.5 / 2.0**2)):
        found = level("truncated", {"scale": 2.0, "noise": noise}, [0.0], [1.0])
        assert found == pytest.approx(pure, abs=1e-12)
