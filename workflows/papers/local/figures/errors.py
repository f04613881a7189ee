"""Figure 6: the mean squared error of ε̂ against the number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from local.figures.direct import estimate_seeds, pure_level
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part
from paper_figures.pictures import COLOURS, MARKERS, markdown, new_figure
from paper_figures.seeds import over_seeds

from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve

_FROM, _TO = 5000, 20_000


@dataclass(frozen=True)
class Errors:
    """ε̂ of so many seeds at several numbers of training samples; no store is written."""

    small: tuple[int, ...]
    seeds: int = 400
    paper_seeds: int = 1000

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """Mean squared errors, their standard errors, and biases."""
        seeds = self.paper_seeds if paper else self.seeds
        level = pure_level(study, resolve(study)[0])
        blocks = over_seeds(place, study, seeds, estimate_seeds, self.small)
        errors = np.array([row for block in blocks for row in block]) - level
        squares = errors**2
        body: dict[str, Any] = {"name": study.name, "seeds": seeds, "train": list(self.small), "level": round(level, 6)}
        body["mse"] = squares.mean(axis=0).tolist()
        body["mse_error"] = (squares.std(axis=0, ddof=1) / np.sqrt(seeds)).tolist()
        body["bias"] = errors.mean(axis=0).tolist()
        return Found(part, study, body)

    def sizes(self, found: Sequence[Found]) -> str:
        """All of them."""
        return f"Samples per database: {', '.join(f'{size:,}' for size in self.small)}; {self.seeds} seeds."


def errors_halve(found: Sequence[Found]) -> list[Check]:
    """From 5,000 to 20,000 samples the MSE falls more than 2-fold."""
    checks = []
    for one in found:
        first, last = (one.result["mse"][one.result["train"].index(size)] for size in (_FROM, _TO))
        rule = f"{one.part.label}: the MSE falls more than 2-fold from n = {_FROM:,} to {_TO:,}"
        checks.append(Check(rule, first > 2.0 * last, f"{first / last:.2f}-fold"))
    return checks


def draw_errors(found: Sequence[Found]) -> Any:
    """The MSE of each mechanism against n."""
    figure, axes = new_figure(rows=(4.2,))
    axis = axes[0, 0]
    for colour, marker, one in zip(COLOURS, MARKERS, found, strict=False):
        axis.plot(one.result["train"], one.result["mse"], marker, linestyle="-", color=colour, label=one.part.label)
    axis.set(xscale="log", yscale="log", xlabel="samples n per database", ylabel="mean of (ε̂ − ε)²")
    axis.set_title("Fig. 6: the error of ε̂, ε = 1.5", fontsize=11)
    axis.legend(frameon=False, fontsize=9)
    return figure


def errors_table(found: Sequence[Found]) -> list[str]:
    """The MSE and the bias at each size."""
    rows = []
    for one in found:
        r = one.result
        for n, mse, error, bias in zip(r["train"], r["mse"], r["mse_error"], r["bias"], strict=True):
            share = 100 * np.sqrt(mse) / r["level"]
            rows.append([one.part.label, f"{n:,}", f"{mse:.2e}", f"{error:.0e}", f"{bias:+.4f}", f"{share:.1f} %"])
    return markdown(["mechanism", "n", "MSE", "± se", "bias", "root of it, of ε"], rows)
