"""Runs of literal-knn: each η is a cell of its own, which can be added, interrupted and resumed."""

import json

import numpy as np
import pytest
from commands import contents, nothing_lost
from studies import StopAtOnce, make_study, pose, run

from hpcdp._base.node import ProcessDied
from hpcdp.driver.driver import resume, run_problem
from hpcdp.driver.plan import make_plan
from hpcdp.engine.executors import Options
from hpcdp.engine.index import Index
from hpcdp.engine.outcomes import describe_killed
from hpcdp.engine.series import Count
from hpcdp.engine.stopping import Stopped
from hpcdp.engine.task import Task
from hpcdp.methods.figure_1 import METHOD, point_cells, risk_cells
from hpcdp.report.status import status
from hpcdp.results.load import load_result
from hpcdp.study.resolving import resolve

SMALL = {"loss": "literal-knn", "epsilons": [0.0, 0.5], "train": 600, "test": 800, "chunk": 256}
GIVEN = [([0.0], [1.0]), ([0.0], [-0.5])]


def small_study(etas, pairs=GIVEN, **more):
    return make_study("laplace", {"epsilon": 1.0}, pairs, seed=21, etas=etas, **(SMALL | more))


def counts_of(result):
    """Counts of the points by what they belong to."""
    return {
        (pair, eta): result["rejected"][pair, column].tolist()
        for pair in range(len(result.pairs))
        for column, eta in enumerate(result["eta"])
    }


def test_an_eta_adds_only_its_cells(client, tmp_path):
    store = tmp_path / "store"
    plain = run(small_study([]), store, client)
    assert plain.tradeoff() == []
    before, known = contents(store), {}
    for etas in ([0.5, 2.0], [0.5, 1.0, 2.0]):
        result = run(small_study(etas), store, client)
        now, after = counts_of(result), contents(store)
        assert {path: after[path] for path in before} == before
        new = after.keys() - before.keys()  # one record, or more where drawing is slow
        entries = [entry for path in new for entry in json.loads(path.read_bytes())["body"]["entries"]]
        assert len(entries) == len(now) - len(known)
        assert {cell: now[cell] for cell in known} == known
        before, known = after, now
    anew = run(small_study([0.5, 1.0, 2.0]), tmp_path / "anew", client)
    assert anew.to_dict() == result.to_dict()
    assert len({tuple(rejected) for rejected in known.values()}) == len(known)  # each has draws of its own
    np.testing.assert_array_equal(anew["errors"], plain["errors"])


@pytest.mark.slow
def test_interrupted_and_resumed(client, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "hpcdp.engine.sampling.task_seconds", lambda *_: 0.0
    )  # a cell is a task: there is something to interrupt
    etas = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0]
    study, store, progress = small_study(etas, GIVEN[:1]), tmp_path / "store", StopAtOnce()
    with pytest.raises(Stopped):
        run_problem(*resolve(study), store, Options(client=client(), stop=progress.stop), progress)
    part = load_result(store)
    assert not part.complete
    print(f"{len(part.cells())} of 4 cells and {len(part.tradeoff())} of {len(etas)} points when it was interrupted")
    assert 0 < len(part.tradeoff()) < len(etas)
    assert np.isnan(part["radius"]).sum() == len(etas) - len(part.tradeoff())
    assert f"cells          {len(part.cells()) + len(part.tradeoff())} of 12 done" in status(store)
    with nothing_lost(store):
        whole = resume(store, client=client())
    assert whole.complete
    assert [p for p in whole.tradeoff() if p["eta"] in {q["eta"] for q in part.tradeoff()}] == part.tradeoff()
    assert run(study, tmp_path / "anew", client).to_dict() == whole.to_dict()


def test_a_cell_that_fails_is_named():
    problem = pose(small_study([0.5, 3.0]))
    (phase,) = METHOD.phases(problem, Index())
    cells = risk_cells(problem)[-1], point_cells(problem)[1]
    found = [
        describe_killed(problem, Task("literal-0", Count((series,), 0, 1), (), 1, 0.1), ProcessDied("ended")).what
        for series in phase.series
        if series in cells
    ]
    assert found == [
        "task literal-0: cell of pair 1, reverse, epsilon 0.5",
        "task literal-0: cell of pair 0, eta 3.0",
    ]


def test_a_plan_counts_what_points_draw():
    etas, plans = [0.5, 1.0, 3.0], {}
    for name in ("literal-knn", "knn"):
        resolved = [resolve(small_study(points, loss=name)) for points in (etas, [])]
        trial = resolved[0][1]  # of one measurement, for what draws took differs from one to the next
        plans[name] = [make_plan(problem, trial, workers=2) for problem, _ in resolved]
    with_points, without = plans["literal-knn"]
    assert with_points.samples - without.samples == 6 * 2 * (600 + 800)
    assert with_points.seconds > without.seconds
    assert "8 entries: (pair, direction, ε), 6 points: (pair, η)" in str(with_points)
    assert "(pair, η)" not in str(without) + str(plans["knn"][0])
    assert plans["knn"][0].samples == plans["knn"][1].samples
