"""What a method of estimating is: what it learns, what it counts, what it derives from the sums, what that can tell.

A method is an additive statistic. It names series of sums (`hpcdp.engine.series`); tasks learn and count them chunk by chunk;
what they record adds up, whatever the order, and `arrays` derives results from the sums alone. The defaults are those of a
method that learns one L̂ of a pair from training samples and counts how many test samples lie in its sets ("exceed", "test").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from hpcdp.engine.accuracy import Statement, state_accuracy
from hpcdp.engine.context import Context, sweep
from hpcdp.engine.derived import Derived, Floats, Records
from hpcdp.engine.index import Index
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.engine.sampling import TaskList
from hpcdp.engine.series import Effort, Phase, Planner, Series, seconds_left
from hpcdp.engine.task import Amounts, Costs, Progress, Task
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses import kind_of, refuse_outputs, refuse_unusable, validate_parameters
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.notions.accuracy import share_radius, worst_share_error
from hpcdp.notions.spectrum import lower_bounds
from hpcdp.store.arrays import State, fingerprint
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.results import Arrays
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import PLAIN, points_lacking
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem, describe_pairs
from hpcdp.study.trial_draws import Timing, Trial, Tried, time_trials

Run = Callable[..., Floats]
"""What computes certified bounds from flat arrays: `Method.bounds`, or the same elsewhere."""

Prints = dict[str, dict[int, str]]
"""Fingerprints by law and number of the chunk."""

Rows = list[tuple[str, str]]
"""Lines of a plan, each with its name."""

NO_ETA = (
    "estimate.loss: {} has no L̂ of all η, so that nothing chooses among them before the test; accepted by audit: every "
    "other loss; by verify: this one too"
)
"""Why there is no audit of a method without one L̂ of a pair, whose loss is put in."""

_PAIR_SECONDS = 5e-3  # of a pair, whatever its sizes: to read, learn and record


@dataclass(frozen=True)
class Learned:
    """What a series' samples taught. counter: what counts with it. facts: what its record says, as JSON values by name.

    file: arrays that are stored always. records_facts: whether a task that learns in order to count records the facts too.
    """

    counter: Any
    facts: Mapping[str, Any] = field(default_factory=dict)
    file: State | None = None
    records_facts: bool = True

    def state(self) -> State | None:
        """Arrays from which the counter is made again; None where learning again is the way."""
        return None if self.counter is None else cast("State | None", self.counter.state())


class Adder(ABC):
    """Sums of one series in the making."""

    @abstractmethod
    def add(self, side: int, outputs: Outputs) -> None:
        """Add a chunk of outputs. side: which of the series' laws the outputs are of, 0 for the first."""

    @abstractmethod
    def sums(self) -> dict[str, Any]:
        """The sums so far as JSON values by name: whole numbers that add up over chunks."""


