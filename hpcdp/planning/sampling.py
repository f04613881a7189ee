"""The tasks that draw the samples which a study keeps; and how long a task should last."""

from __future__ import annotations

from hpcdp.planning.costs import Costs
from hpcdp.planning.index import Index
from hpcdp.planning.task import Task
from hpcdp.study.problem import Problem

_SHORTEST, _LONGEST = 0.5, 20.0  # seconds a task
_TASKS_PER_WORKER = 8


def task_seconds(seconds: float, workers: int) -> float:
    """How long a task should last where all take so many seconds: short enough for every worker to have some."""
    return min(_LONGEST, max(_SHORTEST, seconds / (_TASKS_PER_WORKER * max(1, workers))))


def sample_tasks(problem: Problem, index: Index, costs: Costs, target: float) -> list[Task]:
    """The tasks that draw blocks which are kept and not there yet, each of about `target` seconds."""
    stages = {stage.name: stage for stage in problem.kept_stages}
    tasks: list[Task] = []
    batch: list[tuple[str, str, int]] = []
    seconds = drawing = 0.0

    def flush() -> None:
        nonlocal batch, seconds, drawing
        if batch:
            units = sum(len(stages[stage].block_chunks(block)) for _, stage, block in batch)
            tasks.append(Task(f"sample-{len(tasks)}", "sample", tuple(batch), (), units, seconds, drawing))
        batch, seconds, drawing = [], 0.0, 0.0

    for law, stage, block, cost, part in _blocks_left(problem, index, costs):
        batch.append((law, stage, block))
        seconds, drawing = seconds + cost, drawing + part
        if seconds >= target:
            flush()
    flush()
    return tasks


def sampling_seconds(problem: Problem, index: Index, costs: Costs) -> float:
    """Seconds that drawing what is kept and not there yet takes."""
    return sum(seconds for *_, seconds, _ in _blocks_left(problem, index, costs))


def _blocks_left(problem: Problem, index: Index, costs: Costs) -> list[tuple[str, str, int, float, float]]:
    """(law, stage, block, seconds, of which drawing) of every block that is kept and not there yet, in the pairs' order."""
    found: dict[tuple[str, str, int], tuple[float, float]] = {}
    for stage in problem.kept_stages:
        for law in problem.laws:
            for block in range(stage.blocks):
                if stage.name_of(law, block) not in index.samples:
                    size = stage.block_size(block)
                    drawing = costs.drawing(size, len(stage.block_chunks(block)))
                    found[law, stage.name, block] = drawing + costs.write * size, drawing
    order = {law: i for i, law in enumerate(problem.laws)}
    stages = {"train": 0, "test": 1}
    few = len(order) <= 4  # few laws: all training first, so that learning starts early; many: law by law
    keyed = sorted(found, key=lambda f: (stages[f[1]], order[f[0]], f[2]) if few else (order[f[0]], stages[f[1]], f[2]))
    return [(*key, *found[key]) for key in keyed]
