"""Exceptions as outputs: of the classes that `mechanism.raises` names, of mechanisms that give one output a call.

Each call has a generator of its own, so that it can be repeated: an exception is an output only if the call raises it again in
a fresh process, where nothing but the database and the generator can have caused it.
"""

from __future__ import annotations

import builtins
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp._base.raised import Blamed, readable
from hpcdp._base.signals import how_ended
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms._pcg64 import PCG64
from hpcdp.mechanisms.code_digest import modules_of
from hpcdp.mechanisms.functions import pickled, unsendable
from hpcdp.mechanisms.special import MOST_RAISED, Raised
from hpcdp.mechanisms.tabular import plain_output
from hpcdp.mechanisms.user_code import import_object

_KEY = "mechanism.raises"
_NEVER = (MemoryError, OSError)  # of the machine; TimeoutError is an OSError

Call = Callable[[Any, np.random.Generator], Any]
"""A mechanism bound to its parameters: of a database and a generator."""


@dataclass(frozen=True, eq=False)
class Catching:
    """Calls of which some exceptions are outputs.

    classes: of these. body: the call before anything was drawn here, for fresh processes.
    """

    call: Call
    classes: tuple[type[Exception], ...]
    body: bytes

    @classmethod
    def of(
        cls, call: Call, function: Callable[..., Any], raises: Sequence[str], folder: Path, by_value: bool
    ) -> Catching:
        """Resolve the names of classes. function: that is called. by_value: whether no import finds it."""
        classes = tuple(_find(name, folder) for name in raises)
        try:
            return cls(call, classes, pickled((call, classes), modules_of(function) if by_value else set()))
        except Exception as error:
            raise unsendable(str(getattr(function, "__name__", function)), str(error)) from None

    def draw(self, database: Any, size: int, rng: np.random.Generator) -> list[Any]:
        """`size` outputs, of which some may be Raised; what else the mechanism raises becomes a MechanismError."""
        found = []
        with Blamed("the mechanism", MechanismError) as guard:
            for seed in rng.integers(1 << 63, size=(size, 4)).tolist():
                found.append(_one(self.call, self.classes, database, seed, type(rng)))
                guard.end_copy()
        return found

    def confirm(self, outputs: Any) -> None:
        """Repeat the calls that raised in a fresh process; MechanismError where one does not raise the same again."""
        raised = [output for output in outputs if isinstance(output, Raised)] if isinstance(outputs, list) else []
        if not raised:
            return
        code = f"import sys; sys.path[:] = {sys.path!r}; from hpcdp.mechanisms.exceptions import repeat; repeat()"
        calls = [(one.database, one.seed, one.stream) for one in raised]
        done = subprocess.run(
            [sys.executable, "-P", *["-O"] * sys.flags.optimize, "-c", code],
            input=pickle.dumps((self.body, calls)),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            last = readable(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
            raise MechanismError(
                f"the mechanism raised {raised[0].name}, and a fresh process that repeated the call "
                f"{how_ended(done.returncode)}{f': {last}' if last else ''}"
            )
        for one, again in zip(raised, json.loads(done.stdout), strict=True):
            if again != one.place:
                other = "returned an output" if again is None else f"raised {self.classes[again].__name__}"
                raise MechanismError(
                    f"the mechanism raised {one.name}, and {other} when the call was repeated with the same database and seed "
                    f"in a fresh process; an exception is an output ({_KEY}) only where it recurs"
                )


def _one(call: Call, classes: tuple[type[Exception], ...], database: Any, seed: list[int], stream: Any) -> Any:
    """The output of one call, or what it raised."""
    try:
        raw = call(database.copy(), _generator(seed, stream))
    except classes as error:
        if isinstance(error, _NEVER):
            raise
        place = next(place for place, kind in enumerate(classes) if isinstance(error, kind))
        return Raised(place, classes[place].__name__, database, seed, stream)
    return plain_output(raw)


def _generator(seed: list[int], stream: Any) -> np.random.Generator:
    """A new one of this class."""
    sequence = np.random.SeedSequence(seed)
    made: np.random.Generator = stream(PCG64(sequence) if stream is np.random.Generator else sequence)
    return made


def repeat() -> None:
    """In a fresh process: make the calls of standard input, and print the places of what they raise, as JSON."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what the mechanism prints is no answer
    body, calls = pickle.load(sys.stdin.buffer)
    call, classes = pickle.loads(body)
    found = [_one(call, classes, *one) for one in calls]
    places = [output.place if isinstance(output, Raised) else None for output in found]
    with os.fdopen(answer, "w") as stream:
        json.dump(places, stream)


def _find(name: str, folder: Path) -> type[Exception]:
    """The class of a built-in exception's name, or at "module:Class"."""
    found = import_object(name, folder, _KEY) if ":" in name else getattr(builtins, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)) or issubclass(found, _NEVER):
        raise StudyError(
            f'{_KEY}: up to {MOST_RAISED} built-in exceptions, such as "ValueError", or "module:Class", but no MemoryError, '
            f"OSError, TimeoutError or BaseException, which end a study; given: {name!r}"
        )
    return found