class Method(Derived, ABC):
    """A method of estimating.

    asked: how a study asks for it. takes: which options of a study, of `hpcdp.study.combinations.PLAIN` and `SPECIAL`. accepted:
    these in words, where another is refused. needs_levels: whether a study has to give ε. compares: whether it compares the two
    laws of each pair. unaudited: why no audit is of it; empty where there may be one. ranking: the array by
    entry that tells pairs apart, before the test where there is one. draws_apart: whether each entry draws and learns for itself,
    so that no samples are shared or kept. knows_draws: whether `amounts` holds all draws before anything is learned.
    """

    asked: ClassVar[str] = "estimate.method"
    takes: ClassVar[frozenset[str]] = PLAIN
    accepted: ClassVar[str] = ""
    needs_levels: ClassVar[bool] = True
    compares: ClassVar[bool] = True
    unaudited: ClassVar[str] = ""

    ranking: ClassVar[str] = "training_delta"
    draws_apart: ClassVar[bool] = False
    knows_draws: ClassVar[bool] = True

    # What a study may say.

    def limits(self, study: Study) -> Iterator[str]:
        """What is wrong with values of a study, in words that begin with a key."""
        train = study.estimate.train
        yield from points_lacking(study.estimate, 2 * train, f"at most all training points, 2·train = {2 * train}")

    def takes_special(self, study: Study) -> bool:
        """Whether outputs may be NaN, infinite or None (`hpcdp.losses.views`)."""
        return False

    def fewest_learned(self, estimate: Estimate) -> int:
        """The fewest samples per database that an L̂ learns from."""
        return estimate.train

    def refuse_outputs(self, problem: Problem, trial: Trial) -> None:
        """StudyError where nothing can be learned from outputs as trial draws showed them."""
        e, folder = problem.study.estimate, problem.study.folder
        refuse_unusable(e.default_loss, e.parameters, trial.schema, self.fewest_learned(e), folder)
        if trial.extremes is not None:
            refuse_outputs(e.default_loss, e.parameters, *trial.extremes)
        for name in e.other_losses:
            refuse_unusable(name, {}, trial.schema, e.train, folder)

    def time_draws(self, tried: Sequence[Tried], schema: Schema, size: int) -> Timing:
        """What drawing costs; see `time_trials`."""
        return time_trials(tried, size)

    def chosen(self, problem: Problem, costs: Costs, known: bool | None) -> Problem:
        """The problem with what the study leaves to a run. known: whether samples are reused, as a run has recorded."""
        return problem

    # What is left to do.

    def kept_stages(self, problem: Problem) -> tuple[Stage, ...]:
        """The stages whose samples stay in the store."""
        stages = {"all": (problem.train, problem.test), "train": (problem.train,), "none": ()}
        return stages[problem.study.estimate.keep]

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        """What is learned and counted, as far as records have decided it."""
        return []

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        """How long learning a series of this phase takes, and counting a chunk of it; by default of a pair."""
        pair = pair_effort(problem, costs)
        return pair if phase.learned else pair._replace(learn=0.0, learn_drawing=0.0)

    def is_decided(self, problem: Problem, index: Index) -> bool:
        """Whether records have decided all phases."""
        return True

    def tasks(self, problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
        """The tasks that are left, in the order in which they should start; every `after` comes before."""
        todo = [(phase, self.effort(problem, costs, phase), phase.left(index)) for phase in self.phases(problem, index)]
        seconds = sum(seconds_left(effort, left) for _, effort, left in todo)
        planner = Planner(TaskList(problem, index, costs, seconds, workers), index)
        for phase, effort, left in todo:
            planner.add(phase, effort, left)
        return planner.tasks.tasks

    def is_done(self, problem: Problem, index: Index) -> bool:
        """Whether all that is planned was learned and counted."""
        return self.is_decided(problem, index) and not any(phase.left(index) for phase in self.phases(problem, index))

    def progress(self, problem: Problem, index: Index) -> list[Progress]:
        """How far what comes after drawing kept samples is."""
        merged: dict[str, Progress] = {}
        for line in (line for phase in self.phases(problem, index) for line in phase.progress(index)):
            known = merged.get(line.name, replace(line, done=0, total=0))
            merged[line.name] = replace(line, done=known.done + line.done, total=known.total + line.total)
        return [*merged.values()]

    def amounts(self, problem: Problem) -> Amounts:
        """What the whole of it takes, whatever is done already."""
        e, laws = problem.study.estimate, len(problem.laws)
        draws, calls = laws * (e.train + e.test), laws * (problem.train.chunks + problem.test.chunks)
        return Amounts(draws, calls, memory(problem), e.train)

    def worst_errors(self, problem: Problem, epsilon: float) -> tuple[float, float] | None:
        """Largest standard error of δ̂ at one level: of sets with P >= e^ε·Q, and of any set; None where nothing tells it."""
        test = problem.study.estimate.test
        return worst_share_error(epsilon, test), worst_share_error(epsilon, test, is_sound=False)

    def state_accuracy(self, study: Study, columns: int | None, pairs: int, test: int | None = None) -> list[Statement]:
        """What is stated of δ̂ at each level; see `hpcdp.engine.accuracy`. test: as a run decided, None: the study's."""
        if test is None and study.estimate.has_budget:
            return []
        size = study.estimate.test if test is None else test
        return state_accuracy(study, columns, pairs, size, lambda level, share: share_radius(level, size, share))

    # What a run decides between tasks: every decision is a record before it is acted on.

    def decides(self, problem: Problem) -> bool:
        """Whether what tasks record, or `decide`, changes what is left to do."""
        return False

    def begin(self, problem: Problem, costs: Costs, workers: int, layout: Layout, generation: Generation) -> list[str]:
        """Record what is decided before the first task; in words."""
        return []

    def decide(self, problem: Problem, index: Index, layout: Layout, generation: Generation) -> list[str]:
        """Record what is decided once all tasks so far are done; in words, empty where there is nothing left to decide."""
        return []

    def sized(self, problem: Problem, index: Index) -> Problem:
        """The problem with the sizes that records of learning decide."""
        return problem

    # What a plan says.

    def known_draws(self, problem: Problem, index: Index) -> int:
        """Draws that records have chosen beyond those of `amounts`."""
        return 0

    def describe_plan(self, problem: Problem, costs: Costs, workers: int) -> Rows:
        """Lines of a plan on what is counted, before anything is learned."""
        return []

    def describe_choices(self, problem: Problem, index: Index, costs: Costs, workers: int) -> Rows:
        """Lines of a plan on what learning chooses, and how long that takes."""
        return []

    def describe_learned(self, problem: Problem, index: Index) -> Rows:
        """Lines of `hpcdp status` on what learning has chosen."""
        return []

    def describe_series(self, problem: Problem, series: Sequence[Series]) -> str:
        """Series in words: the first one's pair, or its law, and how many more."""
        if series[0].pair >= 0:
            return describe_pairs(problem, [one.pair for one in series])
        more = f" and {len(series) - 1} more" if len(series) > 1 else ""
        return f"{problem.describe_law(series[0].laws[0])}{more}"

    # What tasks do, on workers.

    def files(self, problem: Problem, layout: Layout, series: Series) -> Iterable[Path]:
        """Files of the store from which a series is learned, beside samples."""
        return ()

    def serves_any(self, context: Context) -> bool:
        """Whether what is stored of a learned series serves all columns."""
        return False

    def learn_all(self, context: Context, series: Sequence[Series], report: Report) -> dict[Series, Learned]:
        """Learn several series; what fails is reported."""
        learned = {}
        for one in series:
            try:
                learned[one] = self.learn(context, one)
            except (MechanismError, DamagedError) as error:
                report.failures.append(Failure.of(self.describe_series(context.problem, [one]), error))
        return learned

    def learn(self, context: Context, series: Series) -> Learned:
        """Learn one series from training samples; MechanismError where that cannot be."""
        return Learned(None, records_facts=False)

    def restore(self, context: Context, series: Series, state: State) -> Any | None:
        """The counter that was stored; None where learning again is the way."""
        return None

    def adder(self, context: Context, series: Series, counter: Any, is_first: Callable[[str], bool]) -> Adder:
        """What adds a series up. is_first: whether the next outputs of a law are the first that are seen of it at all."""
        raise NotImplementedError(f"{type(self).__name__} has neither `adder` nor a `count` of its own")

    def stages_of(self, problem: Problem, series: Series) -> Sequence[Stage]:
        """The stage of each of a series' laws."""
        return [series.stage] * len(series.laws)

    def compared(self, problem: Problem) -> int | None:
        """How many outputs of a chunk tell it from all others that are drawn; None: all of them."""
        return None

    def count(
        self,
        context: Context,
        counters: Mapping[Series, Any],
        chunks: range,
        report: Report,
        prints: Prints,
    ) -> dict[Series, dict[str, Any]]:
        """Sums of these chunks of each series that got all of them. prints: gets fingerprints of chunks that are not kept."""
        problem, seen = context.problem, set[str]()

        def is_first(law: str) -> bool:
            new = chunks.start == 0 and law not in seen
            seen.add(law)
            return new

        adders = {series: self.adder(context, series, counter, is_first) for series, counter in counters.items()}
        stages, limit = self.stages_of(problem, next(iter(counters))), self.compared(problem)

        def use(series: Series, side: int, outputs: Outputs) -> None:
            adders[series].add(side, outputs)

        def see(law: str, side: int, chunk: int, outputs: Outputs) -> None:
            if stages[side] not in problem.kept_stages:
                prints.setdefault(law, {})[chunk] = fingerprint(outputs[:limit])

        def describe(series: Sequence[Series]) -> str:
            return self.describe_series(problem, series)

        laws = {series: series.laws for series in counters}
        whole = sweep(context, laws, stages, chunks, use, report, describe, see)
        return {series: adders[series].sums() for series in whole}

    # What results are made of records, and what they can tell.

    @abstractmethod
    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        """Arrays by name; entries that lack counts hold NaN and −1."""

    def bounds(self, *arrays: Any) -> Floats:
        """Certified bounds from flat arrays."""
        return lower_bounds(*arrays)

    def summary(self, records: Records, study: Any, arrays: Arrays, pairs: list[dict[str, Any]]) -> dict[str, Any]:
        """What JSON says besides entries by ε, below its own names."""
        return {}


class SeriesBySeries(Method):
    """A method whose series share no chunks: each draws, or reads, what it counts."""

    @abstractmethod
    def count_series(self, context: Context, series: Series, chunks: range, report: Report) -> dict[str, Any]:
        """Sums of these chunks of a series, as JSON values by name; MechanismError or DamagedError where that cannot be."""

    def count(
        self, context: Context, counters: Mapping[Series, Any], chunks: range, report: Report, prints: Prints
    ) -> dict[Series, dict[str, Any]]:
        sums = {}
        for series in counters:
            try:
                sums[series] = self.count_series(context, series, chunks, report)
            except (MechanismError, DamagedError) as error:
                report.failures.append(Failure.of(self.describe_series(context.problem, [series]), error))
        return sums


def method_of(problem: Problem) -> Method:
    """The method of a problem."""
    return cast("Method", problem.method)


def pair_effort(problem: Problem, costs: Costs) -> Effort:
    """Seconds to learn a pair, and to count one chunk of both sides of it; drawing takes none where samples are kept."""
    train, test = problem.train, problem.test
    size, kept = min(test.chunk, test.total), {stage.name for stage in problem.kept_stages}
    draw_train = 0.0 if "train" in kept else 2 * costs.drawing(train.total, train.chunks)
    draw_test = 0.0 if "test" in kept else 2 * costs.drawing(size, 1)
    learn = _PAIR_SECONDS + 2 * train.total * (costs.learn + (costs.read if "train" in kept else 0.0)) + draw_train
    chunk = 2 * size * (costs.count + (costs.read if "test" in kept else 0.0)) + draw_test
    return Effort(chunk, draw_test, learn, draw_train)


def memory(problem: Problem) -> int:
    """Training samples of both sides and their neighbours, a block of test samples, and databases that are drawn."""
    e, width = problem.study.estimate, problem.schema.bytes_in_memory
    stage = Stage.of("test", max(e.test, e.chunk), e.chunk, problem.schema)
    block = min(stage.total, stage.chunk * stage.chunks_per_block)
    drawn = max((min(d.block, e.chunk) * d.cells * 8 for d in problem.distributions), default=0)
    parameters = validate_parameters(e.default_loss, e.parameters)
    learning = kind_of(e.default_loss).memory(parameters, problem.schema, e.train)
    return 2 * drawn + learning + 3 * block * width
