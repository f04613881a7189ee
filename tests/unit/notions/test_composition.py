"""Composition of spectra against exact truths, and of levels against the reference numbers."""

from __future__ import annotations

import numpy as np
import pytest
from results import measured, unmeasured

import hpcdp
from hpcdp.analytic import ApproximateDP, Discrete, GaussianShift, LaplaceShift
from hpcdp.results.composition import (
    Spectrum,
    advanced_epsilon,
    basic_epsilon,
    laplace_mean_loss,
    mean_loss_epsilon,
    parallel,
    post_process,
    sequential,
    tight_mean_loss,
    union,
)

GRID = np.linspace(0.0, 2.0, 9)
FINE = np.linspace(0.0, 3.0, 301)
P, Q = np.array([0.5, 0.3, 0.15, 0.05, 0.0]), np.array([0.2, 0.25, 0.3, 0.15, 0.1])
CURVES = {
    "laplace": LaplaceShift(1.0),
    "gaussian": GaussianShift(0.9),
    "dp": ApproximateDP(0.8, 0.01),
    "lopsided": Discrete(P, Q),
}
ROUNDING = 1e-14


def spectrum(epsilon, delta, lower, upper, confidence=0.95):
    return Spectrum(np.array(epsilon), np.array(delta), np.array(lower), np.array(upper), confidence)


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
@pytest.mark.parametrize("grid", [GRID, GRID + 0.3, np.array([0.7])], ids=["from 0", "from 0.3", "one level"])
def test_other_levels_are_on_the_safe_side(curve, grid):
    known = Spectrum.exact(curve, grid)
    there, truth = known.at(FINE), curve.spectrum(FINE)
    assert (there.upper >= truth - ROUNDING).all()
    assert (there.lower <= truth + ROUNDING).all()
    same = known.at(grid)
    for name in ("delta", "lower", "upper"):
        np.testing.assert_array_equal(getattr(same, name), getattr(known, name))


def test_a_level_far_below_or_above_is_no_overflow():
    known = spectrum([500.0], [0.5], [0.4], [0.6]).at([0.0, 500.0, 1e6])
    np.testing.assert_array_equal(known.upper, [1.0, 0.6, 0.6])
    np.testing.assert_array_equal(known.lower, [0.4, 0.4, 0.0])


@pytest.mark.parametrize("join", [union, parallel])
def test_the_largest_part(join):
    parts = [Spectrum.exact(curve, GRID) for curve in CURVES.values()]
    whole = join(*parts)
    truth = np.max([curve.spectrum(GRID) for curve in CURVES.values()], axis=0)
    for name in ("delta", "lower", "upper"):
        np.testing.assert_array_equal(getattr(whole, name), truth)
    assert (whole.confidence, whole.is_bound) == (1.0, False)


def test_parallel_blocks_against_the_product_law():
    # neighbours that differ in the first block: the second block's law is the same in both
    other = np.array([0.7, 0.3])
    product = Discrete(np.outer(P, other).ravel(), np.outer(Q, other).ravel())
    whole = parallel(Spectrum.exact(Discrete(P, Q), GRID), Spectrum.exact(Discrete([1.0], [1.0]), GRID))
    np.testing.assert_allclose(whole.delta, product.spectrum(GRID), atol=1e-15)


def test_bounds_and_confidence_are_carried_along():
    a = spectrum([0.0, 1.0], [0.5, 0.2], [0.4, 0.1], [0.6, 0.3], 0.95)
    b = spectrum([0.0, 0.5], [0.45, 0.3], [0.43, 0.25], [0.47, 0.35], 0.9)
    whole = union(a, b)
    np.testing.assert_array_equal(whole.epsilon, [0.0, 0.5, 1.0])
    assert whole.confidence == pytest.approx(0.85, abs=1e-15)
    np.testing.assert_array_equal(whole.lower[[0, 1]], [0.43, 0.25])
    np.testing.assert_array_equal(whole.upper[[0, 2]], [0.6, 0.35])  # beyond its last level b may stay at 0.35
    together = sequential(a, b)
    np.testing.assert_array_equal(together.lower, whole.lower)
    assert together.confidence == whole.confidence
    assert together.is_bound
    assert together.upper[0] == 1.0  # 0.6 + 0.47
    assert union(*[spectrum([0.0], [0.5], [0.4], [0.6], 0.5)] * 3).confidence == 0.0


def joint(first, second):
    """The exact pair of two independent discrete mechanisms on the same databases."""
    return Discrete(*(np.outer(a, b).ravel() for a, b in zip(first, second, strict=True)))


@pytest.mark.parametrize("pairs", [((P, Q), (P, Q)), ((P, Q), (Q, P)), (([0.6, 0.4], [0.4, 0.6]), (P, Q))])
def test_sequential_bound_is_above_the_exact_product(pairs):
    parts = [Spectrum.exact(Discrete(*pair), GRID) for pair in pairs]
    whole = sequential(*parts, epsilon=FINE)
    truth = joint(*pairs).spectrum(FINE)
    assert (whole.upper >= truth - ROUNDING).all()
    assert (whole.lower <= truth + ROUNDING).all()
    np.testing.assert_array_equal(whole.upper, whole.delta)


