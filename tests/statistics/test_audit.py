"""Audits of samples: false alarms, detection, and the whole path without a store."""

import math

import numpy as np
import pytest
from auditing import Overconfident, Scoring, learned
from results import measured
from true_claims import GAMMA, LIMITS, PAIRS, TRUE, claim, true_epsilons, true_mu

from hpcdp.analytic import GaussianShift
from hpcdp.losses import make_loss
from hpcdp.losses.counts import audit_etas
from hpcdp.results.audit import audit

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


@pytest.mark.parametrize(("loss", "train"), [("knn", 100), ("knn", 1000), ("kde", 1000)])
@pytest.mark.parametrize("gamma", [0.01, 0.1])
def test_a_fifth_of_the_noise_is_always_detected(loss, train, gamma):
    """R22: 10⁴ test outputs per database; by exact limits and by Hoeffding's. Less noise that is missing: `test_power`."""
    p, q, _ = PAIRS["gaussian"]
    for run in range(20):
        rng = np.random.default_rng([19, run])
        result = learned(make_loss(loss, {}), p, q, rng, train=train, test=10_000, confidence=1.0 - gamma)
        found = {audit(result, claim("gaussian(mu=0.2)"), "both", limits).verdict for limits in LIMITS}
        assert found == {"violation"}


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
