"""What would run: pairs, tasks, samples, bytes, memory, time and expected error, before anything runs."""

from __future__ import annotations

import heapq
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hpcdp._base.rounding import at_most, duration, percent
from hpcdp.clusters import default_workers
from hpcdp.clusters.profile import Profile
from hpcdp.errors import StudyError
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.mechanisms import STORED
from hpcdp.mechanisms.outputs import describe
from hpcdp.notions.at_risk import order_statistic
from hpcdp.planning.accuracy import Statement, dimension, state_accuracy, state_lines
from hpcdp.planning.cluster_needs import ClusterNeeds, cluster_needs
from hpcdp.planning.costs import Costs, runs_here, seconds_alone
from hpcdp.planning.histogram import describe_plan
from hpcdp.planning.index import Index
from hpcdp.planning.reuse_choice import describe_reuse, with_choice
from hpcdp.planning.store_files import describe_files
from hpcdp.planning.tape_words import describe_tape, known_draws
from hpcdp.planning.target_draws import foresee
from hpcdp.planning.targets import COUNT_SECONDS, LEARNING
from hpcdp.planning.task import Task
from hpcdp.planning.ways import planned, schedule
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve
from hpcdp.study.trial_draws import Trial

_LONGEST_DRAWING = 7 * 86400.0
_TELLING = 0.1  # a call's own cost is shown where it is more than this part of what a chunk's draws cost
_NAMED = 10  # pairs that a warning names
_START, _START_HERE = 3.0, 1.0  # seconds, with and without workers
_BASE_MEMORY = 350 << 20  # a worker with its libraries and compiled kernels

_HALF, _FEW = 0.5, 1.0  # of the jobs' time: a plan warns below, where it is more than so many core-hours


