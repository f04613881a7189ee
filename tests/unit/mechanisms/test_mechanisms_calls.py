"""How built-ins are called: one output of each of many databases, what generators decide, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from some_slow import some_slow

from hpcdp.errors import StudyError
from hpcdp.mechanisms import BUILTINS, load_builtin

SIZE = 200_000
ROWS = [0, 3, 1, 1, 2]
PAIRS = [[0, 0.5], [3, 1.0], [1, -2.0], [1, 0.5]]

EACH = {
    "count": [({"value": 1}, ROWS), ({"value": [1, 0.5]}, PAIRS)],
    "histogram": [({"values": [1, 0]}, ROWS), ({"values": [2]}, ROWS), ({"values": [[1, 0.5], [3, 1]]}, PAIRS)],
    "noisy_histogram": [
        ({"values": [1, 0], "epsilon": 0.4}, ROWS),
        ({"values": [1], "epsilon": 0.4, "variant": "faulty"}, ROWS),
    ],
    "laplace": [({"epsilon": 0.8, "sensitivity": 2.0}, [1.5]), ({"scale": 0.5}, ROWS), ({"scale": 0.5}, PAIRS)],
    "gaussian": [({"epsilon": 0.8, "delta": 0.01}, [1.5]), ({"sigma": 0.5}, PAIRS)],
    "bounded_sum": [
        ({"lower": -1.0, "upper": 0.75, "epsilon": 0.9, "column": 1}, PAIRS),
        ({"lower": 0.5, "upper": 2.0, "epsilon": 0.9, "delta": 0.01, "noise": "gaussian"}, ROWS),
    ],
    "bounded_mean": [
        ({"lower": 0.5, "upper": 2.0, "count": 4, "epsilon": 0.9}, ROWS),
        ({"lower": 0.0, "upper": 2.0, "count": 5, "epsilon": 0.9, "delta": 0.01, "noise": "gaussian"}, PAIRS),
    ],
    "randomized_response": [({"epsilon": 0.7, "values": 4}, ROWS), ({"epsilon": 0.7}, [1])],
    "noisy_sum": [({"sigma": 0.5}, ROWS), ({"scale": 0.5}, PAIRS)],
    "toy_dpsgd": [
        ({"batch": 2, "sigma": 0.5}, ROWS),
        ({"batch": 1, "rate": 0.5, "updates": 3, "start": 2.0, "sigma": 0.1}, [0, 0.5, 2]),
    ],
    "subsampled": [
        ({"mechanism": "noisy_sum", "parameters": {"sigma": 0.5}, "batch": 2}, ROWS),
        ({"mechanism": "gaussian", "parameters": {"sigma": 0.5}, "batch": 2}, PAIRS),
        ({"mechanism": "bounded_sum", "parameters": {"lower": 0, "upper": 2, "epsilon": 3.0}, "rate": 0.6}, ROWS),
        ({"mechanism": "noisy_max", "parameters": {"variant": "NM2", "scale": 1.0}, "batch": 4}, ROWS),
    ],
}
CASES = [(name, *case) for name, cases in EACH.items() for case in cases]

PRECISE = {"epsilon": 1e9, "scale": 1e-9, "sigma": 1e-9}
"""What makes the noise vanish."""

WITHOUT_EACH = {"pmf", "exponential", "exponential_real", "truncated", "noisy_max", "sparse_vector", "rappor"}


def check_equal_laws(one, other):
    """Two samples of one size: the means of every column and product of two, and every quantile cell, at five σ."""
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    one, other = (drawn.reshape(drawn.shape[0], -1).astype(float) for drawn in (one, other))
    edges = np.quantile(one, np.linspace(0.1, 0.9, 9), axis=0)
    centre = np.median(one, axis=0)

    def features(drawn):
        cells = [drawn <= edge for edge in edges]
        signs = (drawn > centre).astype(float)
        return np.concatenate([*cells, signs * np.roll(signs, 1, axis=1)], axis=1).astype(float)

    a, b = features(one), features(other)
    spread = np.sqrt((a.var(axis=0) + b.var(axis=0)) / a.shape[0])
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) <= 5 * spread).all()


def make_precise(parameters, rows):
    """Without noise, and with a batch of all rows."""
    found = parameters | {key: value for key, value in PRECISE.items() if key in parameters}
    found |= {"batch": rows} if "batch" in found else {"rate": 1.0} if "mechanism" in found else {}
    return found | ({"parameters": make_precise(found["parameters"], rows)} if "parameters" in found else {})


def test_every_built_in_is_tested():
    assert {name for name in BUILTINS if hasattr(load_builtin(name), "each")} == set(EACH)
    assert set(BUILTINS) == EACH.keys() | WITHOUT_EACH


@pytest.mark.few
@pytest.mark.parametrize(("name", "parameters", "database"), some_slow(CASES, lambda case: case[0] == "subsampled"))
def test_each_of_equal_databases_has_the_law_of_the_plain_function(name, parameters, database):
    function, database = load_builtin(name), np.asarray(database)
    slow = parameters.get("mechanism") == "noisy_max"  # it has no each, so it is called for every database
    size = SIZE // 10 if slow else SIZE
    many = np.broadcast_to(database, (size, *database.shape))
    found = function.each(many, np.random.default_rng(1), **parameters)
    check_equal_laws(found, function(database, size, np.random.default_rng(2), **parameters))


@pytest.mark.parametrize(("name", "parameters", "database"), CASES)
def test_each_looks_at_its_own_database(name, parameters, database):
    function, database = load_builtin(name), np.asarray(database)
    parameters = make_precise(parameters, database.shape[0])
    if parameters.get("variant") == "faulty":
        parameters["epsilon"] = 1e-9
    rng = np.random.default_rng(3)
    if name == "randomized_response":
        parameters["epsilon"] = 700.0
        many = rng.integers(0, parameters.get("values", 2), (50, *database.shape))
    else:
        many = rng.permuted(np.broadcast_to(database, (50, *database.shape)), axis=1)
        many = np.where(rng.random(many.shape) < 0.5, many, np.round(rng.normal(1, 1, many.shape)))
    found = function.each(many, rng, **parameters)
    wanted = np.concatenate([np.asarray(function(one, 1, rng, **parameters)) for one in many])
    assert np.unique(wanted, axis=0).shape[0] > 1
    np.testing.assert_allclose(found, wanted, atol=1e-6)


# Refusals

FEW = [0, 1, 1]
MODE = dict(outcomes=[0, 1], epsilon=1.0)
ABOVE = dict(variant=1, epsilon=1.0)
BARS = dict(values=[0, 1], epsilon=1.0)
SOME = dict(mechanism="noisy_sum", parameters={"sigma": 1.0}, batch=2)

VALUES = {
    "exponential": (FEW, MODE, dict(epsilon=[0.0], sensitivity=[-1.0], outcomes=[[0, 0]], utility=["mode"])),
    "exponential_real": ([1.5], {}, dict(epsilon=[0.0], rate=[-1.0])),
    "truncated": ([0.5], dict(scale=1.0), dict(scale=[0.0], noise=["cauchy"])),
    "noisy_max": (FEW, dict(variant="NM1", epsilon=1.0), dict(variant=["NM5"], sensitivity=[0], monotonic=[1])),
    "sparse_vector": (
        FEW,
        ABOVE,
        dict(variant=[7, True], epsilon=[-1], cutoff=[0], threshold=[np.inf], sensitivity=["1"]),
    ),
    "noisy_histogram": (FEW, BARS, dict(variant=["buggy"], epsilon=[0], values=[[], [1, 1]])),
    "histogram": (FEW, {}, dict(values=[["a"], [[1], [1, 2]]])),
    "randomized_response": (FEW, {"epsilon": 1.0}, dict(epsilon=[0.0], values=[1])),
    "rappor": ([0], {}, dict(hashes=[0], bits=[0], f=[1.5], p=[-0.1], q=[None], one_time=[1])),
    "noisy_sum": (FEW, {}, dict(sigma=[0.0], scale=[-1])),
    "toy_dpsgd": (FEW, {"batch": 1}, dict(batch=[0, 4], rate=[0.0, 1.5], sigma=[0], updates=[0, True], start=[np.inf])),
    "subsampled": (
        FEW,
        SOME,
        dict(batch=[0, 4], mechanism=["sum", "subsampled", "stored", 3], parameters=[[1]]),
    ),
}
"""Values of one parameter that are refused by its name, beside a database and the other parameters."""


@pytest.mark.parametrize("name", VALUES)
def test_values_are_refused_by_their_name(name):
    database, parameters, wrong = VALUES[name]
    for key, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match="was given; accepted: ") as caught:
                load_builtin(name)(np.asarray(database), 4, np.random.default_rng(0), **parameters | {key: value})
            assert f"{key}: {value!r} was given" in str(caught.value)


ONE = "accepted: exactly one of the two"
EMPTY = "accepted: a non-empty array of finite numbers"
REFUSED = [
    ("exponential", FEW, MODE | {"outcomes": ["a", "b"]}, "accepted: numbers, for the utility count"),
    ("exponential", [[0, 1]], MODE, "accepted: numbers of shape (rows,)"),
    ("exponential", FEW, MODE | {"utility": "numpy:outer"}, "accepted: an array of 2 finite scores"),
    ("exponential_real", [1.5], {}, "epsilon, rate: (None, None) was given"),
    ("exponential_real", [1.5], dict(epsilon=1.0, rate=1.0), ONE),
    ("exponential_real", [2.5], dict(rate=1.0), "database: float64 of shape (1,) was given; accepted: one number from 1 to 2"),
    ("exponential_real", [1.0, 1.5], dict(rate=1.0), "accepted: one number from 1 to 2"),
    ("exponential_real", [1.5], dict(rate=1.0, lower=2.0), "lower, upper: (2.0, 2.0) was given"),
    ("truncated", [0.5], dict(scale=1.0, lower=1.0), "lower, upper: (1.0, 1.0) was given"),
    ("truncated", [1.5], dict(scale=1.0), "database: float64 of shape (1,) was given; accepted: one number from 0 to 1"),
    ("noisy_max", FEW, dict(variant="NM1"), "epsilon, scale: (None, None) was given"),
    ("noisy_max", FEW, dict(variant="NM1", epsilon=1.0, scale=1.0), ONE),
    ("noisy_max", [], dict(variant="NM1", epsilon=1.0), EMPTY),
    ("sparse_vector", FEW, ABOVE | {"variant": 5, "cutoff": 2}, "cutoff: 2 was given; accepted: no cutoff with variant 5"),
    ("sparse_vector", [np.nan], ABOVE, EMPTY),
    ("noisy_histogram", FEW, BARS | {"values": [[0, 1]]}, "the database's rows have shape ()"),
    ("noisy_histogram", [[0, 1]], BARS, "the database's rows have shape (2,)"),
    ("histogram", 0, {"values": [1]}, "accepted: numbers of shape (rows,) or (rows, columns)"),
    ("count", FEW, {"value": np.nan}, "value: [nan] was given; accepted: a finite number"),
    ("count", FEW, {"value": [0, 1]}, "the database's rows have shape ()"),
    *(("randomized_response", d, {"epsilon": 1.0}, "accepted: integers from 0 to 1") for d in ([0, 2], [-1], [0.5])),
    *(("randomized_response", d, {"epsilon": 1.0}, "at least one row") for d in ([[0, 1]], [])),
    *(("rappor", database, {}, "accepted: one integer") for database in ([0, 1], [0.5])),
    ("noisy_sum", FEW, {}, f"sigma, scale: (None, None) was given; {ONE}"),
    ("noisy_sum", FEW, {"sigma": 1.0, "scale": 1.0}, ONE),
    *(("noisy_sum", d, {"sigma": 1.0}, "accepted: finite numbers") for d in ([np.nan], ["a"], [[[1]]], 1.0, [[], []])),
    ("toy_dpsgd", FEW, {}, "batch: 5 was given; accepted: at most the 3 rows of the database, without replacement"),
    *(("toy_dpsgd", d, {"batch": 1}, "numbers of shape (rows,)") for d in ([[0, 1], [1, 1]], [0, np.inf])),
    ("subsampled", FEW, SOME | {"batch": None}, f"batch, rate: (None, None) was given; {ONE}"),
    ("subsampled", FEW, SOME | {"rate": 0.5}, "batch, rate: (2, 0.5) was given"),
    ("subsampled", FEW, SOME | {"batch": None, "rate": 1.1}, "rate: 1.1 was given; accepted: a number above 0, at most 1"),
    ("subsampled", 1.0, SOME, "accepted: an array of shape (rows,) or (rows, columns)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "database", "parameters", "message"), REFUSED)
def test_refused(name, database, parameters, message):
    with pytest.raises(ValueError, match="was given; accepted: ") as caught:
        load_builtin(name)(np.asarray(database), 4, np.random.default_rng(0), **parameters)
    assert message in str(caught.value)


def test_a_utility_that_cannot_be_imported():
    with pytest.raises(StudyError, match=r"mechanism\.parameters\.utility: cannot import module 'no_such_module'"):
        load_builtin("exponential")(np.array(FEW), 4, np.random.default_rng(0), utility="no_such_module:score", **MODE)
