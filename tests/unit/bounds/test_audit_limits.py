"""Limits of an audit's errors, what they leave of a claim, bounds on μ and ε, and an audit of given counts step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from auditing import counted, swapped
from scipy.special import betaincc
from true_claims import COUNTS, GAMMA, LIMITS, TRUE, claim, true_epsilons

from hpcdp.analytic import GaussianShift, LaplaceShift, toy_dpsgd_pair
from hpcdp.notions.box import epsilon_lower, error_limits, margins, mu_lower, promises
from hpcdp.report.audit import report
from hpcdp.results.audit import audit
from hpcdp.study.claims import Claim

# Limits of errors, and what they leave of a claim


def test_exact_error_limits_are_those_of_the_binomial():
    errors = np.array([[0, 10], [3, 7], [40, 0], [999, 1000]])
    test = np.array([[50, 20], [60, 8], [41, 9], [1000, 1000]])
    level = np.array([0.05, 0.01, 1e-4, 0.2])
    limits = error_limits(errors, test, level)
    assert limits.shape == (4, 2)
    all_wrong = errors == test
    np.testing.assert_array_equal(limits[all_wrong], 1.0)
    half = np.broadcast_to(level[:, None] / 2, errors.shape)
    tail = betaincc(errors + 1.0, np.maximum(test - errors, 1), limits)  # the binomial distribution function
    assert (tail[~all_wrong] <= half[~all_wrong] * (1 + 1e-12)).all()  # to the safe side
    np.testing.assert_allclose(tail[~all_wrong], half[~all_wrong], rtol=1e-5)
    none = errors == 0
    np.testing.assert_allclose(limits[none], 1.0 - half[none] ** (1.0 / test[none]), rtol=1e-12)


def test_hoeffding_error_limits():
    errors, test = np.array([[100, 900]]), np.array([[1000, 1000]])
    radius = math.sqrt(math.log(2.0 / 0.05) / 2000.0)
    limits = error_limits(errors, test, np.array([0.05]), "hoeffding")
    np.testing.assert_allclose(limits, [[0.1 + radius, 0.9 + radius]], rtol=1e-14)
    assert error_limits(np.array([[990, 0]]), test, np.array([0.05]), "hoeffding")[0, 0] > 1.0
    assert (error_limits(errors, test, np.array([0.05])) < limits).all()


def test_margins():
    straight = claim("dp(epsilon=0)").tradeoff  # 1 − α
    errors = np.array([[0.1, 0.2], [0.3, 0.7], [0.5, 0.6], [1.0, 0.0], [1.2, 0.0]])
    np.testing.assert_allclose(margins(straight, errors), [0.7, 0.0, -0.1, 0.0, -1.0], atol=1e-15)
    assert float(margins(straight, errors[0])) == margins(straight, errors)[0]


@pytest.mark.parametrize("limits", LIMITS)
def test_a_promise_is_a_margin_in_units_of_a_box(limits):
    claimed = claim("gaussian(mu=0.5)").tradeoff
    errors = np.array([[0.2, 0.3], [0.3, 0.5], [0.0, 0.9], [0.5, 0.5]])
    size = np.full(errors.shape, 500)
    found = promises(claimed, errors, size, GAMMA, limits)
    for point, promise in zip(errors, found, strict=True):
        over = error_limits(np.rint(500 * point).astype(int), size[0], np.asarray(GAMMA), limits)
        gap = float(claimed(point[0])) - point[1]
        lost = gap - (float(claimed(over[0])) - over[1])
        assert promise == pytest.approx(gap / lost, rel=1e-12)
        assert (promise > 1.0) == bool(margins(claimed, over) > 0.0)
    assert found[0] > 1.0 > found[1] > 0.0 > found[3]


# Bounds on μ and ε


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_mu_of_exact_errors(mu):
    alpha, beta = GaussianShift(mu).point(np.exp(mu * np.linspace(-3.0, 3.0, 25)))
    np.testing.assert_allclose(mu_lower(alpha, beta), mu, rtol=1e-9)


@pytest.mark.parametrize("curve", [GaussianShift(1.0), LaplaceShift(1.0), COUNTS, toy_dpsgd_pair()])
def test_epsilon_of_exact_errors(curve):
    deltas = np.array([1e-4, 0.01, 0.1])
    truth = true_epsilons(curve, deltas)
    alpha, beta = curve.point(np.geomspace(1e-3, 1e3, 401))
    found = epsilon_lower(alpha[:, None], beta[:, None], deltas)
    assert (found <= truth + 1e-9).all()
    assert (found[:, -1] > 0).any()
    # Reached where the ratio is e^ε in the direction with the larger δ.
    best = [epsilon_lower(*(v[:, None] for v in curve.point(np.exp(side * truth))), deltas) for side in (1.0, -1.0)]
    np.testing.assert_allclose(np.maximum(*(np.diag(b) for b in best)), truth, atol=1e-6)


def test_bounds_of_corner_cases():
    assert epsilon_lower(0.2, 0.3, 0.1) == pytest.approx(math.log(0.6 / 0.2), rel=1e-14)
    assert epsilon_lower(0.3, 0.2, 0.1) == epsilon_lower(0.2, 0.3, 0.1)
    assert epsilon_lower(0.5, 0.5, 0.0) == 0.0
    assert epsilon_lower(0.0, 0.3, 0.1) == math.inf
    np.testing.assert_array_equal(epsilon_lower([0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.5]), 0.0)
    np.testing.assert_array_equal(mu_lower([0.0, 0.2], [0.5, 0.0]), math.inf)
    np.testing.assert_array_equal(mu_lower([0.0, 1.0, 0.7], [1.0, 1.0, 0.6]), 0.0)


# An audit of counts that are given

ETA_GRID = np.array([0.25, 1.0, 4.0])


def some_counts(pairs=3, seed=4):
    """Counts and training errors with nothing in common, of tests at three η."""
    rng = np.random.default_rng(seed)
    rejected = np.sort(rng.integers(50, 950, (pairs, 3, 2)), axis=1)[:, ::-1]
    return counted(rejected, rng.uniform(0.02, 0.6, (pairs, 3, 2)), ETA_GRID)


def test_reverse_is_forward_of_the_swapped_pair():
    result, claimed = some_counts(), TRUE["counts", "forward"]
    reverse, forward = audit(result, claimed, "reverse"), audit(swapped(result), claimed, "forward")
    for one, other in zip(reverse.boxes, forward.boxes, strict=True):
        assert (one.eta, one.margin, one.level) == pytest.approx((1.0 / other.eta, other.margin, other.level))
        assert (one.alpha, one.beta, one.alpha_upper) == pytest.approx((other.beta, other.alpha, other.beta_upper))
    assert reverse.verdict == forward.verdict


def test_a_claim_that_is_its_own_inverse_has_one_box_a_pair():
    found = audit(some_counts(), claim("gaussian(mu=1)"))
    assert [(box.pair, box.orientation) for box in found.boxes] == [(pair, "forward") for pair in range(3)]
    assert "its own inverse" in report(found)
    # Bounds that are not known to be symmetric are audited in both orientations.
    assert len(audit(some_counts(), Claim("τ = 5", toy_dpsgd_pair(updates=5))).boxes) == 6


@pytest.mark.parametrize(
    ("rejected", "verdict", "words"),
    [
        ([100, 500], "violation", "violation"),
        ([100, 150], "not separable", "more test samples would show it"),
        ([100, 90], "consistent", "proves no privacy"),
    ],
)
def test_verdicts(rejected, verdict, words):
    found = audit(counted([[rejected]], [[[0.1, 0.6]]], [2.0]), claim("dp(epsilon=0, delta=0.02)"))
    assert found.verdict == verdict
    text = " ".join(report(found).split())
    assert words in text
    assert ("no violation found at this sample size" in text) == (verdict != "violation")
    assert found.to_dict()["verdict"] == verdict


def test_the_box_that_training_ranks_first_gets_most_of_the_level():
    training = [[[0.5, 0.5]], [[0.1, 0.5]], [[0.4, 0.5]]]
    found = audit(counted([[[100, 500]]] * 3, training, [1.0]), claim("dp(epsilon=0)"))
    np.testing.assert_allclose([box.level / GAMMA for box in found.boxes], [1 / 6, 4 / 6, 1 / 6], rtol=1e-12)


def test_few_training_outputs_do_not_send_the_test_to_rare_events():
    # In training, no output of D is rejected at the second η: of 100 outputs per database this says little, of 10⁵ much.
    training = [[[0.1, 0.3], [0.0, 0.68]]]
    for train, eta in ((100, 1.0), (100_000, 9.0)):
        result = counted([[[1000, 7000], [0, 3200]]], training, [1.0, 9.0], test=10_000, train=train)
        assert audit(result, claim("gaussian(mu=0.5)")).worst.eta == eta
