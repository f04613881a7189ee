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
SGD = {
    "mechanism.call": "toy_dpsgd",
    "mechanism.parameters": {"batch": 5, "rate": 0.2, "sigma": 0.2, "updates": 10},
}
LAPLACE = {"mechanism.parameters": {"scale": 1.0}}
SUBSAMPLED = {
    "mechanism.call": "subsampled",
    "mechanism.parameters": {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5},
}
"""What the other mechanisms change in the studies of the Gaussian one."""
MORE = {"estimate.train": 1_000_000}
FEW_TESTS = {"estimate.test": 10_000}

_FIGURES = (
    Figure(
        "fig1",
        "the error of the estimated curve against the number of samples",
        (
            Part("gauss", "Gaussian, μ = 1"),
            Part("sgd", "DP-SGD, 10 updates", changes=SGD),
            Part("laplace", "Laplace, b = 1", changes=LAPLACE),
            Part("subsampled", "subsampled Gaussian, 5 of 10", changes=SUBSAMPLED),
        ),
        (errors_fall, errors_near_reference),
        draw_mse,
        mse_table,
        Errors(400, SMALL, 1000, LARGE),
        large=MORE,
    ),
    Figure(
        "fig2",
        "the curve of the Gaussian mechanism",
        (Part("gauss", "Gaussian, μ = 1"),),
        CURVE_RULES,
        partial(draw_curve, title="Fig. 2: Gaussian mechanism, μ = 1", symbol="T"),
        curve_table,
        CURVES,
        "fig1",
        MORE,
    ),
    Figure(
        "fig3",
        "the curve of DP-SGD",
        (Part("sgd", "DP-SGD, 10 updates", changes=SGD),),
        CURVE_RULES,
        partial(draw_curve, title="Fig. 3: DP-SGD, 10 updates", symbol="T"),
        curve_table,
        CURVES,
        "fig1",
        MORE,
    ),
    Figure(
        "fig4",
        "audits of true claims",
        (
            Part("gauss", "Gaussian, μ = 1 is claimed"),
            Part("sgd", "DP-SGD, 10 updates are claimed", changes={**SGD, "study.claim": "file(dpsgd-10.csv)"}),
        ),
        (few_false_alarms,),
        partial(draw_boxes, title="Fig. 4: true claims", columns=3),
        audit_table,
        Audits(
            ((10_000, 1000), (10_000, 10_000), (10_000, 100_000)),
            ((10_000, 1000), (10_000, 10_000), (10_000, 100_000), (10_000, 1_000_000)),
        ),
        large={"estimate.test": 1_000_000},
    ),
    Figure(
        "fig5",
        "audits of false claims",
        (
            Part("gauss", "Gaussian, μ = 0.5 is claimed", changes={**FEW_TESTS, "study.claim": "gaussian(mu=0.5)"}),
            Part(
                "sgd", "DP-SGD, 5 updates are claimed", changes={**FEW_TESTS, **SGD, "study.claim": "file(dpsgd-5.csv)"}
            ),
        ),
        (
            all_detected({"gauss": (1000, 10_000), "sgd": (10_000,)}),
            rarely_detected("sgd", 1000, (0.07, 0.13)),
            tighter_is_no_worse,
        ),
        partial(draw_boxes, title="Fig. 5: false claims", columns=2),
        audit_table,
        Audits(((10_000, 1000), (10_000, 10_000)), ((10_000, 1000), (10_000, 10_000))),
        "fig4",
    ),
    Figure(
        "fig9",
        "the curve of the Laplace mechanism",
        (Part("laplace", "Laplace, b = 1", changes=LAPLACE),),
        CURVE_RULES,
        partial(draw_curve, title="Fig. 9: Laplace mechanism, b = 1", symbol="T"),
        curve_table,
        CURVES,
        "fig1",
        MORE,
    ),
    Figure(
        "fig10",
        "the curves of the subsampled Gaussian mechanism, in one direction and symmetrised",
        (Part("subsampled", "subsampled Gaussian, 5 of 10", changes=SUBSAMPLED),),
        CURVE_RULES,
        partial(draw_both, title="Fig. 10: subsampled Gaussian, 5 of 10 rows"),
        curve_table,
        CURVES,
        "fig1",
        MORE,
    ),
    Figure(
        "fig12",
        "audits of a false claim with few training samples and small γ",
        (Part("", "Gaussian, μ = 0.2 is claimed", changes={**FEW_TESTS, "study.claim": "gaussian(mu=0.2)"}),),
        (all_detected({"": (10_000,)}), tighter_is_no_worse),
        partial(draw_boxes, title="Fig. 12: μ = 0.2 is claimed of the Gaussian mechanism with μ = 1", columns=3),
        audit_table,
        Audits(
            ((100, 10_000), (1000, 10_000), (10_000, 10_000)),
            ((100, 10_000), (1000, 10_000), (10_000, 10_000)),
            (0.1, 0.05, 0.01),
        ),
        "fig4",
    ),
)

PAPER = Paper("f-DP", Path(__file__).resolve().parent.parent, {figure.name: figure for figure in _FIGURES})
"""All of them."""
