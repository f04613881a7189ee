"""The sequential test by betting: fair under a claim, exactly; its lines and state; and faults that must show."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from math import inf, log

import numpy as np
import pytest

from benchmarks.betting import learner, normals
from hpcdp.analytic import ApproximateDP, Discrete, GaussianShift, LaplaceShift
from hpcdp.notions.betting import (
    Rules,
    Wealth,
    average,
    blocks,
    is_refuted,
    place_bet,
    play,
    practise,
    settle,
)
from hpcdp.notions.box import Lines, lines_from_delta, lines_of

KNN = learner("knn")


# What a bet is worth


def exact_pair(rng, outcomes):
    laws = rng.integers(1, 20, size=(2, outcomes))
    return [[Fraction(int(n), int(law.sum())) for n in law] for law in laws]


def own_lines(p, q, etas):
    """The lines that touch the pair's own trade-off curve, δ = Σ max(0, q − η p), at exact slopes."""
    deltas = [sum(max(Fraction(0), b - Fraction(eta) * a) for a, b in zip(p, q, strict=True)) for eta in etas]
    return Lines(np.array(etas), np.array([float(delta) for delta in deltas]))


def exact_means(bet, scores, p, q):
    """E_P[B] and E_Q[A] of each player, as fractions."""
    cells = np.searchsorted(bet.edges, scores, "right")
    return [
        tuple(sum(w * Fraction(float(row[c])) for w, c in zip(law, cells, strict=True)) for row, law in both)
        for both in zip(zip(bet.on_p, itertools.repeat(p)), zip(bet.on_q, itertools.repeat(q)), strict=True)
    ]


def test_no_bet_gains_at_the_edge_of_the_claim():
    rng = np.random.default_rng(1)
    closest = Fraction(0)
    for trial in range(60):
        p, q = exact_pair(rng, 5)
        ratios = [float(b / a) for a, b in zip(p, q, strict=True)]
        lines = own_lines(p, q, sorted({*ratios, 0.5, 1.0, 1.7}))
        scores = -np.log(ratios) if trial % 2 else rng.permutation(5).astype(float)
        practice = [rng.choice(scores, size=40, p=rng.dirichlet(np.ones(5))) for _ in range(2)]
        bet = place_bet(lines, *practice)
        for on_p, on_q in exact_means(bet, scores, p, q):
            assert on_p * on_q <= 1
            assert on_p + on_q <= 2
            closest = max(closest, on_p + on_q)
    assert closest > 2 - 1e-9  # the claim's edge is felt: bets that ask for less than this would waste power


def test_a_delta_that_is_a_little_too_small_shows():
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    lines = own_lines(p, q, [1.0])
    scores = np.array([1.0, -1.0])
    practice = np.repeat(scores, [9, 1]), np.repeat(scores, [1, 9])
    low = place_bet(Lines(lines.etas, 0.99 * lines.deltas), *practice)
    assert max(sum(means) for means in exact_means(low, scores, p, q)) > 2
    assert max(sum(means) for means in exact_means(place_bet(lines, *practice), scores, p, q)) <= 2


def test_every_game_enumerated():
    """All games of five outputs 0 or 1 per database at a claim's edge gain nothing; no peak is above 1/γ more often than γ."""
    size = 5
    p, q = 0.3, 0.75
    rules = Rules(first=2, smallest=1, folds=2, cells=2, cautions=(1.0, 5.0))
    lines = Lines(
        np.array([0.5, 1.0, 2.0]), np.array([max(0.0, q - e * p) + max(0.0, 1 - q - e * (1 - p)) for e in (0.5, 1, 2)])
    )

    def learn(a, b):
        odds = np.log((a.sum() + 0.5) / (b.sum() + 0.5)) - np.log((a.size - a.sum() + 0.5) / (b.size - b.sum() + 0.5))
        return lambda outputs: odds * (outputs - 0.5)

    found = []
    for bits in itertools.product((0, 1), repeat=2 * size):
        a, b = np.array(bits[:size]), np.array(bits[size:])
        chance = np.prod(np.where(a, p, 1 - p)) * np.prod(np.where(b, q, 1 - q))
        wealth = Wealth()
        for seen in range(size):
            before, now = slice(0, seen), slice(seen, seen + 1)
            (wealth,) = play([wealth], [lines], learn, (a[before], b[before]), (a[now], b[now]), rules)
        found.append((chance, wealth.log, wealth.peak))
    chance, logs, peaks = np.array(found).T
    assert chance.sum() == pytest.approx(1.0)
    assert 0.9 < chance @ np.exp(logs) <= 1.0
    assert logs.min() < 0.0 < logs.max()
    for gamma in np.exp(-peaks[peaks > 0]):
        assert chance[peaks >= -np.log(gamma)].sum() <= gamma * (1 + 1e-12)


# Lines of a claim


