"""Where a run's tasks run: in one process of this machine while they are few, else in many, here or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

from hpcdp._base.asked import wrong
from hpcdp._base.node import NodeExecutor
from hpcdp._base.threads import worker_threads
from hpcdp.clusters import Where, connect, default_workers, parse_place, silence_dask
from hpcdp.clusters.executors import InProcess, OnNode, TaskExecutor, refuse_few_files
from hpcdp.clusters.slurm import job_folder
from hpcdp.engine.context import forget_contexts
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.stopping import Stop
from hpcdp.engine.task import Task, runs_here
from hpcdp.errors import StudyError
from hpcdp.mechanisms import READERS, SCORES
from hpcdp.mechanisms.user_code import Parcel
from hpcdp.store.copies import StoreCopy, sent_files
from hpcdp.store.layout import Layout
from hpcdp.store.lease import Lease
from hpcdp.store.root import latest_version, make_group
from hpcdp.study.mechanism import ProgramCall
from hpcdp.study.named_code import names_code
from hpcdp.study.problem import Problem

if TYPE_CHECKING:
    from distributed import Client

_PATIENCE = 300.0  # seconds without a worker of a caller's own client
_SENT = 256 << 20  # bytes of databases that go to each node, at most
_FILES = 64  # that a run with a scheduler opens at least
_FILES_A_JOB = 3  # for each job of workers: 802 were open for 256


@dataclass(frozen=True)
class Options:
    """How a run is done; none of it changes the result."""

    cluster: str = "local"
    workers: int | None = None  # processes of this machine; 0: one; None: one where work is small
    client: Client | None = None
    allow_changed_code: bool = False
    trust_code: bool = False
    stop: Stop = field(default_factory=Stop)
    dashboard: bool = False
    quiet: bool = False  # what Dask logs is not shown
    performance_report: str | None = None  # an HTML file of Dask's

    def __post_init__(self) -> None:
        """StudyError where workers are no number of them, or the client is none."""
        is_number = isinstance(self.workers, Integral) and not isinstance(self.workers, bool) and self.workers >= 0
        if self.workers is not None and not is_number:
            raise wrong("workers", self.workers, "0 (none, in one process) or a positive integer")
        if self.client is not None:
            from distributed import Client

            if not isinstance(self.client, Client):
                raise wrong("client", self.client, "a distributed.Client")

    @property
    def has_scheduler(self) -> bool:
        """Whether Dask has tasks, wherever its workers are."""
        return self.client is not None or self.dashboard or not parse_place(self.cluster).is_here


def at_once(options: Options, where: Where) -> int:
    """Tasks that run at once, as far as is known beforehand."""
    return where.slots or (1 if options.workers == 0 else options.workers or default_workers())


def refuse_place(options: Options) -> None:
    """StudyError where workers are asked for that there cannot be."""
    if options.workers == 0 and options.dashboard:
        raise StudyError("--dashboard: that of Dask's workers; given: --workers 0, which has none")
    if options.workers == 0 and options.has_scheduler:
        other = "a client" if options.client is not None else f"cluster {options.cluster}"
        raise StudyError(
            f"workers: 0, one process of this machine, was given beside {other}; accepted: workers 0 alone, or {other} without it"
        )
    if options.performance_report is not None and not options.has_scheduler:
        raise StudyError(
            "--performance-report: Dask's, of a run on its scheduler; accepted with --dashboard or --cluster; given without"
        )
    if options.has_scheduler:
        profile = parse_place(options.cluster).profile
        refuse_few_files(_FILES + _FILES_A_JOB * (profile.size.most if profile else 0), "a run on Dask's workers")


@dataclass(eq=False)
class Executors:
    """What runs a run's tasks: one process while little is left, then more. keeps: whether tasks keep samples in any case."""

    layout: Layout
    lease: Lease
    problem: Problem
    options: Options
    where: Where
    monitor: Monitor
    keeps: bool = False
    _opened: ExitStack = field(default_factory=ExitStack)
    _executor: TaskExecutor | None = None
    _is_small: bool = False

    def __enter__(self) -> Executors:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._opened.close()

    def executor(self, seconds: float) -> TaskExecutor:
        """What does so much work."""
        is_small = not self.options.has_scheduler and runs_here(self.options.workers, seconds)
        if self._executor is not None and self._is_small and not is_small:
            self._opened.close()
            self._executor = None
        if self._executor is None:
            self._is_small = is_small
            handed = self.problem.study.handed
            parcel = Parcel.of(self.problem.sampler.call, handed) if handed else None
            if self.options.has_scheduler:
                self._executor = self._open_dask()
            elif is_small and not names_code(self.problem.study):
                self._opened.callback(forget_contexts)
                self._opened.enter_context(worker_threads(1))  # as other processes have
                self._executor = InProcess()
            else:
                size = 1 if is_small else self.options.workers or default_workers()
                self._executor = OnNode(self._opened.enter_context(NodeExecutor(size)))
            self._executor.parcel = parcel
            self._opened.enter_context(self.monitor.at(self._executor))
        return self._executor

    def _open_dask(self) -> TaskExecutor:
        options, opened = self.options, self._opened
        layout = replace(self.layout, root=self.layout.root.resolve())  # workers have another working directory
        if options.quiet:
            silence_dask()
        if options.client is not None:
            from hpcdp.clusters.remote import open_on_dask

            remote = opened.enter_context(open_on_dask(options.client, _PATIENCE))
        else:
            folder = None
            if self.where.profile is not None:
                make_group(layout.root, layout.jobs, {})
                folder = job_folder(layout, self.problem.study.name)
            place = self.where, options.workers, folder, self.lease.generation, self.monitor.note, options.dashboard
            remote = opened.enter_context(connect(*place))
            remote.find_dashboard()
        copy = None if self.keeps else _copy_of(layout, self.problem)
        if copy is not None:
            remote.files_of = partial(_files_of, layout, self.problem)
        remote.prepare(layout.passage(self.lease.generation), copy)
        if options.performance_report is not None:
            from distributed import performance_report

            opened.enter_context(performance_report(options.performance_report))
        return remote


def _copy_of(layout: Layout, problem: Problem) -> StoreCopy | None:
    """What nodes get in place of the store; None where tasks read or write more than should be sent."""
    call = problem.study.mechanism.call
    reads_files = call in (*READERS, SCORES) or isinstance(call, ProgramCall)
    if problem.kept_stages or reads_files or sum(database.nbytes for database in problem.databases) > _SENT:
        return None
    study = problem.study
    return StoreCopy.of(layout, latest_version(layout), study.folder, names_code(study), problem.chosen)


def _files_of(layout: Layout, problem: Problem, task: Task) -> Mapping[str, bytes]:
    """Files of the store that go with a task to nodes that work with a copy."""
    sized = problem if task.sizes is None else problem.sized(task.sizes)
    return sent_files(layout, task.work.reads(sized, layout))
