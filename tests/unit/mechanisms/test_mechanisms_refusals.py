"""Wrong parameters and databases of the built-ins: one ValueError that names what was given and what is accepted."""

from __future__ import annotations

import numpy as np
import pytest

from hpcdp.errors import StudyError
from hpcdp.mechanisms import load_builtin
from hpcdp.mechanisms.local import bloom_bits

ROWS = [0, 1, 1]
MODE = dict(outcomes=[0, 1], epsilon=1.0)
ABOVE = dict(variant=1, epsilon=1.0)
BARS = dict(values=[0, 1], epsilon=1.0)
SOME = dict(mechanism="noisy_sum", parameters={"sigma": 1.0}, batch=2)

REFUSED = {
    "exponential": [
        (ROWS, MODE | {"epsilon": 0.0}, "epsilon: 0.0 was given"),
        (ROWS, MODE | {"sensitivity": -1.0}, "sensitivity: -1.0 was given"),
        (ROWS, MODE | {"outcomes": [0, 0]}, "outcomes: [0, 0] was given"),
        (ROWS, MODE | {"outcomes": ["a", "b"]}, "accepted: numbers, for the utility count"),
        (ROWS, MODE | {"utility": "mode"}, "utility: 'mode' was given"),
        ([[0, 1]], MODE, "accepted: numbers of shape (rows,)"),
        (ROWS, MODE | {"utility": "numpy:outer"}, "accepted: an array of 2 finite scores"),
        (ROWS, MODE | {"utility": "numpy:array_equal"}, "accepted: an array of 2 finite scores"),
    ],
    "exponential_real": [
        ([1.5], dict(), "epsilon, rate: (None, None) was given"),
        ([1.5], dict(epsilon=1.0, rate=1.0), "accepted: exactly one of the two"),
        ([1.5], dict(epsilon=0.0), "epsilon: 0.0 was given"),
        ([1.5], dict(rate=-1.0), "rate: -1.0 was given"),
        ([2.5], dict(rate=1.0), "database: float64 of shape (1,) was given; accepted: one number from 1 to 2"),
        ([1.0, 1.5], dict(rate=1.0), "accepted: one number from 1 to 2"),
        ([1.5], dict(rate=1.0, lower=2.0), "lower, upper: (2.0, 2.0) was given"),
    ],
    "truncated": [
        ([0.5], dict(scale=0.0), "scale: 0.0 was given"),
        ([0.5], dict(scale=1.0, noise="cauchy"), "noise: 'cauchy' was given; accepted: \"laplace\" or \"gaussian\""),
        ([0.5], dict(scale=1.0, lower=1.0), "lower, upper: (1.0, 1.0) was given"),
        ([1.5], dict(scale=1.0), "database: float64 of shape (1,) was given; accepted: one number from 0 to 1"),
        ([0.5, 0.5], dict(scale=1.0), "accepted: one number from 0 to 1"),
    ],
    "noisy_max": [
        (ROWS, dict(variant="NM5", epsilon=1.0), "variant: 'NM5' was given; accepted: \"NM1\" or"),
        (ROWS, dict(variant=1, epsilon=1.0), "variant: 1 was given"),
        (ROWS, dict(variant="NM1"), "epsilon, scale: (None, None) was given"),
        (ROWS, dict(variant="NM1", epsilon=1.0, scale=1.0), "accepted: exactly one of the two"),
        (ROWS, dict(variant="NM1", scale=0.0), "scale: 0.0 was given"),
        (ROWS, dict(variant="NM1", epsilon=1.0, sensitivity=0), "sensitivity: 0 was given"),
        (ROWS, dict(variant="NM1", epsilon=1.0, monotonic=1), "monotonic: 1 was given"),
        ([], dict(variant="NM1", epsilon=1.0), "accepted: a non-empty array of finite numbers"),
    ],
    "sparse_vector": [
        (ROWS, ABOVE | {"variant": 7}, "variant: 7 was given; accepted: 1, 2, 3, 4, 5 or 6"),
        (ROWS, ABOVE | {"variant": True}, "variant: True was given"),
        (ROWS, ABOVE | {"epsilon": -1}, "epsilon: -1 was given"),
        (ROWS, ABOVE | {"cutoff": 0}, "cutoff: 0 was given; accepted: an integer >= 1"),
        (ROWS, ABOVE | {"cutoff": 1.0}, "cutoff: 1.0 was given"),
        (ROWS, ABOVE | {"variant": 5, "cutoff": 2}, "cutoff: 2 was given; accepted: no cutoff with variant 5"),
        (ROWS, ABOVE | {"variant": 6, "cutoff": 2}, "accepted: no cutoff with variant 6"),
        (ROWS, ABOVE | {"threshold": np.inf}, "threshold: inf was given"),
        (ROWS, ABOVE | {"sensitivity": "1"}, "sensitivity: '1' was given"),
        ([np.nan], ABOVE, "accepted: a non-empty array of finite numbers"),
    ],
    "noisy_histogram": [
        (ROWS, BARS | {"variant": "buggy"}, 'variant: \'buggy\' was given; accepted: "correct" or "faulty"'),
        (ROWS, BARS | {"epsilon": 0}, "epsilon: 0 was given"),
        (ROWS, BARS | {"values": []}, "values: [] was given"),
        (ROWS, BARS | {"values": 1}, "values: 1 was given"),
        (ROWS, BARS | {"values": [1, 1]}, "values: [1, 1] was given"),
        (ROWS, BARS | {"values": [[0, 1]]}, "the database's rows have shape ()"),
        ([[0, 1]], BARS, "the database's rows have shape (2,)"),
    ],
    "histogram": [
        (ROWS, {"values": ["a"]}, "values: ['a'] was given"),
        (ROWS, {"values": [[1], [1, 2]]}, "values: [[1], [1, 2]] was given"),
        (0, {"values": [1]}, "accepted: numbers of shape (rows,) or (rows, columns)"),
    ],
    "count": [
        (ROWS, {"value": np.nan}, "value: [nan] was given; accepted: a finite number"),
        (ROWS, {"value": [0, 1]}, "the database's rows have shape ()"),
    ],
    "randomized_response": [
        (ROWS, {"epsilon": 0.0}, "epsilon: 0.0 was given"),
        (ROWS, {"epsilon": 1.0, "values": 1}, "values: 1 was given; accepted: an integer >= 2"),
        ([0, 2], {"epsilon": 1.0}, "accepted: integers from 0 to 1"),
        ([-1], {"epsilon": 1.0}, "accepted: integers from 0 to 1"),
        ([0.5], {"epsilon": 1.0}, "accepted: integers from 0 to 1"),
        ([[0, 1]], {"epsilon": 1.0}, "at least one row"),
        ([], {"epsilon": 1.0}, "at least one row"),
    ],
    "rappor": [
        ([0, 1], {}, "accepted: one integer"),
        ([0.5], {}, "accepted: one integer"),
        ([0], {"hashes": 0}, "hashes: 0 was given"),
        ([0], {"bits": 0}, "bits: 0 was given"),
        ([0], {"f": 1.5}, "f: 1.5 was given; accepted: a number from 0 to 1"),
        ([0], {"p": -0.1}, "p: -0.1 was given"),
        ([0], {"q": None}, "q: None was given"),
        ([0], {"one_time": 1}, "one_time: 1 was given; accepted: true or false"),
    ],
    "noisy_sum": [
        (ROWS, {}, "sigma, scale: (None, None) was given; accepted: exactly one of the two"),
        (ROWS, {"sigma": 1.0, "scale": 1.0}, "accepted: exactly one of the two"),
        (ROWS, {"sigma": 0.0}, "sigma: 0.0 was given"),
        (ROWS, {"scale": -1}, "scale: -1 was given"),
        ([np.nan], {"sigma": 1.0}, "accepted: finite numbers of shape (rows,) or (rows, columns)"),
        (["a"], {"sigma": 1.0}, "accepted: finite numbers"),
        ([[[1]]], {"sigma": 1.0}, "accepted: finite numbers"),
        (1.0, {"sigma": 1.0}, "accepted: finite numbers"),
        ([[], []], {"sigma": 1.0}, "accepted: finite numbers"),
    ],
    "toy_dpsgd": [
        (ROWS, {}, "batch: 5 was given; accepted: at most the 3 rows of the database, without replacement"),
        (ROWS, {"batch": 0}, "batch: 0 was given; accepted: an integer >= 1"),
        (ROWS, {"batch": 1.0}, "batch: 1.0 was given"),
        (ROWS, {"batch": 1, "rate": 0.0}, "rate: 0.0 was given"),
        (ROWS, {"batch": 1, "rate": 1.5}, "rate: 1.5 was given; accepted: a number above 0, at most 1"),
        (ROWS, {"batch": 1, "sigma": 0}, "sigma: 0 was given"),
        (ROWS, {"batch": 1, "updates": 0}, "updates: 0 was given; accepted: an integer >= 1"),
        (ROWS, {"batch": 1, "updates": True}, "updates: True was given"),
        (ROWS, {"batch": 1, "start": np.inf}, "start: inf was given; accepted: a finite number"),
        ([[0, 1], [1, 1]], {"batch": 1}, "accepted: finite numbers of shape (rows,)"),
        ([0, np.inf], {"batch": 1}, "accepted: finite numbers of shape (rows,)"),
        ([], {"batch": 1}, "accepted: at most the 0 rows"),
    ],
    "subsampled": [
        (ROWS, SOME | {"batch": None}, "batch, rate: (None, None) was given; accepted: exactly one of the two"),
        (ROWS, SOME | {"rate": 0.5}, "batch, rate: (2, 0.5) was given"),
        (ROWS, SOME | {"batch": 4}, "batch: 4 was given; accepted: at most the 3 rows of the database"),
        (ROWS, SOME | {"batch": 0}, "batch: 0 was given"),
        (ROWS, SOME | {"batch": None, "rate": 0.0}, "rate: 0.0 was given"),
        (ROWS, SOME | {"batch": None, "rate": 1.1}, "rate: 1.1 was given; accepted: a number above 0, at most 1"),
        (ROWS, SOME | {"mechanism": "sum"}, "mechanism: 'sum' was given; accepted: a built-in (laplace, "),
        (ROWS, SOME | {"mechanism": "subsampled"}, "mechanism: 'subsampled' was given"),
        (ROWS, SOME | {"mechanism": "stored"}, "mechanism: 'stored' was given"),
        (ROWS, SOME | {"mechanism": 3}, 'mechanism: 3 was given; accepted: a built-in ('),
        (ROWS, SOME | {"parameters": [1]}, "parameters: [1] was given; accepted: a table of"),
        (1.0, SOME, "accepted: an array of shape (rows,) or (rows, columns)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "database", "parameters", "message"), [(name, *case) for name, cases in REFUSED.items() for case in cases]
)
def test_refused(name, database, parameters, message):
    with pytest.raises(ValueError, match="was given; accepted: ") as caught:
        load_builtin(name)(np.asarray(database), 4, np.random.default_rng(0), **parameters)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "databases", "parameters"),
    [
        ("count", [0, 1], {}),
        ("laplace", [["a"]], {"scale": 1.0}),
        ("bounded_sum", [0.0, 1.0], {"lower": 0, "upper": 1, "epsilon": 1.0}),
        ("randomized_response", [[0, 1], [0, 2]], {"epsilon": 1.0}),
        ("noisy_sum", [0.0, 1.0], {"sigma": 1.0}),
        ("noisy_sum", [[0.0, np.nan]], {"sigma": 1.0}),
        ("toy_dpsgd", [0.0, 1.0], {"batch": 1}),
        ("toy_dpsgd", [[0.0, 1.0]], {"batch": 3}),
        ("subsampled", [0.0, 1.0], SOME),
        ("subsampled", [[0.0]], SOME),
    ],
)
def test_refused_by_each(name, databases, parameters):
    with pytest.raises(ValueError, match="was given; accepted: "):
        load_builtin(name).each(np.asarray(databases), np.random.default_rng(0), **parameters)


def test_a_utility_that_cannot_be_imported():
    with pytest.raises(StudyError, match=r"mechanism\.parameters\.utility: cannot import module 'no_such_module'"):
        load_builtin("exponential")(np.array(ROWS), 4, np.random.default_rng(0), utility="no_such_module:score", **MODE)


def test_bloom_filter_without_bits():
    with pytest.raises(ValueError, match="bits: 0 was given"):
        bloom_bits(1, 4, 0)
