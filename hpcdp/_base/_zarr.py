"""zarr, whose own thread gets the time it needs to end; it takes 0.3 s to load, so only those that write arrays import this.

At the end of a process zarr 3 waits 0.2 s for its thread and then closes its event loop, which fails with a traceback if the
thread still runs, as it may on a busy machine. So its end is waited for here, before zarr's own exit function runs.
"""

from __future__ import annotations

import atexit
from typing import Any

import zarr
from zarr.abc.store import Store
from zarr.core import sync
from zarr.core.buffer import Buffer
from zarr.storage import LocalStore

from hpcdp._base.files import make_folders

__all__ = ["Below", "zarr"]

_PATIENCE = 30.0  # seconds


class Below(LocalStore):
    """A folder of the file system of which the parent is there: where that was deleted, writing does not make it anew."""

    async def _open(self, *, mode: Any = None) -> None:
        self.root.mkdir(exist_ok=True)
        await Store._open(self)

    async def set(self, key: str, value: Buffer) -> None:
        """Write a file below the root."""
        path = self.root / key
        make_folders(self.root.parent, path.parent)
        path.write_bytes(value.to_bytes())


def _wait_for_thread() -> None:
    loop, thread = sync.loop[0], sync.iothread[0]
    if loop is not None and thread is not None and thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)


atexit.register(_wait_for_thread)
