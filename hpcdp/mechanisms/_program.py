"""A mechanism that is a program in an environment of its own, asked for one chunk at a time over its standard pipes.

The protocol, version 1 (docs/black-boxes.md): the program writes a line {"hpcdp": 1}. A request is a line of JSON with
id, size, seed (four integers below 2³²), parameters, and the database's dtype and shape, then the database's bytes. An
answer is a line of JSON with id and either error, or dtype and shape and then the outputs' bytes. Bytes are little-endian,
the last index varies fastest.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import readable
from hpcdp.errors import MechanismError, StudyError, UnansweredError
from hpcdp.keys import canonical_json, digest_bytes
from hpcdp.mechanisms._process import OutOfTime, Process

VERSION = 1
"""Of the protocol that this hpcdp speaks."""

MOST_BYTES = 1 << 32
"""Of the outputs of one answer."""

_DTYPE = re.compile(r"(<[iu][248]|<f[248]|\|[biu]1|\|S[1-9]\d{0,6}|<U[1-9]\d{0,6})")
_ACCEPTED_DTYPES = '"|b1", "|i1", "<i8", "<f8" and the like, "|S5" or "<U5" for strings of at most 5'
_SHOWN = 120  # characters of something that is no answer


@dataclass(frozen=True)
class ProgramMechanism:
    """A program bound to its parameters. command: what is started, in `folder`; each thread here has a process of its own."""

    command: tuple[str, ...]
    parameters: Mapping[str, Any]
    folder: Path
    timeout: float
    start_timeout: float
    _local: threading.local = field(default_factory=threading.local, repr=False, compare=False)

    def draw(self, database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[Any]:
        """`size` outputs, (size,) or (size, d); MechanismError when the program fails, hangs or answers nonsense."""
        return self._ask(database, size, rng, each=False)

    def draw_each(self, databases: NDArray[Any], rng: np.random.Generator) -> NDArray[Any] | None:
        """One output of each database (size, rows) or (size, rows, columns); None where the program has no way for it."""
        if not self._conversation().takes_many:
            return None
        return self._ask(databases, databases.shape[0], rng, each=True)

    def start(self) -> None:
        """Start this thread's process, unless it runs; MechanismError when it does not say that it is ready."""
        self._conversation()

    def end(self) -> None:
        """End this thread's process; the next draw starts another."""
        conversation = getattr(self._local, "conversation", None)
        if conversation is not None:
            del self._local.conversation
            conversation.process.end()

    def _conversation(self) -> _Conversation:
        conversation = getattr(self._local, "conversation", None)
        if conversation is None:
            conversation = _Conversation(Process(self.command, self.folder))
            try:
                conversation.await_greeting(self.start_timeout)
            except BaseException:
                conversation.process.kill()
                raise
            self._local.conversation = conversation
        return conversation

    def _ask(self, database: NDArray[Any], size: int, rng: np.random.Generator, each: bool) -> NDArray[Any]:
        seed = rng.integers(0, 1 << 32, 4, dtype=np.uint64).tolist()
        conversation = self._conversation()
        request = {"size": size, "seed": seed, "parameters": self.parameters, **({"each": True} if each else {})}
        try:
            return conversation.ask(request, database, size, self.timeout)
        except _Refused as error:
            raise MechanismError(f"the program answered with an error: {error}") from None
        except BaseException:  # nobody knows what it would write next
            del self._local.conversation
            conversation.process.kill()
            raise


class _Refused(Exception):
    """The program itself says that it cannot draw this chunk."""


