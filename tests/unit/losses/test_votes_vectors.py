"""Votes of vectors are those of a brute-force closed ball, whatever the search guesses, and with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcdp.losses.knn import _tree
from hpcdp.losses.knn._kdtree import KdTree
from hpcdp.losses.knn._rank_kernels import CHEBYSHEV, EUCLIDEAN, MANHATTAN, near_queries, rank_boxes, rank_points
from hpcdp.losses.knn._selection_kernels import bracket
from hpcdp.losses.knn._tree import TreeSearch
from hpcdp.losses.knn.knn import Knn, KnnParameters
from hpcdp.losses.knn.parameters import choose_k
from hpcdp.losses.protocol import Side

METRICS = {"euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "chebyshev": CHEBYSHEV}


def ranks(rows, query, metric):
    """What distances are compared by, added in the order of the columns."""
    gaps = np.abs(rows - query)
    parts = gaps * gaps if metric == "euclidean" else gaps
    total = parts[:, 0].copy()
    for c in range(1, rows.shape[1]):
        total = np.maximum(total, parts[:, c]) if metric == "chebyshev" else total + parts[:, c]
    return total


def brute(rows, c0, c1, queries, k, metric):
    """Votes (queries, 2) of closed balls of at least k points, or of all where there are fewer."""
    out = np.zeros((queries.shape[0], 2), np.int64)
    for i, query in enumerate(queries):
        rank = ranks(rows, query, metric)
        distance = np.sqrt(rank) if metric == "euclidean" else rank
        order = np.argsort(distance, kind="stable")
        need = min(k, int((c0 + c1).sum()))
        radius = distance[order[np.searchsorted(np.cumsum((c0 + c1)[order]), need)]]
        out[i] = c0[distance <= radius].sum(), c1[distance <= radius].sum()
    return out


def scatter(kind, size, columns, rng):
    """Rows whose density, ties or tails are hard on a search that guesses."""
    x = rng.normal(size=(size, columns))
    if kind == "tenths":
        return x.round(1)
    if kind == "lattice":
        return (2 * x).round()
    if kind == "clusters":  # of very different size
        return x * 10.0 ** -rng.integers(0, 6, (size, 1)) + 10.0 * rng.integers(0, 4, (size, 1))
    if kind == "heavy tails":
        return rng.standard_cauchy((size, columns)) ** 3
    return x


@pytest.fixture(params=["in turn", "in groups"])
def way(request, monkeypatch):
    """Both ways of searching, whatever the number of columns."""
    monkeypatch.setattr(_tree, "_GROUPED", 99 if request.param == "in turn" else 1)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["smooth", "tenths", "lattice", "clusters", "heavy tails"])
def test_votes_equal_brute_force(kind, metric):
    rng = np.random.default_rng(1)
    for columns in (1, 2, 3, 7):
        for size in (1, 9, 1500):
            rows = np.unique(scatter(kind, size, columns, rng), axis=0)
            c0, c1 = rng.integers(0, 3, rows.shape[0]), rng.integers(1, 3, rows.shape[0])
            x = np.concatenate([rows[rng.integers(0, rows.shape[0], 25)], 3 * rng.normal(size=(25, columns))])
            x = np.concatenate([x, scatter(kind, 25, columns, rng), np.full((1, columns), 1e6)])
            for k in (1, int(rng.integers(2, 60)), size + 1, 10 * size):
                found = TreeSearch.over(rows, c0, c1, k, metric)
                scale = 2.0**found.exponent
                wanted = brute(rows * scale, c0, c1, x * scale, k, metric)
                np.testing.assert_array_equal(np.column_stack(found.votes(x)), wanted)


@pytest.mark.usefixtures("way")
def test_more_points_on_the_rim_than_a_group_has_room_for():
    side = np.arange(-9.0, 10.0)
    cube = np.stack(np.meshgrid(side, side, side, side), axis=-1).reshape(-1, 4)
    rim = cube[np.abs(cube).max(axis=1) == 9]
    count = np.ones(rim.shape[0], np.int64)
    found = TreeSearch.over(rim, count, 0 * count, 3, "chebyshev").votes(np.zeros((70, 4)))
    assert found[0].tolist() == [rim.shape[0]] * 70


def test_votes_do_not_depend_on_threads_nor_on_company():
    rng = np.random.default_rng(2)
    for columns in (2, 5):
        p, q = rng.laplace(size=(2, 6000, columns))
        x = rng.laplace(size=(9000, columns))
        scores = [Knn(threads=threads).fit(Side(p, 6000), Side(q, 6000)).score(x) for threads in (1, 2, 3)]
        np.testing.assert_array_equal(scores[0], scores[1])
        np.testing.assert_array_equal(scores[0], scores[2])
        some = rng.permutation(9000)[:500]
        alone = Knn(threads=1).fit(Side(p, 6000), Side(q, 6000)).score(x[some])
        np.testing.assert_array_equal(scores[0][some], alone)


def test_threads_come_from_the_environment(monkeypatch):
    p, q = np.random.default_rng(3).normal(size=(2, 300, 2))

    def threads():
        return Knn().fit(Side(p, 300), Side(q, 300)).source.search.threads

    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    assert threads() == 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    assert threads() == 4


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("columns", [2, 5, 10])
def test_votes_equal_scikit_learn_without_ties(columns, metric):
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(columns)
    p, q = rng.normal(size=(2, 4000, columns))
    q[:, 0] += 1.0
    x = rng.normal(size=(1000, columns)) * 1.5
    k = choose_k("sqrt", 8000)
    scikit = KNeighborsClassifier(n_neighbors=k, metric=metric).fit(np.concatenate([p, q]), np.repeat([0, 1], 4000))
    wanted = np.rint(scikit.predict_proba(x) * k)
    model = Knn(KnnParameters(metric=metric)).fit(Side(p, 4000), Side(q, 4000))
    np.testing.assert_array_equal(np.column_stack(model.source.votes(x)), wanted)


FLOATS = st.floats(-1.0, 1.0, width=64)


@given(st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=1, max_size=20), st.tuples(FLOATS, FLOATS, FLOATS))
@settings(max_examples=100)
@pytest.mark.parametrize("metric", METRICS)
def test_boxes_bound_the_computed_ranks(metric, rows, query):
    rows, query = np.array(rows), np.array(query)
    code = METRICS[metric]
    block, found = np.ascontiguousarray(rows.T)[None], np.empty(len(rows))
    rank_points(query, block, 0, code, found)
    np.testing.assert_array_equal(found, ranks(rows, query, metric))
    low, high = rows.min(axis=0), rows.max(axis=0)
    near, far, other = np.empty(1), np.empty(1), np.empty(1)
    rank_boxes(query, np.stack([low, high])[:, :, None].copy(), 1, code, near, far)
    near_queries(query[:, None].copy(), 1, low, high, code, other)
    assert near[0] <= found.min()
    assert found.max() <= far[0]
    assert other[0] == near[0]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=120),
    st.integers(1, 60),
    st.integers(-1, 30),
    st.integers(0, 30),
)
def test_the_kth_rank_in_a_window(points, need, low, width):
    values, c0, c1 = np.array(points).T
    c1 = np.where(c0 + c1 == 0, 1, c1)
    order = np.argsort(values, kind="stable")
    total = np.cumsum((c0 + c1)[order])
    high = low + width
    rim, weights = values.astype(float), (c0 << 32) + c1
    few, few_weights = np.empty(rim.size), np.empty(rim.size, np.int64)
    below, above, rank, end = bracket(
        rim, weights, rim.size, float(low), float(high), need, MANHATTAN, few, few_weights
    )
    assert below == (c0 + c1)[values <= low].sum()
    assert above == (c0 + c1)[values <= high].sum()
    kth = values[order[np.searchsorted(total, need)]] if need <= total[-1] else -1
    assert rank == end == (kth if low < kth <= high else -1)


def test_a_tree_holds_all_points_in_boxes():
    rng = np.random.default_rng(4)
    points = rng.normal(size=(1000, 3)).round(1)
    c0, c1 = rng.integers(0, 5, (2, 1000))
    tree = KdTree.over(points, c0, c1, 16)
    leaves = tree.column.size
    inside = np.isfinite(tree.blocks[:, 0])
    assert inside.sum() == 1000
    assert inside.sum(axis=1).max() <= 16
    held = np.concatenate([tree.blocks[leaf][:, inside[leaf]].T for leaf in range(leaves)])
    np.testing.assert_array_equal(held[np.lexsort(held.T)], points[np.lexsort(points.T)])
    assert tree.held[1] == (int(c0.sum()) << 32) + int(c1.sum())
    for node in range(1, leaves):
        assert tree.held[node] == tree.held[2 * node] + tree.held[2 * node + 1]
    for leaf in range(leaves):
        rows = tree.blocks[leaf][:, inside[leaf]]
        np.testing.assert_array_equal(tree.low[leaves + leaf], rows.min(axis=1))
        np.testing.assert_array_equal(tree.high[leaves + leaf], rows.max(axis=1))
    assert tree.stands.sum() == (c0 + c1).sum()


def test_what_a_tree_refuses():
    one = np.ones(2, np.int64)
    with pytest.raises(ValueError, match="finite numbers; given: NaN or infinite"):
        TreeSearch.over(np.array([[0.0, 1.0], [np.inf, 0.0]]), one, one, 1, "euclidean")
    with pytest.raises(ValueError, match=r"below 2\^31; given: 4294967296 and 2"):
        TreeSearch.over(np.eye(2), one << 31, one, 1, "euclidean")
    with pytest.raises(ValueError, match="given: NaN"):
        TreeSearch.over(np.eye(2), one, one, 1, "euclidean").votes(np.array([[np.nan, 0.0]]))
