"""Audits, of one test a pair and sequential ones: tables, verdicts in words, and what each number rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from hpcdp._base.rounding import at_least, at_most, failure, gap, percent, share
from hpcdp.report.exposed import PAIRS, exposed_lines
from hpcdp.report.table import POINTS
from hpcdp.report.tables import (
    ASSUMED,
    ASYMPTOTIC,
    COUNT,
    FINITE,
    GIVEN,
    HEURISTIC,
    Column,
    Table,
    formed,
    lower_column,
    text_of,
    thousands,
    told,
    wrapped,
)
from hpcdp.report.words import changed_words, pair_words, trust_words
from hpcdp.results.audit import Audit
from hpcdp.results.decision import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.exported import Exported
from hpcdp.results.result import Result
from hpcdp.results.sequential import Look, SequentialAudit, unnamed_looks

OWN = "Each audit is a family of its own: each verdict holds at the confidence, not all at once."
NOTHING_ELSE = "Nothing else of the study has been counted, so no δ is estimated here."

_BOXES, _LOOKS = 10, 12  # boxes and looks that a text lists
_WORST = (VIOLATION, NOT_SEPARABLE, CONSISTENT)
_BOUND, _RARE = formed(".4g", at_least), formed(".4g", at_most)


def report(audit: Audit) -> str:
    """The verdict, the boxes with the largest margins, certified bounds, and what each number rests on."""
    result = audit.result
    is_told = audit.verdict == VIOLATION or result.depends is not None
    said = audit.verdict if is_told else "no violation found at this sample size"
    boxes = box_table(audit)
    rest = len(boxes.entries) - _BOXES
    return text_of(
        f"{result.name}: audit of {audit.claim.text}: {said}",
        boxes.lines(_BOXES),
        f"… and {rest:,} boxes with smaller margins" if rest > 0 else "",
        wrapped(verdict_words(audit)),
        exposed_lines(result),
        bounds_table(audit).lines(),
        wrapped(notes(audit)),
    )


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
        Column("violated", "claim violated", FINITE, told("violated"), only="page"),
    ]
    entries = [vars(box) for box in sorted(audit.boxes, key=lambda box: -box.margin)]
    caption = "Audit: one test a pair, the largest margin first"
    return Table(caption, columns, entries, PAIRS, "hpcdp audit --format json has every one")


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
    return Table("Certified lower bounds, each column by itself", columns, entries)


def verdict_words(audit: Audit) -> list[str]:
    """The verdict in words, with the box that shows it most; paragraphs."""
    box, result = audit.worst, audit.result
    test = int(result["rejected_test"][box.pair].min())
    if audit.verdict == VIOLATION:
        limits = (box.alpha_upper, box.beta_upper)
        first, second = limits if box.orientation == "forward" else limits[::-1]
        return [
            f"Violated by {pair_words(result, box.pair)}, {box.orientation}: the test that decides for D′ where L̂ puts q/p "
            f"above {box.eta:.4g} has errors of at most {at_most(first)} and {at_most(second)}; the claim allows no second error "
            f"below {at_least(box.claimed)}. Certified with confidence {percent(result.confidence)}."
        ]
    if result.depends is not None:
        return [f"{NOT_SEPARABLE}: {result.depends}"]
    if audit.verdict == NOT_SEPARABLE:
        return [
            "No box lies below the claimed curve, but an estimated point does. Chance gives such a point easily; if it is real, "
            f"more test samples would show it (now {test:,} per database)."
        ]
    return [
        f"No point (α̃, β̃) of a box lies below the claimed curve with {test:,} test samples per database. This proves no privacy: "
        "another pair, another classifier or more samples may find what this audit did not."
    ]


def notes(audit: Audit) -> list[str]:
    """What each number rests on; paragraphs."""
    many = len(audit.boxes)
    over = "1 box" if many == 1 else f"{many:,} boxes together"
    kind = {"exact": "Clopper–Pearson", "hoeffding": "Hoeffding"}[audit.limits]
    found = [
        f"α ≤ and β ≤ are {kind} limits at confidence {percent(audit.result.confidence)}, {over}; finite-sample, whatever the "
        "classifier. η was chosen on training samples alone. margin: claimed ≥ minus β ≤ (reverse: with the errors swapped).",
        "Each column of lower bounds holds by itself at this confidence; nothing here is fitted.",
        *trust_words(audit.result.study),
        *changed_words(audit.result),
    ]
    if audit.orientation == "both" and audit.claim.is_symmetric:
        found.append("The claimed curve is its own inverse, so that one box a pair serves both orientations.")
    if audit.claim.is_estimate:
        found.append(f"{audit.claim.text} is an estimate itself, no guarantee.")
    return found


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
        lines += [sequential_report(audit), scope_words(result, audit), ""]
    if len(audits) > 1:
        lines += [OWN, ""]
    if stand_alone(audits, result):
        lines += [*wrapped(changed_words(result)), NOTHING_ELSE]
    return [*lines, *unnamed_words(result)]


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


def sequential_report(audit: SequentialAudit) -> str:
    """The verdict, the evidence after each batch, and what it rests on."""
    last = audit.looks[-1]
    said = "no violation found within the budget" if audit.ended else "no violation found so far"
    said = "violation" if last.refuted else said
    if last.refuted:
        sure = f"Certified with confidence {percent(audit.confidence)}."
        words = f"Refuted after {last.samples:,} samples per database, training included. {sure}"
    else:
        words = f"Not refuted with {last.samples:,} samples per database. This proves no privacy; "
        words += "a larger --budget goes on from here."
    head = f"{audit.name}: sequential audit of {audit.claim}: {said}"
    alone = "In JSON, evidence and p-value of a pair are of that pair alone: not adjusted for the choice among pairs."
    found = wrapped([*sequential_notes(audit), *([alone] if len(audit.cells) > 1 else [])])
    return text_of(head, looks_table(audit, _LOOKS).lines(), words, found)


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
