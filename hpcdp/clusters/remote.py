"""Workers of a Dask scheduler, one a node: each has a node executor, whose child processes do the tasks.

What crosses Dask is a function of hpcdp and bytes; only children unpickle what they are to do. A plugin gives every worker its
executor, those that join later too, under a name of the run's own, and takes it away at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
from distributed import CancelledError, Client, KilledWorker, Worker, WorkerPlugin
from distributed import Future as DaskFuture

from hpcdp._base.node import NodeExecutor
from hpcdp._base.raised import carried, describe_raised
from hpcdp.clusters.executors import SPARE_FILES, Call, Hear, TaskExecutor, may_open, open_files
from hpcdp.clusters.fleet import Fleet
from hpcdp.errors import HpcdpError, PlaceError
from hpcdp.store.copies import StoreCopy
from hpcdp.store.layout import COPY

_AHEAD, _LEAST = 3, 8  # calls on their way for each thread (one runs, one waits, one is on its way), and at least
_FRESH = 2.0  # seconds for which a count of threads is believed
_ANSWER = 5.0  # seconds in which a scheduler that lives answers; one that is frozen must not stop who asks
_PAUSE = 0.5  # seconds from one try to fetch a result to the next
_TRIES = 10  # to read a result that is there


class NodePlugin(WorkerPlugin):
    """Gives a worker a node executor, and a copy where it cannot write to `disk`. memory: bytes of its processes, together."""

    def __init__(self, name: str, memory: int | None, disk: Path, copy: StoreCopy | None) -> None:
        self.name, self.memory, self.disk, self.copy = name, memory, disk, copy

    def setup(self, worker: Worker) -> None:
        """Start it."""
        environment = {}
        if not os.access(self.disk, os.W_OK) and self.copy is not None:
            copy = self._copy(worker)
            self.copy.write(copy)
            environment[COPY] = str(copy)
        elif not os.access(self.disk, os.W_OK):
            raise PlaceError(
                f"the worker {worker.address} cannot write to {self.disk}, and samples, files or more than 64 MiB of modules of "
                'this study lie on the disk; accepted: a store that all workers see, or estimate.keep = "none" and a small folder'
            )
        hear = partial(worker.log_event, self.name)
        worker.executors[self.name] = NodeExecutor(worker.state.nthreads, hear, self.memory, environment, __name__)

    def teardown(self, worker: Worker) -> None:
        """End it, with all that it does."""
        executor = worker.executors.pop(self.name, None)
        if executor is not None:
            executor.shutdown()
        shutil.rmtree(self._copy(worker), ignore_errors=True)

    def _copy(self, worker: Worker) -> Path:
        """Where the worker has its copy: a folder of its user's own."""
        return Path(worker.local_directory).absolute() / self.name


def run_pickled(data: bytes) -> Any:
    """In a child: do what a pickle of (function, arguments, named) says; what it raises is of types that the driver knows."""
    try:
        function, arguments, named = pickle.loads(data)
        return function(*arguments, **named)
    except BaseException as error:  # other people's code raises what is no Exception too
        raise carried(error) from None


