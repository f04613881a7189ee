"""Mechanisms on random batches of rows: their draws against exact laws, enumerated here batch by batch."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from cells import check_cells, count_codes
from scipy.special import ndtr

from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms import load_builtin
from hpcdp.mechanisms._batch_kernels import fill_places
from hpcdp.mechanisms._batches import enumerate_batches, find_runs
from hpcdp.mechanisms._groups import join_outputs
from hpcdp.mechanisms.subsampled import subsampled
from hpcdp.mechanisms.toy_dpsgd import toy_dpsgd

SIZE = 1_000_000


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


# Toy DP-SGD


def follow_updates(rows, *, batch=5, rate=0.2, sigma=0.2, updates=10, start=0.0):
    """Centres, weights and deviation of the law of the last update, by the recursion itself; equal centres are merged."""
    sums = [(sum(chosen) / batch, weight) for chosen, weight in batches_of(rows, batch)]
    law, variance = {start: 1.0}, 0.0
    for _ in range(updates):
        after = {}
        for theta, weight in law.items():
            for mean, share in sums:
                value = round(theta - rate * (theta - mean), 13)
                after[value] = after.get(value, 0.0) + weight * share
        law, variance = after, (1 - rate) ** 2 * variance + (rate * sigma) ** 2
    return np.array(list(law)), np.array(list(law.values())), np.sqrt(variance)


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
    check_mixture(drawn, *follow_updates(rows, **parameters))


def test_toy_dpsgd_with_too_many_kinds_of_batches_to_count():
    rows = np.arange(20)  # 184,756 batches of ten different rows, with 101 different sums
    ways = np.zeros((11, 191), dtype=object)
    ways[0, 0] = 1
    for row in rows:
        ways[1:, row:] = ways[1:, row:] + ways[:-1, : 191 - row]
    sums = np.flatnonzero(ways[10])
    weights = (ways[10][sums] / math.comb(20, 10)).astype(float)
    assert enumerate_batches((1,) * 20, 10, None) is None
    drawn = toy_dpsgd(rows, 300_000, rng_of(2), batch=10, updates=2, rate=0.4, sigma=0.05)
    centres = np.add.outer(0.4 * 0.6 * sums / 10, 0.4 * sums / 10).ravel()
    check_mixture(drawn, centres, np.outer(weights, weights).ravel(), 0.4 * 0.05 * np.hypot(1, 0.6))


FAULTS = {"batch": 6, "rate": 0.2 * 1.05, "updates": 9, "sigma": 0.2 * 0.98}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault):
    faulty, law = toy_dpsgd(np.array(NEIGHBOUR), SIZE, rng_of(3), **{fault: FAULTS[fault]}), follow_updates(NEIGHBOUR)
    with pytest.raises(AssertionError):
        check_mixture(faulty, *law)


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


@pytest.mark.parametrize(("rows", "how"), SAMPLING)
def test_every_batch_is_drawn_as_often_as_it_should(rows, how):
    drawn = subsampled(np.array(rows), SIZE, rng_of(5), mechanism=encode, **how)
    assert drawn.shape == (SIZE,)
    check_codes(drawn, rows, how)


@pytest.mark.parametrize(("rows", "how"), SAMPLING)
def test_batches_that_are_drawn_one_by_one(rows, how, monkeypatch):
    """As with too many kinds of batches to count, in blocks, and as `each` draws them."""
    monkeypatch.setattr("hpcdp.mechanisms.subsampled.enumerate_batches", lambda *_: None)
    monkeypatch.setattr("hpcdp.mechanisms.subsampled._BLOCK", 70_001)
    check_codes(subsampled(np.array(rows), SIZE, rng_of(6), mechanism=encode, **how), rows, how)
    many = np.broadcast_to(np.array(rows), (20_000, len(rows)))
    check_codes(np.array(subsampled.each(many, rng_of(7), mechanism=encode, **how)), rows, how)


@pytest.mark.parametrize("how", [{"batch": 2}, {"rate": 0.5}])
def test_rows_with_columns(how, monkeypatch):
    rows = np.array([[1, 2], [1, 3], [1, 2]])
    text = ["12", "13", "12"]
    check_codes(subsampled(rows, SIZE, rng_of(8), mechanism=encode, **how), text, how)
    monkeypatch.setattr("hpcdp.mechanisms.subsampled.enumerate_batches", lambda *_: None)
    check_codes(subsampled(rows, SIZE, rng_of(9), mechanism=encode, **how), text, how)


def test_a_callable_that_returns_one_output_a_call():
    drawn = subsampled(np.array([1, 2, 3]), 20_000, rng_of(10), mechanism=one_at_a_time, batch=2)
    assert isinstance(drawn, list)
    check_codes(np.array(drawn), [1, 2, 3], {"batch": 2})


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize(
    ("rows", "how", "sigma"),
    [
        (NEIGHBOUR, {"batch": 5}, 1.0),
        (NEIGHBOUR, {"batch": 3}, 0.4),
        ([0.4, -1.0, 2.5, 0.4, 3.3], {"batch": 2}, 0.5),
        ([0.4, -1.0, 2.5, 0.4, 3.3], {"rate": 0.4}, 0.5),
    ],
)
def test_sums_of_batches_with_noise(rows, how, sigma, singly, monkeypatch):
    if singly:
        monkeypatch.setattr("hpcdp.mechanisms.subsampled.enumerate_batches", lambda *_: None)
    parameters = {"mechanism": "noisy_sum", "parameters": {"sigma": sigma}, **how}
    drawn = subsampled(np.array(rows), SIZE, rng_of(11), **parameters)
    law = batches_of(rows, **how)
    exact = np.array([sum(chosen) for chosen, _ in law]), np.array([weight for _, weight in law]), sigma
    check_mixture(drawn, *exact)
    if "batch" in how:
        more = subsampled(np.array(rows), SIZE, rng_of(12), **(parameters | {"batch": how["batch"] + 1}))
        with pytest.raises(AssertionError):
            check_mixture(more, *exact)


def test_outputs_of_batches_follow_no_order():
    drawn = subsampled(np.array([1, 2, 2]), SIZE, rng_of(13), mechanism=encode, batch=1) == 1
    pairs = 2 * drawn[:-1:2] + drawn[1::2]
    check_cells(count_codes(pairs, 4), np.array([4, 2, 2, 1]) / 9)


def test_vectors_strings_and_sequences():
    vectors = subsampled(np.arange(4.0), 1000, rng_of(14), mechanism="laplace", parameters={"scale": 1e-9}, batch=2)
    assert vectors.shape == (1000, 2)
    assert {tuple(v) for v in np.round(vectors).astype(int)} == set(combinations(range(4), 2))

    def spell(database, size, rng):
        return np.array(["x" * int(database.sum())] * size)

    texts = subsampled(np.array([1, 2, 9]), 50, rng_of(15), mechanism=spell, batch=1)
    assert set(texts.tolist()) == {"x", "xx", "x" * 9}
    mixed = subsampled(np.arange(3.0), 200, rng_of(16), mechanism="laplace", parameters={"scale": 1e-9}, batch=1)
    assert mixed.shape == (200,)

    def grow(database, size, rng):
        return [tuple(database.tolist())] * size

    lists = subsampled(np.array([1, 2]), 100, rng_of(17), mechanism=grow, rate=0.5)
    assert set(lists) == {(), (1,), (2,), (1, 2)}

    def either(database, size, rng):
        return np.full(size, 3) if database[0] else np.full(size, "a")

    either_way = subsampled(np.array([0, 1]), 100, rng_of(18), mechanism=either, batch=1)
    assert set(either_way) == {3, "a"}  # a list, whose mixture hpcdp then refuses


@pytest.mark.parametrize("returned", [np.zeros(8), 0.0, [1.0]])
def test_a_wrong_number_of_outputs(returned):
    with pytest.raises(MechanismError, match="when asked for 7"):
        subsampled(np.zeros(3), 7, rng_of(19), mechanism=lambda database, size, rng: returned, batch=1)  # noqa: ARG005


def test_calls_are_few_and_their_order_follows_from_the_generator():
    calls = []

    def watched(database, size, rng):
        calls.append((database.tolist(), size))
        return rng.normal(database.sum(), 1.0, size)

    one, two = (subsampled(np.array(NEIGHBOUR), 5000, rng_of(20), mechanism=watched, batch=5) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert calls[:2] == calls[2:]
    assert sorted(content for content, _ in calls[:2]) == [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]


def test_a_path_that_is_found_from_the_first_place_on_the_import_path(tmp_path, monkeypatch):
    (tmp_path / "own_sum.py").write_text(
        "def noisy(database, size, rng):\n    return database.sum() + rng.random(size)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    drawn = subsampled(np.arange(3), 100, rng_of(21), mechanism="own_sum:noisy", batch=2)
    assert set(np.floor(drawn)) == {1, 2, 3}
    with pytest.raises(
        StudyError, match=r"mechanism\.parameters\.parameters: .*; given: level; accepted by own_sum:noisy: none"
    ):
        subsampled(np.arange(3), 9, rng_of(21), mechanism="own_sum:noisy", parameters={"level": 1}, batch=2)


# The law of batches


@pytest.mark.parametrize(("rows", "how"), SAMPLING)
def test_kinds_of_batches(rows, how):
    _, lengths = find_runs(np.array(rows))
    kinds = enumerate_batches(lengths, how.get("batch"), how.get("rate"))
    law = {}
    for chosen, weight in batches_of(list(enumerate(np.repeat(range(len(lengths)), lengths))), **how):
        key = tuple(np.bincount([run for _, run in chosen], minlength=len(lengths)).tolist())
        law[key] = law.get(key, 0.0) + weight
    found = dict(zip(map(tuple, kinds.counts.tolist()), kinds.probabilities, strict=True))
    assert len(found) == kinds.probabilities.size
    assert {key for key, weight in law.items() if weight > 0} <= set(found)
    np.testing.assert_allclose([law[key] for key in found], kinds.probabilities, rtol=1e-13, atol=1e-300)


def test_large_databases_of_few_kinds():
    kinds = enumerate_batches((60_000, 1), 256, None)
    assert kinds.counts.tolist() == [[255, 1], [256, 0]]
    np.testing.assert_allclose(kinds.probabilities[0], 256 / 60_001, rtol=1e-9)
    assert enumerate_batches((1,) * 5000, 2, None) is None
    assert enumerate_batches((1,) * 13, None, 0.5) is None
    assert enumerate_batches((2,) * 1000, 2000, None).counts.shape == (1, 1000)


def twin_of_fill_places(uniforms, rows, sizes, places):
    deck, stream = list(range(rows)), iter(uniforms)
    for draw, size in enumerate(sizes):
        for top in range(size):
            other = top + math.floor(next(stream) * (rows - top))
            deck[top], deck[other] = deck[other], deck[top]
            places[draw, top] = deck[top]


def test_the_kernel_and_a_plain_twin():
    sizes = rng_of(22).integers(0, 8, 3000)
    uniforms = rng_of(23).random(int(sizes.sum()))
    uniforms[:20] = np.nextafter(1.0, 0.0)
    found, twin = np.full((3000, 7), -1), np.full((3000, 7), -1)
    fill_places(uniforms, 7, sizes, found)
    twin_of_fill_places(uniforms.tolist(), 7, sizes.tolist(), twin)
    np.testing.assert_array_equal(found, twin)


def test_every_selection_in_order_is_as_likely():
    places = np.empty((SIZE // 5, 3), np.int64)
    fill_places(rng_of(24).random(places.size), 5, np.full(places.shape[0], 3), places)
    law = [len({a, b, c}) == 3 for a, b, c in product(range(5), repeat=3)]
    check_cells(count_codes(places @ [25, 5, 1], 125), np.array(law) / 60)
    np.testing.assert_array_equal(
        join_outputs([(np.arange(2), 2), (np.array([2.5]), 1)], np.array([2, 0, 1])), [1, 2.5, 0]
    )


def test_toy_dpsgd_is_a_built_in():
    assert load_builtin("toy_dpsgd") is toy_dpsgd
    assert load_builtin("subsampled") is subsampled
