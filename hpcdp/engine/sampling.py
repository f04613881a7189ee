"""The tasks that draw the samples which are kept; how long a task should last, and how many files a store will hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple, TypeVar

from hpcdp.engine.index import Index
from hpcdp.engine.task import Costs, Task, Work
from hpcdp.store.databases import count_files as count_databases
from hpcdp.store.packs import PACK_BYTES
from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem, Sizes

_SHORTEST, _LONGEST = 0.5, 20.0  # seconds a task
_TASKS_PER_WORKER = 8
_BLOCK_SECONDS = 3e-3  # to write the files and the record of a block, whatever its size
_PACKED_SECONDS = 1e-4  # of a block in a pack
_PACKED_BYTES = 4 << 20  # of a block that goes into a pack
_RATE = 250.0  # tasks a second, half of what a scheduler does on one core

_T = TypeVar("_T")

Block = tuple[str, Stage, int]
"""A law, a stage, and the number of a block."""

BLOCK_PAIRS = 16
"""Pairs that share one drawn chunk of D, where a pair is cut in spans."""


@dataclass(frozen=True)
class Draw(Work):
    """Draw and keep blocks: (law, stage, block). packed: many in an array, since each is small."""

    does: ClassVar[str] = "hpcdp.engine.tasks:draw"
    blocks: tuple[Block, ...]
    packed: bool = False

    def split(self) -> Sequence[Draw]:
        return [Draw((block,), self.packed) for block in self.blocks]

    def describe(self, problem: Problem) -> str:
        ((law, stage, block),) = self.blocks
        chunks = stage.block_chunks(block)
        which = f"chunks {chunks[0]} to {chunks[-1]}" if len(chunks) > 1 else f"chunk {chunks[0]}"
        return f"{stage.name} {which} of {problem.describe_law(law)}"

    def cause(self, problem: Problem) -> str:
        ((law, stage, block),) = self.blocks
        return stage.name_of(law, block)


def task_seconds(seconds: float, workers: int) -> float:
    """How long a task should last: so short that every worker has some, so long that a scheduler keeps up with all."""
    return max(_SHORTEST, workers / _RATE, min(_LONGEST, seconds / (_TASKS_PER_WORKER * max(1, workers))))


class TaskList:
    """Tasks in the making, first those that draw. seconds: of all that is added. target: of a task. sizes: see `Task`."""

    def __init__(
        self, problem: Problem, index: Index, costs: Costs, seconds: float, workers: int, sizes: Sizes | None = None
    ) -> None:
        self.target, self.sizes = task_seconds(seconds + sampling_seconds(problem, index, costs), workers), sizes
        self.tasks = [replace(task, sizes=sizes) for task in sample_tasks(problem, index, costs, self.target)]
        self._drawn: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for task in self.tasks:
            assert isinstance(task.work, Draw)
            for law, stage, block in task.work.blocks:
                self._drawn.setdefault((law, stage.name), []).append((block, task.name))

    def fit(self, seconds: float) -> int:
        """How many of what takes so long go into one task."""
        return max(1, int(self.target / max(1e-9, seconds)))

    def drawing(
        self, laws: Iterable[str], stages: Iterable[str] = ("train", "test"), blocks: range | None = None
    ) -> set[str]:
        """Names of the tasks that draw samples of these laws, in these stages and blocks (None: all)."""
        drawn = (block for law in laws for stage in stages for block in self._drawn.get((law, stage), ()))
        return {name for block, name in drawn if blocks is None or block in blocks}

    def add(
        self,
        kind: str,
        work: Work,
        after: Iterable[str],
        units: int,
        seconds: float,
        drawing: float = 0.0,
        sizes: Sizes | None = None,
    ) -> str:
        """One more task, of which the name is returned; see `Task`."""
        name = f"{kind}-{len(self.tasks)}"
        self.tasks.append(Task(name, work, tuple(sorted(set(after))), units, seconds, drawing, sizes or self.sizes))
        return name


def sample_tasks(problem: Problem, index: Index, costs: Costs, target: float, last: bool = False) -> list[Task]:
    """The tasks that draw blocks which are kept and missing. last: nothing follows, so they shorten: workers end together."""
    tasks: list[Task] = []
    batch: list[Block] = []
    seconds = drawing = 0.0

    def flush(packed: bool) -> None:
        nonlocal batch, seconds, drawing
        if batch:
            units = sum(len(stage.block_chunks(block)) for _, stage, block in batch)
            tasks.append(Task(f"sample-{len(tasks)}", Draw(tuple(batch), packed), (), units, seconds, drawing))
        batch, seconds, drawing = [], 0.0, 0.0

    blocks = _blocks_left(problem, index, costs)
    if last:
        blocks.sort(key=lambda block: -block.seconds)
    total = left = sum(block.seconds for block in blocks)
    for packed in (False, True):
        for block in blocks:
            if block.packed == packed:
                batch.append(block.key)
                seconds, drawing, left = seconds + block.seconds, drawing + block.drawing, left - block.seconds
                if seconds >= (min(target, max(_SHORTEST, 2.0 * target * left / total)) if last else target):
                    flush(packed)
        flush(packed)
    return tasks


def sampling_seconds(problem: Problem, index: Index, costs: Costs) -> float:
    """Seconds that drawing what is kept and not there yet takes."""
    return sum(block.seconds for block in _blocks_left(problem, index, costs))


class _Block(NamedTuple):
    """A block to draw: law, stage and number; seconds that it takes, of which drawing; whether it goes into a pack."""

    key: Block
    seconds: float
    drawing: float
    packed: bool


def _blocks_left(problem: Problem, index: Index, costs: Costs) -> list[_Block]:
    """Every block that is kept and not there yet, in the pairs' order."""
    missing = []
    order = {law: i for i, law in enumerate(problem.laws)}
    few = len(order) <= 4  # few laws: all training first, so that learning starts early; many: law by law
    for stage in problem.kept_stages:
        packed = is_small(problem, stage)
        for block in range(stage.blocks):
            size = stage.block_size(block)
            drawing = costs.drawing(size, len(stage.block_chunks(block)))
            seconds = drawing + costs.write * size + (_PACKED_SECONDS if packed else _BLOCK_SECONDS)
            left = (law for law in order if stage.name_of(law, block) not in index.samples)
            missing += [_Block((law, stage, block), seconds, drawing, packed) for law in left]

    def place(entry: _Block) -> tuple[int, int, int]:
        law, stage, block = entry.key
        first = int(stage.name != "train")
        return (first, order[law], block) if few else (order[law], first, block)

    return sorted(missing, key=place)


