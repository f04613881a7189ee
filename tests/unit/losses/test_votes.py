"""Votes are exact: equal to brute force, ties included; and to scikit-learn's where there are no ties."""

from __future__ import annotations

import numpy as np
import pytest
from brute import votes
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import count_losses
from hpcdp.losses.frequency.distinct import Rows
from hpcdp.losses.knn._steps import StepVotes
from hpcdp.losses.knn._strata import Strata, few_valued
from hpcdp.losses.knn._tree import BallVotes, TreeSearch
from hpcdp.losses.knn.knn import Knn, KnnParameters
from hpcdp.losses.knn.parameters import choose_k
from hpcdp.losses.line import step
from hpcdp.losses.line.lookup import Tables
from hpcdp.losses.line.step import Lookup, StepCounter, learn_votes
from hpcdp.losses.protocol import Side

THRESHOLDS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def scalars(kind, size, shift, rng):
    x = rng.laplace(size=size) + shift
    if kind == "integers":
        return np.round(3 * x)
    if kind == "few integers":
        return rng.integers(0, 3, size).astype(float)
    if kind == "tenths":
        return np.round(x, 1)
    if kind == "hundredths of thousands":
        return np.round(x, 2) * 1000
    if kind == "tenths far away":
        return np.round(x, 1) + 2000
    if kind == "clamped":
        return np.clip(x, -0.5, 0.5)
    if kind == "mixed":
        return np.where(rng.random(size) < 0.5, rng.integers(0, 5, size), x)
    return x


SCALARS = [
    "continuous",
    "integers",
    "few integers",
    "tenths",
    "hundredths of thousands",
    "tenths far away",
    "clamped",
    "mixed",
]


def near(x, rng):
    """Queries: the values, midpoints of pairs, the floats beside both, decimals, and others."""
    middles = (rng.choice(x, 60) + rng.choice(x, 60)) / 2
    exact = np.concatenate([x, middles])
    return np.concatenate(
        [exact, np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf), np.round(exact, 1), rng.normal(size=9) * 9]
    )


@pytest.mark.parametrize("kind", SCALARS)
def test_step_equals_brute_force(kind):
    rng = np.random.default_rng(SCALARS.index(kind))
    for _ in range(12):
        sizes = rng.integers(1, 100, 2)
        a, b = scalars(kind, sizes[0], 0.0, rng), scalars(kind, sizes[1], 1.0, rng)
        x = near(np.concatenate([a, b]), rng)
        for k in (1, 3, int(rng.integers(1, 40))):
            got = np.column_stack(StepVotes.learn(np.sort(a), np.sort(b), k).votes(x))
            np.testing.assert_array_equal(got, votes(a, b, x, k))


@pytest.mark.parametrize("kind", SCALARS)
def test_merged_steps_count_like_the_scores(kind):
    rng = np.random.default_rng(SCALARS.index(kind))
    a, b = scalars(kind, 300, 0.0, rng), scalars(kind, 200, 1.0, rng)
    model = Knn().fit(Side(a, 350), Side(b, 200))
    x = near(np.concatenate([a, b]), rng)
    counter = model.counter(THRESHOLDS)
    wanted = count_losses(model.score(x), THRESHOLDS)
    np.testing.assert_array_equal(counter.count(x), wanted)
    np.testing.assert_array_equal(counter.count(x[:, None]), wanted)
    np.testing.assert_array_equal(Knn().restore(counter.state(), THRESHOLDS).count(x), wanted)


# Farther from two values than 2^53 times their gap, rounded distances tie where true ones do not. A step function knows
# the order of values on one side of the query and tells them apart even then. So no value here is that far away.
VALUES = st.one_of(
    st.integers(-4, 4).map(float),
    st.integers(-40, 40).map(lambda i: i / 10),
    st.integers(-(2**30), 2**30).map(lambda i: i / 2**20),
)
SAMPLES = st.lists(VALUES, min_size=1, max_size=25).map(np.array)


@given(a=SAMPLES, b=SAMPLES, x=SAMPLES, k=st.integers(1, 12))
@settings(max_examples=200)
def test_step_equals_brute_force_on_any_floats(a, b, x, k):
    x = np.concatenate([x, a, b, a.mean(keepdims=True)])
    found = learn_votes(np.sort(a), np.sort(b), k, a.size, b.size)
    runs = Lookup.over(found.starts).runs(x)
    np.testing.assert_array_equal(np.column_stack([found.v0[runs], found.v1[runs]]), votes(a, b, x, k))
    wanted = count_losses(found.losses()[runs], THRESHOLDS)
    for fewest in (1, step._APART):  # in two halves, and whole
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(step, "_APART", fewest)
            merged = learn_votes(np.sort(a), np.sort(b), k, a.size, b.size, THRESHOLDS)
        np.testing.assert_array_equal(StepCounter.of(merged, THRESHOLDS).count(x), wanted)


