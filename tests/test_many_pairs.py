"""What a pair costs does not grow with their number: parameters as long as the table of all laws are read once."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from hpcdp.errors import StudyError
from hpcdp.keys import canonical_json, digest_array, law_key, law_keys
from hpcdp.mechanisms.table import pmf
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem, resolve

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
    assert fresh.pair_laws[7] == tuple(law_key("pmf", parameters, digest_array(np.array([n]))) for n in (14, 15))


def test_a_table_is_checked_once(problem: Problem) -> None:
    table = problem.study.mechanism.parameters["table"]
    once = min(processor_seconds(lambda: np.asarray(table, np.float64)) for _ in range(3))
    law, _ = problem.pair_laws[PAIRS - 1]

    def draw_all() -> None:
        for chunk in range(200):
            problem.sampler.draw(problem.laws[law], law, "test", chunk, 0, 10, problem.schema)

    assert processor_seconds(draw_all) < 100 * once


def test_draws_are_those_of_the_callable(problem: Problem) -> None:
    """Which takes the table as it is."""
    parameters, database = problem.study.mechanism.parameters, np.array([1234])
    mechanism = problem.sampler.mechanism
    drawn, expected = (
        draw(database, 5000, np.random.default_rng(8))
        for draw in (mechanism.draw, lambda *a: pmf(*a, **parameters))  # type: ignore[union-attr]
    )
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize(
    "row, words", [([0.5, 0.5, 0.5], "row 3: sum"), ([-0.5, 1.0, 0.5], "entries >= 0"), ([1.0], "3 probab")]
)
def test_a_wrong_row_that_no_pair_needs_first_is_refused(row: list[float], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        resolve(many([[0.2, 0.3, 0.5]] * 3 + [row]))


def test_prefixes_are_not_shared() -> None:
    """A digest that is continued is that of all its parts."""
    keys = law_keys("m", {"a": 1})
    assert [keys(d) for d in ("x", "y", "x")] == [law_key("m", {"a": 1}, d) for d in ("x", "y", "x")]
    assert len({law_key(*rest, "x") for rest in (("m", {"a": 1}), ("m", {"a": 2}), ("n", {"a": 1}))}) == 3
