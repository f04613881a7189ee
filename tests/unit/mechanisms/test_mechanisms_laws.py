"""Draws of every built-in against the exact probability of each cell, which is computed here, in another way than there.

Mechanisms on random batches of rows are at the end: their laws are enumerated batch by batch.
"""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from cells import (
    check_cells,
    count_codes,
    exponential_cdf,
    laplace_cdf,
    laplace_nodes,
    sparse_vector_laws,
    update_laws,
)
from scipy.special import ndtr

from hpcdp.analytic import noisy_max_index
from hpcdp.errors import MechanismError
from hpcdp.mechanisms import load_builtin
from hpcdp.mechanisms._batches import enumerate_batches
from hpcdp.mechanisms._kernels import draw_above
from hpcdp.mechanisms.exponential import exponential_rate
from hpcdp.mechanisms.local import bloom_bits
from hpcdp.mechanisms.subsampled import subsampled
from hpcdp.mechanisms.toy_dpsgd import toy_dpsgd

SIZE = 1_000_000


def draw(name, database, seed, size=SIZE, **parameters):
    return load_builtin(name)(np.asarray(database), size, np.random.default_rng(seed), **parameters)


def cell_of(values, edges):
    """Number of the cell of each value, from 0; cells are half open."""
    return np.searchsorted(edges, values, side="right")


# The exponential mechanism


@pytest.mark.parametrize(
    ("outcomes", "epsilon", "sensitivity"), [([0, 1, 2, 5], 0.8, 1.0), ([2.5, -1.0], 3.0, 2.0), ([7], 1.0, 1.0)]
)
def test_exponential_of_counts(outcomes, epsilon, sensitivity):
    database = [2.5, 0, 1, 1, 2, 2, 2, -1, -1]
    votes = [database.count(outcome) for outcome in outcomes]
    weights = [np.exp(epsilon * vote / (2 * sensitivity)) for vote in votes]
    drawn = draw("exponential", database, 1, outcomes=outcomes, epsilon=epsilon, sensitivity=sensitivity)
    assert set(np.unique(drawn)) <= set(outcomes)
    if len(outcomes) > 1:
        found = [np.count_nonzero(drawn == outcome) for outcome in outcomes]
        check_cells([*found, 0], [*(weights / np.sum(weights)), 0.0])


# Report noisy max

ANSWERS = np.array([1.0, 0.25, -2.0, 1.0, 1.75])


@pytest.mark.parametrize(("variant", "noise"), [("NM1", "laplace"), ("NM3", "exponential")])
@pytest.mark.parametrize("monotonic", [False, True])
def test_noisy_max_index(variant, noise, monotonic):
    exact = noisy_max_index(ANSWERS, ANSWERS, (1 if monotonic else 2) * 1.5 / 0.7, noise).p
    drawn = draw("noisy_max", ANSWERS, 3, variant=variant, epsilon=0.7, sensitivity=1.5, monotonic=monotonic)
    assert drawn.dtype == np.int64
    check_cells(count_codes(drawn, ANSWERS.size), exact)


@pytest.mark.parametrize("variant", ["NM2", "NM4"])
def test_noisy_max_value(variant):
    cdf = laplace_cdf if variant == "NM2" else exponential_cdf
    edges = np.concatenate([[1.75], np.linspace(1.8, 16, 30)])
    below = np.prod([cdf(edges - answer, 2.25) for answer in ANSWERS], axis=0)
    drawn = draw("noisy_max", ANSWERS, 5, variant=variant, scale=2.25)
    assert drawn.dtype == np.float64
    check_cells(count_codes(cell_of(drawn, edges), edges.size + 1), np.diff([0, *below, 1]))