@pytest.mark.parametrize("unit", [1.0, 5e-324], ids=["apart", "next to each other"])
@pytest.mark.parametrize("k", [2, 3, 7, 60])
def test_a_sweep_in_halves_is_the_whole_one(unit, k, monkeypatch):
    rng = np.random.default_rng(k)
    for size in (2 * k, 2 * k + 1, 151, 1000):
        values = unit * rng.permutation(3 * size)[:size]
        a, b = np.sort(values[: size // 3]), np.sort(values[size // 3 :])
        monkeypatch.setattr(step, "_APART", size + 1)
        whole = learn_votes(a, b, k, a.size, b.size, THRESHOLDS)
        monkeypatch.setattr(step, "_APART", 1)
        halves = learn_votes(a, b, k, a.size, b.size, THRESHOLDS)
        for one, other in zip((whole.starts, whole.v0, whole.v1), (halves.starts, halves.v0, halves.v1), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [(1 << 18) - 1, 1 << 18, 300_001])
def test_many_outputs_are_counted_where_they_lie(size):
    rng = np.random.default_rng(size)
    votes = Knn(KnnParameters(k=401)).fit(
        *(Side(x, 10**5) for x in (rng.normal(size=10**5), 1 + rng.normal(size=10**5)))
    )
    thresholds = np.linspace(-3.0, 3.0, 1001)
    counter = votes.counter(thresholds)
    assert counter.lookup.starts.size > 1 << 14  # a table that no cache of one core holds
    x = np.concatenate([rng.standard_cauchy(size - 4), [-1e308, 1e308, -0.0, 0.0]])
    np.testing.assert_array_equal(counter.count(x), count_losses(votes.score(x), thresholds))


def _starts(kind, rng):
    """Starts of a step function, of each kind of place where a table of equal cells may go wrong."""
    ladder = np.cumsum(1.005 ** np.arange(5000)) * 1e-3
    inner = {
        "none": np.empty(0),
        "one": np.array([0.5]),
        "zero": np.array([0.0]),
        "few": rng.normal(size=42),
        "thousands": rng.normal(size=3000),
        "clusters": np.concatenate([x + 1e-7 * rng.normal(size=200) for x in (-1.0, 0.3, 2.0)]),
        "values": np.concatenate([v := np.arange(-5.0, 5.0), np.nextafter(v, np.inf)]),
        "ladders": np.concatenate([-ladder, ladder]),
        "gap": np.concatenate([rng.normal(size=500), 1e9 + rng.normal(size=500)]),
        "all floats": np.concatenate([-(10.0 ** np.arange(-300, 308, 2.0)), 10.0 ** np.arange(-308, 308, 2.0)]),
        "beyond 16 bits": rng.normal(size=70_000),
    }[kind]
    return np.concatenate([[-np.inf], np.unique(inner)])


STARTS = [
    "none",
    "one",
    "zero",
    "few",
    "thousands",
    "clusters",
    "values",
    "ladders",
    "gap",
    "all floats",
    "beyond 16 bits",
]


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("classes", [7, 300, 5000, 80_000])
def test_every_table_counts_like_a_search(kind, classes):
    rng = np.random.default_rng(STARTS.index(kind))
    starts = _starts(kind, rng)
    codes = (np.arange(starts.size) * 7919 % classes).astype(np.int32)  # of many classes a run has each at most once
    counter = StepCounter(Lookup.over(starts), codes, classes)
    on = rng.choice(starts[1:], 2000) if starts.size > 1 else np.zeros(1)
    exact = np.concatenate([on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), [0.0, -1e308, 1e308]])
    size = (1 << 16) + 2 * starts.size
    laws = [
        rng.normal(size=size),
        50.0 + rng.normal(size=size),  # elsewhere than the table's cells
        np.full(size, on[0]),
        np.concatenate([exact, rng.standard_cauchy(size)]),
    ]
    for x in [*laws, laws[0]]:
        wanted = np.bincount(codes[np.searchsorted(starts, x, "right") - 1], minlength=classes)
        np.testing.assert_array_equal(counter.count(x), wanted)
    few = exact[:100]
    wanted = np.bincount(codes[np.searchsorted(starts, few, "right") - 1], minlength=classes)
    np.testing.assert_array_equal(counter.count(few), wanted)


def test_tables_lie_where_the_outputs_do():
    rng = np.random.default_rng(0)
    starts = np.concatenate([[-np.inf], np.linspace(-1e4, 1e4, 20_001)])
    tables = Tables(Lookup.over(starts), np.arange(starts.size, dtype=np.int32), starts.size)
    d, d_prime = rng.normal(size=1 << 17), 500 + rng.normal(size=1 << 17)
    tables.count(d)
    first = tables.made
    tables.count(d)
    assert tables.made is first
    tables.count(d_prime)  # in the cell of all that is beyond
    assert tables.made is None
    tables.count(d_prime)
    assert tables.made is not None
    assert tables.made[1] < 0.01


def test_small_counts_make_no_table():
    tables = Tables(Lookup.over(np.array([-np.inf, 0.0])), np.arange(2, dtype=np.int32), 2)
    assert not tables.pay(1 << 12)
    assert tables.pay(1 << 16)
    assert not tables.pay(100)


def vectors(kind, size, columns, shift, rng):
    x = rng.laplace(size=(size, columns))
    x[:, 0] += shift
    if kind == "integers":
        return np.round(2 * x)
    if kind == "tenths":
        return np.round(x, 1)
    if kind == "bits":
        return (x > 0).astype(float)
    if kind == "mixed":
        return np.where(rng.random((size, columns)) < 0.6, np.round(x), x)
    return x


VECTORS = ["continuous", "integers", "tenths", "bits", "mixed"]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "hamming"])
@pytest.mark.parametrize("kind", VECTORS)
def test_balls_equal_brute_force(kind, metric):
    rng = np.random.default_rng(VECTORS.index(kind))
    for columns in (2, 3):
        a, b = vectors(kind, 150, columns, 0.0, rng), vectors(kind, 110, columns, 1.0, rng)
        x = np.concatenate([a[:60], b[:60], vectors(kind, 60, columns, 0.5, rng)])
        x = np.concatenate([x, (a[:60] + b[:60]) / 2, np.nextafter(x[:30], np.inf)])
        if kind == "bits":
            x = x[np.isin(x, [0.0, 1.0]).all(axis=1)]
        for k, common in ((1, 1), (7, 7), (31, 31), (31, 9), (400, 400)):
            rows, codes = Rows.learn(np.concatenate([a, b]))
            c0, c1 = (np.bincount(part, minlength=rows.size) for part in (codes[:150], codes[150:]))
            got = np.column_stack(BallVotes.learn(rows, c0, c1, k, metric, common).votes(x))
            np.testing.assert_array_equal(got, votes(a, b, x, k, metric, common))


