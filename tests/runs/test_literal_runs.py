"""Runs of literal-knn: each η is a cell of its own, which can be added, interrupted and resumed."""

import json

import numpy as np
from commands import contents
from studies import make_study, pose, run

from hpcdp._base.node import ProcessDied
from hpcdp.engine.index import Index
from hpcdp.engine.outcomes import describe_killed
from hpcdp.engine.series import Count
from hpcdp.engine.task import Task
from hpcdp.methods.figure_1 import METHOD, point_cells, risk_cells

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
