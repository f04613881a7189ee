"""Verdicts on claims: violated (certified), not separable with the sample size that would, consistent; and their ranking."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import call
from journals import records
from results import changed, measured, unmeasured
from studies import make_study, run

from hpcdp.analytic import LaplaceShift
from hpcdp.driver import driver
from hpcdp.notions.bounds import joint_lower, split_lower
from hpcdp.report.notions import text as table_of
from hpcdp.report.plots import draw
from hpcdp.report.verdict import report, to_json
from hpcdp.results.load import load_result
from hpcdp.results.ranking import rank
from hpcdp.results.verdict import careful_error, round_up, verify
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study

HERE = Path("nowhere")
LEVELS = [0.0, 0.25, 0.5, 0.75, 1.0]
PAIR = [([0.0], [1.0])]
LAPLACE = ("laplace", {"epsilon": 1.0}, PAIR)
KEYS = {"pair", "direction", "epsilon", "delta", "lower", "claimed", "gap", "standard_error", "violated"}


def claim(text, folder=HERE):
    return parse_claim(text, folder)


def laplace(seed=5, size=1 << 15, epsilons=LEVELS, **estimate):
    return measured(*LAPLACE, seed=seed, train=size, test=size, epsilons=epsilons, **estimate)


def between(result):
    """A claim that no bound of a result is above, but its estimate at ε = 0 is: halfway between the two."""
    delta = (result["spectrum_delta"][0] + result["spectrum_lower"][0]) / 2
    return f"dp(epsilon=0, delta={float(delta)!r})"


@pytest.fixture(scope="module", name="result")
def result_fixture():
    return laplace()


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("laplace(epsilon=1.1)", "consistent"),
        ("dp(epsilon=1)", "consistent"),
        (None, "not separable"),
        ("laplace(epsilon=0.9)", "violation"),
        ("dp(epsilon=0.5)", "violation"),
        ("dp(epsilon=0.5, delta=0.25)", "consistent"),
        ("gaussian(mu=0.5)", "violation"),
    ],
)
def test_verdicts(result, text, verdict):
    text = text or between(result)
    found = verify(result, claim(text))
    assert found.verdict == verdict
    assert (found.separation is None) == (verdict != "not separable")
    assert text in report([found])
    cells = found.cells()
    assert len(cells) == 2 * len(LEVELS)
    for cell, shown in zip(cells, result.cells(), strict=True):
        assert set(cell) == KEYS
        assert {k: cell[k] for k in ("pair", "direction", "epsilon", "delta", "lower")}.items() <= shown.items()
        assert cell["claimed"] == float(claim(text).delta(cell["epsilon"]))
        assert cell["gap"] == cell["delta"] - cell["claimed"]
        assert cell["violated"] == (cell["lower"] > cell["claimed"])
    assert any(cell["violated"] for cell in cells) == (verdict == "violation")
    assert any(cell["gap"] > 0 for cell in cells) == (verdict != "consistent")


def test_one_cell_of_one_direction_is_enough(result):
    lower, delta = (np.zeros_like(result["lower"]) for _ in range(2))
    lower[0, 1, 3] = 0.01
    delta[0, 1, 3] = 0.02
    found = changed(result, lower=lower, delta=delta)
    assert verify(found, claim("dp(epsilon=0)")).verdict == "violation"
    assert verify(found, claim("dp(epsilon=0, delta=0.01)")).verdict == "not separable"
    assert verify(found, claim("dp(epsilon=0, delta=0.02)")).verdict == "consistent"


def test_a_violation_in_the_reverse_direction_only():
    # δ of (D, D′) is 0 beyond ε = 0, that of (D′, D) is not
    p, q = [0.5, 0.5, 0.0], [0.45, 0.45, 0.1]
    sizes = {"train": 20_000, "test": 20_000, "epsilons": [0.5, 1.0]}
    found = measured("pmf", {"outcomes": [0, 1, 2], "table": [p, q]}, [([0], [1])], seed=4, loss="frequency", **sizes)
    verdict = verify(found, claim("dp(epsilon=0.4)"))
    assert verdict.verdict == "violation"
    assert {cell["direction"] for cell in verdict.cells() if cell["violated"]} == {"reverse"}
    assert "reverse" in report([verdict])


def test_points_of_a_file_claim_more_than_their_levels(tmp_path):
    (tmp_path / "wide.csv").write_text("epsilon,delta\n0,1\n0.25,0.01\n0.5,0.01\n")
    found = claim("file(wide.csv)", tmp_path)
    # δ(0) <= 1 − e^−0.25·(1 − 0.01) whatever stands at 0
    assert float(found.implied(0.0)) == pytest.approx(1 - math.exp(-0.25) * 0.99, rel=1e-12)
    np.testing.assert_array_equal(found.implied([0.25, 0.5, 3.0]), [0.01, 0.01, 0.01])
    sparse = laplace(epsilons=[0.0, 2.0])
    assert (sparse["lower"] <= found.delta(sparse["epsilon"])).all()
    assert verify(sparse, found).verdict == "violation"  # the true δ(0.25) is 0.31
    honest = "".join(f"{e},{float(LaplaceShift(1.0).spectrum(e))!r}\n" for e in (0.2, 0.6, 0.9))
    (tmp_path / "honest.csv").write_text("epsilon,delta\n" + honest)
    exact = claim("file(honest.csv)", tmp_path)
    assert (exact.implied(LEVELS) >= LaplaceShift(1.0).spectrum(LEVELS) - 1e-12).all()


@pytest.mark.parametrize("text", ["laplace(epsilon=1)", "gaussian(mu=2)", "dp(epsilon=1, delta=0.1)"])
def test_formulas_claim_no_more_than_they_say(text):
    levels = np.linspace(0.0, 3.0, 31)
    np.testing.assert_array_equal(claim(text).implied(levels), claim(text).delta(levels))


def test_every_output_shows_the_claim_that_is_judged(tmp_path, monkeypatch):
    (tmp_path / "one.csv").write_text("epsilon,delta\n0.4,0.0001\n")
    text = f"file({tmp_path / 'one.csv'})"
    found = laplace(epsilons=[0.0], size=1 << 13)
    body = found.study.to_dict()
    body["study"]["claim"] = text
    object.__setattr__(found, "study", Study.from_dict(body))
    own = claim(text)
    value, lower = 1.0 - math.exp(-0.4) * (1.0 - 1e-4), found["spectrum_lower"][0]
    assert value < lower < float(own.delta(0.0)), "what is between the two readings tells them apart"
    verdict = verify(found, own)
    assert verdict.verdict == "violation"
    assert verdict.cells()[0]["claimed"] == pytest.approx(value, rel=1e-12)
    assert table_of(found).split("\n")[0] == f"{found.name}: {text}: violation" == report([verdict]).split("\n")[0]
    for said in (table_of(found).split("\n\n", 1)[1], report([verdict])):
        assert "violated" in said.split("\n\n")[1]
        assert f"{value:.6f}" in said
    monkeypatch.setattr("hpcdp.report.plots.exact_of", lambda *_: None)  # of no store
    (line,) = [line for line in draw(found).axes[0].lines if str(line.get_label()).startswith("claimed")]
    levels, deltas = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    np.testing.assert_array_equal(deltas, own.implied(levels))
    # the fit of several claims, too
    (fit,) = [fit for fit in rank(found, [own, claim("dp(epsilon=9)")]).fits if fit.claim == text]
    scores = (found["delta"] - value) / careful_error(found)
    assert np.isclose(scores, fit.residual, rtol=1e-9).any()


def test_the_sample_size_that_would_separate():
    found = laplace(size=4096)
    verdict = verify(found, claim(between(found)))
    assert verdict.verdict == "not separable"
    separation = verdict.separation
    assert (separation.now, separation.pair) == (4096, 0)
    place = (0, ("forward", "reverse").index(separation.direction), LEVELS.index(separation.epsilon))
    scores = (found["delta"] - verdict.claimed) / careful_error(found)
    assert scores[place] == scores.max()
    assert separation.gap == found["delta"][place] - verdict.claimed[place]
    a, b = found["exceed"][place] / found["test"][place]
    levels = found["level"][place[:2]]
    inflation, level = math.exp(separation.epsilon), float(levels[place[2]] or levels.sum() / np.count_nonzero(levels))

    def passes(n, x0, x1):
        found = (lower(x0, n, x1, n, inflation, level) for lower in (joint_lower, split_lower))
        return max(found) > verdict.claimed[place]

    n = separation.test
    assert passes(n, round(a * n), round(b * n))
    assert not passes(round(0.89 * n), round(a * 0.89 * n), round(b * 0.89 * n))  # two digits, rounded up: at most 11 %
    # with that many samples of the estimated rates, the bound passes in about half of the runs
    rng = np.random.default_rng(1)
    share = np.mean([passes(n, *rng.binomial(n, [a, b])) for _ in range(100)])
    assert 0.3 < share < 0.8


def test_what_is_chance_is_called_chance(result):
    many = verify(result, claim(between(result))).separation
    score = many.gap / many.standard_error  # of ten cells
    assert many.chance == pytest.approx(min(1.0, 10 * 0.5 * math.erfc(score / math.sqrt(2))), rel=1e-9)
    rare = np.zeros_like(result["exceed"])
    rare[0, 0, 4] = [30, 0]  # at ε = 1
    test = np.full_like(rare, 1 << 15)
    few = changed(result, exceed=rare, test=test, delta=rare[..., 0] / test[..., 0], lower=np.zeros(rare.shape[:3]))
    found = verify(few, claim("dp(epsilon=1)")).separation
    assert not found.is_chance
    assert found.chance < 1e-3
    # 3 outputs that the other side never has are nothing special at ε = 5, where e^5 of them weigh as one
    far = laplace(epsilons=[5.0], size=1000)
    rare = np.array([[[[3, 0]], [[0, 0]]]])
    far = changed(far, exceed=rare, test=np.full_like(rare, 1000), delta=rare[..., 0] / 1000, lower=np.zeros((1, 2, 1)))
    separation = verify(far, claim("dp(epsilon=1)")).separation
    assert separation.is_chance
    assert separation.gap / separation.standard_error < 0.1
    assert "chance alone explains it" in report([verify(far, claim("dp(epsilon=1)"))])


def test_a_gap_that_no_sample_size_separates(result):
    tiny = changed(result, lower=np.zeros_like(result["lower"]))
    exact = float(tiny["delta"][0, 0, 0])
    found = verify(tiny, claim(f"dp(epsilon=0, delta={exact - 1e-12!r})")).separation
    assert found.test is None
    assert "No number of test samples" in report([verify(tiny, claim(f"dp(epsilon=0, delta={exact - 1e-12!r})"))])


def test_two_digits_upwards():
    assert [round_up(value) for value in (1, 9.2, 99.5, 101, 1234, 1200)] == [1, 10, 100, 110, 1300, 1200]


def test_nothing_counted_yet():
    study = make_study(*LAPLACE, seed=1, train=500, test=500, epsilons=[0.0, 1.0], keep="none")
    found = verify(unmeasured(study), claim("dp(epsilon=1)"))
    assert (found.verdict, found.cells(), found.separation) == ("not separable", [], None)
    assert "INCOMPLETE" in report([found])
    assert "Several looks at a store that grows do not hold" in report([found])
    assert rank(found.result, [claim("dp(epsilon=1)"), claim("dp(epsilon=2)")]) is None
    assert json.loads(to_json([found]))["complete"] is False


def test_the_right_noise_level_fits_best(result):
    texts = ["laplace(epsilon=0.8)", "laplace(epsilon=1)", "laplace(epsilon=1.25)", "gaussian(mu=1)"]
    ranking = rank(result, [claim(text) for text in texts])
    assert ranking.fits[0].claim == "laplace(epsilon=1)"
    assert [f.score for f in ranking.fits] == sorted(f.score for f in ranking.fits)
    assert {f.claim for f in ranking.fits} == set(texts)
    steps = {frozenset((step.better, step.worse)): step for step in ranking.steps}
    assert len(steps) == 3
    scores = {f.claim: f.score for f in ranking.fits}
    assert all(scores[step.better] <= scores[step.worse] for step in ranking.steps)
    of_right = [step for step in ranking.steps if "laplace(epsilon=1)" in (step.better, step.worse)]
    assert of_right
    assert all(step.separable and step.better == "laplace(epsilon=1)" for step in of_right)
    assert "the data reject the second" in report([verify(result, claim(t)) for t in texts], ranking)


def test_close_noise_levels_are_not_separable():
    """R12: at ε = 0.5 the curves differ by 3.9e-4; to tell them apart needs a standard error of 1e-4 or less."""
    found = laplace(size=1 << 16, epsilons=[0.5])
    ranking = rank(found, [claim(f"laplace(epsilon={e})") for e in (0.999, 1, 1.001)])
    assert len(ranking.steps) == 2
    for step in ranking.steps:
        assert not step.separable
        assert step.difference == pytest.approx(3.9e-4, abs=5e-6)
        error = float(careful_error(found).max()) * math.sqrt(step.now / step.test)
        assert 0.95e-4 < error <= 1.005e-4  # 3.9e-4 are 2 × 1.96 of these
        assert 6.9e7 < step.test < 7.7e7


def test_equal_claims_are_never_separable(result):
    ranking = rank(result, [claim("laplace(epsilon=1)"), claim("laplace(epsilon=1.0)")])
    assert (ranking.steps[0].separable, ranking.steps[0].test) == (False, None)
    assert "equal at these ε" in report([verify(result, claim("laplace(epsilon=1)"))], ranking)


def drawn(rng, levels, size, runs):
    """Counts of forward and reverse sets in exact draws of the Laplace pair: (runs, 2, levels, 2)."""
    loss = [np.clip(1 - 2 * (rng.laplace(size=(runs, size)) + shift), -1, 1) for shift in (0.0, 1.0)]
    forward = np.stack([[(side > e).sum(axis=1) for e in levels] for side in loss], axis=2)
    reverse = np.stack([[(side < -e).sum(axis=1) for e in levels] for side in loss[::-1]], axis=2)
    return np.moveaxis(np.stack([forward, reverse]), 2, 0)


def test_the_true_claim_is_seldom_rejected_and_a_wrong_one_at_the_size_that_was_said(result):
    levels, size, runs = np.array(LEVELS[:4]), 3000, 400
    template = laplace(epsilons=levels.tolist(), size=size)
    claims = [claim("laplace(epsilon=1)"), claim("laplace(epsilon=0.9)")]
    rejected, said = {c.text: 0 for c in claims}, []
    for counts in drawn(np.random.default_rng(8), levels, size, runs):
        exceed = counts[None]
        share = exceed / size
        delta = np.maximum(0.0, share[..., 0] - np.exp(levels) * share[..., 1])
        (step,) = rank(changed(template, exceed=exceed, delta=delta), claims).steps
        said.append(step.test)
        if step.separable:
            rejected[step.worse] += 1
    assert rejected["laplace(epsilon=1)"] <= runs * 0.05 + 4 * math.sqrt(runs * 0.05 * 0.95)
    # power of the one-sided test at this size, from the size that was said to give 0.95 at level 0.05
    quantile = 1.6448536
    apart = 2 * quantile * math.sqrt(size / np.median(said))
    power = 0.5 * math.erfc((quantile - apart) / math.sqrt(2))
    assert rejected["laplace(epsilon=0.9)"] / runs == pytest.approx(power, abs=0.05 + 4 * 0.5 / math.sqrt(runs))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, client):
    path = tmp_path_factory.mktemp("verify")
    common = {"train": 10_000, "test": 10_000, "epsilons": [0.0, 0.5, 1.0]}
    study = make_study("laplace", {"epsilon": 1.0}, [*PAIR, ([0.0], [0.5])], seed=2, **common)
    run(study, path / "one.zarr", client)
    run(make_study(*LAPLACE, seed=2, loss="literal-knn", **common), path / "literal.zarr", client)
    return path


@pytest.mark.parametrize("name", ["one", "literal"])
def test_command(folder, name):
    store = folder / f"{name}.zarr"
    good = call("verify", store, "--claim", "laplace(epsilon=1.3)", "--format", "json")
    found = json.loads(good.stdout)
    told = ("verdict", "claim", "confidence", "complete", "separation")
    assert [found[k] for k in told] == ["consistent", "laplace(epsilon=1.3)", 0.95, True, None]
    assert {frozenset(cell) for cell in found["cells"]} == {frozenset(KEYS)}
    assert len(found["cells"]) == 2 * 3 * len(load_result(store).pairs)
    bad = json.loads(call("verify", store, "--claim", "dp(epsilon=0.5)", "--format", "json", code=3).stdout)
    assert bad["verdict"] == "violation"
    text = call("verify", store, "--claim", "dp(epsilon=0.5)", code=3).stdout
    assert "is violated, certified at confidence 95 %" in " ".join(text.split())
    close = json.loads(call("verify", store, "--claim", between(load_result(store)), "--format", "json").stdout)
    assert close["verdict"] == "not separable"
    assert close["separation"]["test"] > 10_000
    assert "laplac(" in call("verify", store, "--claim", "laplac(epsilon=1)", code=2).stderr
    assert "the study makes none" in call("verify", store, code=2).stderr
    assert "hpcdp: " in call("verify", folder / "none.zarr", "--claim", "dp(epsilon=1)", code=2).stderr


def test_several_claims(folder):
    texts = ["laplace(epsilon=1)", "dp(epsilon=0.2)", "laplace(epsilon=1.5)"]
    arguments = [part for text in texts for part in ("--claim", text)]
    found = json.loads(call("verify", folder / "one.zarr", *arguments, "--format", "json", code=3).stdout)
    assert (found["verdict"], found["claim"]) == ("violation", "dp(epsilon=0.2)")
    assert [c["claim"] for c in found["claims"]] == texts
    assert found["cells"] == found["claims"][1]["cells"]
    assert found["ranking"]["fits"][0]["claim"] == "laplace(epsilon=1)"
    text = call("verify", folder / "one.zarr", *arguments, code=3).stdout
    assert all(t in text for t in texts)
    assert "best fit first" in text


def test_an_incomplete_store_and_the_claim_of_its_study(tmp_path):
    """A violation among the cells that are known is one; none among them is no success: the others were not looked at."""

    def study(*more):
        sizes = {"train": 5000, "test": 5000, "epsilons": [0.0, 0.5]}
        return make_study(*LAPLACE[:2], [*PAIR, *more], seed=2, head={"claim": "dp(epsilon=0.2)"}, **sizes)

    def junit(*options, code):
        return ElementTree.fromstring(
            call("verify", store, "--format", "junit", *options, code=code).stdout.split("\n", 1)[1]
        )[0]

    store, second = tmp_path / "grown.zarr", ([0.0], [0.1])
    driver.run(study(), store, workers=0)
    counts = records(store, "counts")
    driver.run(study(second), store, workers=0)
    (store / "records" / "results.json").unlink()
    for record in set(records(store, "counts")) - set(counts):
        record.unlink()
    found = json.loads(call("verify", store, "--format", "json", code=3).stdout)
    assert (found["verdict"], found["claim"], found["complete"]) == ("violation", "dp(epsilon=0.2)", False)
    assert {cell["pair"] for cell in found["cells"]} == {0}
    text = call("verify", store, code=3).stdout
    assert all(words in text for words in ("INCOMPLETE", f"hpcdp resume {store}", "4 of 8 entries"))
    assert call("verify", store, "--incomplete", code=3).stderr == ""
    assert junit(code=3)[0].get("message") == "violation; incomplete: 4 of 8 entries"

    consistent, incomplete = (
        ("--claim", "dp(epsilon=2)"),
        f"{store} is not complete: 4 of 8 entries have all their counts",
    )
    for form in ("json", "table"):
        done = call("verify", store, *consistent, "--format", form, code=1)
        assert done.stderr.startswith(f"hpcdp: {incomplete}")
        assert done.stderr.count("\n") == 1
        accepted = call("verify", store, *consistent, "--format", form, "--incomplete")
        assert (accepted.stdout, accepted.stderr) == (done.stdout, "")
    done = json.loads(call("verify", store, *consistent, "--format", "json", "--incomplete").stdout)
    told = ("verdict", "complete", "cells_known", "cells_planned")
    assert [done[name] for name in told] == ["consistent", False, 4, 8]
    (error,), (accepted,) = junit(*consistent, code=1), junit(*consistent, "--incomplete", code=0)
    assert (error.tag, error.get("message"), accepted.tag) == ("error", "incomplete: 4 of 8 entries", "system-out")
    markdown = call("verify", store, *consistent, "--format", "markdown", code=1).stdout
    assert "The store is not complete: 4 of 8 entries" in markdown
    for record in records(store, "counts"):
        record.unlink()
    nothing = call("verify", store, *consistent, "--format", "json", code=1)
    assert "0 of 8 entries" in nothing.stderr
    assert json.loads(nothing.stdout)["cells"] == []
    driver.run(study(second), store, workers=0)
    assert call("verify", store, *consistent).stderr == ""
