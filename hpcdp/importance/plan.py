"""Random tapes: what levels learn of every pair, draws from its proposals, and plain draws that bound the leftover."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_most, duration
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.index import Index, Span, first_of, gaps
from hpcdp.engine.series import Series
from hpcdp.engine.task import Costs
from hpcdp.importance.bounds import leftover_draws, split_level
from hpcdp.importance.training import KEPT_BACK, LOOK
from hpcdp.keys import digest_json
from hpcdp.store.stages import Stage
from hpcdp.study.claims import parse_claim
from hpcdp.study.estimate import Estimate
from hpcdp.study.problem import Problem

CHUNK, FEW = 1 << 16, 1 << 12
LOOKED = 16  # every so many chunks that are counted one is looked at
"""Outputs of a chunk: drawn in one call, and in a call each."""

WEIGHING, PLAIN = 3.0, 1.3  # times what drawing alone costs, about, where a draw is weighed and where it is looked up
_APART = 3.0  # standard errors by which a pair has to be behind another to be left out
PARTS = ("tape", "leftover")
_TAUGHT, _MOST_TAUGHT = 32, 1 << 21  # what the test may take over the draws of the last round, and the most of these


Words = list[tuple[str, str]]

_LOOKED_UP = 2.0e-9  # seconds in which a plain draw's set is looked up
_SHOWN = 4  # pairs whose choices are told


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

    by_rows, flat: how its tapes are drawn (see `hpcdp.importance.generator.Tape`). draws: from the proposals, of each law.
    leftover: plain draws, of the law that is inflated in each direction. bets: by direction. delta, error: training's δ̂ and its
    standard error, by direction and ε. levels: of each cell's bounds, 0 without; in `bounded` directions alone there are any.
    gain: times the draws that plain counting would take for the same standard error (heuristic). needed: plain draws after which
    a certificate keeps most of δ, of each direction. looked: outputs of each law that were seen to depend on their own entries
    of the tape alone, before any were counted. declared: whether forward sets are counted only where the study declares that
    D′ has no output, so that P alone is bounded. state: digest of the learned arrays. unexplained: by direction what
    `hpcdp.importance.training.Direction.unexplained` says, as (column, draws, worth).
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
    unexplained: tuple[tuple[tuple[int, int, float], ...], ...]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Choice:
        """The choice that these are the fields of, as JSON has them."""
        bets = tuple(Bets(**{key: tuple(value) for key, value in entry.items()}) for entry in data["bets"])
        return cls(**{key: _tuples(value) for key, value in data.items()} | {"bets": bets})

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
        return digest_json(["tapes", pair, asdict(self)])

    def total(self, part: str, side: int) -> int:
        """Draws of a law in a part: of D (side 0), or D′."""
        return self.draws if part == "tape" else self.leftover[1 - side]


def _tuples(value: Any) -> Any:
    """Lists as tuples, at all depths."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def tape_keys(problem: Problem) -> list[str]:
    """Key of each pair's proposals, sets and bets, and of the draws that test them."""
    e = problem.study.estimate
    target = None if e.target is None else e.target.model_dump(mode="json")
    head = ["tape", list(e.epsilons), e.certify and list(e.certify), target, e.test, e.confidence]
    more = [len(problem.pair_laws), problem.study.mechanism.impossible]
    return [digest_json([*head, *more, key]) for key in problem.pilot_keys]


def part_key(key: str, part: str, side: int) -> str:
    """Key of the sums of a part of one distribution. key: of the draws that test a pair (`Choice.key`)."""
    return digest_json([key, part, side])


def level_series(problem: Problem, number: int) -> Series:
    """What levels learn of a pair; nothing of it is counted."""
    return Series("level", problem.once(tape_keys)[number], problem.pair_laws[number], Stage("level", 0, 1, 1), number)


def stage_of(problem: Problem, choice: Choice, part: str, side: int) -> Stage:
    """The stage of a part of one law."""
    return Stage.of(part, choice.total(part, side), choice.chunk, problem.schema)


def known_choice(problem: Problem, index: Index, number: int) -> Choice | None:
    """What levels chose of a pair; None while no record says so."""
    facts = index.learned.get(problem.once(tape_keys)[number], {}).get((), {})
    return Choice.from_dict(facts["choice"]) if "choice" in facts else None


@dataclass(frozen=True)
class Part:
    """Chunks of a distribution in a test, from proposals ("tape") or plain ("leftover"); spans: that records hold sums of."""

    name: str
    side: int
    stage: Stage
    key: str
    spans: list[Span]

    @property
    def missing(self) -> list[range]:
        """Chunks that no record holds."""
        return gaps(self.spans, self.stage)

    @property
    def found(self) -> list[dict[str, Any]]:
        """What records say, by chunk, of plain ones by span."""
        return [chunk for span in self.spans for chunk in span["chunks"]]


