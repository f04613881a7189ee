"""Draws of every built-in against the exact probability of each cell, which is computed here, in another way than there."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from cells import check_cells, count_codes, exponential_cdf, laplace_cdf, laplace_nodes

from hpcdp.mechanisms import load_builtin
from hpcdp.mechanisms.exponential_real import exponential_rate
from hpcdp.mechanisms.local import bloom_bits
from hpcdp.mechanisms.sparse_vector import sparse_vector_variant

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


UTILITY = """
import numpy as np

def distance(database, outcomes):
    return -np.abs(np.median(database) - np.array([len(text) for text in outcomes]))
"""


def test_exponential_with_a_utility_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "own_utility.py").write_text(UTILITY)
    monkeypatch.syspath_prepend(tmp_path)
    outcomes = ["a", "bb", "ccc", "dddd"]
    drawn = draw("exponential", [1, 2, 3], 2, outcomes=outcomes, epsilon=1.2, utility="own_utility:distance")
    weights = np.exp(1.2 * -np.abs(2 - np.arange(1, 5)) / 2)
    check_cells([np.count_nonzero(drawn == outcome) for outcome in outcomes], weights / weights.sum())


# Report noisy max

ANSWERS = np.array([1.0, 0.25, -2.0, 1.0, 1.75])


@pytest.mark.parametrize("variant", ["NM1", "NM3"])
def test_noisy_max_index(variant):
    scale = 2 * 1.5 / 0.7
    cdf = laplace_cdf if variant == "NM1" else exponential_cdf
    # P_i = E over the noise of i of the product of the others' cdfs; exponential noise is Laplace noise given its sign
    nodes, weights = laplace_nodes(scale, np.subtract.outer(ANSWERS, ANSWERS).ravel())
    if variant == "NM3":
        weights = np.where(nodes > 0, 2 * weights, 0)
    exact = [
        np.sum(weights * np.prod([cdf(nodes + a - b, scale) for b in np.delete(ANSWERS, i)], axis=0))
        for i, a in enumerate(ANSWERS)
    ]
    drawn = draw("noisy_max", ANSWERS, 3, variant=variant, epsilon=0.7, sensitivity=1.5)
    assert drawn.dtype == np.int64
    check_cells(count_codes(drawn, ANSWERS.size), exact)


@pytest.mark.parametrize(("variant", "gap"), [("NM1", 0.8), ("NM3", 0.8), ("NM3", 0.0)])
def test_noisy_max_of_two_queries(variant, gap):
    b = 0.5 / 0.9  # monotonic: half the scale
    loser = 0.5 * np.exp(-gap / b) * (1 + gap / (2 * b) if variant == "NM1" else 1)
    drawn = draw("noisy_max", [-gap, 0], 4, variant=variant, epsilon=0.9, sensitivity=0.5, monotonic=True)
    check_cells([*count_codes(drawn, 2), 0], [loser, 1 - loser, 0])


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


@pytest.mark.parametrize(
    ("variant", "rho", "nu"), [(1, 2, 12), (2, 6, 12), (3, 2, 6), (4, 4, 4 / 3), (5, 2, 0), (6, 2, 2)]
)
def test_sparse_vector_scales(variant, rho, nu):
    found = sparse_vector_variant(variant, 0.5, cutoff=3 if variant < 5 else 1, sensitivity=2.0)
    np.testing.assert_allclose([found.rho, found.nu], [4 * rho, 4 * nu], rtol=1e-15)


def enumerate_above(rho, nu, cutoff, redraw=False, edges=()):
    """Probability of every sequence of (index, cell of the noisy answer), by recursion over the queries.

    A weight per node of rho goes along; where rho is drawn anew, what came before is integrated out.
    """
    kinks = [*(QUERIES - THRESHOLD), *(np.asarray(edges) - THRESHOLD)]
    nodes, weights = laplace_nodes(rho, kinks)
    limits = [-np.inf, *edges, np.inf]
    out = {}

    def tail(x):
        return 1 - laplace_cdf(x, nu)

    def follow(query, above, weight):
        if len(above) == cutoff or query == QUERIES.size:
            out[above] = weight.sum()
            return
        least = THRESHOLD + nodes - QUERIES[query]
        follow(query + 1, above, weight * laplace_cdf(least, nu))
        for cell, (low, high) in enumerate(pairwise(limits)):
            share = tail(np.maximum(least, low - QUERIES[query])) - tail(np.maximum(least, high - QUERIES[query]))
            reached = weight * share
            follow(query + 1, (*above, (query, cell)), reached.sum() * weights if redraw else reached)

    follow(0, (), weights)
    return out


@pytest.mark.parametrize("cutoff", [1, 2, 3])
@pytest.mark.parametrize("variant", [1, 2, 4])
def test_sparse_vector_indices(variant, cutoff):
    rho = {1: 2, 2: 2 * cutoff, 4: 4}[variant] * UNIT
    nu = {1: 4 * cutoff, 2: 4 * cutoff, 4: 4 / 3}[variant] * UNIT
    law = enumerate_above(rho, nu, cutoff, redraw=variant == 2)
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
    law = enumerate_above(2 * UNIT, 2 * cutoff * UNIT, cutoff, edges=edges)
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


def test_randomized_response_that_keeps_all():
    assert (draw("randomized_response", [2, 0], 12, size=1000, epsilon=700.0, values=3) == [2, 0]).all()


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