@pytest.mark.parametrize("orientation", ["forward", "reverse", "both"])
@pytest.mark.parametrize(
    "curve",
    [GaussianShift(0.5), GaussianShift(3.0), LaplaceShift(0.6), ApproximateDP(1.0, 1e-5), ApproximateDP(0.0, 0.0)],
)
def test_lines_of_symmetric_curves(curve, orientation):
    lines = lines_of(curve, orientation)
    levels = np.log(lines.etas)
    delta = curve.delta(np.abs(levels))
    exact = np.where(levels >= 0, delta, 1 - lines.etas * (1 - delta))
    assert (lines.deltas >= exact).all()
    np.testing.assert_allclose(lines.deltas, exact, atol=1e-6)


@pytest.mark.parametrize("orientation", ["forward", "reverse", "both"])
def test_orientations_of_an_asymmetric_curve(orientation):
    pair = Discrete([0.5, 0.3, 0.15, 0.05], [0.2, 0.25, 0.25, 0.3])
    lines = lines_of(pair, orientation)
    levels = np.log(lines.etas)
    first, second = (pair.delta(np.abs(levels), way) for way in ("forward", "reverse"))  # P − e^ε Q, Q − e^ε P
    if orientation == "reverse":
        first, second = second, first
    if orientation == "both":
        first = second = np.minimum(first, second)
    exact = np.where(levels >= 0, second, 1 - lines.etas * (1 - first))
    assert (lines.deltas >= exact).all()
    np.testing.assert_allclose(lines.deltas, exact, atol=1e-9)
    given = lines_from_delta([0.0, log(2)], [0.3, 0.1], [0.4, 0.2])
    np.testing.assert_allclose(given.etas, [1, 2, 1, 0.5])
    np.testing.assert_allclose(given.deltas, [0.4, 0.2, 0.3, 1 - 0.5 * 0.9])


# State


def test_resumed_game_has_the_same_wealth():
    lines = lines_of(GaussianShift(0.5))
    p, q = normals(1.0)(np.random.default_rng(12), 150)
    straight = stopped = (Wealth(),)
    for seen in range(0, 150, 50):
        sides = (p[:seen], q[:seen]), (p[seen : seen + 50], q[seen : seen + 50])
        straight = play(straight, [lines], KNN, *sides)
        read = json.loads(json.dumps([wealth.to_dict() for wealth in stopped]))
        stopped = play([Wealth.from_dict(one) for one in read], [lines], KNN, *sides)
    assert straight == stopped
    assert straight[0].samples == 150
    assert straight[0].log != 0.0


def test_wealth_average_and_verdict():
    won, lost = Wealth().moved([log(60.0)], 100), Wealth().moved([log(0.5), log(0.1)], 100)
    assert lost.log == pytest.approx(log(0.3))
    assert lost.peak == 0.0
    both = average(Wealth(), [won, lost])
    assert both.peak == pytest.approx(log(30.15))
    assert is_refuted(both, 0.05)
    assert not is_refuted(both, 0.03)
    assert both.p_value == pytest.approx(1 / 30.15)
    later = average(both, [won.moved([log(2.0)], 200), lost.moved([0.0], 200)])
    assert later.log == pytest.approx(log(1.5))
    assert later.peak == both.peak
    assert later.samples == 200
    assert 0.0 < Wealth((1e4,), 1e4, 9).p_value <= 1e-300  # what is printed as at most 0 would be false


def test_blocks():
    rules = Rules(first=20, smallest=10, growth=0.5)
    assert list(blocks(0, 15, rules)) == []
    assert list(blocks(0, 100, rules)) == [(20, 30), (30, 45), (45, 67), (67, 100)]
    assert list(blocks(50, 60, rules)) == [(50, 60)]


def test_practice_is_by_learners_that_did_not_see_it():
    p, q = np.arange(20.0), np.arange(20.0) + 100

    def learn(a, b):
        assert a.size == b.size
        return lambda outputs: np.where(np.isin(outputs, a) | np.isin(outputs, b), np.nan, outputs)

    found = practise(learn, p, q, Rules(first=20, folds=4))
    assert [sorted(side) for side in found] == [sorted(p), sorted(q)]
    assert [side.size for side in practise(learn, p, q, Rules(first=20, folds=4, practice=7))] == [10, 10]


def test_scores_may_be_infinite_or_all_equal():
    lines = lines_of(GaussianShift(0.5))
    practice = np.array([-inf, 0.0, inf, inf]), np.array([-inf, -inf, 0.0, 0.0])
    bet = place_bet(lines, *practice)
    assert np.isfinite(settle(bet, *practice)).all()
    assert settle(place_bet(lines, np.zeros(9), np.zeros(9)), np.zeros(3), np.ones(3)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: lines_of(GaussianShift(1.0), "sideways"), "orientation: 'sideways' was given"),
        (lambda: Wealth.from_dict({"logs": []}), "wealth"),
        (lambda: Wealth.from_dict({"logs": [None], "peak": 0, "samples": 0}), "logs: None was given"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
