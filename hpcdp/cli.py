"""The commands. Heavy packages are imported by the command that needs them, so that help and plan start at once."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hpcdp import __version__
from hpcdp.errors import HpcdpError, StudyError
from hpcdp.stopping import GRACE, Stop, Stopped, stopped_by_signals

DONE, FAILED, WRONG, VIOLATED, INTERRUPTED = 0, 1, 2, 3, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    0 done, 1 the run failed, 2 wrong command or study, 3 a claim is violated, 130 interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        with _interruptible():
            return int(options.command(options) or DONE)
    except StudyError as error:
        return _fail(error, WRONG, options.debug)
    except Stopped as error:
        return _stopped(error, options)
    except HpcdpError as error:
        return _fail(error, FAILED, options.debug)
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):  # a second one would only end this in the middle of the word
            signal.signal(number, signal.SIG_IGN)
        store = getattr(options, "found_store", None)
        go_on = f"; go on with: {_go_on(options)}" if store is not None else ""
        print(f"\nhpcdp: interrupted; what is committed is kept{go_on}", file=sys.stderr, flush=True)
        if arguments is None:  # Python ends by the signal itself when it interrupted an exec, as imports make them
            atexit._run_exitfuncs()
            os._exit(INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    except OSError as error:
        if options.debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"hpcdp: {where}{error.strerror or error}", file=sys.stderr)
        return FAILED
    except Exception as error:
        if options.debug:
            raise
        print(f"hpcdp: unexpected {type(error).__name__}: {error} (--debug shows where)", file=sys.stderr)
        return FAILED


@contextmanager
def _interruptible() -> Iterator[None]:
    """A batch system's end is an interruption like Ctrl-C: clean up, say how to go on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(error: Exception, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"hpcdp: {error}", file=sys.stderr)
    return code


def _stopped(error: Stopped, options: argparse.Namespace) -> int:
    """A run that was asked to end did so in order; in a chain of jobs the next one is submitted."""
    store: Path = options.found_store
    if getattr(options, "chained", False) and error.is_walltime:
        from hpcdp.clusters.folder import job_folder
        from hpcdp.clusters.submit import submit_next
        from hpcdp.store.studies import latest_version, open_layout, stored_study

        layout = open_layout(store)
        name = stored_study(layout, latest_version(layout)).name
        try:
            job = submit_next(layout, job_folder(layout, name))
        except HpcdpError as reason:
            return _fail(reason, FAILED, options.debug)
        print(f"hpcdp: {error}; what is committed is kept; job {job} goes on", file=sys.stderr)
        return DONE
    print(f"hpcdp: {error}; what is committed is kept; go on with: {_go_on(options)}", file=sys.stderr)
    return INTERRUPTED


