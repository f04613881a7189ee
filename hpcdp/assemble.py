"""From records to results: every array that `show` prints, from the integer counts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.counts import eta_thresholds
from hpcdp.index import Index, literal_keys
from hpcdp.notions.levels import share_level
from hpcdp.notions.spectrum import LowerBounds, exceedances, lower_bounds, make_cells, maximum
from hpcdp.notions.testing_risk import make_risk_cells
from hpcdp.notions.tradeoff import make_tradeoff
from hpcdp.problem import Problem

Arrays = dict[str, tuple[tuple[str, ...], NDArray[Any]]]
"""Results by name: dimension names and values."""

_CELL = ("pair", "direction", "epsilon")


def assemble(problem: Problem, index: Index, run: LowerBounds = lower_bounds) -> Arrays:
    """All result arrays of a store's records; cells that lack counts hold NaN and −1."""
    epsilons = np.asarray(problem.study.estimate.epsilons)
    arrays: Arrays = {"epsilon": (("epsilon",), epsilons), "direction": (("direction",), np.array([0, 1], np.int8))}
    if problem.is_literal:
        return arrays | _literal(problem, index, epsilons)
    arrays |= _spectrum(problem, index, epsilons, run)
    if problem.study.estimate.etas:
        arrays |= _tradeoff(problem, index)
    return arrays


def _spectrum(problem: Problem, index: Index, epsilons: NDArray[np.float64], run: LowerBounds) -> Arrays:
    confidence = problem.study.estimate.confidence
    wanted = problem.thresholds.tolist()
    exceed, training = [], []
    for model in problem.model_keys:
        counts, trained = index.totals(model, wanted, problem.test), index.training_counts(model, wanted)
        exceed.append(exceedances(counts.above, counts.below, problem.thresholds, epsilons))
        found = exceedances(trained.above, trained.below, problem.thresholds, epsilons)
        training.append(np.where(found >= 0, found / max(1, trained.samples), np.nan))
    counted, share = np.stack(exceed), np.stack(training)
    test = np.full_like(counted, problem.test.total)
    ranked = np.where(np.isnan(share).any(axis=-1), np.nan, share[..., 0] - np.exp(epsilons) * share[..., 1])
    level = share_level(ranked, counted.shape[:3], 1.0 - confidence)
    cells = make_cells(counted, test, share, epsilons, level, confidence, run)
    arrays: Arrays = {
        "delta": (_CELL, cells.delta),
        "standard_error": (_CELL, cells.standard_error),
        "lower": (_CELL, cells.lower),
        "upper": (_CELL, cells.upper),
        "exceed": ((*_CELL, "side"), cells.exceed),
        "test": ((*_CELL, "side"), cells.test),
        "level": (_CELL, level),
        "training_delta": (_CELL, ranked),
    }
    return arrays | _maximum(cells)


def _maximum(cells: Any) -> Arrays:
    best = maximum(cells)
    names = ("delta", "pair", "direction", "lower", "lower_pair", "lower_direction", "upper")
    return {f"spectrum_{name}": (("epsilon",), getattr(best, name)) for name in names}


def _tradeoff(problem: Problem, index: Index) -> Arrays:
    etas = np.asarray(problem.study.estimate.etas)
    thresholds = eta_thresholds(etas).tolist()
    rejected = np.stack([index.totals(model, thresholds, problem.test).below.T for model in problem.model_keys])
    test = np.full((len(problem.pairs), 2), problem.test.total)
    points = make_tradeoff(rejected, test, problem.study.estimate.confidence)
    names = ("alpha", "beta", "radius", "alpha_upper", "beta_upper")
    found: Arrays = {name: (("pair", "eta"), getattr(points, name)) for name in names}
    return found | {"eta": (("eta",), etas), "rejected": (("pair", "eta", "side"), rejected)}


def _literal(problem: Problem, index: Index, epsilons: NDArray[np.float64]) -> Arrays:
    shape = (len(problem.pairs), 2, epsilons.size)
    found = [index.cells.get(key) for key in literal_keys(problem)]
    errors = np.array([-1 if cell is None else cell["errors"] for cell in found], np.int64).reshape(shape)
    tests = np.full(shape, 2 * problem.test.total)
    confidence = problem.study.estimate.confidence
    level = share_level(None, shape, 1.0 - confidence)
    cells = make_risk_cells(errors, tests, epsilons, level, confidence)
    arrays: Arrays = {
        "delta": (_CELL, cells.delta),
        "standard_error": (_CELL, cells.standard_error),
        "lower": (_CELL, cells.lower),
        "upper": (_CELL, cells.upper),
        "errors": (_CELL, cells.errors),
        "tests": (_CELL, cells.tests),
        "level": (_CELL, level),
    }
    return arrays | _maximum(cells)


def pair_entries(problem: Problem) -> list[dict[str, Any]]:
    """Where each pair comes from, as `show` prints it."""
    return [{"pair": pair.number, **pair.origin} for pair in problem.pairs]


def flat_batches(arrays: Sequence[NDArray[Any]], size: int) -> list[tuple[NDArray[Any], ...]]:
    """Flat arrays of one length cut into batches of at most `size`."""
    return [tuple(a[i : i + size] for a in arrays) for i in range(0, arrays[0].size, size)]
