"""Local mechanisms, and counts of random databases without noise."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    exact,
    gaussian_sigma,
    gaussian_textbook_delta,
    noiseless_count,
    randomized_response_pair,
    rappor_pair,
)

LEVELS = [0.0, 0.1, 0.35, 0.8, 1.7, 4.0]


def pure_level(curve):
    return float(np.abs(np.log(curve.p / curve.q)).max())


def product(laws):
    """Probabilities of all tuples of independent outcomes."""
    return np.array([math.prod(chosen) for chosen in itertools.product(*laws)])


def same_spectra(curve, other):
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(LEVELS, direction), other.delta(LEVELS, direction), rtol=0, atol=1e-14)


# Randomised response


@pytest.mark.parametrize(("epsilon", "values"), [(0.3, 2), (1.7, 2), (0.3, 5), (1.7, 40)])
def test_one_response(epsilon, values):
    curve = exact("randomized_response", {"epsilon": epsilon, "values": values}, np.array([0]), np.array([1]))
    grid = np.linspace(0.0, 2.0, 41)
    truth = np.maximum(0.0, (math.exp(epsilon) - np.exp(grid)) / (math.exp(epsilon) + values - 1))
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(grid, direction), truth, atol=1e-15)


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


def test_rappor_levels():
    apart = [1] * 4 + [0] * 16, [0] * 8 + [1] * 4 + [0] * 8
    assert pure_level(rappor_pair(*apart, f=0.95, one_time=True)) == pytest.approx(0.800668, abs=5.01e-7)
    # A report: h ln(q*(1 - p*) / (p*(1 - q*))), Theorem 2 of Erlingsson et al.
    high, low = 0.375 + 0.25 * 0.55, 0.375 + 0.25 * 0.45
    theorem = 4 * math.log(high * (1 - low) / (low * (1 - high)))
    assert pure_level(rappor_pair(*apart)) == pytest.approx(theorem, rel=1e-12)
    assert rappor_pair(apart[0], apart[0]).delta(0.0) == 0.0
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
    from hpcdp.mechanisms.local import bloom_bits

    filters = [bloom_bits(value, 3, 16) for value in (5, 77)]
    curve = exact("rappor", {"hashes": 3, "bits": 16, "f": 0.5}, np.array([5]), np.array([77]))
    same_spectra(curve, rappor_pair(*filters, f=0.5))
    assert curve.delta(0.0) > 0.0


# Counts without noise


def test_noiseless_count_reference():
    truth = {
        100: 0.079589, 200: 0.056348, 500: 0.035665, 1000: 0.025225, 2000: 0.017839,
        5000: 0.011283, 10000: 0.007979, 20000: 0.005642, 49000: 0.003604,
    }  # fmt: skip
    for rows, delta in truth.items():
        curve = noiseless_count(rows, 0.5)
        for direction in ("forward", "reverse"):
            assert curve.delta(0.0, direction) == pytest.approx(delta, abs=5.01e-7)
        closed = Fraction(math.comb(rows - 1, rows // 2), 2 ** (rows - 1))
        assert curve.delta(0.0) == pytest.approx(float(closed), rel=1e-12)
    values = noiseless_count(100, 0.5).delta([0.05, 0.1, 0.2, 0.5])
    np.testing.assert_allclose(values, [0.058834, 0.041837, 0.018464, 0.000599], rtol=0, atol=5.01e-7)


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


def test_noiseless_count_closed_form():
    # The likelihood ratio grows with the count: the set is {s >= s0}.
    rows, probability = 20_000, 0.2
    odds, law = probability / (1 - probability), stats.binom(rows - 1, probability)
    curve = noiseless_count(rows, probability)
    for level in (0.0, 0.01, 0.03):
        first = math.floor(rows * math.exp(level) * odds / (1 + math.exp(level) * odds)) + 1
        truth = law.sf(first - 2) - math.exp(level) * law.sf(first - 1)
        assert curve.delta(level) == pytest.approx(truth, abs=1e-12)


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


# The textbook's bound


def test_textbook_bound_is_loose():
    sigma, levels = gaussian_sigma(1.0, 1e-5), np.linspace(0.0, 1.2, 25)
    bound, truth = gaussian_textbook_delta(levels, sigma), GaussianShift(1 / sigma).delta(levels)
    assert (bound > truth).all()
    assert gaussian_textbook_delta(1.0, sigma) == pytest.approx(1e-5, rel=1e-12)
    assert gaussian_textbook_delta(0.0, sigma) == 1.0
    np.testing.assert_allclose(gaussian_textbook_delta(levels, 3 * sigma, 3.0), bound, rtol=1e-13)
    # The loose curve says that Laplace noise of the same level is the more private at small levels, and it is not.
    assert bound[2] > LaplaceShift(1.0).delta(levels[2]) > truth[2]


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noiseless_count(0, 0.5), "rows: 0 was given"),
        (lambda: noiseless_count(10, 1.5), "probability: 1.5 was given"),
        (lambda: randomized_response_pair(-1, epsilon=1.0), "differing: -1 was given"),
        (lambda: randomized_response_pair(1, epsilon=0.0), "epsilon: 0.0 was given"),
        (lambda: randomized_response_pair(1, epsilon=1.0, values=1), "values: 1 was given"),
        (lambda: rappor_pair([0, 2], [0, 1]), "first: .* zeros and ones"),
        (lambda: rappor_pair([0], [0, 1]), "second: .* as many bits as first, 1"),
        (lambda: rappor_pair([0], [1], f=1.1), "f: 1.1 was given"),
        (lambda: gaussian_textbook_delta(-1.0, 1.0), "epsilon: -1.0 was given"),
        (lambda: exact("randomized_response", {"epsilon": 1.0}, np.array([2]), np.array([1])), "database: .* 0 to 1"),
        (lambda: exact("rappor", {}, np.array([1, 2]), np.array([1])), "database: .* one integer"),
    ],
)
def test_values_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
