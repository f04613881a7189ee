"""What the pictures share: exact curves, estimates with their bounds, and how far the estimates are off."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from figures.parts import Found

COLOURS = ("#1b4f8a", "#c0492b", "#2e7d4f", "#7b4fa3")
MARKERS = ("o", "s", "^", "D")
_DPI, _PALETTE = 110, 64


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


def draw_spectra(found: Sequence[Found], title: str, log: bool = False, floor: float = 1e-6) -> Any:
    """Exact curves and estimates above, δ̂ − δ with certified and approximate limits below. log: δ on a log axis."""
    figure, axes = new_figure()
    draw_curves(axes[0, 0], found, log=log, floor=floor)
    draw_differences(axes[1, 0], found)
    axes[0, 0].set_title(title, fontsize=11)
    axes[1, 0].set_xlabel("ε")
    return figure


def draw_curves(axis: Any, found: Sequence[Found], log: bool = False, floor: float = 1e-6, legend: bool = True) -> None:
    """Exact spectra as lines, estimates with bounds as points; where log, estimates of 0 are left out."""
    for colour, marker, one in zip(COLOURS, MARKERS, found, strict=False):
        fine = np.linspace(one.epsilon.min(), one.epsilon.max(), 300)
        axis.plot(fine, one.exact(fine), color=colour, linewidth=1.2, alpha=0.9)
        shown = one.column("delta") > 0 if log else slice(None)
        delta, lower, upper = (one.column(name)[shown] for name in ("delta", "lower", "upper"))
        axis.errorbar(
            one.epsilon[shown],
            delta,
            yerr=np.maximum([delta - lower, upper - delta], 0.0),
            fmt=marker,
            color=colour,
            markersize=4,
            markerfacecolor="white",
            linewidth=0.9,
            capsize=2,
            label=one.part.label,
        )
    axis.plot([], [], color="#555555", linewidth=1.2, label="exact")
    axis.set_ylabel("δ(ε)")
    if log:
        axis.set_yscale("log")
        axis.set_ylim(bottom=floor)
    else:
        axis.set_ylim(bottom=0)
    if legend:
        axis.legend(frameon=False, fontsize=9)


def draw_differences(axis: Any, found: Sequence[Found]) -> None:
    """δ̂ − δ at each ε, with a bar from the certified bound to the approximate limit."""
    width = min((np.diff(one.epsilon).min(initial=np.inf) for one in found), default=0.0)
    for place, (colour, marker, one) in enumerate(zip(COLOURS, MARKERS, found, strict=False)):
        truth = one.exact(one.epsilon)
        delta, lower, upper = (one.column(name) for name in ("delta", "lower", "upper"))
        aside = 0.18 * width * (place - (len(found) - 1) / 2) if np.isfinite(width) else 0.0
        axis.errorbar(
            one.epsilon + aside,
            delta - truth,
            yerr=np.maximum([delta - lower, upper - delta], 0.0),
            fmt=marker,
            color=colour,
            markersize=3,
            markerfacecolor="white",
            linewidth=0.9,
        )
    axis.axhline(0.0, color="#555555", linewidth=1.0)
    axis.set_ylabel("δ̂ − exact")
    axis.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
