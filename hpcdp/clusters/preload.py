"""Loaded by every worker of a job: it stops taking tasks before its job's walltime ends.

Dask's own --lifetime closes a worker in the middle of a task, which is then done again elsewhere. Here a worker first
takes no new task, ends the one it has, and then leaves.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any

_LOOK = 0.5  # seconds


async def dask_setup(worker: Any) -> None:
    """Set the timer of a worker; the driver's script told it when its job ends."""
    end, drain = os.environ.get("HPCDP_JOB_END"), float(os.environ.get("HPCDP_DRAIN", "60"))
    if end is None:
        return
    worker.hpcdp_timer = asyncio.create_task(_leave_in_time(worker, float(end), drain))


async def dask_teardown(worker: Any) -> None:
    """Forget the timer."""
    timer = getattr(worker, "hpcdp_timer", None)
    if timer is not None and timer is not asyncio.current_task():
        timer.cancel()


async def _leave_in_time(worker: Any, end: float, drain: float) -> None:
    from distributed.core import Status

    begin = end - drain + random.uniform(0.0, drain / 4)  # not all workers at once
    await asyncio.sleep(max(0.0, begin - time.time()))
    worker.status = Status.paused
    while worker.state.executing_count and time.time() < end - drain / 4:
        await asyncio.sleep(_LOOK)
    await worker.close_gracefully(reason="the walltime of its job ends")
