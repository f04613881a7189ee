"""Refined losses and targets as runs: what is tallied, decided and certified; killed at every stage; damage; refusals."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest
from commands import call, kill_group, one_message, records, show, started, stored_problem, wait_until, write_study
from races import RACE, RACED
from studies import make_study, run

from hpcdp.analytic import GaussianShift
from hpcdp.context import open_context
from hpcdp.failures import RunFailed
from hpcdp.foresight import rates_of
from hpcdp.problem import MANY, Sizes, first_sizes
from hpcdp.store.layout import Layout
from hpcdp.store.tallies import known_tallies
from hpcdp.tallying import learn_refined, restore_pilot
from hpcdp.targets import (
    LEARNING,
    Forecast,
    first_refined,
    forecast_target,
    next_screen,
    next_sizes,
    target_column,
)

KINDS = ("pilots", "tallies", "fits", "sizes", "counts")
TARGET = {
    "target": {"epsilon": 0.5, "relative_error": 0.04, "most": 200_000},
    "test": 1 << 20,
    "train": 2000,
    "keep": "none",
    "chunk": 1000,
}
REFINED = {"refine": 30_000, "validation": 20_000, "train": 2000, "test": 30_000, "chunk": 10_000, "keep": "none"}


def normal_study(**estimate):
    """Two normal laws at distance 1, the second pair at distance 2."""
    pairs = [([0.0], [1.0]), ([0.0], [2.0])]
    grid = {"epsilons": [0.0, 0.5, 1.0, 2.0], **estimate}
    return make_study("gaussian", {"sigma": 1.0}, pairs, seed=6, loss="knn", **grid)


def test_a_refined_run_counts_the_sets_that_its_tallies_chose(client, tmp_path):
    store = tmp_path / "s.zarr"
    result = run(normal_study(etas=[0.5, 1.0], **REFINED), store, client)
    assert result.complete
    context = open_context(str(store), 1)
    problem = context.problem
    for number in range(2):
        stage = {name: problem.stage_of(name, number) for name in ("refine", "validation", "test")}
        assert [s.total for s in stage.values()] == [30_000, 20_000, 30_000]
        pilot = restore_pilot(context, number)
        for name in ("refine", "validation"):
            spans = known_tallies(context.layout, problem.pilot_keys[number])
            assert sum(s.samples for s in spans if s.stage == name) == stage[name].total
        counter, _, chosen = learn_refined(context, number, problem.thresholds)
        assert set(chosen) <= {"smooth", "best", "pilot 0"}
        d, d_prime = (
            np.concatenate(list(context.chunks(stage["test"], law, range(3)))) for law in problem.pair_laws[number]
        )
        counts = np.stack([counter.count(x) for x in (d, d_prime)])
        column = 2 * np.searchsorted(problem.thresholds, 0.5) + 1
        np.testing.assert_array_equal(result["exceed"][number, 0, 1], counts[:, column + 1 :].sum(axis=1))
        # cells and their classes, looked up without any table
        cells = np.searchsorted(pilot.cells.starts, d, "right") - 1
        np.testing.assert_array_equal(np.bincount(cells, minlength=pilot.cells.size), pilot.tally(d))
    exact = [GaussianShift(mu).delta(result["epsilon"]) for mu in (1.0, 2.0)]
    off = np.abs(result["delta"] - np.array(exact)[:, None]) / result["standard_error"]
    assert off.max() < 5.5


def test_more_draws_and_more_epsilons_use_what_is_there(client, tmp_path):
    store = tmp_path / "s.zarr"
    run(normal_study(**REFINED), store, client)
    before = {path: path.read_bytes() for path in records(store, *KINDS)}
    more = {**REFINED, "epsilons": [0.0, 0.5, 0.75, 1.0, 2.0]}
    run(normal_study(**more), store, client)
    tallies = records(store, "tallies")
    assert {path for path in before if path.relative_to(store).parts[1] in ("pilots", "tallies")} == set(
        tallies + records(store, "pilots")
    )
    grown = run(normal_study(**{**more, "refine": 50_000}), store, client)
    assert {path: path.read_bytes() for path in before} == before
    pilots = [path.stem for path in records(store, "pilots")]
    spans = [span for pilot in pilots for span in known_tallies(Layout(store), pilot)]
    new = sorted(span.start for span in spans if span.stage == "refine")
    assert new == sorted([0, 0, 3, 3])  # chunks 3 and 4 alone were drawn anew
    alone = run(normal_study(**{**more, "refine": 50_000}), tmp_path / "alone.zarr", client)
    assert grown.to_dict() == alone.to_dict()


@pytest.mark.parametrize("what", ["tallies", "pilots"])
def test_what_is_damaged_is_made_again(client, tmp_path, what):
    store = tmp_path / "s.zarr"
    study = normal_study(**REFINED)
    whole = run(study, store, client).to_json()
    file = max((path for path in (store / what).rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    for path in records(store, "fits", "counts"):
        path.unlink()
    (store / "records" / "results.json").unlink()
    with pytest.raises(RunFailed, match="damaged"):
        run(study, store, client)
    assert run(study, store, client).to_json() == whole


TARGETED = """
import os
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
def test_killed_at_every_stage(tmp_path, undisturbed):
    store = tmp_path / "s.zarr"
    command = ("run", raced_study(tmp_path), "--store", store)
    stages = [
        ("fits", 1),  # screened
        ("sizes", 1),
        ("sizes", 2),  # a second round
        ("pilots", 1),
        ("tallies", 2),
        ("tallies", 12),
        ("sizes", 3),
        ("counts", 1),
        ("counts", 12),
    ]
    killed = 0
    for kind, number in stages:
        before = {path: path.read_bytes() for path in records(store, *KINDS)}
        with started(*command, "--workers", 2, folder=tmp_path) as process:
            wait_until(
                lambda kind=kind, number=number, process=process: (
                    len(records(store, kind)) >= number or process.poll() is not None
                ),
                f"{number} records of {kind}",
            )
            killed += process.poll() is None
            kill_group(process)
        assert all(path.read_bytes() == data for path, data in before.items())
        command = ("resume", store)
    assert killed >= 6
    call("resume", store, "--workers", 2)
    assert show(store) == undisturbed


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": {"epsilon": 0.5}, "refine": 10}, "instead of estimate.refine"),
        ({"target": {"epsilon": 0.5}, "test": 10}, "instead of estimate.test"),
        ({"target": {"epsilon": 0.7}}, "target.epsilon: one of the epsilons; given: 0.7"),
        ({"target": {"epsilon": 0.5, "delta": 0.1}}, "exactly one of epsilon, delta; given: epsilon, delta"),
        ({"target": {}}, "exactly one of epsilon, delta; given: none"),
        ({"target": {"delta": 0}}, "estimate.target.delta"),
        ({"target": {"epsilon": 0.5}, "keep": "all"}, "keep"),
        ({"time": "2 weeks"}, "estimate.time"),
        ({"time": "2h", "refine": 10}, "time: instead of estimate.refine"),
        ({"time": "2h", "target": {"epsilon": 0.5}}, "time: instead of target"),
        ({"validation": 10}, "validation: with refine only"),
        ({"loss": ["knn", "kde"]}, "loss: several need refine, target or time"),
        ({"loss": ["knn", "knn"], "refine": 10}, "loss: several are distinct"),
        ({"loss": [], "refine": 10}, "estimate.loss"),
        ({"refine": 10, "loss": "literal-knn"}, "estimate.refine: needs fresh draws"),
    ],
)
def test_refusals_name_the_key(tmp_path, changes, words):
    values = {"etas": [], **({"test": 1 << 20} if {"target", "time"} & changes.keys() else {}), **changes}
    if "keep" not in changes and {"target", "time"} & changes.keys():
        values["keep"] = "train"
    message = one_message(call("plan", write_study(tmp_path, TARGETED, **values), code=2))
    assert words in message


