"""File descriptors that a command rests on: whether other people's code closed them, as one that closes all it finds."""

from __future__ import annotations

import os

_CLOSED = -1, -1
_held: dict[int, tuple[int, int]] = {}


def hold(*descriptors: int) -> None:
    """From now on these are hpcdp's."""
    _held.update({one: _identity(one) for one in descriptors})


def let_go(*descriptors: int) -> None:
    """They are closed on purpose, or somebody else's now."""
    for one in descriptors:
        _held.pop(one, None)


def lost() -> list[int]:
    """Those that are closed, or lead elsewhere by now."""
    return sorted(one for one, identity in _held.items() if _identity(one) != identity)


def is_open(descriptor: int) -> bool:
    """Whether it is, to whatever it leads."""
    return _identity(descriptor) != _CLOSED


def _identity(descriptor: int) -> tuple[int, int]:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return _CLOSED
    return found.st_dev, found.st_ino
