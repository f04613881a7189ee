"""What failed in a run, in words, and the error that tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from hpcdp._base.node import ProcessDied
from hpcdp.engine.outcomes import Failure
from hpcdp.engine.task import Task
from hpcdp.errors import HpcdpError, StudyError
from hpcdp.study.problem import Problem
from hpcdp.study.trial_draws import unanswered

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
    lines = describe_failures(failures)
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


def describe_failures(failures: Sequence[Failure]) -> list[str]:
    """One line for each cause: its first failure, and how many more things need the same chunk."""
    causes: dict[str, list[Failure]] = {}
    for failure in failures:
        causes.setdefault(failure.cause, []).append(failure)
    lines = []
    for first, *others in causes.values():
        more = len({other.what for other in others} - {first.what})
        lines.append(f"{first.what}: {first.message}" + (f" (needed by {more} more)" if more else ""))
    return lines


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
