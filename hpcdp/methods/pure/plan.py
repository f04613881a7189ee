"""Pure ε: what training chooses of every pair, and the fresh samples of the pairs that are tested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index, Span, first_of
from hpcdp.engine.sampling import TaskList, batches, cut
from hpcdp.engine.task import Amounts, Progress, Task, Work
from hpcdp.keys import digest_json
from hpcdp.losses.local import Peak
from hpcdp.methods.sample_split import plan as counted
from hpcdp.methods.sample_split.plan import worst_errors  # noqa: F401  # a part of this way
from hpcdp.notions.region import Region
from hpcdp.study.problem import Problem, describe_pairs

_PRUDENCE = 3.0  # standard errors by which a pair's ε̂ has to be ahead


@dataclass(frozen=True)
class Choice:
    """What training chose of a pair: the better of both directions' sets, and where the loss is largest, if that is estimated."""

    region: Region
    peak: Peak | None

    @property
    def score(self) -> float:
        """What ranks pairs: the limit that the set promises, or ε̂ less three standard errors, whichever is larger (heuristic)."""
        if self.peak is None:
            return self.region.promised
        return max(self.region.promised, abs(self.peak.loss) - _PRUDENCE * self.peak.error)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        region = [
            self.region.direction,
            *(v if math.isfinite(v) else None for v in (self.region.above, self.region.promised)),
        ]
        return {"region": region, "peak": None if self.peak is None else list(vars(self.peak).values())}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Choice:
        """The choice that `to_dict` came from."""
        direction, above, promised = data["region"]
        region = Region(int(direction), float(above), -math.inf if promised is None else float(promised))
        if data["peak"] is None:
            return cls(region, None)
        loss, at, error, bandwidths = data["peak"]
        return cls(region, Peak(float(loss), at, float(error), tuple(map(float, bandwidths))))


@dataclass(frozen=True)
class Choose(Work):
    """Learn these pairs from their training samples, and choose what is tested of each."""

    kind: ClassVar[str] = "choose"
    does: ClassVar[str] = "hpcdp.methods.pure.work:choose"
    pairs: tuple[int, ...]

    def split(self) -> Sequence[Choose]:
        return [Choose((number,)) for number in self.pairs]

    def describe(self, problem: Problem) -> str:
        return describe_pairs(problem, self.pairs)

    def name(self, problem: Problem, pairs: Sequence[int]) -> str:
        """Of the record of these of its pairs."""
        return digest_json(["choose", [problem.pure_keys[number] for number in pairs]])


@dataclass(frozen=True)
class TestRegion(Work):
    """Count a range of test chunks of one pair: outputs in its set, and weights at the outputs named beforehand."""

    kind: ClassVar[str] = "region"
    does: ClassVar[str] = "hpcdp.methods.pure.work:test_region"
    pair: int
    start: int
    stop: int
    choice: Choice

    def split(self) -> Sequence[TestRegion]:
        return [self]

    def describe(self, problem: Problem) -> str:
        return f"{describe_pairs(problem, [self.pair])}, test chunks {self.start} to {self.stop - 1}"

    def name(self, problem: Problem) -> str:
        """Of its record."""
        return digest_json(["region", self.start, self.stop, problem.pure_keys[self.pair]])


def known_choice(problem: Problem, index: Index, number: int) -> Choice | None:
    """What training chose of a pair; None while no record says so."""
    found = index.choices.get(problem.pure_keys[number])
    return None if found is None else Choice.from_dict(found)


def tested_pairs(problem: Problem, index: Index) -> list[int] | None:
    """The pairs that get fresh samples, of equal ones the first; None while some pair has no choice yet.

    Training alone decides: the winner is the pair with the highest score, of equal ones the first.
    """
    pure = problem.study.pure
    assert pure is not None
    numbers = list(first_of(problem.pure_keys).values())
    choices = {number: known_choice(problem, index, number) for number in numbers}
    scores = {number: choice.score for number, choice in choices.items() if choice is not None}
    if len(scores) < len(numbers):
        return None
    return numbers if pure.test == "all" else [max(scores, key=lambda number: (scores[number], -number))]


