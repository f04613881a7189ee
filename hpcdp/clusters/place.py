"""A place where tasks run, as the driver sees it, whatever is behind it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from distributed import Client

    from hpcdp.mechanisms.functions import Handed, Parcel

_FRESH = 2.0  # seconds for which a count of threads is believed
_ANSWER = 5.0  # seconds in which a scheduler that lives answers; one that is frozen must not stop who asks


class Fleet(Protocol):
    """Workers that come and go, such as those in jobs of a batch system."""

    def want(self, tasks: int) -> None:
        """So many tasks are left."""

    def freeze(self) -> None:
        """Start no more workers: the run is about to end."""

    def trouble(self) -> str | None:
        """Why there can be no workers, when it has given up trying; else None."""

    def waiting_for(self) -> str:
        """What the workers that are not there yet wait for, in words."""

    def status(self) -> dict[str, Any]:
        """What `hpcdp status` tells: jobs, their states, what was used."""


Hear = Callable[[tuple[float, dict[str, Any]]], None]
"""Told of an event: when it was, and what a worker said."""


class Place(ABC):
    """patience: seconds without any worker after which a run ends.

    known_threads: None without workers. is_inside: it is the driver's own process. blames_exactly: when a worker process
    dies, only the tasks that it was executing count as its killers. drawing: what workers draw now, as messages (see
    `hpcdp._base.slow_draws`), where it can be seen without asking them. parcel: what goes with each call.
    """

    is_inside: ClassVar[bool] = False
    patience: float
    blames_exactly: bool
    fleet: Fleet | None
    drawing: Callable[[], list[dict[str, Any]]] | None
    known_threads: int | None
    known_dashboard: str | None
    parcel: Handed | Parcel | None = None

    def packed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function with what goes along."""
        return function if self.parcel is None else partial(self.parcel.call, function)

    @abstractmethod
    def threads(self) -> int:
        """Tasks that can run at once now."""

    @abstractmethod
    def listening(self, topic: str, hear: Hear) -> AbstractContextManager[None]:
        """Hear within what workers tell under this topic."""

    def want(self, tasks: int) -> None:
        """Tell an elastic place how much work is left."""
        if self.fleet is not None:
            self.fleet.want(tasks)


@dataclass(eq=False)
class DaskPlace(Place):
    """Workers of a Dask scheduler. client: of it."""

    client: Client
    patience: float
    blames_exactly: bool = False
    fleet: Fleet | None = None
    drawing: Callable[[], list[dict[str, Any]]] | None = None
    known_threads: int = field(default=0, repr=False)
    known_dashboard: str | None = field(default=None, repr=False)
    _asked: float = field(default=float("-inf"), repr=False)
    parcel: Handed | Parcel | None = None

    def threads(self) -> int:
        """Tasks that can run at once now, at most two seconds old; 0 when the scheduler does not answer."""
        if time.monotonic() - self._asked > _FRESH:
            try:
                assert self.client.scheduler is not None
                known = self.client.sync(self.client.scheduler.ncores, callback_timeout=_ANSWER)
                self.known_threads = sum(known.values())
            except (OSError, TimeoutError, ValueError, AssertionError):
                self.known_threads = 0
            self._asked = time.monotonic()
        return self.known_threads

    def processing(self) -> list[str]:
        """Keys of the tasks that workers have and have not done; none when the scheduler does not answer."""
        try:
            assert self.client.scheduler is not None
            found = self.client.sync(self.client.scheduler.processing, workers=None, callback_timeout=_ANSWER)
        except (OSError, TimeoutError, ValueError, AssertionError):
            return []
        return [str(key) for keys in found.values() for key in keys]

    def find_dashboard(self) -> None:
        """Ask where the scheduler's dashboard listens: host:port, as the scheduler's own host sees it."""
        services = self.client.scheduler_info(n_workers=0).get("services", {})
        self.known_dashboard = f"127.0.0.1:{services['dashboard']}" if "dashboard" in services else None

    @contextmanager
    def listening(self, topic: str, hear: Hear) -> Iterator[None]:
        """Hear within what workers tell under this topic, over Dask's events."""
        client: Any = self.client
        client.subscribe_topic(topic, hear)
        try:
            yield
        finally:
            with suppress(OSError, RuntimeError, ValueError):  # the scheduler may be gone
                client.unsubscribe_topic(topic)
