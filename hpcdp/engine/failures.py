"""What failed in a run, in words, and the error that tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from hpcdp.engine.outcomes import Failure
from hpcdp.errors import HpcdpError
from hpcdp.planning.task import Task
from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem, describe_pairs

_SHOWN = 20  # failures that a message lists


class RunFailed(HpcdpError, RuntimeError):
    """The run ended without all its cells; what is committed stays. lines: what could not be done, in words."""

    def __init__(self, message: str, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lines = list(lines)


def failed(failures: Sequence[Failure], again: str) -> RunFailed:
    """What to raise when chunks failed. again: the command that tries them again."""
    lines = describe_failures(failures)
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


def describe_killed(problem: Problem, task: Task, last: str | None = None) -> Failure:
    """The failure of a task, one of the parts of a larger one, that ended its worker. last: the draw that it did."""
    item, cause = task.items[0], task.name
    if task.kind == "sample":
        law, name, block = item
        stage = problem.train if name == "train" else problem.test
        chunks, cause = stage.block_chunks(block), stage.name_of(law, block)
        what = f"{name} chunks {chunks[0]} to {chunks[-1]} of {problem.describe_law(law)}"
    elif task.kind == "round":
        law, number, size = item
        what, cause = f"round chunk {number} of {problem.describe_law(law)}", Stage.endless(size).name_of(law, number)
    elif task.kind == "reuse":
        what = f"{describe_pairs(problem, [item.pair])}, part {item.part} of its samples"
    elif task.kind == "literal":
        what = item.describe()
    elif task.kind in ("count", "tally"):
        name = "test" if task.kind == "count" else item.stage
        what = f"{describe_pairs(problem, item.pairs[:1])}, {name} chunks {item.start} to {item.stop - 1}"
    else:
        what = describe_pairs(problem, task.items[:1] if task.kind == "pilot" else item[:1])
    how = "it ended its worker process each time it ran" + (f", at {last}" if last else "")
    return Failure(f"task {task.name}: {what}", how, cause)
