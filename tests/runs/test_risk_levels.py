"""`show --risk`: P[|L| > ε] from the counts of ordinary stores, against laws whose risk is known."""

import json
import math

import numpy as np
import pytest
from commands import call
from studies import make_study, run

from hpcdp.cli.arguments import make_parser
from hpcdp.results.risk import risk_levels

LAWS = {"outcomes": [0, 1, 2], "table": [[0.1, 0.4, 0.5], [0.01, 0.3, 0.69]]}
MERGED = {"outcomes": [0, 2], "table": [[0.5, 0.5], [0.31, 0.69]]}  # the first two outcomes are one


def risk_store(folder, laws, claim=None, **changes):
    sizes = {"loss": "frequency", "train": 20_000, "test": 40_000, "chunk": 20_000, "epsilons": [0.0, 0.4], **changes}
    study = make_study("pmf", laws, [([0.0], [1.0])], seed=3, **sizes)
    study = study.model_copy(update={"study": study.study.model_copy(update={"claim": claim})})
    return run(study, folder / "s.zarr", None)


def test_the_risk_is_that_of_the_laws_and_grows_when_outputs_are_merged(tmp_path):
    (tmp_path / "merged").mkdir()
    first = risk_store(tmp_path, LAWS, "dp(epsilon=2.302585093)")
    merged = risk_store(tmp_path / "merged", MERGED)
    shown = json.loads(call("show", first.store, "--risk", "0.4", "--risk", "0.41", "--format", "json").stdout)
    assert list(shown) == ["name", "complete", "confidence", "risk"]
    level, other = shown["risk"]
    for found, true in ((level["estimate"], 0.1), (risk_levels(merged, [0.4])[0]["estimate"], 0.5)):
        assert abs(found - true) < 5 * math.sqrt(true * (1 - true) / 40_000)
    assert (level["pair"], level["side"]) == (0, "d")  # of D′ it is .01
    outputs = first["exceed"][0, :, 1]
    assert level["estimate"] == (outputs[0, 0] + outputs[1, 1]) / 40_000
    true = 0.1 - math.exp(0.4) * 0.01
    assert 0.9 * true < level["lower"] <= true  # certified: this seed's, and δ itself
    assert level["lower"] < level["claimed"] <= 0.1
    assert level["claimed"] > 0.9 * 0.1  # both laws are as extreme as the claim allows, so that nothing is lost
    assert other["estimate"] is None  # it is not counted there
    assert 0.0 < other["lower"] <= level["lower"]
    text = call("show", first.store, "--risk", "0.4").stdout
    assert "if 2.30259-DP ≥" in text
    assert "The risk may grow" in text


def test_a_refuted_claim_says_so_and_other_sets_have_no_estimate(tmp_path):
    found = risk_store(tmp_path, LAWS, "dp(epsilon=0.2)", etas=[])
    assert "refuted" in call("show", found.store, "--risk", "0.4").stdout
    assert risk_levels(found, [0.0], 0.2)[0]["claimed"] > 0.5
    arrays = {**found.arrays, "spectrum_lower": (("epsilon",), np.full(2, np.nan))}
    with pytest.raises(ValueError, match="has all its counts"):
        risk_levels(type(found)(found.study, found.store, False, found.pairs, arrays, []), [0.4])
    refined = found.study.model_copy(update={"estimate": found.study.estimate.model_copy(update={"refine": 1000})})
    result = type(found)(refined, found.store, True, found.pairs, found.arrays, [])
    assert risk_levels(result, [0.4])[0]["estimate"] is None


def test_what_is_wrong_is_said(tmp_path):
    found = risk_store(tmp_path, LAWS)
    said = call("show", found.store, "--risk", "1", "--delta", "0", code=2).stderr
    assert "--delta, --risk: accepted: one of them; given: both" in said
    for text in ("-1", "inf", "x"):
        with pytest.raises(SystemExit, match="2"):
            make_parser().parse_args(["show", "s.zarr", "--risk", text])