def test_several_losses_are_candidates(client, tmp_path):
    study = normal_study(**REFINED)
    study = study.model_copy(
        update={"estimate": study.estimate.model_copy(update={"loss": ("knn", "kde", "frequency")})}
    )
    result = run(study, tmp_path / "s.zarr", client)
    context = open_context(str(tmp_path / "s.zarr"), 1)
    assert restore_pilot(context, 0).losses.shape[0] == 3
    assert context.problem.study.estimate.other_losses == ("kde", "frequency")
    exact = np.array([GaussianShift(mu).delta(result["epsilon"]) for mu in (1.0, 2.0)])[:, None]
    assert (np.abs(result["delta"] - exact) / result["standard_error"]).max() < 5.5


def test_a_time_is_kept(tmp_path):
    study = write_study(
        tmp_path, TARGETED, databases=[[0.0, 1.0]], time="6 s", test=1 << 20, keep="none", chunk=100_000
    )
    store = tmp_path / "s.zarr"
    call("plan", study)
    begin = time.monotonic()
    first = call("run", study, "--store", store, "--workers", 2)
    seconds = time.monotonic() - begin
    assert "6 s with 2 workers" in first.stderr
    sizes = {stored_problem(store).sizes_of(number) for number in range(2)}
    (size,) = sizes
    assert size.test > 20 * size.refine > 0
    print(f"{seconds:.1f} s with the start of workers; {size}")
    assert seconds < 60
    before = show(store)
    call("resume", store, "--workers", 2)
    assert show(store) == before


