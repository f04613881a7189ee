"""The picture of an audit: the claimed curve, the estimate, the vulnerable point and its box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.notions._figure import Figure
from hpcdp.report._spectra import draw_legend, mark_edge
from hpcdp.report.colours import BOX, CERTIFIED, CLAIM, EXACT, QUIET
from hpcdp.report.plots import check_path, save
from hpcdp.report.words import pair_words
from hpcdp.results.audit import Audit
from hpcdp.results.sequential import SequentialAudit

_AROUND = 3.0  # boxes that the right panel shows to each side of the vulnerable point
_LEAST_EVIDENCE = 1e-6  # what is below is not drawn, so that the axis shows what speaks against a claim
_MARKED = 200  # looks that have a marker each
_SMALLEST = 1e-6  # half of its width at least


def draw_audit(audit: Audit, path: str | Path | None = None, upright: bool = False) -> Any:
    """Draw the pair with the largest margin, as Figure 4 of Askin et al. (2025); the right panel zooms on its box.

    With a path (.png or .svg), write it. upright: one panel above the other. Returns the matplotlib Figure.
    """
    check_path(path)
    figure = Figure(figsize=(4.9, 8.6) if upright else (13, 5.4), layout="constrained")
    whole, near = figure.subplots(*((2, 1) if upright else (1, 2)))
    box = audit.worst
    centre, corner = (box.alpha, box.beta), (box.alpha_upper, box.beta_upper)
    if box.orientation == "reverse":
        centre, corner = centre[::-1], corner[::-1]
    for axis in (whole, near):
        _draw_curves(axis, audit, centre, corner)
    sides = [max(_AROUND * (k - c), _SMALLEST) for c, k in zip(centre, corner, strict=True)]
    view = [(max(0.0, c - side), min(1.0, c + side)) for c, side in zip(centre, sides, strict=True)]
    near.set(xlim=view[0], ylim=view[1])
    limits = f"α ≤ {at_most(box.alpha_upper, '.4g')}, β ≤ {at_most(box.beta_upper, '.4g')}"
    near.set_title(f"the box: {limits}; margin to the claim {at_least(box.margin, '+.4g')}", fontsize=10.5)
    (left, right), (low, high) = view
    whole.add_patch(Rectangle((left, low), right - left, high - low, fill=False, edgecolor=EXACT, linewidth=0.8))
    said = "violation" if box.violated else "no violation found"
    whole.set(xlim=(0, 1), ylim=(0, 1))
    title = (
        f"{audit.result.name}: {audit.claim.text}: {said}\n{pair_words(audit.result, box.pair)}, {box.orientation}; "
    )
    whole.set_title(f"{title}limits certified at {percent(audit.result.confidence)}", fontsize=10.5)
    draw_legend(whole)
    return save(figure, path, audit.result.code_warnings)


def draw_sequential(audit: SequentialAudit, path: str | Path | None = None) -> Any:
    """Draw the evidence against the claim after each batch; with a path (.png or .svg), write it. Returns the Figure."""
    check_path(path)
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    axis = figure.subplots()
    samples = [0, *(look.samples for look in audit.looks)]
    evidence = np.array([1.0, *(look.evidence for look in audit.looks)])
    low = evidence < _LEAST_EVIDENCE
    shown = np.where(low, np.nan, evidence)
    marker = "o" if len(samples) <= _MARKED else None
    axis.plot(
        samples, shown, marker=marker, color=CERTIFIED, markersize=4, linewidth=1.1, label="evidence against the claim"
    )
    if low.any():
        mark_edge(axis, np.array(samples)[low], CERTIFIED, f"evidence below {_LEAST_EVIDENCE:g}")
    axis.axhline(audit.needed, color=CLAIM, linewidth=1.5, label="refuted from here on")
    axis.axhline(1.0, color=QUIET, linewidth=0.8, linestyle=":")
    said = "violation" if audit.looks[-1].refuted else "no violation found"
    axis.set(
        yscale="log",
        xlabel="samples per database, training included",
        ylabel="evidence",
        title=f"{audit.name}: {audit.claim}: {said}, at confidence {percent(audit.confidence)}",
    )
    axis.grid(alpha=0.25)
    draw_legend(axis)
    return save(figure, path, audit.code_warnings)


def _draw_curves(axis: Any, audit: Audit, centre: tuple[float, ...], corner: tuple[float, ...]) -> None:
    result, box = audit.result, audit.worst
    sizes = np.unique(np.concatenate([np.linspace(0.0, 1.0, 1001), np.geomspace(1e-6, 1.0, 400)]))
    axis.plot([0, 1], [1, 0], color=QUIET, linewidth=0.8, linestyle=":", label="perfect privacy")
    axis.plot(
        sizes,
        audit.claim.tradeoff(sizes),
        color=CLAIM,
        linestyle="--",
        linewidth=1.8,
        label=f"claimed: {audit.claim.text}",
    )
    trained = [result[f"training_{name}"][box.pair] for name in ("alpha", "beta")]
    tested = [result[name][box.pair] for name in ("alpha", "beta")]
    if box.orientation == "reverse":
        trained, tested = trained[::-1], tested[::-1]
    order = np.lexsort((-trained[1], trained[0]))
    x, y = (np.concatenate([[first], v[order], [last]]) for v, first, last in zip(trained, (0, 1), (1, 0), strict=True))
    axis.plot(x, y, color=CERTIFIED, linewidth=0.9, alpha=0.6, label="training estimate")
    axis.plot(*tested, ".", color=CERTIFIED, markersize=3, label="test, every η")
    low = [max(0.0, 2.0 * c - k) for c, k in zip(centre, corner, strict=True)]  # as far below as the limits are above
    axis.add_patch(
        Rectangle((low[0], low[1]), corner[0] - low[0], corner[1] - low[1], facecolor=BOX, edgecolor=EXACT, alpha=0.6)
    )
    axis.plot(*corner, marker="s", color=EXACT, markersize=4, linestyle="none", label="upper limits, certified")
    axis.plot(
        *centre,
        marker="o",
        color=EXACT,
        markerfacecolor="white",
        markersize=6,
        linestyle="none",
        label=f"vulnerable point, η = {box.eta:.3g}",
    )
    axis.set(xlabel="type-I error α", ylabel="type-II error β")
    axis.grid(alpha=0.25)
