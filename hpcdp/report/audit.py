"""An audit as a readable text, and as JSON."""

from __future__ import annotations

import json

from hpcdp._base.rounding import at_least, at_most, gap, percent, share
from hpcdp.report.exposed import exposed_lines, pair_words
from hpcdp.report.table import changed_lines, grid, marked_lines, trust_lines
from hpcdp.results.audit import Audit, Box
from hpcdp.results.decision import NOT_SEPARABLE, VIOLATION

_SHOWN = 10  # boxes that a text lists


def to_json(audit: Audit) -> str:
    """One object in full precision."""
    return json.dumps(audit.to_dict(), allow_nan=False, ensure_ascii=False)


def report(audit: Audit) -> str:
    """The verdict, the boxes with the largest margins, certified bounds, and what each number rests on."""
    result = audit.result
    is_told = audit.verdict == VIOLATION or result.depends is not None
    said = audit.verdict if is_told else "no violation found at this sample size"
    lines = [f"{result.name}: audit of {audit.claim.text}: {said}", "", *grid(_rows(audit)), ""]
    if len(audit.boxes) > _SHOWN:
        lines += [f"… and {len(audit.boxes) - _SHOWN:,} boxes with smaller margins", ""]
    exposed = exposed_lines(result)
    shown = ["", *exposed] if exposed else []
    return "\n".join([*lines, *verdict_lines(audit), *shown, "", *_bounds(audit), "", *notes(audit)])


def _rows(audit: Audit) -> list[list[str]]:
    rows = [["pair", "orientation", "η", "α̃", "β̃", "α ≤", "β ≤", "claimed ≥", "margin"]]
    for box in sorted(audit.boxes, key=lambda b: -b.margin)[:_SHOWN]:
        numbers = [share(box.alpha), share(box.beta), at_most(box.alpha_upper), at_most(box.beta_upper)]
        mark = " violated" if box.violated else ""
        head = [str(box.pair), box.orientation, f"{box.eta:.4g}"]
        rows.append([*head, *numbers, at_least(box.claimed), gap(box.margin) + mark])
    return rows


def verdict_lines(audit: Audit) -> list[str]:
    """The verdict in words, with the box that shows it most."""
    box, result = audit.worst, audit.result
    test = int(result["rejected_test"][box.pair].min())
    if audit.verdict == VIOLATION:
        first, second = _errors(box)
        return [
            f"Violated by {pair_words(result, box.pair)}, {box.orientation}: the test that decides for D′ where L̂ puts q/p "
            f"above {box.eta:.4g} has",
            f"  errors of at most {at_most(first)} and {at_most(second)}; the claim allows no second error below "
            f"{at_least(box.claimed)}. Certified with confidence {percent(result.confidence)}.",
        ]
    if result.depends is not None:
        return marked_lines(NOT_SEPARABLE, [result.depends])
    if audit.verdict == NOT_SEPARABLE:
        return [
            "No box lies below the claimed curve, but an estimated point does. Chance gives such a point easily; if it is real,",
            f"  more test samples would show it (now {test:,} per database).",
        ]
    return [
        f"No point (α̃, β̃) of a box lies below the claimed curve with {test:,} test samples per database. This proves no privacy:",
        "  another pair, another classifier or more samples may find what this audit did not.",
    ]


def _errors(box: Box) -> tuple[float, float]:
    """Upper limits of the first and the second error in the box's orientation."""
    limits = (box.alpha_upper, box.beta_upper)
    return limits if box.orientation == "forward" else limits[::-1]


def _bounds(audit: Audit) -> list[str]:
    rows = [["certified lower bound", "from the boxes", "from every η"]]
    rows.append(["μ (Gaussian DP)", *(at_least(v, ".4f") for v in audit.bounds.mu)])
    rows += [[f"ε at δ = {d:g}", *(at_least(v, ".4f") for v in found)] for d, *found in audit.bounds.epsilon]
    return grid(rows)


def notes(audit: Audit) -> list[str]:
    """What each number rests on."""
    many = len(audit.boxes)
    over = "1 box" if many == 1 else f"{many:,} boxes together"
    limits = {
        "exact": "α ≤ and β ≤ are Clopper–Pearson limits",
        "hoeffding": "α ≤ and β ≤ are Hoeffding limits",
    }[audit.limits]
    lines = [
        f"{limits} at confidence {percent(audit.result.confidence)}, {over}; finite-sample, whatever the classifier. η was",
        "  chosen on training samples alone. margin: claimed ≥ minus β ≤ (reverse: with the errors swapped).",
        "Each column of lower bounds holds by itself at this confidence; nothing here is fitted.",
        *trust_lines(audit.result.study),
        *changed_lines(audit.result),
    ]
    if audit.orientation == "both" and audit.claim.is_symmetric:
        lines.append("The claimed curve is its own inverse, so that one box a pair serves both orientations.")
    if audit.claim.is_estimate:
        lines.append(f"{audit.claim.text} is an estimate itself, no guarantee.")
    return lines
