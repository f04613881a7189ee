"""Figures 1 to 3: densities and losses of one run, beside the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from local.figures.direct import pure_level, side_of
from numpy.typing import NDArray
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part
from paper_figures.pictures import markdown
from paper_figures.seeds import draw

from hpcdp.analytic._exact import exact_log_density
from hpcdp.losses.kde.kde import Kde, LineModel
from hpcdp.losses.local import find_peak, is_discrete
from hpcdp.losses.protocol import Side
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve

Floats = NDArray[np.float64]

_POINTS = 241
_COLOURS = ("#1f4e79", "#c55a11")


@dataclass(frozen=True)
class Losses:
    """One run of the study's seed: its training samples, and the exact densities."""

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """Estimated and exact densities of both distributions on a grid, and where the estimated loss is largest."""
        problem, _ = resolve(study)
        pure, e = study.pure, study.estimate
        assert pure is not None
        sides = [side_of(problem, draw(problem, problem.train, law)) for law in problem.pair_laws[0]]
        points, found = _estimates(sides, pure.within)
        peak = find_peak(sides[0], sides[1], pure.floor_of(e.train), pure.within, e.test)
        level = pure_level(study, problem)
        body: dict[str, Any] = {"name": study.name, "points": _short(points), "floor": pure.floor_of(e.train)}
        body["estimated"] = [_short(density) for density in found]
        body["exact"] = [_short(density) for density in _exact(problem, points)]
        body |= {"estimate": round(abs(peak.loss), 6), "at": peak.at, "level": level if np.isfinite(level) else None}
        return Found(part, study, body)

    def sizes(self, found: Sequence[Found]) -> str:
        """Samples and the seed."""
        sizes = " or ".join(f"{size:,}" for size in sorted({one.study.estimate.train for one in found}))
        return f"Samples per database: {sizes}; seed {found[0].study.study.seed}."


def _short(values: Any) -> list[float]:
    return [float(f"{v:.6g}") for v in values]


def _estimates(sides: Sequence[Side], within: Any) -> tuple[Any, list[Floats]]:
    if is_discrete(sides):
        points = np.unique(np.concatenate([side.outputs for side in sides]))
        return points, [np.array([(side.outputs == v).mean() for v in points]) for side in sides]
    model = Kde().fit(*sides)
    assert isinstance(model, LineModel)
    points = np.linspace(*within[0], _POINTS)
    return points, [model.p.density(points), model.q.density(points)]


def _exact(problem: Problem, points: Any) -> list[Floats]:
    pair, mechanism = problem.pairs[0], problem.study.mechanism
    laws = [exact_log_density(str(mechanism.call), mechanism.parameters, np.asarray(d)) for d in (pair.d, pair.d_prime)]
    return [np.exp(law(points)) for law in laws if law is not None]


def loss_of(one: Found, name: str) -> Floats:
    """The loss at each point, estimated (densities not below the floor) or exact."""
    p, q = (np.array(density) for density in one.result[name])
    floor = one.result["floor"] if name == "estimated" else 1e-300
    return np.log(np.maximum(p, floor)) - np.log(np.maximum(q, floor))


def distance_of(one: Found) -> float:
    """∫ |f̂ − f| over the points shown, of D."""
    points, f, exact = (np.array(v) for v in (one.result["points"], one.result["estimated"][0], one.result["exact"][0]))
    return float(np.abs(f - exact).mean() * (points[-1] - points[0]))


def more_samples_are_nearer(found: Sequence[Found]) -> list[Check]:
    """Figure 1: with more samples the estimate is nearer to the density."""
    far, near = (distance_of(one) for one in found)
    rule = f"∫ |f̂ − f| falls at least 3-fold from N = {found[0].study.estimate.train:,} to {found[1].study.estimate.train:,}"
    return [Check(rule, far >= 3.0 * near, f"{far:.4f} and {near:.4f}")]


def where_it_leaks(found: Sequence[Found]) -> list[Check]:
    """Figure 2: the largest exact loss is ε₀ of randomised response and Laplace noise, and at the window's end of the normal."""
    checks = []
    for one in found:
        loss, level = np.abs(loss_of(one, "exact")), one.result["level"]
        if level is None:
            place = int(loss.argmax())
            rule = f"{one.part.label}: the exact loss is largest at an end of C, as it is unbounded"
            checks.append(
                Check(rule, place in (0, loss.size - 1), f"{loss.max():.3f} at {one.result['points'][place]:g}")
            )
        else:
            rule = f"{one.part.label}: the largest exact loss is the pair's level"
            checks.append(Check(rule, abs(loss.max() - level) < 1e-4, f"{loss.max():.4f} and {level:.4f}"))
    return checks


def estimate_is_near(found: Sequence[Found]) -> list[Check]:
    """Figure 3: ε̂ is within 0.3 of the level."""
    (one,) = found
    estimate, level = one.result["estimate"], one.result["level"]
    return [Check("ε̂ is within 0.3 of the pair's level", abs(estimate - level) <= 0.3, f"{estimate:.4f} and {level:g}")]


def draw_losses(found: Sequence[Found], title: str, densities: bool = True, losses: bool = True) -> Any:
    """Densities above, losses below, a column a part; dashed: exact."""
    from matplotlib.figure import Figure

    rows = int(densities) + int(losses)
    figure = Figure(figsize=(max(6.6, 3.6 * len(found)), 0.8 + 2.6 * rows), layout="constrained")
    axes = figure.subplots(rows, len(found), squeeze=False)
    for column, one in enumerate(found):
        points = np.array(one.result["points"])
        discrete = points.size < _POINTS
        mark = {"marker": "o", "linestyle": "none"} if discrete else {}
        axes[0, column].set_title(one.part.label, fontsize=10)
        if densities:
            shown = zip(one.result["estimated"], one.result["exact"], _COLOURS, ("M(D)", "M(D′)"), strict=True)
            for estimated, exact, colour, name in shown:
                axes[0, column].plot(points, estimated, color=colour, label=name, **mark)
                axes[0, column].plot(
                    points, exact, "_" if discrete else "--", color="black", markersize=16, linewidth=0.9
                )
            axes[0, column].legend(frameon=False, fontsize=8)
        if losses:
            axis = axes[-1, column]
            axis.plot(points, loss_of(one, "estimated"), color="#c0392b", label="estimated loss", **mark)
            exact_style: dict[str, Any] = {"color": "black", "markersize": 16, "linewidth": 0.9}
            axis.plot(points, loss_of(one, "exact"), "_" if discrete else "--", label="exact loss", **exact_style)
            axis.axvline(one.result["at"], color="#777777", linestyle=":", label="t̂")
            axis.legend(frameon=False, fontsize=8)
        axes[-1, column].set_xlabel("output")
    figure.suptitle(title, fontsize=11)
    return figure


def loss_table(found: Sequence[Found]) -> list[str]:
    """ε̂ and where, beside the exact level."""
    rows = []
    for one in found:
        level, exact = one.result["level"], np.abs(loss_of(one, "exact")).max()
        rows.append(
            [
                one.part.label,
                f"{one.study.estimate.train:,}",
                f"{one.result['estimate']:.4f}",
                f"{one.result['at']:.4g}",
                f"{exact:.4f}",
                "∞" if level is None else f"{level:.4f}",
            ]
        )
    return markdown(["mechanism", "n", "ε̂", "at", "largest exact loss in C", "level"], rows)
