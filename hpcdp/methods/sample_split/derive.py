"""Results of the counted way: one L̂ a pair, learned before the test, and how often test samples exceed it;
and certified bounds on Rényi divergences of named orders: counts by class, a score that training chose, two bets.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.derived import Entry, Floats, Ints, Records, counted_cells, maximum_of, points_of
from hpcdp.engine.index import Columns, Index, Span
from hpcdp.engine.method import Run
from hpcdp.errors import StoreError
from hpcdp.losses.counts import above, below, eta_thresholds
from hpcdp.methods.classes import families, taught, threshold_sets, total_of, totals, training_counts
from hpcdp.methods.sample_split.targets import target_column
from hpcdp.notions.accuracy import resample_chunks, resample_classes
from hpcdp.notions.anchors import anchor_level
from hpcdp.notions.dependence import ALARM, COLUMNS, dependence, merge_orders
from hpcdp.notions.renyi import class_counts
from hpcdp.notions.resolution import share_level
from hpcdp.notions.spectrum import by_direction, exceedances, make_cells, told_pairs
from hpcdp.notions.tradeoff import make_tradeoff
from hpcdp.notions.variational import choose_scores, class_losses, place_bets, variational_lower
from hpcdp.store.results import Arrays
from hpcdp.study.problem import Problem

_FEWEST_CHUNKS = 30  # with fewer, the spread over chunks is itself too uncertain


def order(pairs: int, tested: Iterable[tuple[list[Span], list[int]]]) -> Arrays:
    """The p-value of all tests of order together, if any depends on it; tested: spans, and draws of a chunk of each side."""
    rows, sizes = [np.zeros((0, COLUMNS + 2), np.int64)], [np.zeros(0, np.int64)]
    for spans, chunks in tested:
        known = [
            (np.asarray(s["order"], np.int64), np.asarray(s["counts"], np.int64)) for s in spans if "order" in s.sums
        ]
        known = [(orders, histogram) for orders, histogram in known if orders.size]
        rows += [merge_orders(*zip(*known, strict=True))] if known else []
        sizes += [np.repeat(chunks, len(rows[-1]) // 2)] if known else []
    p = dependence(np.concatenate(rows), np.concatenate(sizes))
    least = p.size * p.min(initial=1.0)
    return {"dependence": (("pair",), np.full(pairs, least))} if 0.0 < least < ALARM else {}


def special(problem: Problem, index: Index) -> Arrays:
    """Of how many test outputs of each side an entry is NaN, infinite or None, where any is."""
    if not problem.sampler.special:
        return {}
    wanted, counts = problem.thresholds.tolist(), np.zeros((len(problem.pairs), 2), np.int64)
    for pair, model in enumerate(problem.model_keys):
        stage = problem.stage_of("test", pair)
        for thresholds in threshold_sets(index, model, wanted, stage)[:1]:
            spans = [span for span in index.done(model, thresholds, stage) if "special" in span.sums]
            counts[pair] = sum((np.asarray(span["special"]) for span in spans), np.zeros(2, np.int64))
    return {"special": (("pair", "side"), counts)} if counts.any() else {}


def resample(
    arrays: Arrays, records: Records, entry: Entry, replicates: int, rng: np.random.Generator
) -> tuple[str, Floats]:
    """By chunks where there are many, else by classes; see `Method.resample`."""
    threshold = threshold_of(arrays, entry)
    thresholds, spans = _spans(records, entry[0], threshold)
    if len(spans) >= _FEWEST_CHUNKS and all(span.stop - span.start == 1 for span in spans):
        method, samples = "chunks", np.array([span.samples for span in spans])
        drawn, _ = resample_chunks(np.stack([span["counts"] for span in spans]), samples, replicates, rng)
    else:
        method = "classes"
        drawn, _ = resample_classes(total_of(spans), replicates, rng)
    return method, estimates_of(drawn, thresholds.index(threshold), arrays, entry)


def threshold_of(arrays: Arrays, entry: Entry) -> float:
    """Of L̂, at which a cell counts."""
    epsilon = float(arrays["epsilon"][1][entry[2]])
    return (epsilon if entry[1] == 0 else -epsilon) + 0.0


def estimates_of(drawn: Ints, column: int, arrays: Arrays, entry: Entry) -> Floats:
    """Estimates of one cell from resampled histograms (replicates, 2, classes)."""
    direction, epsilon = entry[1], float(arrays["epsilon"][1][entry[2]])
    sides = above(drawn)[..., column] if direction == 0 else below(drawn)[:, ::-1, column]
    drawn_of = drawn.sum(axis=2)  # of D, then of D', which may differ
    share: Any = sides / (drawn_of if direction == 0 else drawn_of[:, ::-1])
    return np.asarray(share[:, 0] - np.exp(epsilon) * share[:, 1])


def _spans(records: Records, pair: int, threshold: float) -> tuple[Columns, list[Span]]:
    """A set of thresholds with this one that has counts of all test chunks, and these."""
    problem, index = records.problem, records.index
    model, stage = problem.model_keys[pair], problem.stage_of("test", pair)
    for thresholds in threshold_sets(index, model, problem.thresholds.tolist(), stage):
        if threshold in thresholds and not index.missing(model, thresholds, stage):
            return thresholds, index.done(model, thresholds, stage)
    raise StoreError(f"the counts of pair {pair} are not in the store any more")


def spectrum(problem: Problem, index: Index, epsilons: NDArray[np.float64], run: Run) -> Arrays:
    """Entries by (pair, direction, ε) and their largest, at levels that training shares."""
    e = problem.study.estimate
    confidence, certify, target = e.confidence, e.certify, e.target
    wanted, c = problem.thresholds.tolist(), np.exp(epsilons)
    counted = np.empty((len(problem.pairs), 2, epsilons.size, 2), np.int64)
    for number, model in enumerate(problem.model_keys):
        counts = totals(index, model, wanted, problem.stage_of("test", number))
        counted[number] = exceedances(counts.above, counts.below, problem.thresholds, epsilons)
    exceed, samples = taught(problem, index, problem.model_keys, epsilons)
    seen = by_direction(np.maximum(1, samples))
    share = np.where(exceed >= 0, exceed / seen, np.nan)
    test = np.broadcast_to(by_direction(tests_of(problem)), counted.shape).copy()
    ranked = share[..., 0] - c * share[..., 1]
    spread = share * (1.0 - share)
    error = np.sqrt((spread[..., 0] + c * c * spread[..., 1] * (seen[..., 0] / seen[..., 1])) / seen[..., 0])
    if certify is None:
        level = share_level(ranked, ranked.shape, 1.0 - confidence, error=error)
        if target is not None and not np.isnan(share).any():  # half is for what the sizes are for
            aimed = np.arange(epsilons.size) == target_column(target, epsilons, share)
            level = 0.5 * (level + share_level(ranked, ranked.shape, 1.0 - confidence, aimed, error))
        level = anchor_level(level, share, test, epsilons, seen)
    else:
        level = share_level(ranked, ranked.shape, 1.0 - confidence, np.isin(epsilons, certify), error)
    cells = make_cells(counted, test, share, epsilons, level, confidence, run)
    return counted_cells(cells, level, ranked) | maximum_of(cells, told_pairs(test))


def tests_of(problem: Problem) -> NDArray[np.int64]:
    """Test samples of D and of D' of each pair, (pairs, 2), at least 1 where their number is not decided yet."""
    return np.maximum(1, [problem.sizes_of(number).tests for number in range(len(problem.pairs))])


