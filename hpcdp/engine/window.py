"""Calls on their way to a place, at most a few a thread, and the patience to wait for them."""

from __future__ import annotations

import queue
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import uuid4

from hpcdp._base.limits import SPARE_FILES, may_open, open_files
from hpcdp._base.raised import describe_raised
from hpcdp.clusters.here import Here
from hpcdp.clusters.place import DaskPlace, Place
from hpcdp.clusters.pool import DIED, RAISED, RETURNED, Pool
from hpcdp.engine.outcomes import Failure
from hpcdp.engine.stopping import Stop, Stopped
from hpcdp.errors import LeaseError, MechanismError, StoreError
from hpcdp.planning.task import Task

if TYPE_CHECKING:
    from distributed import Future

_WINDOW = 3  # tasks submitted a thread: one runs, one waits, one is on its way
_MINIMUM_WINDOW = 8
_TICK = 0.5  # seconds between looks at what is no finished task: signals, lost leases, missing workers
_TIMES = 3  # that a call may end its worker process: Dask's are set to as many
_UNREADABLE = 10  # times, half a second apart, that a result which is there may fail to be read
_LATE = 60.0  # seconds after which a result that is there and has not come is fetched again
_LATE_TIMES = 3
_QUIET = 60.0  # seconds without a finished task after which a run says that it lives


class PlaceError(StoreError):
    """The place where tasks run is gone or has no workers; the store can be resumed."""


class Watch(Protocol):
    """What the engine tells and asks while it runs."""

    stop: Stop

    def done(self, task: Task, seconds: float) -> None:
        """A task is done and took so long."""

    def note(self, text: str) -> None:
        """One line of news."""

    def is_lost(self) -> bool:
        """Whether another run has taken the store over."""

    def as_failure(self, task: Task) -> Failure:
        """What to report of a task that ended its worker each time."""