def parts_of(problem: Problem, index: Index, number: int, choice: Choice) -> list[Part]:
    """The parts of a pair's test that have any draws."""
    key, parts = choice.key(problem.once(tape_keys)[number]), []
    for name, side in product(PARTS, (0, 1)):
        stage = stage_of(problem, choice, name, side)
        if stage.total:
            own = part_key(key, name, side)
            parts.append(Part(name, side, stage, own, index.done(own, (), stage)))
    return parts


def tested_pairs(problem: Problem, index: Index) -> dict[int, Choice] | None:
    """The pairs that get test draws, by training alone (heuristic), of equal ones the first; None while some are not learned."""
    choices = dict[int, Choice]()
    for number in first_of(problem.once(tape_keys)).values():
        choice = known_choice(problem, index, number)
        if choice is None:
            return None
        choices[number] = choice
    sets = [(n, c.delta[d], c.error[d]) for n, c in choices.items() for d in c.bounded]
    wanted = _columns(problem)
    least = [max((delta[j] - _APART * error[j] for _, delta, error in sets), default=-math.inf) for j in wanted]
    kept = {
        n
        for n, delta, error in sets
        if any(delta[j] + _APART * error[j] >= low for j, low in zip(wanted, least, strict=True))
    }
    return {number: choice for number, choice in choices.items() if number in kept}


def _columns(problem: Problem) -> list[int]:
    """The ε for which pairs race: that of the target or of the certificate, where there is one, else all."""
    e = problem.study.estimate
    if e.target is not None and e.target.epsilon is not None:
        return [e.epsilons.index(e.target.epsilon)]
    return [e.epsilons.index(epsilon) for epsilon in e.certify] if e.certify else list(range(len(e.epsilons)))


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


def describe(problem: Problem, index: Index, costs: Costs, workers: int) -> Words:
    """Lines of a plan, each with its name: exact where levels have chosen, else as far as the target tells."""
    numbers = list(first_of(problem.once(tape_keys)).values())
    tested = tested_pairs(problem, index)
    named = problem.study.mechanism.impossible
    lines: Words = (
        [] if named is None else [("declared", f"D′ gives no output of the set {named} (mechanism.impossible)")]
    )
    if tested is None:
        return lines + _before(problem, costs, workers, len(numbers))
    out = len(numbers) - len(tested)
    raced = f", {out:,} left out by training (heuristic)" if out else ""
    lines.append(("levels", f"learned of {_many(len(numbers))}; {_many(len(tested))} tested{raced}"))

    def time(draws: int, calls: int) -> str:
        return f", {_seconds(draws, calls, costs, workers)} {_where(workers)}"

    return lines + chosen_words(problem, index, time)


def chosen_words(problem: Problem, index: Index, time: Callable[[int, int], str] = lambda *_: "") -> Words:
    """What stages that learn chose of the tested pairs, once all are learned; time: words for draws in so many calls."""
    tested = tested_pairs(problem, index) or {}
    lines = [line for number, choice in [*tested.items()][:_SHOWN] for line in _chosen(problem, number, choice, time)]
    return lines + ([("", f"… and {_many(len(tested) - _SHOWN)} more")] if len(tested) > _SHOWN else [])


def how_to_ask(e: Estimate, needed: float) -> str:
    """How a certificate of so many plain draws, which are more than there are, can be had."""
    if e.target is None:
        return ""
    if e.certify:
        return f"; target.most = {e.target.most:.2g} does not allow it"
    epsilon = "ε" if e.target.epsilon is None else f"{e.target.epsilon:g}"
    most = "" if needed <= e.target.most else f" and target.most = {at_most(needed, '.2g')}"
    return f"; a study asks for it by estimate.certify = [{epsilon}]{most}"


def _many(pairs: int) -> str:
    return f"{pairs:,} pair" if pairs == 1 else f"{pairs:,} pairs"


def _before(problem: Problem, costs: Costs, workers: int, pairs: int) -> Words:
    e = problem.study.estimate
    lines: Words = [
        (
            "levels",
            f"rounds of {e.train:,} outputs of both distributions of {_many(pairs)}, which teach the proposals; the last round "
            f"may draw up to {last_of(problem):,} more",
        )
    ]
    if e.target is None:
        lines.append(
            ("proposals", f"{e.test:,} draws of each distribution, from proposals and plain ones for the leftover")
        )
    else:
        wanted = (
            f"as many draws as a standard error of {100 * e.target.relative_error:g} % takes, which the levels tell"
        )
        lines.append(
            (
                "proposals",
                f"{wanted}: at most {e.target.most:,} of each distribution, and plain draws beside them",
            )
        )
    lines.append(("leftover", _certificate(problem, costs, workers, pairs)))
    most = 4.0 * WEIGHING * pairs * (e.test if e.target is None else e.target.most)  # of both laws, and as long again
    draws = f"the draws after the levels would take {_takes(most, costs, workers)}"
    words = draws if e.target is None else f"a limit, no forecast: with all that target.most allows, {draws}"
    lines.append(("at most", words))
    return lines


