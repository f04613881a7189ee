"""What pages say of random tapes: three rows that are never mixed, and what each of them rests on."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.importance.plan import how_to_ask
from hpcdp.importance.result import DRAWN, INFLATED, LEFT_OUT
from hpcdp.report.exposed import pair_words
from hpcdp.results.result import Result

HEAD = ["ε", "δ̂", "± error", "up to the leftover ≥", "certified ≥", "approx ≤"]
"""Columns of a table by ε."""

_SHOWN = 6  # pairs and directions whose leftover is told


def row_cells(row: dict[str, Any], error: float, estimate: str, implied: str) -> list[str]:
    """A row of the table by ε: the estimate with its error, the bound up to the leftover, and the certified one."""
    shown = share(error) if row["limit"] is None else "-"
    upper = at_most(row["upper"]) if row["resolved"] else "-"
    within = at_least(row["lower_up_to_leftover"])
    return [f"{row['epsilon']:g}", estimate, shown, within + implied, at_least(row["lower"]) + implied, upper]


def errors(result: Result) -> list[float]:
    """The standard error of the largest δ̂ at each ε of `Result.spectrum`."""
    known = np.flatnonzero(~np.isnan(result["spectrum_delta"]))
    place = (result["spectrum_pair"][known], result["spectrum_direction"][known], known)
    return [float(value) for value in result["standard_error"][place]]


def footnotes(result: Result) -> list[str]:
    """What the columns of the table by ε are."""
    sure = percent(result.confidence)
    words = [
        "δ̂ ± error: the estimate, from draws of proposals with known weights, and its standard error; weights above the cut-offs "
        "included; asymptotic. It is of the sets that were learned, which may hold less than δ. approx ≤: δ̂ and about "
        "as many errors as the confidence says, one cell at a time; asymptotic, no limit of δ.",
        "up to the leftover ≥ X: by itself no bound on δ. δ ≥ X − e^ε·r holds, at all cells together with confidence "
        f"{sure}; finite-sample. r, the leftover, is the probability that the law that e^ε multiplies gives X's set with a "
        "weight above the cut-off, of which draws from proposals tell nothing.",
        f"certified ≥: δ is at least this, at all cells together with confidence {sure}; finite-sample, with the limit of r "
        "that plain draws give. No number here bounds δ from above with certainty.",
    ]
    lines = [line for text in words for line in _wrap(text)]
    return [*lines, *leftover_lines(result), *basis_lines(result), *raced_lines(result)]


def rests_on(result: Result, otherwise: str = "rests on independent draws alone") -> str:
    """What a certified number rests on, in a few words."""
    return "rests on what is said of the tape below" if result.is_tape else otherwise


def basis_lines(result: Result) -> list[str]:
    """What certified numbers and those up to the leftover rest on, and what speaks against it; of other results nothing."""
    if not result.is_tape:
        return []
    drawn = np.flatnonzero(result["tape_stage"] == DRAWN)
    by_rows = result["tape_by_rows"][drawn].astype(np.bool_)
    lines: list[str] = []
    for direction, name in enumerate(DIRECTIONS):
        without = (result["level"][drawn, direction] == 0.0).all(axis=1)
        if without.any():
            lines += _wrap(
                f"{name}{_which(drawn, without)}: δ̂ alone, without bounds: all of the level and all plain draws are for the "
                "other direction (target.direction)."
            )
    if drawn.size:
        lines += _wrap(
            "Assumption of the certified numbers and of those up to the leftover: output i is a function of its database and of "
            "its own noise; nothing kept from other outputs enters. Checked on n = "
            f"{int(result['tape_seen'][drawn].min()):,} outputs without a difference; a dependence that shows in fewer than "
            "about 3/n of outputs, or over more than a chunk, would be missed."
        )
    if not by_rows.all():
        lines += _wrap(
            f"one output a call{_which(drawn, ~by_rows)}: the numbers are of calls for one output; whether calls for many have "
            "the same distribution was not looked at."
        )
    if drawn.size and (result["tape_gain"][drawn] <= 1.0).any():
        plain = result["tape_gain"][drawn] <= 1.0
        lines.append(f"nothing is gained by proposals{_which(drawn, plain)}: plain draws were counted")
    lines += declared_lines(result.study.mechanism.impossible)
    return lines + [line for words in result.way.warnings(result.arrays) for line in _wrap(f"WARNING: {words}")]


def declared_lines(impossible: str | None) -> list[str]:
    """What a study declares that cannot be."""
    if impossible is None:
        return []
    return _wrap(
        f"DECLARED, not measured (mechanism.impossible): D′ gives no output of the set {impossible}. For sets inside it P(S) "
        "alone is certified: if D′ can give such an output, certified numbers are wrong."
    )


def leftover_lines(result: Result) -> list[str]:
    """The leftover of the pairs and directions that tables show: plain draws, hits, limit, and what a certificate would take."""
    places = _shown_places(result)
    lines = [line for place in places[:_SHOWN] for line in _leftover(result, *place)]
    if len(places) > _SHOWN:
        lines.append(f"  … and {len(places) - _SHOWN:,} more; JSON has the leftover of every cell")
    return lines


def _shown_places(result: Result) -> list[tuple[int, int, int]]:
    """Pair, direction, and the last column that shows them."""
    name = "spectrum_lower_up_to_leftover"
    found: dict[tuple[int, int], int] = {}
    for column in np.argsort(result["epsilon"]):
        if result[name][column] > 0.0:
            found[int(result[f"{name}_pair"][column]), int(result[f"{name}_direction"][column])] = int(column)
    return [(*place, column) for place, column in found.items()]


def _leftover(result: Result, pair: int, direction: int, column: int) -> list[str]:
    place = (pair, direction, column)
    who = f"  {pair_words(result, pair)}, {DIRECTIONS[direction]}"
    draws, hits = (int(result[f"leftover_{name}"][place]) for name in ("draws", "hits"))
    if result["tape_declared"][pair] and direction == 0:
        return [
            f"{who}: D′ gives none of its sets, as is declared, so nothing is left over: X is certified if that is true"
        ]
    if not draws and result["leftover_limit"][place] == 0.0:
        return [f"{who}: no weight is above the cut-off, so r = 0: X is certified"]
    limit = at_most(float(result["leftover_limit"][place]))
    met = "no hit" if hits == 0 else "1 hit" if hits == 1 else f"{hits:,} hits"
    lines = [f"{who}: {met} in {draws:,} plain draws of {INFLATED[direction]}: r ≤ {limit}"]
    needed = float(result["tape_needed"][pair, direction])
    if needed < 0.0:
        return [*lines, "    how many a certificate would take, training could not tell"]
    if draws < needed:
        e = result.study.estimate
        lines.append(
            f"    a certificate that keeps most of δ takes about {needed:.2g} without a hit{how_to_ask(e, needed)}"
        )
    return lines


def raced_lines(result: Result) -> list[str]:
    """Pairs that training left out of the test."""
    out = int((result["tape_stage"] == LEFT_OUT).sum())
    if not out:
        return []
    return _wrap(
        f"{out:,} of {len(result.pairs):,} pairs were left out of the test, as training showed a smaller δ̂ of them by 3 standard "
        "errors; heuristic: one of them may hold more. The bounds hold of the others, and so of the largest δ, all the same."
    )


def _which(drawn: Any, chosen: Any) -> str:
    """Of which pairs, where not of all."""
    if bool(chosen.all()):
        return ""
    numbers: Sequence[int] = drawn[chosen].tolist()
    more = ", …" if len(numbers) > _SHOWN else ""
    return f" (pair{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:_SHOWN]))}{more})"


def _wrap(words: str) -> list[str]:
    return textwrap.wrap(words, 120, subsequent_indent="  ", break_on_hyphens=False)
