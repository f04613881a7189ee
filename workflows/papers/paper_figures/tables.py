"""Tables of the pages, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first column is text, the others are numbers."""
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def signed(score: float) -> str:
    """A score with its sign and two digits; rounding decides no sign."""
    text = f"{score:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text
