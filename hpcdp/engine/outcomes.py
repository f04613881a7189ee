"""What tasks report: what they found, how long they took, and what failed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from hpcdp._base.node import ProcessDied
from hpcdp._base.raised import readable
from hpcdp.engine.task import Task
from hpcdp.errors import HpcdpError, MechanismError, StoreError, StudyError
from hpcdp.store.arrays import State, bytes_of, dump_state
from hpcdp.store.layout import Layout
from hpcdp.store.root import has_lost_its_root, is_store, resume_command
from hpcdp.store.samples import DamagedBlock
from hpcdp.store.tallies import DamagedRecord
from hpcdp.study.declared import RefutedError
from hpcdp.study.problem import Problem
from hpcdp.study.trial_draws import unanswered

_CARRIED = 1 << 20  # bytes of a file that a report carries; larger ones a task writes itself, behind the gate


class ChunkError(MechanismError):
    """The mechanism failed on one chunk. where: the chunk in words; reason: what it did."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where, self.reason = where, reason

    def __reduce__(self) -> tuple[type[ChunkError], tuple[str, str]]:
        return type(self), (self.where, self.reason)


@dataclass(frozen=True)
class Failure:
    """What could not be done, or not be used."""

    what: str  # chunk or pair, in words
    message: str
    cause: str  # equal for failures with one cause, such as a chunk that many pairs need
    set_aside: tuple[str, str] | None = None  # a record's kind and name, to take out of use
    is_wrong: bool = False  # whether it refutes what the study says

    @classmethod
    def of(cls, what: str, error: Exception) -> Failure:
        """From what a task met: a damaged record, a chunk that the mechanism failed on, or else."""
        message = readable(str(error))
        if isinstance(error, DamagedBlock | DamagedRecord):
            return cls(what, message, error.record[1], error.record)
        if isinstance(error, RefutedError):
            return cls(what, message, message, is_wrong=True)
        return cls(what, message, error.where if isinstance(error, ChunkError) else f"{what}: {message}")


@dataclass(frozen=True)
class NewFile:
    """A file or a folder for the store. target: its path there. content: of a file; None: it lies at `staged` by now."""

    target: Path
    content: bytes | None = None
    staged: Path | None = None

    @classmethod
    def of_state(cls, layout: Layout, target: Path, state: State) -> NewFile:
        """Named arrays; many bytes are written now, where the store is."""
        target = target.relative_to(layout.root)
        if layout.is_copy or bytes_of(state) <= _CARRIED:
            with io.BytesIO() as memory:
                dump_state(memory, state)
                return cls(target, memory.getvalue())
        staged = stage_file(layout)
        with open(staged, "xb") as file:
            dump_state(file, state)
        return cls(target, staged=staged)


def stage_file(layout: Layout) -> Path:
    """A new path behind the gate of the run that a task is of."""
    assert layout.generation is not None
    return layout.passage(layout.generation) / uuid4().hex


@dataclass(frozen=True)
class Found:
    """A record for the store, and the files that come before it. record: kind, name and body; None: files alone."""

    record: tuple[str, str, dict[str, Any]] | None
    files: Sequence[NewFile] = ()


@dataclass
class Report:
    """What a task did: what it found, which the driver commits, how long it took, and what failed."""

    task: str
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)

    def add(self, kind: str, name: str, body: dict[str, Any], files: Sequence[NewFile] = ()) -> None:
        """A record, and the files that it vouches for."""
        self.found.append(Found((kind, name, body), files))


def unusable(store: str | Path, error: OSError) -> StoreError:
    """What the file system refused, as one readable error."""
    words = f"cannot use the store {store}: {error.strerror or error}"
    if not is_store(Path(store)) and not has_lost_its_root(Layout(Path(store))):
        return StoreError(f"{words}; nothing was stored")
    return StoreError(
        f"{words}; what is committed is kept; when the store can be written again: {resume_command(store)}"
    )


def no_memory(store: str | Path) -> StoreError:
    """That memory ran out, and for whom."""
    return StoreError(
        "a task found no more memory; what is committed is kept; with more memory, or fewer "
        f"workers, go on with: {resume_command(store)}"
    )


_SHOWN = 20  # failures that a message lists


class RunFailed(HpcdpError, RuntimeError):
    """The run ended without all its cells; what is committed stays. lines: what could not be done, in words."""

    def __init__(self, message: str, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lines = list(lines)


class StudyRefuted(RunFailed, StudyError):
    """The run ended because outputs refute what the study says of them."""


def failed(failures: Sequence[Failure], again: str) -> RunFailed:
    """What to raise when chunks failed. again: the command that tries them again."""
    causes: dict[str, list[Failure]] = {}
    for failure in failures:
        causes.setdefault(failure.cause, []).append(failure)
    lines = []  # one for each cause: its first failure, and how many more things need the same chunk
    for first, *others in causes.values():
        more = len({other.what for other in others} - {first.what})
        lines.append(f"{first.what}: {first.message}" + (f" ({more} more cannot go on without it)" if more else ""))
    wrong = [failure for failure in failures if failure.is_wrong]
    if wrong:
        return StudyRefuted(f"{wrong[0].message} ({wrong[0].what})", lines)
    shown = lines[:_SHOWN] + ([f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else [])
    return RunFailed(
        "some chunks failed and were set aside; all else is done and stored:\n  "
        + "\n  ".join(shown or ["(unknown)"])
        + f"\ntry them again with: {again}",
        lines,
    )


def describe_killed(problem: Problem, task: Task, died: ProcessDied) -> Failure:
    """The failure of a task, one of the parts of a larger one, that ended its process, or was ended for its time or memory."""
    cause = task.work.cause(problem) or task.name
    if died.limit is not None and died.step is not None:
        return Failure(died.step, unanswered(died.limit), cause)
    how = "it ended its worker process each time it ran"
    if died.memory is not None:
        how = f"it was ended each time it ran, as it took {died.memory >> 20:,} MiB when memory was short"
    how += f", at {died.step}" if died.step else ""
    return Failure(f"task {task.name}: {task.work.describe(problem)}", how, cause)
