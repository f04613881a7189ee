"""Figures 5a, 6a, 6b and 7: what each of them shows beyond spectra and their bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from eureka.figures.rules import at
from eureka.figures.spectra import draw_curves, draw_differences, draw_spectra
from paper_figures.figure import Check, agreement
from paper_figures.parts import Found
from paper_figures.pictures import COLOURS, MARKERS, markdown, new_figure, signed
from scipy.optimize import brentq

from hpcdp.analytic import Direction, gaussian_sigma, gaussian_textbook_delta

_PAIRS = ({"rows": [1, 2], "words": "{0, 1}"}, {"rows": [0], "words": "{1, 1}"})
_CROSSING, _HALF_DIGIT = 8.2e-8, 0.05e-8
_NOTHING = 1e-12
_BETWEEN = 0.3  # above ε₀/4, below ε₀/2


def _directed(one: Found) -> list[tuple[str, int, Direction]]:
    """The two directions of the figure's pair and of the other neighbour: legend, pair, direction."""
    found: list[tuple[str, int, Direction]] = []
    for entry in _PAIRS:
        pair = next(p["pair"] for p in one.result["pairs"] if p["rows"] == entry["rows"])
        found += [
            (f"{{0, 1, 1}} over {entry['words']}", pair, "forward"),
            (f"{entry['words']} over {{0, 1, 1}}", pair, "reverse"),
        ]
    return found


def draw_directions(found: Sequence[Found]) -> Any:
    """Figure 5a: both directions of both pairs."""
    (one,) = found
    figure, axes = new_figure()
    fine = np.linspace(one.epsilon.min(), one.epsilon.max(), 400)
    for place, (colour, marker, (label, pair, direction)) in enumerate(
        zip(COLOURS, MARKERS, _directed(one), strict=True)
    ):
        cells = [c for c in one.cells if c["pair"] == pair and c["direction"] == direction]
        epsilon, delta, lower, upper, truth = (
            np.array([c[name] for c in cells]) for name in ("epsilon", "delta", "lower", "upper", "exact")
        )
        limits = np.maximum([delta - lower, upper - delta], 0.0)
        style = {"fmt": marker, "color": colour, "markerfacecolor": "white", "linewidth": 0.9}
        axes[0, 0].plot(fine, one.curves[pair].delta(fine, direction), color=colour, linewidth=1.2)
        axes[0, 0].errorbar(epsilon, delta, yerr=limits, markersize=4, capsize=2, label=label, **style)
        axes[1, 0].errorbar(epsilon + 0.012 * (place - 1.5), delta - truth, yerr=limits, markersize=3, **style)
    axes[0, 0].plot([], [], color="#555555", linewidth=1.2, label="exact")
    axes[0, 0].set(ylabel="δ(ε)", ylim=(0, None))
    axes[0, 0].set_title("Fig. 5a: exponential mechanism, ε₀ = 2, outcomes 0, 1, 2", fontsize=11)
    axes[0, 0].legend(frameon=False, fontsize=9)
    axes[1, 0].axhline(0.0, color="#555555", linewidth=1.0)
    axes[1, 0].set(xlabel="ε", ylabel="δ̂ − exact")
    axes[1, 0].ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    return figure


def directions_table(found: Sequence[Found]) -> list[str]:
    """Figure 5a: each direction, and the largest over T, at some ε."""
    (one,) = found
    rows = []
    for label, pair, direction in _directed(one):
        for cell in one.cells:
            if (cell["pair"], cell["direction"]) == (pair, direction) and cell["epsilon"] in (0.0, 0.2, 0.4, 0.6):
                numbers = (cell["exact"], cell["delta"], cell["lower"])
                score = (cell["delta"] - cell["exact"]) / cell["error"]
                rows.append([label, f"{cell['epsilon']:g}", *(f"{v:.6f}" for v in numbers), signed(score)])
    for level in (0.0, 0.2, 0.4, 0.6):
        row, exact = at(one, level), float(one.exact(level))
        score = (row["delta"] - exact) / float(one.error[abs(one.epsilon - level).argmin()])
        rows.append(
            [
                "largest over T",
                f"{level:g}",
                *(f"{v:.6f}" for v in (exact, row["delta"], row["lower"])),
                signed(score),
            ]
        )
    return markdown(["direction", "ε", "exact δ", "δ̂", "certified ≥", "(δ̂ − δ)/se"], rows)


