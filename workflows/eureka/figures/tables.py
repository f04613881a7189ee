"""Tables of the pages, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from figures.parts import Found
from figures.rules import at


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first column is text, the others are numbers."""
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def signed(score: float) -> str:
    """A score with its sign and two digits; rounding decides no sign."""
    text = f"{score:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text


def spectrum_table(found: Sequence[Found], levels: Sequence[float]) -> list[str]:
    """Exact value, estimate and bound at some ε of each part, and the estimate's distance in standard errors."""
    rows = []
    for one in found:
        for level in levels:
            if min(abs(one.epsilon - level)) > 1e-9:
                continue
            row = at(one, level)
            exact = float(one.exact(level))
            error = float(one.error[abs(one.epsilon - level).argmin()])
            numbers = [f"{level:g}", *(f"{v:.6f}" for v in (exact, row["delta"], row["lower"]))]
            rows.append([one.part.label, *numbers, signed((row["delta"] - exact) / error)])
    return markdown(["mechanism", "ε", "exact δ", "δ̂", "certified ≥", "(δ̂ − δ)/se"], rows)
