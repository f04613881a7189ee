"""Rényi divergences and ρ of zero-concentrated DP as a readable table, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict

from hpcdp._base.rounding import at_least, percent
from hpcdp.report.exposed import pair_words
from hpcdp.report.table import changed_lines, grid, grown_lines, trust_lines, warning_lines
from hpcdp.report.tape import basis_lines, rests_on
from hpcdp.results.renyi import RenyiLevel, VariationalLevel, ZcdpLevel
from hpcdp.results.result import Result


def table(result: Result, levels: Sequence[RenyiLevel], rho: ZcdpLevel | None) -> str:
    """Each order with its estimate and certified bound, then ρ; and what each number rests on."""
    many = len(result.pairs)
    over = "both directions of 1 pair" if many == 1 else f"{many:,} pairs and both directions"
    state = "" if result.complete else "  (INCOMPLETE: only cells that have all their counts)"
    lines = [f"{result.name}: Rényi divergences, the largest over {over}{state}", ""]
    named, both = ["certified ≥", "pair", "direction"], any(level.variational is not None for level in levels)
    rows = [["order", "D̂", *named, *(["or: " + named[0], *named[1:]] if both else [])]]
    for level in levels:
        name = f"{level.order:g}" + (" (KL)" if level.order == 1.0 else "")
        rows.append([name, _estimate(result, level), *_bound(level), *(_bound(level.variational) if both else [])])
    if levels:
        lines += [*grid(rows), ""]
    if rho is not None:
        lines.append(f"zero-concentrated DP: ρ certified ≥ {at_least(rho.lower, '.5f')}{_of(rho)}")
        lines.append("")
    pairs = [level.pair for level in levels] + ([rho.pair] if rho is not None else [])
    pairs += [level.variational.pair for level in levels if level.variational is not None]
    leading = [pair for pair in pairs if pair is not None]
    if many > 1 and leading:
        lines += [*(pair_words(result, pair) for pair in dict.fromkeys(leading)), ""]
    return "\n".join([*lines, *notes(result, levels)])


def _bound(found: RenyiLevel | VariationalLevel | None) -> list[str]:
    if found is None:
        return ["-", "-", "-"]
    return [at_least(found.lower, ".5f"), *("-" if v is None else str(v) for v in (found.pair, found.direction))]


def _estimate(result: Result, level: RenyiLevel) -> str:
    if level.estimate is not None:
        return f"{level.estimate:.4f}"
    return "not resolved" if "exceed" in result.arrays else "-"


def _of(rho: ZcdpLevel) -> str:
    if rho.order is None:
        return ""
    return f", by order {rho.order:g} of pair {rho.pair}, {rho.direction}"


def notes(result: Result, levels: Sequence[RenyiLevel]) -> list[str]:
    """What each bound and estimate rests on."""
    lines = [
        f"certified ≥: with confidence {percent(result.confidence)}, all orders and ρ together with the bounds on δ: it is their",
        f"  integral; finite-sample, {rests_on(result)}. In nats; what lies beyond the study's ε is left out.",
        *basis_lines(result),
        *trust_lines(result.study),
        *changed_lines(result),
    ]
    if any(level.variational is not None for level in levels):
        lines += [
            f"or: certified ≥: the family of estimate.renyi, its orders together at {percent(result.confidence)}, finite-sample.",
            "  Each of both columns holds by itself; the larger of two bounds has no stated confidence.",
        ]
    named = result.study.estimate.renyi or ()
    if result.complete and any(level.order in named and level.variational is None for level in levels):
        lines.append(
            "The bound of estimate.renyi: none, since ε were added to a study with refine, whose classes are then of several L̂."
        )
    if result.is_tape:
        lines.append(
            "D̂: none, as draws have weights. Bounds are of the certified row, not of what is up to the leftover."
        )
    elif "exceed" not in result.arrays:
        lines.append(
            "D̂: none, as each cell has draws and a classifier of its own, so that there are no classes to compare."
        )
    elif levels:
        lines.append(
            "D̂: of the classes of L̂ between the study's ε, at least what is certified; asymptotic; rests on the classifier too."
        )
        if any(level.estimate is None for level in levels):
            lines.append(
                "not resolved: a class has no test output of one side, so D̂ would be infinite; or counts are missing."
            )
    return [*lines, *warning_lines(result), *grown_lines(result)]


def to_json(result: Result, levels: Sequence[RenyiLevel], rho: ZcdpLevel | None) -> str:
    """One object; `renyi` has one entry for each order, `zcdp` is there where it was asked for."""
    found = {
        "name": result.name,
        "complete": result.complete,
        "confidence": result.confidence,
        **result.declared,
        **({"renyi": [asdict(level) for level in levels]} if levels else {}),
        **({"zcdp": asdict(rho)} if rho is not None else {}),
        "warnings": result.warnings,
    }
    return json.dumps(found, allow_nan=False, ensure_ascii=False)


def csv_text(levels: Sequence[RenyiLevel], rho: ZcdpLevel | None) -> str:
    """One line for each order, and one of order "zcdp" for ρ; what is not known is empty. Second bounds: lines of their own."""
    buffer = io.StringIO()
    fields = [name for name in RenyiLevel.__dataclass_fields__ if name != "variational"]
    writer = csv.DictWriter(buffer, fields, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(asdict(level) for level in levels)
    writer.writerows({"order": level.order} | asdict(v) for level in levels if (v := level.variational) is not None)
    if rho is not None:
        writer.writerow(asdict(rho) | {"order": "zcdp"})
    return buffer.getvalue()
