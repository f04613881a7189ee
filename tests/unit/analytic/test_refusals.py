"""Values that the exact pairs and their mechanisms refuse, each with what is accepted."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    NormalMixture,
    Piecewise,
    SpectrumPoints,
    Subsampled,
    Symmetrised,
    exact,
    exponential_pmf,
    gaussian_textbook_delta,
    noiseless_count,
    noisy_max_index,
    noisy_max_value,
    randomized_response_pair,
    rappor_pair,
    sparse_vector,
    toy_dpsgd_pair,
)
from hpcdp.mechanisms.additive import bounded_mean, noise_scale, noise_sigma
from hpcdp.mechanisms.table import pmf

ZEROS, ODD = np.zeros(10), np.eye(10)[0]
SUM = {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}
SHIFTS = ([-0.1, 1.0], [], [[0.1]], [np.inf])


def answers(first=(1.0, 0.0), second=(0.0, 1.0), variant=1, epsilon=1.0, **more):
    return sparse_vector(first, second, variant=variant, epsilon=epsilon, **more)


def laplaces(x):
    return -np.abs(x) - math.log(2.0), -np.abs(x - 2.3) - math.log(2.0)


VALUES = [
    (LaplaceShift, {}, dict(epsilon0=[-1.0])),
    (GaussianShift, {}, dict(mu=[math.nan])),
    (ApproximateDP, dict(epsilon0=1.0), dict(delta0=[1.5])),
    (LaplaceShift(1.0).delta, {}, dict(epsilon=[-0.1])),
    (LaplaceShift(1.0).delta, dict(epsilon=0.1), dict(direction=["backward"])),
    (LaplaceShift(1.0).tradeoff, {}, dict(alpha=[1.1])),
    (LaplaceShift(1.0).point, {}, dict(eta=[-1.0])),
    (LaplaceShift(1.0).epsilon, {}, dict(delta=[0.0])),
    (noise_scale, dict(epsilon=1.0), dict(epsilon=[0, True, "1"], sensitivity=[-2.0])),
    (noise_sigma, dict(epsilon=1.0), dict(delta=[0.0])),
    # mechanisms that choose
    (noisy_max_value, dict(first=[1.0], second=[1.0], scale=1.0), dict(scale=[0.0], noise=["normal"])),
    (exponential_pmf, dict(scores=[1.0]), dict(epsilon=[-1.0])),
    # local mechanisms, and counts
    (noiseless_count, dict(rows=10, probability=0.5), dict(rows=[0], probability=[1.5])),
    (randomized_response_pair, dict(differing=1, epsilon=1.0), dict(differing=[-1], epsilon=[0.0], values=[1])),
    (rappor_pair, dict(first=[0], second=[1]), dict(f=[1.1])),
    (gaussian_textbook_delta, dict(sigma=1.0), dict(epsilon=[-1.0])),
    # batches
    (Subsampled, dict(curve=GaussianShift(1.0)), dict(rate=[0.0, 1.1])),
    (toy_dpsgd_pair, {}, dict(rows=[0], shift=[math.inf], updates=[17])),
    # the sparse vector technique
    (
        sparse_vector,
        dict(first=(1.0, 0.0), second=(0.0, 1.0), variant=1, epsilon=1.0),
        dict(variant=[7], epsilon=[0.0], cutoff=[0], sensitivity=[-1.0], threshold=[math.nan]),
    ),
]
"""What is called, other arguments, and values of one that are refused by its name."""


@pytest.mark.parametrize(("call", "others", "wrong"), VALUES)
def test_values_are_refused_by_their_name(call, others, wrong):
    for key, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=re.escape(f"{key}: {value!r} was given; accepted: ")):
                call(**others | {key: value})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Discrete([0.5, 0.5], [1.0]), "q: .* accepted: an array of the shape of p"),
        (lambda: Discrete([0.5, 0.4], [0.5, 0.5]), "p: .* accepted: probabilities"),
        (lambda: Discrete([1.5, -0.5], [0.5, 0.5]), "p: "),
        (lambda: SpectrumPoints([0.2, 0.1], [0.3, 0.2]), "epsilon: .* strictly increasing"),
        (lambda: SpectrumPoints([0.2], [1.2]), "delta: 1.2 was given"),
        (lambda: noise_scale(None), "epsilon, scale: .* exactly one"),
        (lambda: noise_scale(5e-324), "sensitivity / epsilon: inf was given"),
        (lambda: noise_sigma(1.0, None), "epsilon, delta, sigma"),
        (lambda: noise_sigma(1.0, 0.1, 1.0, 2.0), "epsilon, delta, sigma"),
        (lambda: Symmetrised(3), r"curve: 3 was given; accepted: a curve of hpcdp\.analytic"),
        (lambda: noisy_max_index([1.0], [1.0, 2.0], 1.0), "second: .* as many answers as first, 1"),
        (lambda: noisy_max_value([], [1.0], 1.0), "first: "),
        (lambda: exponential_pmf([], 1.0), "scores: "),
        (lambda: exact("noisy_max", {"variant": "NM5", "epsilon": 1.0}, np.zeros(2), np.zeros(2)), "variant: 'NM5'"),
        (lambda: exact("exponential", {"outcomes": [1]}, np.zeros(2), np.zeros(2)), "parameters of exponential"),
        (lambda: rappor_pair([0, 2], [0, 1]), "first: .* zeros and ones"),
        (lambda: rappor_pair([0], [0, 1]), "second: .* as many bits as first, 1"),
        (lambda: exact("randomized_response", {"epsilon": 1.0}, np.array([2]), np.array([1])), "database: .* 0 to 1"),
        (lambda: exact("rappor", {}, np.array([1, 2]), np.array([1])), "database: .* one integer"),
        (lambda: NormalMixture([-1e101], [1.0]), r"shifts: -1e\+101 was given; accepted: numbers from -1e\+100"),
        (lambda: NormalMixture([1.0], [0.5]), "weights: sum: 0.5 was given; accepted: 1 within"),
        (lambda: NormalMixture([1.0, 2.0], [1.0]), "accepted: equal shapes"),
        (lambda: NormalMixture([], []), "shifts, weights: "),
        (lambda: exact("toy_dpsgd", {"start": "0"}, ZEROS, ODD), "start: '0' was given"),
        (lambda: exact("toy_dpsgd", {"batch": 11}, ZEROS, ODD), "batch: 11 was given; accepted: at most the 10 rows"),
        (lambda: exact("subsampled", SUM | {"rate": 0.5}, ZEROS, ODD), "batch, rate"),
        (lambda: exact("subsampled", SUM | {"parameters": {"epsilon": 1}}, ZEROS, ODD), "parameters of noisy_sum"),
        (lambda: answers(variant=6, cutoff=2), "cutoff: 2 was given"),
        (lambda: answers(first=[1.0]), "second: .* as many answers as first, 1"),
        (lambda: answers(second=[1.0, math.inf]), "second: .* finite numbers"),
        *((lambda shifts=shifts: LaplaceVector(shifts), "shifts: ") for shifts in SHIFTS),
        # densities in pieces
        (lambda: Piecewise([(laplaces, [0.0, 2.3, 48.0])], [0.0], [0.0]), r"mass of P: 0\.4"),
        (lambda: Piecewise([(laplaces, [-45.0, 0.0, 2.3, 48.0])], [0.0], []), "equal shapes"),
        (lambda: Piecewise([], [1.0], [1.0]), "lines: "),
    ],
)
def test_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


MEAN = {"lower": 0.0, "upper": 1.0, "count": 3, "epsilon": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": 1.0}, r"lower, upper: \(1.0, 1.0\) was given; accepted: lower < upper"),
        ({"upper": math.inf}, "upper: inf was given"),
        ({"count": 0}, "count: 0 was given; accepted: an integer >= 1"),
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
