"""What pictures share, which is colours, panels and small files, and what tables share."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

COLOURS = ("#1b4f8a", "#c0492b", "#2e7d4f", "#7b4fa3")
MARKERS = ("o", "s", "^", "D")
_DPI, _PALETTE = 110, 128


def new_figure(rows: Sequence[float] = (3.0, 1.3), columns: int = 1, width: float = 6.6) -> tuple[Any, Any]:
    """A figure of panels below each other of these heights, in so many columns; returns it and the axes, (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 1.35 + 0.95 * sum(rows)), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False, height_ratios=list(rows), sharex="col")
    for axis in axes.flat:
        axis.grid(alpha=0.25)
    return figure, axes


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG with few colours, which is small; equal results give equal files."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = BytesIO()
    figure.savefig(buffer, dpi=_DPI, format="png")
    Image.open(buffer).convert("RGB").quantize(_PALETTE).save(path, optimize=True)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first column is text, the others are numbers."""
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def signed(score: float) -> str:
    """A score with its sign and two digits; rounding decides no sign."""
    text = f"{score:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text
