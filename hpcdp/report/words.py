"""Sentences that several tables share: what numbers rest on, and what speaks against them; each is a paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcdp._base.rounding import at_most, percent, share
from hpcdp._base.terminal import plain
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.importance.plan import how_to_ask
from hpcdp.importance.result import DRAWN, INFLATED, LEFT_OUT
from hpcdp.losses import foreign_code
from hpcdp.results.result import Result
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study
from hpcdp.study.pairs import describe_pair

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim

_ORIGIN = ("database", "rows", "distribution", "index")  # of a pair, in CSV: numbers, never contents
_SHOWN = 6  # pairs and directions whose leftover is told
FOR_MORE = "The risk may grow when outputs are processed further."


def claim_of(result: Result) -> Claim | None:
    """The study's claim, if it makes one."""
    text = result.study.study.claim
    return None if text is None else parse_claim(text, result.study.folder)


def pair_words(result: Result, pair: int) -> str:
    """Which pair, and where it comes from; never what is in a row."""
    origin = {k: v for k, v in result.pairs[pair].items() if k != "pair"}
    if "rows" not in origin:
        return f"pair {pair}"
    return plain(f"pair {pair} ({describe_pair(pair, origin)})")  # pictures hold it too


def leading_words(result: Result, pairs: Sequence[int | None]) -> list[str]:
    """Where pairs that a table names come from; nothing of a study with one pair."""
    named = dict.fromkeys(pair for pair in pairs if pair is not None)
    return [pair_words(result, pair) for pair in named] if len(result.pairs) > 1 else []


def over_words(result: Result) -> str:
    """Over which pairs the largest is taken, and whether cells are missing."""
    many = len(result.pairs)
    over = "both directions of 1 pair" if many == 1 else f"{many:,} pairs and both directions"
    return f"the largest over {over}{state_words(result)}"


def state_words(result: Result) -> str:
    """That cells are missing, if they are."""
    return "" if result.complete else "  (INCOMPLETE: only cells that have all their counts)"


def estimate(delta: float, limit: float | None) -> str:
    """δ̂ as texts print it: where it is not resolved, the limit of the sets that were learned (see `limit_words`)."""
    return share(delta) if limit is None else f"< {at_most(limit)}*"


def limit_words(confidence: str, results: Sequence[Result]) -> str:
    """What "<" and "*" of `estimate` mean in a text on some results."""
    is_tape = any(result.is_tape for result in results)
    every, kind = "all of a store" if len(results) > 1 else "all", "asymptotic" if is_tape else "finite-sample"
    head = (
        f"* not resolved: not told from 0, as those without a star are, {every} together with confidence {confidence} "
        f"({kind}, a family apart from the bounds)"
    )
    if is_tape:
        return (
            f"{head}; δ̂ and as many standard errors as {confidence} says, at this ε alone, of the learned sets, and at "
            "least what no draw tells of (24 over their number); asymptotic. Another set may hold more: this is no limit of δ."
        )
    which = "this ε" if any(result.method.draws_apart for result in results) else "any ε of the study"
    over = " Of the sets, those that the last block tests." if any(result.method.pools for result in results) else ""
    return (
        f"{head}; with confidence {confidence}, at this ε alone, no set that was learned for {which} holds more than "
        f"this; finite-sample for those sets. Another set may hold more: this is no limit of δ.{over}"
    )


def warning_words(result: Result) -> list[str]:
    """What is not resolved, and what would resolve it."""
    return [f"warning: {words}" for words in result.resolution.warnings]


def changed_words(result: Any) -> list[str]:
    """That code changed while the store grew, and that draws depend on each other; of a result or a sequential audit."""
    return [f"WARNING: {words}" for words in result.code_warnings]


def trust_words(study: Study, tried: str = "the first chunk of each database") -> list[str]:
    """What certified numbers rest on besides independent draws, and of which distribution they are, where that is not plain.

    tried: the outputs that a class of somebody else was tried on.
    """
    e, found = study.estimate, []
    foreign = foreign_code(e.default_loss, e.parameters)
    if foreign is not None:
        found.append(
            f"Certified numbers also rest on {foreign} judging each output by itself, whatever else is in its batch. That was "
            f"tried on trial outputs and on {tried}, not proved."
        )
    if not study.mechanism.reproducible:
        found.append(
            "reproducible = false: a chunk that failed is drawn anew, so that certified numbers are of the law of outputs given "
            "that the mechanism does not fail. Whether it fails may tell D from D′; that is not counted."
        )
    return found


def base_words(result: Result) -> list[str]:
    """What speaks against certified numbers of a result, or what they rest on besides independent draws."""
    return [*basis_words(result), *trust_words(result.study), *changed_words(result)]


def grown_words(result: Result) -> list[str]:
    """What the store's study was before, of one that has grown."""
    if not result.grown:
        return []
    return [
        f"This is a new estimate; the study of this store was before: {'; '.join(result.grown)}. The bounds of each "
        "estimate hold by themselves, if what was added was not chosen after a look at the results."
    ]


def origin_names(result: Result) -> list[str]:
    """Columns of a CSV file that say where a pair comes from."""
    return [key for key in _ORIGIN if any(key in entry for entry in result.pairs)]


def origin_of(pair: Mapping[str, Any]) -> dict[str, Any]:
    """These columns of a pair, rows apart by spaces."""
    found = {key: pair.get(key, "") for key in _ORIGIN}
    return {key: " ".join(map(str, value)) if isinstance(value, list) else value for key, value in found.items()}


def rests_on(result: Result) -> str:
    """What a certified number rests on, in a few words."""
    return "rests on what is said of the tape below" if result.is_tape else "rests on independent draws alone"