@pytest.mark.parametrize(
    ("s", "parameters"), [(1.3, {"rate": 0.9}), (0.4, {"epsilon": 1.1, "lower": 0.0, "upper": 0.5})]
)
def test_exponential_real(s, parameters):
    rate = parameters.get("rate") or exponential_rate(1.1, None, 0.0, 0.5)
    edges = np.linspace(0.0, 6.0, 40)
    left = np.exp(-rate * np.maximum(s - edges, 0.0)) - np.exp(-rate * s)
    below = (left - np.expm1(-rate * np.maximum(edges - s, 0.0))) / (2.0 - np.exp(-rate * s))
    drawn = draw("exponential_real", [s], 6, **parameters)
    assert drawn.dtype == np.float64
    assert drawn.min() >= 0.0
    check_cells(count_codes(cell_of(drawn, edges), edges.size + 1), np.diff([0, *below, 1]))


@pytest.mark.parametrize(
    ("noise", "x", "scale"), [("laplace", 0.3, 0.7), ("gaussian", 2.0, 1.3), ("laplace", -1.0, 9.0)]
)
def test_truncated(noise, x, scale):
    edges = np.linspace(-1.0, 2.0, 31)
    # the density by midpoints, renormalised by its own sum
    z = (np.linspace(-1.0, 2.0, 60_001)[:-1] + 2.5e-5 - x) / scale
    weights = np.exp(-np.abs(z) if noise == "laplace" else -0.5 * z * z).reshape(30, -1).sum(axis=1)
    drawn = draw("truncated", [x], 7, noise=noise, scale=scale, lower=-1.0, upper=2.0)
    assert drawn.dtype == np.float64
    assert -1.0 <= drawn.min() <= drawn.max() <= 2.0
    codes = cell_of(drawn, edges[1:-1])
    check_cells(count_codes(codes, 30), weights / weights.sum())


# The sparse vector technique

QUERIES = np.array([0.3, -1.0, 1.2, 0.3, 0.3, -0.4])
THRESHOLD = 0.25
SETTING = dict(epsilon=0.9, threshold=THRESHOLD, sensitivity=1.5)
UNIT = 1.5 / 0.9


@pytest.mark.parametrize("cutoff", [1, 2, 3])
@pytest.mark.parametrize("variant", [1, 2, 4])
def test_sparse_vector_indices(variant, cutoff):
    rho = {1: 2, 2: 2 * cutoff, 4: 4}[variant] * UNIT
    nu = {1: 4 * cutoff, 2: 4 * cutoff, 4: 4 / 3}[variant] * UNIT
    law = sparse_vector_laws(QUERIES, THRESHOLD, rho, nu, cutoff, variant == 2)
    drawn = draw("sparse_vector", QUERIES, 6, variant=variant, cutoff=cutoff, **SETTING)
    assert drawn.shape == ((SIZE,) if cutoff == 1 else (SIZE, cutoff))
    assert drawn.dtype == np.int64
    radix = 7 ** np.arange(cutoff)
    exact = np.zeros(7**cutoff)
    for above, probability in law.items():
        places = [query for query, _ in above] + [6] * (cutoff - len(above))
        exact[radix @ places] += probability
    check_cells(count_codes(drawn.reshape(SIZE, cutoff) @ radix, 7**cutoff), exact)


@pytest.mark.parametrize("cutoff", [1, 2, 3])
def test_sparse_vector_mixed(cutoff):
    edges = np.array([0.0, 2.0, 5.0])
    law = sparse_vector_laws(QUERIES, THRESHOLD, 2 * UNIT, 2 * cutoff * UNIT, cutoff, edges=edges)
    drawn = draw("sparse_vector", QUERIES, 7, variant=3, cutoff=cutoff, **SETTING)
    assert drawn.shape == (SIZE, 2 * cutoff)
    index, value = drawn[:, 0::2].astype(int), drawn[:, 1::2]
    np.testing.assert_array_equal(value[index == 6], 0.0)
    assert np.unique(value[index < 6]).size == np.count_nonzero(index < 6)
    cells = np.where(index < 6, 4 * index + cell_of(value, edges), 24)
    radix = 25 ** np.arange(cutoff)
    exact = np.zeros(25**cutoff)
    for above, probability in law.items():
        exact[radix @ ([4 * query + cell for query, cell in above] + [24] * (cutoff - len(above)))] += probability
    check_cells(count_codes(cells @ radix, 25**cutoff), exact)


