"""Claims of pure ε against studies with [pure], and which family each limit at δ = 0 belongs to."""

import csv
import io
import json

import numpy as np
import pytest
from commands import call, contents
from results import changed, measured, unmeasured
from studies import pure_study, run

from hpcdp.errors import StudyError
from hpcdp.report.notions import show_as
from hpcdp.report.verdict import report, to_json
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import verify
from hpcdp.study.claims import parse_claim

ONE = {"given": [{"d": [0.0], "d_prime": [1.0]}]}  # of Laplace noise with ε = 0.9


@pytest.fixture(scope="module", name="winner")
def winner_fixture(client, tmp_path_factory):
    return run(pure_study(pairs=ONE, train=4000, test=20_000), tmp_path_factory.mktemp("winner") / "s.zarr", client)


@pytest.fixture(scope="module", name="every")
def every_fixture(client, tmp_path_factory):
    study = pure_study({"test": "all"}, ONE, train=4000, epsilons=[0.0, 0.5], renyi=[1, 2])
    return run(study, tmp_path_factory.mktemp("every") / "s.zarr", client)


def test_which_claims_are_of_pure_privacy(tmp_path):
    levels = {"dp(epsilon=1)": 1.0, "dp(epsilon=0.5, delta=0)": 0.5, "dp(epsilon=1, delta=1e-9)": None}
    levels |= {"laplace(epsilon=1)": None, "dp(epsilon=1)*dp(epsilon=1)": None, "zcdp(rho=1)": None}
    assert {text: parse_claim(text, tmp_path).pure_level for text in levels} == levels


@pytest.mark.parametrize("which", ["winner", "every"])
def test_the_limit_of_pure_decides(which, request):
    result = request.getfixturevalue(which)
    certified = result.pure["certified"]
    assert 0.7 < certified <= 0.9
    for claimed, verdicts in ((0.7, [VIOLATION]), (0.9, [CONSISTENT, NOT_SEPARABLE]), (3.0, [CONSISTENT])):
        found = verify(result, f"dp(epsilon={claimed})")
        verdict = found.verdict
        assert verdict in verdicts
        shown = json.loads(to_json([found]))
        assert shown["family"] == "pure"
        assert shown["bound"] == ("pure" if verdict == VIOLATION else None)
        assert shown["certified_pure"]["lower"] == certified
        assert shown["certified_pure"]["claimed"] == claimed
        text = report([found])
        assert ("(violated)" in text) == (verdict == VIOLATION)
        assert "It is judged by the test of [pure] alone." in " ".join(text.split())
    exact = verify(result, f"dp(epsilon={certified!r})")
    assert exact.verdict == NOT_SEPARABLE  # at the limit, and the estimate is above it
    assert "not certified" in report([exact])


def test_cells_have_no_say_in_it(every):
    """Else two families would share one confidence: cells far above the claim change nothing, and those of others decide."""
    loud = changed(every, lower=np.full(every["lower"].shape, 0.9), delta=np.full(every["delta"].shape, 0.95))
    assert verify(loud, "dp(epsilon=3)").verdict == CONSISTENT
    assert verify(loud, "dp(epsilon=3, delta=1e-9)").verdict == VIOLATION
    quiet = changed(every, pure_certified=np.zeros(1))
    assert verify(quiet, "dp(epsilon=0.3)").verdict == NOT_SEPARABLE
    assert json.loads(to_json([verify(loud, "laplace(epsilon=1)")]))["bound"] == "delta"
    both = report([verify(loud, claim) for claim in ("dp(epsilon=3)", "laplace(epsilon=1)")])
    assert "not all at once" in both


def test_no_output_of_the_other_side_is_no_infinity(winner):
    found = verify(changed(winner, pure_exceed=[[50, 0]]), "dp(epsilon=3)")
    assert found.verdict == NOT_SEPARABLE
    assert json.loads(to_json([found]))["certified_pure"]["estimate"] is None
    assert "infinite" in report([found])


def test_nothing_tested_yet():
    found = verify(unmeasured(pure_study(pairs=ONE)), "dp(epsilon=1)")
    assert (found.verdict, found.pure, found.bound) == (NOT_SEPARABLE, None, None)
    assert "no pair is tested yet" in " ".join(report([found]).split())