@pytest.mark.parametrize("columns", [70, 130])
def test_hamming_of_many_columns(columns):
    rng = np.random.default_rng(columns)
    a, b = rng.integers(0, 5, (80, columns)) * 0.3, rng.integers(0, 5, (70, columns)) * 0.3
    x = np.concatenate([a[:20], np.where(rng.random((40, columns)) < 0.3, 0.5, a[:40])])
    model = Knn(KnnParameters(k=9, metric="hamming")).fit(Side(a, 80), Side(b, 70))
    wanted = votes(a, b, x, 9, "hamming")
    np.testing.assert_array_equal(model.score(x), log_ratios(wanted[:, 0], wanted[:, 1], 80, 70))


def test_all_points_on_the_rim_vote():
    side = np.arange(-50.0, 51.0)
    rim = np.array([(x, y) for x in side for y in side if max(abs(x), abs(y)) == 50])
    counts = np.ones(len(rim), np.int64)
    found = TreeSearch.over(rim, counts, 2 * counts, 3, "chebyshev").votes(np.zeros((1, 2)))
    assert [int(v[0]) for v in found] == [len(rim), 2 * len(rim)]


def test_far_and_infinite_queries_have_votes():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    model = Knn().fit(Side(a, 200), Side(b, 200))
    assert np.isfinite(model.score(np.array([[1e300, -1e300], [np.inf, 0.0]]))).all()
    large = Knn().fit(Side(a * 1e200, 200), Side(b * 1e200, 200))
    np.testing.assert_array_equal(large.score(a * 1e200), Knn().fit(Side(a, 200), Side(b, 200)).score(a))


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_votes_equal_scikit_learn_without_ties(columns):
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(columns)
    size = 1500
    a, b = rng.normal(size=(size, columns)), rng.normal(size=(size, columns)) + 0.7
    x = rng.normal(size=(size, columns)) * 2
    k = choose_k("sqrt", 2 * size)
    reference = KNeighborsClassifier(n_neighbors=k).fit(np.concatenate([a, b]), np.repeat([0, 1], size))
    wanted = np.rint(reference.predict_proba(x) * k).astype(np.int64)
    model = Knn().fit(Side(a, size), Side(b, size))
    source = StepVotes.learn(np.sort(a[:, 0]), np.sort(b[:, 0]), k) if columns == 1 else model.source
    np.testing.assert_array_equal(np.column_stack(source.votes(x)), wanted)
    np.testing.assert_array_equal(model.score(x), log_ratios(wanted[:, 0], wanted[:, 1], size, size))


