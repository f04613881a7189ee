"""Histogram: outputs of each law are counted in bins that training chooses, or the study gives, before they are counted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.rounding import at_most
from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index
from hpcdp.engine.sampling import TaskList, batches, cut
from hpcdp.engine.task import Amounts, Progress, Task, Work
from hpcdp.errors import StudyError
from hpcdp.keys import digest_json
from hpcdp.losses import validate_parameters
from hpcdp.losses.histogram.parameters import FINE, HistogramParameters
from hpcdp.methods.sample_split.plan import worst_errors  # noqa: F401  # a part of this way
from hpcdp.notions.bins import Bins, choose_bins, least_outputs
from hpcdp.notions.lipschitz import NAMES, buckets, precision_at, size_of
from hpcdp.store.stages import Stage
from hpcdp.study.estimate import Target
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.sizes import Sizes

Ints = NDArray[np.int64]

_CELL = 48  # bytes that a bin of a law takes: its count as numbers, as a list, and its limits


@dataclass(frozen=True)
class Decision:
    """What is counted: how many bins, and how many test outputs a law. width: of the interval that training promised."""

    bins: int
    outputs: int
    width: float | None = None


@dataclass(frozen=True)
class CountBins(Work):
    """Count a range of a stage's chunks of these laws in so many bins."""

    kind: ClassVar[str] = "bins"
    does: ClassVar[str] = "hpcdp.methods.histogram.work:count"
    laws: tuple[str, ...]
    stage: str
    start: int
    stop: int
    bins: int

    def split(self) -> Sequence[CountBins]:
        return [replace(self, laws=(law,)) for law in self.laws]

    def describe(self, problem: Problem) -> str:
        which = problem.describe_law(self.laws[0]) + (f" and {len(self.laws) - 1} more" if len(self.laws) > 1 else "")
        return f"{self.stage} chunks {self.start} to {self.stop - 1} of {which}"

    def size(self, problem: Problem) -> int:
        """Outputs of each law that it counts."""
        stage = stage_of(problem, self.stage)
        return sum(stage.chunk_size(chunk) for chunk in range(self.start, self.stop))

    def name(self, problem: Problem, laws: Sequence[str]) -> str:
        """Of the record of these of its laws."""
        keys = [problem.bin_key(law, self.stage, self.bins) for law in laws]
        return digest_json(["bins", self.start, self.stop, self.size(problem), keys])


def stage_of(problem: Problem, name: str) -> Stage:
    """The stage of this name."""
    return problem.train if name == "train" else problem.test


def parameters_of(problem: Problem) -> HistogramParameters:
    """What is assumed, and the bins."""
    return _given(problem.study)


def bins_of(problem: Problem, number: int) -> Bins:
    """So many bins, and what is assumed on them."""
    parameters, domain = parameters_of(problem), problem.study.pairs.domain
    return Bins.of(parameters.range, number, parameters.lipschitz, domain.change if domain else 0.0)


def counts_of(problem: Problem, index: Index, stage: Stage, bins: int) -> Ints | None:
    """Counts of all laws, (laws, bins); None while some are missing."""
    found = []
    for law in problem.laws:
        key = problem.bin_key(law, stage.name, bins)
        if index.missing(key, (), stage):
            return None
        found.append(np.sum([span.histogram for span in index.done(key, (), stage)], axis=0))
    return np.stack(found)


def training_bins(problem: Problem) -> int | None:
    """In how many bins training outputs are counted; None where they decide nothing."""
    if not problem.learns:
        return None
    bins = parameters_of(problem).bins
    return FINE if bins == "auto" else bins


def decide(problem: Problem, index: Index) -> Decision | None:
    """What is counted, a function of training counts alone; None while some are missing, and where training promises the
    interval that is wanted with no number of outputs that is allowed.
    """
    found = _decision(problem, index)
    return None if isinstance(found, str) else found


def _decision(problem: Problem, index: Index) -> Decision | str | None:
    """The same, and in words why there is none."""
    e, bins = problem.study.estimate, parameters_of(problem).bins
    fine = training_bins(problem)
    if bins != "auto" and e.precision is None:
        return Decision(bins, e.test)
    assert fine is not None
    training = counts_of(problem, index, problem.train, fine)
    if training is None:
        return None
    change = bins_of(problem, 1).change
    return _decide(
        training.tobytes(), training.shape[0], parameters_of(problem), e.target, e.test, 1.0 - e.confidence, change
    )


