"""A callable in a process of its own, which is ended when it takes too long for a chunk (`mechanism.timeout`).

The process is Python's own again, with this process's import path. It says that it is ready, and then answers requests;
requests and answers are pickles, each behind a line with its length. It returns all of the random generator with the
outputs, so that outputs are those of a call in this process.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import describe_raised, interruptions, readable
from hpcdp.errors import MechanismError, UnansweredError
from hpcdp.mechanisms._callable import CallableMechanism, bind
from hpcdp.mechanisms._process import OutOfTime, Process
from hpcdp.mechanisms.functions import Parcel, held

_START = 120.0  # seconds beyond those of a chunk, for imports: this process has imported the same


@dataclass(frozen=True)
class ApartMechanism:
    """A callable by name, bound to its parameters; each thread here has a process of its own. timeout: seconds a chunk.

    function: one that has no import path, which goes there by value.
    """

    call: str
    parameters: Mapping[str, Any]
    folder: Path
    reproducible: bool
    timeout: float
    function: Callable[..., Any] | None = None
    _local: threading.local = field(default_factory=threading.local, repr=False, compare=False)

    def draw(self, database: NDArray[Any], size: int, rng: np.random.Generator) -> Any:
        """`size` outputs as the callable returns them; MechanismError when it fails, ends its process or takes too long."""
        return self._ask(rng, "draw", database, size)

    def draw_each(self, databases: NDArray[Any], rng: np.random.Generator) -> Any:
        """One output of each database, by the callable's own `each`; None without."""
        return self._ask(rng, "draw_each", databases)

    def end(self) -> None:
        """End this thread's process; the next draw starts another."""
        process = self._local.__dict__.pop("process", None)
        if process is not None:
            process.kill()

    def _process(self) -> Process:
        found: Process | None = getattr(self._local, "process", None)
        if found is None:
            code = f"import sys; sys.path[:] = {sys.path!r}; from hpcdp.mechanisms._apart import answer; answer()"
            found = Process([sys.executable, "-c", code], Path.cwd(), "the mechanism's process", of_hpcdp=True)
            parcel = None if self.function is None else Parcel.of(self.call, {self.call: self.function})
            task = (self.call, dict(self.parameters), self.folder, self.reproducible, parcel)
            try:
                self._exchange(found, task, time.monotonic() + _START + self.timeout)
            except BaseException:
                found.kill()
                raise
            self._local.process = found
        return found

    def _ask(self, rng: np.random.Generator, what: str, *given: Any) -> Any:
        bits: Any = rng.bit_generator
        try:
            process = self._process()
            request = what, type(rng), type(bits), bits.whole(), given
            whole, outputs = self._exchange(process, request, time.monotonic() + self.timeout)
        except _Refused as error:
            raise MechanismError(str(error)) from None
        except OutOfTime:
            self.end()
            raise UnansweredError(
                f"the mechanism did not answer within {self.timeout:g} s (mechanism.timeout), and its process was ended"
            ) from None
        except BaseException:  # nobody knows what it would say next
            self.end()
            raise
        bits.take_up(whole)
        return outputs

    def _exchange(self, process: Process, request: Any, deadline: float) -> Any:
        data = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
        process.write(b"%d\n" % len(data) + data, deadline)
        answer = np.empty(int(process.read_line(deadline)), np.uint8)
        process.read_into(answer, deadline)
        failed, found = pickle.loads(answer.data)
        if failed:
            raise _Refused(found)
        return found


class _Refused(Exception):
    """The callable raised; the text says what."""


def answer() -> None:
    """The process's side: bind the callable that the first request names, then call it until standard input ends."""
    from hpcdp.mechanisms import BUILTINS
    from hpcdp.mechanisms._builtin import bind_builtin
    from hpcdp.mechanisms.user_code import import_callable
    from hpcdp.serve import _take_pipes

    requests, answers = _take_pipes()
    mechanism: CallableMechanism | None = None
    while line := requests.readline():
        try:
            given = pickle.loads(requests.read(int(line)))
            found: Any = None
            if mechanism is None:
                call, parameters, folder, reproducible, parcel = given
                if parcel is not None:
                    mechanism = bind(parcel.call(held, call), parameters, call, reproducible)
                elif call in BUILTINS:
                    mechanism, _ = bind_builtin(call, parameters, folder, reproducible)
                else:
                    function = import_callable(call, folder, "mechanism.call")
                    mechanism = bind(function, parameters, call, reproducible)
            else:
                what, generator, kind, whole, arguments = given
                bits = kind()
                bits.take_up(whole)
                outputs = getattr(mechanism, what)(*arguments, generator(bits))
                found = bits.whole(), outputs
            data = _pack(found)
        except interruptions():
            raise
        except BaseException as error:
            text = readable(str(error)) if isinstance(error, MechanismError) else describe_raised(error)
            data = pickle.dumps((True, text), pickle.HIGHEST_PROTOCOL)
        answers.write(b"%d\n" % len(data) + data)
        answers.flush()
    sys.stdout.flush()
    os._exit(0)  # what the mechanism left running must not keep it


def _pack(found: Any) -> bytes:
    try:
        return pickle.dumps((False, found), pickle.HIGHEST_PROTOCOL)
    except interruptions():
        raise
    except BaseException as error:  # whatever a class of someone else raises
        raise MechanismError(
            f"the mechanism returned a {type(found[1]).__name__} that cannot leave its process: {describe_raised(error)}; "
            "accepted with mechanism.timeout: arrays, numbers, strings, tuples and lists"
        ) from None
