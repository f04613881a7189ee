"""Exact spectra and trade-off curves, and the built-in mechanisms they belong to."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from hpcdp.analytic import (
    ApproximateDP,
    Curve,
    Discrete,
    GaussianShift,
    LaplaceShift,
    SpectrumPoints,
    exact,
    gaussian_mu,
    gaussian_sigma,
    register,
)
from hpcdp.mechanisms.additive import gaussian, laplace, noise_scale, noise_sigma
from hpcdp.mechanisms.aggregates import bounded_mean, bounded_sum
from hpcdp.mechanisms.table import pmf

E1, E2 = math.e, math.e**2
COUNT_P = np.array([E1, E2, 1.0]) / (E1 + E2 + 1.0)  # exponential mechanism on {0,1,1}, epsilon0 = 2
COUNT_Q = np.array([E1, E1, 1.0]) / (2.0 * E1 + 1.0)  # ... on {0,1}
COUNT_R = np.array([1.0, E2, 1.0]) / (E2 + 2.0)  # ... on {1,1}

CURVES = {
    "laplace .37": LaplaceShift(0.37),
    "laplace 0": LaplaceShift(0.0),
    "laplace 12": LaplaceShift(12.0),
    "gaussian .8": GaussianShift(0.8),
    "gaussian 0": GaussianShift(0.0),
    "gaussian 3e-4": GaussianShift(3e-4),
    "gaussian 9": GaussianShift(9.0),
    "counts": Discrete(COUNT_P, COUNT_Q),
    "zeros": Discrete([0.2, 0.5, 0.3, 0.0, 0.0], [0.1, 0.0, 0.3, 0.55, 0.05]),
    "disjoint": Discrete([1.0, 0.0], [0.0, 1.0]),
    "dp (.6, .03)": ApproximateDP(0.6, 0.03),
    "dp (0, 0)": ApproximateDP(0.0, 0.0),
}
every_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())
both = pytest.mark.parametrize("direction", ["forward", "reverse"])


# Reference numbers


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


# Independent derivations


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


# Properties and conversions


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


# Points of a spectrum


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


# Registry


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
    assert exact("laplace", {"epsilon": 1.0}, zero, spread) is None
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


# The mechanisms


LEVEL = 1e-6  # failure probability of each statistical check


def within_dkw(draws, cdf):
    """Distance of the empirical to the exact cdf within its DKW-Massart limit, finite-sample."""
    ordered = np.sort(draws)
    grid = np.arange(ordered.size + 1) / ordered.size
    exact_values = cdf(ordered)
    distance = max(np.max(grid[1:] - exact_values), np.max(exact_values - grid[:-1]))
    return distance < math.sqrt(math.log(2.0 / LEVEL) / (2.0 * ordered.size))


def test_noise_follows_its_law():
    size = 200_000
    draws = laplace(np.array([3.0]), size, np.random.default_rng(5), epsilon=0.4, sensitivity=2.0)
    assert draws.shape == (size,)
    assert draws.dtype == np.float64
    assert within_dkw(draws, stats.laplace(3.0, 5.0).cdf)
    assert not within_dkw(draws, stats.laplace(3.0, 5.2).cdf)  # the check has power
    quantile = stats.norm.isf(LEVEL / 2)
    assert abs(draws.mean() - 3.0) < quantile * math.sqrt(2 * 25.0 / size)
    assert abs(draws.var() / 50.0 - 1.0) < quantile * math.sqrt(5.0 / size)  # kurtosis 6
    normal = gaussian(np.array(-1.0), size, np.random.default_rng(6), sigma=0.3)
    assert normal.shape == (size,)
    assert within_dkw(normal, stats.norm(-1.0, 0.3).cdf)
    assert abs(normal.var() / 0.09 - 1.0) < quantile * math.sqrt(2.0 / size)


@pytest.mark.parametrize("mechanism", [laplace, gaussian])
def test_vector_noise(mechanism):
    parameters = {"epsilon": 1.0} if mechanism is laplace else {"epsilon": 1.0, "delta": 1e-5}
    database = np.array([[0.0, 10.0], [-5.0, 2.0]])
    draws = mechanism(database, 60_000, np.random.default_rng(8), **parameters)
    assert draws.shape == (60_000, 4)
    spread = noise_scale(1.0) if mechanism is laplace else noise_sigma(1.0, 1e-5)
    law = stats.laplace if mechanism is laplace else stats.norm
    for column, centre in enumerate(database.ravel()):
        assert within_dkw(draws[:, column], law(centre, spread).cdf)
    assert np.abs(np.corrcoef(draws.T) - np.eye(4)).max() < stats.norm.isf(LEVEL / 12) / math.sqrt(60_000)
    again = mechanism(database, 60_000, np.random.default_rng(8), **parameters)
    np.testing.assert_array_equal(draws, again)
    assert (database == [[0.0, 10.0], [-5.0, 2.0]]).all()


def test_aggregates_follow_their_law():
    database = np.array([[1.0, 0.0], [9.0, 4.0], [-3.0, 6.0]])
    common = {"lower": 0.0, "upper": 5.0, "epsilon": 0.5}
    size = 100_000
    mean = bounded_mean(database, size, np.random.default_rng(1), count=4, **common)
    assert mean.shape == (size,)
    assert within_dkw(mean, stats.laplace(6.0 / 4.0, 5.0 / 4.0 / 0.5).cdf)
    total = bounded_sum(database, size, np.random.default_rng(2), column=1, **common)
    assert within_dkw(total, stats.laplace(9.0, 10.0).cdf)
    normal = {"lower": -2.0, "upper": 5.0, "epsilon": 1.0, "delta": 0.01, "noise": "gaussian"}
    shifted = bounded_mean(database[:, 0], size, np.random.default_rng(3), count=4, **normal)
    assert within_dkw(shifted, stats.norm(-2.0 + (3 + 7 + 0) / 4, gaussian_sigma(1.0, 0.01, 7 / 4)).cdf)
    empty = bounded_sum(np.empty((0, 2)), size, np.random.default_rng(4), **common)
    assert within_dkw(empty, stats.laplace(0.0, 10.0).cdf)


def test_exact_pair_predicts_the_mechanism():
    d, d_prime = np.array([0.2, 0.9, 0.4]), np.array([0.2, 0.4])
    parameters = {"lower": 0.0, "upper": 1.0, "count": 3, "epsilon": 1.5}
    curve = exact("bounded_mean", parameters, d, d_prime)
    size, centre = 200_000, 0.6 / 3
    first = bounded_mean(d, size, np.random.default_rng(11), **parameters)
    second = bounded_mean(d_prime, size, np.random.default_rng(12), **parameters)
    # q/p > 1 exactly where the output is nearer to the lower centre.
    alpha, beta = curve.point(1.0)
    threshold = centre + 0.5 * 0.9 / 3
    for rate, truth in ((np.mean(first < threshold), alpha), (np.mean(second >= threshold), beta)):
        assert abs(rate - truth) < stats.norm.isf(LEVEL / 2) * math.sqrt(truth * (1 - truth) / size)


def test_table_draws():
    table = [[0.5, 0.0, 0.25, 0.25, 0.0], [0.0, 0.1, 0.2, 0.3, 0.4]]
    size = 200_000
    for row, outcomes in ((0, [7, -1, 3, 0, 12]), (1, [0.5, 1.0, 2.5, -4.0, 8.0]), (1, list("abcde"))):
        draws = pmf(np.array([row]), size, np.random.default_rng(row), outcomes=outcomes, table=table)
        assert draws.shape == (size,)
        assert draws.dtype == np.asarray(outcomes).dtype
        for outcome, probability in zip(outcomes, table[row], strict=True):
            count = int(np.sum(draws == outcome))
            low, high = stats.binom.ppf([LEVEL / 2, 1 - LEVEL / 2], size, probability)
            assert low <= count <= high


def test_table_of_many_outcomes():
    # Few and many outcomes take different ways through the edges: both give the inverse cdf of the same uniforms.
    uniforms = np.random.default_rng(9).random(50_000)
    for count in (1, 2, 63, 64, 65, 400):
        row = np.random.default_rng(count).dirichlet(np.ones(count))
        draws = pmf(np.array(0), 50_000, np.random.default_rng(9), outcomes=range(count), table=[row])
        upper = np.cumsum(row)
        assert (uniforms < upper[draws] + 1e-12).all()
        assert (uniforms >= upper[draws] - row[draws] - 1e-12).all()


def test_table_never_draws_the_impossible():
    class Last(np.random.Generator):
        def random(self, size):
            return np.full(size, np.nextafter(1.0, 0.0))

    # Ten times 0.1 sums to less than 1 in floating point.
    row = [0.1] * 10 + [0.0]
    rng = Last(np.random.PCG64(1))
    assert (pmf(np.array(0), 5, rng, outcomes=list(range(11)), table=[row]) == 9).all()


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LaplaceShift(-1.0), "epsilon0: -1.0 was given; accepted: a finite number >= 0"),
        (lambda: GaussianShift(math.nan), "mu: nan was given"),
        (lambda: ApproximateDP(1.0, 1.5), "delta0: 1.5 was given; accepted: a number from 0 to 1"),
        (lambda: Discrete([0.5, 0.5], [1.0]), "q: .* accepted: an array of the shape of p"),
        (lambda: Discrete([0.5, 0.4], [0.5, 0.5]), "p: .* accepted: probabilities"),
        (lambda: Discrete([1.5, -0.5], [0.5, 0.5]), "p: "),
        (lambda: LaplaceShift(1.0).delta(-0.1), "epsilon: -0.1 was given; accepted: numbers >= 0"),
        (lambda: LaplaceShift(1.0).delta([0.1, math.nan]), "epsilon: nan was given"),
        (lambda: LaplaceShift(1.0).delta(0.1, "backward"), "direction: 'backward' was given"),
        (lambda: LaplaceShift(1.0).tradeoff(1.1), "alpha: 1.1 was given"),
        (lambda: LaplaceShift(1.0).point(-1.0), "eta: -1.0 was given"),
        (lambda: LaplaceShift(1.0).epsilon(0.0), "delta: 0.0 was given"),
        (lambda: SpectrumPoints([0.2, 0.1], [0.3, 0.2]), "epsilon: .* strictly increasing"),
        (lambda: SpectrumPoints([0.2], [1.2]), "delta: 1.2 was given"),
        (lambda: SpectrumPoints([], []), "epsilon, delta"),
        (lambda: noise_scale(None), "epsilon, scale: .* exactly one"),
        (lambda: noise_scale(1.0, 1.0, 1.0), "epsilon, scale: .* exactly one"),
        (lambda: noise_scale(0), "epsilon: 0 was given; accepted: a finite number > 0"),
        (lambda: noise_scale(True), "epsilon: True was given"),
        (lambda: noise_scale("1"), "epsilon: '1' was given"),
        (lambda: noise_scale(1.0, -2.0), "sensitivity: -2.0 was given"),
        (lambda: noise_scale(5e-324), "sensitivity / epsilon: inf was given"),
        (lambda: noise_sigma(1.0, None), "epsilon, delta, sigma"),
        (lambda: noise_sigma(None, None), "epsilon, delta, sigma"),
        (lambda: noise_sigma(1.0, 0.1, 1.0, 2.0), "epsilon, delta, sigma"),
        (lambda: noise_sigma(1.0, 0.0), "delta: 0.0 was given; accepted: a number between 0 and 1"),
    ],
)
def test_values_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


MEAN = {"lower": 0.0, "upper": 1.0, "count": 3, "epsilon": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": 1.0}, r"lower, upper: \(1.0, 1.0\) was given; accepted: lower < upper"),
        ({"upper": math.inf}, "upper: inf was given"),
        ({"count": 0}, "count: 0 was given; accepted: an integer >= 1"),
        ({"count": 2.5}, "count: 2.5 was given"),
        ({"epsilon": -1}, "epsilon: -1 was given"),
        ({"delta": 0.1}, 'delta: 0.1 was given; accepted: no delta with noise = "laplace"'),
        ({"noise": "gaussian"}, "epsilon, delta, sigma"),
        ({"noise": "uniform"}, "noise: 'uniform' was given"),
        ({"column": 1}, "column: 1 was given; accepted: a column of the database, 0 to 0"),
        ({"column": -1}, "column: -1 was given"),
    ],
)
def test_aggregate_parameters_refused(change, message):
    database = np.array([0.5, 0.25])
    with pytest.raises(ValueError, match=message):
        bounded_mean(database, 1, np.random.default_rng(0), **{**MEAN, **change})
    with pytest.raises(ValueError, match=message):
        exact("bounded_mean", {**MEAN, **change}, database, database[:1])


@pytest.mark.parametrize("database", [np.array([np.nan]), np.array(["a"]), np.zeros((2, 2, 2)), np.array(1.0)])
def test_databases_refused(database):
    with pytest.raises(ValueError, match="database"):
        bounded_mean(database, 1, np.random.default_rng(0), **MEAN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": [[0.5, 0.6]]}, "table: row 0: sum: 1.1 was given; accepted: a sum of 1 within 1e-09"),
        ({"table": [[0.5, 0.5], [1.1, -0.1]]}, "table: .* entries >= 0"),
        ({"table": [[1.0]]}, "table: .* one row of 2 probabilities"),
        ({"table": [[0.5, 0.5], [1.0]]}, "table: .* one row of 2 probabilities"),
        ({"table": []}, "table: "),
        ({"outcomes": [1, "a"]}, "outcomes: .* different finite numbers or"),
        ({"outcomes": [1, 1]}, "outcomes: "),
        ({"outcomes": "ab"}, "outcomes: "),
        ({"outcomes": [1.0, math.nan]}, "outcomes: "),
        ({"outcomes": [True, False]}, "outcomes: "),
        ({"outcomes": [[1], [2]]}, "outcomes: "),
        ({"database": np.array([1])}, "database: .* one integer from 0 to 0"),
        ({"database": np.array([-1])}, "database: "),
        ({"database": np.array([0.5])}, "database: "),
        ({"database": np.array([0, 0])}, "database: "),
    ],
)
def test_tables_refused(change, message):
    arguments = {"database": np.array([0]), "outcomes": [1, 2], "table": [[0.5, 0.5]], **change}
    with pytest.raises(ValueError, match=message):
        pmf(arguments.pop("database"), 1, np.random.default_rng(0), **arguments)


def test_curves_keep_shapes():
    for curve in CURVES.values():
        assert isinstance(curve, Curve)
        for shape in ((), (3,), (2, 3), (0,)):
            levels = np.full(shape, 0.3)
            assert curve.delta(levels).shape == curve.tradeoff(levels).shape == shape
            assert curve.epsilon(levels).shape == curve.spectrum(levels).shape == shape
            assert [part.shape for part in curve.point(levels)] == [shape, shape]
            assert curve.delta(levels).dtype == np.float64
