"""Forks the worker processes of a run on this machine, with the libraries loaded once; run as a script, or forked.

Below it is a keeper for each worker, in a process group of its own, which Ctrl-C on a terminal does not reach; a keeper that
ends is replaced. The driver's end of standard input says when to stop: a byte, to replace no more; its end, even by SIGKILL,
to kill all. If this process is killed, its keepers kill what is below them, and the driver starts another.
"""

from __future__ import annotations

import io
import os
import pickle
import sys


def main() -> None:
    """Read what to serve, load it, and keep workers that do so until standard input ends; returns in workers only."""
    message = io.BytesIO(_read(int.from_bytes(_read(8), "big")))
    count, preparation = pickle.load(message)
    sys.path[:] = preparation["sys_path"]
    from hpcdp.clusters._keeping import keep

    keep(count, pickle.load(message), preparation)


def _read(size: int) -> bytes:
    """So many bytes of standard input, and none that come later."""
    found = b""
    while len(found) < size:
        if not (some := os.read(0, size - len(found))):
            os._exit(1)  # the driver is gone, or needed no workers
        found += some
    return found


if __name__ == "__main__":
    main()
