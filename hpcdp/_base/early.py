"""Ctrl-C while a command starts: one word and its exit code, as later; Python would print where it was."""

import os
import signal
from collections.abc import Callable

from hpcdp.errors import INTERRUPTED

_HELD = "HPCDP_HOLDS_INTERRUPTIONS"  # in the environment of a command that starts again
_told: list[Callable[[int], object]] = []


def leave_early(*_: object) -> None:
    """What SIGINT does while nothing else handles it."""
    for say_end in _told:
        say_end(INTERRUPTED)
    try:
        os.write(2, b"\nhpcdp: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def leaving_early() -> None:
    """From now on have SIGINT do so, where nobody has decided otherwise."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_early)
    if os.environ.pop(_HELD, None):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def telling_end(say_end: Callable[[int], object]) -> None:
    """Have it told of the exit code too."""
    _told.append(say_end)


def start_again(command: list[str], environment: dict[str, str]) -> None:
    """Be this command from its beginning, for which SIGINT waits; OSError where that cannot be."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    held = {} if signal.SIGINT in mask else {_HELD: "1"}
    try:
        os.execve(command[0], command, environment | held)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def over() -> None:
    """The exit code is settled: SIGINT ends what is left without a word."""
    if signal.getsignal(signal.SIGINT) is leave_early:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
