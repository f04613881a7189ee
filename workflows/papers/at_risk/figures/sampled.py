"""Figure 7 and case 2: sampled sensitivities of two queries on a synthetic population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from at_risk.figures.formulas import people
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part
from paper_figures.pictures import markdown

from hpcdp.study.file import Study

_POINTS = 201  # of a kept distribution function


class Sampled:
    """Through a store, as `hpcdp risk` does; the distribution function of S is kept with the result."""

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """The result as `hpcdp show --format json` prints it, and quantiles of S."""
        import numpy as np

        result = place.run(study, study.name)
        quantiles = np.quantile(result["risk_sensitivity"], np.linspace(0.0, 1.0, _POINTS)).tolist()
        return Found(part, study, {**result.to_dict(), "quantiles": quantiles})

    def sizes(self, found: Sequence[Found]) -> str:
        """Those of the studies."""
        sizes = {(section.pairs, section.rows) for one in found if (section := one.study.at_risk) is not None}
        words = " or ".join(f"{pairs:,} pairs of {rows:,} rows" for pairs, rows in sorted(sizes))
        return f"{words}; seed {found[0].study.seed}." if found else "No study: formulas alone."


def check_sampled(found: Sequence[Found]) -> list[Check]:
    mean, ridge = found
    checks = []
    for entry in mean.result["risk"]:
        true = people.mean_cover(entry["sensitivity"], 1000)
        checks.append(
            Check(
                f"mean: Δ of cover {entry['cover']:g} covers as much of the exact distribution",
                true >= entry["cover"],
                f"{true:.4f}",
            )
        )
    largest, bound = ridge.result["quantiles"][-1], people.ridge_bound(1000)
    checks.append(
        Check(
            "ridge: the largest sensitivity is below the bound of all databases",
            largest <= bound,
            f"{largest:.5f}, bound {bound:.3f}",
        )
    )
    for one in found:
        for entry in one.result["risk"]:
            within = entry["within"]
            ordered = within["certified"] <= within["hits"] / within["pairs"]
            if not ordered:
                checks.append(Check(f"{one.part.label}: limits are below their shares", False, str(within)))
    return checks


def table_sampled(found: Sequence[Found]) -> list[str]:
    rows = []
    for one in found:
        for entry in one.result["risk"]:
            true = f"{people.mean_cover(entry['sensitivity'], 1000):.4f}" if one.part.key == "mean" else "–"
            figures = [
                f"{entry['cover']:g}",
                f"{entry['rank']:,}",
                f"{entry['sensitivity']:.6f}",
                f"{entry['epsilon']:.4f}",
                true,
            ]
            within = entry["within"]
            rows.append(
                [
                    one.part.label,
                    *figures,
                    f"{entry['published']:.4f}",
                    f"{within['certified']:.4f}",
                    f"{within['published']:.4f}",
                ]
            )
    head = ["query", "cover", "rank", "Δ", "ε", "exact cover of Δ", "Theorem 5", "P(\\|L\\| <= ε) ≥", "Theorem 6"]
    return markdown(head, rows)


def draw_sampled(found: Sequence[Found]) -> Any:
    import numpy as np
    from matplotlib.figure import Figure

    from hpcdp.report.colours import CERTIFIED, shades

    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    for axes, one in zip(figure.subplots(1, 2), found, strict=True):
        axes.plot(
            one.result["quantiles"],
            np.linspace(0.0, 1.0, _POINTS),
            color=CERTIFIED,
            label="empirical distribution of S",
        )
        if one.part.key == "mean":
            points = np.linspace(0.0, one.result["quantiles"][-1], 60)
            axes.plot(points, [people.mean_cover(p, 1000) for p in points], "k--", linewidth=0.9, label="exact")
        for colour, entry in zip(shades(len(one.result["risk"])), one.result["risk"], strict=True):
            axes.axvline(entry["sensitivity"], color=colour, linestyle=":", label=f"Δ of cover {entry['cover']:g}")
        axes.set(xlabel="S = ‖f(x) − f(y)‖₁", ylabel="share of pairs", title=one.part.label)
        axes.grid(alpha=0.25)
        axes.legend()
    return figure