def tradeoff(problem: Problem, index: Index) -> Arrays:
    """Trade-off points, and what training tells of them."""
    thresholds = eta_thresholds(np.asarray(problem.study.estimate.etas)).tolist()
    rejected = np.stack(
        [
            totals(index, model, thresholds, problem.stage_of("test", number)).below.T
            for number, model in enumerate(problem.model_keys)
        ]
    )
    test, sets = tests_of(problem), 1
    if problem.joins_sets:
        stages = [problem.stage_of("test", number) for number in range(len(problem.pairs))]
        sets = max(families(index, *pair) for pair in zip(problem.model_keys, repeat(thresholds), stages))
    points = points_of(problem, rejected, make_tradeoff(rejected, test, problem.study.estimate.confidence, sets))
    return points | {"rejected_test": (("pair", "side"), test)} | _training_curve(problem, index, thresholds)


def _training_curve(problem: Problem, index: Index, thresholds: list[float]) -> Arrays:
    """Shares of training outputs rejected at each η, and the curve's estimate: a density's perturbed points, else the shares."""
    etas, sides = problem.study.estimate.etas, ("pair", "eta", "side")
    shares = np.full((len(problem.pairs), len(etas), 2), np.nan)
    for number, model in enumerate(problem.model_keys):
        counts = training_counts(index, model, thresholds)
        if (counts.below >= 0).all():
            shares[number] = counts.below.T / np.maximum(1, counts.samples)
    curve = np.stack([shares[..., 0], 1.0 - shares[..., 1]])
    for number, model in enumerate(problem.model_keys):
        for facts in index.learned.get(model, {}).values():
            for eta, *point in np.asarray(facts.get("perturbed", ())).tolist():
                if eta in etas:
                    curve[:, number, etas.index(eta)] = point
    points: Arrays = {f"training_{n}": (("pair", "eta"), v) for n, v in zip(("alpha", "beta"), curve, strict=True)}
    return points | {"training_rejected": (sides, shares)}


