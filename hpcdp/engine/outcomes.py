"""What tasks report: how long they took, and what failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hpcdp._base.raised import readable
from hpcdp.engine.context import ChunkError
from hpcdp.errors import StoreError
from hpcdp.store.again import resume_command
from hpcdp.store.samples import DamagedBlock
from hpcdp.study.declared import RefutedError


@dataclass(frozen=True)
class Failure:
    """What could not be done, or not be used.

    what: chunk or pair, in words. cause: equal for failures that have one cause, such as one chunk that many pairs need.
    set_aside: sample record to take out of use, if any. is_wrong: whether it refutes what the study says.
    """

    what: str
    message: str
    cause: str
    set_aside: str | None = None
    is_wrong: bool = False

    @classmethod
    def of(cls, what: str, error: Exception) -> Failure:
        """From what a task met: a damaged block, a chunk that the mechanism failed on, or else."""
        message = readable(str(error))
        if isinstance(error, DamagedBlock):
            return cls(what, message, error.record, error.record)
        if isinstance(error, RefutedError):
            return cls(what, message, message, is_wrong=True)
        return cls(what, message, error.where if isinstance(error, ChunkError) else f"{what}: {message}")


@dataclass
class Report:
    """What a task did: how long it took, and what failed."""

    task: str
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def unusable(store: str | Path, error: OSError) -> StoreError:
    """What the file system refused, as one readable error."""
    return StoreError(
        f"cannot use the store {store}: {error.strerror or error}; what is committed is kept; "
        f"when the store can be written again: {resume_command(store)}"
    )


def no_memory(store: str | Path) -> StoreError:
    """That memory ran out, and for whom."""
    return StoreError(
        "a task found no more memory; what is committed is kept; with more memory, or fewer "
        f"workers, go on with: {resume_command(store)}"
    )
