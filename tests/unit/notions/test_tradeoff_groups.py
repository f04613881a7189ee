"""The radius of trade-off points whose sets are of several L̂: thresholds that were counted apart share its level."""

from __future__ import annotations

import numpy as np

from hpcdp.notions.bounds import hoeffding_radius
from hpcdp.notions.tradeoff import make_tradeoff
from hpcdp.planning.index import Index, Span
from hpcdp.store.stages import Stage


def test_groups_of_thresholds() -> None:
    stage = Stage("test", 100, 50, 1)

    def span(thresholds: int, chunks: int = 2) -> list[Span]:
        return [Span(0, chunks, 50 * chunks, np.zeros((2, 2 * thresholds + 1), np.int64))]

    index = Index()
    index.spans["m"] = {(0.0, 1.0): span(2), (-1.0,): span(1), (2.0,): span(1, chunks=1)}
    assert index.families("m", [0.0, 1.0], stage) == 1
    assert index.families("m", [-1.0, 1.0], stage) == 2
    assert index.families("m", [1.0, 2.0], stage) == 1, "what is not all counted has no point"
    assert index.families("other", [0.0], stage) == 1


def test_the_radius_holds_for_sets_that_are_not_nested() -> None:
    """Sets of 32 L̂ of their own at one n: the largest gap of all rates, 2,000 runs; w(γ) of one family fails."""
    rng, n, groups, runs = np.random.default_rng(1), 400, 32, 2000
    rates = rng.binomial(n, 0.5, (runs, groups, 2)) / n
    largest = np.abs(rates - 0.5).max(axis=(1, 2))
    counts = np.full((1, groups, 2), n // 2)
    radius = make_tradeoff(counts, np.array([[n, n]]), 0.5, groups).radius
    np.testing.assert_allclose(radius, hoeffding_radius(n, 0.5 / groups))
    assert (largest > radius.max()).mean() <= 0.5
    assert (largest > float(hoeffding_radius(n, 0.5))).mean() > 0.5
