"""Cross-fitting and the prequential bound: exact against every adversary on small blocks; with real losses; and faults."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from folding import CASES, block_counts, count, cross_count, learn
from scipy.special import gammaln, xlog1py, xlogy

from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.parameters import KnnParameters
from hpcdp.notions import prequential
from hpcdp.notions.bounds import joint_lower
from hpcdp.notions.prequential import (
    Block,
    blocks,
    crossfit_estimate,
    folds,
    largest_log_mean,
    log_wealth,
    place_bet,
    prequential_lower,
)

RUNS = 400
SIZE = 800
LEVEL = 0.05
NAIVE = Knn(KnnParameters(k=9))


def binomial(n, p):
    """P(X = 0 … n) for each p: (p.size, n + 1)."""
    x, p = np.arange(n + 1), np.asarray(p)[:, None]
    return np.exp(gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + xlogy(x, p) + xlog1py(n - x, -p))


def worst_failure(bounds, theta, c, sizes):
    """Largest P(bound > θ) of all adversaries with a <= θ + c·b who choose each block's b after the blocks before.

    bounds: (x0 of block 1, x1 of it, x0 of block 2, x1 of it); sizes: of both sides of both blocks.
    """
    b = np.linspace(0.0, (1.0 - theta) / c, 61)
    first0, first1 = binomial(sizes[0][0], theta + c * b), binomial(sizes[0][1], b)
    last0, last1 = binomial(sizes[1][0], theta + c * b), binomial(sizes[1][1], b)
    failed = (bounds > theta).astype(float)
    later = np.einsum("gi,gj,klij->gkl", last0, last1, failed).max(axis=0)
    return np.einsum("gk,gl,kl->g", first0, first1, later).max()


def all_bounds(c, sizes, practice, level):
    (n0, n1), (m0, m1) = sizes
    grid = np.indices((n0 + 1, n1 + 1, m0 + 1, m1 + 1)).reshape(4, -1)
    x0 = np.stack([np.full(grid.shape[1], practice[0]), grid[0], grid[2]])
    x1 = np.stack([np.full(grid.shape[1], practice[1]), grid[1], grid[3]])
    trials = [np.array([[9], [first], [last]]) for first, last in ((n0, m0), (n1, m1))]
    return prequential_lower(x0, trials[0], x1, trials[1], c, level).reshape(n0 + 1, n1 + 1, m0 + 1, m1 + 1)


SIZES = ((6, 5), (7, 8))


@pytest.mark.parametrize("practice", [(6, 1), (2, 0)])
def test_no_adversary_makes_it_fail_more_often_than_its_level(practice):
    level, c = 0.2, exp(0.4)
    bounds = all_bounds(c, SIZES, practice, level)
    worst = [worst_failure(bounds, theta, c, SIZES) for theta in (0.02, 0.1, 0.25, 0.5)]
    print(worst)
    assert max(worst) <= level
    assert max(worst) >= level / 4  # it does not hold for being empty


def test_the_enumeration_shows_bets_that_are_not_fair(monkeypatch):
    level, c = 0.2, exp(0.4)
    fair = largest_log_mean
    monkeypatch.setattr(prequential, "largest_log_mean", lambda *given: 0.3 * fair(*given))
    bounds = all_bounds(c, SIZES, (6, 1), level)
    assert max(worst_failure(bounds, theta, c, SIZES) for theta in (0.02, 0.1, 0.25, 0.5)) > level


@pytest.mark.parametrize("tilts", [(0.7, 0.9), (0.3, 0.0), (0.0, 0.5), (0.0, 0.0), (4.0, 6.0)])
def test_a_bets_largest_mean_is_the_largest_of_all_pairs_that_meet_the_claim(tilts):
    """On a grid of 4001 pairs, which comes within 10⁻³ of it and never above."""
    n0, n1, c = 7, 4, 1.7
    bet = Block(*(np.array([float(v)]) for v in (0, n0, 0, n1, *tilts)))
    for theta in (-0.3, 0.0, 0.05, 0.6, 1.0):
        found = largest_log_mean(bet, np.array([c]), np.array([theta]))[0]
        b = np.linspace(0.0, 1.0, 4001)
        b = b[theta + c * b >= 0.0]
        up = binomial(n0, np.minimum(1.0, theta + c * b)) @ np.exp(tilts[0] * np.arange(n0 + 1))
        down = binomial(n1, b) @ np.exp(-tilts[1] * np.arange(n1 + 1))
        largest = np.log(up * down).max()
        assert largest - 1e-12 <= found <= largest + 1e-3


def run_blocks(name, size, runs, level, saw_itself=False):
    """Bounds of many runs over the exact δ, and those of splits in half."""
    law, loss, epsilon = CASES[name]
    loss = NAIVE if saw_itself and isinstance(loss, Knn) else loss
    cut = blocks(size)
    rng = np.random.default_rng(7)
    half = size // 2
    found, split = np.empty((2, len(cut), runs), int), np.empty((2, runs), int)
    for run in range(runs):
        p, q = law.draw(rng, size)
        found[:, :, run] = block_counts(loss, p, q, epsilon, cut, saw_itself)
        split[:, run] = count(learn(loss, p[:half], q[:half]), p[half:], q[half:], epsilon)
    sizes = np.array([[len(block)] for block in cut])
    bounds = prequential_lower(found[0], sizes, found[1], sizes, exp(epsilon), level)
    halves = joint_lower(split[0], size - half, split[1], size - half, exp(epsilon), level)
    exact = float(law.curve.delta(np.array([epsilon]), "forward")[0])
    return bounds / exact, halves / exact


def most_failures():
    """So many of RUNS failures of probability LEVEL have a chance below 1 in 1000."""
    return int(np.flatnonzero(np.cumsum(binomial(RUNS, [LEVEL])[0]) > 0.999)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bounds_of_real_losses_hold(name):
    bounds, halves = run_blocks(name, SIZE, RUNS, LEVEL)
    failures = (bounds > 1.0).sum()
    print(f"{name}: failures {failures / RUNS:.3f}, medians {np.median(bounds):.3f}, split {np.median(halves):.3f}")
    assert failures <= most_failures()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "integers"])
def test_a_block_that_is_scored_by_a_loss_that_saw_it_fails(name):
    bounds, _ = run_blocks(name, SIZE, RUNS, LEVEL, saw_itself=True)
    assert (bounds > 1.0).sum() > 2 * most_failures()


def test_two_blocks_make_the_joint_bound():
    assert prequential_lower([1, 40], [9, 200], [3, 8], [9, 150], 2.0, 0.01) == joint_lower(40, 200, 8, 150, 2.0, 0.01)


def test_bad_practice_and_lost_bets_cost_no_more_than_nine_tenths_of_the_level():
    counts = ([50, 0, 60], [50, 100, 200], [0, 60, 5], [50, 100, 200])
    lost = prequential_lower(*counts, 2.0, 0.05)
    tenth = joint_lower(60, 200, 5, 200, 2.0, 0.005)
    assert lost >= tenth - 0.01 * (0.25 - tenth)


def test_the_wealth_falls_with_theta_and_the_bound_with_confidence():
    rows = [np.array([[v] for v in values], float) for values in
            ((12, 30, 0), (40, 80, 160), (2, 5, 0), (40, 80, 160))]  # fmt: skip
    c, level = np.array([1.5]), np.array([0.05])
    bets = [place_bet(rows, 1, c, level)]
    wealth = [log_wealth(bets, c, np.array([theta]))[0] for theta in np.linspace(-0.5, 1.0, 31)]
    assert (np.diff(wealth) <= 0.0).all()
    assert wealth[0] > 0.0 > wealth[-1] >= log(0.1)
    counts = [[v] * 3 for v in (12, 40, 2, 40)]
    bounds = prequential_lower(*(np.array(v)[:, None] for v in counts), 1.5, np.array([1e-6, 1e-3, 0.05]))
    assert (np.diff(bounds) > 0.0).all()


@pytest.mark.parametrize(
    "total, first", [(2, None), (2, 1), (1000, None), (1000, 62), (999, 100), (37, 36), (10**9, 7)]
)
def test_blocks_double_and_the_last_is_the_largest(total, first):
    cut = blocks(total, first)
    assert cut[0] == range(max(1, total // 16) if first is None else first)
    assert [block.start for block in cut[1:]] == [block.stop for block in cut[:-1]]
    assert cut[-1].stop == total
    assert all(len(block) == block.start for block in cut[1:-1])
    assert len(cut) == 2 or total / 2 <= len(cut[-1]) <= 3 * total / 4


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: blocks(9, 9), "first: 9 was given; accepted: 1 to 8, below the total"),
        (lambda: prequential_lower([1], [2], [1], [2], 1.0, 0.05), "a first axis of two or more blocks"),
        (lambda: prequential_lower([1, 3], [2, 2], [1, 1], [2, 2], 1.0, 0.05), "0 <= successes <= trials"),
        (lambda: prequential_lower([1, 1], [2, 2], [1, 1], [2, 2], 0.0, 0.05), "inflation: 0.0 was given"),
    ],
)
def test_refusals_name_what_is_accepted(call, message):
    with pytest.raises(ValueError, match=message):
        call()


REPEATS = 300
PARTS = 5
CROSSED = {"gaussian": 1600, "laplace": 1600, "integers": 25_600}  # the third needs outputs for each of 301 values


def test_the_folds_are_all_places_once_in_sizes_that_differ_by_one_at_most():
    for total, parts in ((2, 2), (17, 5), (100, 7)):
        cut = folds(total, parts)
        assert [place for fold in cut for place in fold] == list(range(total))
        assert len(cut) == parts
        assert {len(fold) for fold in cut} <= {total // parts, total // parts + 1}


def test_the_estimate_is_of_the_sums_and_its_error_that_of_the_pooled_rates():
    x0, n0 = np.array([[12, 0], [9, 1]]), np.array([[40, 40], [60, 60]])
    x1, n1 = np.array([[1, 9], [2, 9]]), np.array([[50, 50], [30, 30]])
    delta, error = crossfit_estimate(x0, n0, x1, n1, exp(0.5))
    assert delta[0] == pytest.approx(0.21 - exp(0.5) * 3 / 80)
    assert delta[1] == 0.0
    assert error[0] == pytest.approx(sqrt(0.21 * 0.79 / 100 + exp(1.0) * (3 / 80) * (77 / 80) / 80))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_standard_errors_cover_the_mean_of_the_folds_sets_and_half_of_the_outputs_have_more_error(name):
    law, loss, epsilon = CASES[name]
    size = CROSSED[name]
    exact = float(law.curve.delta(np.array([epsilon]), "forward")[0])
    rng = np.random.default_rng(1)
    of_sets, of_truth, split = np.empty(REPEATS), np.empty(REPEATS), np.empty(REPEATS)
    for run in range(REPEATS):
        p, q = law.draw(rng, size)
        counts, sizes, models = cross_count(loss, p, q, epsilon, PARTS)
        delta, error = crossfit_estimate(counts[0], sizes, counts[1], sizes, exp(epsilon))
        masses = np.array([law.masses(model, epsilon) for model in models])
        of_sets[run] = (delta - (masses[:, 0] - exp(epsilon) * masses[:, 1]).mean()) / error
        of_truth[run] = delta - exact
        half = size // 2
        x0, x1 = count(learn(loss, p[:half], q[:half]), p[half:], q[half:], epsilon)
        split[run] = (x0 - exp(epsilon) * x1) / half - exact
    covered = (np.abs(of_sets) <= 1.96).mean()
    ratio = sqrt((of_truth**2).mean() / (split**2).mean())
    print(
        f"{name}: covered {covered:.3f}, mean {of_sets.mean():.2f}, sd {of_sets.std():.2f}, error of split × {ratio:.2f}"
    )
    noise = 4.0 * sqrt(0.95 * 0.05 / REPEATS)
    assert 0.95 - noise <= covered
    assert of_sets.std() >= 0.8  # an error that is far too wide would cover as well
    assert ratio < 0.9


def test_refusals_of_folds():
    for total, parts, message in (
        (4, 1, "count: 1 was given; accepted: an integer >= 2"),
        (4, 5, "total: 4 was given; accepted: an integer >= 5"),
    ):
        with pytest.raises(ValueError, match=message):
            folds(total, parts)
    for given, inflation, message in (
        (([1], [2], [1], [2]), 1.0, "a first axis of two or more folds"),
        (([1, 1], [2, 2], [1, 1], [2, 2]), -1.0, "inflation"),
    ):
        with pytest.raises(ValueError, match=message):
            crossfit_estimate(*given, inflation)
