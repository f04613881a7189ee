"""Figures 4c and 4d: what is stated of the accuracy before a run, and how far estimates really are off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from eureka.figures.rules import at
from paper_figures.figure import Check, agreement
from paper_figures.parts import Floats, Found
from paper_figures.pictures import COLOURS, MARKERS, markdown, new_figure

from hpcdp.notions.accuracy import bayes_error, corollary2, share_radius

_EXACT = 1e-12
_LEAST, _MOST = 0.7, 2.0


def formulas_agree(found: Sequence[Found]) -> list[Check]:
    """α is Corollary 2 written out: (24c + 2)·e^ε·√(ln(4/β)/n); the radius is Hoeffding's, of all entries at once."""
    (one,) = found
    e = one.study.estimate
    constant = 2.0 / math.sqrt(2.0 - math.sqrt(3.0))
    labelled, failure = 4 * min(e.train, e.test), (1.0 - e.confidence) / 2.0
    each = (1.0 - e.confidence) / (2 * len(one.result["accuracy"]))
    worst = 0.0
    for row in one.result["accuracy"]:
        growth = math.exp(row["epsilon"])
        alpha = (24.0 * constant + 2.0) * growth * math.sqrt(math.log(4.0 / failure) / labelled)
        radius = math.sqrt(0.5 * math.log(2.0 / each) * (1.0 + growth**2) / e.test)
        worst = max(worst, abs(row["alpha"] / alpha - 1.0), abs(row["radius"] / radius - 1.0))
    rule = f"stated α and radius equal their formulas within {_EXACT:g}"
    return [Check(rule, worst <= _EXACT, agreement(worst, _EXACT))]


def draw_alpha(found: Sequence[Found]) -> Any:
    """α of Corollary 2 and the finite-sample radius against n, and the error that was seen."""
    (one,) = found
    figure, axes = new_figure(rows=(4.0,))
    axis = axes[0, 0]
    n = np.geomspace(1e3, 1e15, 200)
    failure = 1.0 - one.study.estimate.confidence
    labelled = 4 * min(one.study.estimate.train, one.study.estimate.test)
    for colour, marker, epsilon in zip(COLOURS, MARKERS, one.epsilon, strict=False):
        alpha = [corollary2(1, epsilon, samples, failure, 2) for samples in n]
        axis.plot(n, alpha, color=colour, linewidth=1.2, label=f"ε = {epsilon:g}")
        radius = share_radius(epsilon, n / 4.0, failure / (2 * len(one.epsilon)))
        axis.plot(n, radius, color=colour, linewidth=1.0, linestyle="--")
        seen = abs(at(one, epsilon)["delta"] - float(one.exact(epsilon)))
        axis.plot([labelled], [seen], marker, color=colour, markersize=6, markerfacecolor="white")
    axis.axhline(1.0, color="#999999", linewidth=0.8)
    axis.plot([], [], color="#555555", linewidth=1.2, label="α of Corollary 2, corrected (heuristic)")
    axis.plot([], [], color="#555555", linewidth=1.0, linestyle="--", label="radius (finite-sample)")
    axis.plot([], [], "o", color="#555555", markerfacecolor="white", label="|δ̂ − δ| of this run")
    axis.set(xscale="log", yscale="log", xlabel="labelled samples n", ylabel="accuracy of δ̂")
    axis.set_title("Fig. 4c: what is stated, and what is seen; Laplace, ε₀ = 1", fontsize=11)
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="lower left")
    return figure


def alpha_table(found: Sequence[Found]) -> list[str]:
    """What was stated at each ε, and what was seen."""
    (one,) = found
    rows = []
    for row in one.result["accuracy"]:
        exact = float(one.exact(row["epsilon"]))
        seen = abs(at(one, row["epsilon"])["delta"] - exact)
        rows.append(
            [f"{row['epsilon']:g}", f"{row['alpha']:.4f}", f"{row['radius']:.6f}", f"{exact:.6f}", f"{seen:.6f}"]
        )
    return markdown(["ε", "α (heuristic)", "radius (finite-sample)", "exact δ", "\\|δ̂ − δ\\| seen"], rows)


def _errors(result: Mapping[str, Any], exact: Floats) -> tuple[Floats, Floats]:
    """Root mean square error and its ratio to the Bayes classifier's standard error, (sizes, levels) each."""
    estimates = np.array(result["estimates"])
    rms = np.sqrt(((estimates - exact) ** 2).mean(axis=1))
    tests = 2 * np.array([[size[1]] for size in result["sizes"]])
    return rms, rms / bayes_error(result["epsilon"], exact, tests)


def errors_in_band(found: Sequence[Found]) -> list[Check]:
    """Root mean square error between 0.7 and 2 standard errors, at each size and ε of Figure 1 to the letter.

    Of the counting estimator over all sizes together, at each ε: its own standard error is smaller, 0.86 of that at
    ε = 0.5, so that single sizes would need more seeds.
    """
    checks = []
    for one in found:
        _, ratio = _errors(one.result, one.exact(one.result["epsilon"]))
        if one.part.key != "literal":
            ratio = np.sqrt((ratio**2).mean(axis=0, keepdims=True))
        passed = bool((ratio >= _LEAST).all() and (ratio <= _MOST).all())
        which = "each size and ε" if one.part.key == "literal" else "each ε, all sizes together"
        rule = f"{one.part.label}: rms error between {_LEAST:g} and {_MOST:g} standard errors at {which}"
        seen = f"{len(one.result['seeds'])} seeds, from {ratio.min():.2f} to {ratio.max():.2f}"
        checks.append(Check(rule, passed, seen))
    return checks


def draw_errors(found: Sequence[Found]) -> Any:
    """Root mean square error of each part against test samples, beside the standard error."""
    figure, axes = new_figure(rows=(4.0,))
    axis = axes[0, 0]
    for number, one in enumerate(found):
        epsilon = np.array(one.result["epsilon"])
        exact = one.exact(epsilon)
        rms, _ = _errors(one.result, exact)
        test = np.array([size[1] for size in one.result["sizes"]])
        for colour, level, truth, seen in zip(COLOURS, epsilon, exact, rms.T, strict=False):
            label = f"{one.part.label}, ε = {level:g}"
            style = {"markerfacecolor": "white"} if number else {}
            axis.plot(test, seen, MARKERS[number], color=colour, markersize=5, label=label, **style)
            if number == 0:
                axis.plot(test, bayes_error(level, truth, 2 * test), color=colour, linewidth=1.1)
    axis.plot([], [], color="#555555", linewidth=1.1, label="standard error of Figure 1, Bayes classifier")
    axis.set(xscale="log", yscale="log", xlabel="test samples per database", ylabel="rms error of δ̂")
    axis.set_title("Fig. 4d: error against samples; Laplace, ε₀ = 1", fontsize=11)
    axis.legend(frameon=False, fontsize=9)
    return figure


def error_table(found: Sequence[Found]) -> list[str]:
    """Root mean square error at each size, in standard errors too."""
    rows = []
    for one in found:
        rms, ratio = _errors(one.result, one.exact(one.result["epsilon"]))
        for i, (train, test) in enumerate(one.result["sizes"]):
            for k, epsilon in enumerate(one.result["epsilon"]):
                rows.append(
                    [
                        one.part.label,
                        f"{train:,}",
                        f"{test:,}",
                        f"{epsilon:g}",
                        f"{rms[i, k]:.6f}",
                        f"{ratio[i, k]:.2f}",
                    ]
                )
    return markdown(["estimator", "train", "test", "ε", "rms error", "rms error/se"], rows)