@dataclass(frozen=True)
class Plan:
    """A printable plan. seconds: with all workers busy; drawing: of these, the mechanism's. memory: bytes of a worker process.

    worst_error: at some ε, (ε, largest standard error of δ̂ of sets with P >= e^ε·Q, that of any set). statements: of
    accuracy, one a level, at `confidence`. tasks: how many of each kind. k: votes, None without. draw_seconds,
    call_seconds: what a draw and a call of `chunk` draws cost; is_stored: nothing is drawn. forecast: on a cluster, None
    elsewhere; process_memory: what its profile gives a worker process. points: trade-off points that draw for themselves.
    divergences: bounds on Rényi divergences that have a level of their own, from the same counts.
    reuse: whether every sample teaches and tests, and why, in words; nothing to say: empty.
    equal: numbers of pairs whose databases are equal. is_domain: pairs of midpoints, which are not enumerated.
    tape: lines of random tapes, each with its name; is_learned: whether all draws are known, which of these levels choose.
    files: a warning of too many. is_here: without workers. pure, at_risk: what these sections do. target, foreseen, files, pure,
    at_risk and reuse are in words; nothing to say: empty.
    """

    name: str
    pairs: int
    databases: int
    laws: int
    cells: int
    outputs: str
    tasks: dict[str, int]
    samples: int
    bytes_kept: int
    memory: int
    seconds: float
    workers: int
    k: int | None
    worst_error: tuple[tuple[float, float, float], ...]
    statements: tuple[Statement, ...]
    confidence: float
    drawing: float = 0.0
    draw_seconds: float = 0.0
    call_seconds: float = 0.0
    chunk: int = 1
    is_stored: bool = False
    forecast: ClusterNeeds | None = None
    process_memory: int | None = None
    points: int = 0
    divergences: int = 0
    certified: int | None = None
    target: str = ""
    foreseen: str = ""
    reuse: str = ""
    is_reused: bool = False
    equal: tuple[int, ...] = ()
    files: str = ""
    pure: str = ""
    at_risk: str = ""
    is_here: bool = False
    is_domain: bool = False
    tape: tuple[tuple[str, str], ...] = ()
    is_learned: bool = True

    @property
    def draws_picture(self) -> bool:
        """Whether its run ends with a picture, unless told otherwise: a small one takes no longer than its picture."""
        return not self.is_here or bool(self.target)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.tasks.items()) or "none: everything is in the store"
        errors = "; ".join(f"{at_most(error, '.1e')} at ε = {epsilon:g}" for epsilon, error, _ in self.worst_error)
        others = "; ".join(at_most(error, ".1e") for *_, error in self.worst_error)
        what = [f"  at risk        {self.at_risk}"] if self.at_risk else self._cells()
        lines = [
            f"plan of {self.name}",
            *what,
            f"  tasks          {kinds}",
            f"  samples        {self.samples:,} draws"
            + ("" if self.is_learned else " to learn levels, which choose the others"),
            f"  store          {_bytes(self.bytes_kept)} of samples kept",
            *([f"  files          {self.files}"] if self.files else []),
            f"  memory         about {_bytes(self.memory)} "
            + ("in one process" if self.is_here else f"a worker process, {self.workers} workers")
            + (", beside its two databases and what the query takes" if self.at_risk else ""),
            self._drawing(),
            *self._time(),
            *([f"  target         {self.target}"] if self.target else []),
            *(
                _wrapped(
                    "expected error",
                    f"standard error of δ̂ at most {errors}{self._from()} where P(S) ≥ e^ε·Q(S), else {others}"
                    + (f"; L̂ within ±{2 / math.sqrt(self.k):.2g} (k = {self.k} votes)" if self.k else ""),
                )
                if self.worst_error and not self.target
                else []
            ),
            *([f"  pure           {self.pure}"] if self.pure else []),
            *([f"  foreseen       {self.foreseen}"] if self.foreseen else []),
            *(f"  {name:<14} {words}" for name, words in self.tape),
            *([f"  reuse          {self.reuse}"] if self.reuse else []),
            *(line for name, words in self._statements() for line in _wrapped(name, words)),
        ]
        return "\n".join(lines)

    def _cells(self) -> list[str]:
        return [
            f"  pairs          all ordered pairs of {self.laws:,} midpoints"
            if self.is_domain
            else f"  pairs          {self.pairs:,} ordered pair{'s' if self.pairs > 1 else ''} of {self.laws:,} "
            + ("databases" if self.databases else "laws, a row of a distribution held at a value"),
            f"  cells          {self.cells:,} (pair, direction, ε) cells"
            + (
                f", of which {self.certified:,} share the level (estimate.certify)"
                if self.certified is not None
                else ""
            )
            + (f", {self.points:,} (pair, η) cells" if self.points else "")
            + (f", {self.divergences:,} (pair, direction, order) bounds" if self.divergences else ""),
            *([f"  WARNING        {_equal_words(self.equal)}"] if self.equal else []),
            f"  outputs        {self.outputs}",
        ]

    def _statements(self) -> list[tuple[str, str]]:
        return state_lines(self.statements, percent(self.confidence), self.is_reused) if self.statements else []

    def _from(self) -> str:
        return " (all samples)" if self.is_reused else " (test samples)"

    def _drawing(self) -> str:
        if self.is_stored:
            return "  drawing        none: the samples are stored"
        draw, call = f"{brief(self.draw_seconds)} a draw", f"{brief(self.call_seconds)} a call"
        if self.call_seconds <= _TELLING * self.draw_seconds * self.chunk:
            cost = draw
        else:
            cost = f"{draw} and {call}" if self.draw_seconds > 0.0 else call  # too fast to be told from the call
        where = "in one process" if self.is_here else f"on {self.workers} workers"
        total = f"{duration(self.drawing)} of {duration(self.seconds)} {where}"
        return f"  drawing        about {cost} (measured), {total}"

    def _time(self) -> list[str]:
        found, rest = self.forecast, "" if self.is_learned else " for levels alone"
        if found is None:
            return [f"  time           about {duration(self.seconds)}{rest}"]
        end = datetime.now().astimezone() + timedelta(seconds=found.seconds)
        lines = [
            f"  jobs           {found.at_once:,} at once, {found.jobs:,} in all, about {found.node_hours:.2g} node-hours "
            f"({found.core_hours:.2g} core-hours)",
            f"  time           about {duration(found.seconds)}: until {end:%Y-%m-%d %H:%M} if no job has to wait{rest}",
        ]
        if found.share < _HALF and found.core_hours > _FEW:
            lines.append(
                f"  useful         ONLY {found.share:.0%} of the jobs' time: the rest goes into starting and compiling; fewer "
                "jobs (size), or a larger worker.useful, waste less"
            )
        if found.has_endless_task:
            lines.append(
                f"  walltime       TOO SHORT: a task may take {duration(found.longest)}, a job takes tasks for "
                f"{duration(found.useful)}"
            )
        if self.process_memory is not None and self.process_memory < self.memory:
            lines.append(
                f"  memory         TOO LITTLE, perhaps: the profile gives a process {_bytes(self.process_memory)}; "
                "give more, or fewer processes"
            )
        return lines


