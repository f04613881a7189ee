"""Certified Rényi divergences: pieces against what bounds imply, closed forms, coverage, goals, and what is printed."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from commands import call
from results import changed, measured
from scipy.stats import binom
from simulated import simulate

from hpcdp.analytic import Discrete, LaplaceShift
from hpcdp.cli.arguments import make_parser
from hpcdp.errors import StudyError
from hpcdp.notions.epsilon_at import implied_lower
from hpcdp.notions.renyi import class_counts, make_pieces, renyi_lower, renyi_plugin, zcdp_lower
from hpcdp.report.notions import show_as
from hpcdp.results.levels import renyi_levels

ORDERS = (1.0, 1.01, 1.37, 2.0, 4.4, 17.0, 90.0)


def some_pair(rng, outcomes=9, spread=1.0):
    p, q = (rng.dirichlet(np.full(outcomes, spread)) + 1e-9 for _ in range(2))
    return Discrete(p / p.sum(), q / q.sum())


def bounds_of(curve, epsilons, share=1.0):
    return share * np.stack([curve.delta(epsilons, way) for way in ("forward", "reverse")])


def at(pieces, direction, epsilon):
    """The function that pieces are, at levels that are no ends of pieces."""
    inside = (pieces.start[direction] < epsilon[:, None]) & (epsilon[:, None] < pieces.stop[direction])
    falling = np.where(pieces.rate[direction] > 0.0, 1.0 - pieces.rate[direction] * np.exp(epsilon[:, None]), 0.0)
    flat = np.where(pieces.rate[direction] > 0.0, 0.0, pieces.value[direction])
    return np.where(inside, falling + flat, 0.0).max(axis=1)


# pieces


@pytest.mark.parametrize("seed", range(6))
def test_pieces_are_what_the_bounds_imply(seed):
    rng = np.random.default_rng([1201, seed])
    epsilons = np.unique(rng.uniform(0.0, 2.5, size=9))
    lower = bounds_of(some_pair(rng, spread=0.5), epsilons, rng.uniform(0.6, 1.0))
    if seed % 3 == 0:
        epsilons[0] = 0.0
        lower[:, 0] = 0.2
    pieces = make_pieces(epsilons, lower)
    levels = rng.uniform(0.0, 6.0, size=400)
    both = lower.max()
    for direction in (0, 1):
        known, bounds = np.append(0.0, epsilons), np.append(both, lower[direction])
        truth = implied_lower(known, bounds, levels)
        np.testing.assert_allclose(at(pieces, direction, levels), truth, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_each_piece_has_the_integral_of_its_function(order):
    rng = np.random.default_rng(1202)
    epsilons = np.array([0.0, 0.2, 0.5, 1.1])
    lower = bounds_of(some_pair(rng), epsilons, 0.9)
    pieces = make_pieces(epsilons, lower)
    reach = float(pieces.stop.max())
    nodes, weights = np.polynomial.legendre.leggauss(60)
    total = np.zeros(2)
    for direction in (0, 1):
        for own, rate in ((direction, order - 1.0), (1 - direction, -order)):
            start, stop = pieces.start[own][:, None], pieces.stop[own][:, None]
            x = start + 0.5 * (stop - start) * (1.0 + nodes)
            flat = np.where(pieces.rate[own] > 0.0, 0.0, pieces.value[own])[:, None]
            values = flat + np.where(pieces.rate[own][:, None] > 0.0, 1.0 - pieces.rate[own][:, None] * np.exp(x), 0.0)
            part = np.exp(rate * x - (order - 1.0) * reach) * values * weights * 0.5 * (stop - start)
            total[direction] += part.sum()
    found = renyi_lower(pieces, order)
    if order == 1.0:
        truth = total
    else:
        scale = (order - 1.0) * reach
        truth = np.logaddexp(0.0, np.log(order * (order - 1.0) * total) + scale) / (order - 1.0)
    np.testing.assert_allclose(found, truth, rtol=1e-10)
    assert (found < truth).all()  # the safe side


@pytest.mark.parametrize("seed", range(8))
def test_exact_spectra_never_give_more_than_the_truth(seed):
    """Bounds without any margin: what lies between grid points may not be overshot, be the grid coarse or fine."""
    rng = np.random.default_rng([1203, seed])
    curve = some_pair(rng, outcomes=int(rng.integers(2, 12)), spread=rng.uniform(0.3, 3.0))
    for count in (1, 2, 5, 60):
        epsilons = np.sort(rng.uniform(0.0, 3.0, size=count))
        pieces = make_pieces(epsilons, bounds_of(curve, epsilons))
        for order in ORDERS:
            truth = np.array([curve.renyi(order, way) for way in ("forward", "reverse")])
            assert (renyi_lower(pieces, order) <= truth).all()
        rho = zcdp_lower(pieces)
        assert rho.lower <= float(curve.renyi(rho.order, ("forward", "reverse")[rho.place[-1]])) / rho.order
    fine = np.linspace(0.0, 8.0, 40_001)
    pieces = make_pieces(fine, bounds_of(curve, fine))
    for order in (1.0, 2.0, 3.3):
        truth = np.array([curve.renyi(order, way) for way in ("forward", "reverse")])
        np.testing.assert_allclose(renyi_lower(pieces, order), truth, rtol=2e-3)


def test_extremes():
    nothing = make_pieces(np.array([0.3, 1.0]), np.full((3, 2, 2), np.nan))
    assert (renyi_lower(nothing, 2.0) == 0.0).all()
    assert zcdp_lower(nothing).lower == 0.0
    certain = make_pieces(np.array([0.0, 2.0]), np.ones((2, 2)))
    for order in (1.0, 2.0, 1e6):
        assert np.isfinite(renyi_lower(certain, order)).all()
        assert (renyi_lower(certain, order) > 100.0).all()
    high = make_pieces(np.linspace(0.0, 30.0, 61), bounds_of(LaplaceShift(25.0), np.linspace(0.0, 30.0, 61)))
    for order in (1.0, 50.0, 1e9):
        assert (renyi_lower(high, order) <= LaplaceShift(25.0).renyi(order)).all()
    assert (renyi_lower(high, 1e9) > 24.0).all()  # nearly the pure level


# counts


def coverage(curve, runs, bounds=lambda cells: cells.lower):
    """How many of the runs have any order, or ρ, above its truth."""
    missed, epsilons, rng = 0, np.linspace(0.0, 1.2, 4), np.random.default_rng(1205)
    orders, ways = (1.0, 1.6, 3.0, 8.0), ("forward", "reverse")
    truths = [np.array([curve.renyi(order, way) for way in ways]) for order in orders]
    grid = np.linspace(1.0, 64.0, 300)
    rho = max(float((curve.renyi(grid, way) / grid).max()) for way in ways)
    for _ in range(runs):
        pieces = make_pieces(epsilons, bounds(simulate(curve, epsilons, 400, rng)))
        over = any((renyi_lower(pieces, order) > truth).any() for order, truth in zip(orders, truths, strict=True))
        missed += over or zcdp_lower(pieces).lower > rho * (1.0 + 1e-6)
    return missed


THREE = Discrete([0.5, 0.3, 0.2], [0.2, 0.3, 0.5])


def test_coverage_over_40_runs_and_of_estimates_in_the_place_of_bounds():
    most = int(binom.isf(1e-4, 40, 0.05))
    assert coverage(THREE, 40) <= most < coverage(THREE, 40, lambda cells: cells.delta)


def test_the_plugin_over_classes_against_sums():
    epsilons = np.array([0.9, 0.0, 0.3])  # as a study has them, in any order
    cells = simulate(LaplaceShift(1.5), epsilons, 50_000, np.random.default_rng(1206))
    classes = class_counts(cells.exceed, epsilons, cells.test)
    assert classes.shape == (1, 7, 2)
    assert (classes.sum(axis=1) == 50_000).all()
    p, q = (classes[0, classes[0].sum(axis=1) > 0, side] / 50_000 for side in (0, 1))  # no output has a loss of 0
    for order in (2.0, 4.4):
        truth = [math.log(np.sum(a**order * b ** (1 - order))) / (order - 1) for a, b in ((p, q), (q, p))]
        np.testing.assert_allclose(renyi_plugin(classes, order)[0], truth, rtol=1e-12)
    truth = [np.sum(a * np.log(a / b)) for a, b in ((p, q), (q, p))]
    np.testing.assert_allclose(renyi_plugin(classes, 1.0)[0], truth, rtol=1e-12)
    # classes of the exact loss tell almost all
    assert renyi_plugin(classes, 2.0).max() == pytest.approx(float(LaplaceShift(1.5).renyi(2.0)), rel=0.05)
    empty = classes.copy()
    empty[0, 0, 0] = 0
    assert np.isinf(renyi_plugin(empty, 2.0)[0, 1])
    assert np.isfinite(renyi_plugin(empty, 2.0)[0, 0])


# what is printed


@pytest.fixture(scope="module", name="found")
def found_fixture():
    return measured(
        "laplace", {"epsilon": 1.0}, [([0.0], [0.5]), ([0.0], [1.0])], seed=1207,
        train=20_000, test=20_000, chunk=20_000, epsilons=[0.0, 0.2, 0.4, 0.6],
    )  # fmt: skip


def test_an_infinite_plugin_is_not_resolved_and_not_printed(found):
    exceed = found["exceed"].copy()
    exceed[1, 0, -1, 1] = 0  # no output of D' in the last class
    spoilt = changed(found, exceed=exceed)
    level = spoilt.renyi([2.0])[0]
    assert level.estimate is None
    assert level.lower == found.renyi([2.0])[0].lower
    assert "not finite" in show_as(spoilt, "table", {"renyi": [level.order]})
    assert "inf" not in show_as(spoilt, "table", {"renyi": [level.order]}).replace("infinite", "")
    json.loads(show_as(spoilt, "json", {"renyi": [level.order]}))


def test_without_classes_there_is_a_bound_and_no_estimate(found):
    """As of `literal-knn`, whose cells have draws and a classifier each."""
    arrays = {name: values for name, values in found.arrays.items() if name != "exceed"}
    level = renyi_levels(arrays, [2.0])[0]
    assert level.estimate is None
    assert level.lower == found.renyi([2.0])[0].lower


def test_refusals(found, tmp_path, capsys):
    for order in (0.5, 1e101, math.inf, math.nan):
        with pytest.raises(
            StudyError,
            match=r"orders: .* was given; accepted: orders of at least 1 .*; for the infinite order: Result\.pure",
        ):
            found.renyi([order])
    for text in ("0.5", "inf", "two"):
        with pytest.raises(SystemExit) as ended:
            make_parser().parse_args(["show", "s.zarr", "--renyi", text])
        assert ended.value.code == 2
        assert "an order of at least 1 (1: Kullback–Leibler); for the infinite order: --pure" in capsys.readouterr().err
    for other in (["--delta", "0.1"], ["--accuracy"], ["--rows"]):
        assert (
            "accepted: one of them; given: both" in call("show", tmp_path / "s.zarr", "--zcdp", *other, code=2).stderr
        )