def test_sequential_is_the_least_sum_over_the_levels():
    grid = np.array([0.0, 0.1, 0.2, 0.3])  # 0.1 + 0.2 is not 0.3 in binary
    first, second = GaussianShift(1.0), LaplaceShift(0.4)
    whole = sequential(Spectrum.exact(first, grid), Spectrum.exact(second, grid))
    a, b = first.spectrum(grid), second.spectrum(grid)
    for place in range(grid.size):
        least = min(a[i] + b[place - i] for i in range(place + 1))
        assert whole.upper[place] == pytest.approx(least, rel=1e-12)
    one = Spectrum.exact(first, grid)
    assert not sequential(one).is_bound
    np.testing.assert_array_equal(sequential(one).delta, one.delta)


def test_post_processing_keeps_upper_limits_only():
    known = Spectrum.exact(LaplaceShift(1.0), GRID)
    found = post_process(known)
    np.testing.assert_array_equal(found.upper, known.upper)
    np.testing.assert_array_equal(found.lower, 0.0)
    assert found.is_bound


def test_of_a_result():
    result = measured(
        "laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=11, train=20_000, test=20_000, epsilons=[1.0, 0.0, 0.5]
    )
    found = Spectrum.of(result)
    np.testing.assert_array_equal(found.epsilon, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(found.lower, [row["lower"] for row in result.spectrum()])
    assert found.confidence == 0.95
    truth = LaplaceShift(1.0).spectrum(found.epsilon)
    whole = hpcdp.union(found, hpcdp.Spectrum.exact(LaplaceShift(0.5), found.epsilon))
    assert (whole.lower <= truth).all()
    assert whole.confidence == pytest.approx(0.95)
    with pytest.raises(ValueError, match="not complete"):
        Spectrum.of(unmeasured(result.study))


REFERENCE = {
    (0.1, 100): (10, 5.850, 5.282),
    (0.5, 300): (150, 138.865, 73.516),
    (1.0, 300): (300, 598.597, 193.477),
}


@pytest.mark.parametrize(("case", "numbers"), REFERENCE.items(), ids=str)
def test_reference_levels(case, numbers):
    epsilon, count = case
    found = (
        basic_epsilon(epsilon, count),
        advanced_epsilon(epsilon, count, 1e-5),
        mean_loss_epsilon(epsilon, count, 1e-5, laplace_mean_loss),
    )
    np.testing.assert_allclose(found, numbers, atol=5.01e-4)
    # a mean loss that every private mechanism obeys is at least that of Laplace noise, and below ε²/2
    assert laplace_mean_loss(epsilon) <= tight_mean_loss(epsilon) <= epsilon**2 / 2
    assert mean_loss_epsilon(epsilon, count, 1e-5) >= found[2]


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
def test_mean_losses_are_those_of_the_mechanisms(epsilon):
    keep = np.exp(epsilon) / (1 + np.exp(epsilon))
    assert tight_mean_loss(epsilon) == pytest.approx(epsilon * (2 * keep - 1), rel=1e-13)
    # Laplace noise, P at 0 and Q at 1: the loss is ε on o < 0, ε(1 − 2o) on [0, 1], −ε beyond
    o = (np.arange(200_000) + 0.5) / 200_000
    middle = np.mean(epsilon * (1 - 2 * o) * 0.5 * epsilon * np.exp(-epsilon * o))
    assert laplace_mean_loss(epsilon) == pytest.approx(
        0.5 * epsilon + middle - 0.5 * epsilon * np.exp(-epsilon), rel=1e-8
    )


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: union(), ["a union", "at least one"]),
        (lambda: sequential(), ["a sequential composition", "at least one"]),
        (lambda: spectrum([0.0, 0.0], [0.1] * 2, [0.1] * 2, [0.1] * 2), ["epsilon", "strictly increasing"]),
        (lambda: spectrum([0.0, 1.0], [0.1], [0.1] * 2, [0.1] * 2), ["shape of delta"]),
        (lambda: spectrum([0.0], [1.1], [0.1], [0.1]), ["delta: 1.1"]),
        (lambda: spectrum([0.0], [0.1], [np.nan], [0.1]), ["lower: nan"]),
        (lambda: spectrum([0.0], [0.1], [0.1], [0.1], 1.5), ["confidence: 1.5"]),
        (lambda: basic_epsilon(-1.0, 2), ["epsilon: -1.0"]),
        (lambda: basic_epsilon(1.0, 0), ["count: 0"]),
        (lambda: advanced_epsilon(1.0, 2, 0.0), ["delta: 0.0", "above 0 and below 1"]),
        (lambda: sequential(spectrum([0.0], [0.1], [0.1], [0.1]), epsilon=[-1.0]), ["epsilon: -1.0"]),
        (lambda: sequential(*[spectrum([0.0], [0.1], [0.1], [0.1])] * 2, epsilon=1.0), ["epsilon: 1.0", "sequence"]),
        (lambda: sequential(spectrum([0.0], [0.1], [0.1], [0.1]), epsilon=[1.0, 0.5]), ["strictly increasing"]),
        (lambda: spectrum([0.0], [0.1], [0.1], [0.1]).at(1.0), ["epsilon: 1.0", "sequence"]),
    ],
)
def test_refusals(make, parts):
    with pytest.raises(ValueError, match="was given; accepted: ") as caught:
        make()
    for part in parts:
        assert part in str(caught.value)