@pytest.mark.parametrize("variant", [5, 6])
def test_sparse_vector_bits(variant):
    if variant == 5:  # between two answers, what is above is fixed
        edges = np.unique(QUERIES - THRESHOLD)
        weights = np.diff([0, *laplace_cdf(edges, 2 * UNIT), 1])
        nodes = np.concatenate([[edges[0] - 1], 0.5 * (edges[1:] + edges[:-1]), [edges[-1] + 1]])
        tails = [(nodes <= answer - THRESHOLD).astype(float) for answer in QUERIES]
    else:
        nodes, weights = laplace_nodes(2 * UNIT, QUERIES - THRESHOLD)
        tails = [1 - laplace_cdf(THRESHOLD + nodes - answer, 2 * UNIT) for answer in QUERIES]
    exact = [
        np.sum(weights * np.prod([t if bit else 1 - t for bit, t in zip(bits, tails, strict=True)], axis=0))
        for bits in product([0, 1], repeat=QUERIES.size)
    ]
    drawn = draw("sparse_vector", QUERIES, 8, variant=variant, **SETTING)
    assert drawn.shape == (SIZE, QUERIES.size)
    assert drawn.dtype == bool
    check_cells(count_codes(drawn @ 2 ** np.arange(QUERIES.size)[::-1], 2**QUERIES.size), exact)


def test_sparse_vector_with_more_queries_than_a_block_holds():
    answers = np.full(70_000, -200.0)
    answers[69_999] = 1000.0
    drawn = draw("sparse_vector", answers, 9, size=40, variant=1, epsilon=1.0)
    assert (drawn == 69_999).mean() > 0.9
    bits = draw("sparse_vector", answers, 9, size=3, variant=6, epsilon=1.0)
    assert bits[:, -1].all()
    assert bits.shape == (3, 70_000)


def test_the_largest_noise_is_a_number():
    """Of a uniform variate that is 0, which no sample of a test is likely to hold."""
    index, value = np.empty((1, 2), np.int64), np.empty((1, 2))
    gaps = np.array([0.5, -3.0, 1.0])
    assert draw_above(gaps, 2.0, 1.5, 4.0, True, True, np.zeros(20), index, value) == 1
    assert np.isfinite(value).all()


# Histograms and counts

ROWS = [0, 3, 3, 1, 1, 1, 8]


@pytest.mark.parametrize(("variant", "scale"), [("correct", 1 / 0.4), ("faulty", 0.4)])
def test_noisy_histogram(variant, scale):
    drawn = draw("noisy_histogram", ROWS, 10, values=[1, 3, 2], epsilon=0.4, variant=variant)
    edges = scale * np.array([-1.0, 0.0, 0.5])
    share = np.diff([0, *laplace_cdf(edges, scale), 1])
    cells = cell_of(drawn - [3, 2, 0], edges)
    exact = np.einsum("i,j,k->ijk", share, share, share)
    check_cells(count_codes(cells @ [16, 4, 1], 64), exact)


def test_noiseless_counts():
    np.testing.assert_array_equal(draw("count", ROWS, 0, size=3), [3, 3, 3])
    np.testing.assert_array_equal(draw("count", [], 0, size=2, value=3), [0, 0])
    np.testing.assert_array_equal(draw("histogram", ROWS, 0, size=2, values=[3, 0, 4]), [[2, 1, 0]] * 2)
    np.testing.assert_array_equal(draw("histogram", ROWS, 0, size=2, values=[8.0]), [1, 1])
    columns = [[1, 0.5], [1, 0.5], [0, 0.5]]
    np.testing.assert_array_equal(draw("count", columns, 0, size=1, value=[1, 0.5]), [2])
    np.testing.assert_array_equal(draw("histogram", columns, 0, size=1, values=[[0, 0.5], [0, 1]]), [[1, 0]])


# Local mechanisms


