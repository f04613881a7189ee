"""Figures 2, 3, 9 and 10: estimated trade-off curves beside the exact one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fdp.figures.direct import symmetrised_error, with_sizes
from fdp.figures.errors import REFERENCE
from numpy.typing import NDArray
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part, exact_curves
from paper_figures.pictures import markdown, new_figure

from hpcdp.notions.curve import TradeOffCurve
from hpcdp.notions.perturbed import error
from hpcdp.study.file import Study

Floats = NDArray[np.float64]

MOST_OFF = 10.0  # times the mean square, which one run may be off
_TOLERANCE = 1e-6
_SHOWN, _DIGITS = 250, 5  # points of a kept curve, and their digits


@dataclass(frozen=True)
class Curves:
    """A run of the study through a store for each of several numbers of training samples."""

    small: tuple[int, ...]
    paper: tuple[int, ...]

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """Of each size: Error_T, that of C[T], how far certified limits are above T at least, and the curve, thinned."""
        exact = exact_curves(study)[0]
        truth = TradeOffCurve.from_curve(exact, _TOLERANCE)
        runs = []
        for train in self.paper if paper else self.small:
            result = place.run(with_sizes(study, train), f"{study.name}-{train}")
            points = result["training_alpha"][0], result["training_beta"][0]
            clear = result["beta_upper"][0] - exact.tradeoff(result["alpha_upper"][0])
            runs.append(
                {
                    "train": train,
                    "error": error(points, truth),
                    "symmetrised": symmetrised_error(points, truth.symmetrise()),
                    "clear": float(clear.min()),
                    "curve": thin(*points),
                }
            )
        return Found(part, study, {"name": study.name, "confidence": study.estimate.confidence, "runs": runs})

    def sizes(self, found: Sequence[Found]) -> str:
        """Those of the studies."""
        sizes = ", ".join(f"{size:,}" for size in self.small)
        (one,) = found
        seed = one.study.study.seed
        return f"Samples per database: {sizes} for training, {one.study.estimate.test:,} for testing; seed {seed}."


def thin(alpha: Floats, beta: Floats) -> list[list[float]]:
    """Every so many points of a curve, alpha ascending, rounded; for a picture."""
    order = np.lexsort((-beta, alpha))
    places = np.unique(np.linspace(0, order.size - 1, min(_SHOWN, order.size)).astype(int))
    return [np.round(values[order][places], _DIGITS).tolist() for values in (alpha, beta)]


def limits_hold(found: Sequence[Found]) -> list[Check]:
    """At no η are the certified limits of both errors below the exact curve."""
    (one,) = found
    least = min(run["clear"] for run in one.result["runs"])
    rule = (
        f"the certified limits of all η together, {100 * one.result['confidence']:g} %, are on or above the exact curve"
    )
    return [Check(rule, least >= 0.0, f"{len(one.result['runs'])} runs, the nearest is {least:.1e} above")]


def one_run_is_near(found: Sequence[Found]) -> list[Check]:
    """Error_T² of the run is at most ten times the MSE of the reference simulation."""
    (one,) = found
    known = REFERENCE[one.part.key]
    ratios = [run["error"] ** 2 / known[run["train"]] for run in one.result["runs"] if run["train"] in known]
    rule = f"Error_T² of one run is at most {MOST_OFF:g} times the MSE of the reference simulation"
    return [Check(rule, max(ratios) <= MOST_OFF, f"at most {max(ratios):.2f} times, at {len(ratios)} sizes")]


def draw_curve(found: Sequence[Found], title: str, symbol: str) -> Any:
    """T and its estimates above, β̂ − T(α̂) below."""
    (one,) = found
    figure, axes = new_figure(rows=(4.2, 1.8))
    exact = TradeOffCurve.from_curve(one.curves[0], _TOLERANCE)
    estimates = [TradeOffCurve.from_points(*run["curve"]) for run in one.result["runs"]]
    _draw_column(axes[:, 0], one, exact, estimates, symbol)
    axes[0, 0].set_title(title, fontsize=11)
    return figure


def draw_both(found: Sequence[Found], title: str) -> Any:
    """As `draw_curve`, with the symmetrised curves in a second column."""
    (one,) = found
    figure, axes = new_figure(rows=(4.2, 1.8), columns=2, width=9.5)
    exact = TradeOffCurve.from_curve(one.curves[0], _TOLERANCE)
    estimates = [TradeOffCurve.from_points(*run["curve"]) for run in one.result["runs"]]
    _draw_column(axes[:, 0], one, exact, estimates, "T̄")
    symmetrised = [estimate.symmetrise() for estimate in estimates]
    _draw_column(axes[:, 1], one, exact.symmetrise(), symmetrised, "C[T̄]")
    axes[0, 0].set_title(title, fontsize=11)
    axes[0, 1].set_title("symmetrised: of the unordered pair", fontsize=11)
    return figure


def _draw_column(axes: Any, one: Found, exact: TradeOffCurve, estimates: Sequence[TradeOffCurve], symbol: str) -> None:
    above, below = axes
    sizes = np.linspace(0.0, 1.0, 1001)
    for colour, run, estimate in zip(shades(len(estimates)), one.result["runs"], estimates, strict=True):
        label = f"estimate, n₁ = {run['train']:,}"
        above.plot(estimate.alpha, estimate.beta, color=colour, linewidth=1.1, label=label)
        below.plot(sizes, estimate(sizes) - exact(sizes), color=colour, linewidth=1.0)
    above.plot(exact.alpha, exact.beta, color="black", linewidth=1.2, linestyle=(0, (4, 2)), label=f"exact {symbol}")
    above.plot([0, 1], [1, 0], color="#999999", linewidth=0.8, linestyle=":")
    above.set(ylabel="type-II error β", ylim=(0, 1), xlim=(0, 1))
    above.legend(frameon=False, fontsize=9)
    below.axhline(0.0, color="black", linewidth=0.8, linestyle=(0, (4, 2)))
    below.set(xlabel="type-I error α", ylabel="estimate − exact")


def shades(count: int) -> list[Any]:
    """So many colours from light to dark."""
    from matplotlib import colormaps

    return [colormaps["viridis"](place) for place in np.linspace(0.85, 0.1, count)]


def curve_table(found: Sequence[Found]) -> list[str]:
    """Error_T of each run."""
    (one,) = found
    rows = [
        [f"{run['train']:,}", *(f"{run[name]:.4f}" for name in ("error", "symmetrised"))] for run in one.result["runs"]
    ]
    return markdown(["n₁", "Error_T", "Error_T, symmetrised"], rows)