def is_small(problem: Problem, stage: Stage) -> bool:
    """Whether a law's stage is one small block, which lies in a pack, and can be drawn again, as damage costs all of the pack."""
    fits = stage.blocks == 1 and problem.schema.bytes_stored(stage.total) <= _PACKED_BYTES
    return problem.sampler.reproducible and fits


def cut(stage: Stage, gaps: Iterable[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """Spans of at most `length` chunks; a short last chunk is a span of its own, so that more samples keep the rest."""
    full = stage.total // stage.chunk
    for start, stop in gaps:
        edges = [*range(start, stop, length), stop]
        if start < full < stop and full not in edges:
            edges = sorted([*edges, full])
        yield from pairwise(edges)


def batches(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    """So many at a time."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


MANY = 20_000
"""Files from which on a plan warns."""

_OWN = 120  # files and folders of records, leases and root arrays


def count_files(problem: Problem, chunk: int | None = None) -> int:
    """Files and folders of samples that are kept, of databases, and of the store itself; chunk: another one than the study's."""
    e = problem.study.estimate
    stages = [Stage.of(stage.name, stage.total, chunk or e.chunk, problem.schema) for stage in problem.kept_stages]
    small = [stage for stage in stages if is_small(problem, stage)]
    packs = -(-len(problem.laws) * sum(problem.schema.bytes_stored(stage.total) for stage in small) // PACK_BYTES)
    each = 10 if problem.schema.kind == "bytes" else 4  # an array is a description and a shard, and their folders
    blocks = len(problem.laws) * (sum(stage.blocks for stage in stages) - len(small))
    return each * (blocks + packs) + count_databases(problem.databases) + _OWN


def describe_files(problem: Problem) -> str:
    """A warning of too many files, and the chunk size that makes them fewer, if one does; else nothing."""
    files = count_files(problem)
    if files < MANY:
        return ""
    e = problem.study.estimate
    chunk = e.chunk
    while chunk < max(e.train, e.test):
        chunk *= 2
        fewer = count_files(problem, chunk)
        if fewer < MANY:
            return f"TOO MANY, perhaps: about {files:,}; estimate.chunk = {chunk} makes it about {fewer:,}"
    rest = count_databases(problem.databases) + _OWN
    hint = f'; estimate.keep = "none" makes it about {rest:,}' if rest < MANY else ""
    return f"TOO MANY, perhaps: about {files:,}{hint}"
