"""Where a run's tasks run: in one process of this machine while they are few, else in many, here or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcdp._base.given import whole_of, wrong
from hpcdp._base.limits import refuse_few_files
from hpcdp.clusters import Where, connect, default_workers, parse_place, silence_dask
from hpcdp.clusters.executors import TaskExecutor, open_in_process, open_node
from hpcdp.clusters.folder import job_folder
from hpcdp.engine.context import forget_contexts
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.stopping import Stop
from hpcdp.errors import StudyError
from hpcdp.mechanisms.functions import Parcel
from hpcdp.planning.costs import runs_here
from hpcdp.store.layout import Layout
from hpcdp.store.lease import Lease
from hpcdp.store.root import make_group
from hpcdp.study.problem import Problem
from hpcdp.study.trust import names_code

if TYPE_CHECKING:
    from distributed import Client

_PATIENCE = 300.0  # seconds without a worker of a caller's own client
_FILES = 64  # that a run with a scheduler opens at least


@dataclass(frozen=True)
class Options:
    """How a run is done; none of it changes the result.

    workers: processes of this machine; 0: one; None: one where the work is small. quiet: what Dask logs is not shown.
    performance_report: an HTML file that Dask writes of a run on its scheduler.
    """

    cluster: str = "local"
    workers: int | None = None
    client: Client | None = None
    allow_changed_code: bool = False
    trust_code: bool = False
    stop: Stop = field(default_factory=Stop)
    dashboard: bool = False
    quiet: bool = False
    performance_report: str | None = None

    def __post_init__(self) -> None:
        """StudyError where workers are no number of them, or the client is none."""
        if self.workers is not None:
            whole_of("workers", self.workers, 0, "0 (none, in one process) or a positive integer")
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
        refuse_few_files(_FILES, "a run on Dask's workers")


class Executors:
    """What runs a run's tasks: one process while little is left to do, more of them from then on when it is more."""

    def __init__(
        self, layout: Layout, lease: Lease, problem: Problem, options: Options, where: Where, monitor: Monitor
    ) -> None:
        self._given = layout, lease, problem, options, where, monitor
        self._workers, self._may_grow = options.workers, options.workers is None and not options.has_scheduler
        self._opened = ExitStack()
        self._executor: TaskExecutor | None = None
        self._is_small = False

    def __enter__(self) -> Executors:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._opened.close()

    def executor(self, seconds: float) -> TaskExecutor:
        """What does so much work."""
        is_small = runs_here(self._workers, seconds)
        if self._executor is not None and self._is_small and not is_small and self._may_grow:
            self._opened.close()
            self._executor = None
        if self._executor is None:
            self._is_small = is_small
            self._executor = self._opened.enter_context(open_executor(*self._given, seconds))
        return self._executor


@contextmanager
def open_executor(
    layout: Layout, lease: Lease, problem: Problem, options: Options, where: Where, monitor: Monitor, seconds: float
) -> Iterator[TaskExecutor]:
    """What runs a run's tasks, if they take so many seconds."""
    handed = problem.study.handed
    parcel = Parcel.of(problem.sampler.call, handed) if handed else None
    with _opened(layout, lease, problem, options, where, monitor, seconds) as executor:
        executor.parcel = parcel
        with monitor.at(executor):
            yield executor


@contextmanager
def _opened(
    layout: Layout, lease: Lease, problem: Problem, options: Options, where: Where, monitor: Monitor, seconds: float
) -> Iterator[TaskExecutor]:
    if not options.has_scheduler:
        is_small = runs_here(options.workers, seconds)
        if is_small and not names_code(problem.study):
            try:
                with open_in_process() as executor:
                    yield executor
            finally:
                forget_contexts()
            return
        with open_node(1 if is_small else options.workers or default_workers()) as node:
            yield node
        return
    if options.quiet:
        silence_dask()
    with ExitStack() as opened:
        if options.client is not None:
            from hpcdp.clusters.remote import open_on_dask

            remote = opened.enter_context(open_on_dask(options.client, _PATIENCE))
        else:
            folder = None
            if where.profile is not None:
                make_group(layout.root, layout.jobs, {})
                folder = job_folder(layout, problem.study.name)
            remote = opened.enter_context(
                connect(where, options.workers, folder, lease.generation, monitor.note, options.dashboard)
            )
            remote.find_dashboard()
        if options.performance_report is not None:
            from distributed import performance_report

            opened.enter_context(performance_report(options.performance_report))
        yield remote
