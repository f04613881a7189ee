"""Every continuous pair against quadrature of its two densities: masses, δ in both directions, Rényi divergences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp

from hpcdp.analytic import (
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    Piecewise,
    Subsampled,
    exact,
    exponential_real_pair,
    noisy_max_value,
)
from hpcdp.analytic._exact import exact_log_density


def laplace(centre):
    return lambda x: 0.5 * np.exp(-np.abs(x - centre))


def normal(centre, deviation=1.0):
    return stats.norm(centre, deviation).pdf


def mixed(weights, laws):
    return lambda x: sum(weight * law(x) for weight, law in zip(weights, laws, strict=True))


def mixture(shifts, weights):
    """The curve of N(0, 1) against a mixture of normal laws, and its densities."""
    far = [-40.0 + min(0.0, *shifts), 0.0, 40.0 + max(0.0, *shifts)]
    return NormalMixture(shifts, weights), normal(0.0), mixed(weights, [normal(shift) for shift in shifts]), far


def subsampled(law, shift, rate):
    curve = Subsampled((LaplaceShift if law is laplace else GaussianShift)(shift), rate)
    return curve, law(0.0), mixed([1.0 - rate, rate], [law(0.0), law(shift)]), [-60.0, -5.0, 0.0, shift, 5.0, 60.0]


def largest(answers, scale):
    """The density of the larger of two answers with Laplace noise."""
    one, other = (stats.laplace(answer, scale) for answer in answers)
    return lambda x: one.pdf(x) * other.cdf(x) + other.pdf(x) * one.cdf(x)


def one_number(value, rate):
    """The exponential mechanism for one number, on outputs from 0 on."""
    return lambda t: rate * np.exp(-rate * np.abs(value - t)) / (2.0 - math.exp(-rate * value))


def of_mechanism(name, parameters, d, d_prime, edges):
    """The exact pair of a built-in, and the densities that the package has of its outputs."""
    laws = [exact_log_density(name, parameters, np.array(v)) for v in (d, d_prime)]
    densities = [lambda x, law=law: np.exp(law(x)) for law in laws]
    return exact(name, parameters, np.array(d), np.array(d_prime)), *densities, edges


def logs(x, deviations=(1.0, 2.0)):
    return tuple(stats.norm(0.0, deviation).logpdf(x) for deviation in deviations)


WIDE = [-45.0, 0.0, 0.2, 0.5, 1.0, 1.1, 3.0, 50.0]
SUM = {"lower": 0.0, "upper": 2.0, "epsilon": 1.1}
MEAN = {"lower": 0.0, "upper": 2.0, "count": 2, "epsilon": 1.0, "delta": 1e-2, "noise": "gaussian"}
FAMILIES = {
    "laplace 2.3": (LaplaceShift(2.3), laplace(0.0), laplace(2.3), [-45.0, 0.0, 2.3, 48.0]),
    "laplace .45": (LaplaceShift(0.45), laplace(0.0), laplace(0.45), [-45.0, 0.0, 0.45, 46.0]),
    "gaussian 1.6": (GaussianShift(1.6), normal(0.0), normal(1.6), [-40.0, 0.0, 40.0]),
    "gaussian .21": (GaussianShift(0.21), normal(0.0), normal(0.21), [-40.0, 0.0, 40.0]),
    "a loss that turns": (Piecewise([(logs, [-60.0, 60.0])]), normal(0.0), normal(0.0, 2.0), [-60.0, 0.0, 60.0]),
    "mixture": mixture([0.0, 0.5, 2.0], [0.2, 0.5, 0.3]),
    "moved mixture": mixture([0.3, 0.31, 2.4], [0.1, 0.6, 0.3]),
    "rare mixture": mixture([0.0, 1.0], [0.999, 0.001]),
    "two-sided mixture": mixture([-2.0, 0.0, 0.5, 3.0], [0.125, 0.25, 0.5, 0.125]),
    "subsampled laplace": subsampled(laplace, 1.4, 0.35),
    "subsampled gaussian": subsampled(normal, 1.2, 0.35),
    "seldom subsampled gaussian": subsampled(normal, 1.4, 0.07),
    "noisy max": (
        noisy_max_value([1.0, 0.0], [0.2, 0.5], 0.8),
        largest([1.0, 0.0], 0.8),
        largest([0.2, 0.5], 0.8),
        [-40.0, -3.0, 0.0, 0.2, 0.5, 1.0, 3.0, 40.0],
    ),
    "one number": (
        exponential_real_pair(1.15, 1.9, 0.83),
        one_number(1.15, 0.83),
        one_number(1.9, 0.83),
        [0.0, 1.15, 1.9, 60.0],
    ),
    "laplace noise": of_mechanism("laplace", {"epsilon": 0.9}, [0.2], [1.1], WIDE),
    "gaussian noise": of_mechanism("gaussian", {"sigma": 1.3}, [0.2], [1.1], WIDE),
    "bounded sum": of_mechanism("bounded_sum", SUM, [0.5, 3.0], [0.5], [-60.0, 0.5, 2.5, 60.0]),
    "bounded mean": of_mechanism("bounded_mean", MEAN, [0.5, 3.0], [0.5], [-120.0, 0.0, 120.0]),
    "exponential for one number": of_mechanism(
        "exponential_real", {"epsilon": 1.2}, [1.0], [1.8], [0.0, 1.0, 1.8, 60.0]
    ),
    "truncated laplace": of_mechanism(
        "truncated", {"scale": 0.6, "lower": -1.0, "upper": 2.0}, [0.2], [1.1], [-1.0, 0.2, 1.1, 2.0]
    ),
    "truncated gaussian": of_mechanism("truncated", {"scale": 0.6, "noise": "gaussian"}, [0.2], [1.0], [0.0, 1.0]),
    "NM2": of_mechanism("noisy_max", {"variant": "NM2", "scale": 1.5}, [0.0, 0.0, 1.0], [1.0, 0.0, 0.5], WIDE),
    "NM4": of_mechanism("noisy_max", {"variant": "NM4", "scale": 1.5}, [0.0, 0.0, 1.0], [1.0, 0.5, 0.5], WIDE),
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
every_family = pytest.mark.parametrize(("curve", "p", "q", "edges"), FAMILIES.values(), ids=FAMILIES)


def panels(edges, margin=None):
    """Nodes and weights of quadrature between edges, between which densities are smooth, and where the margin is 0."""
    fine = np.unique([np.linspace(a, b, 201) for a, b in itertools.pairwise(edges)])
    values = margin(fine) if margin else np.ones_like(fine)
    turns = np.flatnonzero(values[:-1] * values[1:] < 0.0)
    roots = [optimize.brentq(lambda x: margin(np.array([x]))[0], *fine[i : i + 2], xtol=1e-14) for i in turns]
    fine = np.unique([*fine, *roots])
    half = 0.5 * np.diff(fine)[:, None]
    return (fine[:-1, None] + half * (NODES + 1.0)).ravel(), (half * WEIGHTS).ravel()


@every_family
def test_delta_is_the_integral(curve, p, q, edges):
    x, weights = panels(edges)
    assert [weights @ p(x), weights @ q(x)] == pytest.approx([1.0, 1.0], abs=1e-12)
    for level in (0.0, 0.13, 0.6, 1.9):
        factor = math.exp(level)
        for direction, kept, inflated in (("forward", p, q), ("reverse", q, p)):

            def excess(x, kept=kept, inflated=inflated, factor=factor):
                return kept(x) - factor * inflated(x)

            x, weights = panels(edges, excess)
            truth = weights @ np.maximum(excess(x), 0.0)
            assert curve.delta(level, direction) == pytest.approx(truth, abs=1e-12)


# of NM4 one law alone has outputs below 1, and the divergence of the wide normal law from the narrow one is infinite
@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"NM4", "a loss that turns"}))
def test_divergences_are_the_integrals(name):
    curve, p, q, edges = FAMILIES[name]
    x, weights = panels(edges)
    for direction, kept, other in (("forward", p(x), q(x)), ("reverse", q(x), p(x))):
        likely = (weights * kept > 0.0) & (other > 0.0)  # both densities underflow far out
        loss, mass = np.log(kept[likely]) - np.log(other[likely]), (weights * kept)[likely]
        assert curve.renyi(1.0, direction) == pytest.approx(mass @ loss, rel=1e-9, abs=1e-13)
        for order in (1.004, 1.7, 3.2, 9.0):
            truth = logsumexp(np.log(mass) + (order - 1.0) * loss) / (order - 1.0)
            assert curve.renyi(order, direction) == pytest.approx(truth, rel=1e-9, abs=1e-12)


WHOLE = [
    ("noisy_max", {"variant": "NM1", "epsilon": 0.9}, [0.0, 0.0, 1.0], [1.0, 0.0, 0.5]),
    ("randomized_response", {"epsilon": 0.7, "values": 3}, [1], [2]),
    ("pmf", {"outcomes": [0, 1, 2], "table": [[0.2, 0.8, 0.0], [0.5, 0.2, 0.3]]}, [0], [1]),
]


@pytest.mark.parametrize(("name", "parameters", "d", "d_prime"), WHOLE)
def test_log_probabilities_are_those_of_the_exact_pair(name, parameters, d, d_prime):
    p, q = (np.exp(exact_log_density(name, parameters, np.array(v))(np.arange(3))) for v in (d, d_prime))
    assert [p.sum(), q.sum()] == pytest.approx([1.0, 1.0], abs=1e-12)
    curve = exact(name, parameters, np.array(d), np.array(d_prime))
    for epsilon in (0.0, 0.4):
        truth = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
        assert truth == pytest.approx(float(curve.delta(epsilon)), abs=1e-12)


def test_log_densities_of_what_has_none():
    assert exact_log_density("laplace", {"epsilon": 1.0}, np.zeros(2)) is None
    assert exact_log_density("gaussian", {"sigma": 1.0}, np.zeros((1, 2))) is None
    assert exact_log_density("randomized_response", {"epsilon": 1.0}, np.zeros(2)) is None
    assert exact_log_density("own:code", {}, np.zeros(1)) is None
