"""zarr, whose own thread gets the time it needs to end; it takes 0.3 s to load, so only what reads arrays of others imports this.

At the end of a process zarr 3 waits 0.2 s for its thread and then closes its event loop, which fails with a traceback if the
thread still runs, as it may on a busy machine. So its end is waited for here, before zarr's own exit function runs.
"""

from __future__ import annotations

import atexit

import zarr
from zarr.core import sync

__all__ = ["zarr"]

_PATIENCE = 30.0  # seconds


def _wait_for_thread() -> None:
    loop, thread = sync.loop[0], sync.iothread[0]
    if loop is not None and thread is not None and thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)


atexit.register(_wait_for_thread)
