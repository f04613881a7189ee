"""Pictures of audits: the claimed curve, the estimate, the vulnerable point and its confidence rectangle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from fdp.figures.audits import SHOWN
from paper_figures.parts import Found

from hpcdp.notions.curve import TradeOffCurve
from hpcdp.study.claims import Claim, parse_claim

_CLAIM, _ESTIMATE, _BOX, _WIDE = "#b5482a", "#1b4f8a", "#c9a227", "#777777"


def draw_boxes(found: Sequence[Found], title: str, columns: int) -> Any:
    """A panel for each audit that is shown, near the vulnerable point; each part begins a row."""
    from matplotlib.figure import Figure

    rows = [
        (one, one.result["shown"][start : start + columns])
        for one in found
        for start in range(0, len(one.result["shown"]), columns)
    ]
    figure = Figure(figsize=(3.4 * columns, 1.1 + 3.2 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, (one, row) in zip(axes, rows, strict=True):
        for axis, shown in zip(line, row, strict=True):
            _draw_panel(axis, one, shown)
        line[0].set_ylabel(f"{one.part.label}\n\ntype-II error β" if len(found) > 1 else "type-II error β")
    for axis in axes[-1]:
        axis.set_xlabel("type-I error α")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5 if columns > 2 else 3, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def _draw_panel(axis: Any, one: Found, shown: Mapping[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    claim = parse_claim(str(one.study.study.claim), one.study.folder)
    sizes = np.unique(np.concatenate([np.linspace(0.0, 1.0, 2001), np.geomspace(1e-6, 1.0, 400)]))
    estimate = TradeOffCurve.from_points(*shown["curve"])
    axis.plot(sizes, claim.tradeoff(sizes), color=_CLAIM, linewidth=1.5, label="claimed curve")
    axis.plot(estimate.alpha, estimate.beta, color=_ESTIMATE, linewidth=1.1, label="estimated curve")
    boxes = [shown[procedure] for procedure in SHOWN]
    styles: tuple[dict[str, Any], ...] = (
        {"fill": False, "edgecolor": _WIDE, "linestyle": "--", "label": "rectangle, as published"},
        {"facecolor": _BOX, "alpha": 0.5, "label": "rectangle of hpcdp, exact limits"},
    )
    for box, marker, style in zip(boxes, ("o", "s"), styles, strict=True):
        centre = [box[name] for name in ("alpha", "beta")]
        half = [box[f"{name}_upper"] - box[name] for name in ("alpha", "beta")]
        corner = (centre[0] - half[0], centre[1] - half[1])
        axis.add_patch(Rectangle(corner, 2.0 * half[0], 2.0 * half[1], **style))
        label = "points that are tested" if marker == "o" else None
        axis.plot(*centre, marker, color=_CLAIM, markersize=3, linestyle="none", label=label, clip_on=False, zorder=3)
    _zoom(axis, boxes, claim)
    numbers = f"n₁ = {shown['train']:,}, n₂ = {shown['test']:,}, γ = {shown['gamma']:g}"
    published, exact = ("violation" if box["violated"] else "none found" for box in boxes)
    axis.set_title(f"{numbers}\npublished: {published}; exact limits: {exact}", fontsize=8)
    axis.grid(alpha=0.25)


def _zoom(axis: Any, boxes: Sequence[Mapping[str, Any]], claim: Claim) -> None:
    """A square that holds the rectangles, and the claimed curve above them where it is near."""
    for name, set_limits in (("alpha", axis.set_xlim), ("beta", axis.set_ylim)):
        middle = 0.5 * (boxes[0][name] + boxes[1][name])
        reach = 1.15 * max(_reach(boxes, claim), 1e-3)
        low = min(max(middle - reach, 0.0), max(1.0 - 2.0 * reach, 0.0))
        set_limits(low, min(low + 2.0 * reach, 1.0))


def _reach(boxes: Sequence[Mapping[str, Any]], claim: Claim) -> float:
    found = []
    for name in ("alpha", "beta"):
        middle = 0.5 * (boxes[0][name] + boxes[1][name])
        found += [abs(box[name] - middle) + box[f"{name}_upper"] - box[name] for box in boxes]
    return max(*found, *(abs(float(claim.tradeoff(box["alpha"])) - box["beta"]) for box in boxes))
