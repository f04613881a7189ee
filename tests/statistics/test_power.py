"""How many outputs refute a claim, in audits and sequential ones; and how seldom those refute what is true, at every look."""

from pathlib import Path

import numpy as np
import pytest
from auditing import ETAS, learned, shifted
from commands import call, one_message, write_study
from studies import make_study

from benchmarks.betting import GAMMA, learner, normals, samples_until_refuted
from hpcdp import audit
from hpcdp.analytic import ApproximateDP, GaussianShift
from hpcdp.losses import make_loss
from hpcdp.notions.box import lines_of
from hpcdp.results.ranking import find_power
from hpcdp.study.claims import parse_claim

pytestmark = pytest.mark.slow

RUNS = 24


def power(claim: str, truth: str, pairs: int = 1, etas=ETAS):
    study = make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, epsilons=[0.0], etas=list(etas))
    return find_power(study, *(parse_claim(text, Path()) for text in (claim, truth)), pairs)


@pytest.mark.parametrize(
    ("claim", "truth", "law"),
    [
        pytest.param("gaussian(mu=0.5)", "gaussian(mu=1)", "normal", marks=pytest.mark.promise),
        ("laplace(epsilon=0.6)", "laplace(epsilon=1)", "laplace"),
    ],
)
def test_audits_of_a_third_are_rarely_enough_and_of_three_times_as_many_nearly_always(claim, truth, law):
    found, claimed = power(claim, truth), parse_claim(claim, Path())
    laws, loss = (shifted(law, 0.0), shifted(law, 1.0)), make_loss("knn", {})
    rates = []
    for size in (found.audit // 3, 3 * found.audit):
        results = (learned(loss, *laws, np.random.default_rng(seed), size, size) for seed in range(RUNS))
        rates.append(np.mean([audit(result, claimed).verdict == "violation" for result in results]))

    def draw(rng, size):
        return tuple(side(rng, size) for side in laws)

    lines, learn = lines_of(claimed.curve), learner("knn")
    batch, most = max(10, found.sequential // 10), 3 * found.sequential
    games = [samples_until_refuted(draw, lines, learn, batch, most, seed) for seed in range(RUNS // 4)]
    rates += [np.mean(np.array(games) <= size) for size in (found.sequential // 3, most)]
    print(f"{found}: refuted by a third and by three times as many {rates}")
    assert rates[0] <= 0.25
    assert rates[1] >= 0.75
    assert rates[2] <= 0.25
    assert rates[3] >= 0.75


def test_more_pairs_and_nearer_claims_take_more():
    near, far = (power(f"laplace(epsilon={claimed})", "laplace(epsilon=1)") for claimed in (0.9, 0.5))
    many = power("laplace(epsilon=0.5)", "laplace(epsilon=1)", pairs=100)
    assert near.audit > 5 * far.audit
    assert near.sequential > 5 * far.sequential
    assert far.audit < many.audit < 2 * far.audit
    assert far.sequential < many.sequential < 4 * far.sequential
    nothing = "dp(epsilon=0)"  # an output that tells nothing
    same = power(f"laplace(epsilon=0.5)*{nothing}", f"laplace(epsilon=1)*{nothing}")
    assert same.audit == pytest.approx(far.audit, rel=0.05)
    assert same.sequential == pytest.approx(far.sequential, rel=0.3)
    for truth in ("laplace(epsilon=1)", "laplace(epsilon=0.5)"):
        none = power("laplace(epsilon=1)", truth)
        assert (none.audit, none.sequential) == (None, None)
        assert "audit not with 1,099,511,627,776 test outputs" in str(none)
        assert "--sequential not within 131,072 outputs per database in most of 15 games" in str(none)


def test_bets_are_played_whatever_the_eta_of_the_study():
    claim, truth = "dp(epsilon=1)", "laplace(epsilon=1.2)"
    found = power(claim, truth, etas=[1.0])  # where no test tells the two apart
    assert found.audit is None
    assert found.sequential == power(claim, truth).sequential < 3000
    assert f"audit --sequential about {found.sequential:,} outputs" in str(found)


def test_the_plan_says_it(tmp_path):
    study = write_study(tmp_path, claim="dp(epsilon=0.4)", rows=[0])
    said = call("plan", study, "--truth", "laplace(epsilon=1)").stdout
    assert "  to refute      dp(epsilon=0.4), if laplace(epsilon=1) is exact: audit about " in said
    assert call("plan", study, "--claim", "dp(epsilon=0.1)", "--truth", "laplace(epsilon=1)").stdout != said
    assert "to refute" not in call("plan", study).stdout
    assert "--truth" in one_message(call("plan", study, "--claim", "dp(epsilon=0.1)", code=2))
    other = write_study(tmp_path, name="other.toml", rows=[0])
    assert "--claim: none was given" in one_message(call("plan", other, "--truth", "laplace(epsilon=1)", code=2))


def answers(epsilon):
    """Randomised response between two values, of a database that says 0 and of one that says 1."""
    keep = np.exp(epsilon) / (np.exp(epsilon) + 1.0)
    return lambda rng, size: ((rng.random(size) > keep).astype(int), (rng.random(size) < keep).astype(int))


@pytest.mark.parametrize("runs", [150, pytest.param(400, marks=pytest.mark.release)])
def test_true_claims_are_seldom_refuted_at_any_look(runs):
    """Audits of a claim that is exactly true, with a look after every batch of 25."""
    lines = lines_of(ApproximateDP(1.0, 0.0))  # the exact curve of such answers
    learn = learner("frequency")
    found = [samples_until_refuted(answers(1.0), lines, learn, 25, 100, seed) for seed in range(runs)]
    alarms = int(np.isfinite(found).sum())
    print(f"{alarms} of {runs} true claims were refuted")
    assert alarms <= runs * GAMMA + 4 * np.sqrt(runs * GAMMA * (1 - GAMMA))
    false = lines_of(ApproximateDP(0.3, 0.0))
    sooner = [samples_until_refuted(answers(1.0), false, learn, 25, 300, seed) for seed in range(20)]
    assert np.isfinite(sooner).mean() > 0.9, "the same bets refute a false claim"


@pytest.mark.parametrize(("loss", "seeds"), [("knn", 15), ("kde", 15), ("learned", 1)])
def test_half_the_claimed_noise_is_found_within_400_samples(loss, seeds):
    """Gaussian noise with μ = 1 against the claim μ = 0.5, batches of 100, training included: the median."""
    lines = lines_of(GaussianShift(0.5))
    found = [samples_until_refuted(normals(1.0), lines, learner(loss), 100, 1000, seed) for seed in range(seeds)]
    print(f"{loss}: refuted after {np.median(found):.0f} samples per database in the median, {max(found):.0f} at most")
    assert np.median(found) <= 400
