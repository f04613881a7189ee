"""From records to results: every array that `show` prints, from the integer counts alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.counts import eta_thresholds
from hpcdp.notions.levels import share_level
from hpcdp.notions.reused import BlockBounds, block_bounds, make_reused_cells
from hpcdp.notions.spectrum import Cells, LowerBounds, exceedances, lower_bounds, make_cells, maximum, told_pairs
from hpcdp.notions.testing_risk import make_point_cells, make_risk_cells
from hpcdp.notions.tradeoff import TradeOff, make_tradeoff
from hpcdp.planning.index import Index
from hpcdp.store.results import Arrays
from hpcdp.study.problem import Problem
from hpcdp.study.reuse import FOLDS, Cut

_CELL = ("pair", "direction", "epsilon")


def assemble(problem: Problem, index: Index, run: Callable[..., NDArray[np.float64]] | None = None) -> Arrays:
    """All result arrays of a store's records; cells that lack counts hold NaN and −1. run: `bounds_of` elsewhere."""
    run = bounds_of(problem) if run is None else run
    epsilons = np.asarray(problem.study.estimate.epsilons)
    arrays: Arrays = {"epsilon": (("epsilon",), epsilons), "direction": (("direction",), np.array([0, 1], np.int8))}
    if problem.is_literal:
        arrays |= _literal(problem, index, epsilons)
        return arrays | _literal_tradeoff(problem, index) if problem.study.estimate.etas else arrays
    if problem.is_reused:
        return arrays | _reused(problem, index, epsilons, run)
    arrays |= _spectrum(problem, index, epsilons, run)
    if problem.study.estimate.etas:
        arrays |= _tradeoff(problem, index)
    return arrays


def bounds_of(problem: Problem) -> Callable[..., NDArray[np.float64]]:
    """What computes the certified bounds of a problem's cells from flat arrays."""
    return block_bounds if problem.is_reused else lower_bounds


def _reused(problem: Problem, index: Index, epsilons: NDArray[np.float64], run: BlockBounds) -> Arrays:
    """Cells of samples that teach and test; the first block's cross-fitted counts rank the pairs."""
    cut, wanted = Cut.of(problem.study.estimate.pool), problem.thresholds.tolist()
    confidence = problem.study.estimate.confidence
    sizes = np.array([part.counted for part in cut.parts])
    counted = np.empty((len(problem.pairs), 2, epsilons.size, sizes.size, 2), np.int64)
    for number, pool in enumerate(problem.pool_keys):
        for part in range(sizes.size):
            counts = index.pooled(pool, part, wanted)
            counted[number, :, :, part] = exceedances(counts.above, counts.below, problem.thresholds, epsilons)
    folds, blocks = counted[..., :FOLDS, :], counted[..., FOLDS:, :]
    practice = np.where(blocks[..., 0, :] >= 0, blocks[..., 0, :] / sizes[FOLDS], np.nan)
    ranked = practice[..., 0] - np.exp(epsilons) * practice[..., 1]
    level = share_level(ranked, ranked.shape, 1.0 - confidence)
    cells = make_reused_cells(folds, sizes[:FOLDS], blocks, sizes[FOLDS:], epsilons, level, confidence, run)
    arrays = _counted_cells(cells, level, ranked) | {
        "block_exceed": ((*_CELL, "block", "side"), blocks.copy()),
        "block_test": (("block",), sizes[FOLDS:].copy()),
    }
    return arrays | _maximum(cells)


def _spectrum(problem: Problem, index: Index, epsilons: NDArray[np.float64], run: LowerBounds) -> Arrays:
    confidence = problem.study.estimate.confidence
    wanted = problem.thresholds.tolist()
    exceed, training = [], []
    for number, model in enumerate(problem.model_keys):
        counts = index.totals(model, wanted, problem.stage_of("test", number))
        trained = index.training_counts(model, wanted)
        exceed.append(exceedances(counts.above, counts.below, problem.thresholds, epsilons))
        found = exceedances(trained.above, trained.below, problem.thresholds, epsilons)
        training.append(np.where(found >= 0, found / max(1, trained.samples), np.nan))
    counted, share = np.stack(exceed), np.stack(training)
    sides = _tests(problem)
    test = np.broadcast_to(np.stack([sides, sides[:, ::-1]], axis=1)[:, :, None, :], counted.shape).copy()
    ranked = np.where(np.isnan(share).any(axis=-1), np.nan, share[..., 0] - np.exp(epsilons) * share[..., 1])
    level = share_level(ranked, counted.shape[:3], 1.0 - confidence)
    cells = make_cells(counted, test, share, epsilons, level, confidence, run)
    return _counted_cells(cells, level, ranked) | _maximum(cells, told_pairs(test))


def _tests(problem: Problem) -> NDArray[np.int64]:
    """Test samples of D and of D' of each pair, (pairs, 2), at least 1 where their number is not decided yet."""
    return np.maximum(1, [problem.sizes_of(number).tests for number in range(len(problem.pairs))])


def _cells(cells: Any) -> Arrays:
    return {name: (_CELL, getattr(cells, name)) for name in ("delta", "standard_error", "lower", "upper")}


