"""Figures 1 to 4 of Dandekar, Basu and Bressan (PoPETs 2021): what is published beside what is exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcdp.notions._figure import Figure
from hpcdp.notions.at_risk import (
    both_as_published,
    exact_confidence,
    model_confidence,
    optimum,
    samples_as_published,
)
from hpcdp.report.colours import CERTIFIED, CLAIM, EXACT, shades

_POINTS = 400


def draw_model() -> Any:
    """Figure 1: γ₁ against ε, as published, for several k at ε₀ = 1 and for several ε₀ at k = 1; dashed: P(|L| <= ε), exact."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    level = np.linspace(0.0, 1.0, _POINTS)
    for colour, k in zip(shades(3), (1, 2, 3), strict=True):
        left.plot(model_confidence(level, 1.0, k), level, color=colour, label=f"k = {k}, as published")
    left.plot(exact_confidence(level, 1.0), level, color=EXACT, linestyle="--", label="exact, k = 1")
    levels0 = (1.0, 1.5, 2.0, 2.5, 3.0)
    for colour, level0 in zip(shades(len(levels0)), levels0, strict=True):
        inside = np.linspace(0.0, level0, _POINTS)[:-1]
        right.plot(model_confidence(inside, level0), inside, color=colour, label=f"ε₀ = {level0:g}, as published")
        right.plot(exact_confidence(inside, level0), inside, color=colour, linestyle="--")
    left.set(title="Figure 1a: ε₀ = 1")
    right.set(title="Figure 1b: k = 1; dashed: exact")
    for axes in (left, right):
        axes.set(xlabel="P(|L| <= ε), and what Theorem 4 takes for it", ylabel="ε")
        axes.grid(alpha=0.25)
    left.legend()
    right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))  # it would hide the exact lines
    return figure


def draw_samples() -> Any:
    """Figure 2: pairs for which 1 − 2e^(−2ρ²n) is α, as published, against α for several ρ."""
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    share = np.linspace(0.0, 0.995, _POINTS)
    rhos = (0.0001, 0.001, 0.01, 0.1)
    for colour, rho in zip(shades(len(rhos)), rhos, strict=True):
        axes.plot(share, samples_as_published(share, rho), color=colour, label=f"ρ = {rho:g}")
    axes.set(yscale="log", xlabel="α", ylabel="pairs", title="Figure 2: ln(2/(1 − α))/(2ρ²), as published")
    axes.grid(alpha=0.25, which="both")
    axes.legend()
    return figure


def draw_both() -> Any:
    """Figure 3: γ̂₃ at ε₀ = 1 as published, against ε, for several ρ (n = 10,000) and for several n (ρ = 0.01); η = γ₂ = 1."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    level = np.linspace(0.0, 1.0, _POINTS)
    for colour, rho in zip(shades(4), (0.01, 0.012, 0.015, 0.02), strict=True):
        left.plot(level, both_as_published(level, 1.0, 1.0, 10_000, rho), color=colour, label=f"ρ = {rho:g}")
    for colour, pairs in zip(shades(4), (10_000, 15_000, 20_000, 40_000), strict=True):
        right.plot(level, both_as_published(level, 1.0, 1.0, pairs), color=colour, label=f"n = {pairs:,}")
    for axes, title in ((left, "Figure 3a: n = 10,000"), (right, "Figure 3b: ρ = 0.01")):
        axes.plot(level, exact_confidence(level, 1.0), color=EXACT, linestyle="--", label="exact, sensitivity known")
        axes.set(xlabel="ε", ylabel="γ̂₃ as published", title=title)
        axes.grid(alpha=0.25)
        axes.legend()
    return figure


def draw_budget(epsilon0: float = 0.5, cost: float = 5500.0, people: float = 100.0) -> Any:
    """Figure 4: the budget against ε, by the published γ₁ and by the exact distribution, and both optima."""
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    level = np.linspace(0.02, 1.0, _POINTS) * epsilon0
    before = cost * people * np.exp(-1.0 / epsilon0)
    kinds: tuple[tuple[str, Any, str], ...] = (
        ("model", model_confidence, CLAIM),
        ("exact", exact_confidence, CERTIFIED),
    )
    for law, confidence, colour in kinds:
        share, best = (
            confidence(level, epsilon0),
            optimum(epsilon0, cost, people, "exact" if law == "exact" else "model"),
        )
        said = "as published" if law == "model" else "exact"
        budget = share * cost * people * np.exp(-1.0 / level) + (1.0 - share) * before
        axes.plot(level, budget, color=colour, label=f"{said}: {best.budget:,.2f} at ε = {best.epsilon:.4f}")
        axes.plot([best.epsilon], [best.budget], "o", color=colour)
    axes.axhline(before, color=EXACT, linestyle=":", label=f"ε₀ = {epsilon0:g}: {before:,.2f}")
    axes.set(xlabel="ε", ylabel="budget", title="Figure 4: compensation budget")
    axes.grid(alpha=0.25)
    axes.legend()
    return figure
