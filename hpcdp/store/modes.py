"""What a run writes, its user alone can change: profiles, job scripts and learned models in a store are code."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OTHERS_WRITE = 0o022
_lock = threading.Lock()
_inside = 0  # contexts that are open in this process, whose mask is one
_before = 0


@contextmanager
def own_files() -> Iterator[None]:
    """Make files and folders within that neither group nor others can write, whatever the umask; processes inherit it."""
    global _inside, _before
    with _lock:
        if not _inside:
            _before = os.umask(0o077)  # a mask cannot be read without setting it
            os.umask(_before | _OTHERS_WRITE)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                os.umask(_before)
