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

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 done, 1 the run failed, 2 wrong command or study, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        with _interruptible():
            return int(options.command(options) or DONE)
    except StudyError as error:
        return _fail(error, WRONG, options.debug)
    except HpcdpError as error:
        return _fail(error, FAILED, options.debug)
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):  # a second one would only end this in the middle of the word
            signal.signal(number, signal.SIG_IGN)
        store = getattr(options, "found_store", None)
        go_on = f"; go on with: hpcdp resume {store}" if store is not None else ""
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
        text = '"local", or a scheduler address such as tcp://host:8786'
        command.add_argument("--cluster", default="local", metavar="WHERE", help=text)
        command.add_argument("--workers", type=_positive, metavar="N", help="worker processes on this machine")

    plan = add("plan", _plan, "print what would run: pairs, tasks, samples, bytes, memory, time, expected error")
    plan.add_argument("study", metavar="STUDY", help="a study file")
    plan.add_argument("--workers", type=_positive, metavar="N", help="worker processes to plan for")

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

    show = add("show", _show, "print a store's results")
    show.add_argument("store", type=Path, metavar="STORE")
    show.add_argument("--format", choices=("table", "json", "csv"), default="table")

    plot = add("plot", _plot, "draw a store's results")
    plot.add_argument("store", type=Path, metavar="STORE")
    plot.add_argument("-o", "--output", type=Path, metavar="FILE", help=".png or .svg (default: beside the store)")

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

    print(plan(Study.from_toml(options.study), options.workers or default_workers()))


def _run(options: argparse.Namespace) -> None:
    from hpcdp.clusters import default_workers
    from hpcdp.plan import make_plan
    from hpcdp.problem import resolve
    from hpcdp.study import Study

    study = Study.from_toml(options.study)
    problem, trial = resolve(study)
    workers = options.workers or default_workers()
    from hpcdp.driver import default_store, index_of

    store = options.store or default_store(study)
    print(make_plan(problem, trial, workers, index_of(store)), end="\n\n", file=sys.stderr, flush=True)
    _drive(options, store, problem, trial)


def _resume(options: argparse.Namespace) -> None:
    from hpcdp.driver import resolve_stored

    options.found_store = options.store
    problem, trial = resolve_stored(options.store, options.allow_changed_code)
    _drive(options, options.store, problem, trial)


def _drive(options: argparse.Namespace, store: Path, problem: Any, trial: Any) -> None:
    from hpcdp.driver import Options, run_problem
    from hpcdp.progress import on_stderr
    from hpcdp.report.table import table

    if not options.debug:
        _silence_dask()
    options.found_store = store
    with on_stderr() as progress:
        place = Options(options.cluster, options.workers, None, options.allow_changed_code)
        result = run_problem(problem, trial, store, place, progress)
    print(table(result))
    print(f"\nstore: {store}", flush=True)
    picture = _default_plot(store)
    result.plot(picture)
    print(f"plot:  {picture}")


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
    if options.format == "json":
        print(result.to_json())
    elif options.format == "csv":
        print(csv_text(result), end="")
    else:
        print(table(result))


def _plot(options: argparse.Namespace) -> None:
    from hpcdp.result import load_result

    path = options.output or _default_plot(options.store)
    load_result(options.store).plot(path)
    print(path)


def _mechanisms(_: argparse.Namespace) -> None:
    from hpcdp.mechanisms import describe_builtins

    print(describe_builtins())
