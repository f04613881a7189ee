"""The tasks of a study whose samples teach and test: what to draw, and which parts of which pools to learn and count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index, Thresholds, first_of
from hpcdp.engine.sampling import TaskList
from hpcdp.engine.task import Amounts, Progress, Task, Work
from hpcdp.keys import digest_json
from hpcdp.methods.sample_split.plan import draws_and_calls
from hpcdp.notions.accuracy import worst_share_error
from hpcdp.study.problem import Problem, describe_pairs
from hpcdp.study.reuse import Cut, Part, most_learned


@dataclass(frozen=True)
class CountParts(Work):
    """Learn and count parts of pairs' pools, (pair, number in `hpcdp.study.reuse.Cut.parts`), all at these thresholds."""

    kind: ClassVar[str] = "reuse"
    does: ClassVar[str] = "hpcdp.methods.cross_fitting.work:count_parts"
    parts: tuple[tuple[int, int], ...]
    thresholds: Thresholds

    def split(self) -> Sequence[CountParts]:
        return [CountParts((part,), self.thresholds) for part in self.parts]

    def describe(self, problem: Problem) -> str:
        ((pair, part),) = self.parts
        return f"{describe_pairs(problem, [pair])}, part {part} of its samples"

    def name(self, problem: Problem, parts: Sequence[tuple[int, int]]) -> str:
        """Of the record of these of its parts."""
        keys = [[problem.pool_keys[pair], part] for pair, part in parts]
        return digest_json(["reuse", list(self.thresholds), keys])


_Item = tuple[int, int, Thresholds]  # a pair, a part of its pool, and thresholds


def tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left; one that learns and counts comes after the samples of its pairs."""
    items = _missing(problem, index)
    parts = Cut.of(problem.study.estimate.pool).parts
    seconds = [part_seconds(costs, part) for part in parts]
    found = TaskList(problem, index, costs, sum(seconds[part] for _, part, _ in items), workers)
    for work in _grouped(items, seconds, found.target):
        after = found.drawing(law for pair, _ in work.parts for law in problem.pair_laws[pair])
        found.add("reuse", work, after, len(work.parts), sum(seconds[part] for _, part in work.parts))
    return found.tasks


def part_seconds(costs: Costs, part: Part) -> float:
    """Seconds to learn and count one part of a pair."""
    learning = len(part.steps) * costs.each + 2.0 * part.learned * costs.learn
    return learning + 2.0 * part.counted * (costs.count + costs.read)


def _missing(problem: Problem, index: Index) -> list[_Item]:
    """Parts that no record holds, pair by pair, those with one D together."""
    wanted = problem.thresholds.tolist()
    order = {law: place for place, law in enumerate(problem.laws)}
    pairs = sorted(first_of(problem.pool_keys).items(), key=lambda found: order[problem.pair_laws[found[1]][0]])
    found = []
    for pool, pair in pairs:
        for part in range(len(Cut.of(problem.study.estimate.pool).parts)):
            thresholds = index.unpooled(pool, part, wanted)
            if thresholds:
                found.append((pair, part, thresholds))
    return found


def _grouped(items: Sequence[_Item], seconds: Sequence[float], target: float) -> Iterator[CountParts]:
    """Items in groups that last long enough to be worth a task, each of one set of thresholds."""
    some: list[tuple[int, int]] = []
    lasts = 0.0
    at: Thresholds = ()
    for pair, part, thresholds in items:
        if some and (lasts + 0.5 * seconds[part] >= target or at != thresholds):
            yield CountParts(tuple(some), at)
            some, lasts = [], 0.0
        at = thresholds
        some.append((pair, part))
        lasts += seconds[part]
    if some:
        yield CountParts(tuple(some), at)


def is_done(problem: Problem, index: Index) -> bool:
    """Whether every part of every pool is counted."""
    return not _missing(problem, index)


def progress(problem: Problem, index: Index) -> list[Progress]:
    """Parts of pairs that are counted."""
    total = len(first_of(problem.pool_keys)) * len(Cut.of(problem.study.estimate.pool).parts)
    return [Progress("learn, count", total - len(_missing(problem, index)), total, "parts of pairs")]


def amounts(problem: Problem) -> Amounts:
    """What the whole of it takes; in memory the pools of both sides, four fifths of them again, and what a loss makes of it."""
    e = problem.study.estimate
    memory = 2 * 4 * e.pool * problem.schema.bytes_in_memory
    return Amounts(*draws_and_calls(problem), memory, most_learned(e.pool))


def worst_errors(problem: Problem, epsilon: float) -> tuple[float, float]:
    """Largest standard error of δ̂ at one level: of sets with P >= e^ε·Q, and of any set."""
    pool = problem.study.estimate.pool
    return worst_share_error(epsilon, pool), worst_share_error(epsilon, pool, is_sound=False)