@pytest.mark.parametrize(("rows", "values", "epsilon"), [([2], 5, 0.6), ([1, 0], 2, 1.1), ([3, 0, 1], 4, 1.7)])
def test_randomized_response(rows, values, epsilon):
    keep, other = np.array([np.exp(epsilon), 1]) / (np.exp(epsilon) + values - 1)
    exact = [
        np.prod([keep if answer == row else other for answer, row in zip(answers, rows, strict=True)])
        for answers in product(range(values), repeat=len(rows))
    ]
    drawn = draw("randomized_response", rows, 11, epsilon=epsilon, values=values)
    assert drawn.shape == ((SIZE,) if len(rows) == 1 else (SIZE, len(rows)))
    radix = values ** np.arange(len(rows))[::-1]
    check_cells(count_codes(drawn.reshape(SIZE, -1) @ radix, values ** len(rows)), exact)


@pytest.mark.parametrize("one_time", [False, True])
def test_rappor(one_time):
    f, p, q, bits = 0.6, 0.3, 0.8, 6
    chance = {True: 1 - f / 2, False: f / 2}
    if not one_time:  # the permanent bit first, then the reported one
        chance = {bit: on * q + (1 - on) * p for bit, on in chance.items()}
    ones = [chance[bool(bit)] for bit in bloom_bits(17, 2, bits)]
    exact = [np.prod([c if bit else 1 - c for bit, c in zip(answer, ones, strict=True)])
             for answer in product([0, 1], repeat=bits)]  # fmt: skip
    drawn = draw("rappor", [17], 13, hashes=2, bits=bits, f=f, p=p, q=q, one_time=one_time)
    assert drawn.dtype == bool
    check_cells(count_codes(drawn @ 2 ** np.arange(bits)[::-1], 2**bits), exact)


def test_bloom_filters():
    filters = np.array([bloom_bits(value, 4, 20) for value in range(-500, 500)])
    np.testing.assert_array_equal(filters[7], bloom_bits(-493, 4, 20))
    held = filters.sum(axis=1)
    assert held.max() == 4
    assert held.min() >= 1
    assert np.unique(filters, axis=0).shape[0] > 800
    # hashes are uniform and independent: the share of bits that four hashes leave unset
    assert abs(filters.mean() - (1 - 0.95**4)) < 5 * np.sqrt(0.1855 * 0.8145 / filters.size)


def rng_of(seed):
    return np.random.default_rng(seed)


def check_mixture(drawn, centres, weights, spread):
    """Draws against a mixture of normal laws of one deviation, in 60 cells of about equal probability."""
    edges = np.quantile(np.asarray(drawn[:5000]), np.linspace(0, 1, 61)[1:-1])
    cdf = np.concatenate([[0.0], ndtr((edges[:, None] - centres) / spread) @ weights, [1.0]])
    check_cells(count_codes(np.searchsorted(edges, drawn[5000:], side="right"), 60), np.diff(cdf))


def batches_of(rows, batch=None, rate=None):
    """Every batch of some rows, in their order, with its probability."""
    found = []
    for size in range(len(rows) + 1) if batch is None else [batch]:
        for places in combinations(range(len(rows)), size):
            weight = 1 / math.comb(len(rows), size) if batch else rate**size * (1 - rate) ** (len(rows) - size)
            found.append(([rows[place] for place in places], weight))
    return found


# Batches of rows: toy DP-SGD


NEIGHBOUR = [0] * 9 + [1]
TOY = {
    "reference": (NEIGHBOUR, {}),
    "low noise": (NEIGHBOUR, {"sigma": 0.02, "rate": 0.5, "updates": 4}),
    "equal rows": ([2.5] * 4, {"batch": 2, "start": -3.0, "rate": 0.3}),
    "reals": ([0.3, -1.7, 2.2, 0.9], {"batch": 2, "updates": 3, "sigma": 0.05, "start": 0.7}),
    "repeated": ([1, 0, 1, 5, 0, 1], {"batch": 4, "updates": 4, "rate": 0.7, "sigma": 0.1}),
    "all rows": ([1.0, 2.0, 4.0], {"batch": 3, "updates": 2, "rate": 1.0, "sigma": 0.4}),
    "one update": (list(range(12)), {"batch": 1, "updates": 1, "rate": 0.25, "sigma": 1.0}),
}


