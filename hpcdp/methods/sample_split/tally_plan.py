"""Refined: pilots, and tallies of fresh draws by cell, from which L̂ is learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from hpcdp.engine.index import Index, first_of, merged_length, without
from hpcdp.engine.sampling import BLOCK_PAIRS, TaskList, batches, cut
from hpcdp.engine.task import Costs, Progress, Work
from hpcdp.store.layout import Layout
from hpcdp.store.stages import Stage
from hpcdp.store.tallies import BOTH, TallySpan
from hpcdp.study.problem import Problem, describe_pairs


@dataclass(frozen=True)
class LearnPilots(Work):
    """Learn and store the pilots of these pairs."""

    does: ClassVar[str] = "hpcdp.methods.sample_split.learning:learn_pilots"
    pairs: tuple[int, ...]

    def split(self) -> Sequence[LearnPilots]:
        return [LearnPilots((number,)) for number in self.pairs]

    def describe(self, problem: Problem) -> str:
        return describe_pairs(problem, self.pairs)


@dataclass(frozen=True)
class Tally(Work):
    """Tally a range of a stage's chunks, of one side or of both, for pairs that share D."""

    does: ClassVar[str] = "hpcdp.methods.sample_split.learning:tally"
    pairs: tuple[int, ...]
    stage: str
    start: int
    stop: int
    sides: tuple[int, ...] = BOTH

    def split(self) -> Sequence[Tally]:
        return [replace(self, pairs=(number,)) for number in self.pairs]

    def describe(self, problem: Problem) -> str:
        only = "" if self.sides == BOTH else f" of {('D', 'D′')[self.sides[0]]}"
        return f"{describe_pairs(problem, self.pairs)}, {self.stage} chunks {self.start} to {self.stop - 1}{only}"

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        return [layout.pilot(problem.pilot_keys[number]) for number in self.pairs]

    def span(self, problem: Problem, number: int) -> TallySpan:
        """What is stored of one of its pairs."""
        stage = problem.stage_of(self.stage, self.pairs[0], self.sides[0])
        samples = sum(stage.chunk_size(chunk) for chunk in range(self.start, self.stop))
        return TallySpan(problem.pilot_keys[number], self.stage, self.start, self.stop, samples, self.sides)


@dataclass(frozen=True)
class TalliesLeft:
    """Ranges of a stage's chunks of some sides left to tally of pairs that share D; pilots: pairs without; seconds a chunk."""

    pairs: tuple[int, ...]
    pilots: tuple[int, ...]
    stage: Stage
    gaps: tuple[tuple[int, int], ...]
    chunk_seconds: float
    drawing: float
    sides: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """To draw and tally all of it."""
        return self.chunk_seconds * len(self.pairs) * sum(stop - start for start, stop in self.gaps)


def tallies_left(problem: Problem, numbers: Sequence[int], index: Index, costs: Costs) -> list[TalliesLeft]:
    """What is left to tally of these pairs, whose stages have the same sizes; pairs of equal laws are one."""
    groups: dict[tuple[str, str, tuple[int, ...], tuple[tuple[int, int], ...]], list[int]] = {}
    seen: set[str] = set()
    stages = {name: [problem.stage_of(name, numbers[0], side) for side in BOTH] for name in ("refine", "validation")}
    for number in numbers:
        key = problem.pilot_keys[number]
        if key in seen:
            continue
        seen.add(key)
        for name, (d, d_prime) in stages.items():
            for sides, gaps in _by_sides(index.untallied(key, d, 0), index.untallied(key, d_prime, 1)):
                left = tuple((gap.start, gap.stop) for gap in gaps)
                if left or (key not in index.pilots and name == "refine" and sides == BOTH):
                    groups.setdefault((problem.pair_laws[number][0], name, sides, left), []).append(number)
    tallies = []
    for (_, name, sides, left), group in groups.items():
        stage = stages[name][sides[0]]
        size = min(stage.chunk, max(1, stage.total))
        drawing = len(sides) * costs.drawing(size, 1)
        seconds = drawing + len(sides) * size * costs.tally
        for batch in batches(group, BLOCK_PAIRS):
            pilots = tuple(n for n in batch if problem.pilot_keys[n] not in index.pilots)
            tallies.append(TalliesLeft(tuple(batch), pilots, stage, left, seconds, drawing, sides))
    return tallies


def _by_sides(d: list[range], d_prime: list[range]) -> list[tuple[tuple[int, ...], list[range]]]:
    """What is left of D and of D', as ranges that both sides lack and those that one lacks."""
    if d == d_prime:
        return [(BOTH, d)]
    only = without(d, d_prime)
    return [(BOTH, without(d, only)), ((0,), only), ((1,), without(d_prime, d))]


def tally_tasks(
    problem: Problem, costs: Costs, tallies: Sequence[TalliesLeft], task_list: TaskList
) -> dict[str, set[str]]:
    """Add the tasks that learn pilots and tally; returns the names of those that a pair's fit needs, by pilot key."""
    pilot_of: dict[int, str] = {}
    needed: dict[str, set[str]] = {}
    train = problem.train
    drawing = 0.0 if train in problem.kept_stages else 2 * costs.drawing(train.total, train.chunks)
    each = 2 * train.total * (costs.learn + costs.read) + drawing
    for left in tallies:
        for batch in batches([n for n in left.pilots if n not in pilot_of], task_list.fit(each)):
            after, size = task_list.drawing((law for n in batch for law in problem.pair_laws[n]), ["train"]), len(batch)
            name = task_list.add("pilot", LearnPilots(tuple(batch)), after, size, each * size, drawing * size)
            for n in batch:
                pilot_of[n] = name
                needed.setdefault(problem.pilot_keys[n], set()).add(name)
    for left in tallies:
        pairs = len(left.pairs)
        after = {pilot_of[n] for n in left.pairs if n in pilot_of}
        for start, stop in cut(left.stage, left.gaps, task_list.fit(left.chunk_seconds * pairs)):
            units, work = (stop - start) * pairs, Tally(left.pairs, left.stage.name, start, stop, left.sides)
            name = task_list.add("tally", work, after, units, left.chunk_seconds * units, left.drawing * units)
            for n in left.pairs:
                needed.setdefault(problem.pilot_keys[n], set()).add(name)
    return needed


def tally_progress(problem: Problem, index: Index) -> list[Progress]:
    """What is learned and tallied before L̂."""
    firsts = first_of(problem.pilot_keys).items()
    pilots = {key: number for key, number in firsts if problem.sizes_of(number).refine}
    lines = [Progress("learn pilots", sum(key in index.pilots for key in pilots), len(pilots), "pairs")]
    for name in ("refine", "validation"):
        left = total = 0
        for key, number in pilots.items():
            stages = [problem.stage_of(name, number, side) for side in BOTH]
            left += merged_length(gap for side in BOTH for gap in index.untallied(key, stages[side], side))
            total += max(stage.chunks for stage in stages)
        lines.append(Progress(f"tally {name}", total - left, total, "chunks"))
    return lines
