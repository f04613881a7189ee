"""Keeps a worker process of this machine alive; run as a script by `_processes`, one for each worker.

It forks the worker from itself, with the libraries loaded, so that one that ends is replaced at once. Whatever a worker has
started ends with it, on Linux in whatever session it is: orphans become children of the keeper (PR_SET_CHILD_SUBREAPER),
which kills them. The driver's end of standard input says when to stop: a byte, to replace no more; its end, even by SIGKILL,
to kill all. If the keeper itself is killed, its worker dies with it (PR_SET_PDEATHSIG), and the driver kills its group.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import signal
import sys
import time

_AGAIN = 0.25  # seconds from one fork to the next: what ends as it starts must not keep a core busy


def main() -> None:
    """Read what to serve, load it, and keep a worker that does so until standard input ends."""
    told = io.BytesIO(_read(int.from_bytes(_read(8), "big")))
    preparation = pickle.load(told)
    sys.path[:] = preparation["sys_path"]
    from hpcdp._below import adopt_orphans, kill_below
    from hpcdp.clusters._keeping import Keeper
    from hpcdp.clusters._serving import Serving, serve

    serving: Serving = pickle.load(told)
    gc.freeze()  # what is loaded stays shared with the workers
    adopt_orphans()
    keeper = Keeper()
    while worker := keeper.fork():
        begin = time.monotonic()
        is_over = keeper.watch(worker)
        kill_below()
        if is_over:
            os.killpg(0, signal.SIGKILL)
        time.sleep(max(0.0, begin + _AGAIN - time.monotonic()))
        serving = serving.again()
    serve(serving, preparation)


def _read(size: int) -> bytes:
    """So many bytes of standard input, and none that come later."""
    found = b""
    while len(found) < size:
        if not (some := os.read(0, size - len(found))):
            os._exit(1)  # the driver is gone
        found += some
    return found


if __name__ == "__main__":
    main()
