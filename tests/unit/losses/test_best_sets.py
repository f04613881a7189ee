"""The empirically best sets, the choice among candidates, and the one L̂ that is made of chosen sets."""

from __future__ import annotations

import numpy as np
import pytest

from hpcdp.losses.refined import CellTally, Fold, best_sets, choose, join_sets


def brute(gain: np.ndarray) -> float:
    """The largest sum of an interval or of two ends, by trying them all."""
    n = gain.size
    return max(max(gain[i:j].sum(), gain[:i].sum() + gain[j:].sum()) for i in range(n + 1) for j in range(i, n + 1))


@pytest.mark.parametrize("seed", range(20))
def test_best_sets_equal_brute_force(seed):
    rng = np.random.default_rng([611, seed])
    cells = int(rng.integers(1, 12))
    p, q = (rng.multinomial(200, np.full(cells, 1 / cells)).astype(float) for _ in range(2))
    thresholds = np.array([-1.0, -0.2, 0.0, 0.3, 2.0])
    for t, found in zip(thresholds, best_sets(p, q, thresholds), strict=True):
        gain = p - np.exp(t) * q
        assert gain[found].sum() == pytest.approx(brute(gain), abs=1e-9)
        assert np.count_nonzero(np.diff(found.astype(int))) <= 2


def test_the_default_stays_where_tallies_do_not_resolve():
    thresholds = np.array([0.0, 1.0])
    smooth = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], bool)
    best = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool)
    few = CellTally(np.array([5, 4, 3, 2]), np.array([2, 3, 2, 5]), 14, 12)
    candidates = {"smooth": smooth, "best": best}
    assert choose([Fold(candidates, few)], thresholds) == ["smooth", "smooth"]
    many = CellTally(10_000 * few.p, 10_000 * few.q, 140_000, 120_000)
    # at 0 the third cell gains 3/14 − 2/12 > 0; at 1 the second one loses 4/14 − e · 3/12 < 0
    assert choose([Fold(candidates, many)], thresholds) == ["best", "smooth"]
    parts = [Fold(candidates, many), Fold({"smooth": smooth, "best": smooth}, many)]  # half as many tell the same
    assert choose(parts, thresholds) == ["best", "smooth"]
    assert (many + few).n0 == 140_014


@pytest.mark.parametrize("seed", range(10))
def test_joined_sets_are_nested_and_keep_nested_ones(seed):
    rng = np.random.default_rng([612, seed])
    thresholds = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.5])
    losses = rng.normal(size=50)
    np.testing.assert_array_equal(
        join_sets(losses > thresholds[:, None], thresholds), 2 * np.searchsorted(thresholds, losses)
    )
    sets = rng.random((6, 50)) < 0.5
    classes = join_sets(sets, thresholds)
    above = classes > 2 * np.arange(6)[:, None] + 1
    assert (above[1:] <= above[:-1]).all()
    positive = thresholds >= 0
    assert (above[positive] >= sets[positive]).all()  # what is above a threshold >= 0 stays so
    assert not (above[~positive] & ~sets[~positive].any(axis=0) & ~sets[positive].any(axis=0)).any()
