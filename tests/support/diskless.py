"""A Dask worker that does not see a folder: python diskless.py HIDDEN SCHEDULER FOLDER USER.

It is started as root in a mount namespace of its own. The worker is the user's where he may run this interpreter, else root's.
FOLDER: in which the worker makes its own.
"""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile

from distributed import Worker
from stranger import become

import hpcdp.clusters.remote  # noqa: F401  # while root may read it


async def work(scheduler: str, folder: str) -> None:
    """Work until the scheduler ends."""
    async with Worker(scheduler, nthreads=2, local_directory=folder, dashboard=False) as worker:
        await worker.finished()


if __name__ == "__main__":
    hidden, scheduler, folder, user = sys.argv[1:]
    subprocess.run(["mount", "-t", "tmpfs", "none", hidden], check=True)
    assert not os.listdir(hidden)
    may_run = ["sh", "-c", f"{shlex.quote(sys.executable)} -c 'import hpcdp'"]
    if subprocess.run(may_run, user=user, cwd="/", capture_output=True, check=False).returncode == 0:
        become(user)
    asyncio.run(work(scheduler, tempfile.mkdtemp(dir=folder)))