@lru_cache(maxsize=4)  # it is asked for again and again
def _decide(
    counts: bytes,
    laws: int,
    given: HistogramParameters,
    target: Target | None,
    test: int,
    failure: float,
    change: float,
) -> Decision | str:
    training, is_fixed = np.frombuffer(counts, np.int64).reshape(laws, -1), given.bins != "auto"
    assumed = (failure, given.range, given.lipschitz, change)
    if target is None or target.precision is None:
        return Decision(choose_bins(training, test, *assumed)[0], test)
    wanted = 2.0 * target.precision
    outputs, width = least_outputs(training, wanted, target.most, *assumed, is_fixed=is_fixed)
    if width > wanted:
        return (
            f"estimate.target.precision: {target.precision:g} needs an interval {wanted:g} wide; training promises one "
            f"{width:.3g} wide from target.most = {target.most:,} outputs a database; accepted, into another "
            "store: a larger precision, a larger target.most"
            + (", more points of pairs.domain" if change else "")
            + (', bins = "auto"' if is_fixed else "")
        )
    bins = int(given.bins) if is_fixed else choose_bins(training, outputs, *assumed)[0]
    return Decision(bins, outputs, width)


def sized(problem: Problem, index: Index) -> Problem:
    """The problem with as many test outputs as training decided, where it has a precision for target."""
    decision = decide(problem, index) if problem.study.estimate.precision is not None else None
    return problem if decision is None else problem.sized(Sizes(0, 0, decision.outputs))


def _left(problem: Problem, index: Index) -> list[tuple[Problem, Stage, int]]:
    """What is counted as far as it is decided: the problem, the stage, bins."""
    fine, decision = training_bins(problem), decide(problem, index)
    found = [] if fine is None else [(problem, problem.train, fine)]
    if decision is not None:
        after = sized(problem, index)
        found.append((after, after.test, decision.bins))
    return found


def tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left: those that count training outputs, and, once they decided, those that count test outputs.

    Raises:
        StudyError: training promises the interval that is wanted with no number of outputs that is allowed.
    """
    if isinstance(words := _decision(problem, index), str):
        raise StudyError(words)
    stages = _left(problem, index)
    gaps = {
        (n, law): tuple((gap.start, gap.stop) for gap in index.missing(some.bin_key(law, stage.name, bins), (), stage))
        for n, (some, stage, bins) in enumerate(stages)
        for law in problem.laws
    }
    seconds = [_chunk_seconds(problem, stage, costs) for _, stage, _ in stages]
    total = sum(seconds[n][0] * sum(b - a for a, b in found) for (n, _), found in gaps.items())
    found = TaskList(problem, index, costs, total, workers)
    for n, (some, stage, bins) in enumerate(stages):
        each, drawing = seconds[n]
        sizes = some.sizes if isinstance(some.sizes, Sizes) else None
        groups: dict[tuple[tuple[int, int], ...], list[str]] = {}
        for law in problem.laws:
            if gaps[n, law]:
                groups.setdefault(gaps[n, law], []).append(law)
        for missing, laws in groups.items():
            for numbers in batches(range(len(laws)), found.fit(each * sum(b - a for a, b in missing))):
                part = tuple(laws[number] for number in numbers)
                after = found.drawing(part, [stage.name])
                for start, stop in cut(stage, missing, found.fit(each)):
                    units, work = (stop - start) * len(part), CountBins(part, stage.name, start, stop, bins)
                    found.add("bins", work, after, units, each * units, drawing * units, sizes)
    return found.tasks


def _chunk_seconds(problem: Problem, stage: Stage, costs: Costs) -> tuple[float, float]:
    """To count a chunk, and of that to draw it."""
    size = min(stage.chunk, stage.total)
    if stage in problem.kept_stages:
        return size * (costs.count + costs.read), 0.0
    drawing = costs.drawing(size, 1)
    return size * costs.count + drawing, drawing


def is_done(problem: Problem, index: Index) -> bool:
    """Whether all that is to be counted was."""
    return decide(problem, index) is not None and all(
        counts_of(some, index, stage, bins) is not None for some, stage, bins in _left(problem, index)
    )


def progress(problem: Problem, index: Index) -> list[Progress]:
    """What is counted, of as many test outputs as are decided."""
    found = []
    for some, stage, bins in _left(problem, index):
        keys = [some.bin_key(law, stage.name, bins) for law in problem.laws]
        left = sum(len(gap) for key in keys for gap in index.missing(key, (), stage))
        total = stage.chunks * len(problem.laws)
        found.append(Progress(f"count {stage.name}", total - left, total, "chunks"))
    return found


def amounts(problem: Problem) -> Amounts:
    """What the whole of it takes; with a precision for target as far as it is decided."""
    laws, stages = len(problem.laws), [problem.test] if problem.study.estimate.precision is None else []
    stages += [problem.train] if problem.learns else []
    block = max(min(stage.total, stage.chunk * stage.chunks_per_block) for stage in stages)
    bins = parameters_of(problem).bins
    tallies = _CELL * laws * (FINE if bins == "auto" else bins)
    draws, calls = (laws * sum(values) for values in zip(*((s.total, s.chunks) for s in stages), strict=True))
    return Amounts(draws, calls, 3 * block * problem.schema.bytes_in_memory + tallies, problem.study.estimate.train)


Promised = Mapping[str, tuple[float, int, int]]
"""By name, "published", "union" and "half": a precision, and with how many bins and outputs a law it is had."""


def promised_sizes(study: Study, outputs: int, order: float | None = None) -> Promised | None:
    """Published sizes and those of union bounds, at the study's precision, else at that which so many outputs have.

    Of a domain those of Algorithm 2: a third of the precision and the root of the confidence a call as published; two thirds,
    for the limits of all midpoints at once, by union bounds. None where C >= 2/W². What so many outputs never have is left out.
    """
    e, given, domain = study.estimate, _given(study), study.pairs.domain
    c, w = given.lipschitz, given.width
    if not c * w * w < 2.0:
        return None

    def at(name: str, precision: float) -> tuple[int, int]:
        if domain is None:
            return size_of(name, c, w, precision, e.confidence, order, 2)
        if name == "published":
            return size_of(name, c, w, precision / 3.0, math.sqrt(e.confidence), order, 2)
        laws = max(2, buckets(domain.lipschitz, domain.upper - domain.lower, c, w, precision, order))
        return size_of(name, c, w, 2.0 * precision / 3.0, e.confidence, order, laws)

    found = {}
    for name in NAMES:
        precision = e.precision or precision_at(outputs, lambda gamma, name=name: at(name, gamma)[1])  # type: ignore[misc]
        with suppress(ValueError):  # more outputs than can be said
            found[name] = (precision, *at(name, precision))
    return found


def describe_sizes(study: Study, found: Promised | None) -> str:
    """Sizes as published and by union bounds, in words."""
    if found is None:
        return "none, as C ≥ 2/W²; the certified interval needs no such limit"
    words = {"published": "published", "union": "by a union bound", "half": "with half the bins"}
    parts = [
        f"{words[name]} ±{at_most(precision, '.3g')} from {bins:,} bin{'s' if bins > 1 else ''} and {outputs:,} outputs"
        for name, (precision, bins, outputs) in found.items()
    ]
    domain, given = study.pairs.domain, _given(study)
    if domain is not None and "published" in found:
        k = buckets(domain.lipschitz, domain.upper - domain.lower, given.lipschitz, given.width, found["published"][0])
        parts[0] += f" a call, of which there are {k * (k - 1):,} for its {k:,} midpoints"
    return "; ".join(parts) or "none, with so few outputs"


def describe_plan(problem: Problem) -> str:
    """What is counted, and what sizes promise, in words."""
    e = problem.study.estimate
    learned = f", chosen by {e.train:,} training outputs of each" if problem.learns else ""
    bins = parameters_of(problem).bins
    what = "bins" if bins == "auto" else f"{bins:,} bin{'s' if bins > 1 else ''}"
    sizes_ = describe_sizes(problem.study, promised_sizes(problem.study, e.test))
    return f"an interval, from counts of each law in {what}{learned}. The published estimate: {sizes_}"


def _given(study: Study) -> HistogramParameters:
    return cast("HistogramParameters", validate_parameters(study.estimate.default_loss, study.estimate.parameters))
