"""T and Δ that change: what is new or changed is computed, nothing else, and what was left out no longer counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, calls, nothing_lost, show, stored_problem, write_study

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
def test_what_is_added_changed_and_removed(tmp_path: Path, scheduler: str) -> None:
    store, t = tmp_path / "s.zarr", databases(range(5))
    keys: dict[str, Any] = {"databases": t, "rows": [0, 2, 7], "train": 500, "test": 500, "chunk": 500, "etas": []}

    def run(**more: Any) -> tuple[set[Any], dict[tuple[str, str], list[Any]]]:
        keys.update(more)
        (tmp_path / "calls.log").write_text("")
        with nothing_lost(store):
            call("run", write_study(tmp_path, **keys), "--store", store, "--cluster", scheduler)
        return set(calls(tmp_path, store)), pairs_by_content(store)

    def laws(drawn: set[Any]) -> int:
        return len({law for law, _, _ in drawn})

    drawn, known = run()
    assert (len(known), laws(drawn)) == (5 * 3, 5 * (1 + 3))
    drawn, now = run(rows="all")
    assert {pair: now[pair] for pair in known} == known, "pairs that were there have the cells they had"
    assert (len(now), laws(drawn)) == (5 * ROWS, 5 * (ROWS - 3))

    t.append(databases(range(5, 6))[0])
    known, (drawn, now) = now, run()
    assert {pair: now[pair] for pair in known} == known
    assert (len(now), laws(drawn)) == (6 * ROWS, ROWS + 1), "only the sixth database and its neighbours were drawn"
    assert len(drawn) == 2 * (ROWS + 1), "a training and a test chunk of each"

    t[2][7] += 0.5
    known, (drawn, now) = now, run()
    kept = set(known) & set(now)
    assert len(kept) == 5 * ROWS, "the pairs of the other five databases"
    assert {pair: now[pair] for pair in kept} == {pair: known[pair] for pair in kept}
    assert laws(drawn) == ROWS, "the database without row 7 is the neighbour of both, and was drawn before"
    assert "6 databases, of which 1 changed or left out since" in call("show", store).stdout

    del t[0]
    known, (drawn, now) = now, run()
    assert not drawn, "leaving a database out draws nothing"
    assert len(now) == 5 * ROWS
    assert set(now) < set(known)
    found = json.loads(show(store))
    for best in found["spectrum"]:  # Proposition 2: the level of a union is the larger one
        assert best["delta"] == max(c["delta"] for c in found["cells"] if c["epsilon"] == best["epsilon"])

    known, (drawn, now) = now, run(epsilons=[0.0, 0.25, 0.5, 1.0, 2.0], etas=[0.5, 1.0])
    assert not drawn, "no chunk is drawn again for more points"
    assert known == {pair: [cell for cell in cells if cell[1] not in (0.25, 2.0)] for pair, cells in now.items()}
    assert {stage for _, stage, _ in run(test=750)[0]} == {"test"}
    assert {stage for _, stage, _ in run(train=750)[0]} == {"train"}
    assert "test 500" in " ".join(call("show", store).stdout.split()), "it tells of the smaller stage that came before"
    call("run", tmp_path / "study.toml", "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show(tmp_path / "anew.zarr") == show(store), "a store that changed is as one made at once"
