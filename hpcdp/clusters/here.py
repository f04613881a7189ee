"""This process alone: calls one after another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hpcdp._base.global_state import GlobalState
from hpcdp._base.parent import at_risk
from hpcdp._base.raised import Left, leave
from hpcdp._base.signals import ignored
from hpcdp._base.slow_draws import telling
from hpcdp._base.threads import worker_threads
from hpcdp.clusters.place import Hear, Place
from hpcdp.errors import FAILED

_PATIENCE = 120.0  # seconds; a process of this machine starts within a few
_TICK = 0.25  # seconds between looks at what is no answer
_POLITE = 1.0  # seconds in which a call in this process may end that nobody waits for

Look = Callable[[], object]
"""Called now and then while a call runs; what it raises ends the wait."""


class Here(Place):
    """Calls in this process: what they run is hpcdp's own code."""

    is_inside = True
    patience, blames_exactly, fleet = _PATIENCE, True, None
    drawing: Callable[[], list[dict[str, Any]]] | None = None
    known_threads, known_dashboard = None, None

    def threads(self) -> int:
        """One call at a time."""
        return 1

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], look: Look) -> Any:
        """What the function returns or raises."""
        look()
        return function(*arguments)

    @contextmanager
    def listening(self, topic: str, hear: Hear) -> Iterator[None]:
        """Nothing is told: there are no workers."""
        yield


class Beside(Here):
    """Calls of other people's code in this process, with a global state of its own. named: that code, in words.

    They run in a thread, as on a worker: what may be done in the main thread alone, as setting signals, fails in all places,
    and signals interrupt who waits.
    """

    is_inside = False

    def __init__(self, named: str) -> None:
        self._named, self._state = named, GlobalState()
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], Sequence[Any]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._is_waited_for = False
        self._thread = threading.Thread(target=self._answer_all, name="hpcdp-calls", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], look: Look) -> Any:
        """What the function returns or raises."""
        look()
        self._is_waited_for = True
        self._calls.put((function, arguments))
        while True:
            try:
                value, error = self._answers.get(timeout=_TICK)
            except queue.Empty:
                look()
                continue
            self._is_waited_for = False
            if error is not None:
                raise error
            return value

    def _answer_all(self) -> None:
        with suppress(Left), worker_threads(1):  # some of which are this thread's alone
            while (found := self._calls.get()) is not None:
                self._answers.put(self._answer(*found))

    def _answer(self, function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Exception | None]:
        from hpcdp.clusters._serving import carried

        try:
            with at_risk(self._named, FAILED), self._state.inside():
                return function(*arguments), None
        except Left:
            raise
        except BaseException as error:  # other people's code raises what is no Exception too
            return None, carried(error)

    def leave(self) -> None:
        """Let the thread go. A call of a library ends it later, and can commit nothing once the lease is released."""
        self._calls.put(None)
        if self._is_waited_for:
            leave(self._thread)
        self._thread.join(_POLITE)
        self._state.put_back()

    @contextmanager
    def listening(self, topic: str, hear: Hear) -> Iterator[None]:
        """Hear within what calls tell."""
        with telling(lambda message: hear((0.0, message))):
            yield


@contextmanager
def open_inside() -> Iterator[Here]:
    """Calls in this process, with the threads that workers have."""
    with worker_threads(1):
        yield Here()


@contextmanager
def open_beside(named: str) -> Iterator[Here]:
    """Calls of other people's code in this process. named: that code, in words."""
    place = Beside(named)
    try:
        yield place
    finally:
        with ignored():
            place.leave()
