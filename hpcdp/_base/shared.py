"""Settings that are a process's, while any of its threads wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from threading import Lock
from typing import Any


def while_wanted(
    begin: Callable[[], Any], use: Callable[[Any], object], end: Callable[[Any], object]
) -> Callable[[Any], _GeneratorContextManager[None]]:
    """A context of a value that `use` sets: the last one wanted holds; after the last, `end` puts back what `begin` gave."""
    lock, kept = Lock(), None
    values: list[Any] = []

    @contextmanager
    def context(value: Any) -> Iterator[None]:
        nonlocal kept
        with lock:
            if not values:
                kept = begin()
            values.append(value)
            use(value)
        try:
            yield
        finally:
            with lock:
                values.remove(value)
                if values:
                    use(values[-1])
                else:
                    end(kept)

    return context