def _wrapped(name: str, words: str) -> list[str]:
    return textwrap.wrap(
        words, 120, initial_indent=f"  {name:<14} ", subsequent_indent=" " * 17, break_on_hyphens=False
    )


def make_plan(
    problem: Problem, trial: Trial, workers: int | None, index: Index | None = None, profile: Profile | None = None
) -> Plan:
    """The plan of what an index (none: an empty store) leaves to do, on this machine or on a profile's cluster.

    workers: 0: none, in one process; None: as many as the machine has cores, or none where the work is small.
    """
    costs = Costs.of(problem, trial)
    asked, workers = workers, profile.slots if profile else workers or default_workers()
    most = 1 if asked == 0 and profile is None else workers
    refuse_endless(problem, trial, most)
    teaches = problem.study.at_risk is None  # else nothing is learned
    reuse = describe_reuse(problem, costs, index.chosen if index else None) if teaches else ""
    problem = with_choice(problem, costs, index.chosen if index else None)
    tasks = schedule(problem, index or Index(), costs, workers)
    e = problem.study.estimate
    is_here = profile is None and runs_here(asked, seconds_alone(problem, tasks))
    levels = problem.study.epsilons
    cells = len(problem.pairs) * 2 * len(levels)
    laws = len(problem.laws)
    way = planned(problem)
    amounts = way.amounts(problem)
    chosen = known_draws(problem, index or Index()) if e.tape else 0
    kept = laws * sum(problem.schema.bytes_stored(stage.total) for stage in problem.kept_stages)
    at_once = 1 if is_here else max(1, min(workers, len(tasks)))
    shown = sorted({levels[0], levels[len(levels) // 2], levels[-1]}) if levels else []
    return Plan(
        name=problem.study.name,
        pairs=len(problem.pairs),
        databases=len(problem.databases),
        laws=laws,
        cells=cells,
        outputs=describe(problem.schema),
        tasks=_by_kind(tasks),
        samples=amounts.draws + chosen,
        bytes_kept=kept,
        files=describe_files(problem),
        memory=_BASE_MEMORY + amounts.memory,
        seconds=_span(tasks, at_once) + (_START_HERE if is_here else _START),
        workers=workers,
        k=kind_of(e.default_loss).votes(validate_parameters(e.default_loss, e.parameters), amounts.learned),
        worst_error=()
        if e.has_budget or e.tape
        else tuple((epsilon, *way.worst_errors(problem, epsilon)) for epsilon in shown),
        statements=()
        if e.has_budget or e.tape
        else tuple(
            state_accuracy(problem.study, dimension(problem.schema), len(problem.pairs), pooled=problem.is_reused)
        ),
        confidence=e.confidence,
        target=_describe_budget(e),
        foreseen=_foresee(problem.study, costs, most) if e.has_budget and e.target is not None and not e.tape else "",
        reuse=reuse,
        pure=_describe_pure(problem),
        is_domain=problem.study.pairs.domain is not None,
        is_reused=problem.is_reused,
        is_here=is_here,
        tape=tuple(describe_tape(problem, index or Index(), costs, at_once)) if e.tape else (),
        is_learned=chosen > 0 or not e.tape,
        equal=tuple(number for number, (d, d_prime) in enumerate(problem.pair_laws) if d == d_prime),
        at_risk=_describe_risk(problem.study),
        drawing=sum(task.drawing for task in tasks) / at_once,
        draw_seconds=trial.seconds_per_draw,
        call_seconds=trial.seconds_per_call,
        points=amounts.points,
        divergences=len(problem.pairs) * 2 * len(e.renyi or ()),
        certified=None
        if e.certify is None
        else len(problem.pairs) * (1 if e.certified_direction else 2) * len(e.certify),
        chunk=problem.sampler.chunk,
        is_stored=problem.study.mechanism.call == STORED,
        forecast=cluster_needs(tasks, profile) if profile else None,
        process_memory=profile.worker.memory // profile.worker.process_count if profile else None,
    )


def _span(tasks: Sequence[Task], workers: int) -> float:
    """Seconds until so many workers have done tasks that cannot be cut, the longest first, and none waits for another."""
    busy = [0.0] * workers
    for seconds in sorted((task.seconds for task in tasks), reverse=True):
        heapq.heapreplace(busy, busy[0] + seconds)
    return max(busy)


def _describe_pure(problem: Problem) -> str:
    study = problem.study
    if study.bounds_pure:
        return describe_plan(problem)
    if study.pure is None:
        return ""
    e, which = study.estimate, "every pair" if study.pure.test == "all" else "the pair that training names"
    return (
        f"one set and one output of each pair, chosen by {e.train:,} training outputs a database; {e.test:,} fresh ones of both "
        f"databases of {which}. More tasks, that test, follow those that choose"
    )


def _describe_risk(study: Study) -> str:
    section = study.at_risk
    if section is None:
        return ""
    ranks = (
        f"{cover:g} by rank {order_statistic(section.pairs, cover, section.confidence):,}" for cover in section.cover
    )
    return (
        f"{section.pairs:,} pairs of databases of {section.rows:,} rows, two calls of {section.query} each and one draw of "
        f"noise; covers {', '.join(ranks)}"
    )


def _equal_words(pairs: Sequence[int]) -> str:
    """What is said of pairs of equal databases."""
    shown = ", ".join(map(str, pairs[:_NAMED])) + (", …" if len(pairs) > _NAMED else "")
    return (
        f"D and D′ are equal in pair{'s' if len(pairs) > 1 else ''} {shown}: δ is 0 there, whatever the mechanism does"
    )


def _describe_budget(estimate: Estimate) -> str:
    target = estimate.target
    if target is None:
        return f"as many draws as {estimate.time} allows" if estimate.time else ""
    if target.precision is not None:
        return (
            f"an interval of pure ε {2 * target.precision:g} wide; training outputs decide how many test outputs that "
            f"takes, at most {target.most:,} a database"
        )
    what = f"δ at ε = {target.epsilon:g}" if target.epsilon is not None else f"δ = {target.delta:g}"
    if estimate.tape:
        return f"{what} with a standard error of {100 * target.relative_error:g} %"
    return (
        f"{what} with a standard error of {100 * target.relative_error:g} %; validation tallies decide how many draws that "
        "takes, before the first of them is counted"
    )


def _foresee(study: Study, costs: Costs, workers: int) -> str:
    """How many draws the target of a leading pair will take, as far as anything tells, and how long."""
    target = study.estimate.target
    assert target is not None

    def takes(draws: float) -> str:
        seconds = 2.0 * (1.0 + 2.0 * LEARNING) * draws * (costs.draw + COUNT_SECONDS) / workers
        return f"{draws:.1e} test draws per database of a pair that leads, {duration(seconds)} on {workers} workers"

    found = foresee(study)
    if found is None:
        return f"at most {takes(target.most)}; the first tallies will tell, or a claim"
    when, draws = found
    if math.isinf(draws):
        return f"{when.removesuffix(', about')}, δ is 0: no number of draws tells it"
    too_many = f"; that is more than target.most = {target.most:.1e}: it cannot be had" if draws > target.most else ""
    return f"{when} {takes(draws)}{too_many}"


def refuse_endless(problem: Problem, trial: Trial, workers: int) -> None:
    """StudyError when drawing databases from distributions would take more than a week with all workers busy."""
    amounts = planned(problem).amounts(problem)
    draws, calls = amounts.draws, amounts.calls
    seconds = (draws * trial.seconds_per_draw + calls * trial.seconds_per_call) / max(1, workers)
    if problem.distributions and seconds > _LONGEST_DRAWING:
        raise StudyError(
            f"pairs.distributional: drawing {draws:,} outputs, each of a database of its own, would take about "
            f"{duration(seconds)} with {workers} workers; accepted: at most {duration(_LONGEST_DRAWING)}. Take fewer samples, "
            "rows or values, give the mechanism an each(databases, rng), or the distribution an outputs(size, rng, row, "
            "value) that draws M(D) directly"
        )


def plan(
    study: Study,
    workers: int | None,
    profile: Profile | None = None,
    note: Callable[[str], None] = lambda _: None,
    index: Index | None = None,
) -> Plan:
    """The plan of a whole study; raises StudyError when it is wrong. note: told of trial draws that take long.

    index: of a store that holds part of it.
    """
    problem, trial = resolve(study, note, profile.worker.library_threads if profile else 1)
    return make_plan(problem, trial, workers, index, profile=profile)


def _by_kind(tasks: list[Task]) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for task in tasks:
        kinds[task.work.kind] = kinds.get(task.work.kind, 0) + 1
    return kinds


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit in ("B", "kB") else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def brief(seconds: float) -> str:
    """A short time in two digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 99.5 * size else f"{seconds / size:.0f} {unit}"
    return "0 ns" if seconds < 5e-10 else "1 ns"
