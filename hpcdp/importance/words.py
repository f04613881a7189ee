"""What numbers of random tapes rest on, and what speaks against them: paragraphs below tables and on pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_most
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.importance.plan import how_to_ask
from hpcdp.importance.result import DRAWN, INFLATED, LEFT_OUT

_SHOWN = 6  # pairs and directions that are listed


def describe_columns(sure: str) -> list[str]:
    """What the columns of a table by ε are. sure: the confidence level, in words."""
    return [
        "δ̂ ± error: the estimate, from draws of proposals with known weights, and its standard error; weights above the cut-offs "
        "are included; asymptotic. It is the δ of the learned sets, which may hold less than δ. approx ≤: δ̂ plus about as many "
        "standard errors as the confidence level says, at one ε at a time; asymptotic, no limit of δ.",
        "up to the leftover ≥ X: by itself no bound on δ. δ ≥ X − e^ε·r holds for all pairs, directions and ε together with "
        f"confidence {sure}; finite-sample. Draws from proposals tell nothing of outputs with a weight above the cut-off; r, the "
        "leftover, is their probability in the set of X by the distribution that e^ε multiplies.",
        f"certified ≥: δ is at least this, for all pairs, directions and ε together with confidence {sure}; finite-sample, with "
        "the limit of r that plain draws give. No number here bounds δ from above with certainty.",
    ]


def describe_limits(sure: str) -> str:
    """What "<" and "*" of an estimate mean."""
    return (
        f"* δ̂ is not significantly above 0. In rows without a star it is, simultaneously with confidence {sure} (asymptotic, a "
        f"separate test). The number after < is δ̂ plus as many standard errors as {sure} asks for at this ε alone, and at "
        "least 24 over the number of draws (asymptotic). It limits only the learned sets; δ may be larger."
    )


def describe_needed(draws: int, now: int, leftover: int | None) -> str:
    """How many draws would separate an estimate from a claim."""
    many = f"about {draws:,} draws from proposals per database (now {now:,})"
    if leftover is None:
        return "Plain draws hit the leftover: more draws than now do not separate it; what is hidden may explain it."
    more = (
        "; nothing is left over"
        if leftover == 0
        else f" and about {leftover:,} plain draws for the leftover without a hit"
    )
    return f"If it is real, the bound would pass the claim with {many}{more}."


def describe_basis(result: Any) -> list[str]:
    """The leftover, the assumption of the numbers of a result (`hpcdp.results.result.Result`), and what speaks against them."""
    return [*_leftovers(result), *_assumptions(result), *_left_out(result)]


def _assumptions(result: Any) -> list[str]:
    drawn = np.flatnonzero(result["tape_stage"] == DRAWN)
    by_rows = result["tape_by_rows"][drawn].astype(np.bool_)
    lines: list[str] = []
    for direction, name in enumerate(DIRECTIONS):
        without = (result["level"][drawn, direction] == 0.0).all(axis=1)
        if without.any():
            lines.append(
                f"{name}{_which(drawn, without)}: δ̂ alone, without bounds: the whole failure probability and all plain draws are "
                "for the other direction (target.direction)."
            )
    if drawn.size:
        lines.append(
            "Assumption of the certified numbers and of those up to the leftover: output i is a function of its database and of "
            "its own noise; nothing kept from other outputs enters. Checked on n = "
            f"{int(result['tape_seen'][drawn].min()):,} outputs without a difference; a dependence that shows in fewer than "
            "about 3/n of outputs, or over more than a chunk, would be missed."
        )
    if not by_rows.all():
        lines.append(
            f"one output a call{_which(drawn, ~by_rows)}: the numbers are of calls for one output; whether calls for many have "
            "the same distribution was not looked at."
        )
    if drawn.size and (result["tape_gain"][drawn] <= 1.0).any():
        where = _which(drawn, result["tape_gain"][drawn] <= 1.0)
        lines.append(f"nothing is gained by proposals{where}: plain draws were counted")
    if (declared := result.study.mechanism.impossible) is not None:
        lines.append(
            f"DECLARED, not measured (mechanism.impossible): D′ gives no output of the set {declared}. For sets inside it P(S) "
            "alone is certified: if D′ can give such an output, certified numbers are wrong."
        )
    return lines + [f"WARNING: {words}" for words in result.method.warnings(result.arrays)]


def _leftovers(result: Any) -> list[str]:
    """The leftover of the pairs and directions that tables show: plain draws, hits, limit, and what a certificate would take."""
    name = "spectrum_lower_up_to_leftover"
    places: dict[tuple[int, int], int] = {}  # with the last column that shows them
    for column in np.argsort(result["epsilon"]):
        if result[name][column] > 0.0:
            places[int(result[f"{name}_pair"][column]), int(result[f"{name}_direction"][column])] = int(column)
    lines = [_leftover(result, *place, column) for place, column in [*places.items()][:_SHOWN]]
    if len(places) > _SHOWN:
        lines.append(f"… and {len(places) - _SHOWN:,} more; JSON has the leftover of every entry")
    return lines


def _leftover(result: Any, pair: int, direction: int, column: int) -> str:
    place = (pair, direction, column)
    who = f"{result.describe_pair(pair)}, {DIRECTIONS[direction]}"
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


def _left_out(result: Any) -> list[str]:
    """Pairs that training left out of the test."""
    out = int((result["tape_stage"] == LEFT_OUT).sum())
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
