"""Who asks, a command or Python: how messages name what can be given, and arguments that are refused."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

from hpcdp._check import refusal
from hpcdp.errors import StudyError

_by_command = [False]  # of this process


def is_command() -> bool:
    """Whether a command asks."""
    return _by_command[0]


def ask_as(by_command: bool) -> None:
    """From now on a command asks, or Python: in a child process, as where it was started."""
    _by_command[0] = by_command


@contextmanager
def asking(by_command: bool) -> Iterator[None]:
    """A command asks, or Python, while this lasts: of both, one may run code that is the other."""
    before, _by_command[0] = _by_command[0], by_command
    try:
        yield
    finally:
        _by_command[0] = before


def option(name: str, value: object = None, word: str | None = None) -> str:
    """An argument as who asks gives it, `--store` or `store=`, with its value (True: none); word: an option not `--name`."""
    if not _by_command[0]:
        return f"{name}={'' if value is None else value}"
    words = word or f"--{name.replace('_', '-')}"
    return words if value is None or value is True else f"{words} {value}"


def typed(path: str | Path) -> str:
    """A path as a word of a command: none begins as an option does."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


def wrong(name: str, given: Any, accepted: str) -> StudyError:
    """The error to raise."""
    return StudyError(str(refusal(name, given, accepted)))


def path_of(name: str, given: Any) -> Path:
    """A path, of a text or an object that is one; StudyError else."""
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str) or "\0" in text:
        raise wrong(name, given, "a path")
    return Path(text)


def address_of(path: Path) -> str | None:
    """The address that was given as a path, which merges slashes; None where it is a path."""
    match = _ADDRESS.fullmatch(str(path))
    return match and f"{match[1]}://{match[2]}"


def number_of(name: str, given: Any, accepted: str) -> float:
    """A real number, as a float, NaN too, which the range that the caller looks at leaves out; StudyError else."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise wrong(name, given, accepted)
    return float(given)