def _go_on(options: argparse.Namespace) -> str:
    """The command that goes on with a run where it ran."""
    place = getattr(options, "cluster", "local")
    return f"hpcdp resume {options.found_store}" + (f" --cluster {place}" if place != "local" else "")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="hpcdp", description="Measure how private a mechanism really is.")
    parser.add_argument("--version", action="version", version=f"hpcdp {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, function: Callable[[Any], int | None], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        command.set_defaults(command=function)
        return command

    def add_place(command: argparse.ArgumentParser) -> None:
        text = (
            '"local", a scheduler address such as tcp://host:8786, a scheduler file (.json), a cluster profile (.toml)'
        )
        command.add_argument("--cluster", default="local", metavar="WHERE", help=text)
        command.add_argument("--workers", type=_positive, metavar="N", help="worker processes on this machine")
        command.add_argument("--chained", action="store_true", help=argparse.SUPPRESS)

    plan = add("plan", _plan, "print what would run: pairs, tasks, samples, bytes, memory, time, expected error")
    plan.add_argument("study", metavar="STUDY", help="a study file")
    plan.add_argument("--workers", type=_positive, metavar="N", help="worker processes to plan for")
    plan.add_argument("--profile", metavar="PROFILE", help="a cluster profile (.toml) to plan for")

    run = add("run", _run, "run a study, or go on with its store")
    run.add_argument("study", metavar="STUDY", help="a study file")
    run.add_argument("--store", type=Path, metavar="PATH", help="where results go (default: runs/NAME.zarr)")
    changed = "go on although the mechanism's source changed"
    run.add_argument("--allow-changed-code", action="store_true", help=changed)
    add_place(run)

    resume = add("resume", _resume, "go on from a store alone: the study is inside it")
    resume.add_argument("store", type=Path, metavar="STORE")
    resume.add_argument("--allow-changed-code", action="store_true", help=changed)
    add_place(resume)

    status = add("status", _status, "what is done, to do and failed, per stage")
    status.add_argument("store", type=Path, metavar="STORE")

    submit = add("submit", _submit, "submit the whole run to a cluster as a job; prints the job's id")
    submit.add_argument("study", metavar="STUDY", help="a study file")
    submit.add_argument("--profile", required=True, metavar="PROFILE", help="a cluster profile (.toml)")
    submit.add_argument("--store", type=Path, metavar="PATH", help="where results go (default: runs/NAME.zarr)")
    submit.add_argument("--allow-changed-code", action="store_true", help=changed)

    logs = add("logs", _logs, "the last lines of the logs of a store's jobs")
    logs.add_argument("store", type=Path, metavar="STORE")
    logs.add_argument("--lines", type=_positive, default=20, metavar="N", help="lines of each log (default: 20)")
    logs.add_argument("--job", metavar="ID", help="of this job only")

    cancel = add("cancel", _cancel, "end a run and its jobs; the store stays and can be resumed")
    cancel.add_argument("store", type=Path, metavar="STORE")

    text = "make a certificate for a Dask scheduler that you start yourself; prints what the shell should export"
    certificate = add("certificate", _certificate, text)
    certificate.add_argument("folder", type=Path, metavar="FOLDER", help="a folder to make, on a shared file system")

    show = add("show", _show, "print a store's results")
    show.add_argument("store", type=Path, metavar="STORE")
    show.add_argument("--format", choices=("table", "json", "csv"), default="table")
    text = (
        "instead, how accurate δ̂ is: resampled and binomial standard errors, and what is stated of it (table or json)"
    )
    show.add_argument("--accuracy", action="store_true", help=text)

    plot = add("plot", _plot, "draw a store's results")
    plot.add_argument("store", type=Path, metavar="STORE")
    plot.add_argument("-o", "--output", type=Path, metavar="FILE", help=".png or .svg (default: beside the store)")

    verify = add("verify", _verify, "check claims against a store's results; exit code 3 when one is violated")
    verify.add_argument("store", type=Path, metavar="STORE")
    text = "such as laplace(epsilon=1), dp(epsilon=1, delta=1e-6), file(curve.csv); several are ranked (default: the study's)"
    verify.add_argument("--claim", action="append", metavar="CLAIM", help=text)
    verify.add_argument("--format", choices=("table", "json"), default="table")

    compare = add("compare", _compare, "draw several stores' spectra in one plot, and tell which is below which")
    compare.add_argument("stores", type=Path, nargs="+", metavar="STORE")
    text = ".png or .svg (default: compare.png beside the first store)"
    compare.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    compare.add_argument("--log", action="store_true", help="draw δ on a logarithmic axis")
    compare.add_argument("--format", choices=("table", "json"), default="table")

    add("mechanisms", _mechanisms, "list the built-in mechanisms and their parameters")
    return parser


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"a positive integer; given: {text!r}")
    return value


def _plan(options: argparse.Namespace) -> None:
    from hpcdp.clusters import default_workers
    from hpcdp.plan import plan
    from hpcdp.study import Study

    profile = None
    if options.profile:
        from hpcdp.clusters.profile import Profile

        profile = Profile.from_toml(options.profile)
    print(plan(Study.from_toml(options.study), options.workers or default_workers(), profile))


