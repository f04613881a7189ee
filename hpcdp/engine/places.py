"""Where a run's tasks run: in one process of this machine while they are few, else with workers, here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcdp._base.given import whole_of, wrong
from hpcdp._base.slow_draws import topic_of
from hpcdp.clusters import Place, Where, connect, default_workers, parse_place, silence_dask
from hpcdp.clusters._processes import refuse_few_files_for
from hpcdp.clusters.folder import job_folder
from hpcdp.clusters.here import Here, open_beside, open_inside
from hpcdp.clusters.place import DaskPlace
from hpcdp.clusters.pool import Pool, open_pool
from hpcdp.engine.context import forget_contexts
from hpcdp.engine.execute import TASKS
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.stopping import Stop
from hpcdp.errors import StudyError
from hpcdp.mechanisms.functions import Handed, Parcel
from hpcdp.planning.costs import UNSCHEDULED_SECONDS, runs_here
from hpcdp.store.layout import Layout
from hpcdp.store.lease import Lease
from hpcdp.store.root import make_group
from hpcdp.study.problem import Problem
from hpcdp.study.trust import names_code

if TYPE_CHECKING:
    from distributed import Client

_PATIENCE = 300.0  # seconds without a worker of a caller's own client


@dataclass(frozen=True)
class Options:
    """How a run is done; none of it changes the result.

    workers: 0: none; None: none where the work is small. quiet: what Dask logs is not shown.
    """

    cluster: str = "local"
    workers: int | None = None
    client: Client | None = None
    allow_changed_code: bool = False
    trust_code: bool = False
    stop: Stop = field(default_factory=Stop)
    dashboard: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        """StudyError where workers are no number of them, or the client is none."""
        if self.workers is not None:
            whole_of("workers", self.workers, 0, "0 (none, in one process) or a positive integer")
        if self.client is not None:
            from distributed import Client

            if not isinstance(self.client, Client):
                raise wrong("client", self.client, "a distributed.Client")


def at_once(options: Options, where: Where) -> int:
    """Tasks that run at once, as far as is known beforehand."""
    return where.slots or (1 if options.workers == 0 else options.workers or default_workers())


def refuse_place(options: Options) -> None:
    """StudyError where workers are asked for that there cannot be."""
    if options.workers == 0 and options.dashboard:
        raise StudyError("--dashboard: that of Dask's workers; given: --workers 0, which has none")
    if options.workers == 0 and (options.client is not None or not parse_place(options.cluster).is_here):
        other = "a client" if options.client is not None else f"cluster {options.cluster}"
        raise StudyError(
            f"workers: 0, one process of this machine, was given beside {other}; accepted: workers 0 alone, or {other} without it"
        )
    if options.workers and options.client is None and parse_place(options.cluster).is_here:
        refuse_few_files_for(options.workers)


class Places:
    """Where a run's tasks run: without workers while little is left to do, with them from then on when it is more."""

    def __init__(
        self, layout: Layout, lease: Lease, problem: Problem, options: Options, where: Where, monitor: Monitor
    ) -> None:
        self._asked = options.workers
        self._open = partial(place_of, layout, lease, problem, options, where, monitor)
        self._opened = ExitStack()
        self._place: Place | None = None

    def __enter__(self) -> Places:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._opened.close()

    def place(self, seconds: float) -> Place:
        """Where so much work is done."""
        is_alone = isinstance(self._place, Here) or (isinstance(self._place, Pool) and self._place.size == 1)
        if is_alone and not runs_here(self._asked, seconds) and self._asked is None:
            self._opened.close()
            self._place = None
        if self._place is None:
            self._place = self._opened.enter_context(self._open(seconds))
        return self._place


@contextmanager
def place_of(
    layout: Layout, lease: Lease, problem: Problem, options: Options, where: Where, monitor: Monitor, seconds: float
) -> Iterator[Place]:
    """Where a run's tasks run, with its workers, if so many seconds of work need some."""
    with _opened_place(layout, lease, problem, options, where, monitor, seconds) as place:
        monitor.at(place)
        with monitor.listening(topic_of(str(layout.root.resolve()), lease.generation)):
            yield place


def parcel_of(problem: Problem) -> Parcel | None:
    """What goes to workers with each call: of a function that was given as an object. StudyError where it cannot be sent."""
    handed = problem.study.handed
    return Parcel.of(problem.sampler.call, handed) if handed else None


def refuse_unsendable(problem: Problem, options: Options, where: Where) -> None:
    """StudyError where workers are asked for, and the function that was given cannot be sent to any."""
    if options.client is not None or options.workers or options.dashboard or not where.is_here:
        parcel_of(problem)


def _stays(problem: Problem, options: Options, where: Where, note: Callable[[str], None], seconds: float) -> bool:
    """Whether one process of this machine does so much work: where it is little, and where workers cannot have the function."""
    if options.client is not None or options.dashboard or not where.is_here:
        return False
    if runs_here(options.workers, seconds):
        return True
    if options.workers is not None:
        return False
    try:
        parcel_of(problem)
    except StudyError as error:
        note(f"one process does all: {error}")
        return True
    return False


@contextmanager
def _opened_place(
    layout: Layout, lease: Lease, problem: Problem, options: Options, where: Where, monitor: Monitor, seconds: float
) -> Iterator[Place]:
    if options.client is not None:
        yield DaskPlace(options.client, _PATIENCE, parcel=parcel_of(problem))
        return
    if _stays(problem, options, where, monitor.note, seconds):
        try:
            with _alone(problem) as alone:
                yield alone
        finally:
            forget_contexts()
        return
    if options.quiet and (options.dashboard or not where.is_here or seconds >= UNSCHEDULED_SECONDS):
        silence_dask()
    folder = None
    if where.profile is not None:
        make_group(layout.root, layout.jobs, {})
        folder = job_folder(layout, problem.study.name)
    asked = where, options.workers, folder, lease.generation, monitor.note, options.dashboard, TASKS
    with connect(*asked, is_short=seconds < UNSCHEDULED_SECONDS) as place:
        if isinstance(place, DaskPlace):
            place.find_dashboard()
        place.parcel = parcel_of(problem)
        yield place


@contextmanager
def _alone(problem: Problem) -> Iterator[Place]:
    """One process for all tasks: this one, unless code of others is to be apart from it."""
    section, handed = problem.study.mechanism, problem.study.handed
    if not names_code(problem.study):
        with open_inside() as inside:
            yield inside
    elif not section.shares_process:
        with open_pool(1, TASKS) as pool:
            pool.parcel = parcel_of(problem)
            yield pool
    else:
        how = "true has another do it" if section.isolated else "false; true names the chunk"
        named = f"{problem.sampler.named}, called in this process (mechanism.isolated = {how})"
        with open_beside(named) as beside:
            beside.parcel = Handed(handed) if handed else None
            yield beside
