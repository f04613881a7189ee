"""Values that the exact pairs and their mechanisms refuse."""

import math

import numpy as np
import pytest

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
    SpectrumPoints,
    exact,
)
from hpcdp.mechanisms.additive import noise_scale, noise_sigma
from hpcdp.mechanisms.aggregates import bounded_mean
from hpcdp.mechanisms.table import pmf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LaplaceShift(-1.0), "epsilon0: -1.0 was given; accepted: a finite number >= 0"),
        (lambda: GaussianShift(math.nan), "mu: nan was given"),
        (lambda: ApproximateDP(1.0, 1.5), "delta0: 1.5 was given; accepted: a number from 0 to 1"),
        (lambda: Discrete([0.5, 0.5], [1.0]), "q: .* accepted: an array of the shape of p"),
        (lambda: Discrete([0.5, 0.4], [0.5, 0.5]), "p: .* accepted: probabilities"),
        (lambda: Discrete([1.5, -0.5], [0.5, 0.5]), "p: "),
        (lambda: LaplaceShift(1.0).delta(-0.1), "epsilon: -0.1 was given; accepted: numbers >= 0"),
        (lambda: LaplaceShift(1.0).delta([0.1, math.nan]), "epsilon: nan was given"),
        (lambda: LaplaceShift(1.0).delta(0.1, "backward"), "direction: 'backward' was given"),
        (lambda: LaplaceShift(1.0).tradeoff(1.1), "alpha: 1.1 was given"),
        (lambda: LaplaceShift(1.0).point(-1.0), "eta: -1.0 was given"),
        (lambda: LaplaceShift(1.0).epsilon(0.0), "delta: 0.0 was given"),
        (lambda: SpectrumPoints([0.2, 0.1], [0.3, 0.2]), "epsilon: .* strictly increasing"),
        (lambda: SpectrumPoints([0.2], [1.2]), "delta: 1.2 was given"),
        (lambda: SpectrumPoints([], []), "epsilon, delta"),
        (lambda: noise_scale(None), "epsilon, scale: .* exactly one"),
        (lambda: noise_scale(1.0, 1.0, 1.0), "epsilon, scale: .* exactly one"),
        (lambda: noise_scale(0), "epsilon: 0 was given; accepted: a finite number > 0"),
        (lambda: noise_scale(True), "epsilon: True was given"),
        (lambda: noise_scale("1"), "epsilon: '1' was given"),
        (lambda: noise_scale(1.0, -2.0), "sensitivity: -2.0 was given"),
        (lambda: noise_scale(5e-324), "sensitivity / epsilon: inf was given"),
        (lambda: noise_sigma(1.0, None), "epsilon, delta, sigma"),
        (lambda: noise_sigma(None, None), "epsilon, delta, sigma"),
        (lambda: noise_sigma(1.0, 0.1, 1.0, 2.0), "epsilon, delta, sigma"),
        (lambda: noise_sigma(1.0, 0.0), "delta: 0.0 was given; accepted: a number between 0 and 1"),
    ],
)
def test_values_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


MEAN = {"lower": 0.0, "upper": 1.0, "count": 3, "epsilon": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": 1.0}, r"lower, upper: \(1.0, 1.0\) was given; accepted: lower < upper"),
        ({"upper": math.inf}, "upper: inf was given"),
        ({"count": 0}, "count: 0 was given; accepted: an integer >= 1"),
        ({"count": 2.5}, "count: 2.5 was given"),
        ({"epsilon": -1}, "epsilon: -1 was given"),
        ({"delta": 0.1}, 'delta: 0.1 was given; accepted: no delta with noise = "laplace"'),
        ({"noise": "gaussian"}, "epsilon, delta, sigma"),
        ({"noise": "uniform"}, "noise: 'uniform' was given"),
        ({"column": 1}, "column: 1 was given; accepted: a column of the database, 0 to 0"),
        ({"column": -1}, "column: -1 was given"),
    ],
)
def test_aggregate_parameters_refused(change, message):
    database = np.array([0.5, 0.25])
    with pytest.raises(ValueError, match=message):
        bounded_mean(database, 1, np.random.default_rng(0), **{**MEAN, **change})
    with pytest.raises(ValueError, match=message):
        exact("bounded_mean", {**MEAN, **change}, database, database[:1])


@pytest.mark.parametrize("database", [np.array([np.nan]), np.array(["a"]), np.zeros((2, 2, 2)), np.array(1.0)])
def test_databases_refused(database):
    with pytest.raises(ValueError, match="database"):
        bounded_mean(database, 1, np.random.default_rng(0), **MEAN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": [[0.5, 0.6]]}, "table: row 0: sum: 1.1 was given; accepted: a sum of 1 within 1e-09"),
        ({"table": [[0.5, 0.5], [1.1, -0.1]]}, "table: .* entries >= 0"),
        ({"table": [[1.0]]}, "table: .* one row of 2 probabilities"),
        ({"table": [[0.5, 0.5], [1.0]]}, "table: .* one row of 2 probabilities"),
        ({"table": []}, "table: "),
        ({"outcomes": [1, "a"]}, "outcomes: .* different finite numbers or"),
        ({"outcomes": [1, 1]}, "outcomes: "),
        ({"outcomes": "ab"}, "outcomes: "),
        ({"outcomes": [1.0, math.nan]}, "outcomes: "),
        ({"outcomes": [True, False]}, "outcomes: "),
        ({"outcomes": [[1], [2]]}, "outcomes: "),
        ({"database": np.array([1])}, "database: .* one integer from 0 to 0"),
        ({"database": np.array([-1])}, "database: "),
        ({"database": np.array([0.5])}, "database: "),
        ({"database": np.array([0, 0])}, "database: "),
    ],
)
def test_tables_refused(change, message):
    arguments = {"database": np.array([0]), "outcomes": [1, 2], "table": [[0.5, 0.5]], **change}
    with pytest.raises(ValueError, match=message):
        pmf(arguments.pop("database"), 1, np.random.default_rng(0), **arguments)
