"""Exact curves keep their digits where delta is 1e-7, 1e-10 and less: against 50 digits of other formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tiny_truths as tiny
from mpmath import mp, mpf

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    NormalMixture,
    Reversed,
    Subsampled,
    geometric_sum_pair,
    geometric_sum_pmf,
    threshold_release_pair,
    toy_dpsgd_pair,
)

NEEDED = 1e-6  # of delta
UNIT = 2.0**-53
ROUNDINGS = 8.0  # of numbers of the size of the level, which delta's slope enlarges, and of delta itself
QUADRATURE = 1e-12
TINY = (1e-7, 1e-10, 1e-15)
BOTH = ("forward", "reverse")
TEN_STEPS = tiny.steps(10, mpf(0.2), mpf(0.2), mpf(1), 5, 10)
THIRD = 1.0 / 3.0
LAWS = {
    "gaussian 1/4": (GaussianShift(0.25), tiny.by_quadrature([0.25], [1.0]), BOTH, (*TINY, 1e-30)),
    "gaussian 1": (GaussianShift(1.0), tiny.by_quadrature([1.0], [1.0]), BOTH, (*TINY, 1e-30)),
    "gaussian far": (GaussianShift(1.0), tiny.by_error_functions([mpf(1)], [mpf(1)]), BOTH, (1e-40, 1e-100, 1e-300)),
    "two sides": (NormalMixture([-1.0, 1.0], [0.5, 0.5]), tiny.by_quadrature([-1, 1], [0.5, 0.5]), BOTH, TINY),
    "two near sides": (
        NormalMixture([-0.25, 0.25], [0.5, 0.5]),
        tiny.by_quadrature([-0.25, 0.25], [0.5, 0.5]),
        BOTH,
        TINY[:2],
    ),
    "mixture": (
        NormalMixture([-2.0, 0.0, 0.5, 3.0], [0.125, 0.25, 0.5, 0.125]),
        tiny.by_quadrature([-2, 0, 0.5, 3], [0.125, 0.25, 0.5, 0.125]),
        BOTH,
        TINY,
    ),
    "one side": (NormalMixture([0.5, 3.0], [0.75, 0.25]), tiny.by_quadrature([0.5, 3], [0.75, 0.25]), BOTH, TINY),
    "other side": (NormalMixture([-3.0, -0.5], [0.25, 0.75]), tiny.by_quadrature([-3, -0.5], [0.25, 0.75]), BOTH, TINY),
    "toy dp-sgd": (toy_dpsgd_pair(), TEN_STEPS, BOTH, TINY),
    "subsampled 1/128": (
        Subsampled(GaussianShift(1.0), 2.0**-7),
        tiny.by_quadrature([0.0, 1.0], [1 - 2.0**-7, 2.0**-7]),
        BOTH,
        TINY,
    ),
    "subsampled 1/2": (Subsampled(GaussianShift(0.5), 0.5), tiny.by_quadrature([0, 0.5], [0.5, 0.5]), BOTH, TINY),
    "geometric sum": (geometric_sum_pair(1, 0, epsilon=0.5, terms=3), tiny.geometric_sums(0.5, 3), BOTH[:1], TINY),
    "geometric sum 1": (geometric_sum_pair(8, 7, epsilon=1.0, terms=3), tiny.geometric_sums(1.0, 3), BOTH[:1], TINY),
    "three columns": (LaplaceVector([THIRD] * 3), tiny.laplace_columns([THIRD] * 3), BOTH, TINY[:2]),
    "uneven columns": (LaplaceVector([1.0, 0.5, 0.25]), tiny.laplace_columns([1.0, 0.5, 0.25]), BOTH, TINY[:2]),
    "one column": (LaplaceShift(1.0), tiny.laplace_columns([1.0]), BOTH, TINY[:2]),
    "one of three": (LaplaceVector([0.0, 1.0, 0.0]), tiny.laplace_columns([1.0]), BOTH, TINY[:2]),
}
CASES = [
    pytest.param(
        curve,
        truth,
        direction,
        delta,
        id=f"{name} {direction} {delta:g}",
        marks=[pytest.mark.slow] * (name == "toy dp-sgd" and direction == "reverse"),
    )
    for name, (curve, truth, directions, deltas) in LAWS.items()
    for direction in directions
    for delta in deltas
]


@pytest.mark.few
@pytest.mark.parametrize("curve, truth, direction, delta", CASES)
def test_tiny_delta_and_its_level(curve, truth, direction, delta):
    level = float(curve.epsilon(delta, direction))
    found, exact = float(curve.delta(level, direction)), truth(mpf(level), direction == "forward")
    # A float is no nearer to a level than its unit; how much of delta that is says its slope.
    step = max(level, 1.0) * UNIT
    apart = (1e6 if delta >= 1e-10 else 1e3) * step
    slope = abs(math.log(float(curve.delta(level - apart, direction)) / found)) / apart
    limit = QUADRATURE + ROUNDINGS * UNIT * (1.0 + max(level, 1.0) * slope)
    if delta in (1e-7, 1e-10):
        limit = min(limit, NEEDED)
    assert abs(float(mpf(found) / exact - 1)) <= limit
    assert abs(float(exact / mpf(delta) - 1)) <= limit


@pytest.mark.parametrize("noise", [{"sigma": 1.0}, {"scale": 1.0}, {"sigma": 0.5}])
def test_release_above_a_threshold(noise):
    (spread,) = noise.values()
    far = mpf(6.5 if "sigma" in noise else 22.5)
    curve = threshold_release_pair(1, 1 + float(far) * spread, **noise)
    chance = tiny.above(far) if "sigma" in noise else mp.exp(-far) / 2
    truth = tiny.release(chance)
    assert 1e-11 < chance < 1e-9
    rounding = 4.0 * UNIT * float(far) ** 2  # of the exponent
    for level in (0.0, 1e-12, 0.25 * float(chance), 0.75 * float(chance), 1e-3, 1.0, 50.0):
        for direction in BOTH:
            exact = truth(mpf(level), direction == "forward")
            assert float(curve.delta(level, direction)) == pytest.approx(
                float(exact), rel=1e-15, abs=rounding * float(chance)
            )
        assert curve.delta(level) == Reversed(curve).delta(level, "reverse")
    assert curve.epsilon(0.5 * float(chance)) == np.inf
    reverse = float(curve.epsilon(0.5 * float(chance), "reverse"))
    assert float(truth(mpf(reverse), False)) == pytest.approx(0.5 * float(chance), rel=1e-12)
    likely = threshold_release_pair(1, 1 - float(far) * spread, **noise)
    assert float(likely.p[0]) == pytest.approx(float(chance), rel=rounding, abs=0.0)


def test_atoms_of_nearly_all_the_mass_lose_no_digits():
    rare = np.array([1e-10, 3e-11])
    curve = Discrete([1.0 - rare[0], rare[0]], [1.0 - rare[1], rare[1]])
    for level in (0.0, 1e-11, 5e-11):
        reverse = mpf(rare[0]) * mp.exp(level) - mpf(rare[1]) - mp.expm1(level)
        assert float(curve.delta(level, "reverse")) == pytest.approx(float(reverse), rel=1e-14, abs=0.0)
        forward = mpf(rare[0]) - mp.exp(level) * mpf(rare[1])
        assert float(curve.delta(level)) == pytest.approx(float(forward), rel=1e-14, abs=0.0)


@pytest.mark.parametrize("terms", [1, 3, 7])
def test_geometric_sums_are_convolutions(terms):
    one = geometric_sum_pmf(np.arange(80), 0.75)
    whole = np.ones(1)
    for _ in range(terms):
        whole = np.convolve(whole, one)[:80]
    np.testing.assert_allclose(geometric_sum_pmf(np.arange(80), 0.75, terms), whole, rtol=1e-13)
    assert geometric_sum_pmf(-1, 0.75, terms) == 0.0


def test_geometric_sum_pair():
    curve, swapped = (geometric_sum_pair(*pair, epsilon=0.5, terms=3) for pair in ((5, 4), (4, 5)))
    np.testing.assert_array_equal(curve.delta([0.1, 0.4]), swapped.delta([0.1, 0.4], "reverse"))
    # The smaller count alone gives the smallest output.
    assert curve.delta(np.inf, "reverse") == pytest.approx((1.0 - math.exp(-0.5)) ** 3, rel=1e-15)
    assert curve.delta(0.5) == 0.0
    assert curve.delta(0.4999) < 1e-30
    single = geometric_sum_pair(0, 1, epsilon=0.5)
    # All but the smallest output has the same loss: e^-1/2 (1 - e^(1/4 - 1/2)) of mass where the larger count is likelier.
    assert single.delta(0.25, "reverse") == pytest.approx(-math.expm1(-0.25), rel=1e-14)
