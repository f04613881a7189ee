"""Samples that teach and test (`estimate.reuse`): the counts by hand, bounds that hold, what runs draw, choose and refuse."""

import json
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
import pytest
from commands import call, calls, one_message, show, write_study
from journals import records
from scipy.stats import binom
from studies import make_study, pose, run

from hpcdp.analytic import GaussianShift
from hpcdp.driver.driver import resume
from hpcdp.driver.plan import plan
from hpcdp.engine.context import open_context
from hpcdp.engine.index import Index, Span
from hpcdp.engine.task import Costs
from hpcdp.errors import StudyError
from hpcdp.losses.kde.kde import Kde
from hpcdp.methods.choice import Price
from hpcdp.methods.cross_fitting import count_part, pool_keys, read_pool
from hpcdp.notions.accuracy import share_radius
from hpcdp.notions.prequential import prequential_lower
from hpcdp.report.notions import text as table_of
from hpcdp.results.audit import audit
from hpcdp.results.load import assemble, load_result
from hpcdp.results.risk import bootstrap
from hpcdp.results.verdict import verify
from hpcdp.study.claims import parse_claim
from hpcdp.study.resolving import resolve
from hpcdp.study.reuse import FEWEST, Cut, first_block, least_learned

LEVEL = 0.05
SMALL = {"loss": "knn", "train": 2000, "test": 4500, "chunk": 500, "etas": [], "reuse": True}


@pytest.mark.parametrize("total", [FEWEST, 51, 399, 400, 6500, 10**6])
def test_every_part_counts_what_its_loss_did_not_see(total):
    cut = Cut.of(total)
    for part in cut.parts:
        for step in part.steps:
            seen = {place for places in step.learned for place in (places.start, places.stop - 1)}
            assert not any(place in step.counted for place in seen)
            assert sum(len(places) for places in step.learned) >= least_learned(total)
    assert sum(part.counted for part in cut.folds) == total
    assert sum(part.counted for part in cut.blocks) == total
    assert all(part.learned == total - part.counted for part in cut.folds)
    (later, *_), first = cut.blocks[1:], first_block(total)
    assert later.steps[0].counted.start == first == cut.blocks[0].counted
    for part in cut.blocks[1:]:
        (step,) = part.steps
        assert step.learned == (range(step.counted.start),)
    assert least_learned(total) >= 20


