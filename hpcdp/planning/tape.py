"""Random tapes: what levels learn of every pair, draws from its proposals, and plain draws that bound the leftover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from hpcdp.keys import digest_json
from hpcdp.planning import counted
from hpcdp.planning.costs import Costs
from hpcdp.planning.counted import worst_errors  # noqa: F401  # a part of this way
from hpcdp.planning.index import Index, TapeSpan, first_of
from hpcdp.planning.sampling import batches, cut, task_seconds
from hpcdp.planning.spans import disjoint, gaps
from hpcdp.planning.task import Amounts, Progress, Task, Work
from hpcdp.store.layout import Layout
from hpcdp.store.stages import Stage
from hpcdp.study.estimate import FEWEST_TAPE
from hpcdp.study.problem import Problem, describe_pairs

CHUNK, FEW = 1 << 16, FEWEST_TAPE
LOOKED = 16  # every so many chunks that are counted one is looked at
"""Outputs of a chunk: drawn in one call, and in a call each."""

_LEVELS = 12  # rounds of draws that learning takes, about
WEIGHING, PLAIN = 3.0, 1.3  # times what drawing alone costs, about, where a draw is weighed and where it is looked up
_APART = 3.0  # standard errors by which a pair has to be behind another to be left out
PARTS = ("tape", "leftover")
_TAUGHT, _MOST_TAUGHT = 32, 1 << 21  # what the test may take over the draws of the last round, and the most of these


@dataclass(frozen=True)
class Bets:
    """Of one direction's cells with a bound of their own: columns of ε, rates λ and κ, cut-offs M, whether any is left over."""

    columns: tuple[int, ...]
    rates: tuple[float, ...]
    kappas: tuple[float, ...]
    cutoffs: tuple[float, ...]
    beyond: tuple[bool, ...]


@dataclass(frozen=True)
class Choice:
    """What levels chose of a pair, before any test draw.

    by_rows, flat: how its tapes are drawn (see `hpcdp.mechanisms.tape.generator.Tape`). draws: from the proposals, of each law.
    leftover: plain draws, of the law that is inflated in each direction. bets: by direction. delta, error: training's δ̂ and its
    standard error, by direction and ε. levels: of each cell's bounds, 0 without; in `bounded` directions alone there are any.
    gain: times the draws that plain counting would take for the same standard error (heuristic). needed: plain draws after which
    a certificate keeps most of δ, of each direction. looked: outputs of each law that were seen to depend on their own entries
    of the tape alone, before any were counted. declared: whether forward sets are counted only where the study declares that
    D′ has no output, so that P alone is bounded. state: digest of the learned arrays. unexplained: by direction what
    `hpcdp.notions.tape.Direction.unexplained` says, as (column, draws, worth).
    """

    by_rows: bool
    flat: str
    looked: int
    draws: int
    leftover: tuple[int, int]
    bets: tuple[Bets, Bets]
    levels: tuple[tuple[float, ...], tuple[float, ...]]
    delta: tuple[tuple[float, ...], tuple[float, ...]]
    error: tuple[tuple[float, ...], tuple[float, ...]]
    gain: float
    needed: tuple[float, float]
    declared: bool
    state: str
    unexplained: tuple[tuple[tuple[int, int, float], ...], ...] = ((), ())

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; `unexplained` where there is any, which leaves the keys of all other draws as they were."""
        found = asdict(self)
        return found if any(self.unexplained) else {name: v for name, v in found.items() if name != "unexplained"}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Choice:
        """The choice that `to_dict` came from."""

        def rows(name: str) -> Any:
            return tuple(tuple(row) for row in data[name])

        bets = tuple(Bets(**{key: tuple(value) for key, value in one.items()}) for one in data["bets"])
        plain = {key: data[key] for key in ("by_rows", "flat", "looked", "draws", "gain", "declared", "state")}
        pairs = {key: tuple(data[key]) for key in ("leftover", "needed")}
        pairs["unexplained"] = tuple(tuple(map(tuple, one)) for one in data.get("unexplained", ((), ())))
        return cls(**plain, **pairs, bets=bets, **{key: rows(key) for key in ("levels", "delta", "error")})  # type: ignore[arg-type]

    @property
    def bounded(self) -> list[int]:
        """The directions whose cells have bounds of their own."""
        return [direction for direction in (0, 1) if any(self.levels[direction])]

    @property
    def chunk(self) -> int:
        """Outputs of a chunk."""
        return CHUNK if self.by_rows else FEW

    @property
    def seen(self) -> int:
        """The same with counted ones: of every `LOOKED`-th chunk from proposals half of the outputs."""
        return self.looked + -(-self.draws // (LOOKED * self.chunk)) * (self.chunk // 2)

    def key(self, pair: str) -> str:
        """Key of the draws that test it, of a pair's key: of another choice they would test another set."""
        return digest_json(["tapes", pair, self.to_dict()])

    def total(self, part: str, side: int) -> int:
        """Draws of a law in a part: of D (side 0), or D′."""
        return self.draws if part == "tape" else self.leftover[1 - side]