LETTERS = """
def noisy(database, size, rng):
    p = [0.4, 0.3, 0.2, 0.0999, 0.0001] if database.sum() > 1 else [0.5, 0.2, 0.25, 0.04999, 0.00001]
    return rng.choice(["a", "bb", "ccc", "", "rare"], size, p=p)
"""


def test_strings_need_a_loss_of_values(tmp_path):
    message = one_message(call("plan", write_study(tmp_path, LETTERS, refine=10, etas=[]), code=2))
    assert "estimate.refine: of such outputs" in message
    assert "accepted with loss = frequency; given: loss = knn" in message


@pytest.mark.parametrize("distinct", [4, 1 << 22])
def test_values_are_refined_by_more_draws(tmp_path, scheduler, distinct):
    """The rare string is told by refining draws, which training lacks."""
    sizes = {"train": 2000, "refine": 400_000, "test": 200_000, "chunk": 50_000, "keep": "none", "etas": []}
    settings = {"loss": "frequency", "databases": [[1.0, 1.0]], "epsilons": [0.0, 1.0, 2.0], **sizes}
    if distinct == 4:  # fewer classes than values: what shares a class counts together
        settings["pairs"] = "given = [{ d = [1.0, 1.0], d_prime = [1.0] }]\n[estimate.parameters]\ndistinct = 4"
    study, store = write_study(tmp_path, LETTERS, **settings), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    cells = {(c["direction"], c["epsilon"]): c for c in json.loads(show(store))["cells"] if c["pair"] == 0}
    if distinct > 4:
        # {rare, ""} at ε = 0 beside "bb"; only rare above ε = 2, with P = 1e-4 and Q = 1e-5
        assert cells["forward", 2.0]["exceed"] != [0, 0]
        truth = 0.0001 - math.exp(2.0) * 0.00001
        assert abs(cells["forward", 2.0]["delta"] - truth) < 5.5 * cells["forward", 2.0]["standard_error"]
    assert abs(cells["forward", 0.0]["delta"] - (0.1 + 0.04991 + 0.00009)) < (0.01 if distinct > 4 else 0.2)


def test_vectors_are_refined_on_their_score(client, tmp_path):
    pairs = [([0.0, 0.0], [0.6, 0.8])]
    study = make_study(
        "gaussian", {"sigma": 1.0}, pairs, seed=8, loss="smooth", epsilons=[0.0, 1.0, 2.0], **{**REFINED, "test": 10**5}
    )
    result = run(study, tmp_path / "s.zarr", client)
    exact = GaussianShift(1.0).delta(result["epsilon"])
    assert (np.abs(result["delta"] - exact) / result["standard_error"]).max() < 5.5


CORNERS = """
def noisy(database, size, rng):
    signs = rng.choice([-1.0, 1.0], (size, 3))
    signs[:, 2] = signs[:, 0] * signs[:, 1] * (1.0 if database.sum() > 1 else -1.0)
    return 1.5 * signs + rng.normal(size=(size, 3))
"""


def corner_delta(epsilon):
    """δ of the two laws above and its standard error, from 10⁶ draws of D and the exact L."""
    rng = np.random.default_rng(5)
    signs = rng.choice([-1.0, 1.0], (10**6, 3))
    signs[:, 2] = signs[:, 0] * signs[:, 1]
    x = 1.5 * (1.5 * signs + rng.normal(size=signs.shape))
    # a product of cosh and sinh of the columns: cosh³ ± sinh³ are the densities over the normal one
    odd = np.tanh(x).prod(axis=1)
    gains = np.maximum(0.0, 1.0 - math.exp(epsilon) * (1.0 - odd) / (1.0 + odd))
    return gains.mean(), gains.std() / 1e3


