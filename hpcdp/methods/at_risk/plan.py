"""At risk: the pairs of databases that are drawn and kept; nothing else is left to do."""

from __future__ import annotations

from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index
from hpcdp.engine.sampling import sample_tasks, sampling_seconds, task_seconds
from hpcdp.engine.task import Amounts, Progress, Task
from hpcdp.methods.sample_split.plan import worst_errors  # noqa: F401  # a part of every way, of whose cells there are none here
from hpcdp.study.problem import Problem


def tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The blocks of pairs that are not there yet."""
    target = task_seconds(sampling_seconds(problem, index, costs), workers)
    return sample_tasks(problem, index, costs, target, last=True)


def is_done(problem: Problem, index: Index) -> bool:
    """Whether every pair is drawn."""
    (law,) = problem.laws
    return all(problem.test.name_of(law, block) in index.samples for block in range(problem.test.blocks))


def progress(problem: Problem, index: Index) -> list[Progress]:
    """Pairs that are drawn."""
    (law,), stage = problem.laws, problem.test
    drawn = sum(stage.block_size(b) for b in range(stage.blocks) if stage.name_of(law, b) in index.samples)
    return [Progress("pairs", drawn, stage.total)]


def amounts(problem: Problem) -> Amounts:
    """What all pairs take."""
    stage = problem.test
    return Amounts(stage.total, stage.chunks, problem.schema.bytes_per_output * stage.total, 1)