TABLE = [[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]


def test_counts_and_cells_are_those_of_a_computation_by_hand(client, tmp_path):
    """Strings and `frequency`: in the set are the values whose shares among what taught differ by more than e^ε."""
    study = make_study(
        "pmf", {"outcomes": ["a", "b", "c"], "table": TABLE}, [([0], [1])], seed=3, loss="frequency",
        epsilons=[0.0, 0.4], train=300, test=500, chunk=128, reuse=True,
    )  # fmt: skip
    result = run(study, tmp_path / "s.zarr", client)
    context = open_context(str(tmp_path / "s.zarr"), 1)
    pools = [np.array([x.decode() for x in read_pool(context, law)]) for law in context.problem.pair_laws[0]]
    assert [pool.size for pool in pools] == [800, 800]
    codes = [np.unique(pool, return_inverse=True)[1] for pool in pools]

    def in_set(learned, epsilon):
        p, q = (np.bincount(code[learned], minlength=3) / learned.sum() for code in codes)
        return p > exp(epsilon) * q

    def counted(learned, places, epsilon):
        inside = in_set(learned, epsilon)
        return [inside[code[places]].sum() for code in codes]

    place = np.arange(800)
    for column, epsilon in enumerate([0.0, 0.4]):
        folds = [range(160 * i, 160 * (i + 1)) for i in range(5)]
        x = np.sum([counted(~np.isin(place, fold), np.array(fold), epsilon) for fold in folds], axis=0)
        assert result["exceed"][0, 0, column].tolist() == x.tolist()
        assert result["test"][0, 0, column].tolist() == [800, 800]
        a, b = x / 800
        assert result["delta"][0, 0, column] == pytest.approx(a - exp(epsilon) * b)
        error = sqrt(a * (1 - a) / 800 + exp(2 * epsilon) * b * (1 - b) / 800)
        assert result["standard_error"][0, 0, column] == pytest.approx(error)
        edges = [50, 100, 200, 400, 800]
        practice = [counted((place < 50) & (place // 10 != i), place[10 * i : 10 * i + 10], epsilon) for i in range(5)]
        rows = [np.sum(practice, axis=0)]
        rows += [counted(place < start, place[start:stop], epsilon) for start, stop in pairwise(edges)]
        assert result["block_exceed"][0, 0, column].tolist() == np.array(rows).tolist()
        sizes = np.array([50, 50, 100, 200, 400])
        level = result["level"][0, 0, column]
        own = float(prequential_lower(*np.array(rows).T[[0]], sizes, np.array(rows)[:, 1], sizes, exp(epsilon), level))
        assert result["lower"][0, 0, column] >= max(0.0, own)
    assert result["lower"][0, 0, 1] == max(0.0, own)  # at the last ε no other bound helps
    assert result["block_test"].tolist() == [50, 50, 100, 200, 400]
    # half of the level goes to the direction that the first block ranks first, by nothing else
    practice = result["block_exceed"][..., 0, :] / 50
    ranked = practice[..., 0] - np.exp([0.0, 0.4]) * practice[..., 1]
    np.testing.assert_allclose(result["training_delta"], ranked)
    assert result["level"].sum() == pytest.approx(0.05)


@pytest.mark.slow
def test_all_bounds_of_a_study_hold_together():
    """Every ε and both directions, with the levels that the first block's ranking gives; red by chance once in 1000 seeds."""
    runs, size = 100, 600
    study = make_study(
        "noisy_sum", {"scale": 1.0}, [([0.0], [1.0])], seed=1, loss="kde", epsilons=[0.0, 0.5, 1.0],
        train=size // 2, test=size // 2, reuse=True,
    )  # fmt: skip
    problem, cut, rng = pose(study), Cut.of(size), np.random.default_rng(21)
    thresholds = tuple(problem.thresholds.tolist())
    exact = GaussianShift(1.0).delta(np.array(study.estimate.epsilons), "forward")
    failures = 0
    for _ in range(runs):
        pools = 1.0 + rng.normal(size=size), rng.normal(size=size)
        parts = np.stack([count_part(Kde(), pools, part, problem.thresholds, 1 << 18) for part in cut.parts])
        spans = [Span(0, len(parts), len(parts), {"parts": parts})]
        arrays = assemble(problem, Index(spans={problem.once(pool_keys)[0]: {thresholds: spans}}))
        assert arrays["level"][1].sum() == pytest.approx(1.0 - study.estimate.confidence)
        failures += bool((arrays["lower"][1] > exact).any())
    print(f"some bound of a study above δ in {failures / runs:.3f} of {runs} runs")
    assert failures <= binom.isf(1e-3, runs, LEVEL)


@pytest.mark.slow
def test_a_store_with_samples_draws_nothing_anew_and_neither_way_round(tmp_path, scheduler):
    own = {"parameters": {"pause": 0.0}}
    reused = write_study(tmp_path, name="reused.toml", **SMALL, **own)
    plain = write_study(tmp_path, name="plain.toml", **{**SMALL, "reuse": False}, **own)
    texts = []
    for number, (first, second) in enumerate([(plain, reused), (reused, plain)]):
        store = tmp_path / f"{number}.zarr"
        call("run", first, "--store", store, "--cluster", scheduler)
        texts.append(show(store))
        drawn, before = calls(tmp_path, store), {r: r.read_bytes() for r in records(store, "samples", "packs")}
        call("run", second, "--store", store, "--cluster", scheduler)
        texts.append(show(store))
        assert calls(tmp_path, store) == drawn
        assert {r: r.read_bytes() for r in records(store, "samples", "packs")} == before
    assert texts[0] == texts[3]
    assert texts[1] == texts[2]
    old, new = (json.loads(text) for text in texts[:2])
    assert "reuse" not in old
    assert new["reuse"] == {"folds": 5, "blocks": [406, 406, 812, 1624, 3252]}
    assert {tuple(cell["test"]) for cell in new["cells"]} == {(6500, 6500)}
    errors = [[cell["standard_error"] for cell in data["cells"] if cell["delta"] > 0] for data in (new, old)]
    print(f"standard errors on average {np.mean(errors[0]) / np.mean(errors[1]):.3f} of those of the test samples")
    assert np.mean(errors[0]) < 0.95 * np.mean(errors[1])
    text = " ".join(call("show", tmp_path / "0.zarr").stdout.split())
    assert "reuse: δ̂ is cross-fitted over 6,500 samples per database, in 5 folds" in text
    assert "the study of this store was before: train 2,000, test 4,500, 3 ε, 0 η, 1 databases." in text
    assert "learn, count 40 of 40 parts of pairs done" in " ".join(call("status", tmp_path / "0.zarr").stdout.split())


def small_study(**estimate):
    """One pair of Laplace laws."""
    values = {"epsilons": [0.0, 0.5], "train": 1000, "test": 1000, "chunk": 500, "reuse": True, **estimate}
    return make_study("noisy_sum", {"scale": 1.0}, [([0.0], [1.0])], seed=8, **values)


def test_an_epsilon_that_is_added_leaves_all_counts_as_they_are(client, tmp_path):
    store = tmp_path / "s.zarr"
    run(small_study(), store, client)
    before = {record: record.read_bytes() for record in records(store, "counts")}
    grown = run(small_study(epsilons=[0.0, 0.25, 0.5]), store, client)
    assert {record: record.read_bytes() for record in before} == before
    alone = run(small_study(epsilons=[0.0, 0.25, 0.5]), tmp_path / "alone.zarr", client)
    assert grown.to_json() == alone.to_json()


def test_auto_is_chosen_once_recorded_and_kept(client, tmp_path, monkeypatch):
    study, store = small_study(reuse="auto"), tmp_path / "s.zarr"
    problem, trial = resolve(study)
    price = Price.of(problem, Costs.of(problem, trial))
    assert not price.is_expensive, price
    assert "not chosen: drawing takes about" in str(plan(study, 2))
    monkeypatch.setattr(Price, "is_expensive", True)
    assert "reuse          chosen: drawing takes about" in str(plan(study, 2))
    assert "estimate.reuse = true would get more from the same draws" in str(plan(small_study(reuse=False), 2))
    assert "would get more" not in str(plan(small_study(reuse=False, etas=[1.0]), 2))
    result = run(study, store, client)
    assert result.method.pools
    (record,) = records(store, "choices")
    body = record.body
    assert record.name == "reuse"
    assert min(body["drawing"], body["extra"]) > 0  # what a busy machine measured of either
    monkeypatch.setattr(Price, "is_expensive", False)  # as on another machine
    (store / "records" / "results.json").unlink()
    again = resume(store, client=client())
    assert again.to_json() == result.to_json() == load_result(store).to_json()
    assert records(store, "choices") == [record]
    cheap = run(study, tmp_path / "cheap.zarr", client)
    assert not cheap.method.pools
    assert [record.name for record in records(tmp_path / "cheap.zarr", "choices")] == ["no-reuse"]


def test_stored_samples_are_reused_wherever_they_are(client, tmp_path):
    rng = np.random.default_rng(5)
    for name, shift in (("a", 0.0), ("b", 1.0)):
        np.save(tmp_path / f"{name}.npy", shift + rng.normal(size=500))
    files = {"files": ["a.npy", "b.npy"]}
    estimate = {"epsilons": [0.0], "train": 250, "test": 250, "reuse": "auto", "keep": "none"}
    study = make_study("stored", files, [([0], [1])], seed=1, folder=tmp_path, **estimate)
    assert "chosen: the samples are stored" in str(plan(study, 2))
    result = run(study, tmp_path / "s.zarr", client)
    assert result.method.pools
    kept = make_study("stored", files, [([0], [1])], seed=1, folder=tmp_path, **{**estimate, "keep": "all"})
    assert run(kept, tmp_path / "kept.zarr", client).to_json() == result.to_json()


def test_what_is_derived_counts_the_pool(client, tmp_path):
    result = run(small_study(epsilons=[0.0, 0.5, 3.0]), tmp_path / "s.zarr", client)
    stated = [statement.radius for statement in result.accuracy()]
    np.testing.assert_allclose(stated, share_radius([0.0, 0.5, 3.0], 400, 0.05 / (2 * 3 * len(result.pairs)) / 5))
    assert {statement.alpha for statement in result.accuracy()} == {None}
    errors = bootstrap(result)
    assert {error["method"] for error in errors} == {"folds"}
    for error in errors[:2]:
        assert error["resampled"] == pytest.approx(error["standard_error"], rel=0.2)
    # ε at given δ: from the bounds on δ, as no one set was counted by all samples
    lower = result["lower"][..., 0].max()
    assert result.epsilon_at(0.2).lower >= log((1 - 0.2) / (1 - lower)) - 1e-12 > 0.0
    assert result.epsilon_at(0.0).lower <= 1.0
    # what is not resolved is limited by the last block's counts
    assert not result.resolution.rows[2]
    assert 3.0 / 1000 < result.resolution.limits[2] < 0.1
    assert "At ε = 3 δ̂ is 0" in result.resolution.warnings[1]
    verdict = verify(result, parse_claim("laplace(epsilon=0.9)", tmp_path))
    assert verdict.separation is not None
    assert verdict.separation.now == 2000
    close = verify(result, parse_claim("dp(epsilon=0, delta=0.375)", tmp_path))
    assert close.separation is not None
    assert close.separation.test is not None
    assert close.separation.test > close.separation.now == 2000
    with pytest.raises(StudyError, match=r"estimate\.reuse: an audit tests one L̂"):
        audit(result, parse_claim("gaussian(mu=1)", tmp_path))
    assert "cross-fitted over 2,000 samples" in " ".join(table_of(result).split())
    result.plot(tmp_path / "s.png")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reuse": "yes"}, "estimate.reuse: true, false or \"auto\"; given: 'yes'"),
        ({"reuse": 1}, 'estimate.reuse: true, false or "auto"; given: 1'),
        ({"etas": [1.0]}, "was given with estimate.etas; accepted"),
        ({"refine": 10}, "was given with estimate.refine = 10"),
        ({"target": {"epsilon": 0.5}, "test": 1 << 20}, "was given with estimate.target"),
        ({"time": "2h", "test": 1 << 20, "reuse": "auto"}, "was given with estimate.time"),
        ({"refine": 10, "loss": ["knn", "kde"]}, "was given with estimate.refine = 10, estimate.loss = ['knn', 'kde']"),
        ({"loss": "literal-knn"}, "was given with estimate.loss = 'literal-knn'"),
        (
            {"keep": "train"},
            "was given with estimate.keep = 'train'; accepted: with reuse only \"all\", but for mechanism",
        ),
        ({"train": 20, "test": 29}, "at least 50 samples, train and test together; given: 49"),
        ({"loss_parameters": {"k": 201}}, "parameters.k: with reuse at most 200"),
    ],
)
def test_refusals_name_what_was_given(changes, words):
    with pytest.raises(StudyError) as refused:
        small_study(**changes)
    assert words in str(refused.value)


def test_audits_refuse_reuse(tmp_path):
    study = write_study(tmp_path, **SMALL)
    for more in ((), ("--sequential",)):
        message = one_message(call("audit", study, "--claim", "gaussian(mu=1)", *more, code=2))
        assert "estimate.reuse" in message
