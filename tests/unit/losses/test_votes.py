"""Votes are exact: those of brute force, ties included, whatever the search guesses; of discrete outputs by the stated rules."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from brute import votes
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import count_losses
from hpcdp.losses.distinct import learn_distinct
from hpcdp.losses.frequency import Frequency, FrequencyParameters
from hpcdp.losses.knn._ball_kernels import CHEBYSHEV, EUCLIDEAN, MANHATTAN, rank_box, rank_points
from hpcdp.losses.knn._tree import BallVotes, TreeSearch
from hpcdp.losses.knn.knn import Knn, KnnParameters, Learner, Strata, VotesModel, split
from hpcdp.losses.line import step
from hpcdp.losses.line.step import Lookup, StepCounter, StepVotes
from hpcdp.losses.parameters import choose_k
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.outputs import Schema, canonicalise

THRESHOLDS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
METRICS = ("euclidean", "manhattan", "chebyshev", "hamming")


def fit(a, b, draws=(None, None), **parameters):
    """The model of knn; draws of each database, where they are more than its outputs."""
    sides = (Side(x, n or x.shape[0]) for x, n in zip((a, b), draws, strict=True))
    return Knn(KnnParameters(**parameters)).fit(*sides)


def scores_of(votes, n0, n1):
    return log_ratios(votes[:, 0], votes[:, 1], n0, n1)


# Numbers

SCALARS = {
    "continuous": lambda x, _: x,
    "integers": lambda x, _: np.round(3 * x),
    "few integers": lambda x, rng: rng.integers(0, 3, x.size).astype(float),
    "tenths": lambda x, _: np.round(x, 1),
    "hundredths of thousands": lambda x, _: np.round(x, 2) * 1000,
    "tenths far away": lambda x, _: np.round(x, 1) + 2000,
    "clamped": lambda x, _: np.clip(x, -0.5, 0.5),
    "mixed": lambda x, rng: np.where(rng.random(x.size) < 0.5, rng.integers(0, 5, x.size), x),
}


def scalars(kind, size, shift, rng):
    return SCALARS[kind](rng.laplace(size=size) + shift, rng)


def near(x, rng):
    """Queries: the values, midpoints of pairs, the floats beside both, decimals, and others."""
    middles = (rng.choice(x, 60) + rng.choice(x, 60)) / 2
    exact = np.concatenate([x, middles])
    beside = [np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)]
    return np.concatenate([exact, *beside, np.round(exact, 1), rng.normal(size=9) * 9])


@pytest.mark.few
@pytest.mark.parametrize("kind", SCALARS)
def test_votes_of_numbers_equal_brute_force(kind):
    rng = np.random.default_rng(len(kind))
    for _ in range(12):
        sizes = rng.integers(1, 100, 2)
        a, b = scalars(kind, sizes[0], 0.0, rng), scalars(kind, sizes[1], 1.0, rng)
        x = near(np.concatenate([a, b]), rng)
        for k in (1, 3, int(rng.integers(1, 40))):
            got = np.column_stack(StepVotes.learn(np.sort(a), np.sort(b), k).votes(x))
            np.testing.assert_array_equal(got, votes(a, b, x, k))


@pytest.mark.parametrize("apart", [step._APART, 0], ids=["whole", "halves"])
@pytest.mark.parametrize("kind", SCALARS)
def test_merged_steps_count_like_the_scores(kind, apart, monkeypatch):
    monkeypatch.setattr(step, "_APART", apart)
    rng = np.random.default_rng(len(kind))
    a, b = scalars(kind, 300, 0.0, rng), scalars(kind, 200, 1.0, rng)
    model = fit(a, b, draws=(350, 200))
    x = near(np.concatenate([a, b]), rng)
    counter = model.counter(THRESHOLDS)
    wanted = count_losses(model.score(x), THRESHOLDS)
    np.testing.assert_array_equal(counter.count(x), wanted)
    np.testing.assert_array_equal(counter.count(x[:, None]), wanted)
    np.testing.assert_array_equal(Knn().restore(counter.state(), THRESHOLDS).count(x), wanted)


LADDER = np.cumsum(1.005 ** np.arange(5000)) * 1e-3
STARTS = {
    "none": lambda _: np.empty(0),
    "one": lambda _: np.array([0.5]),
    "zero": lambda _: np.array([0.0]),
    "few": lambda rng: rng.normal(size=42),
    "thousands": lambda rng: rng.normal(size=3000),
    "clusters": lambda rng: np.concatenate([x + 1e-7 * rng.normal(size=200) for x in (-1.0, 0.3, 2.0)]),
    "values": lambda _: np.concatenate([v := np.arange(-5.0, 5.0), np.nextafter(v, np.inf)]),
    "ladders": lambda _: np.concatenate([-LADDER, LADDER]),
    "gap": lambda rng: np.concatenate([rng.normal(size=500), 1e9 + rng.normal(size=500)]),
    "all floats": lambda _: np.concatenate([-(10.0 ** np.arange(-300, 308, 2.0)), 10.0 ** np.arange(-308, 308, 2.0)]),
    "beyond 16 bits": lambda rng: rng.normal(size=70_000),
}
"""Starts of a step function, of each kind of place where a table of equal cells may go wrong."""


@pytest.mark.few
@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("classes", [7, 300, 5000, 80_000])
def test_every_table_counts_like_a_search(kind, classes):
    rng = np.random.default_rng(len(kind))
    starts = np.concatenate([[-np.inf], np.unique(STARTS[kind](rng))])
    codes = (np.arange(starts.size) * 7919 % classes).astype(np.int32)  # of many classes a run has each at most once
    counter = StepCounter(Lookup.over(starts), codes, classes)
    on = rng.choice(np.append(starts[1:], 0.0), 2000)
    exact = np.concatenate([on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), [0.0, -1e308, 1e308]])
    size = (1 << 16) + 2 * starts.size
    laws = [
        rng.normal(size=size),
        50.0 + rng.normal(size=size),  # elsewhere than the table's cells
        np.full(size, on[0]),
        np.concatenate([exact, rng.standard_cauchy(size)]),
    ]
    for x in [*laws, laws[0], exact[:100]]:
        wanted = np.bincount(codes[np.searchsorted(starts, x, "right") - 1], minlength=classes)
        np.testing.assert_array_equal(counter.count(x), wanted)


# Vectors

VECTORS = {
    "continuous": lambda x, _: x,
    "integers": lambda x, _: np.round(2 * x),
    "tenths": lambda x, _: np.round(x, 1),
    "bits": lambda x, _: (x > 0).astype(float),
    "mixed": lambda x, rng: np.where(rng.random(x.shape) < 0.6, np.round(x), x),
    "clusters": lambda x, rng: x * 10.0 ** -rng.integers(0, 6, (len(x), 1)) + 10.0 * rng.integers(0, 4, (len(x), 1)),
    "heavy tails": lambda x, _: np.tan(np.pi * (0.5 + np.arctan(x) / np.pi - 0.5)) ** 3,
}
"""Density, ties and tails that are hard on a search that guesses."""


def vectors(kind, size, columns, shift, rng):
    x = rng.laplace(size=(size, columns))
    x[:, 0] += shift
    return VECTORS[kind](x, rng)


@pytest.mark.few
@pytest.mark.parametrize(
    "kind, metric",
    [
        pytest.param(kind, metric, marks=() if n % 4 == k % 4 else pytest.mark.slow)
        for k, kind in enumerate(VECTORS)
        for n, metric in enumerate(METRICS)
    ],
)
def test_votes_of_vectors_equal_brute_force(kind, metric):
    """Balls of one point, of some, and of all that there are."""
    rng = np.random.default_rng(len(kind))
    for columns, size in ((2, 150), (3, 900), (5, 9), (7, 600)):
        a, b = vectors(kind, size, columns, 0.0, rng), vectors(kind, size // 2, columns, 1.0, rng)
        x = np.concatenate([a[:60], b[:60], vectors(kind, 60, columns, 0.5, rng)])
        beside = [(a[:30] + a[-30:]) / 2, np.nextafter(x[:30], np.inf), np.full((1, columns), 1e6)]
        x = x if kind == "bits" else np.concatenate([x, *beside])  # between bits no output lies
        rows, codes = learn_distinct(np.concatenate([a, b]))
        c0, c1 = (np.bincount(part, minlength=rows.size) for part in (codes[:size], codes[size:]))
        for k, common in ((1, 1), (7, 7), (31, 31), (31, 9), (10 * size, 10 * size)):
            got = np.column_stack(BallVotes.learn(rows, c0, c1, k, metric, common).votes(x))
            np.testing.assert_array_equal(got, votes(a, b, x, k, metric, common))


@pytest.mark.parametrize("columns", [70, 130])
def test_hamming_of_many_columns(columns):
    rng = np.random.default_rng(columns)
    a, b = rng.integers(0, 5, (80, columns)) * 0.3, rng.integers(0, 5, (70, columns)) * 0.3
    x = np.concatenate([a[:20], np.where(rng.random((40, columns)) < 0.3, 0.5, a[:40])])
    model = fit(a, b, k=9, metric="hamming")
    wanted = votes(a, b, x, 9, "hamming")
    np.testing.assert_array_equal(model.score(x), scores_of(wanted, 80, 70))


@pytest.mark.parametrize("columns, edge", [(2, 50), (4, 9), (5, 4)])
def test_all_points_on_the_rim_vote(columns, edge):
    side = np.arange(-edge, edge + 1.0)
    cube = np.stack(np.meshgrid(*[side] * columns), axis=-1).reshape(-1, columns)
    rim = cube[np.abs(cube).max(axis=1) == edge]
    counts = np.ones(len(rim), np.int64)
    found = TreeSearch.over(rim, counts, 2 * counts, 3, "chebyshev").votes(np.zeros((70, columns)))
    assert [v.tolist() for v in found] == [[len(rim)] * 70, [2 * len(rim)] * 70]


def test_far_and_infinite_queries_have_votes():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    model = fit(a, b)
    assert np.isfinite(model.score(np.array([[1e300, -1e300], [np.inf, 0.0]]))).all()
    large = Knn().fit(Side(a * 1e200, 200), Side(b * 1e200, 200))
    np.testing.assert_array_equal(large.score(a * 1e200), fit(a, b).score(a))


@pytest.mark.slow
def test_votes_do_not_depend_on_company():
    rng = np.random.default_rng(2)
    for columns in (2, 5):
        p, q = rng.laplace(size=(2, 6000, columns))
        x = rng.laplace(size=(9000, columns))
        model = Knn().fit(Side(p, 6000), Side(q, 6000))
        some = rng.permutation(9000)[:500]
        np.testing.assert_array_equal(model.score(x)[some], model.score(x[some]))


FLOATS = st.floats(-1.0, 1.0, width=64)


@given(st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=1, max_size=20), st.tuples(FLOATS, FLOATS, FLOATS))
@settings(max_examples=100)
@pytest.mark.parametrize("code", [EUCLIDEAN, MANHATTAN, CHEBYSHEV])
def test_boxes_bound_the_computed_ranks(code, rows, query):
    """As rounded: a box that is left out for its bound holds no row that votes."""
    rows, query = np.array(rows), np.array(query)
    found = np.empty(len(rows))
    rank_points(query, np.ascontiguousarray(rows.T)[None], 0, code, found)
    near, far = rank_box(query, rows.min(axis=0), rows.max(axis=0), code)
    assert near <= found.min()
    assert found.max() <= far


def test_what_a_tree_refuses():
    one = np.ones(2, np.int64)
    with pytest.raises(ValueError, match="finite numbers; given: NaN or infinite"):
        TreeSearch.over(np.array([[0.0, 1.0], [np.inf, 0.0]]), one, one, 1, "euclidean")
    with pytest.raises(ValueError, match=r"below 2\^31; given: 4294967296 and 2"):
        TreeSearch.over(np.eye(2), one << 31, one, 1, "euclidean")
    with pytest.raises(ValueError, match="given: NaN"):
        TreeSearch.over(np.eye(2), one, one, 1, "euclidean").votes(np.array([[np.nan, 0.0]]))


# Units, strata and common rows


def shapes(rng, size, shift):
    value = rng.laplace(size=size) + shift
    yield "scalars", value
    yield "tenths", np.round(value, 1)
    yield "plane", np.column_stack([value, rng.normal(size=size)])
    yield "tenths of a plane", np.round(np.column_stack([value, rng.normal(size=size)]), 1)
    yield "index and value", np.column_stack([rng.integers(0, 3, size), value])
    yield "bits", (rng.random((size, 5)) < 0.3 + 0.1 * shift) * 1.0


@pytest.mark.parametrize("metric", METRICS)
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
    model = fit(a, b, draws=(300, 250), k=11)
    assert isinstance(model.source, Strata)
    x = np.concatenate([a[:50], b[:50]])
    x[::3, 1] += 0.25
    wanted = np.zeros((100, 2), np.int64)
    for i, query in enumerate(x):
        in_a, in_b = ((side[:, ::2] == query[::2]).all(axis=1) for side in (a, b))
        wanted[i] = votes(a[in_a, 1], b[in_b, 1], query[[1]], 11)[0]
    np.testing.assert_array_equal(model.score(x), scores_of(wanted, 300, 250))
    unseen = np.array([[3.0, 0.0, 1.0], [0.5, 0.0, 0.0]])
    np.testing.assert_array_equal(model.score(unseen), [0.0, 0.0])


def test_thin_strata_are_no_strata():
    rng = np.random.default_rng(6)
    a, b = (np.column_stack([rng.integers(0, 2, (500, 8)), rng.normal(size=500)]) for _ in range(2))
    model = fit(a, b)
    assert isinstance(model.source, BallVotes)


def test_one_hamming_column_pools_the_rare_values():
    a, b = np.array([0, 0, 0, 1, 2, 3]), np.array([0, 0, 1, 4, 5, 6])
    model = fit(a, b, k=5, metric="hamming")
    x = np.array([0, 1, 2, 6, 77])
    wanted = votes(a, b, x, 5, "hamming")
    np.testing.assert_array_equal(model.score(x), scores_of(wanted, 6, 6))


def test_empty_training_has_no_vote():
    empty, vectors_ = Side(np.empty(0), 10), Side(np.empty((0, 2)), 10)
    assert Knn().fit(empty, empty).score(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert Knn().fit(vectors_, vectors_).score(np.zeros((3, 2))).tolist() == [0.0, 0.0, 0.0]
    hamming = Knn(KnnParameters(metric="hamming"))
    assert hamming.fit(vectors_, vectors_).score(np.zeros((3, 2))).tolist() == [0.0, 0.0, 0.0]


def test_k_is_odd_and_about_the_root_of_the_training_points():
    """Halfway, at 100 points, it is the larger odd integer; ten roots are at most all points; a number is itself."""
    cases = {100: 11, 99: 9, 143: 11, 144: 13, 0: 1, 1: 1, 2: 1}
    assert {points: choose_k("sqrt", points) for points in cases} == cases
    cases = {50: 50, 400: 201, 1 << 20: 10241}
    assert {points: choose_k("10sqrt", points) for points in cases} == cases
    assert [choose_k(k, 100) for k in (8, 100)] == [8, 100]


def test_given_k_above_the_training_points_is_refused():
    with pytest.raises(ValueError, match=r"k = 101 .* 100 training points"):
        choose_k(101, 100)
    with pytest.raises(ValueError, match="k = 21"):
        Knn(KnnParameters(k=21)).fit(Side(np.zeros(10), 10), Side(np.zeros(10), 10))
    region = Side(np.zeros(3), 10)  # fewer points than draws: a region, where all vote
    assert Knn(KnnParameters(k=20)).fit(region, region).score(np.zeros(1)).tolist() == [0.0]


BYTES = Schema("bytes", None)
NEAR = np.array([-0.7, -0.1, 0.0, 0.1, 0.7])


def draw_sequences(size, shift, rng):
    """Frames of one number, of two, of integers in a nested list, without numbers, and rare ones."""
    out = []
    for frame, x, y in zip(
        rng.integers(0, 100, size).tolist(), rng.normal(size=size), rng.normal(size=size), strict=True
    ):
        if frame < 30:
            out.append(("a", x + shift))
        elif frame < 60:
            out.append((x + shift, None, y))
        elif frame < 80:
            out.append(([int(2 * x + 9 * shift)],))
        elif frame < 95:
            out.append(("b", "c" if x > shift else "d"))
        else:
            out.append((f"rare {frame} {int(9 * y)}", x))
    return canonicalise(out, size, BYTES)


def brute_votes(p, q, x, k, rare):
    """Votes by the rule, frame by frame; one number has k-balls with atoms of k, and so have two that are continuous."""
    parts = [[split(o) for o in side] for side in (p, q)]
    held = [Counter(frame for frame, _ in side) for side in parts]
    frames = set(held[0]) | set(held[1])
    common = {f for f in frames if held[0][f] + held[1][f] >= rare}
    rest = [sum(n for f, n in side.items() if f not in common) for side in held]
    out = []
    for frame, numbers in map(split, x):
        if frame not in common:
            out.append(rest)
        elif not numbers:
            out.append([side[frame] for side in held])
        else:
            a, b = (np.array([n for f, n in side if f == frame]).reshape(-1, len(numbers)) for side in parts)
            out.append(votes(a, b, np.array([numbers]), k)[0].tolist())
    return np.array(out)


@pytest.mark.parametrize("k", ["sqrt", 3, 60])
def test_votes_of_sequences_equal_brute_force(k):
    rng = np.random.default_rng(3)
    p, q, x = draw_sequences(250, 0.0, rng), draw_sequences(200, 0.5, rng), draw_sequences(300, 0.2, rng)
    model = Knn(KnnParameters(k=k)).fit(Side(p, 300), Side(q, 200))
    number = choose_k(k, 450)
    wanted = brute_votes(p, q, x, number, min(5, number))
    np.testing.assert_array_equal(np.column_stack(model.source.votes(x)), wanted)
    losses = log_ratios(*np.ascontiguousarray(wanted.T), 300, 200)
    np.testing.assert_array_equal(model.score(x), losses)


def test_strings_alone_are_frequencies():
    rng = np.random.default_rng(4)
    p, q = (canonicalise([("[1, 2]", "[x", "[1.0]", "yes")[i] for i in rng.integers(0, 4, 90)], 90) for _ in range(2))
    found = Knn().fit(Side(p, 90), Side(q, 90))
    wanted = Frequency(FrequencyParameters(rare=5)).fit(Side(p, 90), Side(q, 90))
    np.testing.assert_array_equal(found.score(p), wanted.score(p))
    assert found.counter(NEAR).state() is not None


@pytest.mark.parametrize(
    ("columns", "metric"), [(2, "hamming"), (9, "euclidean"), (9, "manhattan"), (9, "hamming"), (70, "euclidean")]
)
def test_votes_of_packed_bits(columns, metric):
    """They are those of brute force, and of the general way."""
    rng = np.random.default_rng(columns)
    p, q, x = (rng.random((size, columns)) < r for size, r in ((150, 0.1), (120, 0.25), (200, 0.3)))
    loss = Knn(KnnParameters(metric=metric))
    k = choose_k("sqrt", 270)
    model = loss.fit(Side(p, 150), Side(q, 120))
    found = model.score(x)
    general = VotesModel(Learner(k, metric).votes(p, q), 150, 120)
    np.testing.assert_array_equal(found, general.score(x))
    _, held = np.unique(np.concatenate([p, q]), axis=0, return_counts=True)
    common = k if 2 * held[held < min(20, k)].sum() > 270 else min(20, k)
    wanted = votes(p, q, x, k, metric="hamming", common=common)
    np.testing.assert_array_equal(found, log_ratios(*np.ascontiguousarray(wanted.T), 150, 120))
