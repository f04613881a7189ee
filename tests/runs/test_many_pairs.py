"""What a pair costs does not grow with their number: parameters as long as the table of all laws are read once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import call, show, write_study
from journals import records

from hpcdp.errors import StudyError
from hpcdp.keys import canonical_json, digest_array, law_key
from hpcdp.mechanisms.table import pmf
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve

PAIRS = 1000


def many(table: list[list[float]]) -> Study:
    return Study.from_dict(
        {
            "study": {"name": "many", "seed": 3},
            "mechanism": {"call": "pmf", "parameters": {"outcomes": [0, 1, 2], "table": table}},
            "pairs": {"given": [{"d": [2 * n], "d_prime": [2 * n + 1]} for n in range(len(table) // 2)]},
            "estimate": {"train": 500, "test": 500, "epsilons": [0.0, 1.0]},
        }
    )


@pytest.fixture(scope="module")
def problem() -> Problem:
    return resolve(many(np.random.default_rng(5).dirichlet((4.0, 4.0, 4.0), 2 * PAIRS).tolist()))[0]


def processor_seconds(function: Callable[[], object]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


def test_parameters_are_digested_once(problem: Problem) -> None:
    parameters = problem.study.mechanism.parameters
    once = min(processor_seconds(lambda: canonical_json(parameters)) for _ in range(3))
    fresh = resolve(problem.study)[0]
    assert processor_seconds(lambda: fresh.pair_laws) < PAIRS / 10 * once
    assert fresh.pair_laws[7] == tuple(
        law_key("pmf", parameters, digest_array(np.array([n])), problem.study.study.stream) for n in (14, 15)
    )


def test_a_table_is_checked_once(problem: Problem) -> None:
    parameters, rng = problem.study.mechanism.parameters, np.random.default_rng(2)
    law, _ = problem.pair_laws[PAIRS - 1]

    def draw_all() -> None:
        for chunk in range(200):
            problem.sampler.draw(problem.laws[law], law, "test", chunk, 0, 10, problem.schema)

    def check_all() -> None:
        for _ in range(200):
            pmf(np.array([3]), 10, rng, **parameters)

    assert min(processor_seconds(draw_all) for _ in range(3)) < 0.5 * min(
        processor_seconds(check_all) for _ in range(3)
    )


def test_draws_are_those_of_the_callable(problem: Problem) -> None:
    """Which takes the table as it is."""
    parameters, database = problem.study.mechanism.parameters, np.array([1234])
    drawn = problem.sampler.mechanism.draw(database, 5000, np.random.default_rng(8))  # type: ignore[union-attr]
    np.testing.assert_array_equal(drawn, pmf(database, 5000, np.random.default_rng(8), **parameters))


@pytest.mark.parametrize(
    "row, words",
    [
        ([0.5, 0.5, 0.5], "row 3: sum"),
        ([-0.5, 1.0, 0.5], "entries >= 0"),
        ([1.0], "3 probab"),
        ([10**400, 0.5, 0.5], "3 probab"),
    ],
)
def test_a_wrong_row_that_no_pair_needs_first_is_refused(row: list[float], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        resolve(many([[0.2, 0.3, 0.5]] * 3 + [row]))


# Fails on one database of ten when outputs are tested, and on none where it is tried out.
TOUCHY = """
import numpy as np


def touchy(database, size, rng):
    if database[0] == 14 and size == 700:
        raise ValueError("not this one")
    return rng.integers(0, 3 + int(database[0]) % 2, size)
"""


def run_many(folder: Path, store: str, *options: str, code: int = 0) -> str:
    pairs = ", ".join(f"{{ d = [{2 * n}], d_prime = [{2 * n + 1}] }}" for n in range(10))
    sizes = {"train": 600, "test": 700, "chunk": 1000, "keep": "none"}
    study = write_study(folder, TOUCHY, call="own:touchy", pairs=f"given = [ {pairs} ]", **sizes)
    return call("run", study, "--store", folder / store, "--workers", 0, *options, code=code).stderr


@pytest.mark.slow
def test_pairs_of_other_databases_share_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And are what they are alone, where one of them fails too."""
    said = run_many(tmp_path, "together.zarr", code=1)
    assert "not this one" in said, said
    together = [record.body["entries"] for record in records(tmp_path / "together.zarr", "counts")]
    assert sorted(map(len, together)) == [9]
    monkeypatch.setattr("hpcdp.engine.sampling.task_seconds", lambda *_: 1e-9)
    assert "not this one" in run_many(tmp_path, "alone.zarr", code=1)
    assert len(records(tmp_path / "alone.zarr", "counts")) == 9
    assert show(tmp_path / "together.zarr") == show(tmp_path / "alone.zarr")
    (tmp_path / "own.py").write_text(TOUCHY.replace("14", "-1"))
    for store in ("together.zarr", "alone.zarr"):
        call("resume", tmp_path / store, "--workers", 0, "--allow-changed-code")
    assert show(tmp_path / "together.zarr") == show(tmp_path / "alone.zarr")
    assert json.loads(show(tmp_path / "together.zarr"))["complete"]
