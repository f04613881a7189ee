"""How results read when they are printed: by what lies above them, which says so here when `hpcdp` loads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_words: dict[type, Callable[[Any], str]] = {}
_fragments: list[Callable[[Any], str]] = []


def shows(kind: type, words: Callable[[Any], str]) -> None:
    """From now on results of this kind read so."""
    _words[kind] = words


def looks(fragment: Callable[[Any], str]) -> None:
    """From now on results of every kind look so in notebooks."""
    _fragments[:] = [fragment]


class Shown:
    """What reads as a command prints it, and looks so in notebooks."""

    def __str__(self) -> str:
        words = next((_words[kind] for kind in type(self).__mro__ if kind in _words), None)
        return repr(self) if words is None else words(self)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: HTML in which all text is escaped; None where nothing says how."""
        return _fragments[0](self) if _fragments else None
