"""Audits, of one test a pair and sequential ones: their tables, and what each number rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from hpcdp._base.rounding import at_least, at_most, failure, gap, percent, share
from hpcdp.report.exposed import PAIRS, exposed_lines
from hpcdp.report.sentences import (
    audit_sentence,
    changed_words,
    sequential_sentence,
    shared_words,
    trust_words,
)
from hpcdp.report.spectrum import POINTS
from hpcdp.report.tables import (
    ASSUMED,
    ASYMPTOTIC,
    COUNT,
    FINITE,
    GIVEN,
    HEURISTIC,
    Column,
    Reading,
    Table,
    formed,
    lower_column,
    thousands,
    told,
    words_if_true,
    wrapped,
    write,
)
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.sequential import Look, SequentialAudit
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION

NOTHING_ELSE = "Nothing else of the study has been counted, so no δ is estimated here."

_BOXES, _LOOKS = 10, 12  # boxes and looks that a text lists
_WORST = (VIOLATION, NOT_SEPARABLE, CONSISTENT)
_BOUND, _RARE = formed(".4g", at_least), formed(".4g", at_most)


def read_audit(audit: Audit) -> Reading:
    """The verdict, the boxes with the largest margins, and certified bounds."""
    result = audit.result
    is_told = audit.verdict == VIOLATION or result.depends is not None
    said = audit.verdict if is_told else "no violation found at this sample size"
    return Reading(
        f"{result.name}: audit of {audit.claim.text}: {said}",
        [box_table(audit), bounds_table(audit)],
        notes(audit),
        audit.to_dict,
        lines=[*wrapped(audit_sentence(audit).paragraphs), *exposed_lines(result)],
    )


def report(audit: Audit) -> str:
    """An audit as its command prints it."""
    return write([read_audit(audit)], "table", shared_words(audit.result)).rstrip("\n")


def box_table(audit: Audit) -> Table:
    """Boxes of an audit, the largest margin first."""
    columns = [
        Column("pair", "pair"),
        Column("orientation", "orientation"),
        Column("eta", "η", HEURISTIC, formed(".4g")),
        Column("alpha", "α̃", ASYMPTOTIC, share),
        Column("beta", "β̃", ASYMPTOTIC, share),
        Column("alpha_upper", "α ≤", FINITE, at_most),
        Column("beta_upper", "β ≤", FINITE, at_most),
        Column("claimed", "claimed ≥", GIVEN, at_least),
        Column("margin", "margin", FINITE, gap, said=lambda e: gap(e["margin"]) + " violated" * e["violated"]),
        Column("violated", "claim violated", FINITE, words_if_true("violated"), only="page"),
    ]
    entries = [vars(box) for box in sorted(audit.boxes, key=lambda box: -box.margin)]
    caption = "Audit: one test a pair, the largest margin first"
    return Table(caption, columns, entries, PAIRS, "hpcdp audit --format json has every one", listed=_BOXES)


def bounds_table(audit: Audit) -> Table:
    """What an audit certifies of μ and of ε."""
    entries = [{"what": "μ (Gaussian DP)", "box": audit.bounds.mu[0], "all": audit.bounds.mu[1]}]
    entries += [{"what": f"ε at δ = {d:g}", "box": box, "all": every} for d, box, every in audit.bounds.epsilon]
    four = formed(".4f", at_least)
    columns = [
        Column("what", "quantity", name="certified lower bound"),
        lower_column("box", "certified ≥, from the boxes", four, name="from the boxes"),
        lower_column("all", "certified ≥, from every η", four, name="from every η"),
    ]
    return Table("Certified lower bounds, each column separately", columns, entries)


def notes(audit: Audit) -> list[str]:
    """What each number rests on; paragraphs."""
    many = len(audit.boxes)
    over = "1 box" if many == 1 else f"{many:,} boxes together"
    kind = {"exact": "Clopper–Pearson", "hoeffding": "Hoeffding"}[audit.limits]
    return told(
        f"α ≤ and β ≤ are {kind} limits at confidence {percent(audit.result.confidence)}, {over}; finite-sample, whatever the "
        "classifier. η was chosen on training samples alone. margin: claimed ≥ minus β ≤ (reverse: with the errors swapped).",
        "Each column of lower bounds holds separately at this confidence.",
        audit.orientation == "both"
        and audit.claim.is_symmetric
        and "The claimed curve is its own inverse, so that one box a pair serves both orientations.",
        audit.claim.is_estimate and f"{audit.claim.text} is an estimate itself, no guarantee.",
    )


def stand_alone(audits: Sequence[SequentialAudit], result: Result) -> bool:
    """Whether sequential audits are all that a store has to say: nothing of the study itself has been counted."""
    is_counted = "spectrum" in result.notions and bool(result.spectrum())
    return bool(audits) and not (is_counted or result.tradeoff() or result.pure is not None)


def worst_first(audits: Sequence[SequentialAudit]) -> list[SequentialAudit]:
    """Violations first, then what is not separable."""
    return sorted(audits, key=lambda audit: _WORST.index(audit.verdict))


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
    if looks := result.unnamed_looks:
        yield (
            f"{looks:,} looks of sequential audits are in the store without their claim: of an earlier hpcdp, or of a damaged "
            "record. The audit's own command says it again, and draws nothing anew."
        )


def read_sequential(audit: SequentialAudit, result: Result | None = None) -> Reading:
    """The verdict, and the evidence after each batch. result: of the store that holds it, where that is read."""
    said = "violation" if audit.looks[-1].refuted else "no violation found within the budget" if audit.ended else None
    words = sequential_sentence(audit).paragraphs
    words += [] if audit.looks[-1].refuted else ["A larger --budget goes on from here."]
    words += [] if result is None else [scope_words(result, audit)]
    alone = "In JSON, evidence and p-value of a pair are of that pair alone: not adjusted for the choice among pairs."
    return Reading(
        f"{audit.name}: sequential audit of {audit.claim}: {said or 'no violation found so far'}",
        [looks_table(audit, _LOOKS)],
        [*sequential_notes(audit), *([alone] if len(audit.cells) > 1 else [])],
        audit.to_dict,
        lines=wrapped(words),
    )


def sequential_report(audit: SequentialAudit) -> str:
    """A sequential audit as its command prints it."""
    return write([read_sequential(audit)], "table").rstrip("\n")


def sequential_notes(audit: SequentialAudit) -> list[str]:
    """What evidence and p-value are, and what they rest on; paragraphs."""
    many = len(audit.cells)
    over = "1 pair" if many == 1 else f"the mean over {many:,} pairs"
    return [
        f"evidence: wealth of a bettor against the claim, {over}; 1 at the start, and at or above {audit.needed:g} at any "
        f"look with probability at most {failure(audit.confidence)} if the claim is true; finite-sample, whatever the "
        "classifier learned, however often one looks. p-value: 1/(largest evidence so far).",
        *trust_words(audit.study, "every block before its bet was settled"),
        *changed_words(audit),
    ]


def looks_table(audit: SequentialAudit, most: int = POINTS) -> Table:
    """The evidence after each batch, or after some of many batches, evenly over them with the first and the last."""
    looks: list[Look] = list(audit.looks)
    if len(looks) > most:
        step = (len(looks) - 1) / (most - 1)
        looks = [looks[round(step * i)] for i in range(most)]
    columns = [
        Column("samples", "samples per database", COUNT, thousands),
        Column("evidence", "evidence ≥", FINITE, _BOUND, name="evidence"),
        Column("p_value", "p-value ≤", FINITE, _RARE, name="p-value"),
        Column("refuted", "claim refuted", FINITE, lambda value: "refuted" if value else "", only="page"),
    ]
    caption = f"Sequential audit of {audit.claim}, orientation {audit.orientation}"
    where = "audit --sequential --format json has every look"
    return Table(caption, columns, [asdict(look) for look in looks], None, where, len(audit.looks) - len(looks))


def pairs_table(audit: SequentialAudit) -> Table:
    """The evidence of each pair alone, the largest first."""
    columns = [
        Column("pair", "pair"),
        Column("evidence", "evidence ≥", ASSUMED, _BOUND),
        Column("p_value", "p-value ≤", ASSUMED, _RARE),
    ]
    entries = sorted(audit.cells, key=lambda cell: -cell["evidence"])
    caption = f"Each pair alone, of {audit.claim}: assumed that it was named before the draws, not for its evidence"
    return Table(caption, columns, entries, PAIRS, "audit --sequential --format json has every pair")
