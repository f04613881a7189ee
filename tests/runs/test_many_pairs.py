"""What a pair costs does not grow with their number: parameters as long as the table of all laws are read once."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

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
    # 2 PAIRS distributions, each of which names them
    assert processor_seconds(lambda: fresh.pair_laws) < PAIRS / 2 * once
    assert fresh.pair_laws[7] == tuple(
        law_key("pmf", parameters, digest_array(np.array([n])), problem.study.study.stream) for n in (14, 15)
    )


def test_draws_are_those_of_the_callable(problem: Problem) -> None:
    """Which takes the table as it is."""
    parameters, database = problem.study.mechanism.parameters, np.array([1234])
    drawn = problem.sampler.mechanism.draw(database, 5000, np.random.default_rng(8))  # type: ignore[union-attr]
    np.testing.assert_array_equal(drawn, pmf(database, 5000, np.random.default_rng(8), **parameters))


def test_a_wrong_row_that_no_pair_needs_first_is_refused() -> None:
    for row, words in (([0.5, 0.5, 0.5], "row 3: sum"), ([-0.5, 1.0, 0.5], "entries >= 0"), ([1.0], "3 probab")):
        with pytest.raises(StudyError, match=words):
            resolve(many([[0.2, 0.3, 0.5]] * 3 + [row]))