def _run(options: argparse.Namespace) -> None:
    from hpcdp.clusters import parse_place
    from hpcdp.problem import resolve
    from hpcdp.study import Study

    where = parse_place(options.cluster)
    study = Study.from_toml(options.study)
    from hpcdp.driver import default_store

    store = options.found_store = options.store or default_store(study)
    with _stoppable(where.profile) as stop:
        problem, trial = resolve(study)
        _print_plan(options, store, problem, trial, where.profile)
        _drive(options, store, problem, trial, stop)


def _print_plan(options: argparse.Namespace, store: Path, problem: Any, trial: Any, profile: Any) -> None:
    from hpcdp.clusters import default_workers
    from hpcdp.driver import index_of
    from hpcdp.plan import make_plan

    workers = getattr(options, "workers", None) or default_workers()
    plan = make_plan(problem, trial, workers, index_of(store), profile)
    print(plan, end="\n\n", file=sys.stderr, flush=True)


def _resume(options: argparse.Namespace) -> None:
    from hpcdp.clusters import parse_place
    from hpcdp.driver import resolve_stored

    options.found_store = options.store
    where = parse_place(options.cluster)
    with _stoppable(where.profile) as stop:
        problem, trial = resolve_stored(options.store, options.allow_changed_code)
        _drive(options, options.store, problem, trial, stop)


@contextmanager
def _stoppable(profile: Any) -> Iterator[Stop]:
    """A request to stop that signals make from here on: USR1 anywhere, SIGTERM on a cluster, where tasks may end first."""
    stop = Stop()
    drain = 0.75 * profile.cluster.drain if profile else GRACE
    with stopped_by_signals(stop, drain, terminate=profile is not None):
        yield stop


def _drive(options: argparse.Namespace, store: Path, problem: Any, trial: Any, stop: Stop) -> None:
    from hpcdp.driver import Options, run_problem
    from hpcdp.progress import on_stderr
    from hpcdp.report.table import table

    if not options.debug:
        _silence_dask()
    with on_stderr() as progress:
        place = Options(options.cluster, options.workers, None, options.allow_changed_code, stop)
        result = run_problem(problem, trial, store, place, progress)
    print(table(result))
    print(f"\nstore: {store}", flush=True)
    picture = _default_plot(store)
    result.plot(picture)
    print(f"plot:  {picture}")


def _submit(options: argparse.Namespace) -> None:
    from hpcdp.clusters import slurm
    from hpcdp.clusters.profile import Profile
    from hpcdp.driver import default_store, store_problem
    from hpcdp.problem import resolve
    from hpcdp.study import Study

    profile = Profile.from_toml(options.profile)
    slurm.check_installed()
    study = Study.from_toml(options.study)
    problem, trial = resolve(study)
    store = options.store or default_store(study)
    _print_plan(options, store, problem, trial, profile)
    from hpcdp.clusters.folder import job_folder
    from hpcdp.clusters.submit import refuse_second_driver, submit_driver
    from hpcdp.store.layout import Layout

    folder = job_folder(Layout(store), study.name)
    refuse_second_driver(folder)
    store_problem(problem, store, options.allow_changed_code)
    text = Path(options.profile).read_text(encoding="utf-8")
    print(submit_driver(profile, text, folder, store.resolve()), flush=True)
    print(f"store: {store}; see hpcdp status {store}, hpcdp logs {store}, hpcdp cancel {store}", file=sys.stderr)


def _logs(options: argparse.Namespace) -> None:
    from hpcdp.report.logs import logs

    for line in logs(_folder_of(options.store), options.lines, options.job):
        print(line)


def _cancel(options: argparse.Namespace) -> None:
    from hpcdp.clusters import slurm
    from hpcdp.clusters.cancel import cancel
    from hpcdp.store.layout import Layout

    slurm.check_installed()
    for line in cancel(Layout(options.store), _folder_of(options.store)):
        print(line)


