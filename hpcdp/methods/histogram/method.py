"""Histogram: outputs of each law are counted in bins that training chooses, or the study gives, before they are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.derived import Floats, Records, no_cells
from hpcdp.engine.index import Index
from hpcdp.engine.method import NO_ETA, Adder, Method, Rows, Run
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.engine.task import Amounts, Costs, Task
from hpcdp.errors import StudyError
from hpcdp.losses.histogram import OutsideError, count_bins
from hpcdp.losses.parameters import FINE
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.classes import entries_of_outcomes
from hpcdp.methods.histogram.decisions import (
    bin_key,
    counts_of,
    decide,
    decided,
    decision_or_words,
    describe_plan,
    given,
    learns,
    sized,
    training_bins,
)
from hpcdp.methods.histogram.interval import describe_interval
from hpcdp.notions.bins import refuse_atoms
from hpcdp.store.results import Arrays
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import PLAIN
from hpcdp.study.declared import RefutedError
from hpcdp.study.problem import Problem, Sizes

_CELL = 48  # bytes that a bin of a law takes: its count as numbers, as a list, and its limits
_FIRST = 1 << 16  # outputs of a law that are looked at for equal ones


class BinCounts(Adder):
    """Outputs of one law by bin, and of the first ones how likely equal ones are by chance ("atom")."""

    def __init__(self, problem: Problem, bins: int, law: str, is_first: Callable[[str], bool]) -> None:
        self.given, self.law, self.is_first = given(problem.study), law, is_first
        self.counts, self.more = np.zeros(bins, np.int64), dict[str, Any]()

    def add(self, side: int, outputs: Outputs) -> None:
        try:
            count_bins(outputs, self.given.range, self.counts)
            if self.is_first(self.law):
                self.more["atom"] = refuse_atoms(outputs[:_FIRST], self.given.width, self.given.lipschitz)
        except OutsideError as error:
            raise RefutedError(f"estimate.{error}") from None

    def sums(self) -> dict[str, Any]:
        return {"counts": self.counts.tolist(), **self.more}


class Histogram(Method):
    """See `Method`. A series is a law; its training outputs come first, and may decide bins and test outputs."""

    notions = ("interval", "spectrum")
    asked = 'estimate.loss = "histogram"'
    takes = PLAIN | {"precision", "domain"}
    accepted = "bins and a precision, or another loss"
    needs_levels = False
    unaudited = NO_ETA.format("histogram")

    def kept_stages(self, problem: Problem) -> tuple[Stage, ...]:
        kept = super().kept_stages(problem)
        return kept if learns(problem) else tuple(stage for stage in kept if stage.name != "train")

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        phases = []
        for after, stage, bins in decided(problem, index):
            series = [
                Series("bins", bin_key(after, law, stage.name, bins), (law,), stage, item=bins) for law in problem.laws
            ]
            sizes = after.sizes if isinstance(after.sizes, Sizes) else None
            phases.append(Phase(series, counted=f"count {stage.name}", sizes=sizes))
        return phases

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        stage = phase.series[0].stage
        size = min(stage.chunk, stage.total)
        if stage in problem.kept_stages:
            return Effort(size * (costs.count + costs.read))
        drawing = costs.drawing(size, 1)
        return Effort(size * costs.count + drawing, drawing)

    def is_decided(self, problem: Problem, index: Index) -> bool:
        return decide(problem, index) is not None

    def tasks(self, problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
        """StudyError where training promises the interval that is wanted with no number of outputs that is allowed."""
        if isinstance(words := decision_or_words(problem, index), str):
            raise StudyError(words)
        return super().tasks(problem, index, costs, workers)

    def amounts(self, problem: Problem) -> Amounts:
        """With a precision for target as far as it is decided."""
        laws, stages = len(problem.laws), [problem.test] if problem.study.estimate.precision is None else []
        stages += [problem.train] if learns(problem) else []
        block = max(min(stage.total, stage.chunk * stage.chunks_per_block) for stage in stages)
        bins = given(problem.study).bins
        tallies = _CELL * laws * (FINE if bins == "auto" else bins)
        draws, calls = (laws * sum(values) for values in zip(*((s.total, s.chunks) for s in stages), strict=True))
        return Amounts(draws, calls, 3 * block * problem.schema.bytes_in_memory + tallies, problem.study.estimate.train)

    def decides(self, problem: Problem) -> bool:
        return True

    def sized(self, problem: Problem, index: Index) -> Problem:
        return sized(problem, index)

    def describe_plan(self, problem: Problem, costs: Costs, workers: int) -> Rows:
        target, rows = problem.study.estimate.target, list[tuple[str, str]]()
        if target is not None and target.precision is not None:
            words = (
                f"an interval of pure ε {2 * target.precision:g} wide; training outputs decide how many test outputs that "
                f"takes, at most {target.most:,} a database"
            )
            rows.append(("target", words))
        return [*rows, ("pure", describe_plan(problem))]

    def adder(self, context: Context, series: Series, counter: Any, is_first: Callable[[str], bool]) -> Adder:
        return BinCounts(context.problem, series.item, series.laws[0], is_first)

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        decision = decide(problem, index)
        after, bins = sized(problem, index), 1 if decision is None else decision.bins
        counts = None if decision is None else counts_of(after, index, after.test, bins)
        spans = [index.done(bin_key(problem, law, "test", bins), (), after.test) for law in problem.laws]
        number = {law: place for place, law in enumerate(problem.laws)}
        is_listed = problem.study.pairs.domain is None
        pairs = [[number[law] for law in both] for both in problem.pair_laws] if is_listed else []
        laws = np.array(pairs, np.int64).reshape(-1, 2)
        known = np.full((len(number), bins), -1, np.int64) if counts is None else counts
        cells = no_cells(len(laws))
        if epsilons.size:
            fine = training_bins(after)
            training = None if fine is None else counts_of(after, index, after.train, fine)
            taught = None if training is None else training.reshape(len(training), bins, -1).sum(axis=2)
            cells = entries_of_outcomes(after, taught, known, laws, epsilons, run)
        atoms = [min((span.sums.get("atom", 1.0) for span in own), default=1.0) for own in spans]
        return cells | {
            "bin_counts": (("law", "bin"), known),
            "bin_atom": (("law",), np.array(atoms)),
            "pair_laws": (("pair", "side"), laws),
        }

    def summary(self, records: Records, study: Any, arrays: Arrays, pairs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"pure": describe_interval(study, arrays, pairs)}


METHOD = Histogram()
