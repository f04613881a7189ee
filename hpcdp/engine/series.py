"""What methods learn and count: series of sums over the chunks of a stage; and the tasks that do so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hpcdp.engine.index import Columns, Index, merged_length
from hpcdp.engine.sampling import BLOCK_PAIRS, TaskList, batches, cut
from hpcdp.engine.task import Progress, Work
from hpcdp.keys import digest_json
from hpcdp.store.layout import Layout
from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem, Sizes

_LONG_LEARNING = 2.0  # seconds after which what is learned is stored, whoever counts with it

Gaps = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Series:
    """Sums that are counted for themselves, chunk by chunk, in any order.

    kind: of the tasks that count it, in the plan's words; a method tells its series apart by it. key, columns: of its sums in
    records, and of what is learned for them. laws: whose samples it needs, those with the same first one are counted together.
    stage: whose chunks, of the first law. pair: its number, where it is of one. item: what the method has to know besides.
    """

    kind: str
    key: str
    laws: tuple[str, ...] = field(compare=False)
    stage: Stage = field(compare=False)
    pair: int = field(default=-1, compare=False)
    columns: Columns = ()
    item: Any = field(default=None, compare=False)

    def samples(self, chunks: range) -> int:
        """Samples of the first law in these chunks."""
        return sum(self.stage.chunk_size(chunk) for chunk in chunks)


class Effort(NamedTuple):
    """Seconds to count a chunk, and to learn before the first one of a task; of both those that drawing takes."""

    chunk: float
    drawing: float = 0.0
    learn: float = 0.0
    learn_drawing: float = 0.0


@dataclass(frozen=True)
class Phase:
    """Series that take equally long.

    learned, counted: what is done, as `hpcdp status` says it; "": learning leaves nothing that others need, or nothing is
    counted. unit: of what is counted. is_apart: whether learning is always a task of its own. keeps: whether its state may be
    stored for several tasks. reads: the stages whose samples are read, None: the series' own, chunk by chunk. by_chunk: whether
    chunks fail for themselves, as they need no learning before. sizes: of a study with a target, what the run has decided of
    these series.
    """

    series: Sequence[Series]
    learned: str = ""
    counted: str = ""
    unit: str = "chunks"
    is_apart: bool = False
    keeps: bool = True
    reads: tuple[str, ...] | None = None
    by_chunk: bool = False
    sizes: Sizes | None = None

    def left(self, index: Index) -> list[tuple[Series, Gaps]]:
        """The series that have chunks left to count, or something left to learn; the chunks."""
        unfinished = []
        for series in self.series:
            gaps = tuple((gap.start, gap.stop) for gap in index.missing(series.key, series.columns, series.stage))
            if gaps or (self.learned and not index.is_learned(series.key, series.columns)):
                unfinished.append((series, gaps))
        return unfinished

    def progress(self, index: Index) -> list[Progress]:
        """How far learning and counting are; sums of one key at several columns are one."""
        by_key: dict[str, list[Series]] = {}
        for series in self.series:
            by_key.setdefault(series.key, []).append(series)
        lines = []
        if self.learned:
            done = sum(all(index.is_learned(key, s.columns) for s in group) for key, group in by_key.items())
            lines.append(Progress(self.learned, done, len(by_key), "pairs"))
        if self.counted:
            total = sum(group[0].stage.chunks for group in by_key.values())
            left = sum(
                merged_length(gap for series in group for gap in index.missing(key, series.columns, series.stage))
                for key, group in by_key.items()
            )
            lines.append(Progress(self.counted, total - left, total, self.unit))
        return lines


@dataclass(frozen=True)
class Learn(Work):
    """Learn series, in a task of its own because several count with them, or others wait for what it shows."""

    does: ClassVar[str] = "hpcdp.engine.tasks:learn"
    series: tuple[Series, ...]
    keeps: bool = True

    def split(self) -> Sequence[Learn]:
        return [replace(self, series=(series,)) for series in self.series]

    def describe(self, problem: Problem) -> str:
        words: str = problem.method.describe_series(problem, self.series)
        return words

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        return _files(self.series, problem, layout)


@dataclass(frozen=True)
class Count(Work):
    """Count a range of chunks of series that share their first law. by_chunk: whether parts of one series are its chunks."""

    does: ClassVar[str] = "hpcdp.engine.tasks:count"
    series: tuple[Series, ...]
    start: int
    stop: int
    by_chunk: bool = False

    def split(self) -> Sequence[Count]:
        if len(self.series) > 1 or not self.by_chunk:
            return [replace(self, series=(series,)) for series in self.series]
        return [replace(self, start=chunk, stop=chunk + 1) for chunk in range(self.start, self.stop)]

    def describe(self, problem: Problem) -> str:
        first, words = self.series[0], problem.method.describe_series(problem, self.series)
        which = f", {first.stage.name} chunks {self.start} to {self.stop - 1}"
        return f"{words}{which}" if first.stage.chunks > 1 else words

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        return _files(self.series, problem, layout)


def _files(group: Sequence[Series], problem: Problem, layout: Layout) -> Iterator[Path]:
    """Files of the store with what was learned, under the columns or for all, and what it was learned from."""
    for series in group:
        yield from (layout.counter(series.key, series.columns), layout.counter(series.key, ()))
        yield from problem.method.files(problem, layout, series)


def record_name(what: str, group: Sequence[Series], chunks: range = range(0)) -> str:
    """The name of a record: of what was learned, or counted in these chunks."""
    first, keys = group[0], [series.key for series in group]
    return digest_json([what, chunks.start, chunks.stop, first.samples(chunks), list(first.columns), keys])


@dataclass
class Planner:
    """Adds the tasks of phases to a list. after: names of the tasks that come before learning, by series' key."""

    tasks: TaskList
    index: Index
    after: Mapping[str, set[str]] = field(default_factory=dict)

    def add(self, phase: Phase, effort: Effort, left: Sequence[tuple[Series, Gaps]]) -> None:
        """The tasks of what is left of a phase: those that learn for several, then those that count."""
        learned = self._add_learning(phase, effort, left)
        for group, start, stop in self._counting(effort, left):
            chunks = range(start, stop)
            unlearned = [series for series in group if (series.key, series.columns) not in learned]
            after = {learned[s.key, s.columns] for s in group if (s.key, s.columns) in learned}
            after |= self._samples(phase, group, chunks) | self._before_learning(unlearned)
            units = len(chunks) * len(group)
            seconds = effort.chunk * units + effort.learn * len(unlearned)
            drawing = effort.drawing * units + effort.learn_drawing * len(unlearned)
            work = Count(tuple(group), start, stop, phase.by_chunk)
            self.tasks.add(group[0].kind, work, after, units, seconds, drawing, phase.sizes)

    def _samples(self, phase: Phase, group: Sequence[Series], chunks: range) -> set[str]:
        """The tasks that draw what these series count."""
        laws, stage = (law for series in group for law in series.laws), group[0].stage
        if phase.reads is not None:
            return self.tasks.drawing(laws, phase.reads)
        blocks = range(stage.block_of(chunks.start), stage.block_of(chunks.stop - 1) + 1)
        return self.tasks.drawing(laws, [stage.name], blocks)

    def _before_learning(self, group: Sequence[Series]) -> set[str]:
        """The tasks that draw what these series learn from, and those that the method named."""
        named = {name for series in group for name in self.after.get(series.key, ())}
        return named | self.tasks.drawing((law for series in group for law in series.laws), ["train"])

    def _add_learning(
        self, phase: Phase, effort: Effort, left: Sequence[tuple[Series, Gaps]]
    ) -> dict[tuple[str, Columns], str]:
        """The tasks that only learn; their names by key and columns."""
        groups: dict[Columns, list[Series]] = {}
        for series, gaps in left:
            is_learned = not phase.learned or self.index.is_learned(series.key, series.columns)
            if phase.keeps and effort.learn:
                chunks = sum(stop - start for start, stop in gaps)
                is_shared = phase.is_apart or _is_split(effort, chunks, self.tasks.target)
                is_missing = is_shared and not self.index.is_stored(series.key, series.columns)
                is_wanted = is_missing or not (gaps or is_learned)
            else:
                is_wanted = not is_learned
            if is_wanted:
                groups.setdefault(series.columns, []).append(series)
        names: dict[tuple[str, Columns], str] = {}
        for unlearned in groups.values():
            for group in batches(unlearned, self.tasks.fit(effort.learn)):
                size, work = len(group), Learn(tuple(group), phase.keeps)
                seconds, drawing = effort.learn * size, effort.learn_drawing * size
                kind = "fit" if phase.counted else group[0].kind
                name = self.tasks.add(kind, work, self._before_learning(group), size, seconds, drawing, phase.sizes)
                names.update(dict.fromkeys(((series.key, series.columns) for series in group), name))
        return names

    def _counting(self, effort: Effort, left: Sequence[tuple[Series, Gaps]]) -> Iterator[tuple[list[Series], int, int]]:
        """Series, first and last chunk of each task that counts."""
        groups: dict[tuple[Columns, Gaps, Stage], dict[str, list[Series]]] = {}
        for series, gaps in left:
            if gaps:
                alike = groups.setdefault((series.columns, gaps, series.stage), {})
                alike.setdefault(series.laws[0], []).append(series)
        for (_, gaps, stage), sharing in groups.items():  # series that share their first law, one after another
            chunks = sum(stop - start for start, stop in gaps)
            each, length = effort.learn + effort.chunk * chunks, stage.chunks
            is_split = _is_split(effort, chunks, self.tasks.target)
            if is_split:
                parts = [part for own in sharing.values() for part in batches(own, BLOCK_PAIRS)]
            else:
                parts = list(batches(list(chain.from_iterable(sharing.values())), self.tasks.fit(each)))
            for part in parts:
                if is_split:
                    length = max(1, int(self.tasks.target / (effort.chunk * len(part))))
                    length = -(-chunks // -(-chunks // length))  # as many tasks, of one length: workers end together
                for start, stop in cut(stage, gaps, length):
                    yield part, start, stop


def _is_split(effort: Effort, chunks: int, target: float) -> bool:
    """Whether a series' counting goes into several tasks, after learning that all of them use."""
    return chunks > 1 and (effort.learn > _LONG_LEARNING or effort.learn + effort.chunk * chunks > 2 * target)


def seconds_left(effort: Effort, left: Sequence[tuple[Series, Gaps]]) -> float:
    """Seconds that all of it takes in one process."""
    return sum(effort.learn + effort.chunk * sum(stop - start for start, stop in gaps) for _, gaps in left)
