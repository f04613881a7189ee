"""How results read when they are printed: by what lies above them, which says so here when `hpcdp` loads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_words: dict[type, Callable[[Any], str]] = {}


def shows(kind: type, words: Callable[[Any], str]) -> None:
    """From now on results of this kind read so."""
    _words[kind] = words


class Shown:
    """What reads as a command prints it."""

    def __str__(self) -> str:
        words = _words.get(type(self))
        return repr(self) if words is None else words(self)
