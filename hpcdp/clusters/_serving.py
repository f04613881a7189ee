"""What a worker process of this machine does: it serves a scheduler until either of them ends."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing.spawn
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np

from hpcdp._base.prints import end_results
from hpcdp.clusters.scheduler import QuietWorker


@dataclass(frozen=True)
class Serving:
    """config: Dask's, as the driver has it. worker: keyword arguments of Dask's Worker; name, number: of this worker.
    modules: loaded once, before workers are forked.

    notes: a file that is the driver's memory, where workers note what they draw.

    They hold the run's certificate and key: they go through a pipe, and into no file, argument or environment.

    Names differ, because the scheduler may not have missed the last one yet.
    """

    config: dict[str, Any]
    worker: dict[str, Any]
    name: str
    modules: tuple[str, ...] = ()
    number: int = 0
    notes: str = ""

    def named(self, name: str) -> Serving:
        """For the workers of one keeper."""
        return replace(self, name=f"{self.name}-{name}")

    def again(self) -> Serving:
        """For the next worker of the same keeper."""
        return replace(self, number=self.number + 1)


def serve(serving: Serving, preparation: dict[str, Any]) -> None:
    """Run a worker in this process until it or its scheduler ends. preparation: for `multiprocessing.spawn.prepare`."""

    async def run() -> None:
        name = f"{serving.name}-{serving.number}"
        async with QuietWorker(**{**serving.worker, "name": name}) as worker:
            await worker.finished()

    np.random.seed()  # noqa: NPY002  # else all workers would go on with the state that they were forked with
    end_results()  # standard output is the driver's: what is printed here goes to standard error
    multiprocessing.spawn.prepare(preparation)
    dask.config.set(serving.config)
    for library in ("distributed", "tornado.application", "asyncio"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        asyncio.run(run())
    except OSError as error:  # as where a mechanism closed all files; Python's own end would wait for its thread
        with suppress(OSError):
            print(f"hpcdp: a worker process ended: {error.strerror or error}", file=sys.stderr, flush=True)
        os._exit(1)
