"""What a plan says of a random tape: levels, draws from proposals, plain draws for the leftover, and what a certificate takes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hpcdp._base.rounding import at_most, duration
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.notions.weighted import leftover_draws, split_level
from hpcdp.planning.costs import Costs
from hpcdp.planning.index import Index, first_of
from hpcdp.planning.tape import PARTS, WEIGHING, Choice, known_choice, last_of, tested_pairs
from hpcdp.study.claims import parse_claim
from hpcdp.study.estimate import Estimate
from hpcdp.study.problem import Problem

Words = list[tuple[str, str]]

_LOOKED_UP = 2.0e-9  # seconds in which a plain draw's set is looked up
_SHOWN = 4  # pairs whose choices are told


def describe_tape(problem: Problem, index: Index, costs: Costs, workers: int) -> Words:
    """Lines of a plan, each with its name: exact where levels have chosen, else as far as the target tells."""
    numbers = list(first_of(problem.tape_keys).values())
    tested = tested_pairs(problem, index)
    named = problem.study.mechanism.impossible
    lines: Words = (
        [] if named is None else [("declared", f"D′ gives no output of the set {named} (mechanism.impossible)")]
    )
    if tested is None:
        return lines + _before(problem, costs, workers, len(numbers))
    words = f"learned of {_many(len(numbers))}; {_many(len(tested))} tested{_raced(numbers, tested)}"
    lines.append(("levels", words))
    return lines + chosen_words(problem, index, lambda draws, calls: f", {_time(draws, calls, costs, workers)}")


def chosen_words(problem: Problem, index: Index, time: Callable[[int, int], str] | None = None) -> Words:
    """What levels chose of the pairs that are tested; nothing before all are learned.

    time: how long plain draws in so many calls take, in words; None: not told.
    """
    tested = tested_pairs(problem, index) or []
    lines: Words = []
    for number in tested[:_SHOWN]:
        choice = known_choice(problem, index, number)
        assert choice is not None
        lines += _chosen(problem, number, choice, time)
    if len(tested) > _SHOWN:
        lines.append(("", f"… and {_many(len(tested) - _SHOWN)} more"))
    return lines


def known_draws(problem: Problem, index: Index) -> int:
    """Draws that levels have chosen, of all pairs that are tested; 0 before all are learned."""
    choices = [known_choice(problem, index, number) for number in tested_pairs(problem, index) or []]
    return sum(choice.total(part, side) for choice in choices if choice for part in PARTS for side in (0, 1))


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


def _raced(numbers: list[int], tested: list[int]) -> str:
    out = len(numbers) - len(tested)
    return f", {out:,} left out by training (heuristic)" if out else ""


def _before(problem: Problem, costs: Costs, workers: int, pairs: int) -> Words:
    e = problem.study.estimate
    lines: Words = [
        (
            "levels",
            f"rounds of {e.train:,} draws of both laws of {_many(pairs)}, the last of up to {last_of(problem):,} more, learn "
            "proposals, sets, cut-offs and bets",
        )
    ]
    if e.target is None:
        lines.append(("proposals", f"draws from proposals and for the leftover: {e.test:,} of a law together"))
    else:
        wanted = f"as many draws as a standard error of {100 * e.target.relative_error:g} % takes: levels tell"
        lines.append(
            ("proposals", f"{wanted}, at most {e.target.most:,} of a law, up to a chunk, and plain draws beside them")
        )
    lines.append(("leftover", _certificate(problem, costs, workers, pairs)))
    most = 4.0 * WEIGHING * pairs * (e.test if e.target is None else e.target.most)  # of both laws, and as long again
    lines.append(("bound", f"what levels choose takes at most {_takes(most, costs, workers)}"))
    return lines


def _certificate(problem: Problem, costs: Costs, workers: int, pairs: int) -> str:
    """What a certificate of the target takes, as far as it and a claim tell. Heuristic: δ is taken to be so."""
    from hpcdp.notions.tape import KEPT_BACK, LOOK

    e = problem.study.estimate
    aim, unasked = _aim(problem), ""
    if e.target is not None and not e.certify:
        unasked = f"plain draws that take as long again, at least {LOOK:,} of a law; "
    if aim is None:
        return f"{unasked}how many a certificate takes is known when levels have learned δ"
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
    return f"{words}; {named} = {most:.2g} allows it; none where no weight is above the cut-offs"


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


def _takes(draws: float, costs: Costs, workers: int) -> str:
    """How long plain draws take, if all rows are drawn in one call."""
    each, apart = _LOOKED_UP + costs.drawing(1, 0), _LOOKED_UP + costs.drawing(1, 1)
    if not costs.call:  # one output a call is all there is, or costs nothing besides
        return f"{duration(each * draws / workers)} {_where(workers)}"
    alone = f"{duration(apart * draws / workers)} if each output needs a call"
    return f"{duration(each * draws / workers)} {_where(workers)} by rows, {alone}"


def _where(workers: int) -> str:
    return "in one process" if workers == 1 else f"on {workers} workers"


def _time(draws: int, calls: int, costs: Costs, workers: int) -> str:
    return f"{duration((costs.drawing(draws, calls) + _LOOKED_UP * draws) / workers)} {_where(workers)}"


def _chosen(problem: Problem, number: int, choice: Choice, time: Callable[[int, int], str] | None) -> Words:
    """Of a learned pair: how many draws there are, and what a certificate would take."""
    e = problem.study.estimate
    how = "by rows" if choice.by_rows else "one output a call"
    gain = (
        "nothing is gained by proposals: plain draws are counted"
        if choice.gain <= 1.0
        else f"gain about {choice.gain:.2g} at the ε it is for"
    )
    lines: Words = [("proposals", f"pair {number}: {choice.draws:,} draws of each law, {how}; {gain} (heuristic)")]
    for direction, (draws, needed) in enumerate(zip(choice.leftover, choice.needed, strict=True)):
        law = ("D′", "D")[direction]
        head = f"pair {number}, {DIRECTIONS[direction]}: "
        if choice.declared and direction == 0:
            lines.append(("leftover", f"{head}none: of sets that D′ cannot enter, as is declared"))
            continue
        if direction not in choice.bounded:
            lines.append(("leftover", f"{head}none: no bounds, as target.direction is the other one"))
            continue
        if not draws:
            lines.append(("leftover", f"{head}none: no weight is above the cut-offs"))
            continue
        calls = math.ceil(draws / choice.chunk) if choice.by_rows else draws
        words = f"{head}{draws:,} plain draws of {law}{time(draws, calls) if time is not None else ''}"
        if needed < 0.0:
            words += "; how many a certificate takes, training could not tell"
        elif needed > draws:
            calls = math.ceil(needed / choice.chunk) if choice.by_rows else math.ceil(needed)
            words += f"; a certificate that keeps most of δ takes about {at_most(needed, '.2g')}"
            words += f"{time(math.ceil(needed), calls) if time is not None else ''}{how_to_ask(e, needed)}"
        else:
            words += ": enough that the leftover costs at most a third of δ, if none hits"
        lines.append(("leftover", words))
    return lines