def spans_of(problem: Problem, index: Index, number: int, choice: Choice) -> list[Span]:
    """Disjoint spans of a pair's counts, as they lie in the test stage."""
    return index.done(problem.pure_keys[number], (choice.region.threshold,), problem.test)


def _missing(problem: Problem, index: Index, number: int, choice: Choice) -> list[range]:
    return index.missing(problem.pure_keys[number], (choice.region.threshold,), problem.test)


def tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left: those that choose, and, once all pairs are chosen of, those that test."""
    unchosen = [n for n in first_of(problem.pure_keys).values() if known_choice(problem, index, n) is None]
    learn, chunk = counted.pair_seconds(problem, costs)
    train_drawing, test_drawing = counted.pair_drawing(problem, costs)
    learn = 2.0 * learn + costs.each  # what is learned is counted once on the outputs that taught it
    found = TaskList(problem, index, costs, learn * len(unchosen), workers)
    if problem.study.counts_levels:
        found.tasks = counted.tasks(problem, index, costs, workers) or found.tasks

    def after(numbers: Sequence[int]) -> set[str]:
        return found.drawing(law for number in numbers for law in problem.pair_laws[number])

    for some in batches(unchosen, found.fit(learn)):
        size = len(some)
        found.add("choose", Choose(tuple(some)), after(some), size, learn * size, train_drawing * size)
    for number in (tested_pairs(problem, index) or []) if not unchosen else []:
        choice = known_choice(problem, index, number)
        assert choice is not None
        left = _missing(problem, index, number, choice)
        span = max(1, int(max(found.target, learn) / max(1e-9, chunk)))
        for start, stop in cut(problem.test, [(gap.start, gap.stop) for gap in left], span):
            seconds, drawing = learn + chunk * (stop - start), train_drawing + test_drawing * (stop - start)
            work = TestRegion(number, start, stop, choice)
            found.add("region", work, after([number]), stop - start, seconds, drawing)
    return found.tasks


def is_done(problem: Problem, index: Index) -> bool:
    """Whether training chose of every pair, and all that is to be tested was."""
    numbers = tested_pairs(problem, index)
    if numbers is None or (problem.study.counts_levels and not counted.is_done(problem, index)):
        return False
    choices = ((number, known_choice(problem, index, number)) for number in numbers)
    return all(choice is not None and not _missing(problem, index, number, choice) for number, choice in choices)


def progress(problem: Problem, index: Index) -> list[Progress]:
    """What is chosen and tested."""
    pure = problem.study.pure
    assert pure is not None
    numbers = list(first_of(problem.pure_keys).values())
    chosen = sum(known_choice(problem, index, number) is not None for number in numbers)
    lines = counted.progress(problem, index) if problem.study.counts_levels else []
    lines.append(Progress("choose", chosen, len(numbers), "pairs"))
    tested = tested_pairs(problem, index)
    total = problem.test.chunks * (len(numbers) if pure.test == "all" else 1)
    left = total
    if tested is not None:
        choices = ((number, known_choice(problem, index, number)) for number in tested)
        left = sum(
            len(gap) for n, choice in choices if choice is not None for gap in _missing(problem, index, n, choice)
        )
    return [*lines, Progress("test regions", total - left, total, "chunks")]


def amounts(problem: Problem) -> Amounts:
    """What the whole of it takes."""
    pure, e = problem.study.pure, problem.study.estimate
    assert pure is not None
    if pure.test == "all":
        found = counted.amounts(problem)
        return replace(found, points=0)
    laws = len(problem.laws)
    calls = laws * problem.train.chunks + 2 * problem.test.chunks
    return Amounts(laws * e.train + 2 * e.test, calls, counted.memory(problem), e.train)
