"""ε at given δ as a readable table, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.notions.epsilon_at import BELOW, BEYOND
from hpcdp.report.exposed import exposed_lines, pair_words
from hpcdp.report.table import changed_lines, grid, grown_lines, trust_lines, warning_lines
from hpcdp.report.tape import basis_lines, leftover_lines, raced_lines, rests_on
from hpcdp.results.epsilon_at import NO_ESTIMATE, OF_DELTA, Level
from hpcdp.results.result import Result


def table(result: Result, levels: Sequence[Level]) -> str:
    """At each δ: the estimate and its bounds; which set shows the certified one; and what each number rests on."""
    many = len(result.pairs)
    over = "both directions of 1 pair" if many == 1 else f"{many:,} pairs and both directions"
    state = "" if result.complete else "  (INCOMPLETE: only cells that have all their counts)"
    within = ["up to the leftover ≥"] if result.is_tape else []
    rows = [["δ", "ε̂", *within, "certified ≥", "approx ≤", "pair", "direction", "set"]]
    for level in levels:
        shown = "-" if level.epsilon is None else f"L̂ > {level.epsilon:g}"
        cell = ["-" if v is None else str(v) for v in (level.pair, level.direction)]
        top = "-" if level.upper is None else at_most(level.upper, ".4f")
        near = [] if level.up_to_leftover is None else [at_least(level.up_to_leftover, ".5f")]
        rows.append([f"{level.delta:g}", _estimate(level), *near, at_least(level.lower, ".5f"), top, *cell, shown])
    lines = [f"{result.name}: ε at given δ, the largest over {over}{state}", "", *grid(rows), ""]
    leading = [level.pair for level in levels if level.pair is not None]
    if many > 1 and leading:
        lines += [*(pair_words(result, pair) for pair in dict.fromkeys(leading)), ""]
    exposed = exposed_lines(result)
    return "\n".join([*lines, *exposed, *([""] if exposed else []), *_notes(result, levels)])


def _estimate(level: Level) -> str:
    if level.estimate is not None and level.estimate_low is not None:
        low, high = at_least(level.estimate_low, ".4f"), at_most(level.estimate, ".4f")
        return high if float(low) >= float(high) else f"[{low}, {high}]"
    if level.reach is None:
        return "-" if level.found == NO_ESTIMATE else level.found
    return f"{'<=' if level.found == BELOW else '>'} {level.reach:g} ({level.found})"


def _every(levels: Sequence[Level]) -> str:
    return "" if len(levels) == 1 and levels[0].delta == 0.0 else " for every δ at once"


def _notes(result: Result, levels: Sequence[Level]) -> list[str]:
    sure = percent(result.confidence)
    lines = [
        f"certified ≥: the mechanism is (ε, δ)-private for no smaller ε, with confidence {sure}{_every(levels)};",
        f"  finite-sample, {rests_on(result)}. δ = 0: pure differential privacy.",
        *trust_lines(result.study),
        *changed_lines(result),
    ]
    if result.is_tape:
        lines += [
            "up to the leftover ≥: by itself no limit: what would be certified if no plain draw could lie in the leftover, of",
            "  probability r. At any smaller ε, δ(ε) ≥ δ − e^ε·r is certified.",
            *leftover_lines(result),
            *basis_lines(result),
            *raced_lines(result),
        ]
    if any(level.family == OF_DELTA for level in levels):
        lines.append("  From the bounds on δ, and together with them.")
    elif len(levels) == 1 and levels[0].delta == 0.0:
        lines.append("  δ = 0 alone: from an exact test of its own, a family that holds with no limit at another δ.")
    else:
        lines.append("  A family of its own: these limits together, and the bounds on δ together, not all at once.")
    lines += [
        "ε̂: where the largest δ̂ falls to δ: from what the study's ε on both sides show, to linear in e^ε between them.",
        "  Interpolation adds at most the width; what the learned set misses may lower both. ε̂ and approx ≤ rest on the",
        "  classifier too, and are at least what is certified.",
    ]
    if any(level.found == BEYOND for level in levels):
        lines.append("beyond the grid: the largest δ̂ is above δ at the study's last ε. Add larger ε.")
    if any(level.found == NO_ESTIMATE for level in levels):
        lines.append("δ = 0 has a certified limit only: counts cannot tell δ = 0 from a small δ.")
    return [*lines, *warning_lines(result), *grown_lines(result)]


def to_json(result: Result, levels: Sequence[Level]) -> str:
    """One object; `levels` has one entry for each δ."""
    head = {"name": result.name, "complete": result.complete, "confidence": result.confidence, **result.declared}
    found = head | {"levels": [level.to_dict() for level in levels], "warnings": result.warnings}
    return json.dumps(found, allow_nan=False, ensure_ascii=False)


def csv_text(levels: Sequence[Level]) -> str:
    """One line for each δ; what is not known is empty."""
    buffer = io.StringIO()
    rows = [level.to_dict() for level in levels]
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