def test_vectors_that_no_quadratic_tells(tmp_path, scheduler):
    """L depends on the product of three columns: a classifier that can tell it brings them to the line."""
    found = {}
    for loss in ("smooth", "learned"):
        settings = {"databases": [[1.0, 1.0]], "epsilons": [0.0, 1.0], "etas": [], "loss": loss, "keep": "none"}
        sizes = {"train": 20_000, "refine": 50_000, "test": 100_000, "chunk": 50_000}
        if loss == "learned":
            settings["pairs"] = (
                "given = [{ d = [1.0, 1.0], d_prime = [1.0] }]\n[estimate.parameters]\nclassifier = 'gradient-boosting'"
            )
        study, store = write_study(tmp_path, CORNERS, **settings, **sizes), tmp_path / f"{loss}.zarr"
        call("run", study, "--store", store, "--cluster", scheduler)
        found[loss] = {c["epsilon"]: c for c in json.loads(show(store))["cells"] if c["direction"] == "forward"}
    for epsilon in (0.0, 1.0):
        exact, error = corner_delta(epsilon)
        learned, smooth = (found[loss][epsilon] for loss in ("learned", "smooth"))
        print(epsilon, exact, learned["delta"], learned["lower"], smooth["delta"])
        assert learned["lower"] <= exact + 4 * error
        assert learned["delta"] > 0.85 * exact
        assert smooth["delta"] < 0.7 * learned["delta"]  # third moments alone tell it something


def target_of(**target):
    return normal_study(**{**TARGET, "target": target}).estimate.target


def test_forecasts():
    target = target_of(epsilon=1.0, relative_error=0.1)
    # the sets {L > ε} and {L < −ε} of two normal laws at distance 1
    grid = np.array([0.0, 1.0])
    a, b = curve_shares(grid)
    shares = np.broadcast_to(np.stack([a, b], axis=-1), (2, 2, 2))
    assert target_column(target, grid, shares[None]) == 1
    forecast = forecast_target(target, 1.0, shares[:, 1], 10**6)
    delta = float(GaussianShift(1.0).delta(1.0))
    assert forecast.delta == pytest.approx(delta, rel=1e-9)
    spread = np.sqrt((a[1] * (1 - a[1]) + np.e**2 * b[1] * (1 - b[1])) / forecast.draws)
    assert 0.9 < spread / (0.1 * delta) < 1.0
    assert forecast.low < delta < forecast.high
    assert forecast_target(target, 1.0, shares[:, 1], 20).draws is None  # 6 outputs tell too little
    # 300 outputs of D and none of D', each of which would take e^5 of D away: they may be what is missing
    few = np.broadcast_to([3e-5, 0.0], (2, 2))
    assert forecast_target(target, 5.0, few, 10**7).draws is None
    assert forecast_target(target, 1.0, few, 10**7).draws is not None
    assert target_column(target_of(delta=0.2), grid, shares[None]) == 0  # δ(0) = .38, δ(1) = .13
    assert target_column(target_of(delta=0.1), grid, shares[None]) == 1


