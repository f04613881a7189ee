"""Closed forms against independent derivations."""

import itertools
import math

import numpy as np
import pytest
from analytic_curves import CURVES
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
)


@pytest.mark.parametrize("epsilon", [0.0, 0.13, 0.6, 1.9])
@pytest.mark.parametrize(
    ("curve", "p", "q"),
    [
        (LaplaceShift(2.3), stats.laplace(0), stats.laplace(2.3)),
        (LaplaceShift(0.45), stats.laplace(0), stats.laplace(0.45)),
        (GaussianShift(1.6), stats.norm(0), stats.norm(1.6)),
        (GaussianShift(0.21), stats.norm(0), stats.norm(0.21)),
    ],
)
def test_spectrum_is_the_integral(curve, p, q, epsilon):
    nodes, weights = np.polynomial.legendre.leggauss(12)
    for direction, kept, inflated in (("forward", p, q), ("reverse", q, p)):
        margin = lambda x, kept=kept, inflated=inflated: (  # noqa: E731
            kept.logpdf(x) - inflated.logpdf(x) - epsilon
        )
        breaks = [-45.0, 0.0, q.mean(), 45.0]  # the integrand is smooth between these and its root
        if margin(-45.0) * margin(45.0) < 0.0:
            breaks.append(optimize.brentq(margin, -45.0, 45.0))
        edges = np.unique([np.linspace(a, b, 201) for a, b in itertools.pairwise(sorted(breaks))])
        half = 0.5 * np.diff(edges)[:, None]
        x = edges[:-1, None] + half * (nodes + 1.0)
        excess = np.maximum(0.0, kept.pdf(x) - math.exp(epsilon) * inflated.pdf(x))
        assert curve.delta(epsilon, direction) == pytest.approx(float(np.sum(half * excess * weights)), abs=1e-13)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.05, 0.4), (0.2, 1.5), (1.0, 30.0), (3e-3, 0.09), (30.0, 900.0)])
def test_gaussian_tails_keep_their_digits(mu, epsilon):
    # d delta / d mu is the normal density at epsilon/mu - mu/2: a positive integrand loses no digits.
    density = lambda m: math.exp(-0.5 * (epsilon / m - 0.5 * m) ** 2) / math.sqrt(2 * math.pi)  # noqa: E731
    pieces = mu * np.linspace(0.0, 1.0, 201)
    truth = sum(integrate.quad(density, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in itertools.pairwise(pieces[1:]))
    assert truth > 0.0
    assert GaussianShift(mu).delta(epsilon) == pytest.approx(truth, rel=1e-9)


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


@pytest.mark.parametrize(
    ("curve", "law", "other"),
    [
        (LaplaceShift(1.4), stats.laplace(0), stats.laplace(1.4)),
        (GaussianShift(0.9), stats.norm(0), stats.norm(0.9)),
    ],
)
def test_privacy_loss_identity(curve, law, other):
    draws = law.rvs(400_000, random_state=np.random.default_rng(71))
    loss = law.logpdf(draws) - other.logpdf(draws)
    for epsilon in (0.0, 0.25, 0.8):
        terms = np.maximum(0.0, -np.expm1(epsilon - loss))
        error = terms.std() / math.sqrt(terms.size)
        assert abs(terms.mean() - curve.delta(epsilon)) < 5.5 * error


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=7),
    st.floats(0.0, 4.0),
)
@settings(max_examples=60, deadline=None)
def test_discrete_against_all_tests(weights, epsilon):
    first, second = (np.array(column, float) for column in zip(*weights, strict=True))
    if first.sum() == 0.0 or second.sum() == 0.0:
        return
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
