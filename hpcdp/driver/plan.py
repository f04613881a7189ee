"""What would run: pairs, tasks, samples, bytes, memory, time and expected error, before anything runs."""

from __future__ import annotations

import heapq
import math
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import psutil

from hpcdp._base.files import absolute
from hpcdp._base.rounding import at_most, duration, percent
from hpcdp._base.terminal import text_width
from hpcdp.clusters import default_workers
from hpcdp.clusters.profile import Profile
from hpcdp.engine.accuracy import dimension, state_lines
from hpcdp.engine.index import Index, read_index
from hpcdp.engine.method import method_of
from hpcdp.engine.sampling import describe_files
from hpcdp.engine.task import Amounts, Costs, Task, cluster_needs, runs_here, seconds_alone
from hpcdp.errors import StudyError
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.mechanisms import STORED
from hpcdp.mechanisms.outputs import describe
from hpcdp.store.layout import Layout
from hpcdp.store.root import is_store
from hpcdp.study.file import Study
from hpcdp.study.pairs import describe_equal
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve
from hpcdp.study.trial_draws import Trial

_LONGEST_DRAWING = 7 * 86400.0
_LONG = 60.0  # seconds of drawing that a run tells of beforehand
_TELLING = 0.1  # a call's own cost is shown where it is more than this part of what a chunk's draws cost
_START, _START_HERE = 3.0, 1.0  # seconds, with and without workers
_BASE_MEMORY = 350 << 20  # a worker with its libraries and compiled kernels

_HALF, _FEW = 0.5, 1.0  # of the jobs' time: a plan warns below, where it is more than so many core-hours

_DETAILS = {
    *("pairs", "cells", "outputs", "tasks", "store", "files", "drawing", "expected error", "radius", "published α")
}
"""Rows that a run leaves to `hpcdp plan`."""

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Plan:
    """A printable plan.

    rows: names and words. pairs, cells, samples: how many of each; samples: draws. tasks: how many of each kind. memory: bytes of
    a worker process. seconds: with all workers busy; drawing: of these, the mechanism's. draws_picture: whether its run ends with
    a picture, unless told otherwise: a small one takes no longer than its picture.
    """

    name: str
    rows: Rows
    pairs: int
    cells: int
    samples: int
    tasks: dict[str, int]
    memory: int
    seconds: float
    drawing: float
    draws_picture: bool

    def __str__(self) -> str:
        return self._text(f"plan of {self.name}", self.rows)

    def brief(self, command: str) -> str:
        """What a run says before it begins: samples, memory, time, what it chose, and warnings. command: prints all."""
        rows = [row for row in self.rows if row[0] not in _DETAILS]
        return self._text(f"plan of {self.name}, in short; the whole plan: {command}", rows)

    @staticmethod
    def _text(head: str, rows: Rows) -> str:
        wrap = textwrap.TextWrapper(
            text_width(), subsequent_indent=" " * 17, break_on_hyphens=False, break_long_words=False
        )
        lines = [line for name, words in rows for line in wrap.wrap(f"  {name:<14} {words}")]
        return "\n".join([head, *lines])


def make_plan(
    problem: Problem, trial: Trial, workers: int | None, index: Index | None = None, profile: Profile | None = None
) -> Plan:
    """The plan of what an index leaves to do. workers: 0: one process; None: as many as cores, or none where work is small."""
    costs, index = Costs.of(problem, trial), index or Index()
    asked, workers = workers, profile.slots if profile else workers or default_workers()
    most = 1 if asked == 0 and profile is None else workers
    refuse_endless(problem, trial, most)
    problem = method_of(problem).chosen(problem, costs, index.chosen)
    method, e = method_of(problem), problem.study.estimate
    tasks = method.tasks(problem, index, costs, workers)
    amounts = method.amounts(problem)
    stated = method.state_accuracy(problem.study, dimension(problem.schema), len(problem.pairs))
    is_here = profile is None and runs_here(asked, seconds_alone(problem, tasks))
    at_once = 1 if is_here else max(1, min(workers, len(tasks)))
    chosen = method.known_draws(problem, index)
    knows_all = chosen > 0 or method.knows_draws
    samples, memory = amounts.draws + chosen, _BASE_MEMORY + amounts.memory
    seconds = _span(tasks, at_once) + (_START_HERE if is_here else _START)
    drawing, kinds = sum(task.drawing for task in tasks) / at_once, Counter(task.kind for task in tasks)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    where = "in one process" if is_here else f"a worker process, {workers} workers"
    beside = "" if method.compares else ", beside its two databases and what the query takes"
    work = [
        ("tasks", words),
        ("samples", f"{samples:,} draws" + ("" if knows_all else " to learn the levels, which decide how many follow")),
        ("store", f"{_bytes(_kept(problem))} of samples kept"),
        ("files", describe_files(problem)),
        ("memory", f"about {_bytes(memory)} {where}{beside}"),
        ("drawing", _drawing(problem, trial, drawing, seconds, None if is_here else workers)),
        *_time_rows(
            tasks, seconds, profile, memory, "" if knows_all else " for the levels, without the draws that follow"
        ),
    ]
    rows = [
        *(_cell_rows(problem, amounts) if method.compares else []),
        *(work if tasks else [("work", "none: everything is in the store")]),
        *method.describe_plan(problem, costs, most),
        ("expected error", "" if e.target or e.time else _expected_error(problem, amounts)),
        *method.describe_choices(problem, index, costs, at_once),
        *(state_lines(stated, percent(e.confidence), method.pools) if stated else []),
    ]
    return Plan(
        name=problem.study.name,
        rows=[(name, text) for name, text in rows if text],
        pairs=len(problem.pairs),
        cells=_cells(problem),
        samples=samples,
        tasks=dict(kinds),
        memory=memory,
        seconds=seconds,
        drawing=drawing,
        draws_picture=not is_here or bool(e.target or e.time),
    )


