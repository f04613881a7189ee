"""Results of samples that teach and test: δ̂ cross-fitted, bounds prequential."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.derived import CELL, Bools, Floats, Ints, Place, Records, Run, counted_cells, fewest, maximum_of
from hpcdp.engine.index import Index
from hpcdp.errors import StoreError
from hpcdp.methods.sample_split.derive import Counted, estimates_of, threshold_of
from hpcdp.notions.accuracy import resample_classes
from hpcdp.notions.levels import share_level
from hpcdp.notions.prequential import blocks, prequential_lower
from hpcdp.notions.resolution import Entries, largest_upper
from hpcdp.notions.reused import block_bounds, make_reused_cells
from hpcdp.notions.spectrum import exceedances
from hpcdp.store.results import Arrays
from hpcdp.study.estimate import Estimate
from hpcdp.study.problem import Problem
from hpcdp.study.reuse import FOLDS, Cut, first_block, most_learned


class Reused(Counted):
    """See `hpcdp.engine.derived.Derived`."""

    pools = True

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        return _reused(problem, index, epsilons, run)

    def bounds(self, *arrays: Any) -> Floats:
        return block_bounds(*arrays)

    def passing(self, a: float, b: float, inflation: float, level: float, claimed: float, now: int) -> int | None:
        """By the bound itself, of all samples per database, every block at the rates of the pool."""

        def passes(n: int) -> bool:
            sizes = np.array([len(block) for block in blocks(n, first_block(n))])
            counts = np.rint(a * sizes), sizes, np.rint(b * sizes), sizes
            return bool(prequential_lower(*counts, inflation, level) > claimed)

        return fewest(passes, now)

    def rejects(self, arrays: Arrays, place: Entries, level: float) -> Bools:
        """By the bets and the last test of the blocks."""
        x, epsilon = arrays["block_exceed"][1][place], arrays["epsilon"][1][place[2]]
        sizes = np.broadcast_to(arrays["block_test"][1], x.shape[:2])
        each = np.ones(len(x))
        return block_bounds(x[..., 0], sizes, x[..., 1], sizes, np.exp(epsilon) * each, level * each) > 0.0

    def resample(
        self, arrays: Arrays, records: Records, place: Place, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        threshold = threshold_of(arrays, place)
        thresholds, folds = _folds(records, place[0], threshold)
        drawn = np.sum([resample_classes(fold, replicates, rng)[0] for fold in folds], axis=0)
        return "folds", estimates_of(drawn, thresholds.index(threshold), arrays, place)

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        """Of the one L̂ that saw nothing of what it counts: that of the last block."""
        exceed = arrays["block_exceed"][1][:, :, :, -1][known]
        test = np.full_like(exceed, arrays["block_test"][1][-1])
        return largest_upper(exceed, test, np.exp(arrays["epsilon"][1][columns]), confidence)

    def trained(self, estimate: Estimate) -> int:
        return most_learned(estimate.pool)


DERIVED = Reused()


def _folds(records: Records, pair: int, threshold: float) -> tuple[tuple[float, ...], list[Ints]]:
    """Histograms of all folds at a set of thresholds with this one, and these."""
    for thresholds, parts in sorted(records.index.reused.get(records.problem.pool_keys[pair], {}).items()):
        if threshold in thresholds and all(part in parts for part in range(FOLDS)):
            return thresholds, [parts[part] for part in range(FOLDS)]
    raise StoreError(f"the counts of pair {pair} are not in the store any more")


def _reused(problem: Problem, index: Index, epsilons: NDArray[np.float64], run: Run) -> Arrays:
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
    arrays = counted_cells(cells, level, ranked) | {
        "block_exceed": ((*CELL, "block", "side"), blocks.copy()),
        "block_test": (("block",), sizes[FOLDS:].copy()),
    }
    return arrays | maximum_of(cells)