class _Conversation:
    """What is said between hpcdp and one process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.takes_many = False
        self._asked = 0

    def await_greeting(self, patience: float) -> None:
        """Read the line with which the program says that it is ready, and in which version."""
        try:
            line = self.process.read_line(time.monotonic() + patience)
        except OutOfTime:
            raise UnansweredError(
                f"the program was not ready within {patience:g} s (mechanism.call.start_timeout): it must first write the line "
                f'{{"hpcdp": {VERSION}}}{self.process.describe_errors()}'
            ) from None
        greeting = _parse(line)
        if "hpcdp" not in greeting:
            raise self._nonsense(line, f'the line {{"hpcdp": {VERSION}}}')
        if greeting["hpcdp"] != VERSION or type(greeting["hpcdp"]) is not int:
            raise MechanismError(
                f"the program speaks version {greeting['hpcdp']!r} of the protocol; accepted by this hpcdp: {VERSION}"
            )
        self.takes_many = greeting.get("each") is True

    def ask(self, request: dict[str, Any], database: NDArray[Any], size: int, patience: float) -> NDArray[Any]:
        """Send a request, read its answer."""
        unasked = self.process.take_unasked()
        if unasked:
            raise self._nonsense(unasked, "nothing, after its answer,")
        self._asked += 1
        data = np.ascontiguousarray(database, database.dtype.newbyteorder("<"))
        head = {"id": self._asked, **request, "dtype": data.dtype.str, "shape": data.shape}
        deadline = time.monotonic() + patience
        try:
            self.process.write(json.dumps(head, allow_nan=False).encode() + b"\n", deadline)
            self.process.write(data.reshape(-1).view(np.uint8).data, deadline)
            outputs = self._outputs(self.process.read_line(deadline), size)
            self.process.read_into(outputs.reshape(-1).view(np.uint8), deadline)
        except OutOfTime:
            raise UnansweredError(
                f"the program did not answer within {patience:g} s (mechanism.call.timeout)"
                f"{self.process.describe_errors()}; it was ended"
            ) from None
        return outputs

    def _outputs(self, line: bytes, size: int) -> NDArray[Any]:
        """Room for the outputs that an answer's line announces, after checks that they are what was asked for."""
        answer = _parse(line)
        if answer.get("id") != self._asked or not ("error" in answer or {"dtype", "shape"} <= set(answer)):
            raise self._nonsense(line, f"an answer with id {self._asked}, dtype and shape, or error,")
        if "error" in answer:
            raise _Refused(readable(str(answer["error"])))
        dtype, shape = answer["dtype"], answer["shape"]
        if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
            raise MechanismError(f"the program announced outputs of dtype {dtype!r}; accepted: {_ACCEPTED_DTYPES}")
        whole = isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape)
        if not whole or len(shape) not in (1, 2) or shape[0] != size:
            raise MechanismError(
                f"the program announced outputs of shape {_shorten(repr(shape))}; accepted: [{size}] or [{size}, d] when "
                f"asked for {size}"
            )
        total = math.prod(shape) * np.dtype(dtype).itemsize
        if total > MOST_BYTES:
            raise MechanismError(
                f"the program announced {total:,} bytes of outputs; accepted: at most {MOST_BYTES:,} a chunk"
            )
        return np.empty(shape, dtype)

    def _nonsense(self, written: bytes, expected: str) -> MechanismError:
        text = _shorten(written.decode(errors="replace"))
        return MechanismError(
            f"the program wrote {text!r} on its standard output where {expected} was expected; whatever else it says "
            f"belongs on its standard error{self.process.describe_errors()}"
        )


def _parse(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; empty where there is none."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def bind_program(
    command: Sequence[str], timeout: float, start_timeout: float, parameters: Mapping[str, Any], folder: Path
) -> ProgramMechanism:
    """Check that the program (a path, or on the PATH) is there and its parameters can be sent; StudyError tells what is wrong."""
    name = command[0]
    path = shutil.which(str(folder / name) if "/" in name else name)
    if path is None:
        where = f"no executable file at {folder / name}" if "/" in name else f"{name!r} is not on the PATH"
        raise StudyError(f"mechanism.call.command: {where}; accepted: a program that this machine can run")
    try:
        json.dumps(parameters, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StudyError(
            f"mechanism.parameters: a program takes what JSON can hold: finite numbers, strings, booleans, lists, tables; {error}"
        ) from None
    return ProgramMechanism((path, *command[1:]), dict(parameters), folder, timeout, start_timeout)


def name_program(command: Sequence[str]) -> str:
    """The program's name in keys and messages: its command as JSON. Time-outs change nothing that it draws."""
    return canonical_json({"command": list(command)}).decode()


def program_digest(command: Sequence[str], folder: Path) -> str:
    """Digest of the command and of the files that it names."""
    first, *rest = command
    paths = [folder / part for part in rest]
    # a link is left out: such is the interpreter of a virtual environment, which differs between machines
    if "/" in first and not (folder / first).is_symlink():
        paths.insert(0, folder / first)
    parts = [canonical_json(list(command))]
    for path in paths:
        try:
            if path.is_file():
                with path.open("rb") as file:
                    digest = file_digest(file, partial(blake2b, digest_size=16)).digest()
                parts += [str(path.relative_to(folder) if path.is_relative_to(folder) else path).encode(), digest]
        except (OSError, ValueError):  # an argument that can be no path, or is not for us to read
            continue
    return digest_bytes(b"program", *parts)