class OnDask(TaskExecutor):
    """Calls on workers of a scheduler, once these were prepared. client: of it. memory: as of `NodePlugin`."""

    def __init__(self, client: Client, patience: float, fleet: Fleet | None = None, memory: int | None = None) -> None:
        self.client, self.patience, self.fleet, self.memory = client, patience, fleet, memory
        self.name = f"hpcdp-{uuid4().hex}"
        self._asked, self._begun = float("-inf"), itertools.count()
        self._fetching: set[asyncio.Future[None]] = set()

    def prepare(self, disk: Path, copy: StoreCopy | None = None) -> None:
        """Give every worker its executor, those that join later too; PlaceError where one cannot work. As `NodePlugin`."""
        self.copy = copy
        self.client.register_plugin(NodePlugin(self.name, self.memory, disk, copy), name=self.name)

    def threads(self) -> int:
        """Calls that can run at once now, at most two seconds old; 0 when the scheduler does not answer."""
        if time.monotonic() - self._asked > _FRESH:
            self.known_threads = sum(self._ask("ncores").values())
            self._asked = time.monotonic()
            if not may_open(SPARE_FILES):  # a scheduler that can accept no worker waits for ever
                raise PlaceError(
                    f"too many open files: the limit is {open_files()} (ulimit -n); what is committed is kept"
                )
        return self.known_threads or 0

    @property
    def room(self) -> int:
        """A few calls for each thread."""
        return max(_LEAST, _AHEAD * self.threads())

    def running(self, underway: int) -> int:
        """How many of the run's calls workers have."""
        processing = self._ask("processing", workers=None)
        return min(self.threads(), sum(self.name in str(key) for keys in processing.values() for key in keys))

    def _ask(self, what: str, **named: Any) -> Mapping[str, Any]:
        """What the scheduler says of each worker; nothing where it does not answer."""
        try:
            return self.client.sync(getattr(self.client.scheduler, what), callback_timeout=_ANSWER, **named)
        except (OSError, TimeoutError, ValueError, AttributeError):
            return {}

    def find_dashboard(self) -> None:
        """Ask where the scheduler's dashboard listens: host:port, as the scheduler's own host sees it."""
        services = self.client.scheduler_info(n_workers=0).get("services", {})
        self.known_dashboard = f"127.0.0.1:{services['dashboard']}" if "dashboard" in services else None

    def begin(self, calls: Sequence[Call]) -> list[Future[Any]]:
        """Begin these calls; their keys begin with the kind of work, by which Dask groups them."""
        data = [self.pickled(call) for call in calls]
        with dask.annotate(executor=self.name):
            keys = [f"{call.name}-{self.name}-{next(self._begun)}" for call in calls]  # a name may come again
            futures = self.client.map(run_pickled, data, key=keys, pure=False)
        own: list[Future[Any]] = [Future() for _ in calls]
        assert self.client.loop is not None
        self.client.loop.add_callback(self._fetch_all, list(zip(futures, data, own, strict=True)))
        return own

    def _fetch_all(self, begun: list[tuple[DaskFuture[Any], bytes, Future[Any]]]) -> None:
        for call in begun:
            fetching = asyncio.ensure_future(self._fetch(*call))
            self._fetching.add(fetching)
            fetching.add_done_callback(self._fetching.discard)

    async def _fetch(self, future: DaskFuture[Any], data: bytes, own: Future[Any]) -> None:
        """Wait for one result, or for what it raises, and hand it on, whatever happens."""
        own.add_done_callback(lambda _: future.release())
        tries = 0
        while not own.done():
            try:
                (result,) = await self.client.gather([future], asynchronous=True)
                _settle(own, result)
            except KilledWorker:  # of somebody's own scheduler, which counts lost nodes; nobody's call ended its worker
                with dask.annotate(executor=self.name):
                    future = self.client.submit(run_pickled, data, key=f"{future.key}-again", pure=False)
                own.add_done_callback(lambda _, future=future: future.release())  # type: ignore[misc]
            except CancelledError:
                _settle(own, PlaceError("the Dask scheduler is gone, and with it all tasks that were not done"))
            except HpcdpError as error:
                _settle(own, error)
            except Exception as error:
                tries += future.status == "finished" and not isinstance(error, OSError)  # no message was lost
                if future.status == "error" or tries == _TRIES:
                    what = "raised" if future.status == "error" else "has a result that cannot be read:"
                    task = str(future.key).partition("-hpcdp-")[0]
                    _settle(own, PlaceError(f"the task {task} {what} {describe_raised(error)}"))
                await asyncio.sleep(_PAUSE)
            except BaseException as error:  # the loop ends: raised here, nobody would hear of it
                _settle(own, PlaceError(f"a result cannot be fetched: {describe_raised(error)}"))

    @contextmanager
    def listening(self, hear: Hear) -> Iterator[None]:
        """Hear news within, over Dask's events."""
        client: Any = self.client
        client.subscribe_topic(self.name, lambda event: hear(event[1]))
        try:
            yield
        finally:
            with suppress(OSError, RuntimeError, ValueError):  # the scheduler may be gone
                client.unsubscribe_topic(self.name)


def _settle(own: Future[Any], outcome: Any) -> None:
    if own.set_running_or_notify_cancel():
        if isinstance(outcome, HpcdpError):
            own.set_exception(outcome)
        else:
            own.set_result(outcome)


@contextmanager
def open_on_dask(
    client: Client, patience: float, fleet: Fleet | None = None, memory: int | None = None
) -> Iterator[OnDask]:
    """Calls on the workers of a client's scheduler; their executors end with the context. memory: as of `NodePlugin`."""
    executor = OnDask(client, patience, fleet, memory)
    try:
        yield executor
    finally:
        with suppress(OSError, RuntimeError, ValueError, TimeoutError):  # no scheduler, or nothing was prepared
            client.unregister_worker_plugin(executor.name)
