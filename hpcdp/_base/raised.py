"""What other people's code raised, in one readable line: the exception, its text, and where in their code."""

from __future__ import annotations

import os
import pickle
import sys
import sysconfig
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hpcdp._base.signals import may_be_interrupted
from hpcdp.errors import HpcdpError, MechanismError

LONGEST = 2000
"""Characters of a message that quotes others."""

_QUOTED = 400  # characters of an exception's own text
_OWN = str(Path(__file__).parents[1])
_PACKAGES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_STANDARD = sysconfig.get_path("stdlib")


def interruptions() -> tuple[type[BaseException], ...]:
    """What passes through other people's code, whose failure all else is, SystemExit too; nothing where no signal can come."""
    return (KeyboardInterrupt,) if may_be_interrupted() else ()


class Blamed:
    """Whatever other people's code raises within, but for `passing`, is the failure of `what`, StopIteration too, in one line."""

    def __init__(self, what: str, *passing: type[Exception], failure: type[HpcdpError] = MechanismError) -> None:
        self._what, self._passing, self._failure = what, passing, failure

    def __enter__(self) -> Self:
        self._depth, self._process = sys.getrecursionlimit(), os.getpid()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end_copy()
        if sys.getrecursionlimit() < self._depth:  # too little for what goes on after it
            sys.setrecursionlimit(self._depth)
        if error is not None and not isinstance(error, (*self._passing, *interruptions())):
            # code that exits would take hpcdp along without a word
            raise self._failure(f"{self._what} raised {describe_raised(error)}") from error

    def end_copy(self) -> None:
        """End this process where it is a copy that the code made, by a fork that returned twice."""
        if os.getpid() != self._process:
            os._exit(1)


def describe_raised(error: BaseException) -> str:
    """Such as: ValueError: no luck (/home/me/own.py, line 12); the line is the innermost of the user's own code."""
    try:
        text = str(error)
    except interruptions():
        raise
    except BaseException:  # a class of someone else
        text = "(it has no text)"
    name = type(error).__name__
    return (f"{name}: {readable(text, _QUOTED)}" if text else name) + _place(error)


def readable(text: str, longest: int = LONGEST) -> str:
    """Some text as one line without control characters; of a long one the beginning, and how long it was."""
    head = text[: 4 * longest] if len(text) > longest else text
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    if len(text) <= longest and len(line) <= longest:
        return line
    return f"{line[:longest].rstrip()} … ({len(text):,} characters)"


def _place(error: BaseException) -> str:
    """Where in the user's code it was raised, or in a package that they installed; empty where neither shows."""
    if isinstance(error, SyntaxError):  # its text names the line
        return ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    own = [frame for frame in frames if not frame.filename.startswith(_PACKAGES)] or frames
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


def _is_ours(file: str) -> bool:
    """Whether a file is hpcdp's or Python's own, or none."""
    if file.startswith(_PACKAGES):
        return file.startswith(_OWN)
    return file.startswith(("<", _OWN, _STANDARD))


def carried(error: BaseException) -> Exception:
    """The error as another process can raise it, which knows none of the user's classes; else one that tells of it."""
    if isinstance(error, Exception) and type(error).__module__.partition(".")[0] in ("hpcdp", "builtins"):
        with suppress(Exception):
            # Dask loads tblib, with which a pickle holds the cause, of a class that other processes do not know
            error.__cause__ = error.__context__ = None
            pickle.loads(pickle.dumps(error))
            return error
    return MechanismError(f"a task raised {describe_raised(error)}")
