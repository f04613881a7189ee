"""Studies with [at_risk] as a readable table, as JSON and as CSV: what may be promised, and what the paper says."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.notions.at_risk import RHO
from hpcdp.report.table import changed_lines, grid
from hpcdp.results.result import Result
from hpcdp.store.again import resume_command


def table(result: Result) -> str:
    """Of each cover the sensitivity and the ε, the share of losses within it, and the published figures beside them."""
    section = result.study.at_risk
    assert section is not None
    head = f"{result.name}: ε of a sampled sensitivity, {section.pairs:,} pairs of {section.rows:,} rows, Laplace noise of scale "
    lines = [f"{head}{section.scale:g}{'' if result.complete else '  (INCOMPLETE)'}", ""]
    if not result.risk:
        return "\n".join([*lines, f"pairs are missing; go on with: {resume_command(result.store)}"])
    rows = [["cover", "rank", "Δ", "ε", "P[|L| <= ε] ≥", "hits", "CP ≥", "Theorem 5", "Theorem 6"]]
    for entry in result.risk:
        within, epsilon = entry["within"], entry["epsilon"]
        rows.append(
            [
                f"{entry['cover']}",
                f"{entry['rank']:,}",
                at_most(entry["sensitivity"], ".6g"),
                "inf" if epsilon is None else at_most(epsilon, ".5g"),
                at_least(within["certified"], ".5f"),
                f"{within['hits']:,}",
                at_least(within["lower"], ".5f"),
                f"{entry['published']:.4f}",
                "-" if within["published"] is None else f"{within['published']:.4f}",
            ]
        )
    return "\n".join([*lines, *grid(rows), "", *notes(result)])


def notes(result: Result) -> list[str]:
    """What each figure rests on."""
    section, sure = result.study.at_risk, percent(result.confidence)
    assert section is not None
    given = (
        " the file, whose rows were drawn with replacement" if section.population.file is not None else " its callable"
    )
    return [
        f"Δ, ε = Δ/scale: with confidence {sure} at least the share `cover` of pairs has a sensitivity of at most Δ, so that no",
        "  loss of theirs is above ε, whatever the noise; finite-sample, each cover by itself. Pairs beyond Δ have no limit.",
        f"  It is of pairs drawn independently from{given}.",
        f"P[|L| <= ε] ≥: over pairs and noise, of one draw of noise a pair; finite-sample with confidence {sure}, also as ε was",
        "  taken from these pairs. CP: the Clopper–Pearson limit of the same hits, as if ε had been named before.",
        f"Theorem 5, Theorem 6: γ̂₂ and γ̂₃ of Dandekar et al. as published, at ρ = {RHO:g}, γ̂₃ with ηε₀ = "
        f"{result.risk[0]['within']['epsilon0']:.5g} (largest Δ/scale).",
        "  Both are refuted: γ̂₂ forgets ρ, γ̂₃ takes noise of its own for each database. Promise nothing by them.",
        "The risk may grow when outputs are processed further.",
        *changed_lines(result),
    ]


def to_json(result: Result) -> str:
    """One object: name, complete, confidence and `risk`."""
    return json.dumps(result.to_dict(), allow_nan=False, ensure_ascii=False)


def csv_text(result: Result) -> str:
    """One line a cover."""
    buffer = io.StringIO()
    names = ("cover", "rank", "sensitivity", "epsilon", "published")
    within = ("hits", "pairs", "lower", "certified", "published", "epsilon0")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*names, *(f"within_{name}" for name in within)])
    entry: dict[str, Any]
    for entry in result.risk:
        writer.writerow([*(entry[name] for name in names), *(entry["within"][name] for name in within)])
    return buffer.getvalue()
