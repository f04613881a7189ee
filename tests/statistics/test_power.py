"""How many outputs refute a claim: real audits of so many, a third of them, and three times as many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from auditing import ETAS, learned, shifted
from commands import call, one_message, write_study
from studies import make_study

from benchmarks.betting import learner, samples_until_refuted
from hpcdp import audit
from hpcdp.losses import make_loss
from hpcdp.notions.betting import lines_of
from hpcdp.results.power import find_power
from hpcdp.study.claims import parse_claim

RUNS = 24


def power(claim: str, truth: str, pairs: int = 1, etas=ETAS):
    study = make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, epsilons=[0.0], etas=list(etas))
    return find_power(study, *(parse_claim(text, Path()) for text in (claim, truth)), pairs)


@pytest.mark.parametrize(
    ("claim", "truth", "law"),
    [("gaussian(mu=0.5)", "gaussian(mu=1)", "normal"), ("laplace(epsilon=0.6)", "laplace(epsilon=1)", "laplace")],
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

    lines, learn = lines_of(claimed.tradeoff), learner("knn")
    batch, most = max(10, found.sequential // 10), 3 * found.sequential
    games = [samples_until_refuted(draw, lines, learn, batch, most, seed) for seed in range(RUNS // 4)]
    rates += [np.mean(np.array(games) <= size) for size in (found.sequential // 3, most)]
    print(f"{found}: refuted by a third and by three times as many {rates}")
    assert rates[0] <= 0.25
    assert rates[1] >= 0.75
    assert rates[2] <= 0.25
    assert rates[3] >= 0.75


def test_more_pairs_and_nearer_claims_take_more():
    near, far, many = (
        power("laplace(epsilon=0.9)", "laplace(epsilon=1)"),
        power("laplace(epsilon=0.5)", "laplace(epsilon=1)"),
        power("laplace(epsilon=0.5)", "laplace(epsilon=1)", pairs=100),
    )
    assert near.audit > 5 * far.audit
    assert near.sequential > 5 * far.sequential
    assert far.audit < many.audit < 2 * far.audit
    assert far.sequential < many.sequential < 4 * far.sequential
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


def test_products_are_truths_and_claims():
    """A second output that is the same for both databases changes nothing."""
    product = "gaussian(mu=1)*dp(epsilon=0)"
    plain = power("gaussian(mu=0.5)", "gaussian(mu=1)")
    for found in (power("gaussian(mu=0.5)", product), power("gaussian(mu=0.5)*dp(epsilon=0)", "gaussian(mu=1)")):
        assert (found.audit, found.sequential) == (plain.audit, plain.sequential)  # of the same games


def test_the_plan_says_it(tmp_path):
    study = write_study(tmp_path, claim="dp(epsilon=0.4)", rows=[0])
    said = call("plan", study, "--truth", "laplace(epsilon=1)").stdout
    assert "  to refute      dp(epsilon=0.4), if laplace(epsilon=1) is exact: audit about " in said
    assert call("plan", study, "--claim", "dp(epsilon=0.1)", "--truth", "laplace(epsilon=1)").stdout != said
    assert "to refute" not in call("plan", study).stdout
    assert "--truth" in one_message(call("plan", study, "--claim", "dp(epsilon=0.1)", code=2))
    other = write_study(tmp_path, name="other.toml", rows=[0])
    assert "--claim: none was given" in one_message(call("plan", other, "--truth", "laplace(epsilon=1)", code=2))