def shapes(rng, size, shift):
    value = rng.laplace(size=size) + shift
    yield "scalars", value
    yield "tenths", np.round(value, 1)
    yield "plane", np.column_stack([value, rng.normal(size=size)])
    yield "tenths of a plane", np.round(np.column_stack([value, rng.normal(size=size)]), 1)
    yield "index and value", np.column_stack([rng.integers(0, 3, size), value])
    yield "bits", (rng.random((size, 5)) < 0.3 + 0.1 * shift) * 1.0


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "hamming"])
@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20, -1.0])
def test_scale_changes_no_count(factor, metric):
    rng = np.random.default_rng(5)
    loss = Knn(KnnParameters(metric=metric))
    for (name, a), (_, b), (_, x) in zip(
        shapes(rng, 400, 0.0), shapes(rng, 400, 1.0), shapes(rng, 800, 0.5), strict=True
    ):
        plain = loss.fit(Side(a, 400), Side(b, 400))
        scaled = loss.fit(Side(a * factor, 400), Side(b * factor, 400))
        np.testing.assert_array_equal(scaled.score(x * factor), plain.score(x), err_msg=name)
        np.testing.assert_array_equal(
            scaled.counter(THRESHOLDS).count(x * factor), plain.counter(THRESHOLDS).count(x), err_msg=name
        )


def test_strata_vote_on_their_own():
    rng = np.random.default_rng(3)
    a = np.column_stack([rng.integers(0, 3, 300), rng.laplace(size=300), rng.random(300) < 0.3])
    b = np.column_stack([rng.integers(0, 3, 200), rng.laplace(size=200) + 1, rng.random(200) < 0.5])
    model = Knn(KnnParameters(k=11)).fit(Side(a, 300), Side(b, 250))
    assert isinstance(model.source, Strata)
    x = np.concatenate([a[:50], b[:50]])
    x[::3, 1] += 0.25
    wanted = np.zeros((100, 2), np.int64)
    for i, query in enumerate(x):
        in_a, in_b = ((side[:, ::2] == query[::2]).all(axis=1) for side in (a, b))
        wanted[i] = votes(a[in_a, 1], b[in_b, 1], query[[1]], 11)[0]
    np.testing.assert_array_equal(model.score(x), log_ratios(wanted[:, 0], wanted[:, 1], 300, 250))
    unseen = np.array([[3.0, 0.0, 1.0], [0.5, 0.0, 0.0]])
    np.testing.assert_array_equal(model.score(unseen), [0.0, 0.0])


def test_two_columns_inside_strata():
    rng = np.random.default_rng(4)
    a, b = (np.column_stack([rng.integers(0, 2, 200), rng.normal(size=(200, 2)) + s]) for s in (0.0, 1.0))
    model = Knn(KnnParameters(k=15)).fit(Side(a, 200), Side(b, 200))
    x = np.concatenate([a[:40], b[:40] + 0.1 * np.array([0.0, 1.0, 1.0])])
    for index in (0.0, 1.0):
        here = x[:, 0] == index
        wanted = votes(a[a[:, 0] == index, 1:], b[b[:, 0] == index, 1:], x[here, 1:], 15)
        np.testing.assert_array_equal(model.score(x[here]), log_ratios(wanted[:, 0], wanted[:, 1], 200, 200))


