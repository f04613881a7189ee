"""Who asks: a command, which takes options, or Python, which takes arguments; messages name what the one who asks can give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    """An argument of hpcdp's functions as who asks gives it: `store` is `--store` or `store=`.

    value: that it has or is to have; True of an option that takes none. word: the option, where it is no `--name`.
    """
    if not _by_command[0]:
        return f"{name}={'' if value is None else value}"
    words = word or f"--{name.replace('_', '-')}"
    return words if value is None or value is True else f"{words} {value}"
