"""Figure 1: the mean square of Error_T of the perturbed likelihood-ratio estimator, against the training samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fdp.figures.direct import measure_errors, with_sizes
from numpy.typing import NDArray
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part
from paper_figures.pictures import COLOURS, MARKERS, markdown, new_figure
from paper_figures.seeds import over_seeds

from hpcdp.study.file import Study

REFERENCE = {
    "gauss": {100: 7.7e-3, 1000: 1.0e-3, 10_000: 1.5e-4, 100_000: 1.6e-5},
    "sgd": {100: 1.1e-2, 1000: 1.3e-3, 10_000: 2.0e-4, 100_000: 2.7e-5},
    "laplace": {100: 1.3e-2, 1000: 2.0e-3, 10_000: 3.0e-4, 100_000: 4.2e-5},
    "subsampled": {100: 4.3e-3, 1000: 7.9e-4, 10_000: 1.0e-4, 100_000: 1.2e-5},
}
"""MSE of Error_T by a simulation of independent code: Silverman's bandwidth, h = 0.1, 100 runs."""

LEAST_FALL, MOST_RATIO = 25.0, 2.0
_FALL = (100, 10_000)


@dataclass(frozen=True)
class Errors:
    """Error_T of so many seeds at several numbers of training samples; no store is written."""

    seeds: int
    small: tuple[int, ...]
    paper_seeds: int
    paper: tuple[int, ...]

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """Mean squares over the seeds, and their standard errors."""
        seeds, sizes = (self.paper_seeds, self.paper) if paper else (self.seeds, self.small)
        squares = np.array([_squares(place, with_sizes(study, size), seeds) for size in sizes])
        body: dict[str, Any] = {"name": study.name, "seeds": seeds, "train": list(sizes)}
        for column, name in enumerate(("mse", "symmetrised")):
            body[name] = squares[..., column].mean(axis=1).tolist()
            body[f"{name}_error"] = (squares[..., column].std(axis=1, ddof=1) / np.sqrt(seeds)).tolist()
        return Found(part, study, body)

    def sizes(self, found: Sequence[Found]) -> str:
        """All of them."""
        sizes = ", ".join(f"{size:,}" for size in self.small)
        return f"Training samples per database: {sizes}, {self.seeds} seeds."


def _squares(place: Place, study: Study, seeds: int) -> NDArray[np.float64]:
    """(seeds, 2)"""
    parts = over_seeds(place, study, seeds, measure_errors)
    return np.square(np.array([pair for part in parts for pair in part]))


def errors_fall(found: Sequence[Found]) -> list[Check]:
    """From 10² to 10⁴ training samples the MSE falls at least 25-fold, of T and of C[T]."""
    checks = []
    for one in found:
        first, last = (one.result["train"].index(size) for size in _FALL)
        for name, what in (("mse", "T̂"), ("symmetrised", "C[T̂]")):
            fall = one.result[name][first] / one.result[name][last]
            rule = f"{one.part.label}: the MSE of {what} falls at least {LEAST_FALL:g}-fold from n₁ = 10² to 10⁴"
            checks.append(Check(rule, fall >= LEAST_FALL, f"{fall:.1f}-fold"))
    return checks


def errors_near_reference(found: Sequence[Found]) -> list[Check]:
    """The MSE is at most twice that of the reference simulation."""
    checks = []
    for one in found:
        known = REFERENCE[one.part.key]
        ratios = [mse / known[n] for n, mse in zip(one.result["train"], one.result["mse"], strict=True) if n in known]
        rule = f"{one.part.label}: the MSE is at most {MOST_RATIO:g} times that of the reference simulation"
        seen = f"{min(ratios):.2f} to {max(ratios):.2f} times, at {len(ratios)} sizes"
        checks.append(Check(rule, max(ratios) <= MOST_RATIO, seen))
    return checks


def draw_mse(found: Sequence[Found]) -> Any:
    """The MSE of each mechanism against n₁, and the reference simulation."""
    figure, axes = new_figure(rows=(4.6,))
    axis = axes[0, 0]
    for colour, marker, one in zip(COLOURS, MARKERS, found, strict=True):
        axis.plot(
            one.result["train"],
            one.result["mse"],
            marker,
            linestyle="-",
            color=colour,
            markersize=5,
            label=one.part.label,
        )
        known = REFERENCE[one.part.key]
        axis.plot(list(known), list(known.values()), "_", color=colour, markersize=17, markeredgewidth=1.4)
    axis.plot([], [], "_", color="#555555", markersize=17, markeredgewidth=1.4, label="reference simulation, 100 runs")
    axis.set(xscale="log", yscale="log", xlabel="training samples n₁ per database", ylabel="mean of Error_T²")
    axis.set_title("Fig. 1: the error of the estimated trade-off curve, h = 0.1", fontsize=11)
    axis.legend(frameon=False, fontsize=9)
    return figure


def mse_table(found: Sequence[Found]) -> list[str]:
    """The MSE at each size, beside the reference."""
    rows = []
    for one in found:
        r = one.result
        numbers = zip(r["train"], r["mse"], r["mse_error"], r["symmetrised"], strict=True)
        for n, mse, error, symmetrised in numbers:
            known = REFERENCE[one.part.key].get(n)
            near = ["–", "–"] if known is None else [f"{known:.1e}", f"{mse / known:.2f}"]
            rows.append([one.part.label, f"{n:,}", f"{mse:.2e}", f"{error:.0e}", *near, f"{symmetrised:.2e}"])
    return markdown(["mechanism", "n₁", "MSE of T̂", "± se", "reference", "ratio", "symmetrised"], rows)
