"""Results of the counted way: one L̂ a pair, learned before the test, and how often test samples exceed it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.derived import (
    Bools,
    Derived,
    Floats,
    Ints,
    Place,
    Records,
    Run,
    counted_cells,
    fewest,
    maximum_of,
    points_of,
)
from hpcdp.engine.index import Index, Span, first_of
from hpcdp.errors import StoreError
from hpcdp.losses.counts import above, below, eta_thresholds
from hpcdp.methods.sample_split.targets import target_column
from hpcdp.methods.sample_split.variational import pairs_of_one_loss, variational_arrays
from hpcdp.notions.accuracy import resample_chunks, resample_classes
from hpcdp.notions.anchors import anchor_level
from hpcdp.notions.bounds import joint_lower, joint_rejects, standard_error
from hpcdp.notions.dependence import ALARM, COLUMNS, dependence, merge_orders
from hpcdp.notions.levels import share_level
from hpcdp.notions.resolution import Entries, largest_upper
from hpcdp.notions.spectrum import by_direction, exceedances, make_cells, told_pairs
from hpcdp.notions.tradeoff import make_tradeoff
from hpcdp.store.results import Arrays

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem

_FEWEST_CHUNKS = 30  # with fewer, the spread over chunks is itself too uncertain


class Counted(Derived):
    """See `Derived`."""

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        found, e = _spectrum(problem, index, epsilons, run), problem.study.estimate
        found |= _tradeoff(problem, index) if e.etas else {}
        whole = pairs_of_one_loss(problem, index)
        if not whole.all():
            found |= {"several_losses": (("pair",), (~whole).astype(np.uint8))}
        found |= variational_arrays(problem, index, found) if e.renyi else {}
        return found | self.order(problem, index)

    def tested_spans(self, problem: Problem, index: Index) -> Iterator[tuple[list[Span], list[int]]]:
        """The spans in which some sets of a pair were counted, and draws of a whole chunk of each side, of each pair."""
        wanted = problem.thresholds.tolist()
        for model, number in first_of(problem.model_keys).items():
            stage, other = (problem.stage_of("test", number, side) for side in (0, 1))
            for thresholds in index.threshold_sets(model, wanted, stage):
                yield index.done(model, thresholds, stage), [stage.chunk, other.chunk]

    def order(self, problem: Problem, index: Index) -> Arrays:
        """Where test outputs depend on each other by their order, the p-value of all tests together; else nothing."""
        rows, sizes = [np.zeros((0, COLUMNS + 2), np.int64)], [np.zeros(0, np.int64)]
        for spans, chunks in self.tested_spans(problem, index):
            known = [(span.order, span.histogram) for span in spans if span.order.size]
            rows += [merge_orders(*zip(*known, strict=True))] if known else []
            sizes += [np.repeat(chunks, len(rows[-1]) // 2)] if known else []
        p = dependence(np.concatenate(rows), np.concatenate(sizes))
        found = p.size * p.min(initial=1.0)
        return {"dependence": (("pair",), np.full(len(problem.pairs), found))} if 0.0 < found < ALARM else {}

    def careful_error(self, arrays: Arrays) -> Floats:
        exceed, test, delta = (arrays[name][1] for name in ("exceed", "test", "delta"))
        inflation = np.broadcast_to(np.exp(arrays["epsilon"][1]), delta.shape)
        x, n = np.maximum(exceed, 0) + 1, test + 2
        found = standard_error(x[..., 0], n[..., 0], x[..., 1], n[..., 1], inflation)
        return np.where(exceed.min(axis=-1) >= 0, found, np.nan)

    def needed_to_pass(self, arrays: Arrays, place: Place, claimed: float) -> int | None:
        return self.passing(*rates_of(arrays, place), claimed, self.tests_at(arrays, place))

    def passing(self, a: float, b: float, inflation: float, level: float, claimed: float, now: int) -> int | None:
        """Samples per database, now or more, after which the joint bound passes a claim at these rates. Asymptotic."""

        def passes(n: int) -> bool:
            return bool(joint_lower(round(a * n), n, round(b * n), n, inflation, level, floor=claimed) > claimed)

        return fewest(passes, now) if a - inflation * b > claimed else None

    def resample(
        self, arrays: Arrays, records: Records, place: Place, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        threshold = threshold_of(arrays, place)
        thresholds, spans = _spans(records, place[0], threshold)
        histograms = np.stack([span.histogram for span in spans])
        if len(spans) >= _FEWEST_CHUNKS and all(span.stop - span.start == 1 for span in spans):
            method, samples = "chunks", np.array([span.samples for span in spans])
            drawn, _ = resample_chunks(histograms, samples, replicates, rng)
        else:
            method = "classes"
            drawn, _ = resample_classes(histograms.sum(axis=0), replicates, rng)
        return method, estimates_of(drawn, thresholds.index(threshold), arrays, place)

    def rejects(self, arrays: Arrays, place: Entries, level: float) -> Bools:
        """By the exact joint test of a <= e^ε·b."""
        (x0, x1), (n0, n1) = (arrays[name][1][place].T for name in ("exceed", "test"))
        return joint_rejects(x0, n0, x1, n1, math.exp(arrays["epsilon"][1][place[2]]), level)

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        exceed, test = (arrays[name][1][known] for name in ("exceed", "test"))
        return largest_upper(exceed, test, np.exp(arrays["epsilon"][1][columns]), confidence)

    def needed(
        self, arrays: Arrays, place: Place, measured: float, delta: float, inflation: float, level: float
    ) -> tuple[int | None, int]:
        share, now = float(arrays["exceed"][1][place][0] / arrays["test"][1][place][0]), self.tests_at(arrays, place)
        a = min(1.0, share / measured * delta)
        return self.passing(a, max(0.0, a - delta) / inflation, inflation, level, 0.0, now), now


DERIVED = Counted()


def rates_of(arrays: Arrays, place: Place) -> tuple[float, float, float, float]:
    """Of a cell: shares of both sides, e^ε, and its level; without one, the mean of its pair and direction's."""
    exceed, test = (arrays[name][1][place].tolist() for name in ("exceed", "test"))
    inflation = math.exp(float(arrays["epsilon"][1][place[2]]))
    levels = arrays["level"][1][place[:2]]
    level = float(levels[place[2]]) or float(levels.sum() / np.count_nonzero(levels))
    return exceed[0] / test[0], exceed[1] / test[1], inflation, level


