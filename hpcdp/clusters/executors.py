"""What runs tasks, as the driver sees it: this process, child processes of this machine, or workers of a Dask scheduler.

And how many files this process may open.
"""

from __future__ import annotations

import os
import pickle
import resource
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcdp._base.node import NodeExecutor
from hpcdp.errors import StudyError
from hpcdp.store.copies import StoreCopy, run_copied

if TYPE_CHECKING:
    from hpcdp.clusters.fleet import Fleet
    from hpcdp.mechanisms.user_code import Parcel

_PATIENCE = 120.0  # seconds; processes of this machine start within a few

Hear = Callable[[dict[str, Any]], None]
"""Told of news of processes that work (`hpcdp._base.doing`)."""


@dataclass(frozen=True)
class Call:
    """name: of the task, whose kind it begins with. files: of the store that it reads, for nodes that work with a copy."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)


class TaskExecutor(ABC):
    """Runs calls of hpcdp's functions, and gives a future of each."""

    patience = _PATIENCE
    fleet: Fleet | None = None
    known_threads: int | None = None  # calls at once, as it was known last
    known_dashboard: str | None = None
    parcel: Parcel | None = None  # a function given as an object, which goes with each call
    copy: StoreCopy | None = None  # what nodes have in place of the store
    files_of: Callable[[Any], Mapping[str, bytes]] = staticmethod(lambda _: {})

    @abstractmethod
    def threads(self) -> int:
        """Calls that can run at once now."""

    @property
    @abstractmethod
    def room(self) -> int:
        """Calls that may be on their way at once."""

    @abstractmethod
    def begin(self, calls: Sequence[Call]) -> list[Future[Any]]:
        """Begin these calls."""

    @contextmanager
    def listening(self, hear: Hear) -> Iterator[None]:
        """Hear news within."""
        yield

    def running(self, underway: int) -> int:
        """How many of so many calls run, as far as is known."""
        return min(underway, self.threads())

    def want(self, tasks: int, seconds: float) -> None:
        """Tell an elastic executor how much work is left, and how long it takes in all."""
        if self.fleet is not None:
            self.fleet.want(tasks, seconds)

    def pickled(self, call: Call) -> bytes:
        """A call with what goes along, as (function, arguments, named)."""
        function, arguments = call.function, call.arguments
        if self.copy is not None and isinstance(arguments[0], str):  # a function of the store's root
            function, arguments = run_copied, (call.files, function, *arguments)
        if self.parcel is not None:
            function = partial(self.parcel.call, function)
        return pickle.dumps((function, arguments, {}), pickle.HIGHEST_PROTOCOL)


class InProcess(TaskExecutor):
    """Calls in this process, one after another: what they run is hpcdp's own code."""

    room = 1

    def threads(self) -> int:
        """One call at a time."""
        return 1

    def begin(self, calls: Sequence[Call]) -> list[Future[Any]]:
        """Do these calls."""
        return [_done(call) for call in calls]


def _done(call: Call) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(call.function(*call.arguments))
    except Exception as error:
        future.set_exception(error)
    return future


class OnNode(TaskExecutor):
    """Calls in child processes of this machine."""

    def __init__(self, node: NodeExecutor) -> None:
        self._node = node
        self.known_threads = node.size

    def threads(self) -> int:
        """As many as there may be processes; none before the first can be."""
        return self._node.size if self._node.is_ready else 0

    @property
    def room(self) -> int:
        """A call for each process."""
        return self._node.size

    def begin(self, calls: Sequence[Call]) -> list[Future[Any]]:
        """Begin these calls."""
        return [self._node.submit_pickled(self.pickled(call)) for call in calls]

    @contextmanager
    def listening(self, hear: Hear) -> Iterator[None]:
        """Hear news within."""
        self._node.hear = hear
        try:
            yield
        finally:
            self._node.hear = None


FEWEST_FILES = 256
"""Open files with which a run surely gets by."""
SPARE_FILES = 8
"""Those that a process with a scheduler can open besides, or its run ends: the commands that end jobs need pipes."""


def refuse_few_files(more: int, what: str) -> None:
    """StudyError where this process may not open so many more files; a soft limit that is too low becomes the hard one."""
    open_now = sum(int(name) < open_files() for name in os.listdir("/dev/fd")) - 1  # but for the one that lists them
    if open_files() < open_now + more:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if (limit := open_files()) < open_now + more:
        raise StudyError(
            f"{what}: needs {open_now + more} open files in the process that leads the run, of which {open_now} are open "
            f"already; given: a limit of {limit} (ulimit -Hn); accepted: {open_now + more} and more, or fewer workers"
        )


def may_open(count: int) -> bool:
    """Whether this process may open so many more files now."""
    with suppress(OSError), ExitStack() as opened:
        for _ in range(count):
            opened.enter_context(open(os.devnull))
        return True
    return False


def open_files() -> int:
    """How many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FEWEST_FILES if soft == resource.RLIM_INFINITY else soft
