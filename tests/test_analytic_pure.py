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
