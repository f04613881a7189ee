"""Audits of samples: false alarms, detection, and the whole path without a store."""

from __future__ import annotations

import math

import numpy as np
import pytest
from auditing import Overconfident, Scoring, learned, published, shifted
from results import measured
from true_claims import GAMMA, LIMITS, PAIRS, TRUE, claim, true_epsilons, true_mu

from hpcdp.analytic import GaussianShift, NormalMixture, toy_dpsgd_pair
from hpcdp.losses import make_loss
from hpcdp.losses.counts import audit_etas
from hpcdp.results.audit import audit
from hpcdp.study.claims import Claim

RUNS = 400


def most_alarms(runs):
    """As many false alarms of probability γ as four standard deviations allow."""
    return runs * GAMMA + 4.0 * math.sqrt(runs * GAMMA * (1.0 - GAMMA))


LOSSES = {
    "knn": make_loss("knn", {}),
    "kde": make_loss("kde", {}),
    "one neighbour": make_loss("knn", {"k": 1}),  # it knows its training outputs by heart
    "overconfident": Overconfident(),
    "noise": Scoring(lambda outputs: 8.0 * np.sin(1e6 * outputs)),
    "exact": Scoring(lambda outputs: 0.5 - outputs),
}
TRIED = [
    *(("knn", *case) for case in TRUE),
    ("kde", "gaussian", "both"),
    ("kde", "counts", "forward"),
    ("one neighbour", "gaussian", "both"),
    ("one neighbour", "counts", "both"),
    ("overconfident", "gaussian", "both"),
    ("noise", "gaussian", "both"),
    ("exact", "gaussian", "both"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "pair", "orientation"), TRIED)
def test_true_claims_are_seldom_called_violated(loss, pair, orientation):
    """R20, and that bounds on μ and ε are seldom above what is true; whatever the classifier."""
    p, q, curve = PAIRS[pair]
    mu, epsilons = true_mu(curve), true_epsilons(curve)
    failed = np.zeros(5, int)
    for run in range(RUNS):
        result = learned(LOSSES[loss], p, q, np.random.default_rng([17, run]))
        found = audit(result, TRUE[pair, orientation], orientation)
        bounds = np.array([row[1:] for row in found.bounds.epsilon])
        failed[0] += found.verdict == "violation"
        failed[1:3] += np.array(found.bounds.mu) > mu
        failed[3:] += (bounds > epsilons[:, None]).any(axis=0)
    print(f"{loss}, {pair}, {orientation}: of {RUNS}: false alarms, μ, ε {failed}")
    assert failed.max() <= most_alarms(RUNS)


@pytest.mark.parametrize("reuse", [False, True])
def test_few_audits_show_the_planted_fault_and_no_other(reuse):
    """reuse: the outputs that trained and chose η also decide. Of 25 audits of a true claim."""
    p, q, _ = PAIRS["gaussian"]
    draws = (np.random.default_rng([18, run]) for run in range(25))
    results = [learned(LOSSES["one neighbour"], p, q, rng, reuse=reuse) for rng in draws]
    alarms = sum(audit(result, claim("gaussian(mu=1)")).verdict == "violation" for result in results)
    assert (alarms > most_alarms(25)) == reuse


# Detection (R21, R22)


def detections(runs, loss, p, q, claimed, orientation="both", **sizes):
    """How many of so many audits find a violation: with exact limits, with Hoeffding's, and as published."""
    found = np.zeros(3, int)
    for run in range(runs):
        result = learned(make_loss(loss, {}), p, q, np.random.default_rng([19, run]), **sizes)
        found[:2] += [audit(result, claimed, orientation, limits).verdict == "violation" for limits in LIMITS]
        found[2] += published(result, claimed)
    print(f"{loss}, {claimed.text}, {sizes}: of {runs}: exact, Hoeffding, published {found}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["knn", "kde"])
def test_half_the_noise_is_detected(loss):
    """R21: 10⁴ training and 10³ test outputs per database."""
    p, q, _ = PAIRS["gaussian"]
    exact, hoeffding, paper = detections(40, loss, p, q, claim("gaussian(mu=0.5)"), train=10_000, test=1000)
    assert exact == hoeffding == 40
    assert paper <= hoeffding


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["knn", "kde"])
def test_twice_the_updates_are_detected(loss):
    """R21: the published rule finds about 7 to 13 % with 10³ test outputs; every rule finds all with 10⁴."""
    mixture = toy_dpsgd_pair(updates=10)
    assert isinstance(mixture, NormalMixture)

    def q(rng, size):
        return rng.normal(size=size) + rng.choice(mixture.shifts, size, p=mixture.weights / mixture.weights.sum())

    claimed = Claim("τ = 5", toy_dpsgd_pair(updates=5))
    p = shifted("normal", 0.0)
    exact, hoeffding, paper = detections(40, loss, p, q, claimed, "forward", train=10_000, test=1000)
    assert paper <= 40 * 0.13 + 4.0 * math.sqrt(40 * 0.13 * 0.87)
    assert paper <= hoeffding <= exact
    assert detections(20, loss, p, q, claimed, "forward", train=10_000, test=10_000).tolist() == [20, 20, 20]


@pytest.mark.parametrize(("loss", "train"), [("knn", 100), ("knn", 1000), ("kde", 1000)])
@pytest.mark.parametrize("gamma", [0.01, 0.1])
def test_a_fifth_of_the_noise_is_always_detected(loss, train, gamma):
    """R22: 10⁴ test outputs per database."""
    p, q, _ = PAIRS["gaussian"]
    sizes = {"train": train, "test": 10_000, "confidence": 1.0 - gamma}
    assert detections(20, loss, p, q, claim("gaussian(mu=0.2)"), **sizes).tolist() == [20, 20, 20]


@pytest.mark.parametrize("loss", ["knn", "kde"])
def test_the_whole_path_without_a_store(loss):
    sizes = {"train": 3000, "test": 3000, "epsilons": [0.0], "etas": audit_etas()[::4]}
    result = measured("gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=6, loss=loss, **sizes)
    exact = GaussianShift(1.0)
    # By training, the curve is near the exact one: for a density perturbed points, else shares of its own outputs.
    gap = result["training_beta"][0] - exact.tradeoff(result["training_alpha"][0])
    assert np.abs(gap).max() < 0.1
    assert audit(result, claim("gaussian(mu=0.7)")).verdict == "violation"
    found = audit(result, claim("gaussian(mu=1)"))
    assert found.verdict != "violation"
    assert 0.8 < max(found.bounds.mu) < 1.0