def tape_columns_words(result: Result) -> list[str]:
    """What the columns of a table by ε are, of random tapes."""
    sure = percent(result.confidence)
    return [
        "δ̂ ± error: the estimate, from draws of proposals with known weights, and its standard error; weights above the cut-offs "
        "included; asymptotic. It is of the sets that were learned, which may hold less than δ. approx ≤: δ̂ and about "
        "as many errors as the confidence says, one cell at a time; asymptotic, no limit of δ.",
        "up to the leftover ≥ X: by itself no bound on δ. δ ≥ X − e^ε·r holds, at all cells together with confidence "
        f"{sure}; finite-sample. r, the leftover, is the probability that the law that e^ε multiplies gives X's set with a "
        "weight above the cut-off, of which draws from proposals tell nothing.",
        f"certified ≥: δ is at least this, at all cells together with confidence {sure}; finite-sample, with the limit of r "
        "that plain draws give. No number here bounds δ from above with certainty.",
        *leftover_words(result),
        *basis_words(result),
        *raced_words(result),
    ]


def basis_words(result: Result) -> list[str]:
    """What numbers of random tapes rest on, and what speaks against it; of other results nothing."""
    if not result.is_tape:
        return []
    drawn = np.flatnonzero(result["tape_stage"] == DRAWN)
    by_rows = result["tape_by_rows"][drawn].astype(np.bool_)
    found: list[str] = []
    for direction, name in enumerate(DIRECTIONS):
        without = (result["level"][drawn, direction] == 0.0).all(axis=1)
        if without.any():
            found.append(
                f"{name}{_which(drawn, without)}: δ̂ alone, without bounds: all of the level and all plain draws are for the "
                "other direction (target.direction)."
            )
    if drawn.size:
        found.append(
            "Assumption of the certified numbers and of those up to the leftover: output i is a function of its database and of "
            "its own noise; nothing kept from other outputs enters. Checked on n = "
            f"{int(result['tape_seen'][drawn].min()):,} outputs without a difference; a dependence that shows in fewer than "
            "about 3/n of outputs, or over more than a chunk, would be missed."
        )
    if not by_rows.all():
        found.append(
            f"one output a call{_which(drawn, ~by_rows)}: the numbers are of calls for one output; whether calls for many have "
            "the same distribution was not looked at."
        )
    if drawn.size and (result["tape_gain"][drawn] <= 1.0).any():
        where = _which(drawn, result["tape_gain"][drawn] <= 1.0)
        found.append(f"nothing is gained by proposals{where}: plain draws were counted")
    if (declared := result.study.mechanism.impossible) is not None:
        found.append(
            f"DECLARED, not measured (mechanism.impossible): D′ gives no output of the set {declared}. For sets inside it P(S) "
            "alone is certified: if D′ can give such an output, certified numbers are wrong."
        )
    return found + [f"WARNING: {words}" for words in result.method.warnings(result.arrays)]


def leftover_words(result: Result) -> list[str]:
    """The leftover of the pairs and directions that tables show: plain draws, hits, limit, and what a certificate would take."""
    name = "spectrum_lower_up_to_leftover"
    places: dict[tuple[int, int], int] = {}  # with the last column that shows them
    for column in np.argsort(result["epsilon"]):
        if result[name][column] > 0.0:
            places[int(result[f"{name}_pair"][column]), int(result[f"{name}_direction"][column])] = int(column)
    found = [_leftover(result, *place, column) for place, column in [*places.items()][:_SHOWN]]
    if len(places) > _SHOWN:
        found.append(f"… and {len(places) - _SHOWN:,} more; JSON has the leftover of every cell")
    return found


def _leftover(result: Result, pair: int, direction: int, column: int) -> str:
    place = (pair, direction, column)
    who = f"{pair_words(result, pair)}, {DIRECTIONS[direction]}"
    draws, hits = (int(result[f"leftover_{name}"][place]) for name in ("draws", "hits"))
    if result["tape_declared"][pair] and direction == 0:
        return (
            f"{who}: D′ gives none of its sets, as is declared, so nothing is left over: X is certified if that is true"
        )
    if not draws and result["leftover_limit"][place] == 0.0:
        return f"{who}: no weight is above the cut-off, so r = 0: X is certified"
    limit = at_most(float(result["leftover_limit"][place]))
    met = "no hit" if hits == 0 else "1 hit" if hits == 1 else f"{hits:,} hits"
    words = f"{who}: {met} in {draws:,} plain draws of {INFLATED[direction]}: r ≤ {limit}"
    needed = float(result["tape_needed"][pair, direction])
    if needed < 0.0:
        return f"{words}; how many a certificate would take, training could not tell"
    if draws >= needed:
        return words
    asked = how_to_ask(result.study.estimate, needed)
    return f"{words}; a certificate that keeps most of δ takes about {needed:.2g} without a hit{asked}"


def raced_words(result: Result) -> list[str]:
    """Pairs that training left out of the test, of random tapes."""
    out = int((result["tape_stage"] == LEFT_OUT).sum()) if result.is_tape else 0
    if not out:
        return []
    return [
        f"{out:,} of {len(result.pairs):,} pairs were left out of the test, as training showed a smaller δ̂ of them by 3 standard "
        "errors; heuristic: one of them may hold more. The bounds hold of the others, and so of the largest δ, all the same."
    ]


def _which(drawn: Any, chosen: Any) -> str:
    """Of which pairs, where not of all."""
    if bool(chosen.all()):
        return ""
    numbers: Sequence[int] = drawn[chosen].tolist()
    more = ", …" if len(numbers) > _SHOWN else ""
    return f" (pair{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_SHOWN]))}{more})"