def threshold_of(arrays: Arrays, place: Place) -> float:
    """Of L̂, at which a cell counts."""
    epsilon = float(arrays["epsilon"][1][place[2]])
    return (epsilon if place[1] == 0 else -epsilon) + 0.0


def estimates_of(drawn: Ints, column: int, arrays: Arrays, place: Place) -> Floats:
    """Estimates of one cell from resampled histograms (replicates, 2, classes)."""
    direction, epsilon = place[1], float(arrays["epsilon"][1][place[2]])
    sides = above(drawn)[..., column] if direction == 0 else below(drawn)[:, ::-1, column]
    totals = drawn.sum(axis=2)  # of D, then of D', which may differ
    share: Any = sides / (totals if direction == 0 else totals[:, ::-1])
    return np.asarray(share[:, 0] - np.exp(epsilon) * share[:, 1])


def _spans(records: Records, pair: int, threshold: float) -> tuple[tuple[float, ...], list[Span]]:
    """A set of thresholds with this one that has counts of all test chunks, and these."""
    problem, index = records.problem, records.index
    model, stage = problem.model_keys[pair], problem.stage_of("test", pair)
    for thresholds in index.threshold_sets(model, problem.thresholds.tolist(), stage):
        if threshold in thresholds and not index.missing(model, thresholds, stage):
            return thresholds, index.done(model, thresholds, stage)
    raise StoreError(f"the counts of pair {pair} are not in the store any more")


def _spectrum(problem: Problem, index: Index, epsilons: NDArray[np.float64], run: Run) -> Arrays:
    e = problem.study.estimate
    confidence, certify, target = e.confidence, e.certify, e.target
    wanted, c = problem.thresholds.tolist(), np.exp(epsilons)
    pairs = len(problem.pairs)
    counted, share = np.empty((pairs, 2, epsilons.size, 2), np.int64), np.empty((pairs, 2, epsilons.size, 2))
    seen = np.empty((pairs, 2, 1, 2), np.int64)
    for number, model in enumerate(problem.model_keys):
        counts = index.totals(model, wanted, problem.stage_of("test", number))
        taught = index.training_counts(model, wanted)
        counted[number] = exceedances(counts.above, counts.below, problem.thresholds, epsilons)
        found = exceedances(taught.above, taught.below, problem.thresholds, epsilons)
        seen[number] = by_direction(np.maximum(1, taught.samples)[None])[0]
        share[number] = np.where(found >= 0, found / seen[number], np.nan)
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


def _tradeoff(problem: Problem, index: Index) -> Arrays:
    thresholds = eta_thresholds(np.asarray(problem.study.estimate.etas)).tolist()
    rejected = np.stack(
        [
            index.totals(model, thresholds, problem.stage_of("test", number)).below.T
            for number, model in enumerate(problem.model_keys)
        ]
    )
    test, families = tests_of(problem), 1
    if problem.joins_sets:
        stages = [problem.stage_of("test", number) for number in range(len(problem.pairs))]
        families = max(index.families(*pair) for pair in zip(problem.model_keys, repeat(thresholds), stages))
    found = points_of(problem, rejected, make_tradeoff(rejected, test, problem.study.estimate.confidence, families))
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
            shares[number] = counts.below.T / np.maximum(1, counts.samples)
    curve = np.stack([shares[..., 0], 1.0 - shares[..., 1]])
    for number, model in enumerate(problem.model_keys):
        known = index.perturbed.get(model, {})
        for column, eta in enumerate(etas):
            if eta in known:
                curve[:, number, column] = known[eta]
    points: Arrays = {f"training_{n}": (("pair", "eta"), v) for n, v in zip(("alpha", "beta"), curve, strict=True)}
    return points | {"training_rejected": (sides, shares)}
