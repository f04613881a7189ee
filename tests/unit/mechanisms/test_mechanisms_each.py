"""One output of each of many databases: the law of the plain function; and what equal and different generators give."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from hpcdp.mechanisms import BUILTINS, load_builtin
from hpcdp.mechanisms._sparse_kernels import draw_above, draw_bits

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

PLAIN = {
    "laplace": ({"scale": 1.0}, [0.0, 1.0]),
    "gaussian": ({"sigma": 1.0}, [0.0, 1.0]),
    "bounded_mean": ({"lower": 0, "upper": 2, "count": 4, "epsilon": 1.0}, ROWS),
    "bounded_sum": ({"lower": 0, "upper": 2, "epsilon": 1.0}, ROWS),
    "pmf": ({"outcomes": [0, 1], "table": [[0.5, 0.5]]}, [0]),
    "exponential": ({"outcomes": [0, 1, 2], "epsilon": 1.0}, ROWS),
    "exponential_real": ({"epsilon": 1.0}, [1.5]),
    "truncated": ({"scale": 0.7}, [0.4]),
    "noisy_max": ({"variant": "NM1", "epsilon": 1.0}, ROWS),
    "sparse_vector": ({"variant": 1, "epsilon": 1.0, "cutoff": 2}, ROWS),
    "noisy_histogram": ({"values": [0, 1], "epsilon": 1.0}, ROWS),
    "randomized_response": ({"values": 4, "epsilon": 1.0}, ROWS),
    "rappor": ({}, [3]),
    "noisy_sum": ({"sigma": 1.0}, ROWS),
    "toy_dpsgd": ({}, ROWS),
    "subsampled": ({"mechanism": "noisy_max", "parameters": {"variant": "NM2", "scale": 1.0}, "rate": 1.0}, ROWS),
}
MORE = [("noisy_max", {"variant": v, "scale": 1.0}, ROWS) for v in ("NM2", "NM3", "NM4")] + [
    ("sparse_vector", {"variant": v, "epsilon": 1.0}, ROWS) for v in (2, 3, 4, 5, 6)
]


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


def test_what_has_an_each():
    assert {name for name in BUILTINS if hasattr(load_builtin(name), "each")} == set(EACH)


@pytest.mark.parametrize("name", EACH)
def test_each_takes_the_same_parameters(name):
    function = load_builtin(name)
    own, each = (
        [p for p in inspect.signature(f).parameters.values() if p.kind is p.KEYWORD_ONLY]
        for f in (function, function.each)
    )
    assert own == each


@pytest.mark.parametrize(("name", "parameters", "database"), CASES)
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


@pytest.mark.parametrize(("name", "parameters", "database"), [(n, *case) for n, case in PLAIN.items()] + MORE)
def test_draws_follow_from_the_generator(name, parameters, database):
    function, database = load_builtin(name), np.asarray(database)
    calls = [lambda rng: function(database, 500, rng, **parameters)]
    if hasattr(function, "each"):
        calls.append(lambda rng: function.each(np.broadcast_to(database, (500, *database.shape)), rng, **parameters))
    for call in calls:
        one, again, other = (call(np.random.default_rng(seed)) for seed in (5, 5, 6))
        np.testing.assert_array_equal(one, again)
        assert (one != other).any()
        assert np.unique(one, axis=0).shape[0] > 1


def test_every_random_built_in_is_tested():
    assert set(PLAIN) == set(BUILTINS) - {"count", "histogram"}


def twin_noise(uniform):
    return -np.log(2 * max(uniform, 2.0**-54)) if uniform < 0.5 else np.log(2 * (1 - uniform))


@pytest.mark.parametrize(("redraw", "release"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_kernel_of_sparse_vector_and_a_plain_twin(redraw, release):
    gaps, threshold, cutoff = np.array([0.5, 0.5, -3.0, 1.0, 1.0, 9.0, 0.0]), 2.0, 3
    uniforms = np.random.default_rng(7).random(20_000)
    uniforms[:8] = 0.0  # the largest noise
    index, value = np.empty((5000, cutoff), np.int64), np.empty((5000 if release else 0, cutoff))
    done = draw_above(gaps, threshold, 1.5, 4.0, redraw, release, uniforms, index, value)

    stream = iter(uniforms)
    left = uniforms.size
    for draw in range(done):
        assert left >= gaps.size + cutoff
        rho, found = 1.5 * twin_noise(next(stream)), []
        left -= 1
        for query, gap in enumerate(gaps):
            noise = 4.0 * twin_noise(next(stream))
            left -= 1
            if noise >= gap + rho:
                found.append((query, threshold - gap + noise))
                if len(found) == cutoff:
                    break
                if redraw:
                    rho = 1.5 * twin_noise(next(stream))
                    left -= 1
        found += [(gaps.size, 0.0)] * (cutoff - len(found))
        np.testing.assert_array_equal(index[draw], [query for query, _ in found])
        if release:
            np.testing.assert_allclose(value[draw], [noisy for _, noisy in found], rtol=1e-12, atol=1e-12)
    assert 1000 < done < 5000
    assert left < gaps.size + cutoff


@pytest.mark.parametrize("nu", [0.0, 2.0])
def test_the_kernel_of_bits_and_a_plain_twin(nu):
    gaps, place = np.array([-1.0, 0.0, 2.5]), np.array([2, 0, 0, 1, 2])
    uniforms = np.random.default_rng(8).random((2000, 6 if nu else 1))
    bits = np.empty((2000, 5), bool)
    draw_bits(gaps, place, 1.5, nu, uniforms, bits)
    noise = np.vectorize(twin_noise)(uniforms)
    own = nu * noise[:, 1:] if nu else 0.0
    np.testing.assert_array_equal(bits, own >= gaps[place] + 1.5 * noise[:, :1])


def test_the_comparison_of_laws_sees_a_shift():
    rng = np.random.default_rng(9)
    shift = 20 / np.sqrt(SIZE)  # more than ten standard deviations of the difference of two shares of one half
    with pytest.raises(AssertionError):
        check_equal_laws(rng.normal(size=SIZE), rng.normal(size=SIZE) + shift)
