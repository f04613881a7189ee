"""A sequential audit as a readable text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from hpcdp._base.rounding import at_least, at_most, failure, percent
from hpcdp.report.table import changed_lines, grid, marked_lines, trust_lines
from hpcdp.results.decision import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.exported import Exported
from hpcdp.results.result import Result
from hpcdp.results.sequential import Look, SequentialAudit, unnamed_looks

_SHOWN = 12  # looks that a text lists
_WORST = (VIOLATION, NOT_SEPARABLE, CONSISTENT)


def stand_alone(audits: Sequence[SequentialAudit], result: Result) -> bool:
    """Whether sequential audits are all that a store has to say: nothing of the study itself has been counted."""
    is_counted = result.study.counts_levels and bool(result.spectrum())
    return bool(audits) and not (is_counted or result.tradeoff() or result.pure is not None)


def worst_first(audits: Sequence[SequentialAudit]) -> list[SequentialAudit]:
    """Violations first, then what is not separable."""
    return sorted(audits, key=lambda audit: _WORST.index(audit.verdict))


def stored_lines(result: Result) -> list[str]:
    """The sequential audits of a store, the worst first, and what is said of the store with them; none where there are none."""
    audits, lines = worst_first(result.sequential_audits), list[str]()
    for audit in audits:
        lines += [report(audit), scope_words(result, audit), ""]
    if len(audits) > 1:
        lines += [OWN, ""]
    if stand_alone(audits, result):
        lines += [*changed_lines(result), NOTHING_ELSE]
    return [*lines, *unnamed_words(result)]


OWN = "Each audit is a family of its own: each verdict holds at the confidence, not all at once."
NOTHING_ELSE = "Nothing else of the study has been counted, so no δ is estimated here."


def scope_words(result: Result, audit: SequentialAudit) -> str:
    """How often an audit of a store looks, and of which of the study's pairs it is."""
    many, sizes = len(audit.cells), audit.rounds
    words = f"It looks after every batch of {sizes.batch:,} samples per database, {sizes.budget:,} at most."
    if many != len(result.pairs):
        return f"{words} It is of {many:,} of the study's {len(result.pairs):,} pairs, those that it had then."
    if result.grown:
        return f"{words} It is of the pairs that the study had then, which may be others than the present ones."
    return words


def unnamed_words(result: Result) -> Iterator[str]:
    """That a store has looks of which it does not say whose they are."""
    if not isinstance(result, Exported) and (looks := unnamed_looks(result.layout)):
        yield (
            f"{looks:,} looks of sequential audits are in the store without their claim: of an earlier hpcdp, or of a damaged "
            "record. The audit's own command says it again, and draws nothing anew."
        )


def to_json(audit: SequentialAudit) -> str:
    """One object in full precision."""
    return json.dumps(audit.to_dict(), allow_nan=False, ensure_ascii=False)


def report(audit: SequentialAudit) -> str:
    """The verdict, the evidence after each batch, and what it rests on."""
    last = audit.looks[-1]
    said = "no violation found within the budget" if audit.ended else "no violation found so far"
    said = "violation" if last.refuted else said
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
