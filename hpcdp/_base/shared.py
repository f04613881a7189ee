"""Settings that are a process's, while any of its threads wants them: who may change what it writes, and others.

What a run writes, its user alone can change: profiles, job scripts and learned models in a store are code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from functools import partial
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


_OTHERS_WRITE = 0o022


def _mask() -> int:
    before = os.umask(0o077)  # a mask cannot be read without setting it
    os.umask(before | _OTHERS_WRITE)
    return before


own_files = partial(while_wanted(_mask, lambda _: None, os.umask), None)
"""Make files and folders within that neither group nor others can write, whatever the umask; processes inherit it."""