def test_thin_strata_are_no_strata():
    rng = np.random.default_rng(6)
    a, b = (np.column_stack([rng.integers(0, 2, (500, 8)), rng.normal(size=500)]) for _ in range(2))
    model = Knn().fit(Side(a, 500), Side(b, 500))
    assert isinstance(model.source, BallVotes)


def test_which_columns_have_few_values():
    rng = np.random.default_rng(7)
    size = 1 << 16
    columns = {
        "bits": (rng.random(size) < 0.3, True),
        "index": (rng.integers(0, 50, size), True),
        "constant": (np.full(size, 3.5), True),
        "lattice": (rng.geometric(0.2, size) - rng.geometric(0.2, size), True),
        "hundredths": (np.round(rng.laplace(size=size), 2), False),
        "continuous": (rng.laplace(size=size), False),
        "clamped": (np.clip(rng.laplace(size=size), -1, 1), False),
        "mostly zero": (np.where(rng.random(size) < 0.8, 0.0, rng.laplace(size=size)), False),
    }
    rows = np.column_stack([column for column, _ in columns.values()])
    for k in (5, choose_k("sqrt", size)):
        assert few_valued(rows, k).tolist() == [few for _, few in columns.values()]


def test_common_rows_of_few_valued_columns_have_their_frequencies():
    rng = np.random.default_rng(8)
    size = 4000
    a, b = rng.geometric(0.3, (size, 2)), rng.geometric(0.4, (size, 2))
    model = Knn().fit(Side(a, size), Side(b, size))
    both = np.concatenate([a, b])
    for row in np.unique(both, axis=0):
        c0, c1 = ((side == row).all(axis=1).sum() for side in (a, b))
        if c0 + c1 >= 20:
            assert model.score(row[None]) == log_ratios(np.array([c0]), np.array([c1]), size, size)
    wanted = votes(a, b, both[:100], choose_k("sqrt", 2 * size), common=20)
    np.testing.assert_array_equal(model.score(both[:100]), log_ratios(wanted[:, 0], wanted[:, 1], size, size))


def test_one_column_is_a_scalar():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 300))
    flat, column = Knn().fit(Side(a, 300), Side(b, 300)), Knn().fit(Side(a[:, None], 300), Side(b[:, None], 300))
    np.testing.assert_array_equal(flat.score(a), column.score(a[:, None]))


def test_one_hamming_column_pools_the_rare_values():
    a, b = np.array([0, 0, 0, 1, 2, 3]), np.array([0, 0, 1, 4, 5, 6])
    model = Knn(KnnParameters(k=5, metric="hamming")).fit(Side(a, 6), Side(b, 6))
    x = np.array([0, 1, 2, 6, 77])
    wanted = votes(a, b, x, 5, "hamming")
    np.testing.assert_array_equal(model.score(x), log_ratios(wanted[:, 0], wanted[:, 1], 6, 6))


def test_empty_training_has_no_vote():
    empty, vectors_ = Side(np.empty(0), 10), Side(np.empty((0, 2)), 10)
    assert Knn().fit(empty, empty).score(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert Knn().fit(vectors_, vectors_).score(np.zeros((3, 2))).tolist() == [0.0, 0.0, 0.0]
    hamming = Knn(KnnParameters(metric="hamming"))
    assert hamming.fit(vectors_, vectors_).score(np.zeros((3, 2))).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "rule, points, k",
    [
        ("sqrt", 100, 11),  # √points is even, halfway: the larger odd integer
        ("sqrt", 99, 9),
        ("sqrt", 143, 11),
        ("sqrt", 144, 13),
        ("sqrt", 0, 1),
        ("sqrt", 1, 1),
        ("sqrt", 2, 1),
        ("10sqrt", 50, 50),  # all of them
        ("10sqrt", 400, 201),
        ("10sqrt", 1 << 20, 10241),
        (8, 100, 8),
        (100, 100, 100),
    ],
)
def test_k(rule, points, k):
    assert choose_k(rule, points) == k


def test_given_k_above_the_training_points_is_refused():
    with pytest.raises(ValueError, match=r"k = 101 .* 100 training points"):
        choose_k(101, 100)
    with pytest.raises(ValueError, match="k = 21"):
        Knn(KnnParameters(k=21)).fit(Side(np.zeros(10), 10), Side(np.zeros(10), 10))
    region = Side(np.zeros(3), 10)  # fewer points than draws: a region, where all vote
    assert Knn(KnnParameters(k=20)).fit(region, region).score(np.zeros(1)).tolist() == [0.0]