class Window(ABC):
    """Calls on their way, and what the wait for them looks at. underway: those that were submitted and have not been given."""

    underway: Sized

    def __init__(self, place: Place, watch: Watch) -> None:
        self.place, self.watch = place, watch
        self._last = self._seen = self._looked = time.monotonic()
        self._pause = _QUIET

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *exception: object) -> None:
        """Give up what is on its way."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether more may be submitted now."""

    @abstractmethod
    def submit(self, what: Any, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit one call for something."""

    @abstractmethod
    def next(self) -> list[tuple[Any, Any]]:
        """What was submitted for, and its result, of all that finished since; result None: its worker died each time.

        Waits for at least one. Raises what a call raised; Stopped when a request to stop is due, LeaseError when the lease
        was lost, PlaceError when the scheduler is gone or there was no worker for too long.
        """

    @abstractmethod
    def _running(self) -> int:
        """Calls that run now, as far as is known."""

    def _came(self) -> None:
        """A result is there."""
        self._last = self._seen = time.monotonic()
        self._pause = _QUIET
        self._refuse_lost()

    def _refuse_lost(self) -> None:
        if self.watch.is_lost():
            raise LeaseError("a later run has taken over the store; this one stops")

    def _look(self) -> None:
        stop, now = self.watch.stop, time.monotonic()
        self._looked = now
        if stop.is_due:
            raise Stopped(stop.reason)
        self._refuse_lost()
        fleet = self.place.fleet
        if self.place.threads() > 0:
            self._seen = now
        elif fleet is not None and (trouble := fleet.trouble()):
            raise PlaceError(f"no worker can be had: {trouble}; what is committed is kept")
        elif now - self._seen > self.place.patience:
            reason = f" ({fleet.waiting_for()})" if fleet is not None else ""
            raise PlaceError(f"no worker for {self.place.patience:.0f} s{reason}; what is committed is kept")
        if now - self._last > self._pause:
            self._pause *= 2
            self.watch.note(f"nothing has finished for {now - self._last:.0f} s: {self._state()}")

    def _state(self) -> str:
        threads, fleet = self.place.threads(), self.place.fleet
        if threads:
            running = min(self._running(), threads)
            return f"{running} {'task is' if running == 1 else 'tasks are'} running"
        return "no worker is connected" + (f"; {fleet.waiting_for()}" if fleet is not None else "")


def open_window(place: Place, watch: Watch) -> Window:
    """A window on any place."""
    if isinstance(place, Here):
        return HereWindow(place, watch)
    if isinstance(place, Pool):
        return PoolWindow(place, watch)
    assert isinstance(place, DaskPlace)
    return DaskWindow(place, watch)


class HereWindow(Window):
    """One call at a time, which runs while its result is waited for."""

    place: Here

    def __init__(self, place: Here, watch: Watch) -> None:
        super().__init__(place, watch)
        self.underway: deque[tuple[Any, Callable[..., Any], tuple[Any, ...]]] = deque()

    def __exit__(self, *exception: object) -> None:
        self.underway.clear()

    @property
    def has_room(self) -> bool:
        """Whether nothing is submitted: what was could not be taken back when a stop is requested."""
        return not self.underway

    def submit(self, what: Any, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit one call for something."""
        self.underway.append((what, self.place.packed(function), arguments))

    def next(self) -> list[tuple[Any, Any]]:
        """What was submitted for and its result; raises as a window does."""
        what, function, arguments = self.underway.popleft()
        result = self.place.call(function, arguments, self._look)
        self._came()
        return [(what, result)]

    def _running(self) -> int:
        return 1


@dataclass(eq=False)
class _Call:
    """What was submitted for, what is to be done, and how often it ended its worker."""

    what: Any
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    deaths: int = 0

    @property
    def work(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """As a pool takes it."""
        return self.function, self.arguments


class PoolWindow(Window):
    """A call for each worker: the next one is submitted as soon as one has ended, and what runs can be told from what waits."""

    place: Pool

    def __init__(self, place: Pool, watch: Watch) -> None:
        super().__init__(place, watch)
        self.underway: set[_Call] = set()
        self._waiting: deque[_Call] = deque()

    def __exit__(self, *exception: object) -> None:
        self.underway.clear()

    @property
    def has_room(self) -> bool:
        """Whether a worker has nothing to do, or will have once it has started."""
        return len(self.underway) < self.place.size

    def submit(self, what: Any, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit one call for something."""
        call = _Call(what, self.place.packed(function), arguments)
        self.underway.add(call)
        self._waiting.append(call)

    def next(self) -> list[tuple[Any, Any]]:
        """What was submitted for, and its result, of all that finished since; raises as a window does."""
        found: list[tuple[Any, Any]] = []
        while not found:
            while self._waiting and self.place.begin(self._waiting[0], *self._waiting[0].work):
                self._waiting.popleft()
            heard = self.place.hear(_TICK)
            for call, how, value in heard:
                if call not in self.underway:  # of a window that was left
                    continue
                assert isinstance(call, _Call)
                call.deaths += how == DIED
                if how in (RETURNED, RAISED) or call.deaths == _TIMES:
                    self.underway.remove(call)
                    if how == RAISED:
                        raise value
                    found.append((call.what, value))
                else:
                    self._waiting.appendleft(call)
            if not heard or time.monotonic() - self._looked > _TICK:
                self._look()
        self._came()
        return found

    def _running(self) -> int:
        return len(self.underway) - len(self._waiting)


class DaskWindow(Window):
    """Futures of a Dask scheduler, at most a few a thread.

    Nothing here waits for Dask alone. Each result is fetched by a coroutine of its own on the client's loop: one that is
    lost with its worker is computed again, and is fetched then. Leaving the window gives up what is on its way.
    """

    place: DaskPlace

    def __init__(self, place: DaskPlace, watch: Watch) -> None:
        super().__init__(place, watch)
        self.underway: dict[Any, Any] = {}  # what each future was submitted for
        self._run = uuid4().hex  # other runs may use the same scheduler
        self._late: dict[
            Any, tuple[float, int]
        ] = {}  # futures that are done and have not come: since when, fetched again
        self._finished: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()

    def __exit__(self, *exception: object) -> None:
        for future in self.underway:
            future.release()

    @property
    def has_room(self) -> bool:
        """Whether more may be submitted now."""
        return len(self.underway) < max(_MINIMUM_WINDOW, _WINDOW * self.place.threads())

    def submit(self, what: Any, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit one call for something."""
        key = f"hpcdp-{self._run}-{name}"
        client = self.place.client
        future: Future[Any] = client.submit(self.place.packed(function), *arguments, key=key, pure=False)
        self.underway[future] = what
        self._begin_fetch(future)

    def _begin_fetch(self, future: Future[Any]) -> None:
        loop = self.place.client.loop
        assert loop is not None
        loop.add_callback(self._fetch, future)

    async def _fetch(self, future: Future[Any]) -> None:
        """Wait for one result, or for what it raises, and put it where `next` finds it, whatever happens."""
        from distributed import CancelledError, KilledWorker

        result: Any = None
        error: BaseException | None = None
        try:
            result = await self._gathered(future)
        except KilledWorker:
            pass
        except CancelledError:
            error = PlaceError("the Dask scheduler is gone, and with it all tasks that were not done")
        except Exception as raised:
            error = raised
        except BaseException as raised:  # of the call, or the loop ends: raised here, nobody would hear of it
            if future.status == "error":
                error = MechanismError(f"the task {_name_of(future)} raised {describe_raised(raised)}")
            else:
                error = PlaceError(f"a result cannot be fetched: {describe_raised(raised)}")
        self._finished.put((future, result, error))

    async def _gathered(self, future: Future[Any]) -> Any:
        """One result; Dask fetches those that are ready at once together. Raises what the call raised."""
        from asyncio import sleep

        from distributed import CancelledError, KilledWorker

        unreadable = 0
        while True:
            try:
                (result,) = await self.place.client.gather([future], asynchronous=True)
                return result
            except (KilledWorker, CancelledError):
                raise
            except Exception as raised:
                if future.status == "error":
                    raise
                if future.status == "finished" and not isinstance(raised, OSError):  # no message was lost
                    unreadable += 1
                if unreadable == _UNREADABLE:
                    raise PlaceError(
                        f"the result of the task {_name_of(future)} cannot be read: {describe_raised(raised)}"
                    ) from raised
            await sleep(_TICK)

    def next(self) -> list[tuple[Any, Any]]:
        """What was submitted for, and its result, of all that finished since; raises as a window does."""
        found: list[tuple[Any, Any, BaseException | None]] = []
        while not found:
            with suppress(queue.Empty):
                found.append(self._finished.get(timeout=_TICK))
            if not found or time.monotonic() - self._looked > _TICK:
                self._look()
        with suppress(queue.Empty):
            while True:
                found.append(self._finished.get_nowait())
        self._came()
        pairs = []
        for future, result, error in found:
            if future not in self.underway:  # fetched twice
                continue
            self._late.pop(future, None)
            if error is not None:
                raise error
            pairs.append((self.underway.pop(future), result))
            future.release()
        return pairs

    def _look(self) -> None:
        super()._look()
        if not may_open(SPARE_FILES):  # a scheduler that can accept no worker waits for ever
            raise PlaceError(f"too many open files: the limit is {open_files()} (ulimit -n); what is committed is kept")
        self._fetch_late(self._looked)

    def _fetch_late(self, now: float) -> None:
        """Fetch again what is done by its status for long and has not come; PlaceError where that did not help either."""
        for future in self.underway:
            if future.status not in ("finished", "error", "cancelled"):
                self._late.pop(future, None)
                continue
            since, times = self._late.setdefault(future, (now, 0))
            if now - since <= _LATE:
                continue
            if times == _LATE_TIMES:
                raise PlaceError(
                    f"the result of the task {_name_of(future)} is there and does not come; what is committed is kept"
                )
            self._late[future] = now, times + 1
            self._begin_fetch(future)

    def _running(self) -> int:
        return sum(self._run in key for key in self.place.processing())


def _name_of(future: Future[Any]) -> str:
    return str(future.key).split("-", 2)[2]
