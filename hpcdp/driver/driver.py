"""Runs a study into a store: validate, take the lease, do what no record has, derive the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.asked import asking, path_of
from hpcdp._base.files import own_files
from hpcdp._base.signals import as_interruptions, ignored
from hpcdp.clusters import TaskExecutor, Where, default_workers, parse_place
from hpcdp.driver.plan import drawing_words, refuse_endless, refuse_unfit
from hpcdp.engine.execute import Outcome, execute, run_batches
from hpcdp.engine.executors import Executors, Options, at_once, refuse_place
from hpcdp.engine.index import Index, read_index
from hpcdp.engine.method import method_of
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.outcomes import RunFailed, describe_killed, failed, no_memory, unusable
from hpcdp.engine.progress import Progress, progress_shown
from hpcdp.engine.repair import (
    check_samples,
    read_sound_index,
    refuse_identical_chunks,
    remove_unrecorded,
    set_record_aside,
)
from hpcdp.engine.stopping import Stopped
from hpcdp.engine.task import Costs, cluster_needs, seconds_alone
from hpcdp.engine.tasks import draws_vary
from hpcdp.errors import DamagedError, HpcdpError, PlaceError, StudyError
from hpcdp.notions.bounds import BOUNDS_VERSION
from hpcdp.results.load import assemble, make_result, pair_entries
from hpcdp.results.result import Result
from hpcdp.store.fence import refuse_gone
from hpcdp.store.layout import Layout
from hpcdp.store.lease import Lease, acquire, provenance
from hpcdp.store.records import commit, foreign, read_record
from hpcdp.store.results import Arrays, digests_of, read_results, write_results
from hpcdp.store.root import create_store, is_store, make_group, open_latest, resume_command
from hpcdp.study.changes import going_on
from hpcdp.study.file import Study
from hpcdp.study.named_code import refuse_foreign_code
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve, resolve_stored
from hpcdp.study.stored import with_decisions
from hpcdp.study.trial_draws import Trial
from hpcdp.study.versions import mend, save_problem

if TYPE_CHECKING:
    from distributed import Client

_BOUNDS_PER_TASK = 500
_SLOW = 5.0  # times what a chunk should take, after which it is named


def default_store(study: Study) -> Path:
    """runs/NAME.zarr below the current folder."""
    return Path("runs") / f"{study.name}.zarr"


def read_study(study: Study | str | Path, store: str | Path | None = None) -> tuple[Study, Path]:
    """A study or its file, as it goes on with its store; and where that is."""
    if not isinstance(study, Study | str | os.PathLike):
        how = "; Study.from_dict makes one of it" if isinstance(study, Mapping) else ""
        raise StudyError(f"study: a {type(study).__name__} was given; accepted: a Study or the path of its file{how}")
    parsed = study if isinstance(study, Study) else Study.from_toml(study)
    root = path_of("store", store) if store is not None else default_store(parsed)
    with _store_errors(root), foreign(root):
        return going_on(parsed, root), root


@asking(by_command=False)
def run(
    study: Study | str | Path,
    store: str | Path | None = None,
    *,
    cluster: str = "local",
    workers: int | None = None,
    client: Client | None = None,
    allow_changed_code: bool = False,
    trust_code: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Run a study (or its file), or go on with its store, and return the result.

    cluster: "local", a scheduler's address or file (.json), or a cluster profile (.toml); workers: processes on this machine,
    0: none, by default none where the work takes a few seconds; client: your own Dask client instead; trust_code: to go on
    with another user's store, whose owner says what is run. Raises StudyError before anything runs when the study is wrong or
    the store holds another one, LeaseError when another run holds the store, RunFailed when
    some chunks failed (the store keeps everything else), StoreError when the store cannot be written, PlaceError (a
    StoreError) when there is no worker for too long.
    """
    options = Options(cluster, workers, client, allow_changed_code, trust_code)
    parsed, root = read_study(study, store)
    with progress_shown(progress) as display:
        where = parse_place(cluster)
        problem, trial = resolve(parsed, display.note, where.library_threads)
        knows_workers = client is None and not where.to
        if knows_workers and not is_store(root) and (words := drawing_words(problem, trial, workers, where.profile)):
            display.note(words)
        return run_problem(problem, trial, root, options, display)