def _certificate(problem: Problem, costs: Costs, workers: int, pairs: int) -> str:
    """What a certificate of the target takes, as far as it and a claim tell. Heuristic: δ is taken to be so."""
    e = problem.study.estimate
    aim, unasked = _aim(problem), ""
    if e.target is not None and not e.certify:
        unasked = f"at least {LOOK:,} plain draws of each distribution, which take as long as the others; "
    if aim is None:
        return f"{unasked}how many draws a certificate takes is known when the levels have learned δ"
    epsilon, delta, why = aim
    directions = 2 if e.certified_direction is None else 1
    level = float(split_level((1.0 - e.confidence) / (directions * pairs)).leftover)
    needed = leftover_draws(KEPT_BACK * delta, epsilon, level)
    most = e.target.most if e.target is not None else e.test
    named = "target.most" if e.target is not None else "test"
    alone = "" if e.certified_direction is None else f", {e.certified_direction} alone (target.direction)"
    words = f"{why}{alone}, a certificate takes about {needed:.2g} plain draws without a hit, {_takes(needed, costs, workers)}"
    if unasked:
        return f"{unasked}{words}{how_to_ask(e, needed)}"
    if needed > most:
        return f"{words}; {named} = {most:.2g} does not allow it: estimate, and what is certified up to the leftover, can be had"
    return f"{words}; {named} = {most:.2g} allows it; no plain draw is needed if all importance weights stay below their cut-offs"


def _aim(problem: Problem) -> tuple[float, float, str] | None:
    """ε, δ and how it is known: of the target, else of the claim there."""
    study, e = problem.study, problem.study.estimate
    target = e.target
    epsilon = e.epsilons[-1] if not e.certify else max(e.certify)
    if target is not None and target.epsilon is not None:
        epsilon = target.epsilon
    if study.study.claim is not None:
        claim = parse_claim(study.study.claim, study.folder)
        curve = np.asarray(claim.implied(np.asarray(e.epsilons)))
        if target is not None and target.delta is not None:
            enough = np.flatnonzero(curve >= target.delta)
            epsilon = float(e.epsilons[int(enough[-1])]) if enough.size else epsilon
        delta = float(np.asarray(claim.implied(np.array([epsilon])))[0])
        if delta > 0.0:
            return epsilon, delta, f"if {claim.text} is exact, δ = {delta:.2g} at ε = {epsilon:g}"
    if target is not None and target.delta is not None:
        return epsilon, target.delta, f"where δ = {target.delta:g} at ε ≤ {epsilon:g}"
    return None


def _seconds(draws: float, calls: float, costs: Costs, workers: int) -> str:
    """How long plain draws in so many calls take."""
    return duration((costs.draw * draws + costs.call * calls + _LOOKED_UP * draws) / workers)


def _where(workers: int) -> str:
    return "in one process" if workers == 1 else f"on {workers} workers"


def _takes(draws: float, costs: Costs, workers: int) -> str:
    """How long plain draws take, if all rows are drawn in one call."""
    words = f"{_seconds(draws, 0, costs, workers)} {_where(workers)}"
    if not costs.call:  # one output a call is all there is, or costs nothing besides
        return words
    return f"{words}, or {_seconds(draws, draws, costs, workers)} if each output needs a call of its own"


def _chosen(problem: Problem, number: int, choice: Choice, time: Callable[[int, int], str]) -> Words:
    """Of a learned pair: how many draws there are, and what a certificate would take."""
    how = "many outputs a call" if choice.by_rows else "one output a call"
    gain = f"about {choice.gain:.2g} times fewer than without proposals"
    if choice.gain <= 1.0:
        gain = "proposals would gain nothing: plain draws are counted"
    lines: Words = [
        ("proposals", f"pair {number}: {choice.draws:,} draws of each distribution, {how}; {gain} (heuristic)")
    ]
    for direction in (0, 1):
        words = _leftover_words(problem.study.estimate, choice, direction, time)
        lines.append(("leftover", f"pair {number}, {DIRECTIONS[direction]}: {words}"))
    return lines


def _leftover_words(e: Estimate, choice: Choice, direction: int, time: Callable[[int, int], str]) -> str:
    draws, needed = choice.leftover[direction], choice.needed[direction]
    if choice.declared and direction == 0:
        return "none: of sets that D′ cannot enter, as is declared"
    if direction not in choice.bounded:
        return "none: no bounds, as target.direction is the other one"
    if not draws:
        return "none: no weight is above the cut-offs"

    def takes(count: int) -> str:
        return time(count, math.ceil(count / choice.chunk) if choice.by_rows else count)

    words = f"{draws:,} plain draws of {('D′', 'D')[direction]}{takes(draws)}"
    if needed < 0.0:
        return f"{words}; training could not tell how many a certificate takes"
    if needed <= draws:
        return f"{words}: enough that the leftover costs at most a third of δ, if none hits"
    words += f"; a certificate that keeps most of δ takes about {at_most(needed, '.2g')}"
    return f"{words}{takes(math.ceil(needed))}{how_to_ask(e, needed)}"