@pytest.mark.parametrize("name", TOY)
def test_toy_dpsgd(name):
    rows, parameters = TOY[name]
    drawn = toy_dpsgd(np.array(rows), SIZE, rng_of(1), **parameters)
    assert drawn.shape == (SIZE,)
    check_mixture(drawn, *update_laws(rows, **parameters))


def sums_of_half_of_twenty():
    """Sums of the 184,756 batches of ten of the rows 0 … 19, and their probabilities."""
    ways = np.zeros((11, 191), dtype=object)
    ways[0, 0] = 1
    for row in range(20):
        ways[1:, row:] = ways[1:, row:] + ways[:-1, : 191 - row]
    sums = np.flatnonzero(ways[10])
    return sums, (ways[10][sums] / math.comb(20, 10)).astype(float)


def test_sums_of_batches_of_too_many_kinds_to_count():
    (sums, weights), rows = sums_of_half_of_twenty(), np.arange(20)
    assert enumerate_batches((1,) * 20, 10, None) is None
    drawn = toy_dpsgd(rows, 300_000, rng_of(2), batch=10, updates=2, rate=0.4, sigma=0.05)
    centres = np.add.outer(0.4 * 0.6 * sums / 10, 0.4 * sums / 10).ravel()
    check_mixture(drawn, centres, np.outer(weights, weights).ravel(), 0.4 * 0.05 * np.hypot(1, 0.6))
    noisy = {"mechanism": "noisy_sum", "parameters": {"sigma": 0.5}, "batch": 10}
    check_mixture(subsampled(rows, 300_000, rng_of(12), **noisy), sums, weights, 0.5)


def test_draws_of_toy_dpsgd_follow_no_order():
    low = {"sigma": 1e-3, "updates": 1}
    drawn = toy_dpsgd(np.array(NEIGHBOUR), SIZE, rng_of(4), **low) > 0.02  # is the odd row in the batch?
    pairs = 2 * drawn[:-1:2] + drawn[1::2]
    check_cells(count_codes(pairs.astype(int), 4), np.full(4, 0.25))


# Subsampling


def encode(database, size, rng):
    """What the batch holds and in which order, with no noise: digits 1 to 9, most significant first."""
    return np.full(size, int("".join(str(int(row)) for row in database.ravel()) or "0"))


def one_at_a_time(database, rng):
    return int(encode(database, 1, rng)[0])


SAMPLING = [
    ([1, 2, 3, 4, 5], {"batch": 2}),
    ([1, 2, 1, 1, 2], {"batch": 3}),
    ([7, 7, 7, 7, 2], {"batch": 4}),
    ([3, 1, 2], {"batch": 3}),
    ([1, 2, 3, 4], {"rate": 0.3}),
    ([1, 1, 2, 1], {"rate": 0.8}),
    ([4, 4], {"rate": 1.0}),
]


def check_codes(drawn, rows, how):
    law = {}
    for chosen, weight in batches_of(rows, **how):
        code = int("".join(map(str, chosen)) or "0")
        law[code] = law.get(code, 0.0) + weight
    codes = np.array(sorted(law))
    assert np.isin(drawn, codes).all()
    check_cells(
        [*np.bincount(np.searchsorted(codes, drawn), minlength=codes.size), 0], [*map(law.get, codes.tolist()), 0]
    )


@pytest.mark.few
@pytest.mark.parametrize(("rows", "how"), SAMPLING)
def test_every_batch_is_drawn_as_often_as_it_should(rows, how):
    """By the kinds of batches, and one by one, as `each` draws them."""
    drawn = subsampled(np.array(rows), SIZE, rng_of(5), mechanism=encode, **how)
    assert drawn.shape == (SIZE,)
    check_codes(drawn, rows, how)
    many = np.broadcast_to(np.array(rows), (50_000, len(rows)))
    check_codes(np.array(subsampled.each(many, rng_of(7), mechanism=encode, **how)), rows, how)


