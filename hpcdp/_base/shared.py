"""Settings that are a process's, while any of its threads wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from threading import Lock
from typing import Any


def while_inside(
    begin: Callable[[], Any], end: Callable[[Any], object]
) -> Callable[[], _GeneratorContextManager[None]]:
    """A context in which what `begin` sets holds; the last thread that leaves has `end` put back what `begin` gave."""
    lock, inside, kept = Lock(), 0, None

    @contextmanager
    def context() -> Iterator[None]:
        nonlocal inside, kept
        with lock:
            if not inside:
                kept = begin()
            inside += 1
        try:
            yield
        finally:
            with lock:
                inside -= 1
                if not inside:
                    end(kept)

    return context
