"""The tasks that are still to do: what to sample, learn, count, in groups that last long enough to be worth a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hpcdp.costs import Costs
from hpcdp.index import Index, Thresholds
from hpcdp.problem import Problem
from hpcdp.stages import Stage

_SHORTEST, _LONGEST = 0.5, 20.0  # seconds a task
_LONG_FIT = 2.0  # seconds after which what is learned is stored, whoever counts with it
_TASKS_PER_WORKER = 8
_BLOCK_PAIRS = 16  # pairs that share one drawn chunk of D, where a pair is cut in spans


@dataclass(frozen=True)
class Task:
    """A unit of distribution: a pure function of the study and of these keys.

    kind: sample, fit, count or literal (the functions of `hpcdp.tasks`). items: its keys. after: names of the tasks
    that come first. units: chunks of work, for progress. seconds: how long it should take; drawing: how much of that the
    mechanism takes.
    """

    name: str
    kind: str
    items: tuple[Any, ...]
    after: tuple[str, ...]
    units: int
    seconds: float
    drawing: float = 0.0


@dataclass(frozen=True)
class CountItems:
    """Pairs that share D, a range of test chunks, and thresholds: what one count task does."""

    pairs: tuple[int, ...]
    start: int
    stop: int
    thresholds: Thresholds


def schedule(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """All tasks that are left, in the order in which they should start; every `after` comes before."""
    if problem.is_literal:
        return _literal_tasks(problem, index, costs, workers)
    needs = _needs(problem, index)
    target = _target(_total_seconds(problem, index, costs, needs), workers)
    counts = list(_count_items(problem, costs, needs, target))
    fits = _fit_items(problem, index, costs, needs, target)
    return _assemble(problem, index, costs, fits, counts, target)


def _target(seconds: float, workers: int) -> float:
    return min(_LONGEST, max(_SHORTEST, seconds / (_TASKS_PER_WORKER * max(1, workers))))


Need = tuple[int, Thresholds, tuple[tuple[int, int], ...]]  # a pair, thresholds, and the ranges of chunks to count


def _needs(problem: Problem, index: Index) -> list[Need]:
    wanted = problem.thresholds.tolist()
    needs: list[Need] = []
    seen: set[str] = set()
    for number, model in enumerate(problem.model_keys):
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
    chunk = 2 * size * (costs.count + (costs.read if "test" in kept else 0.0)) + draw_test
    return fit, chunk


def _pair_drawing(problem: Problem, costs: Costs) -> tuple[float, float]:
    """Of the seconds to fit a pair, and to count a chunk of it, those that drawing takes: none where samples are kept."""
    train, test = problem.train, problem.test
    kept = {stage.name for stage in problem.kept_stages}
    to_fit = 2 * costs.drawing(train.total, train.chunks)
    to_count = 2 * costs.drawing(min(test.chunk, test.total), 1)
    return 0.0 if "train" in kept else to_fit, 0.0 if "test" in kept else to_count


def _total_seconds(problem: Problem, index: Index, costs: Costs, needs: Sequence[Need]) -> float:
    fit, chunk = _pair_seconds(problem, costs)
    counting = sum(fit + chunk * sum(b - a for a, b in gaps) for _, _, gaps in needs)
    sampling = sum(s for _, _, _, s, _ in _sample_items(problem, index, costs))
    return counting + sampling


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
        split = _is_split(fit, chunk, sum(b - a for a, b in gaps), target)
        learned = (problem.model_keys[number], thresholds) in index.stored_counters
        trained = (index.training_counts(problem.model_keys[number], thresholds).above >= 0).all()
        if (split and not learned) or (not gaps and not trained):
            groups.setdefault(thresholds, []).append(number)
    size = max(1, int(target / max(1e-9, fit)))
    return [(some, t) for t, numbers in groups.items() for some in _batches(numbers, size)]


def _sample_items(problem: Problem, index: Index, costs: Costs) -> list[tuple[str, str, int, float, float]]:
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


def _assemble(
    problem: Problem,
    index: Index,
    costs: Costs,
    fits: list[tuple[list[int], Thresholds]],
    counts: list[CountItems],
    target: float,
) -> list[Task]:
    tasks: list[Task] = []
    made_by: dict[tuple[str, str], list[tuple[int, str]]] = {}
    batch: list[tuple[str, str, int]] = []
    seconds = drawing = 0.0

    def flush() -> None:
        nonlocal batch, seconds, drawing
        if batch:
            name = f"sample-{len(tasks)}"
            stages = {s.name: s for s in problem.kept_stages}
            units = sum(len(stages[stage].block_chunks(block)) for _, stage, block in batch)
            tasks.append(Task(name, "sample", tuple(batch), (), units, seconds, drawing))
            for law, stage, block in batch:
                made_by.setdefault((law, stage), []).append((block, name))
        batch, seconds, drawing = [], 0.0, 0.0

    for law, stage, block, cost, part in _sample_items(problem, index, costs):
        batch.append((law, stage, block))
        seconds, drawing = seconds + cost, drawing + part
        if seconds >= target:
            flush()
    flush()

    def sampled(law: str, stage: str, blocks: range | None = None) -> set[str]:
        return {name for block, name in made_by.get((law, stage), []) if blocks is None or block in blocks}

    fit_seconds, chunk_seconds = _pair_seconds(problem, costs)
    fit_drawing, chunk_drawing = _pair_drawing(problem, costs)
    fitted: dict[tuple[int, Thresholds], str] = {}
    for numbers, thresholds in fits:
        after = {n for pair in numbers for law in problem.pair_laws[pair] for n in sampled(law, "train")}
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


def _literal_tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    cells = (*problem.risk_cells, *problem.point_cells)
    todo = [cell for cell in cells if problem.cell_key(cell) not in index.cells]
    e = problem.study.estimate
    drawing = 2 * (costs.drawing(e.train, problem.train.chunks) + costs.drawing(e.test, problem.test.chunks))
    each = drawing + 2 * (e.train * costs.fit + e.test * costs.count)
    target = _target(each * len(todo), workers)
    size = max(1, int(target / max(1e-9, each)))
    return [
        Task(f"literal-{i}", "literal", tuple(some), (), len(some), each * len(some), drawing * len(some))
        for i, some in enumerate(_batches(todo, size))
    ]


def _batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