def _folder_of(store: Path) -> Any:
    """The folder of a store's jobs; StudyError when there is no store."""
    from hpcdp.clusters.folder import job_folder
    from hpcdp.store.studies import latest_version, open_layout, stored_study

    layout = open_layout(store)
    version = latest_version(layout)
    if not version:
        raise StudyError(f"{store} holds no study yet; run the study file again")
    return job_folder(layout, stored_study(layout, version).name)


def _certificate(options: argparse.Namespace) -> None:
    from hpcdp.clusters.certificates import Certificate

    if options.folder.exists():
        raise StudyError(f"FOLDER: one that does not exist yet; given: {options.folder}")
    print(Certificate.create(options.folder).exports())


def _silence_dask() -> None:
    """Keep Dask's log to itself: what it tells of lost connections is no news while workers end."""
    import dask

    dask.config.set(
        {"logging": dict.fromkeys(("distributed", "distributed.client", "tornado.application"), "critical")}
    )


def _default_plot(store: Path) -> Path:
    return store.with_suffix(".png")


def _status(options: argparse.Namespace) -> None:
    from hpcdp.report.status import status

    print(status(options.store))


def _show(options: argparse.Namespace) -> None:
    from hpcdp.report.table import csv_text, table
    from hpcdp.result import load_result

    result = load_result(options.store)
    if options.accuracy:
        _show_accuracy(result, options.format)
    elif options.format == "json":
        print(result.to_json())
    elif options.format == "csv":
        print(csv_text(result), end="")
    else:
        print(table(result))


def _show_accuracy(result: Any, form: str) -> None:
    from hpcdp.bootstrap import bootstrap
    from hpcdp.report.accuracy import table, to_json

    if form == "csv":
        raise StudyError("--accuracy: accepted with --format are table and json; given: csv")
    errors = bootstrap(result)
    print(to_json(errors) if form == "json" else table(result, errors))


def _plot(options: argparse.Namespace) -> None:
    from hpcdp.result import load_result

    path = options.output or _default_plot(options.store)
    load_result(options.store).plot(path)
    print(path)


def _verify(options: argparse.Namespace) -> int:
    from hpcdp.claims import parse_claim
    from hpcdp.fit import rank
    from hpcdp.report.table import claim_of
    from hpcdp.report.verdict import report, to_json
    from hpcdp.result import load_result
    from hpcdp.verdict import VIOLATION, verify, worst

    claims = [parse_claim(text, Path.cwd()) for text in options.claim or ()]
    result = load_result(options.store)
    own = claim_of(result) if not claims else None
    if not claims and own is None:
        raise StudyError("--claim: none was given, and the study makes none; accepted: such as laplace(epsilon=1)")
    verdicts = [verify(result, claim) for claim in ([own] if own is not None else claims)]
    ranking = rank(result, claims) if len(claims) > 1 else None
    print(to_json(verdicts, ranking) if options.format == "json" else report(verdicts, ranking))
    return VIOLATED if worst(verdicts).verdict == VIOLATION else DONE


def _compare(options: argparse.Namespace) -> None:
    import json

    from hpcdp.comparison import compare
    from hpcdp.plots import check_path, draw_comparison
    from hpcdp.report.comparison import table
    from hpcdp.result import load_result

    path = options.output or options.stores[0].parent / "compare.png"
    check_path(path)
    comparison = compare([load_result(store) for store in options.stores])
    draw_comparison(comparison, path, options.log)
    if options.format == "json":
        print(json.dumps(comparison.to_dict() | {"plot": str(path)}, allow_nan=False, ensure_ascii=False))
    else:
        print(table(comparison))
        print(f"\nplot: {path}")


def _mechanisms(_: argparse.Namespace) -> None:
    from hpcdp.mechanisms import describe_builtins

    print(describe_builtins())