@asking(by_command=False)
def resume(
    store: str | Path,
    *,
    cluster: str = "local",
    workers: int | None = None,
    client: Client | None = None,
    allow_changed_code: bool = False,
    trust_code: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Go on from the store alone: the study is inside it. Raises as `run` does.

    trust_code: whether to run the code that the study names where the store is another user's; StudyError else.
    """
    options = Options(cluster, workers, client, allow_changed_code, trust_code)
    threads, root = parse_place(cluster).library_threads, path_of("store", store)
    with progress_shown(progress) as display:
        problem, trial = resolve_latest(root, allow_changed_code, trust_code, display.note, threads)
        return run_problem(problem, trial, root, options, display)


def resolve_latest(
    store: str | Path,
    allow_changed_code: bool = False,
    trust_code: bool = False,
    note: Callable[[str], None] = lambda _: None,
    threads: int = 1,
) -> tuple[Problem, Trial]:
    """The latest problem of a store, tried out again as by `resolve`; StudyError where it is another user's untrusted code."""
    with _store_errors(store), foreign(store):
        layout, version = open_latest(store)
        if not trust_code:
            refuse_foreign_code(layout)
        return resolve_stored(layout, version, allow_changed_code, note, threads)


def index_of(store: Path) -> Index:
    """What a store holds already, for the plan; nothing when there is no store yet."""
    return read_index(Layout(store)) if is_store(store) else Index()


def run_problem(problem: Problem, trial: Trial, store: Path, options: Options, progress: Progress) -> Result:
    """Run a resolved problem into a store under its lease. Raises Stopped when options.stop was requested."""
    where = parse_place(options.cluster)
    refuse_place(options)
    refuse_endless(problem, trial, at_once(options, where))
    if not options.has_scheduler:
        refuse_unfit(problem, store)
    with opened(problem, store, options, progress) as (layout, lease, version):
        return _drive(layout, lease, version, problem, trial, options, where, progress)


@contextmanager
def opened(problem: Problem, store: Path, options: Options, progress: Progress) -> Iterator[tuple[Layout, Lease, int]]:
    """A store under its lease, with this problem as its latest version; how the run ended is noted in it."""
    with _store_errors(store), own_files():
        layout = _made(store, problem.study, options.trust_code)
        lease = acquire(layout, progress.note)
        layout = replace(layout, generation=lease.generation)
        try:
            for words in mend(layout, lease.generation):
                progress.note(words)
            version = save_problem(layout, problem, lease.generation, options.allow_changed_code)
            _note_run(layout, lease, "begin")
            try:
                with as_interruptions():
                    yield layout, lease, version
            except RunFailed as error:
                _note_run(layout, lease, "end", error.lines)
                raise
            except (Stopped, PlaceError) as error:
                _note_run(layout, lease, "end", stopped=str(error))
                raise
            except KeyboardInterrupt:
                with ignored(), suppress(HpcdpError):
                    _note_run(layout, lease, "end", stopped="interrupted (Ctrl-C or SIGTERM)")
                raise
            _note_run(layout, lease, "end")
        except Exception as error:
            refuse_gone(layout, lease.generation, error)
            raise
        finally:
            lease.release()


def _made(store: Path, study: Study, trust_code: bool) -> Layout:
    """The store, made if need be; StudyError where its study names code and another user could name other code."""
    if not trust_code:
        refuse_foreign_code(Layout(store), study)
    return create_store(store)


def store_problem(
    problem: Problem,
    store: Path,
    allow_changed_code: bool = False,
    trust_code: bool = False,
    ended: Container[str] = (),
) -> None:
    """Put a problem into a store, made if need be, for a run that begins later and elsewhere. ended: jobs that hold nothing."""
    with _store_errors(store), own_files():
        layout = _made(store, problem.study, trust_code)
        lease = acquire(layout, ended=ended)
        try:
            list(mend(layout, lease.generation))
            save_problem(layout, problem, lease.generation, allow_changed_code)
            make_group(layout.root, layout.jobs, {})
        finally:
            lease.release()


@contextmanager
def _store_errors(store: str | Path) -> Iterator[None]:
    """Whatever the file system refuses becomes one readable error."""
    try:
        yield
    except OSError as error:
        if isinstance(error, HpcdpError):
            raise
        raise unusable(store, error) from error
    except MemoryError as error:
        raise no_memory(store) from error


def _note_run(layout: Layout, lease: Lease, key: str, failed: Sequence[str] = (), stopped: str | None = None) -> None:
    """Provenance of this run: who, with what, from when to when, what failed, and why it ended early."""
    name = f"{lease.generation:06d}"
    body: dict[str, Any] = {"process": os.getpid(), "job": os.environ.get("SLURM_JOB_ID")}
    with suppress(DamagedError):
        body = read_record(layout, "runs", name)
    body = {**body, key: provenance(), "failed": list(failed), "stopped": stopped}
    commit(layout, "runs", name, body, lease.generation)


def _drive(
    layout: Layout,
    lease: Lease,
    version: int,
    problem: Problem,
    trial: Trial,
    options: Options,
    where: Where,
    progress: Progress,
) -> Result:
    costs = Costs.of(problem, trial)
    workers = where.slots or options.workers or default_workers()  # tasks are cut for as many, wherever they run
    for words in method_of(problem).begin(problem, costs, at_once(options, where), layout, lease.generation):
        progress.note(words)
    problem = with_decisions(layout, problem)
    index = read_sound_index(layout, problem, progress)
    remove_unrecorded(layout, index)
    root = str(layout.root.resolve())
    tasks = method_of(problem).tasks(problem, index, costs, workers)
    expected = cluster_needs(tasks, where.profile) if where.profile else None

    monitor = Monitor(progress, options.stop, lease.lost.is_set, partial(describe_killed, problem), expected)
    listener = monitor.listener
    listener.patience = max(listener.patience, _SLOW * costs.drawing(problem.sampler.chunk, 1))
    lease.news = monitor.news
    options.stop.check()
    with Executors(layout, lease, problem, options, where, monitor) as executors:

        def executor(more: float = 0.0) -> TaskExecutor:
            return executors.executor(seconds_alone(problem, tasks) + more)

        if index.samples:
            reading = costs.read * len(problem.laws) * sum(stage.total for stage in problem.kept_stages)
            if check_samples(executor(reading), layout, root, version, problem, index, monitor):
                index = read_sound_index(layout, problem, progress)
                tasks = method_of(problem).tasks(problem, index, costs, workers)
        outcome = Outcome()
        while True:
            if tasks:
                monitor.begin("run", tasks)
                lease.beat()
                outcome = execute(executor(), root, version, lease.generation, tasks, monitor)
                index = read_sound_index(layout, problem, progress)
            method = method_of(problem)
            if outcome.failures or not method.decides(problem):
                break
            decided = method.decide(problem, index, layout, lease.generation)
            for words in _first(decided):
                progress.note(words)
            problem = with_decisions(layout, problem)
            before, tasks = tasks, method_of(problem).tasks(problem, index, costs, workers)
            if tasks and {task.kind for task in before} != {task.kind for task in tasks}:
                for name, words in method.describe_choices(problem, index, costs, at_once(options, where)):
                    progress.note(f"  {name:<14} {words}")
            if not decided and (not tasks or tasks == before):
                break

        def is_varied(law: str, stage: str, size: int) -> bool:
            (varies,) = run_batches(executor(), monitor, draws_vary, [(root, version, law, stage, size)], "look")
            return bool(varies)

        refuse_identical_chunks(layout, method_of(problem).sized(problem, index), is_varied)
        return _finish(executor, layout, lease, version, problem, index, outcome, monitor)


def _first(decisions: Sequence[str], most: int = 8) -> list[str]:
    """The first of many decisions, and how many more there are."""
    more = len(decisions) - most
    return [*decisions[:most], *([f"… and {more} more pairs"] if more > 0 else [])]


def _finish(
    executor: Callable[[], TaskExecutor],
    layout: Layout,
    lease: Lease,
    version: int,
    problem: Problem,
    index: Index,
    outcome: Outcome,
    monitor: Monitor,
) -> Result:
    """Derive the results, write them last, and raise RunFailed when anything is left."""
    for failure in outcome.failures:
        if failure.set_aside is not None:
            set_record_aside(layout, problem, *failure.set_aside)
    if not method_of(problem).is_done(problem, index):
        raise failed(outcome.failures, resume_command(layout.root))
    stored = _stored_results(layout, version, monitor)
    bounds = _on_workers(executor, monitor, method_of(problem).bounds)
    arrays = assemble(problem, index, bounds if stored is None else None)
    if stored is None or digests_of(stored) != digests_of(arrays):  # which only another program would have changed
        head = {
            "version": version,
            "complete": True,
            "name": problem.study.name,
            "confidence": problem.study.estimate.confidence,
            "pairs": pair_entries(problem),
            "bounds": BOUNDS_VERSION,
        }
        write_results(layout, arrays, head, lease.generation)
    with foreign(layout.root):
        return make_result(layout, version, problem, arrays, complete=True)


def _stored_results(layout: Layout, version: int, monitor: Monitor) -> Arrays | None:
    """The root arrays, where they are whole and of this version of the study and of the bounds."""
    try:
        stored = read_results(layout)
    except DamagedError as error:
        monitor.note(f"damaged: {error}; it is derived again from the records")
        return None
    if stored is None or stored[1]["version"] != version or not stored[1]["complete"]:
        return None
    return stored[0] if stored[1].get("bounds", 1) == BOUNDS_VERSION else None


def _on_workers(
    executor: Callable[[], TaskExecutor], monitor: Monitor, function: Callable[..., NDArray[np.float64]]
) -> Callable[..., NDArray[np.float64]]:
    """A function of flat arrays of cells in grouped tasks."""

    def bounds(*arrays: Any) -> NDArray[np.float64]:
        starts = range(0, arrays[0].size, _BOUNDS_PER_TASK)
        batches = [tuple(a[start : start + _BOUNDS_PER_TASK] for a in arrays) for start in starts]
        monitor.begin_batches("certify", len(batches))
        parts = run_batches(executor(), monitor, function, batches, "bounds")
        monitor.advance(len(batches))
        return np.concatenate(parts) if parts else np.empty(0)

    return bounds