def test_a_callable_that_returns_one_output_a_call():
    drawn = subsampled(np.array([1, 2, 3]), 20_000, rng_of(10), mechanism=one_at_a_time, batch=2)
    assert isinstance(drawn, list)
    check_codes(np.array(drawn), [1, 2, 3], {"batch": 2})


@pytest.mark.parametrize(
    ("rows", "how", "sigma"),
    [
        (NEIGHBOUR, {"batch": 5}, 1.0),
        (NEIGHBOUR, {"batch": 3}, 0.4),
        ([0.4, -1.0, 2.5, 0.4, 3.3], {"batch": 2}, 0.5),
        ([0.4, -1.0, 2.5, 0.4, 3.3], {"rate": 0.4}, 0.5),
    ],
)
def test_sums_of_batches_with_noise(rows, how, sigma):
    parameters = {"mechanism": "noisy_sum", "parameters": {"sigma": sigma}, **how}
    drawn = subsampled(np.array(rows), SIZE, rng_of(11), **parameters)
    law = batches_of(rows, **how)
    exact = np.array([sum(chosen) for chosen, _ in law]), np.array([weight for _, weight in law]), sigma
    check_mixture(drawn, *exact)
    other = {key: value + 1 if key == "batch" else value * 1.05 for key, value in how.items()}
    with pytest.raises(AssertionError):
        check_mixture(subsampled(np.array(rows), SIZE, rng_of(12), **{**parameters, **other}), *exact)


def test_outputs_of_batches_follow_no_order():
    drawn = subsampled(np.array([1, 2, 2]), SIZE, rng_of(13), mechanism=encode, batch=1) == 1
    pairs = 2 * drawn[:-1:2] + drawn[1::2]
    check_cells(count_codes(pairs, 4), np.array([4, 2, 2, 1]) / 9)


def test_vectors_strings_and_sequences():
    vectors = subsampled(np.arange(4.0), 1000, rng_of(14), mechanism="laplace", parameters={"scale": 1e-9}, batch=2)
    assert vectors.shape == (1000, 2)
    assert {tuple(v) for v in np.round(vectors).astype(int)} == set(combinations(range(4), 2))

    def texts(database, size, rng):
        return np.array(["x" * int(database.sum())] * size)

    assert set(subsampled(np.array([1, 2, 9]), 50, rng_of(15), mechanism=texts, batch=1)) == {"x", "xx", "x" * 9}

    def lists(database, size, rng):
        return [tuple(database.tolist())] * size

    assert set(subsampled(np.array([1, 2]), 100, rng_of(17), mechanism=lists, rate=0.5)) == {(), (1,), (2,), (1, 2)}

    def either(database, size, rng):
        return np.full(size, 3) if database[0] else np.full(size, "a")

    assert set(subsampled(np.array([0, 1]), 100, rng_of(18), mechanism=either, batch=1)) == {3, "a"}  # refused later


@pytest.mark.parametrize("returned", [np.zeros(8), 0.0, [1.0]])
def test_a_wrong_number_of_outputs(returned):
    with pytest.raises(MechanismError, match="when asked for 7"):
        subsampled(np.zeros(3), 7, rng_of(19), mechanism=lambda database, size, rng: returned, batch=1)  # noqa: ARG005


# The law of batches


def test_large_databases_of_few_kinds():
    kinds = enumerate_batches((60_000, 1), 256, None)
    assert kinds.counts.tolist() == [[255, 1], [256, 0]]
    np.testing.assert_allclose(kinds.probabilities[0], 256 / 60_001, rtol=1e-9)
    assert enumerate_batches((1,) * 5000, 2, None) is None
    assert enumerate_batches((1,) * 13, None, 0.5) is None
    assert enumerate_batches((2,) * 1000, 2000, None).counts.shape == (1, 1000)
