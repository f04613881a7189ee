"""Refined losses and targets as runs: what is tallied, decided and certified; killed at every stage; damage; refusals."""

import json
import math
import time
from unittest.mock import patch

import numpy as np
import pytest
from commands import (
    call,
    one_message,
    show,
    stored_problem,
    write_study,
)
from journals import records
from races import RACE, RACED
from studies import REFINED, make_study, run

from hpcdp.analytic import GaussianShift
from hpcdp.engine.context import open_context
from hpcdp.losses.refined import refine
from hpcdp.methods.sample_split.learning import learn_refined, restore_pilot
from hpcdp.methods.sample_split.targets import rates_of
from hpcdp.notions.bounds import binomial_upper, hoeffding_radius
from hpcdp.report.notions import text as table_of
from hpcdp.store.layout import Layout
from hpcdp.store.tallies import recorded_tallies
from hpcdp.study.problem import MANY

KINDS = ("pilots", "tallies", "fits", "sizes", "counts")
TARGET = {
    "target": {"epsilon": 0.5, "relative_error": 0.04, "most": 200_000},
    "test": 1 << 20,
    "train": 2000,
    "keep": "none",
    "chunk": 1000,
}


def normal_study(**estimate):
    """Two normal laws at distance 1, the second pair at distance 2."""
    pairs = [([0.0], [1.0]), ([0.0], [2.0])]
    grid = {"epsilons": [0.0, 0.5, 1.0, 2.0], **estimate}
    return make_study("gaussian", {"sigma": 1.0}, pairs, seed=6, loss="knn", **grid)


@pytest.mark.slow
def test_more_draws_and_more_epsilons_use_what_is_there(client, tmp_path):
    store = tmp_path / "s.zarr"
    run(normal_study(**REFINED), store, client)
    before = {record: record.read_bytes() for record in records(store, *KINDS)}
    more = {**REFINED, "epsilons": [0.0, 0.5, 0.75, 1.0, 2.0]}
    run(normal_study(**more), store, client)
    tallies = records(store, "tallies")
    assert before.keys() - records(store, "fits", "sizes", "counts") == {*tallies, *records(store, "pilots")}
    grown = run(normal_study(**{**more, "refine": 50_000}), store, client)
    assert {record: record.read_bytes() for record in before} == before
    pilots = [record.name for record in records(store, "pilots")]
    spans = [span for pilot in pilots for span in recorded_tallies(Layout(store), pilot)]
    new = sorted(span.start for span in spans if span.stage == "refine")
    assert new == sorted([0, 0, 3, 3])  # chunks 3 and 4 alone were drawn anew
    alone = run(normal_study(**{**more, "refine": 50_000}), tmp_path / "alone.zarr", client)
    assert grown.to_dict() == alone.to_dict()


@pytest.mark.slow
def test_an_eta_that_is_added_has_a_loss_of_its_own_and_a_share_of_the_level(client, tmp_path):
    """Its sets are not nested in those that were there: the radius of all is of two families, the limits are as before."""
    store = tmp_path / "s.zarr"
    first = run(normal_study(etas=[0.5, 1.0], **REFINED), store, client)
    before = {record: record.read_bytes() for record in records(store, *KINDS)}
    study = normal_study(etas=[0.5, 1.0, 1.5], **REFINED)
    grown = run(study, store, client)
    assert {record: record.read_bytes() for record in before} == before
    np.testing.assert_array_equal(grown["rejected"][:, :2], first["rejected"])
    assert grown["rejected"].min() > 0
    n, level, pairs = 30_000, 0.05, 2
    for result, families in ((first, 1), (grown, 2), (run(study, tmp_path / "alone.zarr", client), 1)):
        np.testing.assert_allclose(result["radius"], hoeffding_radius(n, level / (pairs * families)), rtol=1e-12)
        # α ≤ and β ≤ have the whole level once more, as the words below the table say
        each = level / (2 * pairs * len(result["eta"]))
        np.testing.assert_allclose(
            result["alpha_upper"], binomial_upper(result["rejected"][..., 0], n, each), rtol=1e-12
        )
        np.testing.assert_allclose(
            result["beta_upper"], binomial_upper(n - result["rejected"][..., 1], n, each), rtol=1e-12
        )
        assert "radius: all points together at 95 %. α ≤ and β ≤: the same, a family of their own." in table_of(result)
        for number, mu in enumerate((1.0, 2.0)):
            alpha = np.minimum(1.0, result["alpha"][number] + result["radius"][number])
            assert (GaussianShift(mu).tradeoff(alpha) <= result["beta"][number] + result["radius"][number]).all()


