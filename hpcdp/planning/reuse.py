"""The tasks of a study whose samples teach and test: what to draw, and which parts of which pools to learn and count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcdp.planning.costs import Costs
from hpcdp.planning.index import Index, Thresholds, first_of
from hpcdp.planning.sampling import sample_tasks, sampling_seconds, task_seconds
from hpcdp.planning.task import Task
from hpcdp.study.problem import Problem
from hpcdp.study.reuse import Cut, Part


@dataclass(frozen=True)
class ReuseItem:
    """One part of a pair's pool, by its number in `hpcdp.study.reuse.Cut.parts`, at some thresholds."""

    pair: int
    part: int
    thresholds: Thresholds


def reuse_tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left; one that learns and counts comes after the samples of its pairs."""
    items = _missing(problem, index)
    parts = Cut.of(problem.study.estimate.pool).parts
    seconds = [part_seconds(costs, part) for part in parts]
    learning = sum(seconds[item.part] for item in items)
    target = task_seconds(learning + sampling_seconds(problem, index, costs), workers)
    samples = sample_tasks(problem, index, costs, target)
    made_by: dict[str, set[str]] = {}
    for task in samples:
        for law, _, _ in task.items:
            made_by.setdefault(law, set()).add(task.name)
    tasks = list(samples)
    for some in _grouped(items, seconds, target):
        after = {name for item in some for law in problem.pair_laws[item.pair] for name in made_by.get(law, ())}
        lasts = sum(seconds[item.part] for item in some)
        tasks.append(Task(f"reuse-{len(tasks)}", "reuse", tuple(some), tuple(sorted(after)), len(some), lasts))
    return tasks


def part_seconds(costs: Costs, part: Part) -> float:
    """Seconds to learn and count one part of a pair."""
    learning = len(part.steps) * costs.each + 2.0 * part.learned * costs.fit
    return learning + 2.0 * part.counted * (costs.count + costs.read)


def _missing(problem: Problem, index: Index) -> list[ReuseItem]:
    """Parts that no record holds, pair by pair, those with one D together."""
    wanted = problem.thresholds.tolist()
    order = {law: place for place, law in enumerate(problem.laws)}
    pairs = sorted(first_of(problem.pool_keys).items(), key=lambda found: order[problem.pair_laws[found[1]][0]])
    found = []
    for pool, pair in pairs:
        for part in range(len(Cut.of(problem.study.estimate.pool).parts)):
            thresholds = index.unpooled(pool, part, wanted)
            if thresholds:
                found.append(ReuseItem(pair, part, thresholds))
    return found


def _grouped(items: Sequence[ReuseItem], seconds: Sequence[float], target: float) -> Iterator[list[ReuseItem]]:
    """Items in groups that last long enough to be worth a task, each of one set of thresholds."""
    some: list[ReuseItem] = []
    lasts = 0.0
    for item in items:
        if some and (lasts + 0.5 * seconds[item.part] >= target or some[0].thresholds != item.thresholds):
            yield some
            some, lasts = [], 0.0
        some.append(item)
        lasts += seconds[item.part]
    if some:
        yield some
