"""Cross-fitting: samples teach and test; each part of a pair's pool is counted by an L̂ that did not see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.accuracy import Statement, state_accuracy
from hpcdp.engine.context import Context
from hpcdp.engine.derived import CELL, Bools, Entry, Floats, Ints, Records, counted_cells, fewest, maximum_of
from hpcdp.engine.index import Columns, Index, first_of
from hpcdp.engine.method import Method, Prints, Rows, Run
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.engine.task import Amounts, Costs
from hpcdp.errors import DamagedError, MechanismError, StoreError
from hpcdp.keys import digest_json
from hpcdp.losses import validate_parameters
from hpcdp.losses._alone import refuse_batch_dependent
from hpcdp.losses.protocol import Loss, Outputs, Side, ascending
from hpcdp.methods.choice import describe_reuse, part_seconds
from hpcdp.methods.classes import Exceed, threshold_sets
from hpcdp.methods.sample_split.derive import estimates_of, threshold_of
from hpcdp.notions.accuracy import resample_classes, share_radius, worst_share_error
from hpcdp.notions.prequential import block_bounds, blocks, make_reused_cells, prequential_lower
from hpcdp.notions.resolution import Entries, largest_upper, share_level
from hpcdp.notions.spectrum import exceedances
from hpcdp.store.results import Arrays
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import points_lacking
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.reuse import FEWEST, FOLDS, Cut, Part, first_block, least_learned, most_learned


class CrossFitting(Method):
    """See `Method`. The parts of a pool are the chunks of its series."""

    asked = "estimate.reuse = true"
    accepted = "any one loss but literal-knn and histogram, alone"
    unaudited = (
        "estimate.reuse: an audit tests one L̂ on samples that taught nothing; given: reuse; accepted by audit: false"
    )
    pools = True
    sets = "its folds' learned sets, on average"

    def limits(self, study: Study) -> Iterator[str]:
        e = study.estimate
        if e.pool < FEWEST:
            yield f"estimate.reuse: at least {FEWEST} samples, train and test together; given: {e.pool}"
        fewest = 2 * least_learned(e.pool)
        words = f"with reuse at most {fewest}, so many points of both sides teach the first L̂"
        yield from points_lacking(e, fewest, words)

    def takes_special(self, study: Study) -> bool:
        return True

    def fewest_learned(self, estimate: Estimate) -> int:
        """Of a study that leaves reuse open the fewest of both methods."""
        fewest = least_learned(estimate.pool)
        return fewest if estimate.reuse is True else min(estimate.train, fewest)

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        stage = Stage("part", len(_cut(problem).parts), 1, 1)
        wanted, place = problem.thresholds.tolist(), {law: number for number, law in enumerate(problem.laws)}
        pools = first_of(problem.once(pool_keys)).items()
        series = [
            Series("reuse", pool, problem.pair_laws[pair], stage, pair, columns)
            for pool, pair in sorted(pools, key=lambda item: place[problem.pair_laws[item[1]][0]])
            for columns in threshold_sets(index, pool, wanted, stage)
        ]
        return [Phase(series, counted="learn, count", unit="parts of pairs", reads=("train", "test"))]

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        parts = _cut(problem).parts
        return Effort(sum(part_seconds(costs, part) for part in parts) / len(parts))

    def amounts(self, problem: Problem) -> Amounts:
        """In memory the pools of both sides, four fifths of them again, and what a loss makes of it."""
        pool = problem.study.estimate.pool
        memory = 2 * 4 * pool * problem.schema.bytes_in_memory
        return replace(super().amounts(problem), memory=memory, learned=most_learned(pool))

    def worst_errors(self, problem: Problem, epsilon: float) -> tuple[float, float]:
        pool = problem.study.estimate.pool
        return worst_share_error(epsilon, pool), worst_share_error(epsilon, pool, is_sound=False)

    def state_accuracy(self, study: Study, columns: int | None, pairs: int, test: int | None = None) -> list[Statement]:
        fold = study.estimate.pool // FOLDS  # the smallest
        return state_accuracy(study, None, pairs, fold, lambda level, share: share_radius(level, fold, share / FOLDS))

    def describe_choices(self, problem: Problem, index: Index, costs: Costs, workers: int) -> Rows:
        return describe_reuse(problem, costs, index.chosen)

    def count(
        self,
        context: Context,
        counters: Mapping[Series, Any],
        chunks: range,
        report: Report,
        prints: Prints,
    ) -> dict[Series, dict[str, Any]]:
        problem, pools, sums = context.problem, dict[str, Outputs](), {}
        for series in counters:
            points = np.asarray(series.columns)
            pools = {law: outputs for law, outputs in pools.items() if law in series.laws}
            try:
                for law in series.laws:
                    if law not in pools:
                        pools[law] = read_pool(context, law)
                both = pools[series.laws[0]], pools[series.laws[1]]
                chunk, parts = problem.study.estimate.chunk, [_cut(problem).parts[number] for number in chunks]
                counts = [count_part(context.loss, both, part, points, chunk, context.foreign) for part in parts]
            except (MechanismError, DamagedError) as error:
                report.failures.append(Failure.of(self.describe_series(problem, [series]), error))
                continue
            sums[series] = {"parts": np.stack(counts).tolist()}
        return sums

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        """The first block's cross-fitted counts rank the pairs."""
        cut, wanted = _cut(problem), problem.thresholds.tolist()
        confidence = problem.study.estimate.confidence
        sizes = np.array([part.counted for part in cut.parts])
        counted = np.empty((len(problem.pairs), 2, epsilons.size, sizes.size, 2), np.int64)
        for number, pool in enumerate(problem.once(pool_keys)):
            parts = _parts(index, pool, sizes.size)
            for part in range(sizes.size):
                counts = Exceed.pick(((t, own[part]) for t, own in parts.items() if part in own), wanted)
                counted[number, :, :, part] = exceedances(counts.above, counts.below, problem.thresholds, epsilons)
        folds, blocks_ = counted[..., :FOLDS, :], counted[..., FOLDS:, :]
        practice = np.where(blocks_[..., 0, :] >= 0, blocks_[..., 0, :] / sizes[FOLDS], np.nan)
        ranked = practice[..., 0] - np.exp(epsilons) * practice[..., 1]
        level = share_level(ranked, ranked.shape, 1.0 - confidence)
        cells = make_reused_cells(folds, sizes[:FOLDS], blocks_, sizes[FOLDS:], epsilons, level, confidence, run)
        arrays = counted_cells(cells, level, ranked) | {
            "block_exceed": ((*CELL, "block", "side"), blocks_.copy()),
            "block_test": (("block",), sizes[FOLDS:].copy()),
        }
        return arrays | maximum_of(cells)

    def bounds(self, *arrays: Any) -> Floats:
        return block_bounds(*arrays)

    def passing(self, a: float, b: float, inflation: float, level: float, claimed: float, now: int) -> int | None:
        """By the bound itself, of all samples per database, every block at the rates of the pool."""

        def passes(n: int) -> bool:
            sizes = np.array([len(block) for block in blocks(n, first_block(n))])
            counts = np.rint(a * sizes), sizes, np.rint(b * sizes), sizes
            return bool(prequential_lower(*counts, inflation, level) > claimed)

        return fewest(passes, now)

    def rejects(self, arrays: Arrays, entries: Entries, level: float) -> Bools:
        """By the bets and the last test of the blocks."""
        x, epsilon = arrays["block_exceed"][1][entries], arrays["epsilon"][1][entries[2]]
        sizes = np.broadcast_to(arrays["block_test"][1], x.shape[:2])
        each = np.ones(len(x))
        return block_bounds(x[..., 0], sizes, x[..., 1], sizes, np.exp(epsilon) * each, level * each) > 0.0

    def resample(
        self, arrays: Arrays, records: Records, entry: Entry, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        threshold = threshold_of(arrays, entry)
        thresholds, folds = _folds(records, entry[0], threshold)
        drawn = np.sum([resample_classes(fold, replicates, rng)[0] for fold in folds], axis=0)
        return "folds", estimates_of(drawn, thresholds.index(threshold), arrays, entry)

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        """Of the one L̂ that saw nothing of what it counts: that of the last block."""
        exceed = arrays["block_exceed"][1][:, :, :, -1][known]
        test = np.full_like(exceed, arrays["block_test"][1][-1])
        return largest_upper(exceed, test, np.exp(arrays["epsilon"][1][columns]), confidence)

    def trained(self, estimate: Estimate) -> int:
        return most_learned(estimate.pool)

    def describe_columns(self, result: Any, sure: str) -> list[str]:
        first, *sizes = result["block_test"].tolist()
        return [
            *super().describe_columns(result, sure),
            f"reuse: δ̂ is cross-fitted over {int(result['test'].max()):,} samples per database, in {FOLDS} folds; it may "
            f"spread more than its error says (asymptotic). The bounds are prequential: after a first block of {first:,} "
            f"samples come blocks of {', '.join(f'{size:,}' for size in sizes)}, each counted by an L̂ that learned from all "
            "before it.",
        ]

    def describe_limits(self, sure: str) -> str:
        return f"{super().describe_limits(sure)} Of the sets, those that the last block tests."


METHOD = CrossFitting()


def pool_keys(problem: Problem) -> list[str]:
    """Key of each pair's counts: the loss, its parameters, the samples and how they are cut."""
    e = problem.study.estimate
    parameters = validate_parameters(e.default_loss, e.parameters).model_dump(mode="json")
    cut = [FOLDS, first_block(e.pool)]
    head = ["reuse", e.default_loss, parameters, e.train, e.test, e.chunk, cut]
    return [digest_json([*head, d, d_prime]) for d, d_prime in problem.pair_laws]


def _cut(problem: Problem) -> Cut:
    return Cut.of(problem.study.estimate.pool)


def _parts(index: Index, pool: str, parts: int) -> dict[Columns, dict[int, Ints]]:
    """Histograms (2, 2T + 1) of the parts that records hold, by thresholds."""
    histograms: dict[Columns, dict[int, Ints]] = {}
    for columns in sorted(index.spans.get(pool, {})):
        for span in index.done(pool, columns, Stage("part", parts, 1, 1)):
            counts = np.asarray(span["parts"], np.int64)
            histograms.setdefault(columns, {}).update(zip(range(span.start, span.stop), counts, strict=True))
    return histograms


def _folds(records: Records, pair: int, threshold: float) -> tuple[Columns, list[Ints]]:
    """Histograms of all folds at a set of thresholds with this one, and these."""
    pool, parts = records.problem.once(pool_keys)[pair], len(_cut(records.problem).parts)
    for thresholds, own in _parts(records.index, pool, parts).items():
        if threshold in thresholds and all(part in own for part in range(FOLDS)):
            return thresholds, [own[part] for part in range(FOLDS)]
    raise StoreError(f"the counts of pair {pair} are not in the store any more")


def read_pool(context: Context, law: str) -> Outputs:
    """All samples of a law in the order of its pool: those of training, then those of testing."""
    problem = context.problem
    schema, filled = problem.schema, 0
    outputs = np.empty(schema.shape(problem.study.estimate.pool), schema.dtype)
    for stage in (problem.train, problem.test):
        for part in context.chunks(stage, law, range(stage.chunks)):
            outputs[filled : filled + part.shape[0]] = part
            filled += part.shape[0]
    return outputs


def count_part(
    loss: Loss,
    pools: tuple[Outputs, Outputs],
    part: Part,
    thresholds: NDArray[np.float64],
    chunk: int,
    foreign: str | None = None,
) -> NDArray[np.int64]:
    """Histograms (2, 2T + 1) of a part by class, D first; MechanismError where the class `foreign` does not judge one by one."""
    histograms = np.zeros((2, 2 * thresholds.size + 1), np.int64)
    for step in part.steps:
        p, q = (_side(np.concatenate([pool[r.start : r.stop] for r in step.learned])) for pool in pools)
        counter = loss.fit(p, q).counter(thresholds)
        for side, pool in enumerate(pools):
            if foreign is not None and step is part.steps[0]:
                first = pool[step.counted.start : min(step.counted.start + chunk, step.counted.stop)]
                refuse_batch_dependent(counter, first, foreign)
            for start in range(step.counted.start, step.counted.stop, chunk):
                histograms[side] += counter.count(pool[start : min(start + chunk, step.counted.stop)])
    return histograms


def _side(outputs: Outputs) -> Side:
    """Training outputs as a loss gets them of any study: reals in ascending order."""
    if outputs.ndim == 1 and outputs.dtype == np.float64:
        return Side(ascending(outputs), outputs.shape[0], is_sorted=True)
    return Side(outputs, outputs.shape[0])