def _cells(problem: Problem) -> int:
    return len(problem.pairs) * 2 * len(problem.study.epsilons)


def _cell_rows(problem: Problem, amounts: Amounts) -> Rows:
    """What is asked: pairs, cells, and of what outputs."""
    e, pairs, laws = problem.study.estimate, len(problem.pairs), len(problem.laws)
    whose = "databases" if len(problem.databases) else "distributions of outputs, each with one row fixed at a value"
    what = f"{pairs:,} ordered pair{'s' if pairs > 1 else ''} of {laws:,} {whose}"
    if problem.study.pairs.domain is not None:
        what = f"all ordered pairs of {laws:,} midpoints"
    cells = f"{_cells(problem):,} entries: (pair, direction, ε)"
    if e.certify is not None:
        certified = pairs * (1 if e.certified_direction else 2) * len(e.certify)
        cells += f", of which {certified:,} share the level (estimate.certify)"
    if amounts.points:
        cells += f", {amounts.points:,} points: (pair, η)"
    if e.renyi:
        cells += f", {pairs * 2 * len(e.renyi):,} (pair, direction, order) bounds"
    equal = [number for number, (d, d_prime) in enumerate(problem.pair_laws) if d == d_prime]
    return [
        ("pairs", what),
        ("cells", cells),
        ("WARNING", describe_equal(equal)),
        ("outputs", describe(problem.schema)),
    ]


def _drawing(problem: Problem, trial: Trial, drawing: float, seconds: float, workers: int | None) -> str:
    """What drawing costs. workers: None in one process."""
    if problem.study.mechanism.call == STORED:
        return "none: the samples are stored"
    each, once = trial.seconds_per_draw, trial.seconds_per_call
    draw, call = f"{brief(each)} a draw", f"{brief(once)} a call"
    if once <= _TELLING * each * problem.sampler.chunk:
        cost = draw
    else:
        cost = f"{draw} and {call}" if each > 0.0 else call  # too fast to be told from the call
    where = "in one process" if workers is None else f"on {workers} workers"
    return f"about {cost} (measured), {duration(drawing)} of {duration(seconds)} {where}"


def _time_rows(tasks: Sequence[Task], seconds: float, profile: Profile | None, memory: int, rest: str) -> Rows:
    """How long it takes; on a cluster, what it needs and what it lacks. rest: what is not counted, in words."""
    if profile is None:
        return [("time", f"about {duration(seconds)}{rest}")]
    needs, given = cluster_needs(tasks, profile), profile.worker.memory // profile.worker.process_count
    end = datetime.now().astimezone() + timedelta(seconds=needs.seconds)
    hours = f"{needs.node_hours:.2g} node-hours ({needs.core_hours:.2g} core-hours)"
    rows = [
        ("jobs", f"{needs.at_once:,} at once, {needs.jobs:,} in all, about {hours}"),
        ("time", f"about {duration(needs.seconds)}: until {end:%Y-%m-%d %H:%M} if no job has to wait{rest}"),
    ]
    if needs.share < _HALF and needs.core_hours > _FEW:
        words = f"ONLY {needs.share:.0%} of the jobs' time: the rest goes into starting and compiling; fewer jobs (size), or a "
        rows.append(("useful", f"{words}larger worker.useful, waste less"))
    if needs.longest > needs.useful:  # such a task would begin again and again
        words = f"TOO SHORT: a task may take {duration(needs.longest)}, a job takes tasks for {duration(needs.useful)}"
        rows.append(("walltime", words))
    if given < memory:
        words = f"TOO LITTLE, perhaps: the profile gives a process {_bytes(given)}; give more, or fewer processes"
        rows.append(("memory", words))
    return rows