@dataclass(frozen=True)
class LearnTape(Work):
    """Learn proposals, sets and bets of these pairs."""

    kind: ClassVar[str] = "level"
    pairs: tuple[int, ...]

    def split(self) -> Sequence[LearnTape]:
        return [LearnTape((number,)) for number in self.pairs]

    def describe(self, problem: Problem) -> str:
        return describe_pairs(problem, self.pairs)

    @staticmethod
    def name(problem: Problem, number: int) -> str:
        """Of the record of a pair."""
        return digest_json(["level", problem.tape_keys[number]])


@dataclass(frozen=True)
class DrawTape(Work):
    """Draw a span of chunks of one law of a pair, and record its sums: of draws from proposals, or of the leftover.

    key: of what was learned (`Choice.key`). choice: what that chose.
    """

    kind: ClassVar[str] = "tape"
    pair: int
    part: str
    side: int
    start: int
    stop: int
    key: str
    choice: Choice = field(compare=False, repr=False)

    def split(self) -> Sequence[DrawTape]:
        return (
            [self]
            if self.stop - self.start == 1
            else [replace(self, start=n, stop=n + 1) for n in range(self.start, self.stop)]
        )

    def describe(self, problem: Problem) -> str:
        law = problem.describe_law(problem.pair_laws[self.pair][self.side])
        return f"{describe_pairs(problem, [self.pair])}, {self.part} chunks {self.start} to {self.stop - 1} of {law}"

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        return [layout.pilot(problem.tape_keys[self.pair])]

    @property
    def name(self) -> str:
        """Of its record."""
        return digest_json([self.part, self.side, self.start, self.stop, self.key])


def stage_of(problem: Problem, choice: Choice, part: str, side: int) -> Stage:
    """The stage of a part of one law."""
    return Stage.of(part, choice.total(part, side), choice.chunk, problem.schema)


def known_choice(problem: Problem, index: Index, number: int) -> Choice | None:
    """What levels chose of a pair; None while no record says so."""
    found = index.choices.get(problem.tape_keys[number])
    return None if found is None else Choice.from_dict(found)


def spans_of(problem: Problem, index: Index, number: int, choice: Choice, part: str, side: int) -> list[TapeSpan]:
    """Disjoint spans of a law's chunks in a part that records hold."""
    known = index.tapes.get((choice.key(problem.tape_keys[number]), part, side), [])
    return disjoint(known, stage_of(problem, choice, part, side))


def _missing(problem: Problem, index: Index, number: int, choice: Choice) -> list[tuple[str, int, list[range]]]:
    found = []
    for part in PARTS:
        for side in (0, 1):
            stage = stage_of(problem, choice, part, side)
            if stage.total:
                found.append((part, side, gaps(spans_of(problem, index, number, choice, part, side), stage)))
    return found


def tested_pairs(problem: Problem, index: Index) -> list[int] | None:
    """The pairs that get test draws, of equal ones the first; None while some pair is not learned.

    Training alone decides: all those that may hold the largest δ̂ at some ε, by three standard errors of both, in a direction
    that has bounds of its own (heuristic).
    """
    numbers = list(first_of(problem.tape_keys).values())
    choices = {number: known_choice(problem, index, number) for number in numbers}
    if any(choice is None for choice in choices.values()):
        return None
    sets = [(n, c.delta[d], c.error[d]) for n, c in choices.items() if c is not None for d in c.bounded]
    wanted = _columns(problem)
    least = [max((delta[j] - _APART * error[j] for _, delta, error in sets), default=-math.inf) for j in wanted]
    kept = {
        n
        for n, delta, error in sets
        if any(delta[j] + _APART * error[j] >= low for j, low in zip(wanted, least, strict=True))
    }
    return [number for number in numbers if number in kept]


