"""The tasks that are still to do: what to sample, learn, count, in groups that last long enough to be worth a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hpcdp.planning.costs import Costs
from hpcdp.planning.index import Index, Thresholds
from hpcdp.planning.reuse import reuse_tasks
from hpcdp.planning.sampling import sample_tasks, sampling_seconds, task_seconds
from hpcdp.planning.task import CountItems, TallyItems, Task
from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem
from hpcdp.study.sizes import Sizes

_LONG_FIT = 2.0  # seconds after which what is learned is stored, whoever counts with it
_REFINE_SECONDS = 1.0  # to learn from tallies, however many draws they hold
_BLOCK_PAIRS = 16  # pairs that share one drawn chunk of D, where a pair is cut in spans


def schedule(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left, in the order in which they should start; every `after` comes before.

    Where a run decides sizes, pairs with the smallest ones come first, alone.
    """
    if problem.is_literal:
        return _literal_tasks(problem, index, costs, workers)
    if problem.is_reused:
        return reuse_tasks(problem, index, costs, workers)
    groups: dict[Sizes, list[int]] = {}
    for number in range(len(problem.pairs)):
        groups.setdefault(problem.sizes_of(number), []).append(number)
    for sizes in sorted(groups, key=lambda s: (s.test, s.refine)):
        tasks = _of_sizes(problem.sized(sizes), groups[sizes], index, costs, workers)
        if tasks:
            return tasks
    return []


