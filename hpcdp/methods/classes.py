"""Sums by class of L̂: how often outputs were above and below thresholds, out of the records of one or several sets of these;
and entries of methods that count each law by outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.derived import Floats, Ints, counted_cells, maximum_of
from hpcdp.engine.index import Columns, Index
from hpcdp.engine.method import Adder, Run
from hpcdp.losses._alone import refuse_batch_dependent
from hpcdp.losses.counts import above, below
from hpcdp.losses.protocol import Counter
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.special import count_special
from hpcdp.notions.dependence import COLUMNS, count_in_order, looked_thresholds
from hpcdp.notions.resolution import share_level
from hpcdp.notions.spectrum import exceedances, make_cells
from hpcdp.store.results import Arrays
from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem


@dataclass(frozen=True, eq=False)
class Exceed:
    """How often L̂ was strictly above and below each threshold, (2, T) int64, D first; samples: of how many outputs, (2,)."""

    above: Ints
    below: Ints
    samples: Ints

    @classmethod
    def of(cls, histogram: Ints) -> Exceed:
        """From the histograms (2, 2T + 1) of both sides."""
        return cls(above(histogram), below(histogram), histogram.sum(axis=1))

    @classmethod
    def pick(cls, parts: Iterable[tuple[Columns, Ints]], wanted: Sequence[float]) -> Exceed:
        """Columns of the wanted thresholds out of the histograms of several sets of these; −1 where none has them."""
        known = [(thresholds, cls.of(histogram)) for thresholds, histogram in parts]
        if len(known) == 1 and known[0][0] == tuple(wanted):
            return known[0][1]
        over, under = (np.full((2, len(wanted)), -1, np.int64) for _ in range(2))
        for thresholds, part in known:
            place = {threshold: i for i, threshold in enumerate(thresholds)}
            for i, threshold in enumerate(wanted):
                if threshold in place:
                    over[:, i], under[:, i] = part.above[:, place[threshold]], part.below[:, place[threshold]]
        return cls(over, under, known[0][1].samples if known else np.zeros(2, np.int64))


def threshold_sets(index: Index, key: str, wanted: Sequence[float], stage: Stage) -> list[Columns]:
    """Sets of thresholds whose records together serve the wanted ones; the last may have no record yet."""
    rest, known = set(wanted), index.spans.get(key, {})
    chosen = []
    done = {thresholds: sum(span.samples for span in index.done(key, thresholds, stage)) for thresholds in known}
    for thresholds in sorted(known, key=lambda t: (-done[t], t)):
        if rest & set(thresholds) and done[thresholds]:
            chosen.append(thresholds)
            rest -= set(thresholds)
    if rest:
        chosen.append(tuple(sorted(rest)))
    return chosen


def _whole_sets(index: Index, key: str, wanted: Sequence[float], stage: Stage) -> list[Columns]:
    """Those of the sets that have all chunks of the stage."""
    if not stage.total:
        return []
    sets = threshold_sets(index, key, wanted, stage)
    return [thresholds for thresholds in sets if not index.missing(key, thresholds, stage)]


def totals(index: Index, key: str, wanted: Sequence[float], stage: Stage) -> Exceed:
    """Counts over the whole stage at the wanted thresholds; −1 in columns that are not all counted yet."""
    sets = _whole_sets(index, key, wanted, stage)
    return Exceed.pick(((t, total_of(index.done(key, t, stage))) for t in sets), wanted)


def total_of(spans: Iterable[Any]) -> Ints:
    """The sum of spans' histograms."""
    total: Ints = np.sum([np.asarray(span["counts"], np.int64) for span in spans], axis=0)
    return total


def families(index: Index, key: str, wanted: Sequence[float], stage: Stage) -> int:
    """Of how many sets of thresholds, counted apart, `totals` takes the wanted ones; at least 1."""
    taken: dict[float, Columns] = {}
    for thresholds in _whole_sets(index, key, wanted, stage):
        taken |= dict.fromkeys(set(wanted) & set(thresholds), thresholds)
    return max(1, len(set(taken.values())))


def training_counts(index: Index, key: str, wanted: Sequence[float]) -> Exceed:
    """Counts on training outputs, for what is decided before testing; −1 in columns that are missing."""
    known = index.learned.get(key, {})
    return Exceed.pick(((t, np.asarray(known[t]["training"], np.int64)) for t in sorted(known)), wanted)