def _counted_cells(cells: Cells, level: NDArray[np.float64], ranked: NDArray[np.float64]) -> Arrays:
    """Cells with the counts they rest on, their share of the failure probability, and what ranked them for it."""
    counts: Arrays = {name: ((*_CELL, "side"), getattr(cells, name)) for name in ("exceed", "test")}
    return _cells(cells) | counts | {"level": (_CELL, level), "training_delta": (_CELL, ranked)}


def _maximum(cells: Any, told: NDArray[np.bool_] | None = None) -> Arrays:
    best = maximum(cells, told)
    names = ("delta", "pair", "direction", "lower", "lower_pair", "lower_direction", "upper")
    return {f"spectrum_{name}": (("epsilon",), getattr(best, name)) for name in names}


def _tradeoff(problem: Problem, index: Index) -> Arrays:
    thresholds = eta_thresholds(np.asarray(problem.study.estimate.etas)).tolist()
    rejected = np.stack(
        [
            index.totals(model, thresholds, problem.stage_of("test", number)).below.T
            for number, model in enumerate(problem.model_keys)
        ]
    )
    test, families = _tests(problem), 1
    if problem.is_refined:  # thresholds that were added later have an L̂ of their own
        stages = [problem.stage_of("test", number) for number in range(len(problem.pairs))]
        families = max(index.families(*pair) for pair in zip(problem.model_keys, repeat(thresholds), stages))
    found = _points(problem, rejected, make_tradeoff(rejected, test, problem.study.estimate.confidence, families))
    return found | {"rejected_test": (("pair", "side"), test)} | _training_curve(problem, index, thresholds)


def _training_curve(problem: Problem, index: Index, thresholds: list[float]) -> Arrays:
    """What training alone tells at each η: shares of its own outputs that are rejected, and the curve's estimate.

    The estimate is a density's perturbed points where there are densities, else the shares.
    """
    etas, sides = problem.study.estimate.etas, ("pair", "eta", "side")
    shares = np.full((len(problem.pairs), len(etas), 2), np.nan)
    for number, model in enumerate(problem.model_keys):
        counts = index.training_counts(model, thresholds)
        if (counts.below >= 0).all():
            shares[number] = counts.below.T / max(1, counts.samples)
    curve = np.stack([shares[..., 0], 1.0 - shares[..., 1]])
    for number, model in enumerate(problem.model_keys):
        known = index.perturbed.get(model, {})
        for column, eta in enumerate(etas):
            if eta in known:
                curve[:, number, column] = known[eta]
    points: Arrays = {f"training_{n}": (("pair", "eta"), v) for n, v in zip(("alpha", "beta"), curve, strict=True)}
    return points | {"training_rejected": (sides, shares)}


def _points(problem: Problem, rejected: NDArray[np.int64], points: TradeOff) -> Arrays:
    etas = np.asarray(problem.study.estimate.etas)
    names = ("alpha", "beta", "radius", "alpha_upper", "beta_upper")
    found: Arrays = {name: (("pair", "eta"), getattr(points, name)) for name in names}
    return found | {"eta": (("eta",), etas), "rejected": (("pair", "eta", "side"), rejected)}


def _literal(problem: Problem, index: Index, epsilons: NDArray[np.float64]) -> Arrays:
    shape = (len(problem.pairs), 2, epsilons.size)
    found = [index.cells.get(problem.cell_key(cell)) for cell in problem.risk_cells]
    errors = np.array([-1 if cell is None else cell["errors"] for cell in found], np.int64).reshape(shape)
    tests = np.full(shape, 2 * problem.test.total)
    confidence = problem.study.estimate.confidence
    level = share_level(None, shape, 1.0 - confidence)
    cells = make_risk_cells(errors, tests, epsilons, level, confidence)
    arrays = _cells(cells) | {
        "errors": (_CELL, cells.errors),
        "tests": (_CELL, cells.tests),
        "level": (_CELL, level),
    }
    return arrays | _maximum(cells)


def _literal_tradeoff(problem: Problem, index: Index) -> Arrays:
    shape = (len(problem.pairs), len(problem.study.estimate.etas), 2)
    found = [index.cells.get(problem.cell_key(cell)) for cell in problem.point_cells]
    rejected = np.array([(-1, -1) if cell is None else cell["rejected"] for cell in found], np.int64).reshape(shape)
    test = np.full(shape, problem.test.total)
    points = _points(problem, rejected, make_point_cells(rejected, test, problem.study.estimate.confidence))
    return points | {"rejected_test": (("pair", "side"), test[:, 0])}


def pair_entries(problem: Problem) -> list[dict[str, Any]]:
    """Where each pair comes from, as `show` prints it."""
    return [{"pair": pair.number, **pair.origin} for pair in problem.pairs]


def flat_batches(arrays: Sequence[NDArray[Any]], size: int) -> list[tuple[NDArray[Any], ...]]:
    """Flat arrays of one length cut into batches of at most `size`."""
    return [tuple(a[i : i + size] for a in arrays) for i in range(0, arrays[0].size, size)]
