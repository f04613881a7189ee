"""What a plan says of a target before anything is drawn, against exact rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from studies import make_study

from hpcdp.analytic import GaussianShift, LaplaceShift
from hpcdp.driver.plan import plan
from hpcdp.methods.sample_split.targets import draws_needed, foresee, rates_of


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 3.0), (0.3, 0.7), (2.0, 0.0)])
def test_rates_of_normal_noise(mu, epsilon):
    a, b = rates_of(GaussianShift(mu).spectrum, epsilon)
    assert a == pytest.approx(ndtr(mu / 2 - epsilon / mu), rel=1e-3)
    assert b == pytest.approx(ndtr(-mu / 2 - epsilon / mu), rel=1e-3)


def test_rates_of_laplace_noise():
    # L > ε on a half-line that has P = 1 − e^((ε − 1)/2)/2 and Q = e^(−(1 + ε)/2)/2
    a, b = rates_of(LaplaceShift(1.0).spectrum, 0.4)
    assert a == pytest.approx(1 - math.exp(-0.3) / 2, rel=1e-4)
    assert b == pytest.approx(math.exp(-0.7) / 2, rel=1e-4)


def study_with(claim=None, **target):
    study = make_study(
        "gaussian",
        {"sigma": 1.0},
        [([0.0], [1.0])],
        seed=1,
        train=1000,
        epsilons=[0.0, 1.0, 3.0, 12.0],
        keep="none",
        target=target,
    )
    return study.model_copy(update={"study": study.study.model_copy(update={"claim": claim})})


def test_draws_give_the_error_that_is_asked_for():
    study = study_with("gaussian(mu=1)", epsilon=3.0, relative_error=0.05)
    words, draws = foresee(study)
    assert "gaussian(mu=1)" in words
    a, b, delta = ndtr(-2.5), ndtr(-3.5), float(GaussianShift(1.0).delta(3.0))
    error = math.sqrt((a * (1 - a) + math.exp(6.0) * b * (1 - b)) / draws)
    assert error == pytest.approx(0.05 * delta, rel=1e-3)
    by_delta, draws_by_delta = foresee(study_with("gaussian(mu=1)", delta=1e-3, relative_error=0.05))
    assert (by_delta, draws_by_delta) == (words, draws), "the last ε of the grid with δ of 10⁻³ is 3"
    assert foresee(study_with(epsilon=3.0)) is None


@pytest.mark.slow
def test_a_delta_takes_a_least_number():
    words, least = foresee(study_with(delta=1e-6, relative_error=0.1))
    assert "at least" in words
    for mu in np.linspace(0.2, 3.0, 8):
        curve = GaussianShift(mu)
        epsilon = next(e for e in np.linspace(0.0, 40.0, 40001) if float(curve.delta(e)) < 1e-6)
        target = study_with(delta=1e-6, relative_error=0.1).estimate.target
        assert draws_needed(target, epsilon, rates_of(curve.spectrum, epsilon)) > least


def test_plans_say_it():
    assert "at most 1.0e+11 test draws per database" in " ".join(str(plan(study_with(epsilon=3.0), 2)).split())
    text = " ".join(str(plan(study_with("gaussian(mu=1)", epsilon=12.0), 2)).split())
    assert "raise target.most" in text
    assert "δ is 0" in " ".join(str(plan(study_with("dp(epsilon=2)", epsilon=3.0), 2)).split())
