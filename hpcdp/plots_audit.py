"""The picture of an audit: the claimed curve, the estimate, the vulnerable point and its box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.auditing import Audit
from hpcdp.plots import check_path, save
from hpcdp.sequential_audit import SequentialAudit

_INK, _CLAIM, _BOX = "#1b4f8a", "#b5482a", "#c9a227"


def draw_audit(audit: Audit, path: str | Path | None = None) -> Any:
    """Draw the pair with the largest margin, as Figure 4 of Askin et al. (2025); the right panel is near the box.

    With a path (.png or .svg), write it. Returns the matplotlib Figure.
    """
    from matplotlib.figure import Figure

    check_path(path)
    figure = Figure(figsize=(13, 5.4), layout="constrained")
    whole, near = figure.subplots(1, 2)
    box = audit.worst
    centre, corner = (box.alpha, box.beta), (box.alpha_upper, box.beta_upper)
    if box.orientation == "reverse":
        centre, corner = centre[::-1], corner[::-1]
    for axis in (whole, near):
        _draw_curves(axis, audit, centre, corner)
    size = max(3.0 * (corner[0] - centre[0]), 3.0 * (corner[1] - centre[1]), 2.0 * abs(box.point_margin), 0.01)
    near.set(
        xlim=(max(0.0, centre[0] - size), min(1.0, centre[0] + size)),
        ylim=(max(0.0, centre[1] - size), min(1.0, centre[1] + size)),
        title="near the vulnerable point",
    )
    said = "violation" if box.violated else "no violation found"
    whole.set(xlim=(0, 1), ylim=(0, 1), title=f"{audit.result.name}, pair {box.pair}, {box.orientation}: {said}")
    whole.legend(frameon=False)
    return save(figure, path)


def draw_sequential(audit: SequentialAudit, path: str | Path | None = None) -> Any:
    """Draw the evidence against the claim after each batch; with a path (.png or .svg), write it. Returns the Figure."""
    from matplotlib.figure import Figure

    check_path(path)
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    axis = figure.subplots()
    samples = [0, *(look.samples for look in audit.looks)]
    evidence = [1.0, *(max(look.evidence, 1e-300) for look in audit.looks)]
    axis.plot(samples, evidence, "o-", color=_INK, markersize=4, linewidth=1.1, label="evidence against the claim")
    axis.axhline(1.0 / (1.0 - audit.confidence), color=_CLAIM, linewidth=1.5, label="refuted from here on")
    axis.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
    said = "violation" if audit.looks[-1].refuted else "no violation found"
    axis.set(
        yscale="log",
        xlabel="samples a side, training included",
        ylabel="evidence",
        title=f"{audit.name}: {audit.claim.text}: {said}",
    )
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return save(figure, path)


def _draw_curves(axis: Any, audit: Audit, centre: tuple[float, ...], corner: tuple[float, ...]) -> None:
    from matplotlib.patches import Rectangle

    result, box = audit.result, audit.worst
    sizes = np.unique(np.concatenate([np.linspace(0.0, 1.0, 1001), np.geomspace(1e-6, 1.0, 400)]))
    axis.plot([0, 1], [1, 0], color="#999999", linewidth=0.8, linestyle=":", label="perfect privacy")
    axis.plot(sizes, audit.claim.tradeoff(sizes), color=_CLAIM, linewidth=1.7, label=f"claimed: {audit.claim.text}")
    trained = [result[f"training_{name}"][box.pair] for name in ("alpha", "beta")]
    tested = [result[name][box.pair] for name in ("alpha", "beta")]
    if box.orientation == "reverse":
        trained, tested = trained[::-1], tested[::-1]
    order = np.lexsort((-trained[1], trained[0]))
    x, y = (np.concatenate([[first], v[order], [last]]) for v, first, last in zip(trained, (0, 1), (1, 0), strict=True))
    axis.plot(x, y, color=_INK, linewidth=0.9, alpha=0.6, label="training estimate")
    axis.plot(*tested, ".", color=_INK, markersize=3, label="test, every η")
    low = [max(0.0, 2.0 * c - k) for c, k in zip(centre, corner, strict=True)]  # as far below as the limits are above
    axis.add_patch(Rectangle((low[0], low[1]), corner[0] - low[0], corner[1] - low[1], facecolor=_BOX, alpha=0.35))
    axis.plot(*corner, marker="s", color=_BOX, markersize=4, linestyle="none", label="upper limits, certified")
    axis.plot(
        *centre, marker="o", color=_CLAIM, markersize=5, linestyle="none", label=f"vulnerable point, η = {box.eta:.3g}"
    )
    axis.set(xlabel="type-I error α", ylabel="type-II error β")
    axis.grid(alpha=0.25)
