"""Sequential audits over many seeds: false alarms at every look, and how soon a false claim is refuted."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.betting import GAMMA, learner, normals, samples_until_refuted
from hpcdp.analytic import ApproximateDP, GaussianShift
from hpcdp.notions.betting import lines_of


def answers(epsilon):
    """Randomised response between two values, of a database that says 0 and of one that says 1."""
    keep = np.exp(epsilon) / (np.exp(epsilon) + 1.0)
    return lambda rng, size: ((rng.random(size) > keep).astype(int), (rng.random(size) < keep).astype(int))


@pytest.mark.parametrize("runs", [150, pytest.param(400, marks=pytest.mark.release)])
def test_true_claims_are_seldom_refuted_at_any_look(runs):
    """Audits of a claim that is exactly true, with a look after every batch of 25."""
    lines = lines_of(ApproximateDP(1.0, 0.0).tradeoff)  # the exact curve of such answers
    learn = learner("frequency")
    found = [samples_until_refuted(answers(1.0), lines, learn, 25, 100, seed) for seed in range(runs)]
    alarms = int(np.isfinite(found).sum())
    print(f"{alarms} of {runs} true claims were refuted")
    assert alarms <= runs * GAMMA + 4 * np.sqrt(runs * GAMMA * (1 - GAMMA))
    false = lines_of(ApproximateDP(0.3, 0.0).tradeoff)
    sooner = [samples_until_refuted(answers(1.0), false, learn, 25, 300, seed) for seed in range(20)]
    assert np.isfinite(sooner).mean() > 0.9, "the same bets refute a false claim"


@pytest.mark.parametrize(("loss", "seeds"), [("knn", 15), ("kde", 15), ("learned", 1)])
def test_half_the_claimed_noise_is_found_within_400_samples(loss, seeds):
    """Gaussian noise with μ = 1 against the claim μ = 0.5, batches of 100, training included: the median."""
    lines = lines_of(GaussianShift(0.5).tradeoff)
    found = [samples_until_refuted(normals(1.0), lines, learner(loss), 100, 1000, seed) for seed in range(seeds)]
    print(f"{loss}: refuted after {np.median(found):.0f} samples per database in the median, {max(found):.0f} at most")
    assert np.median(found) <= 400
