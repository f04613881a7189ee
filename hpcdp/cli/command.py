"""The command `hpcdp`: its arguments, its errors as one readable message each, its interruptions, its exit code."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpcdp._base import compiling
from hpcdp._base.asked import asking
from hpcdp._base.files import located
from hpcdp._base.raised import describe_raised, readable
from hpcdp._base.signals import Once, ignored
from hpcdp._base.terminal import drawn, escaped, open_closed_descriptors
from hpcdp.cli.arguments import make_parser
from hpcdp.engine.stopping import WALLTIME, Stopped
from hpcdp.errors import DONE, FAILED, INTERRUPTED, WRONG, HpcdpError, StudyError
from hpcdp.store.root import is_store, latest_version, open_layout, resume_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 0 done, 1 the run failed, 2 wrong command or study, 3 a claim is violated, 130 interrupted."""
    if arguments is not None:
        with escaped():
            return _run(arguments)
    open_closed_descriptors()
    os.environ["MPLBACKEND"] = "agg"  # no command opens a window, and a notebook's choice may not be installed here
    compiling.tell_by(lambda: print(f"hpcdp: {compiling.words}", file=sys.stderr, flush=True))
    with escaped():
        return _run(None)


def _run(arguments: Sequence[str] | None) -> int:
    parser, given = make_parser(), sys.argv[1:] if arguments is None else [*arguments]
    if not given:
        parser.print_help(sys.stderr)
        return WRONG
    options = parser.parse_args(given)
    options.given = given
    try:
        with asking(by_command=True), _interruptible():
            code = int(options.command(options) or DONE)
            sys.stdout.flush()
            return code
    except StudyError as error:
        return _fail(error, WRONG, options.debug, getattr(options, "study", None))
    except Stopped as error:
        return _stopped(error, options)
    except HpcdpError as error:
        return _fail(error, FAILED, options.debug)
    except KeyboardInterrupt:
        with ignored():  # a second one would only end this in the middle of the word
            print(f"\nhpcdp: interrupted{_go_on(options)}", file=sys.stderr, flush=True)
        return INTERRUPTED
    except BrokenPipeError:
        drawn(sys.stderr).close()
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())  # Python flushes what is left once more at its end
        return FAILED
    except OSError as error:
        if options.debug:
            raise
        where = f"{readable(str(error.filename))}: " if error.filename else ""
        print(f"hpcdp: {where}{error.strerror or error}", file=sys.stderr)
        return FAILED
    except BaseException as error:  # other people's code raises what is no Exception too
        if options.debug:
            raise
        print(f"hpcdp: unexpected {describe_raised(error)} (--debug shows where)", file=sys.stderr)
        return FAILED


@contextmanager
def _interruptible() -> Iterator[None]:
    """A batch system's end is an interruption like Ctrl-C, also where a library in C loses it or makes another error of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt = Once(signal.default_int_handler)
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, interrupt)}
    handler = signal.getsignal(signal.SIGINT)
    own = interrupt if handler is signal.default_int_handler or not callable(handler) else Once(handler)
    if callable(handler):  # also one of other libraries, which does not tell whether a signal came
        before[signal.SIGINT] = signal.signal(signal.SIGINT, own)
    try:
        yield
    except Stopped:
        raise
    except BaseException as error:
        if interrupt.was_called or own.was_called:
            raise KeyboardInterrupt from error
        raise
    else:
        if interrupt.was_called or own.was_called:
            raise KeyboardInterrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fail(error: Exception, code: int, debug: bool, study: str | None = None) -> int:
    """Say what was wrong, with the line of the study file where the message names a key of it."""
    if debug:
        traceback.print_exception(error)
    print(f"hpcdp: {located(str(error), Path(study)) if study else error}", file=sys.stderr)
    return code


def _stopped(error: Stopped, options: argparse.Namespace) -> int:
    """A run that was asked to end did so in order; in a chain of jobs the next one is submitted."""
    if getattr(options, "chained", False) and str(error) == WALLTIME:
        from hpcdp.clusters.slurm import job_folder
        from hpcdp.clusters.submit import submit_next
        from hpcdp.study.stored import stored_study

        layout = open_layout(options.kept_in)
        name = stored_study(layout, latest_version(layout)).name
        try:
            job = submit_next(layout, job_folder(layout, name))
        except HpcdpError as reason:
            return _fail(reason, FAILED, options.debug)
        print(f"hpcdp: {error}; what is committed is kept; job {job} goes on", file=sys.stderr)
        return DONE
    print(f"hpcdp: {error}{_go_on(options)}", file=sys.stderr)
    return INTERRUPTED


def _go_on(options: argparse.Namespace) -> str:
    """What becomes of an interrupted command: the command that goes on with its run where it ran, once there is a store."""
    store: Path | None = getattr(options, "kept_in", None)
    if store is None or not is_store(store):
        return "; nothing was stored" if store is not None else ""
    place = getattr(options, "cluster", "local")
    is_audit = options.given[0] == "audit"  # which is more than the run in its store
    words = shlex.join(["hpcdp", *options.given]) if is_audit else resume_command(store, place)
    return f"; what is committed is kept; go on with: {words}"
