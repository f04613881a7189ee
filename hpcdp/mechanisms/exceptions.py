"""Exceptions as outputs: of the classes that `mechanism.raises` names, of mechanisms that give one output a call.

Each call has a generator of its own, so that it can be repeated: an exception is an output only if the call raises it again in
a fresh process, where nothing but the database and the generator can have caused it. Classes are compared by module and name:
what was sent by value, and what a script defines, is another object in each process.
"""

from __future__ import annotations

import builtins
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from hpcdp._base.messages import did_you_mean
from hpcdp._base.raised import Blamed, readable
from hpcdp._base.signals import how_ended
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms._pcg64 import PCG64
from hpcdp.mechanisms.code_digest import modules_of
from hpcdp.mechanisms.special import MOST_RAISED, Raised
from hpcdp.mechanisms.tabular import plain_output
from hpcdp.mechanisms.user_code import import_object, pickled, unsendable

_KEY = "mechanism.raises"
_NEVER = (MemoryError, OSError, subprocess.TimeoutExpired)  # of the machine; TimeoutError is an OSError
_NO_OUTPUT, _OTHER = -1, -2  # of a call that is repeated: it returns an output, or ends otherwise

Call = Callable[[Any, np.random.Generator], Any]
"""A mechanism bound to its parameters: of a database and a generator."""


@dataclass(frozen=True, eq=False)
class Catching:
    """Calls of which some exceptions are outputs. names: of their classes, "module:Class".

    A fresh process begins with body, a pickle of the call, variables, folder and path, all before anything was drawn here.
    """

    call: Call
    names: tuple[str, ...]
    body: bytes
    environment: dict[str, str]
    folder: str | None
    path: list[str]

    @classmethod
    def of(cls, call: partial[Any], raises: Sequence[str], folder: Path, path: str, digest: str | None) -> Catching:
        """Resolve the names of classes. digest: of a function that no import finds, which goes by value."""
        names = tuple(_resolved(name, folder) for name in raises)
        own, key = modules_of(call.args[0]) if digest else set(), repr((digest or path, call.args[1], names))
        if key not in _starts:
            try:
                body = pickled((call, names), own)
            except Exception as error:
                raise unsendable(path, str(error)) from None
            place = None
            with suppress(OSError):  # the folder was removed
                place = os.getcwd()
            _starts[key] = cls(call, names, body, dict(os.environ), place, list(sys.path))
        return replace(_starts[key], call=call)

    def draw(self, database: Any, size: int, rng: np.random.Generator) -> list[Any]:
        """`size` outputs, of which some may be Raised; what else the mechanism raises becomes a MechanismError."""
        outputs = []
        with Blamed("the mechanism", MechanismError) as guard:
            for seed in rng.integers(1 << 63, size=(size, 4)).tolist():
                outputs.append(_one(self.call, self.names, database, seed))
                guard.end_copy()
        return outputs

    def confirm(self, outputs: Any) -> None:
        """Repeat the calls that raised in a fresh process; MechanismError where one does not raise the same again."""
        raised = [output for output in outputs if isinstance(output, Raised)] if isinstance(outputs, list) else []
        if not raised:
            return
        calls = [(error.database, error.seed) for error in raised]
        with tempfile.TemporaryFile("w+") as answer, tempfile.TemporaryFile("w+", errors="replace") as said:
            code = self._run(calls, answer, said)
            answer.seek(0)
            said.seek(0)
            text, last = answer.read(), readable(said.read().strip().rpartition("\n")[2])
        ending = f": {last}" if last else ""
        if not text:
            raise MechanismError(
                f"the mechanism raised {raised[0].name}, and a fresh process that repeated the call {how_ended(code)}{ending}"
            )
        for error, again in zip(raised, json.loads(text), strict=True):
            if again != error.place:
                other = {_NO_OUTPUT: "returned an output", _OTHER: f"ended otherwise{ending}"}
                words = other.get(again) or f"raised {self.names[again].partition(':')[2]}"
                raise MechanismError(
                    f"the mechanism raised {error.name}, and {words} when the call was repeated with the same database and seed "
                    f"in a fresh process; an exception is an output ({_KEY}) only where it recurs"
                )

    def _run(self, calls: list[Any], answer: IO[str], said: IO[str]) -> int:
        """Have a fresh process repeat calls, and end what it leaves behind; its exit code."""
        handle = answer.fileno()
        code = (
            f"import sys; sys.path[:] = {self.path!r}; from hpcdp.mechanisms.exceptions import repeat; repeat({handle})"
        )
        process = subprocess.Popen(
            [sys.executable, "-P", *["-O"] * sys.flags.optimize, "-c", code],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=[handle],
            start_new_session=True,
        )
        try:
            process.communicate(pickle.dumps((self.body, calls)))
            return process.returncode
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


# by the mechanism's name: later draws of this process may change variables and closures
_starts: dict[str, Catching] = {}


def repeat(answer: int) -> None:
    """In a fresh process: make the calls of standard input, and write the places of what they raise to an open file, as JSON."""
    body, calls = pickle.load(sys.stdin.buffer)
    call, names = pickle.loads(body)
    gc.freeze()  # what all forks share is not touched
    text = json.dumps([_alone(call, names, *pair) for pair in calls])
    with os.fdopen(answer, "w") as file:
        file.write(text)
    os._exit(0)  # threads that importing started may go on


def _alone(call: Call, names: tuple[str, ...], database: Any, seed: list[int]) -> int:
    """What one call raises or returns, in a process of its own: an earlier call may have changed something."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    if (process := os.fork()) == 0:
        try:
            output = _one(call, names, database, seed)
            os.write(write, str(output.place if isinstance(output, Raised) else _NO_OUTPUT).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(process, 0)
    with os.fdopen(read, "rb") as pipe:
        return int(pipe.read() or _OTHER)


def _one(call: Call, names: tuple[str, ...], database: Any, seed: list[int]) -> Any:
    """The output of one call, or what it raised."""
    try:
        raw = call(database.copy(), np.random.Generator(PCG64(np.random.SeedSequence(seed))))
    except Exception as error:
        place = _place(error, names)
        if place is None:
            raise
        return Raised(place, names[place].rpartition(":")[2], database, seed)
    return plain_output(raw)


def _place(error: Exception, names: tuple[str, ...]) -> int | None:
    """The place of the first class that the error is an instance of; None of no such class, or where the machine caused it."""
    if _is_of_machine(error):
        return None
    own = {name_of_class(kind) for kind in type(error).__mro__}
    return next((place for place, name in enumerate(names) if name in own), None)


def _is_of_machine(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_of_machine(inner) for inner in error.exceptions)
    return isinstance(error, _NEVER)


def name_of_class(kind: type) -> str:
    """As "module:Class"; of a script, which has another name in child processes, as there."""
    return f"{kind.__module__.replace('__mp_main__', '__main__')}:{kind.__qualname__}"


def is_imported(name: str) -> bool:
    """Whether an import finds the class of this name: no built-in name, and no class that a script or a function defines."""
    return ":" in name and "<locals>" not in name and not name.startswith("__main__:")


def _resolved(name: str, folder: Path) -> str:
    """The name that the class has where it is defined."""
    if ":" in name and not is_imported(name):
        return name
    kind = import_object(name, folder, _KEY) if ":" in name else getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, _NEVER):
        raise StudyError(
            f'{_KEY}: up to {MOST_RAISED} built-in exceptions, such as "ValueError", or "module:Class", but no MemoryError, '
            f"OSError, TimeoutError or BaseException, which end a study; given: {name!r}{did_you_mean(name, dir(builtins))}"
        )
    return name_of_class(kind)
