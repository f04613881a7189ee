"""Mechanisms that choose: exponential mechanism, report noisy max."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from hpcdp.analytic import exact, exponential_pair, exponential_pmf, noisy_max_index, noisy_max_value

LEVELS = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0]
NOISY_MAX = {
    "NM1": ".081134 .063321 .044594 .004210 0 0 0",
    "NM3": ".082227 .064469 .045801 .005545 0 0 0",
    "NM2": ".125933 .114045 .103768 .087017 .074077 .054776 .013614",
    "NM4": ".125933 .114045 .103768 .087017 .074077 .055744 .032149",
}
LAWS = {"laplace": stats.laplace, "exponential": stats.expon}
both_noises = pytest.mark.parametrize("noise", ["laplace", "exponential"])


def pure_level(curve):
    return float(np.abs(np.log(curve.p / curve.q)).max())


# Exponential mechanism


def test_exponential_mechanism_reference():
    parameters = {"outcomes": [0, 1, 2], "epsilon": 2.0}
    databases = [np.array(rows) for rows in ([0, 1, 1], [0, 1], [1, 1])]
    grid = [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    curve = exact("exponential", parameters, databases[0], databases[1])
    forward = [0.242922, 0.198507, 0.149420, 0.095170, 0.035215, 0.0]
    reverse = [0.242922, 0.207715, 0.168806, 0.125804, 0.078279, 0.025757]
    np.testing.assert_allclose(curve.delta(grid), forward, rtol=0, atol=5.01e-7)
    np.testing.assert_allclose(curve.delta(grid, "reverse"), reverse, rtol=0, atol=5.01e-7)
    other = exact("exponential", parameters, databases[0], databases[2])
    assert pure_level(other) == pytest.approx(0.8319, abs=5.01e-5)
    truth = [0.242922, 0.207715, 0.168806, 0.125804, 0.085839, 0.069128, 0.050660, 0.030250]
    both = np.maximum(curve.spectrum(np.arange(8) / 10), other.spectrum(np.arange(8) / 10))
    np.testing.assert_allclose(both, truth, rtol=0, atol=5.01e-7)
    two = exact("exponential", {**parameters, "outcomes": [0, 1]}, databases[0], databases[1])
    assert two.delta(0.0) == pytest.approx(0.231059, abs=5.01e-7)


def test_exponential_scores_scale():
    np.testing.assert_allclose(exponential_pmf([0.0, 2.0, 1.0], 3.0, 1.5), np.exp([0, 2, 1]) / np.exp([0, 2, 1]).sum())
    assert exponential_pmf([0.0, 5000.0], 1.0)[1] == 1.0
    pair = exponential_pair([3, 1], [1, 3], epsilon=1.0, sensitivity=2.0)
    assert pure_level(pair) == pytest.approx(0.5)  # a change by the full sensitivity both ways attains epsilon / 2 here


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


def test_noisy_max_levels():
    first, second = np.array([1.0] * 4 + [0.0] * 3), np.zeros(7)
    for noise, level in (("laplace", 0.209873), ("exponential", 0.213022)):
        assert pure_level(noisy_max_index(first, second, 1 / 0.3, noise)) == pytest.approx(level, abs=5.01e-7)
    value = noisy_max_value(np.zeros(4), np.ones(4), 1 / 0.3)
    assert value.delta(0.3) == pytest.approx(0.074077, abs=5.01e-7)
    assert value.delta(0.3, "reverse") == pytest.approx(0.0, abs=1e-12)  # the loss lies between -.3 and 4 times .3
    assert value.delta(1.2) == pytest.approx(0.0, abs=1e-12)
    assert value.delta(1.19) > 1e-6
    # Exponential noise: below the largest answer only one law has mass.
    unequal = noisy_max_value(np.zeros(4), np.ones(4), 1 / 0.3, "exponential")
    assert unequal.delta(np.inf) == pytest.approx((1 - math.exp(-0.3)) ** 4, abs=1e-14)
    assert unequal.delta(50.0) == pytest.approx(0.004513, abs=5.01e-7)
    assert unequal.delta(np.inf, "reverse") == 0.0


def test_noisy_max_patterns():
    # Six queries at scale 2/epsilon: the best pattern, and the levels when j of the zeros become ones.
    ones, below = np.ones(6), np.array([0.0, 2, 2, 2, 2, 2])
    for epsilon, level in ((0.2, 0.195707), (0.7, 0.692689), (1.5, 1.492237)):
        assert pure_level(noisy_max_index(ones, below, 2 / epsilon)) == pytest.approx(level, abs=5.01e-7)
    levels = [pure_level(noisy_max_index(np.zeros(6), np.arange(6) < j, 2 / 1.5)) for j in range(1, 7)]
    np.testing.assert_allclose(levels, [0.6589, 0.4865, 0.5173, 0.6378, 0.742604, 0.0], atol=5.01e-5)
    assert levels[4] == pytest.approx(0.742604, abs=5.01e-7)


def test_two_queries_closed_form():
    for gap in (0.0, 0.4, 3.0, 30.0):
        laplace = noisy_max_index([gap, 0.0], [0.0, gap], 1.0)
        assert laplace.p[1] == pytest.approx(0.5 * math.exp(-gap) * (1 + gap / 2), rel=1e-12)
        exponential = noisy_max_index([gap, 0.0], [0.0, gap], 1.0, "exponential")
        assert exponential.p[1] == pytest.approx(0.5 * math.exp(-gap), rel=1e-12)
        np.testing.assert_array_equal(laplace.p, laplace.q[::-1])


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


@both_noises
def test_value_loss_identity(noise):
    first, second, scale = np.array([0.0, 1.5, 0.5]), np.array([0.4, 0.1, -0.6]), 0.7
    law = LAWS[noise](scale=scale)
    draws = (first + law.rvs((200_000, 3), random_state=np.random.default_rng(3))).max(axis=1)

    def density(answers):
        gaps = draws[:, None] - answers
        cdf = law.cdf(gaps)
        return sum(law.pdf(gaps[:, i]) * np.delete(cdf, i, axis=1).prod(axis=1) for i in range(3))

    with np.errstate(divide="ignore"):
        loss = np.log(density(first)) - np.log(density(second))
    curve = noisy_max_value(first, second, scale, noise)
    for level in (0.0, 0.2, 0.5):
        terms = np.maximum(0.0, -np.expm1(level - loss))
        assert abs(terms.mean() - curve.delta(level)) < 5.5 * terms.std() / math.sqrt(terms.size)


def test_far_answers():
    with np.errstate(all="raise", under="ignore", divide="ignore", invalid="ignore"):
        assert noisy_max_value([0.0, 1000.0], [0.0, 0.0], 1.0).delta(0.0) == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(noisy_max_index([0.0, 1000.0], [0.0, 0.0], 1.0).q, 0.5, atol=1e-14)
    # Different numbers of answers: values still compare, indices do not.
    assert noisy_max_value([0.0, 0.0], [0.0], 1.0).delta(0.0) > 0.1
    assert exact("noisy_max", {"variant": "NM1", "scale": 1.0}, np.zeros(2), np.zeros(3)) is None
    assert exact("noisy_max", {"variant": "NM4", "scale": 1.0}, np.zeros(2), np.zeros(3)) is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noisy_max_index([1.0], [1.0, 2.0], 1.0), "second: .* as many answers as first, 1"),
        (lambda: noisy_max_index([1.0], [np.inf], 1.0), "second: .* finite numbers"),
        (lambda: noisy_max_value([], [1.0], 1.0), "first: "),
        (lambda: noisy_max_value([1.0], [1.0], 0.0), "scale: 0.0 was given"),
        (lambda: noisy_max_value([1.0], [1.0], 1.0, "normal"), "noise: 'normal' was given"),
        (lambda: exponential_pmf([], 1.0), "scores: "),
        (lambda: exponential_pmf([1.0], -1.0), "epsilon: -1.0 was given"),
        (lambda: exact("noisy_max", {"variant": "NM5", "epsilon": 1.0}, np.zeros(2), np.zeros(2)), "variant: 'NM5'"),
        (lambda: exact("exponential", {"outcomes": [1]}, np.zeros(2), np.zeros(2)), "parameters of exponential"),
    ],
)
def test_values_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