def _expected_error(problem: Problem, amounts: Amounts) -> str:
    """Largest standard errors of δ̂ at the first, the middle and the last ε; empty where draws are decided later."""
    e, levels, method = problem.study.estimate, problem.study.epsilons, method_of(problem)
    shown = sorted({levels[0], levels[len(levels) // 2], levels[-1]}) if levels else []
    worst = [largest for epsilon in shown if (largest := method.worst_errors(problem, epsilon)) is not None]
    if not worst:
        return ""
    errors = "; ".join(f"{at_most(sound, '.1e')} at ε = {at:g}" for at, (sound, _) in zip(shown, worst, strict=True))
    others = at_most(max(error for _, error in worst), ".1e")
    which = " (all samples)" if method.pools else " (test samples)"
    k = kind_of(e.default_loss).votes(validate_parameters(e.default_loss, e.parameters), amounts.learned)
    votes = f"; L̂ within ±{2 / math.sqrt(k):.2g} (k = {k} votes)" if k else ""
    return f"standard error of δ̂ at most {errors}{which} if P(S) ≥ e^ε·Q(S), and at most {others} for any learned set S{votes}"


def _span(tasks: Sequence[Task], workers: int) -> float:
    """Seconds until so many workers have done tasks that cannot be cut, the longest first, and none waits for another."""
    busy = [0.0] * workers
    for seconds in sorted((task.seconds for task in tasks), reverse=True):
        heapq.heapreplace(busy, busy[0] + seconds)
    return max(busy)


def refuse_endless(problem: Problem, trial: Trial, workers: int) -> None:
    """StudyError when drawing databases from distributions would take more than a week with all workers busy."""
    draws, seconds = _drawing_alone(problem, trial, workers)
    if problem.distributions and seconds > _LONGEST_DRAWING:
        raise StudyError(
            f"pairs.distributional: drawing {draws:,} outputs, each of a database of its own, would take about "
            f"{duration(seconds)} with {workers} workers; accepted: at most {duration(_LONGEST_DRAWING)}. Take fewer samples, "
            "rows or values, give the mechanism an each(databases, rng), or the distribution an outputs(size, rng, row, "
            "value) that draws M(D) directly"
        )


def drawing_words(problem: Problem, trial: Trial, workers: int | None, profile: Profile | None = None) -> str:
    """How long drawing takes for a new store, before a run; empty where it is short, or as long as a time allows."""
    e, here = problem.study.estimate, default_workers() if workers is None else max(1, workers)
    draws, seconds = _drawing_alone(problem, trial, profile.slots if profile else here)
    if e.time or seconds < _LONG:
        return ""
    fewer = "" if e.target or problem.study.at_risk else "; fewer samples (train, test) take less"
    return f"drawing {draws:,} outputs takes about {duration(seconds)}{fewer}"


def _drawing_alone(problem: Problem, trial: Trial, workers: int) -> tuple[int, float]:
    """How many outputs are drawn, and the seconds that takes with all workers busy."""
    amounts = method_of(problem).amounts(problem)
    seconds = amounts.draws * trial.seconds_per_draw + amounts.calls * trial.seconds_per_call
    return amounts.draws, seconds / max(1, workers)


def refuse_unfit(problem: Problem, store: Path | None = None) -> None:
    """StudyError where a run on this machine needs more memory than it has, or a new store more disk than is free there."""
    needed, has = _BASE_MEMORY + method_of(problem).amounts(problem).memory, psutil.virtual_memory().total
    if needed > has:
        raise StudyError(
            f"estimate.train: a process would need about {_bytes(needed)} of memory, and this machine has {_bytes(has)}; "
            "accepted: fewer training samples, a smaller estimate.chunk, or a machine with more"
        )
    if store is None or is_store(store):
        return
    there = next(folder for folder in absolute(store).parents if folder.exists())
    kept, free = _kept(problem), shutil.disk_usage(there).free
    if kept > free:
        raise StudyError(
            f"estimate.keep: the samples would take {_bytes(kept)}, and {there} has {_bytes(free)} free; accepted: "
            'keep = "train" or "none", fewer samples, or another --store'
        )


def _kept(problem: Problem) -> int:
    """Bytes of samples that a store keeps."""
    return len(problem.laws) * sum(problem.schema.bytes_stored(stage.total) for stage in problem.kept_stages)


def plan(
    study: Study | str | Path,
    workers: int | None = None,
    profile: Profile | str | Path | None = None,
    note: Callable[[str], None] = lambda _: None,
    *,
    store: str | Path | None = None,
) -> Plan:
    """What a run of a study would take, before anything is stored: `print(hpcdp.plan("study.toml"))`. A few outputs are drawn.

    Args:
        study: a study, or the path of its file.
        workers: processes of this machine, at least 0; 0: one process; None: as `run` chooses.
        profile: a cluster profile, or the path of its file, to plan for.
        note: told of trial draws that take long.
        store: one that holds part of the study, of which the rest is planned; None: all is planned.

    Returns:
        A plan, which prints as `hpcdp plan` does. samples: draws in all; memory: bytes of a process; seconds: with all workers.

    Raises:
        StudyError: the study or the profile is wrong.
    """
    parsed = study if isinstance(study, Study) else Study.from_toml(study)
    site = profile if isinstance(profile, Profile | None) else Profile.from_toml(profile)
    index = read_index(Layout(Path(store))) if store is not None and is_store(Path(store)) else None
    problem, trial = resolve(parsed, note, site.worker.library_threads if site else 1)
    return make_plan(problem, trial, workers, index, profile=site)


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