_DIMS = ("pair", "direction", "order")


def variational_arrays(problem: Problem, index: Index, arrays: Arrays) -> Arrays:
    """Bounds on both directions of each pair and order, and levels: half shared equally. Finite-sample."""
    orders = np.array(problem.study.estimate.renyi or (), np.float64)
    exceed, test = arrays["exceed"][1], arrays["test"][1]
    shape, failure = (exceed.shape[0], 2, orders.size), 1.0 - problem.study.estimate.confidence
    epsilons, tests = np.asarray(problem.study.epsilons), test[:, :, 0].reshape(-1, 2)
    training, sizes = taught(problem, index, problem.model_keys, epsilons)
    of_training = class_counts(training, epsilons, np.broadcast_to(by_direction(sizes), training.shape))
    training, counts = (_both(classes) for classes in (of_training, class_counts(exceed, epsilons, test)))
    counts[np.repeat(several_losses(arrays), 2)] = -1
    middle = class_losses(epsilons)
    losses = np.tile(np.stack([middle, -middle]), (shape[0], 1))
    each = failure / (2 * exceed.shape[0] * orders.size)
    chosen = [choose_scores(training, losses, tests, float(order), each) for order in orders]
    promise = np.stack([scores.promise for scores in chosen], axis=-1).reshape(shape)
    level, lower = share_level(promise, shape, failure), np.empty(shape)
    for place, scores in enumerate(chosen):
        stakes = place_bets(scores, tests, level[..., place].ravel())
        lower[..., place] = variational_lower(scores, stakes, counts).reshape(shape[:2])
    bounds = {"variational_lower": lower, "variational_level": level, "variational_promise": promise}
    return {"order": (("order",), orders), **{name: (_DIMS, values) for name, values in bounds.items()}}


def _both(classes: Ints) -> Ints:
    """Counts by class of both directions of each pair, (2·pairs, classes, 2), the first law of D_a first."""
    return np.stack([classes, classes[..., ::-1]], axis=1).reshape(-1, *classes.shape[1:])


def pairs_of_one_loss(problem: Problem, index: Index) -> NDArray[np.bool_]:
    """Pairs, (pairs,), whose thresholds all have one L̂, so that its classes are those between them."""
    if not problem.joins_sets:
        return np.ones(len(problem.pairs), np.bool_)
    wanted = problem.thresholds.tolist()
    return np.array(
        [
            families(index, model, wanted, problem.stage_of("test", number)) <= 1
            for number, model in enumerate(problem.model_keys)
        ]
    )


def several_losses(arrays: Arrays) -> NDArray[np.bool_]:
    """Pairs, (pairs,), whose thresholds have not one L̂ (`pairs_of_one_loss`): no classes are common to all."""
    if "several_losses" not in arrays:
        return np.zeros(arrays["exceed"][1].shape[0], np.bool_)
    return np.asarray(arrays["several_losses"][1], np.bool_)
