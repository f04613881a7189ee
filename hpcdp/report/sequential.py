"""A sequential audit as a readable text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hpcdp._base.rounding import at_least, at_most, failure, percent
from hpcdp.report.table import grid, marked_lines, trust_lines
from hpcdp.results.sequential import Look, SequentialAudit

_SHOWN = 12  # looks that a text lists


def to_json(audit: SequentialAudit) -> str:
    """One object in full precision."""
    return json.dumps(audit.to_dict(), allow_nan=False, ensure_ascii=False)


def report(audit: SequentialAudit) -> str:
    """The verdict, the evidence after each batch, and what it rests on."""
    last = audit.looks[-1]
    said = "violation" if last.refuted else "no violation found within the budget"
    rows = [["samples per database", "evidence", "p-value"]]
    rows += [
        [f"{look.samples:,}", at_least(look.evidence, ".4g"), at_most(look.p_value, ".4g")]
        for look in few_looks(audit.looks, _SHOWN)
    ]
    if last.refuted:
        sure = f"Certified with confidence {percent(audit.confidence)}."
        words = f"Refuted after {last.samples:,} samples per database, training included. {sure}"
    else:
        words = f"Not refuted with {last.samples:,} samples per database. This proves no privacy; "
        words += "a larger --budget goes on from here."
    lines = [f"{audit.name}: sequential audit of {audit.claim}: {said}", "", *grid(rows), "", words, ""]
    lines += notes(audit)
    if len(audit.cells) > 1:
        lines.append(
            "In JSON, evidence and p-value of a pair are of that pair alone: not adjusted for the choice among pairs."
        )
    return "\n".join(lines)


def notes(audit: SequentialAudit) -> list[str]:
    """What evidence and p-value are, and what they rest on."""
    many = len(audit.cells)
    over = "1 pair" if many == 1 else f"the mean over {many:,} pairs"
    return [
        f"evidence: wealth of a bettor against the claim, {over}; 1 at the start, and at or above {audit.needed:g} at any",
        f"  look with probability at most {failure(audit.confidence)} if the claim is true; finite-sample, whatever the",
        "  classifier learned, however often one looks. p-value: 1/(largest evidence so far).",
        *trust_lines(audit.study, "every block before its bet was settled"),
        *marked_lines("WARNING", audit.code_warnings),
    ]


def few_looks(looks: Sequence[Look], most: int) -> list[Look]:
    """At most so many looks, evenly over them, the first and the last among them."""
    if len(looks) <= most:
        return list(looks)
    step = (len(looks) - 1) / (most - 1)
    return [looks[round(step * i)] for i in range(most)]