def _columns(problem: Problem) -> list[int]:
    """The ε for which pairs race: that of the target or of the certificate, where there is one, else all."""
    e = problem.study.estimate
    if e.target is not None and e.target.epsilon is not None:
        return [e.epsilons.index(e.target.epsilon)]
    return [e.epsilons.index(epsilon) for epsilon in e.certify] if e.certify else list(range(len(e.epsilons)))


def tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left: those that learn, and, once all pairs are learned, those that draw."""
    unlearned = [n for n in first_of(problem.tape_keys).values() if known_choice(problem, index, n) is None]
    e = problem.study.estimate
    last = last_of(problem)
    drawing = _LEVELS * costs.drawing(e.train, -(-e.train // CHUNK)) + costs.drawing(last, -(-last // CHUNK))
    learn = 2.0 * WEIGHING * drawing + 1.0
    target = task_seconds(learn * len(unlearned), workers)
    found: list[Task] = []
    for some in batches(unlearned, max(1, int(target / max(1e-9, learn)))):
        found.append(
            Task(f"level-{len(found)}", LearnTape(tuple(some)), (), len(some), learn * len(some), learn * len(some))
        )
    left = []
    for number in (tested_pairs(problem, index) or []) if not unlearned else []:
        choice = known_choice(problem, index, number)
        assert choice is not None
        chunk = costs.drawing(choice.chunk, 1 if choice.by_rows else choice.chunk)
        for part, side, missing in _missing(problem, index, number, choice):
            each = chunk * (WEIGHING if part == "tape" else PLAIN)
            left.append((number, choice, part, side, missing, each))
    target = task_seconds(sum(each * sum(map(len, missing)) for *_, missing, each in left), workers)
    for number, choice, part, side, missing, each in left:
        span = max(1, int(target / max(1e-9, each)))
        stage = stage_of(problem, choice, part, side)
        for start, stop in cut(stage, [(gap.start, gap.stop) for gap in missing], span):
            seconds = each * (stop - start)
            work = DrawTape(number, part, side, start, stop, choice.key(problem.tape_keys[number]), choice)
            found.append(Task(f"{part}-{len(found)}", work, (), stop - start, seconds, seconds))
    return found


def is_done(problem: Problem, index: Index) -> bool:
    """Whether all pairs are learned, and all that is to be tested was."""
    numbers = tested_pairs(problem, index)
    if numbers is None:
        return False
    choices = ((number, known_choice(problem, index, number)) for number in numbers)
    return all(c is not None and not any(missing for *_, missing in _missing(problem, index, n, c)) for n, c in choices)


def progress(problem: Problem, index: Index) -> list[Progress]:
    """What is learned and drawn."""
    numbers = list(first_of(problem.tape_keys).values())
    learned = sum(known_choice(problem, index, number) is not None for number in numbers)
    lines = [Progress("learn levels", learned, len(numbers), "pairs")]
    tested = tested_pairs(problem, index) or []
    for part, words in zip(PARTS, ("draw from proposals", "draw the leftover"), strict=True):
        done = total = 0
        for number in tested:
            choice = known_choice(problem, index, number)
            assert choice is not None
            for name, side, missing in _missing(problem, index, number, choice):
                if name == part:
                    chunks = stage_of(problem, choice, part, side).chunks
                    done, total = done + chunks - sum(map(len, missing)), total + chunks
        lines.append(Progress(words, done, total, "chunks"))
    return lines


def few_of(problem: Problem) -> int:
    """Outputs of the sequences that are looked at one output a call: so many that the looks take at most `train` calls."""
    bits = 6
    while 2 << bits <= FEW and 2 * (2 * bits + 3) * (2 << bits) <= problem.study.estimate.train:
        bits += 1
    return 1 << bits


def last_of(problem: Problem) -> int:
    """Draws of each law of the last round of training at least where chains are tried: a part of what the test may take."""
    e = problem.study.estimate
    return e.test // _TAUGHT if e.target is None else min(_MOST_TAUGHT, e.target.most // _TAUGHT)


def amounts(problem: Problem) -> Amounts:
    """What is known before levels have chosen: the draws that learning takes, and those of `test`."""
    e = problem.study.estimate
    learning = (_LEVELS * e.train + last_of(problem)) * len(problem.laws)  # the last round, should chains be tried
    draws = learning + (0 if e.target is not None else 2 * e.test * len(problem.pairs))
    return Amounts(draws, -(-draws // CHUNK), counted.memory(problem), e.train)
