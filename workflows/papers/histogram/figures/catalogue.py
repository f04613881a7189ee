"""Every figure: its studies, what must hold, how it is drawn, what its table shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from histogram.figures.intervals import (
    Intervals,
    draw_intervals,
    intervals_cover,
    intervals_table,
    narrower_than,
    published_is_near,
)
from paper_figures.figure import Figure, Paper
from paper_figures.parts import Part

_OUTPUTS = (50_000, 100_000, 200_000, 500_000)
NORMAL = {"mechanism.parameters.noise": "gaussian"}


def _laplace(scale: float, lipschitz: float) -> dict[str, Any]:
    """What a scale changes in the study of scale 1: the constant C too."""
    return {"mechanism.parameters.scale": scale, "estimate.parameters.lipschitz": lipschitz}


_FIGURES = (
    Figure(
        "precision",
        "a pair, 0 and 1: how many outputs a precision takes",
        (
            Part("1", "Laplace, s = 1, γ = 0.2", nominal=0.2),
            Part("2", "Laplace, s = 2, γ = 0.1", nominal=0.1, changes=_laplace(2.0, 0.6354)),
            Part("5", "Laplace, s = 5, γ = 0.05", nominal=0.05, changes=_laplace(5.0, 0.2207)),
            Part("gauss", "normal, s = 0.6, γ = 0.3", nominal=0.3, changes=_laplace(0.6, 1.4864) | NORMAL),
        ),
        (intervals_cover, published_is_near, narrower_than((0.19, 0.125, 0.08, 0.6))),
        partial(draw_intervals, title="Intervals of pure ε, 95 %, if C holds"),
        intervals_table,
        Intervals(_OUTPUTS),
    ),
    Figure(
        "renyi",
        "Rényi divergence of order 2, 0 and 1",
        (
            Part(
                "",
                "Laplace, s = 1.5, γ = 0.04",
                nominal=0.04,
                changes=_laplace(1.5, 0.9134) | {"estimate.test": 5_000_000},
            ),
        ),
        (intervals_cover, published_is_near),
        partial(draw_intervals, title="Intervals of pure ε beside a Rényi estimate"),
        intervals_table,
        Intervals((1_000_000, 5_000_000), 2.0, 20),
        "precision",
    ),
    Figure(
        "domain",
        "all inputs of [0, 1], by midpoints that are drawn once",
        (Part("", "Laplace, s = 1, 100 midpoints", nominal=0.2),),
        (intervals_cover,),
        partial(draw_intervals, title="All pairs of inputs of [0, 1]"),
        intervals_table,
        Intervals((50_000, 200_000), None, 20),
    ),
)

PAPER = Paper("Histograms", Path(__file__).resolve().parent.parent, {figure.name: figure for figure in _FIGURES})
"""All of them."""
