"""Every figure: its studies, what must hold, how it is drawn, what its table shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fdp.figures.audits import Audits, all_detected, audit_table, few_false_alarms, rarely_detected, tighter_is_no_worse
from fdp.figures.boxes import draw_boxes
from fdp.figures.curves import Curves, curve_table, draw_both, draw_curve, limits_hold, one_run_is_near
from fdp.figures.errors import Errors, draw_mse, errors_fall, errors_near_reference, mse_table
from paper_figures.figure import Figure, Paper
from paper_figures.parts import Part

SMALL = (100, 1000, 10_000, 100_000)
LARGE = (*SMALL, 1_000_000)
CURVES = Curves(SMALL, LARGE)
CURVE_RULES = (one_run_is_near, limits_hold)

_FIGURES = (
    Figure(
        "fig1",
        "R19",
        "the error of the estimated curve against the number of samples",
        (
            Part("gauss", "Gaussian, μ = 1"),
            Part("sgd", "DP-SGD, 10 updates"),
            Part("laplace", "Laplace, b = 1"),
            Part("subsampled", "subsampled Gaussian, 5 of 10"),
        ),
        (errors_fall, errors_near_reference),
        draw_mse,
        mse_table,
        Errors(400, SMALL, 1000, LARGE),
    ),
    Figure(
        "fig2",
        "R19",
        "the curve of the Gaussian mechanism",
        (Part("gauss", "Gaussian, μ = 1"),),
        CURVE_RULES,
        partial(draw_curve, title="Fig. 2: Gaussian mechanism, μ = 1", symbol="T"),
        curve_table,
        CURVES,
    ),
    Figure(
        "fig3",
        "R19",
        "the curve of DP-SGD",
        (Part("sgd", "DP-SGD, 10 updates"),),
        CURVE_RULES,
        partial(draw_curve, title="Fig. 3: DP-SGD, 10 updates", symbol="T"),
        curve_table,
        CURVES,
    ),
    Figure(
        "fig4",
        "R20",
        "audits of true claims",
        (Part("gauss", "Gaussian, μ = 1 is claimed"), Part("sgd", "DP-SGD, 10 updates are claimed")),
        (few_false_alarms,),
        partial(draw_boxes, title="Fig. 4: true claims", columns=3),
        audit_table,
        Audits(
            ((10_000, 1000), (10_000, 10_000), (10_000, 100_000)),
            ((10_000, 1000), (10_000, 10_000), (10_000, 100_000), (10_000, 1_000_000)),
        ),
    ),
    Figure(
        "fig5",
        "R21",
        "audits of false claims",
        (Part("gauss", "Gaussian, μ = 0.5 is claimed"), Part("sgd", "DP-SGD, 5 updates are claimed")),
        (
            all_detected({"gauss": (1000, 10_000), "sgd": (10_000,)}),
            rarely_detected("sgd", 1000, (0.07, 0.13)),
            tighter_is_no_worse,
        ),
        partial(draw_boxes, title="Fig. 5: false claims", columns=2),
        audit_table,
        Audits(((10_000, 1000), (10_000, 10_000)), ((10_000, 1000), (10_000, 10_000))),
    ),
    Figure(
        "fig9",
        "R19",
        "the curve of the Laplace mechanism",
        (Part("laplace", "Laplace, b = 1"),),
        CURVE_RULES,
        partial(draw_curve, title="Fig. 9: Laplace mechanism, b = 1", symbol="T"),
        curve_table,
        CURVES,
    ),
    Figure(
        "fig10",
        "R19",
        "the curves of the subsampled Gaussian mechanism, in one direction and symmetrised",
        (Part("subsampled", "subsampled Gaussian, 5 of 10"),),
        CURVE_RULES,
        partial(draw_both, title="Fig. 10: subsampled Gaussian, 5 of 10 rows"),
        curve_table,
        CURVES,
    ),
    Figure(
        "fig12",
        "R22",
        "audits of a false claim with few training samples and small γ",
        (Part("", "Gaussian, μ = 0.2 is claimed"),),
        (all_detected({"": (10_000,)}), tighter_is_no_worse),
        partial(draw_boxes, title="Fig. 12: μ = 0.2 is claimed of the Gaussian mechanism with μ = 1", columns=3),
        audit_table,
        Audits(
            ((100, 10_000), (1000, 10_000), (10_000, 10_000)),
            ((100, 10_000), (1000, 10_000), (10_000, 10_000)),
            (0.1, 0.05, 0.01),
        ),
    ),
)

PAPER = Paper(
    "fdp", "the f-DP paper", Path(__file__).resolve().parent.parent, {figure.name: figure for figure in _FIGURES}
)
"""All of them."""
