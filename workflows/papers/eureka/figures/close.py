"""Figures 10 and 11: Laplace mechanisms whose ε₀ differ by a thousandth, and which of them the data fit best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from eureka.figures.rules import at
from paper_figures.figure import Check
from paper_figures.parts import Found
from paper_figures.pictures import COLOURS, MARKERS, markdown, new_figure

from hpcdp.notions.accuracy import bayes_error

_MOST_ERROR = 1e-4


def _fits(one: Found) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Claims, best fit first, and the comparisons of neighbours."""
    if one.fit is None:
        raise ValueError(f"{one.study.name}: no fit is kept")
    return list(one.fit["fits"]), list(one.fit["steps"])


def _own_claim(one: Found) -> str:
    return f"laplace(epsilon={one.study.mechanism.parameters['epsilon']:g})"


def true_fits_best(found: Sequence[Found]) -> list[Check]:
    """With a combined se of at most 10⁻⁴ the true claim fits best and its neighbours are rejected; with more, it is not."""
    checks = []
    for one in found:
        level = float(one.epsilon[abs(one.epsilon - 0.5).argmin()])
        exact = float(one.exact(level))
        combined = float(np.sqrt(2.0) * bayes_error(level, exact, 2 * one.test))
        fits, steps = _fits(one)
        best, own = fits[0]["claim"], _own_claim(one)
        near = [step for step in steps if own in (step["better"], step["worse"])]
        apart = all(step["separable"] and step["better"] == own for step in near)
        evidence = " and ".join(f"{step['evidence']:.1f}" for step in near)
        seen = f"best fit {best}, the worse of each two is {evidence} standard errors away"
        if combined <= _MOST_ERROR:
            rule = f"{one.part.label}: combined se {combined:.1e}, so the true claim fits best and its neighbours are rejected"
            checks.append(Check(rule, apart and best == own, seen))
            continue
        rejected = any(step["separable"] and step["worse"] == own for step in near)
        needed = max((step["test"] for step in near if step["test"] and not step["separable"]), default=0)
        verdict = "told apart" if apart else f"not separable, about {needed:,} test samples would tell them apart"
        rule = f"{one.part.label}: combined se {combined:.1e}, so more than 1e-4, and the true claim is not rejected"
        checks.append(Check(rule, not rejected, f"{verdict}; {seen}"))
    return checks


def draw_close(found: Sequence[Found]) -> Any:
    """Figure 10: three curves that the eye cannot tell apart, and below, all of them minus the curve of ε₀ = 1."""
    figure, axes = new_figure(rows=(2.2, 2.6))
    middle = found[1]
    fine = np.linspace(middle.epsilon.min(), middle.epsilon.max(), 300)
    for place, (colour, marker, one) in enumerate(zip(COLOURS, MARKERS, found, strict=False)):
        axes[0, 0].plot(fine, one.exact(fine), color=colour, linewidth=1.1, label=f"exact, {one.part.label}")
        axes[1, 0].plot(fine, one.exact(fine) - middle.exact(fine), color=colour, linewidth=1.2)
        aside = one.epsilon + 0.012 * (place - 1)
        style = {"color": colour, "markersize": 4, "markerfacecolor": "white", "linewidth": 0.9}
        axes[0, 0].plot(one.epsilon, one.column("delta"), marker, **style)
        axes[1, 0].errorbar(
            aside,
            one.column("delta") - middle.exact(one.epsilon),
            yerr=2 * one.error,
            fmt=marker,
            label=f"{one.part.label}, ± 2 se",
            **style,
        )
    axes[0, 0].set(ylabel="δ(ε)", ylim=(0, None))
    axes[0, 0].set_title("Fig. 10: Laplace mechanisms with ε₀ = 0.999, 1, 1.001", fontsize=11)
    axes[1, 0].set(xlabel="ε", ylabel="minus the curve of ε₀ = 1")
    axes[1, 0].ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    low, high = axes[1, 0].get_ylim()
    axes[1, 0].set_ylim(low, high + 0.2 * (high - low))
    axes[0, 0].legend(frameon=False, fontsize=9)
    axes[1, 0].legend(frameon=False, fontsize=9, ncols=3, loc="upper center")
    return figure


def draw_fits(found: Sequence[Found]) -> Any:
    """Figure 11: each estimate at ε = 0.5 beside the three exact values."""
    figure, axes = new_figure(rows=(3.6,))
    axis = axes[0, 0]
    level = float(found[0].epsilon[0])
    for colour, one in zip(COLOURS, found, strict=False):
        axis.axhline(float(one.exact(level)), color=colour, linewidth=1.2, label=f"exact, {one.part.label}")
    for place, (colour, marker, one) in enumerate(zip(COLOURS, MARKERS, found, strict=False)):
        delta, error = at(one, level)["delta"], float(one.error[0])
        axis.errorbar(
            [place], [delta], yerr=[2 * error], fmt=marker, color=colour, markersize=6, capsize=3, linewidth=1.2
        )
    axis.set_xticks(range(len(found)), [f"estimated, {one.part.label}" for one in found])
    axis.set(xlim=(-0.6, len(found) - 0.4), ylabel=f"δ({level:g}), bars ± 2 se")
    axis.set_title(f"Fig. 11: which ε₀ fits, at ε = {level:g} with {found[0].test:,} test samples", fontsize=11)
    axis.grid(axis="x", alpha=0.0)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.12 * (high - low))
    axis.legend(frameon=False, fontsize=9, ncols=3, loc="upper center")
    return figure


def fit_table(found: Sequence[Found]) -> list[str]:
    """The score of each claim for each mechanism, and which fits best."""
    claims = [_own_claim(one) for one in found]
    rows = []
    for one in found:
        fits, steps = _fits(one)
        scores = {fit["claim"]: fit["score"] for fit in fits}
        near = [step for step in steps if fits[0]["claim"] in (step["better"], step["worse"])]
        told = "yes" if all(step["separable"] for step in near) else "no"
        rows.append([one.part.label, *(f"{scores[claim]:.1f}" for claim in claims), fits[0]["claim"], told])
    return markdown(["mechanism", *(f"score of {claim}" for claim in claims), "best fit", "neighbours rejected"], rows)