def test_sizes():
    target, chunk = target_of(epsilon=1.0), 1 << 18
    now, wide = Sizes(1 << 20, 1 << 19, 0), Forecast(1.0, 1e-6, 0.9e-6, 1.1e-6, 1e10)
    grown = next_sizes(target, now, wide, chunk, True, 0)
    assert grown.test == 0
    assert 1.0 <= grown.refine / min(LEARNING * 1e10, 64 * now.refine) <= 1.25
    late = Sizes(1 << 29, 1 << 28, 0)
    final = next_sizes(target, late, wide, chunk, True, 0)
    assert 1.0 <= final.test / 1e10 <= 1.25
    assert final.test % chunk == 0
    assert next_sizes(target, late, wide, chunk, True, 3).refine >= 4 * late.refine  # rivals race before all are tested
    assert next_sizes(target, now, wide, chunk, False, 3) == Sizes(now.refine, now.validation, chunk)
    assert first_sizes(1000, chunk, MANY) == Sizes(chunk, chunk, 0)
    assert first_sizes(1000, chunk, MANY + 1) == Sizes(0, 0, 0, screen=1000)
    hopeless = Forecast(1.0, 1e-12, 0.0, 1e-11, 1e16)
    assert next_sizes(target, late, hopeless, chunk, True, 0).refine > late.refine
    most = target.most * 18 * target.relative_error**2  # what tells δ̂ just well enough where its test takes the most
    assert next_sizes(target, Sizes(1 << 32, 1 << 32, 0), hopeless, chunk, True, 0).refine == pytest.approx(
        most, rel=0.07
    )
    assert next_sizes(target, Sizes(1 << 34, 1 << 34, 0), hopeless, chunk, True, 0).test == 1 << 34
    blind = next_sizes(target, now, Forecast(1.0, 0.0, 0.0, 1e-5, None), chunk, True, 0)
    assert blind == Sizes(4 << 20, 4 << 20, 0)
    uneven = next_sizes(target, late, Forecast(1.0, 1e-6, 0.9e-6, 1.1e-6, 1e10, 4.0), chunk, True, 0)
    assert uneven.split == (chunk // 4, chunk)
    assert uneven.tests[1] == 4 * uneven.tests[0]
    assert 1.0 <= sum(uneven.tests) / 2e10 <= 1.1


@pytest.mark.parametrize("error", [0.03, 0.1])
@pytest.mark.parametrize(("mu", "epsilon", "start"), [(1.0, 4.887, 1 << 24), (0.25, 1.0, 1 << 24), (3.0, 4.0, 1 << 11)])
def test_planned_tests_are_long_enough(mu, epsilon, start, error):
    """Whole histories of decisions, on counts of the exact sets: looks that end early by chance must not spoil the error."""
    a, b = rates_of(GaussianShift(mu).spectrum, epsilon)
    delta, variance = a - math.exp(epsilon) * b, a * (1 - a) + math.exp(2 * epsilon) * b * (1 - b)
    target = target_of(epsilon=1.0, relative_error=error, most=10**14)
    found = []
    for seed in range(400):
        rng = np.random.default_rng([17, seed])
        now, counts, tallied = Sizes(start, start, 0), np.zeros(2), 0
        while not now.test:
            more = now.refine + now.validation - tallied
            counts, tallied = counts + rng.binomial(more, [a, b]), tallied + more
            shares = np.broadcast_to(counts / tallied, (2, 2))
            now = next_sizes(target, now, forecast_target(target, epsilon, shares, tallied), 1 << 6, True, 0)
        found.append(math.sqrt(variance / now.test) / delta / error)
    print(f"μ = {mu}, error {error}: {np.quantile(found, [0.5, 0.8, 0.99]).round(3)}")
    assert np.mean(np.array(found) <= 1.0) > 0.8 - 4 * math.sqrt(0.8 * 0.2 / 400), "about four of five"
    assert np.quantile(found, 0.99) < 1.5
    assert np.median(found) > 0.6, "nor is much wasted"


def test_screening_rounds():
    target = target_of(epsilon=1.0)
    known = [Forecast(1.0, 0.2, 0.1, 0.3, 1e6)] * 20
    assert next_screen(target, 1000, known, 1000) == 4000
    assert next_screen(target, 1000, known[:MANY], 1000) == 0  # few are refined instead
    assert next_screen(target, 1000, known, 2) == 0  # 20 · 4000 draws are more than 3 % of 2 · 10⁶
    assert next_screen(target, 1 << 19, known, 10**6) == 0  # more than testing one takes
    blind = [Forecast(1.0, 0.0, 0.0, 0.3, None)] * 1000
    assert next_screen(target, 1000, blind, 1000) == (4000 if LEARNING * target.most >= 4000 else 0)
    refined = first_refined(Sizes(0, 0, 0, screen=16_000), 2000, 1000)
    assert refined == Sizes(16_000, 16_000, 0, screen=16_000)


def test_one_direction_takes_fewer_draws():
    a, b = curve_shares(np.array([4.0]))
    shares = np.broadcast_to(np.stack([a, b], axis=-1), (2, 1, 2))[:, 0]
    both = forecast_target(
        target_of(epsilon=0.5), 4.0, shares, 10**17
    )  # neither errors nor one output more make a difference
    for direction in ("forward", "reverse"):
        one = forecast_target(target_of(epsilon=0.5, direction=direction), 4.0, shares, 10**17)
        first, second = a[0] * (1 - a[0]), np.exp(8.0) * b[0] * (1 - b[0])
        ratio = np.sqrt(second / first)
        assert one.ratio == pytest.approx(ratio if direction == "forward" else 1 / ratio)
        # two equal sides against the best split: 2 (v0 + v1) against (√v0 + √v1)²
        saved = (np.sqrt(first) + np.sqrt(second)) ** 2 / (2 * (first + second))
        assert one.draws / both.draws == pytest.approx(saved)
        assert saved < 0.7


def curve_shares(grid):
    """P and Q of {L > ε} for normal laws at 0 and 1: outputs below 1/2 − ε."""
    from scipy.special import ndtr

    return ndtr(0.5 - grid), ndtr(-0.5 - grid)