def taught(problem: Problem, index: Index, keys: Sequence[str], epsilons: Floats) -> tuple[Ints, Ints]:
    """What training showed of pairs, by their keys: outputs in sets, (pairs, 2, ε, 2), −1 unknown; of how many, (pairs, 2)."""
    counts = [training_counts(index, key, problem.thresholds.tolist()) for key in keys]
    exceed = [exceedances(c.above, c.below, problem.thresholds, epsilons) for c in counts]
    return np.stack(exceed), np.stack([c.samples for c in counts])


class ClassCounts(Adder):
    """Adds up outputs of both sides by class, and their order; check: refuses those that `counter` does not judge one by one."""

    def __init__(
        self,
        counter: Counter,
        thresholds: int,
        chunk: tuple[int, int],
        check: Callable[[Counter, int, Outputs], None],
        tells_special: bool = False,
    ) -> None:
        self.counter, self.chunk, self.check = counter, chunk, check
        self.special = [0, 0] if tells_special else None
        self.histogram = np.zeros((2, 2 * thresholds + 1), np.int64)
        self.order = np.zeros((2, looked_thresholds(thresholds).size, COLUMNS), np.int64)

    def add(self, side: int, outputs: Outputs) -> None:
        self.check(self.counter, side, outputs)
        if self.special is not None:
            self.special[side] += count_special(outputs)
        count_in_order(self.counter, outputs, self.chunk[side], self.histogram[side], self.order[side])

    def sums(self) -> dict[str, Any]:
        own = {"counts": self.histogram.tolist(), "order": self.order.tolist()}
        return own if self.special is None else own | {"special": self.special}


def checker(
    foreign: str | None, laws: Sequence[str], is_first: Callable[[str], bool]
) -> Callable[[Counter, int, Outputs], None]:
    """What refuses a class of somebody's that judges a law's first outputs otherwise in another batch. foreign: its name."""

    def check(counter: Counter, side: int, outputs: Outputs) -> None:
        if foreign is not None and is_first(laws[side]):
            refuse_batch_dependent(counter, outputs, foreign)

    return check


def entries_of_outcomes(
    problem: Problem, training: Ints | None, counts: Ints, sides: Ints, epsilons: Floats, run: Run
) -> Arrays:
    """Arrays of the sets of outcomes in which training outputs of one law outweigh the other's: {L̂ > ε}, {−L̂ > ε}.

    Certified bounds are finite-sample: the sets are fixed by training outputs before test outputs are counted.

    Args:
        problem: the study's.
        training: counts of `train` outputs of each law by outcome, (laws, outcomes); None while some are missing.
        counts: the same of `test` outputs, −1 while some are missing.
        sides: which laws are D and D' of each pair, (pairs, 2).
        epsilons: levels, (k,).
        run: what computes bounds, as `Method.arrays` gets it.
    """
    e, shape = problem.study.estimate, (len(sides), 2, epsilons.size)
    exceed, share = np.full((*shape, 2), -1, np.int64), np.full((*shape, 2), np.nan)
    if training is not None:
        for pair, laws in enumerate(sides):
            for direction, (one, other) in enumerate((laws, laws[::-1])):
                chosen = _loss(training[one], training[other])[:, None] > epsilons  # (outcomes, ε)
                share[pair, direction] = np.stack([training[law] @ chosen for law in (one, other)], axis=-1) / e.train
                if counts.min() >= 0:
                    exceed[pair, direction] = np.stack([counts[law] @ chosen for law in (one, other)], axis=-1)
    test = np.full(exceed.shape, problem.test.total)
    ranked = np.where(np.isnan(share).any(axis=-1), np.nan, share[..., 0] - np.exp(epsilons) * share[..., 1])
    level = share_level(ranked, shape, 1.0 - e.confidence)
    cells = make_cells(exceed, test, share, epsilons, level, e.confidence, run)
    return counted_cells(cells, level, ranked) | maximum_of(cells)


def _loss(p: Ints, q: Ints) -> NDArray[np.float64]:
    """log(p/q) of each outcome, 0 where neither law had any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.log(p) - np.log(q), nan=0.0, posinf=np.inf, neginf=-np.inf)