def _loose(epsilon: Any) -> Any:
    """The textbook's curve at the noise of (1, 10⁻⁵)."""
    return gaussian_textbook_delta(epsilon, gaussian_sigma(1.0, 1e-5))


def loose_is_above(found: Sequence[Found]) -> list[Check]:
    """Figure 6a: the loose curve is δ₀ at ε₀, and above the exact one everywhere."""
    (one,) = found
    fine = np.linspace(0.0, 1.0, 1001)
    least = float((_loose(fine) / one.exact(fine)).min())
    off = abs(float(_loose(1.0)) / 1e-5 - 1.0)
    return [
        Check("the textbook curve at ε₀ is δ₀", off <= 1e-12, agreement(off, 1e-12)),
        Check("the textbook curve is above the exact one", least > 1.0, f"at least {least:.3g} times as large"),
    ]


def draw_loose(found: Sequence[Found]) -> Any:
    """Figure 6a: estimate, exact curve and textbook curve, on a logarithmic axis."""
    figure = draw_spectra(found, "Fig. 6a: Gaussian mechanism, (ε₀, δ₀) = (1, 10⁻⁵)", log=True, floor=1e-8)
    axis = figure.axes[0]
    fine = np.linspace(0.0, 1.0, 300)
    axis.plot(fine, _loose(fine), color=COLOURS[1], linestyle="--", linewidth=1.3, label="textbook")
    axis.set_ylim(top=2.0)
    axis.legend(frameon=False, fontsize=9)
    return figure


def curves_cross(found: Sequence[Found]) -> list[Check]:
    """Figure 6b: the exact curves cross once, at ε = 1 − 8.2·10⁻⁸."""
    laplace, gaussian = found

    def gap(below: float) -> float:
        return float(laplace.exact(1.0 - below) - gaussian.exact(1.0 - below))

    below = float(brentq(gap, 1e-9, 1e-6, xtol=1e-16))
    grid = np.linspace(0.0, 1.0 - 1e-6, 10_001)
    once = bool((laplace.exact(grid) > gaussian.exact(grid)).all())
    rule = f"the exact curves cross at ε = 1 − {_CROSSING:g}, Laplace above before"
    return [Check(rule, once and math.fabs(below - _CROSSING) <= _HALF_DIGIT, f"they cross at 1 − {below:.3e}")]


def draw_two_pairs(found: Sequence[Found]) -> Any:
    """Figure 7: the X-shaped pair on the left, the uniform one on the right."""
    figure, axes = new_figure(columns=2, width=9.5)
    for column, parts in enumerate((found[:2], found[2:])):
        draw_curves(axes[0, column], parts)
        draw_differences(axes[1, column], parts)
        axes[1, column].set_xlabel("ε")
    axes[0, 0].set_title("Fig. 7: sparse vector technique, X-shaped pair", fontsize=11)
    axes[0, 1].set_title("uniform pair: the faulty Alg. 4 shows level ε₀/4 only", fontsize=11)
    return figure


def uniform_pair_misleads(found: Sequence[Found]) -> list[Check]:
    """Figure 7: the uniform pair shows level ε₀/2 of the correct Alg. 1 at most, and ε₀/4 of the faulty Alg. 4."""
    correct, faulty = found[2:]
    levels = [
        float(max(one.curves[0].epsilon(_NOTHING, way) for way in ("forward", "reverse"))) for one in (correct, faulty)
    ]
    rule = "on the uniform pair the exact level is at most ε₀/2 of Alg. 1 and ε₀/4 of the faulty Alg. 4"
    seen = f"δ is at most {_NOTHING:g} from ε = {levels[0]:.6f} and {levels[1]:.6f} on"
    lower, upper = at(correct, _BETWEEN)["lower"], at(faulty, _BETWEEN)["upper"]
    return [
        Check(rule, levels[0] <= 0.5 and levels[1] <= 0.25, seen),
        Check(
            f"so at ε = {_BETWEEN:g} Alg. 4 is below Alg. 1 beyond the bounds",
            upper < lower,
            f"Alg. 4 approx ≤ {upper:.6f}, Alg. 1 certified ≥ {lower:.6f}",
        ),
    ]
