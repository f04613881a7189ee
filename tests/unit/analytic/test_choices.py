"""Mechanisms that choose: exponential, report noisy max, randomised response, RAPPOR; counts without noise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    exact,
    exponential_pair,
    exponential_pmf,
    gaussian_sigma,
    gaussian_textbook_delta,
    noiseless_count,
    noisy_max_index,
    noisy_max_value,
    randomized_response_pair,
    rappor_pair,
)
from hpcdp.mechanisms.local import bloom_bits

LEVELS = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0]
NOISY_MAX = {
    "NM1": ".081134 .063321 .044594 .004210 0 0 0",
    "NM3": ".082227 .064469 .045801 .005545 0 0 0",
    "NM2": ".125933 .114045 .103768 .087017 .074077 .054776 .013614",
    "NM4": ".125933 .114045 .103768 .087017 .074077 .055744 .032149",
}
LAWS = {"laplace": stats.laplace, "exponential": stats.expon}
both_noises = pytest.mark.parametrize("noise", ["laplace", "exponential"])


# Exponential mechanism


def test_exponential_mechanism_reference():
    parameters, databases = {"outcomes": [0, 1, 2], "epsilon": 2.0}, [np.array(rows) for rows in ([0, 1, 1], [0, 1])]
    curve = exact("exponential", parameters, *databases)
    np.testing.assert_allclose(curve.delta([0, 0.2, 0.4]), [0.242922, 0.149420, 0.035215], rtol=0, atol=5.01e-7)
    found = curve.delta([0, 0.2, 0.4], "reverse")
    np.testing.assert_allclose(found, [0.242922, 0.168806, 0.078279], rtol=0, atol=5.01e-7)


def test_exponential_scores_scale():
    np.testing.assert_allclose(exponential_pmf([0.0, 2.0, 1.0], 3.0, 1.5), np.exp([0, 2, 1]) / np.exp([0, 2, 1]).sum())
    assert exponential_pmf([0.0, 5000.0], 1.0)[1] == 1.0
    pair = exponential_pair([3, 1], [1, 3], epsilon=1.0, sensitivity=2.0)
    assert pair.pure() == pytest.approx(0.5)  # a change by the full sensitivity both ways attains epsilon / 2 here


# Report noisy max


@pytest.mark.parametrize("variant", NOISY_MAX)
def test_noisy_max_reference(variant):
    many, few = (np.ones(4), np.zeros(4)), (np.array([1.0] * 4 + [0.0] * 3), np.zeros(7))
    pair = many if variant in ("NM2", "NM4") else few
    curve = exact("noisy_max", {"variant": variant, "scale": 1 / 0.3}, *pair)
    truth = np.array(NOISY_MAX[variant].split(), float)
    np.testing.assert_allclose(curve.spectrum(LEVELS), truth, rtol=0, atol=5.01e-7)
    same = exact("noisy_max", {"variant": variant, "epsilon": 0.3, "monotonic": True}, *pair)
    np.testing.assert_allclose(same.spectrum(LEVELS), curve.spectrum(LEVELS), atol=1e-14)


def test_exponential_noise_leaves_outputs_to_one_law_alone():
    """Below the largest answer."""
    unequal = noisy_max_value(np.zeros(4), np.ones(4), 1 / 0.3, "exponential")
    assert unequal.delta(np.inf) == pytest.approx((1 - math.exp(-0.3)) ** 4, abs=1e-14)
    assert unequal.delta(np.inf, "reverse") == 0.0


@both_noises
def test_index_against_adaptive_quadrature(noise):
    answers, scale = np.array([0.0, 1.7, 1.7, -2.0]), 0.8
    laws = [LAWS[noise](loc=answer, scale=scale) for answer in answers]
    pmf = noisy_max_index(answers, answers, scale, noise).p
    for index, law in enumerate(laws):
        others = [other for place, other in enumerate(laws) if place != index]

        def density(t, law=law, others=others):
            return law.pdf(t) * math.prod(other.cdf(t) for other in others)

        truth = sum(
            integrate.quad(density, low, high, epsabs=1e-12)[0]
            for low, high in ((-20, -2), (-2, 0), (0, 1.7), (1.7, 6), (6, 30))
        )
        assert pmf[index] == pytest.approx(truth, abs=1e-9)


def test_far_answers():
    with np.errstate(all="raise", under="ignore", divide="ignore", invalid="ignore"):
        assert noisy_max_value([0.0, 1000.0], [0.0, 0.0], 1.0).delta(0.0) == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(noisy_max_index([0.0, 1000.0], [0.0, 0.0], 1.0).q, 0.5, atol=1e-14)
    # Different numbers of answers: values still compare, indices do not.
    assert noisy_max_value([0.0, 0.0], [0.0], 1.0).delta(0.0) > 0.1
    assert exact("noisy_max", {"variant": "NM1", "scale": 1.0}, np.zeros(2), np.zeros(3)) is None
    assert exact("noisy_max", {"variant": "NM4", "scale": 1.0}, np.zeros(2), np.zeros(3)) is not None


# Randomised response


LOCAL_LEVELS = [0.0, 0.1, 0.35, 0.8, 1.7, 4.0]


def product(laws):
    """Probabilities of all tuples of independent outcomes."""
    return np.array([math.prod(chosen) for chosen in itertools.product(*laws)])


def same_spectra(curve, other):
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(
            curve.delta(LOCAL_LEVELS, direction), other.delta(LOCAL_LEVELS, direction), rtol=0, atol=1e-14
        )


@pytest.mark.parametrize("values", [2, 3, 4])
def test_many_responses_against_enumeration(values):
    first, second, epsilon = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 0]), 0.6
    keep, other = math.exp(epsilon), 1.0

    def law(database):
        rows = [
            [(keep if value == row else other) / (keep + values - 1) for value in range(values)] for row in database
        ]
        return product(rows)

    curve = exact("randomized_response", {"epsilon": epsilon, "values": values}, first, second)
    same_spectra(curve, Discrete(law(first), law(second)))
    assert curve.epsilon(1e-300) == pytest.approx(3 * epsilon)


def test_thousands_of_responses():
    curve = randomized_response_pair(3000, epsilon=0.05)
    # The loss is a sum of 3000 terms of mean eps tanh(eps/2) and size eps: nearly normal, so nearly a Gaussian pair.
    assert curve.delta(0.0) == pytest.approx(float(GaussianShift(0.05 * math.sqrt(3000)).delta(0.0)), abs=1e-3)
    assert curve.p.sum() == pytest.approx(1.0, abs=1e-12)
    assert randomized_response_pair(0, epsilon=1.0).delta(0.0) == 0.0
    assert randomized_response_pair(2, epsilon=400.0).delta(700.0) == pytest.approx(1.0, abs=1e-12)


# RAPPOR


def test_rappor_at_its_ends():
    apart = [1] * 4 + [0] * 16, [0] * 8 + [1] * 4 + [0] * 8
    assert rappor_pair(*apart, f=0.95, one_time=True).pure() == pytest.approx(0.800668, abs=5.01e-7)
    assert rappor_pair(*apart, f=0.0, one_time=True).delta(np.inf) == 1.0
    assert rappor_pair(*apart, f=1.0).delta(0.0) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("one_time", [False, True])
def test_rappor_against_enumeration(one_time):
    first, second = [1, 1, 0, 1, 0, 0], [0, 1, 1, 0, 0, 0]
    f, p, q = 0.6, 0.3, 0.8

    def law(bits):
        permanent = [1 - f / 2 if bit else f / 2 for bit in bits]
        reported = permanent if one_time else [chance * q + (1 - chance) * p for chance in permanent]
        return product([(1 - chance, chance) for chance in reported])

    same_spectra(rappor_pair(first, second, f=f, p=p, q=q, one_time=one_time), Discrete(law(first), law(second)))


def test_rappor_builder_uses_the_filters():
    filters = [bloom_bits(value, 3, 16) for value in (5, 77)]
    curve = exact("rappor", {"hashes": 3, "bits": 16, "f": 0.5}, np.array([5]), np.array([77]))
    same_spectra(curve, rappor_pair(*filters, f=0.5))
    assert curve.delta(0.0) > 0.0


# Counts without noise


@pytest.mark.parametrize(("rows", "probability"), [(40, "0.07"), (300, "0.5"), (300, "0.93"), (5, "0.25")])
def test_noiseless_count_in_exact_arithmetic(rows, probability):
    chance, curve = Fraction(probability), noiseless_count(rows, float(probability))
    others = rows - 1
    law = [math.comb(others, s) * chance**s * (1 - chance) ** (others - s) for s in range(rows)]
    p, q = [Fraction(0), *law], [*law, Fraction(0)]
    for level in (0.0, 0.3, 1.0, 2.0):
        factor = Fraction(math.exp(level))
        for direction, (kept, inflated) in (("forward", (p, q)), ("reverse", (q, p))):
            truth = float(sum(max(a - factor * b, Fraction(0)) for a, b in zip(kept, inflated, strict=True)))
            assert curve.delta(level, direction) == pytest.approx(truth, rel=1e-10, abs=1e-300)


def test_noiseless_count_at_the_ends():
    for probability in (0.0, 1.0):
        curve = noiseless_count(7, probability)
        assert curve.delta(0.0) == curve.delta(np.inf) == 1.0
    assert noiseless_count(1, 0.5).delta(3.0) == 1.0
    large = noiseless_count(1_000_000, 0.5)
    assert large.delta(0.0) == pytest.approx(math.sqrt(2 / (math.pi * 1e6)), rel=1e-5)
    assert large.p.sum() == pytest.approx(1.0, abs=1e-12)
    # With no other row to hide it, the given one shows: probability^(rows - 1) of infinite loss.
    assert noiseless_count(4, 0.5).delta(np.inf) == pytest.approx(0.125, rel=1e-14)


def test_textbook_bound_is_loose():
    sigma, levels = gaussian_sigma(1.0, 1e-5), np.linspace(0.0, 1.2, 25)
    bound, truth = gaussian_textbook_delta(levels, sigma), GaussianShift(1 / sigma).delta(levels)
    assert (bound > truth).all()
    assert gaussian_textbook_delta(1.0, sigma) == pytest.approx(1e-5, rel=1e-12)
    assert gaussian_textbook_delta(0.0, sigma) == 1.0
    np.testing.assert_allclose(gaussian_textbook_delta(levels, 3 * sigma, 3.0), bound, rtol=1e-13)
    # The loose curve says that Laplace noise of the same level is the more private at small levels, and it is not.
    assert bound[2] > LaplaceShift(1.0).delta(levels[2]) > truth[2]
