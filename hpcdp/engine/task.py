"""A task, what every kind of work says of itself, and roughly what tasks take, of one process and of a cluster.

Rough seconds cut tasks of a sensible length, and say beforehand how long a run takes. The constants were measured on one core of
an ordinary server; results never depend on them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from hpcdp.clusters.profile import Profile
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.store.layout import Layout
from hpcdp.study.problem import Problem, Sizes
from hpcdp.study.trial_draws import Trial


@dataclass(frozen=True)
class Work(ABC):
    """What a task does, a pure function of the study and of these keys; `does`, "module:function", gets Context, work, Report."""

    does: ClassVar[str]

    @abstractmethod
    def split(self) -> Sequence[Self]:
        """The parts that can fail for themselves."""

    @abstractmethod
    def describe(self, problem: Problem) -> str:
        """A part, in words."""

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        """Files of the store that it reads beside the study and samples, if they are there."""
        return ()

    def cause(self, problem: Problem) -> str | None:
        """What others lack too where this part fails, the name of its record; None: nothing else needs it."""
        return None


@dataclass(frozen=True)
class Task:
    """A unit of distribution."""

    name: str
    work: Work
    after: tuple[str, ...]  # names of the tasks that come first
    units: int  # chunks of work, for progress
    seconds: float  # how long it should take
    drawing: float = 0.0  # how much of that the mechanism takes
    sizes: Sizes | None = None  # of a study with a target, what the run has decided so far

    @property
    def kind(self) -> str:
        """What it does, in the plan's words."""
        return self.name.partition("-")[0]


@dataclass(frozen=True)
class Progress:
    """How far a part of the work is, as `hpcdp status` tells it."""

    name: str
    done: int
    total: int
    unit: str = ""


@dataclass(frozen=True)
class Amounts:
    """What a study takes, whatever is done already."""

    draws: int  # of the mechanism
    calls: int
    memory: int  # bytes of a worker process beside its libraries
    learned: int  # samples per database that teach one L̂, at most
    points: int = 0  # trade-off points that draw for themselves


_READ = 1.0e-9  # a stored byte
_WRITE = 2.0e-9
_TALLY = 1.5e-8
_BOUND = 2.5e-4  # the bounds of a cell

_SMALL = 3.0  # seconds of work: workers take as long to start


@dataclass(frozen=True)
class Costs:
    """Seconds a sample, and besides, by which tasks are cut."""

    draw: float  # a sample
    write: float  # to keep one
    read: float
    learn: float  # a training point
    count: float  # an output
    call: float = 0.0  # of the mechanism besides, which a chunk is
    tally: float = _TALLY  # finding the cell of one
    each: float = 0.0  # of learning besides, however few the points

    @classmethod
    def of(cls, problem: Problem, trial: Trial) -> Costs:
        """Costs of a problem's loss, schema and mechanism."""
        e, width = problem.study.estimate, problem.schema.bytes_per_output
        parameters = validate_parameters(e.default_loss, e.parameters)
        learn, count, each = kind_of(e.default_loss).seconds(parameters, problem.schema, e.train, trial.many_valued)
        tally = _TALLY + (count if problem.schema.columns not in (None, 1) else 0.0)  # vectors are scored first
        draw, call = trial.seconds_per_draw, trial.seconds_per_call
        return cls(draw, _WRITE * width, _READ * width, learn, count, call, tally, each)

    def drawing(self, samples: int, chunks: int) -> float:
        """Seconds to draw this many samples in this many chunks."""
        return self.draw * samples + self.call * chunks


def seconds_alone(problem: Problem, tasks: Iterable[Task]) -> float:
    """How long one process takes: these tasks, and bounds of all cells."""
    cells = len(problem.pairs) * 2 * len(problem.study.epsilons)
    return sum(task.seconds for task in tasks) + _BOUND * cells


def runs_here(workers: int | None, seconds: float) -> bool:
    """Whether one process of this machine does so much work; workers: 0: yes, more: no, None: where it is small."""
    return workers == 0 or (workers is None and seconds < _SMALL)


_START = 60.0  # seconds from a job's start to its first task: to start, and to compile kernels once a node


@dataclass(frozen=True)
class ClusterNeeds:
    """What a run needs on a cluster."""

    at_once: int  # that run together
    jobs: int  # over all walltimes
    core_hours: float  # of the workers' jobs
    node_hours: float  # the same in nodes of cores_per_node, by default a job's, cores
    seconds: float  # if no job has to wait
    longest: float  # of one task
    useful: float  # in which a job takes tasks
    share: float  # of the slots' time in which they work


def cluster_needs(tasks: Sequence[Task], profile: Profile) -> ClusterNeeds:
    """What these tasks should need on a profile's cluster."""
    worker = profile.worker
    total = sum(task.seconds for task in tasks)
    longest = max((task.seconds for task in tasks), default=0.0)
    at_once = max(1, profile.jobs_for(len(tasks), total))
    seconds = max(longest, total / (at_once * worker.slots)) + _START
    jobs = at_once * math.ceil(seconds / profile.useful_seconds)
    core_hours = at_once * worker.cores * seconds / 3600
    return ClusterNeeds(
        at_once=at_once,
        jobs=jobs,
        core_hours=core_hours,
        node_hours=core_hours / (worker.cores_per_node or worker.cores),
        seconds=seconds,
        longest=longest,
        useful=profile.useful_seconds,
        share=total / (at_once * worker.slots * seconds),
    )
