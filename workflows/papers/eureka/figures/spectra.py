"""Spectra: exact curves, estimates with their bounds, how far the estimates are off, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from eureka.figures.rules import at
from paper_figures.parts import Found
from paper_figures.pictures import COLOURS, MARKERS, markdown, new_figure, signed

from hpcdp.report._spectra import LIMIT_WORDS


def draw_spectra(found: Sequence[Found], title: str, log: bool = False, floor: float = 1e-6) -> Any:
    """Exact curves and estimates above, δ̂ − δ with certified and approximate limits below. log: δ on a log axis."""
    figure, axes = new_figure()
    draw_curves(axes[0, 0], found, log=log, floor=floor)
    draw_differences(axes[1, 0], found)
    axes[0, 0].set_title(title, fontsize=11)
    axes[1, 0].set_xlabel("ε")
    return figure


def draw_curves(axis: Any, found: Sequence[Found], log: bool = False, floor: float = 1e-6, legend: bool = True) -> None:
    """Exact spectra as lines, estimates with bounds as points; open triangles are limits, where δ̂ may be 0."""
    for colour, marker, one in zip(COLOURS, MARKERS, found, strict=False):
        fine = np.linspace(one.epsilon.min(), one.epsilon.max(), 300)
        axis.plot(fine, one.exact(fine), color=colour, linewidth=1.2, alpha=0.9)
        shown = one.resolved
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
        _draw_limits(axis, one, one.epsilon, 0.0, colour)
    if not all(one.resolved.all() for one in found):
        axis.plot([], [], "v", color="#555555", markersize=6, markerfacecolor="none", label=LIMIT_WORDS)
    axis.plot([], [], color="#555555", linewidth=1.2, label="exact")
    axis.set_ylabel("δ(ε)")
    if log:
        axis.set_yscale("log")
        axis.set_ylim(bottom=floor)
    else:
        axis.set_ylim(bottom=0)
    if legend:
        axis.legend(frameon=False, fontsize=9)


def _draw_limits(axis: Any, one: Found, epsilon: Any, base: Any, colour: str) -> None:
    """Open triangles at the limits, less `base`, of what is not significantly above 0, as hpcdp's own pictures have them."""
    unsure = ~one.resolved
    style = {"color": colour, "markersize": 6, "markerfacecolor": "none", "linestyle": "none"}
    axis.plot(epsilon[unsure], (one.limits - base)[unsure], "v", **style)


def draw_differences(axis: Any, found: Sequence[Found]) -> None:
    """δ̂ − δ at each ε, with a bar from the certified bound to the approximate limit."""
    width = min((np.diff(one.epsilon).min(initial=np.inf) for one in found), default=0.0)
    for place, (colour, marker, one) in enumerate(zip(COLOURS, MARKERS, found, strict=False)):
        truth = one.exact(one.epsilon)
        delta, lower, upper = (one.column(name)[one.resolved] for name in ("delta", "lower", "upper"))
        aside = 0.18 * width * (place - (len(found) - 1) / 2) if np.isfinite(width) else 0.0
        axis.errorbar(
            (one.epsilon + aside)[one.resolved],
            delta - truth[one.resolved],
            yerr=np.maximum([delta - lower, upper - delta], 0.0),
            fmt=marker,
            color=colour,
            markersize=3,
            markerfacecolor="white",
            linewidth=0.9,
        )
        _draw_limits(axis, one, one.epsilon + aside, truth, colour)
    axis.axhline(0.0, color="#555555", linewidth=1.0)
    axis.set_ylabel("δ̂ − exact")
    axis.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))


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
