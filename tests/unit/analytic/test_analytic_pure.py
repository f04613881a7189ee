"""Pure levels of exact pairs, and the exact pair of the exponential mechanism for one number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    Reversed,
    Symmetrised,
    exact,
    exponential_real_pair,
)
from hpcdp.analytic.densities import exact_log_density
from hpcdp.mechanisms.exponential_real import exponential_level, exponential_rate


def level(name, parameters, d, d_prime):
    return exact(name, parameters, np.array(d, float), np.array(d_prime, float)).pure()


@pytest.mark.parametrize(("epsilon", "rate"), [(0.2, 0.1158341), (0.7, 0.5416625), (1.5, 1.3992280)])
def test_rate_and_level_over_the_interval(epsilon, rate):
    assert exponential_rate(epsilon, None, 1.0, 2.0) == pytest.approx(rate, abs=5.1e-8)
    assert level("exponential_real", {"epsilon": epsilon}, [1.0], [2.0]) == pytest.approx(epsilon, abs=1e-12)
    assert level("exponential_real", {"epsilon": epsilon}, [1.2], [1.7]) < epsilon


def test_exact_pair_for_one_number():
    rate, s, other = 0.83, 1.15, 1.9
    pair = exponential_real_pair(s, other, rate)
    assert pair.pure() == pytest.approx(exponential_level(rate, s, other), abs=1e-12)
    t = (np.arange(4_000_000) + 0.5) * 2e-5  # up to 80, by midpoints
    p, q = (rate * np.exp(-rate * np.abs(v - t)) / (2.0 - math.exp(-rate * v)) for v in (s, other))
    for epsilon in (0.0, 0.2, 0.6):
        forward = np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * 2e-5
        reverse = np.maximum(q - math.exp(epsilon) * p, 0.0).sum() * 2e-5
        assert pair.delta(epsilon) == pytest.approx(forward, abs=1e-8)
        assert pair.delta(epsilon, "reverse") == pytest.approx(reverse, abs=1e-8)


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


def test_pure_levels_of_published_patterns():
    # report noisy max from 0⁶, as in Fig. 5 of Askin, Kutta and Dette (2022), and patterns of their Section V
    zero = np.zeros(6)
    found = [level("noisy_max", {"variant": "NM1", "epsilon": 1.5}, zero, [1] * j + [0] * (6 - j)) for j in range(1, 7)]
    assert found == pytest.approx([0.6589, 0.4865, 0.5173, 0.6378, 0.742604, 0.0], abs=6e-5)
    assert found[4] == pytest.approx(0.742604, abs=6e-7)
    for epsilon, truth in ((0.2, 0.195707), (0.7, 0.692689), (1.5, 1.492237)):
        one = level("noisy_max", {"variant": "NM1", "epsilon": epsilon}, [1] * 6, [0, 2, 2, 2, 2, 2])
        assert one == pytest.approx(truth, abs=6e-7)
    # the largest of three noisy answers: k·λ, and half of it from the middle
    assert level("noisy_max", {"variant": "NM2", "scale": 2.0}, [0.0] * 3, [1.0] * 3) == pytest.approx(1.5, abs=1e-9)
    assert level("noisy_max", {"variant": "NM2", "scale": 2.0}, [0.5] * 3, [1.0] * 3) == pytest.approx(0.75, abs=1e-9)
    half = [2.0] * 5 + [0.0] * 5
    for epsilon, truth in ((0.2, 0.17726), (0.7, 0.63207), (1.5, 1.38313)):
        found = level("sparse_vector", {"variant": 2, "epsilon": epsilon, "threshold": 1.0}, [1.0] * 10, half)
        assert found == pytest.approx(truth, abs=6e-6)
    assert level("sparse_vector", {"variant": 6, "epsilon": 0.7, "threshold": 1.0}, [1.0] * 10, half) == pytest.approx(
        3.0918, abs=6e-5
    )
    assert level("sparse_vector", {"variant": 5, "epsilon": 0.7, "threshold": 1.0}, [1.0] * 10, half) == math.inf


REALS, WHOLE = (np.arange(-400_000, 400_000) + 0.5) * 1e-4, np.arange(3)
LAWS = [
    ("laplace", {"epsilon": 0.9}, [0.2], [1.1], REALS),
    ("gaussian", {"sigma": 1.3}, [0.2], [1.1], REALS),
    ("bounded_sum", {"lower": 0.0, "upper": 2.0, "epsilon": 1.1}, [0.5, 3.0], [0.5], REALS),
    (
        "bounded_mean",
        {"lower": 0.0, "upper": 2.0, "count": 2, "epsilon": 1.0, "delta": 1e-2, "noise": "gaussian"},
        [0.5, 3.0],
        [0.5],
        REALS,
    ),
    ("exponential_real", {"epsilon": 1.2}, [1.0], [1.8], REALS),
    ("truncated", {"scale": 0.6, "lower": -1.0, "upper": 2.0}, [0.2], [1.1], REALS),
    ("truncated", {"scale": 0.6, "noise": "gaussian"}, [0.2], [1.0], REALS),
    ("noisy_max", {"variant": "NM2", "scale": 1.5}, [0.0, 0.0, 1.0], [1.0, 0.0, 0.5], REALS),
    ("noisy_max", {"variant": "NM4", "scale": 1.5}, [0.0, 0.0, 1.0], [1.0, 0.5, 0.5], REALS),
    ("noisy_max", {"variant": "NM1", "epsilon": 0.9}, [0.0, 0.0, 1.0], [1.0, 0.0, 0.5], WHOLE),
    ("randomized_response", {"epsilon": 0.7, "values": 3}, [1], [2], WHOLE),
    ("pmf", {"outcomes": [0, 1, 2], "table": [[0.2, 0.8, 0.0], [0.5, 0.2, 0.3]]}, [0], [1], WHOLE),
]


@pytest.mark.parametrize(("name", "parameters", "d", "d_prime", "outputs"), LAWS)
def test_log_densities_are_those_of_the_exact_pair(name, parameters, d, d_prime, outputs):
    # sums over midpoints of 1e-4, or over all values
    width = 1e-4 if outputs is REALS else 1.0
    p, q = (np.exp(exact_log_density(name, parameters, np.array(v))(outputs)) * width for v in (d, d_prime))
    assert [p.sum(), q.sum()] == pytest.approx([1.0, 1.0], abs=2e-4)
    curve = exact(name, parameters, np.array(d), np.array(d_prime))
    for epsilon in (0.0, 0.4):
        assert np.maximum(p - math.exp(epsilon) * q, 0.0).sum() == pytest.approx(float(curve.delta(epsilon)), abs=2e-4)


def test_log_densities_of_what_has_none():
    assert exact_log_density("laplace", {"epsilon": 1.0}, np.zeros(2)) is None
    assert exact_log_density("gaussian", {"sigma": 1.0}, np.zeros((1, 2))) is None
    assert exact_log_density("randomized_response", {"epsilon": 1.0}, np.zeros(2)) is None
    assert exact_log_density("own:code", {}, np.zeros(1)) is None


@pytest.mark.parametrize(
    ("noise", "scale", "divergence"),
    [
        ("laplace", 1.5, 0.142989),
        ("laplace", 2.0, 0.081657),
        ("laplace", 3.0, 0.036700),
        ("laplace", 5.0, 0.013289),
        ("gaussian", 1.5, 0.016154),
        ("gaussian", 2.0, 0.005158),
        ("gaussian", 3.0, 0.001025),
        ("gaussian", 5.0, 0.000133),
    ],
)
def test_truncated_noise(noise, scale, divergence):
    pair = exact("truncated", {"scale": scale, "noise": noise}, np.array([0.0]), np.array([1.0]))
    assert pair.renyi(2.0) == pytest.approx(divergence, abs=1e-6)
    assert pair.pure() == pytest.approx(1.0 / scale if noise == "laplace" else 0.5 / scale**2, abs=1e-12)
    t = (np.arange(100_000) + 0.5) * 1e-5
    z = np.stack([t, 1.0 - t]) / scale
    p, q = (w / w.sum() for w in np.exp(-z if noise == "laplace" else -0.5 * z * z))
    for epsilon in (0.0, 0.01, 0.1):
        assert pair.delta(epsilon) == pytest.approx(np.maximum(p - math.exp(epsilon) * q, 0.0).sum(), abs=1e-8)
