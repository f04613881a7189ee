"""What a task was drawing when its process ended: a file says so, as nothing else outlives the process.

Only parts of a task that ended its worker before leave such a file; it costs a small write a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from hpcdp._base.files import make_folders, open_itself, read_bytes

_noting: ContextVar[Path | None] = ContextVar("hpcdp_noting_draws", default=None)


@contextmanager
def noted_in(path: Path) -> Iterator[None]:
    """Note the draws within in this file; it goes when they have ended well, or with an exception."""
    make_folders(path.parents[2], path.parent)  # the store's root, records/draws
    token = _noting.set(path)
    try:
        yield
    finally:
        _noting.reset(token)
        path.unlink(missing_ok=True)


def note_draw(describe: Callable[[], str]) -> None:
    """What is drawn from now on, as `describe` says; it is asked only where that is noted."""
    path = _noting.get()
    if path is not None:
        with open_itself(path, "wb") as file:
            file.write(describe().encode())


def take_last_draw(path: Path) -> str | None:
    """What was noted last, if anything; the file goes."""
    with suppress(OSError, ValueError):
        where = read_bytes(path).decode()
        path.unlink()
        return where or None
    return None
