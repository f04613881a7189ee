"""A way of estimating of its own, in one file: L̂ = slope · output + offset is given, nothing is learned, every sample tests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import BaseModel

from hpcdp.engine.derived import counted_cells, maximum_of
from hpcdp.engine.index import first_of
from hpcdp.engine.sweep import sweep
from hpcdp.engine.task import Amounts, Progress, Task, Work
from hpcdp.keys import digest_json
from hpcdp.losses import LOSSES, LossKind
from hpcdp.losses.counts import count_losses
from hpcdp.methods.sample_split.derive import Counted, estimates_of, threshold_of
from hpcdp.methods.sample_split.plan import draws_and_calls, worst_errors  # noqa: F401  # a part of this way
from hpcdp.notions.accuracy import resample_classes
from hpcdp.notions.levels import share_level
from hpcdp.notions.spectrum import exceedances, make_cells
from hpcdp.study.problem import describe_pairs
from hpcdp.study.ways import WAYS, Way

STAGES = ("train", "test")


class GivenParameters(BaseModel):
    slope: float
    offset: float = 0.0


class GivenKind(LossKind):
    parameters = GivenParameters
    way = "given"

    def make(self, parameters):
        raise ValueError("nothing is learned")


@dataclass(frozen=True)
class CountGiven(Work):
    """Count one chunk of a stage of a pair."""

    kind: ClassVar[str] = "given"
    does: ClassVar[str] = f"{__name__}:count_given"
    pair: int
    stage: str
    chunk: int

    def split(self) -> Sequence[CountGiven]:
        return [self]

    def describe(self, problem):
        return f"{describe_pairs(problem, [self.pair])}, {self.stage} chunk {self.chunk}"

    def name(self, problem):
        return digest_json(["given", model_of(problem, self.pair, self.stage), self.chunk])


def model_of(problem, number, stage):
    return digest_json(["given", problem.pilot_keys[number], stage])


def _todo(problem, index):
    wanted, stages = tuple(problem.thresholds.tolist()), {"train": problem.train, "test": problem.test}
    for number in first_of(problem.pilot_keys).values():
        for name, stage in stages.items():
            for gap in index.missing(model_of(problem, number, name), wanted, stage):
                yield from (CountGiven(number, name, chunk) for chunk in gap)


def tasks(problem, index, costs, workers):
    return [Task(f"given-{i}", work, (), 1, 0.1) for i, work in enumerate(_todo(problem, index))]


def is_done(problem, index):
    return not any(True for _ in _todo(problem, index))


def progress(problem, index):
    total = len(first_of(problem.pilot_keys)) * (problem.train.chunks + problem.test.chunks)
    return [Progress("count given", total - sum(1 for _ in _todo(problem, index)), total, "chunks")]


def amounts(problem):
    return Amounts(*draws_and_calls(problem), 0, problem.study.estimate.train)


def count_given(context, work, report):
    problem = context.problem
    stage = problem.train if work.stage == "train" else problem.test
    given, thresholds = GivenParameters.model_validate(problem.study.estimate.parameters), problem.thresholds
    counts = np.zeros((2, 2 * thresholds.size + 1), np.int64)

    def use(_, side, outputs):
        counts[side] += count_losses(given.slope * outputs + given.offset, thresholds)

    chunks = range(work.chunk, work.chunk + 1)
    if sweep(context, (stage, stage), [work.pair], chunks, use, report):
        size = stage.chunk_size(work.chunk)
        body = {
            "start": work.chunk,
            "stop": work.chunk + 1,
            "thresholds": thresholds.tolist(),
            "draws": [size, size],
            "accepted": [size, size],
            "entries": [{"model": model_of(problem, work.pair, work.stage), "counts": counts.tolist()}],
            "fingerprints": {},
        }
        report.add("counts", work.name(problem), body)


class GivenResults(Counted):
    """Of all samples, at equal shares of the failure probability: nothing ranked the cells."""

    ranking = "delta"

    def arrays(self, problem, index, epsilons, run):
        wanted, stages = problem.thresholds.tolist(), {"train": problem.train, "test": problem.test}
        exceed = []
        for number in range(len(problem.pairs)):
            parts = [index.totals(model_of(problem, number, name), wanted, stage) for name, stage in stages.items()]
            found = [exceedances(part.above, part.below, problem.thresholds, epsilons) for part in parts]
            exceed.append(np.where(np.minimum(*found) >= 0, sum(found), -1))
        exceed = np.stack(exceed)
        test = np.full(exceed.shape, sum(stage.total for stage in stages.values()))
        level = share_level(None, exceed.shape[:3], 1.0 - problem.study.estimate.confidence)
        cells = make_cells(exceed, test, None, epsilons, level, problem.study.estimate.confidence, run)
        return counted_cells(cells, level, np.full(level.shape, np.nan)) | maximum_of(cells)

    def resample(self, arrays, records, place, replicates, rng):
        problem, wanted = records.problem, tuple(records.problem.thresholds.tolist())
        counted = [
            span.histogram
            for name, stage in (("train", problem.train), ("test", problem.test))
            for span in records.index.done(model_of(problem, place[0], name), wanted, stage)
        ]
        drawn, _ = resample_classes(np.sum(counted, axis=0), replicates, rng)
        return "classes", estimates_of(drawn, wanted.index(threshold_of(arrays, place)), arrays, place)


DERIVED = GivenResults()

PARTS = {"given": Way("given", __name__, __name__)}, {"given": GivenKind()}

if "pytest" not in sys.modules:  # on workers; other tests in pytest's own process know no such way
    WAYS.update(PARTS[0])
    LOSSES.update(PARTS[1])
