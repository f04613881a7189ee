"""T and Δ that change: what is new or changed is computed, nothing else, and what was left out no longer counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SEED, call, calls, contents, hpcdp, show, stored_problem, write_study

from hpcdp.keys import stream

ROWS = 8


def databases(numbers: range) -> list[list[float]]:
    """Databases of so many rows, all rows of one database distinct."""
    return [np.round(np.random.default_rng(n).uniform(0, 2, ROWS), 6).tolist() for n in numbers]


def pairs_by_content(store: Path) -> dict[tuple[str, str], list[Any]]:
    """The cells of every pair, by the keys of its two laws."""
    problem, found = stored_problem(store), json.loads(show(store))
    assert found["complete"]
    cells: dict[int, list[Any]] = {}
    for cell in found["cells"]:
        row = [cell["direction"], cell["epsilon"], cell["delta"], cell["exceed"], cell["test"]]
        cells.setdefault(cell["pair"], []).append(row)
    return {laws: cells[number] for number, laws in enumerate(problem.pair_laws)}


@pytest.mark.promise
@pytest.mark.slow
def test_databases_added_changed_and_removed(tmp_path: Path, scheduler: str) -> None:
    store = tmp_path / "s.zarr"
    t = databases(range(5))

    def run() -> tuple[set[Any], dict[tuple[str, str], list[Any]]]:
        before = contents(store)
        (tmp_path / "calls.log").unlink(missing_ok=True)
        study = write_study(tmp_path, databases=t, train=500, test=500, chunk=500, etas=[])
        call("run", study, "--store", store, "--cluster", scheduler)
        after = contents(store)
        assert {path: after[path] for path in before} == before, "what was there did not change"
        return set(calls(tmp_path, store)), pairs_by_content(store)

    first, known = run()
    assert len(known) == 5 * ROWS
    assert len({law for law, _, _ in first}) == 5 * (ROWS + 1)

    t.append(databases(range(5, 6))[0])
    drawn, now = run()
    assert {pair: now[pair] for pair in known} == known, "pairs that were there have the cells they had"
    assert len(now) == 6 * ROWS
    assert len({law for law, _, _ in drawn}) == ROWS + 1, "only the sixth database and its neighbours were drawn"
    assert len(drawn) == 2 * (ROWS + 1), "a training and a test chunk of each"

    known, old = now, t[2][7]
    t[2][7] = old + 0.5
    drawn, now = run()
    kept = set(known) & set(now)
    assert len(kept) == 5 * ROWS, "the pairs of the other five databases"
    assert {pair: now[pair] for pair in kept} == {pair: known[pair] for pair in kept}
    # the database without row 7 is the neighbour of both, and was drawn before
    assert len({law for law, _, _ in drawn}) == ROWS
    assert "6 databases, of which 1 changed or left out since" in call("show", store).stdout

    known = now
    del t[0]
    drawn, now = run()
    assert not drawn, "leaving a database out draws nothing"
    assert len(now) == 5 * ROWS
    assert set(now) < set(known)
    found = json.loads(show(store))
    for best in found["spectrum"]:  # Proposition 2: the level of a union is the larger one
        assert best["delta"] == max(c["delta"] for c in found["cells"] if c["epsilon"] == best["epsilon"])

    study = write_study(tmp_path, databases=t, train=500, test=500, chunk=500, etas=[])
    call("run", study, "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show(tmp_path / "anew.zarr") == show(store), "a store that changed is as one made at once"


DELTA = '''
"""Rows of 0 and 1, and their number; every drawn block of databases leaves a line in a log."""
import os

import numpy as np

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "drawn.log")


def rows(size, rng, *, rows, probability):
    handle = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{probability} {rng.bit_generator.state['state']['state']:x}\\n".encode())
    os.close(handle)
    return rng.random((size, rows)) < probability


def ones(database, size, rng):
    return np.full(size, int(database.sum()))


def ones_each(databases, rng):
    return databases.sum(axis=1)


ones.each = ones_each
'''


@pytest.mark.promise
@pytest.mark.slow
def test_distributions_added_and_removed(tmp_path: Path, scheduler: str) -> None:
    store, log = tmp_path / "s.zarr", tmp_path / "drawn.log"

    def run(*probabilities: float) -> tuple[list[str], dict[tuple[str, str], list[Any]]]:
        tables = ", ".join(
            f'{{ call = "own:rows", parameters = {{ rows = 12, probability = {p} }}, values = [0, 1], index = [0, 3] }}'
            for p in probabilities
        )
        settings = {"call": "own:ones", "loss": "frequency", "train": 3000, "test": 4000}
        study = write_study(tmp_path, DELTA, pairs=f"distributional = [{tables}]", **settings)
        log.unlink(missing_ok=True)
        call("run", study, "--store", store, "--cluster", scheduler)
        problem = stored_problem(store)
        chunks = {
            f"{stream(SEED, law, stage.name, chunk).bit_generator.state['state']['state']:x}"
            for law in problem.laws
            for stage in (problem.train, problem.test)
            for chunk in range(stage.chunks)
        }
        lines = [line.split() for line in log.read_text().splitlines()]
        return [probability for probability, state in lines if state in chunks], pairs_by_content(store)

    drawn, known = run(0.3, 0.5)
    assert len(known) == 4
    assert len(drawn) == 2 * 2 * 2 * 14, "two distributions, rows and values; 6 training and 8 test chunks"
    drawn, now = run(0.7, 0.3, 0.5)
    assert {pair: now[pair] for pair in known} == known
    assert set(drawn) == {"0.7"}
    assert len(drawn) == 2 * 2 * 14
    drawn, now = run(0.5)
    assert drawn == []
    assert len(now) == 2
    found = json.loads(show(store))
    assert [pair["distribution"] for pair in found["pairs"]] == [0, 0]
    assert [pair["index"] for pair in found["pairs"]] == [0, 3]


@pytest.mark.slow
def test_a_study_that_is_refused_is_not_planned(tmp_path: Path) -> None:
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    own = {"call": "laplace", "parameters": {"epsilon": 1.0}, "pairs": pairs, "train": 100, "test": 100}
    study = write_study(tmp_path, **own)
    hpcdp("run", study, "--store", "s.zarr", "--workers", "0", folder=tmp_path)
    other = write_study(tmp_path, name="t.toml", **{**own, "parameters": {"epsilon": 2.0}})
    for command in (
        ["run"],
        ["audit", "--claim", "gaussian(mu=1)"],
        ["audit", "--claim", "gaussian(mu=1)", "--sequential"],
    ):
        done = hpcdp(*command[:1], other, "--store", "s.zarr", *command[1:], folder=tmp_path, code=2)
        (line,) = done.stderr.splitlines()
        assert line.startswith("hpcdp: s.zarr holds another study")
        assert "; changed: mechanism.parameters.epsilon (1.0 in the store, 2.0 given); accepted: " in line