def test_commands(winner, every, tmp_path):
    shown = call("verify", winner.store, "--claim", "dp(epsilon=0.5)", "--format", "json", code=3).stdout
    assert json.loads(shown)["certified_pure"]["violated"]
    several = call("verify", winner.store, "--claim", "dp(epsilon=3)", "--claim", "dp(epsilon=4)", "--format", "json")
    assert json.loads(several.stdout)["ranking"] is None
    assert "dp(epsilon=…)" in call("verify", winner.store, "--claim", "laplace(epsilon=1)", code=2).stderr
    with pytest.raises(StudyError, match="compared with counts"):
        verify(winner, "gaussian(mu=1)")
    call("verify", every.store, "--claim", "laplace(epsilon=1)", "--claim", "dp(epsilon=2)")


def test_an_audit_of_pure_privacy(scheduler, winner, tmp_path):
    """It goes on with the store, where everything is done, and judges by the limit."""
    file, before = tmp_path / "study.toml", contents(winner.store)
    file.write_text(
        '[study]\nname = "pure"\nseed = 31\nstream = "numpy"\n[mechanism]\ncall = "laplace"\nparameters = { epsilon = 0.9 }\n'
        "[pairs]\ngiven = [ { d = [0.0], d_prime = [1.0] } ]\n[pure]\n"
        '[estimate]\nloss = "kde"\ntrain = 4000\ntest = 20000\nchunk = 2500\n'
    )
    place = ("--store", winner.store, "--cluster", scheduler)
    shown = call("audit", file, *place, "--claim", "dp(epsilon=0.6)", "--format", "json", code=3).stdout
    assert json.loads(shown)["family"] == "pure"
    assert contents(winner.store) == before
    for more in (["laplace(epsilon=1)"], ["dp(epsilon=1)", "--sequential"], ["dp(epsilon=1)", "--limits", "hoeffding"]):
        call("audit", file, *place, "--claim", *more, code=2)


def test_which_family_a_limit_at_a_delta_is_of():
    found = measured(
        "laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1501, train=3000, test=3000, chunk=3000,
        epsilons=[0.0, 0.5],
    )  # fmt: skip
    levels = [found.epsilon_at(0.0, alone=True), found.epsilon_at(0.0), found.epsilon_at(0.1)]
    assert [level.family for level in levels] == ["delta 0", "epsilon", "epsilon"]
    for deltas, families in (([0.0], ["delta 0"]), ([0.0, 0.1], ["epsilon", "epsilon"])):
        shown = json.loads(show_as(found, "json", {"delta": deltas}))
        assert [entry["family"] for entry in shown["levels"]] == families
        rows = list(csv.DictReader(io.StringIO(show_as(found, "csv", {"delta": deltas}))))
        assert [row["family"] for row in rows] == families
    without = changed(found)
    without.arrays["errors"] = without.arrays["exceed"]  # as of literal-knn
    assert without.epsilon_at(0.0, alone=True).family == "delta"


def test_the_largest_estimate_of_all_tested_sets_decides(client, tmp_path):
    """Not that of the pair with the largest limit, which may be a smaller one."""
    pairs = {"given": [{"d": [0], "d_prime": [1]}, {"d": [2], "d_prime": [3]}]}
    table = [[0.7, 0.3], [0.3, 0.7], [0.006, 0.994], [0.0022, 0.9978]]
    mechanism = {"call": "pmf", "parameters": {"outcomes": [0, 1], "table": table}}
    result = run(pure_study({"test": "all"}, pairs, mechanism, loss="frequency"), tmp_path / "s.zarr", client)
    ratios = np.log(result["pure_exceed"][:, 0] / result["pure_exceed"][:, 1])
    assert result["pure_certified"].argmax() != ratios.argmax()
    found = verify(result, f"dp(epsilon={0.5 * ratios.sum()})")
    assert found.verdict == NOT_SEPARABLE
    assert found.pure.estimate == ratios.max()
    assert found.pure.estimate_pair == ratios.argmax() != found.pure.pair
    assert f"The estimate from the set of pair {ratios.argmax()} is above the claim" in report([found])
    assert "No estimate from a tested set" in report([verify(result, "dp(epsilon=4)")])