TARGETED = """
import time


def noisy(database, size, rng, pause=0.0):
    time.sleep(pause)
    return database.sum() + rng.laplace(size=size)
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The JSON of a study with a target, run from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    call("run", raced_study(folder), "--store", folder / "s.zarr", "--workers", 2)
    sizes = [stored_problem(folder / "s.zarr").sizes_of(number) for number in range(len(RACED))]
    assert min(s.test for s in sizes) > 0
    assert all(s.refine == 0 for s in sizes[:5]), "what cannot lead is not refined"
    assert 1 <= sum(s.refine > 0 for s in sizes) <= MANY
    assert max(s.screen for s in sizes[5:]) > max(s.screen for s in sizes[:5]) == RACE["train"], (
        "there was a second round"
    )
    return show(folder / "s.zarr")


def raced_study(folder):
    """14 pairs, of which 9 are almost alike, so that racing takes rounds."""
    return write_study(folder, TARGETED, parameters={"pause": 0.005}, etas=[1.0], **RACE)


@pytest.mark.slow
@pytest.mark.promise
def test_the_target_is_met_where_it_matters(undisturbed):
    data = json.loads(undisturbed)
    tests = {c["pair"]: c["test"][0] for c in data["cells"]}
    assert any(8 * test < max(tests.values()) for test in tests.values())
    for row in data["spectrum"]:  # rough estimates of pairs that got few have no part in the largest one
        told = [c for c in data["cells"] if c["epsilon"] == row["epsilon"] and 8 * c["test"][0] >= max(tests.values())]
        assert row["delta"] == max(c["delta"] for c in told)
    cells = sorted((c for c in data["cells"] if c["epsilon"] == 0.5), key=lambda c: c["delta"])
    winner = max(cells, key=lambda c: c["lower"])
    assert winner["standard_error"] < 1.1 * 0.015 * winner["delta"]
    exact = -math.expm1((0.5 - RACED[winner["pair"]]) / 2)
    assert exact > 0.8 * -math.expm1(-0.25)
    assert winner["lower"] <= exact
    assert all(c["test"][0] < winner["test"][0] for c in cells if c["pair"] < 5), "what cannot lead gets less"


@pytest.mark.slow
def test_status_and_plan_tell_of_tallies_and_targets(tmp_path):
    study = write_study(tmp_path, TARGETED, databases=[[0.0, 1.0]], **TARGET)
    plan = call("plan", study).stdout
    assert "target         δ at ε = 0.5 with a standard error of 4 %" in plan
    assert "pilot" in plan
    assert "tally" in plan
    store = tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", 2)
    status = call("status", store).stdout
    assert "learn pilots   2 of 2 pairs done" in status
    assert "tally refine" in status
    assert "complete" in status
    text = " ".join(call("show", store).stdout.split())
    sizes = [stored_problem(store).sizes_of(number).test for number in range(2)]
    most = int(np.argmax(sizes))
    assert f"test samples: pair {most} (database 0 without row {most}) {sizes[most]:,} of D and" in text


def sided_study(direction, **changes):
    """Two normal laws at distance 1: δ = 1.5·10⁻³ at ε = 3, where the inflated side's variance is 15 times the other's."""
    target = {"epsilon": 3.0, "direction": direction, "relative_error": 0.1, "most": 20_000_000}
    values = {"epsilons": [0.0, 1.0, 3.0], "train": 1000, "chunk": 1000, "keep": "none", "target": target}
    pairs = [([0.0], [1.0])]
    return make_study("gaussian", {"sigma": 1.0}, pairs, seed=8, **{**values, **changes})


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_each_side_has_as_many_tallies_as_it_needs(client, tmp_path, direction):
    store, row = tmp_path / "s.zarr", ("forward", "reverse").index(direction)
    result = run(sided_study(direction), store, client)
    sizes = stored_problem(store).sizes_of(0)
    numbers = [sum(tallies) for tallies in sizes.tallies]
    assert numbers[1 - row] > 2.5 * numbers[row] > 0, "the inflated side has more"
    context = open_context(str(store), 1, sizes)
    problem, pilot = context.problem, restore_pilot(context, 0)

    def outputs_of(name, side):
        stage = problem.stage_of(name, 0, side)
        return np.concatenate(list(context.chunks(stage, problem.pair_laws[0][side], range(stage.chunks))))

    with patch("hpcdp.methods.sample_split.learning.refine", wraps=refine) as learned:
        counter, judged, _ = learn_refined(context, 0, problem.thresholds)
    for at, name in enumerate(("refine", "validation")):
        tally = learned.call_args.args[1 + at]
        for side, (found, number) in enumerate(((tally.p, tally.n0), (tally.q, tally.n1))):
            outputs = outputs_of(name, side)
            assert outputs.size == number == sizes.of(name, side)
            cells = np.searchsorted(pilot.cells.starts, outputs, "right") - 1
            np.testing.assert_array_equal(np.bincount(cells, minlength=pilot.cells.size), found)
    assert judged.sum(axis=1).tolist() == numbers
    counts = [counter.count(outputs_of("test", side)) for side in (0, 1)]
    above = 2 * np.searchsorted(problem.thresholds, 1.0) + 2
    assert result["exceed"][0, 0, 1].tolist() == [int(found[above:].sum()) for found in counts]
    # what both tallies and the test tell, within their own errors: shares of the wrong side's number would be far off
    a, b = GaussianShift(1.0), math.exp(3.0)
    p, q = rates_of(a.spectrum, 3.0)
    error = math.sqrt(p / numbers[row] + b * b * q / numbers[1 - row])
    delta = float(a.delta(3.0))
    assert abs(result["training_delta"][0, row, 2] - delta) < 5 * error < delta
    assert result["standard_error"][0, row, 2] < 1.5 * 0.1 * delta
    off = np.abs(result["delta"][0] - a.delta(result["epsilon"])) / result["standard_error"][0]
    assert off.max() < 5.5
    assert (result["lower"][0] <= a.delta(result["epsilon"])).all()
    line = next(line for line in call("status", store).stdout.splitlines() if "tally refine" in line)
    assert f"{max(sizes.of('refine', 0), sizes.of('refine', 1)) // 1000:,} of" in line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": {"epsilon": 0.5}, "refine": 10}, "target was given with estimate.refine = 10; accepted: one or"),
        ({"target": {"epsilon": 0.5}, "test": 10}, "target was given with estimate.test; accepted: one or"),
        ({"target": {"epsilon": 0.7}}, "target.epsilon: one of the epsilons; given: 0.7"),
        ({"target": {"epsilon": 0.5, "delta": 0.1}}, "exactly one of epsilon, delta, precision; given: epsilon, delta"),
        ({"target": {}}, "exactly one of epsilon, delta, precision; given: none"),
        ({"target": {"delta": 0}}, "estimate.target.delta"),
        ({"target": {"epsilon": 0.5}, "keep": "all"}, "keep"),
        ({"time": "2 weeks"}, "estimate.time"),
        ({"time": "2h", "refine": 10}, "estimate.time = '2h' was given with estimate.refine"),
        ({"time": "2h", "target": {"epsilon": 0.5}}, "estimate.time = '2h' was given with estimate.target"),
        ({"validation": 10}, "accepted: with refine only"),
        ({"loss": ["knn", "kde"]}, "loss: several need refine, target or time"),
        ({"loss": ["knn", "knn"], "refine": 10}, "loss: several are distinct"),
        ({"loss": [], "refine": 10}, "estimate.loss"),
        (
            {"refine": 10, "loss": "literal-knn"},
            "estimate.loss = 'literal-knn' was given with estimate.refine = 10; accepted: ",
        ),
    ],
)
def test_refusals_name_the_key(tmp_path, changes, words):
    values = {"etas": [], **({"test": 1 << 20} if {"target", "time"} & changes.keys() else {}), **changes}
    if "keep" not in changes and {"target", "time"} & changes.keys():
        values["keep"] = "train"
    message = one_message(call("plan", write_study(tmp_path, TARGETED, **values), code=2))
    assert words in message


@pytest.mark.slow
def test_a_time_is_kept(tmp_path, scheduler):
    study = write_study(
        tmp_path, TARGETED, databases=[[0.0, 1.0]], time="6 s", test=1 << 20, keep="none", chunk=100_000
    )
    store = tmp_path / "s.zarr"
    call("plan", study)
    begin = time.monotonic()  # the workers have started already
    first = call("run", study, "--store", store, "--workers", 2, "--cluster", scheduler)
    seconds = time.monotonic() - begin
    assert "6 s with 2 workers" in first.stderr
    sizes = {stored_problem(store).sizes_of(number) for number in range(2)}
    (size,) = sizes
    assert size.test > 20 * size.refine > 0
    print(f"{seconds:.1f} s for 6 s; {size}")
    assert seconds < 60
    before = show(store)
    call("resume", store, "--cluster", scheduler)
    assert show(store) == before