def _of_sizes(problem: Problem, numbers: Sequence[int], index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks of pairs whose stages have the same sizes, which are the problem's."""
    needs = _needs(problem, numbers, index)
    tallies = tallies_left(problem, numbers, index, costs) if problem.is_refined else []
    seconds = _total_seconds(problem, index, costs, needs) + sum(left.seconds for left in tallies)
    target = task_seconds(seconds, workers)
    counts = list(_count_items(problem, costs, needs, target))
    fits = _fit_items(problem, index, costs, needs, target)
    tasks = _assemble(problem, index, costs, fits, counts, target, tallies)
    if not problem.study.estimate.has_budget:
        return tasks
    assert isinstance(problem.sizes, Sizes)
    return [replace(task, sizes=problem.sizes) for task in tasks]


Need = tuple[int, Thresholds, tuple[tuple[int, int], ...]]  # a pair, thresholds, and the ranges of chunks to count


def _needs(problem: Problem, numbers: Sequence[int], index: Index) -> list[Need]:
    wanted = problem.thresholds.tolist()
    needs: list[Need] = []
    seen: set[str] = set()
    for number in numbers:
        model = problem.model_key(number)
        if model in seen:
            continue
        seen.add(model)
        for thresholds in index.threshold_sets(model, wanted, problem.test):
            gaps = index.missing(model, thresholds, problem.test)
            if gaps or (index.training_counts(model, thresholds).above < 0).any():
                needs.append((number, thresholds, tuple((g.start, g.stop) for g in gaps)))
    return needs


def _pair_seconds(problem: Problem, costs: Costs) -> tuple[float, float]:
    """Seconds to fit a pair, and to count one chunk of both sides of it."""
    train, test = problem.train, problem.test
    size = min(test.chunk, test.total)
    draw_train, draw_test = _pair_drawing(problem, costs)
    kept = {stage.name for stage in problem.kept_stages}
    fit = 2 * train.total * (costs.fit + (costs.read if "train" in kept else 0.0)) + draw_train
    if problem.is_screened:
        fit += 2 * problem.stage_of("screen", 0).total * costs.count
    chunk = 2 * size * (costs.count + (costs.read if "test" in kept else 0.0)) + draw_test
    return fit, chunk


def _pair_drawing(problem: Problem, costs: Costs) -> tuple[float, float]:
    """Of the seconds to fit a pair, and to count a chunk of it, those that drawing takes: none where samples are kept."""
    train, test = problem.train, problem.test
    kept = {stage.name for stage in problem.kept_stages}
    to_fit = 0.0 if "train" in kept else 2 * costs.drawing(train.total, train.chunks)
    to_count = 0.0 if "test" in kept else 2 * costs.drawing(min(test.chunk, test.total), 1)
    if problem.is_screened:
        screen = problem.stage_of("screen", 0)
        to_fit += 2 * costs.drawing(screen.total, screen.chunks)
    return to_fit, to_count


def _total_seconds(problem: Problem, index: Index, costs: Costs, needs: Sequence[Need]) -> float:
    fit, chunk = _pair_seconds(problem, costs)
    counting = sum(fit + chunk * sum(b - a for a, b in gaps) for _, _, gaps in needs)
    return counting + sampling_seconds(problem, index, costs)


def _count_items(problem: Problem, costs: Costs, needs: Sequence[Need], target: float) -> Iterator[CountItems]:
    fit, chunk = _pair_seconds(problem, costs)
    groups: dict[tuple[str, Thresholds, tuple[tuple[int, int], ...]], list[int]] = {}
    for number, thresholds, gaps in needs:
        groups.setdefault((problem.pair_laws[number][0], thresholds, gaps), []).append(number)
    for (_, thresholds, gaps), numbers in groups.items():
        chunks = sum(stop - start for start, stop in gaps)
        if not _is_split(fit, chunk, chunks, target):
            size = max(1, int(target / max(1e-9, fit + chunk * chunks)))
            for some in _batches(numbers, size):
                for start, stop in _cut(problem.test, gaps, problem.test.chunks):
                    yield CountItems(tuple(some), start, stop, thresholds)
            continue
        for some in _batches(numbers, _BLOCK_PAIRS):
            length = max(1, int(target / (chunk * len(some))))
            for start, stop in _cut(problem.test, gaps, length):
                yield CountItems(tuple(some), start, stop, thresholds)


def _is_split(fit: float, chunk: float, chunks: int, target: float) -> bool:
    """Whether a pair's counting goes into several tasks, after a fit that all of them use."""
    return chunks > 1 and (fit > _LONG_FIT or fit + chunk * chunks > 2 * target)


@dataclass(frozen=True)
class TalliesLeft:
    """What is left to tally of a pair, or of pairs that share D and all of this: ranges of a stage's chunks.

    pilots: of these pairs, those without a pilot yet. seconds: to tally one chunk of both sides of one pair, and in all.
    """

    pairs: tuple[int, ...]
    pilots: tuple[int, ...]
    stage: Stage
    gaps: tuple[tuple[int, int], ...]
    chunk_seconds: float
    drawing: float

    @property
    def seconds(self) -> float:
        """To draw and tally all of it."""
        return self.chunk_seconds * len(self.pairs) * sum(stop - start for start, stop in self.gaps)


def tallies_left(problem: Problem, numbers: Sequence[int], index: Index, costs: Costs) -> list[TalliesLeft]:
    """What is left to tally of these pairs, whose stages have the same sizes; pairs of equal laws are one."""
    groups: dict[tuple[str, str, tuple[tuple[int, int], ...]], list[int]] = {}
    seen: set[str] = set()
    stages = {name: problem.stage_of(name, numbers[0]) for name in ("refine", "validation")}
    for number in numbers:
        key = problem.pilot_keys[number]
        if key in seen:
            continue
        seen.add(key)
        for stage in stages.values():
            left = tuple((gap.start, gap.stop) for gap in index.untallied(key, stage))
            if left or (key not in index.pilots and stage.name == "refine"):
                groups.setdefault((problem.pair_laws[number][0], stage.name, left), []).append(number)
    found = []
    for (_, name, left), group in groups.items():
        size = min(stages[name].chunk, max(1, stages[name].total))
        drawing = 2 * costs.drawing(size, 1)
        for some in _batches(group, _BLOCK_PAIRS):
            pilots = tuple(n for n in some if problem.pilot_keys[n] not in index.pilots)
            found.append(
                TalliesLeft(tuple(some), pilots, stages[name], left, drawing + 2 * size * costs.tally, drawing)
            )
    return found


def _cut(stage: Stage, gaps: Iterable[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """Spans of at most `length` chunks; a short last chunk is a span of its own, so that more samples keep the rest."""
    full = stage.total // stage.chunk
    for start, stop in gaps:
        edges = [*range(start, stop, length), stop]
        if start < full < stop and full not in edges:
            edges = sorted([*edges, full])
        yield from pairwise(edges)


def _fit_items(
    problem: Problem, index: Index, costs: Costs, needs: Sequence[Need], target: float
) -> list[tuple[list[int], Thresholds]]:
    """Batches of pairs that are learned in tasks of their own, because several count tasks use them."""
    fit, chunk = _pair_seconds(problem, costs)
    groups: dict[Thresholds, list[int]] = {}
    for number, thresholds, gaps in needs:
        split = problem.is_refined or _is_split(fit, chunk, sum(b - a for a, b in gaps), target)
        learned = (problem.model_key(number), thresholds) in index.stored_counters
        trained = index.is_learned(problem.model_key(number), thresholds)
        if not trained if problem.is_screened else (split and not learned) or not (gaps or trained):
            groups.setdefault(thresholds, []).append(number)
    size = max(1, int(target / max(1e-9, fit)))
    return [(some, t) for t, numbers in groups.items() for some in _batches(numbers, size)]


def _assemble(
    problem: Problem,
    index: Index,
    costs: Costs,
    fits: list[tuple[list[int], Thresholds]],
    counts: list[CountItems],
    target: float,
    tallies: Sequence[TalliesLeft] = (),
) -> list[Task]:
    tasks = sample_tasks(problem, index, costs, target)
    made_by: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for task in tasks:
        for law, stage, block in task.items:
            made_by.setdefault((law, stage), []).append((block, task.name))

    def sampled(law: str, stage: str, blocks: range | None = None) -> set[str]:
        return {name for block, name in made_by.get((law, stage), []) if blocks is None or block in blocks}

    fit_seconds, chunk_seconds = _pair_seconds(problem, costs)
    fit_drawing, chunk_drawing = _pair_drawing(problem, costs)
    tallied = _tally_tasks(problem, costs, tallies, target, sampled, tasks)
    if problem.is_refined:
        fit_seconds, fit_drawing = _REFINE_SECONDS, 0.0
    fitted: dict[tuple[int, Thresholds], str] = {}
    for numbers, thresholds in fits:
        after = {n for pair in numbers for law in problem.pair_laws[pair] for n in sampled(law, "train")}
        after |= {name for pair in numbers for name in tallied.get(problem.pilot_keys[pair], ())}
        name = f"fit-{len(tasks)}"
        tasks.append(
            Task(
                name,
                "fit",
                (tuple(numbers), thresholds),
                tuple(sorted(after)),
                len(numbers),
                fit_seconds * len(numbers),
                fit_drawing * len(numbers),
            )
        )
        fitted.update({(number, thresholds): name for number in numbers})
    for items in counts:
        blocks = range(problem.test.block_of(items.start), problem.test.block_of(items.stop - 1) + 1)
        after = {fitted[n, items.thresholds] for n in items.pairs if (n, items.thresholds) in fitted}
        learns = [n for n in items.pairs if (n, items.thresholds) not in fitted]
        for pair in items.pairs:
            for law in problem.pair_laws[pair]:
                after |= sampled(law, "test", blocks)
        for pair in learns:
            for law in problem.pair_laws[pair]:
                after |= sampled(law, "train")
        length = (items.stop - items.start) * len(items.pairs)
        tasks.append(
            Task(
                f"count-{len(tasks)}",
                "count",
                (items,),
                tuple(sorted(after)),
                length,
                chunk_seconds * length + fit_seconds * len(learns),
                chunk_drawing * length + fit_drawing * len(learns),
            )
        )
    return tasks


def _tally_tasks(
    problem: Problem,
    costs: Costs,
    tallies: Sequence[TalliesLeft],
    target: float,
    sampled: Callable[[str, str], set[str]],
    tasks: list[Task],
) -> dict[str, set[str]]:
    """Append the tasks that learn pilots and tally; returns the names of those that a pair's fit needs, by pilot key."""
    pilot_of: dict[int, str] = {}
    needed: dict[str, set[str]] = {}
    drawing = (
        0.0 if problem.train in problem.kept_stages else 2 * costs.drawing(problem.train.total, problem.train.chunks)
    )
    each = 2 * problem.train.total * (costs.fit + costs.read) + drawing
    for left in tallies:
        todo = [n for n in left.pilots if n not in pilot_of]
        for some in _batches(todo, max(1, int(target / max(1e-9, each)))):
            after = {name for n in some for law in problem.pair_laws[n] for name in sampled(law, "train")}
            name = f"pilot-{len(tasks)}"
            size = len(some)
            tasks.append(Task(name, "pilot", tuple(some), tuple(sorted(after)), size, each * size, drawing * size))
            for n in some:
                pilot_of[n] = name
                needed.setdefault(problem.pilot_keys[n], set()).add(name)
    for left in tallies:
        pairs = len(left.pairs)
        length = max(1, int(target / max(1e-9, left.chunk_seconds * pairs)))
        after = {pilot_of[n] for n in left.pairs if n in pilot_of}
        for start, stop in _cut(left.stage, left.gaps, length):
            name, units = f"tally-{len(tasks)}", (stop - start) * pairs
            items = (TallyItems(left.pairs, left.stage.name, start, stop),)
            seconds, drawn = left.chunk_seconds * units, left.drawing * units
            tasks.append(Task(name, "tally", items, tuple(sorted(after)), units, seconds, drawn))
            for n in left.pairs:
                needed.setdefault(problem.pilot_keys[n], set()).add(name)
    return needed


def _literal_tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    cells = (*problem.risk_cells, *problem.point_cells)
    todo = [cell for cell in cells if problem.cell_key(cell) not in index.cells]
    e = problem.study.estimate
    drawing = 2 * (costs.drawing(e.train, problem.train.chunks) + costs.drawing(e.test, problem.test.chunks))
    each = drawing + 2 * (e.train * costs.fit + e.test * costs.count)
    target = task_seconds(each * len(todo), workers)
    size = max(1, int(target / max(1e-9, each)))
    return [
        Task(f"literal-{i}", "literal", tuple(some), (), len(some), each * len(some), drawing * len(some))
        for i, some in enumerate(_batches(todo, size))
    ]


def _batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
