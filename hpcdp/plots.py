"""The picture of a result: estimated, certified, exact and claimed spectrum; trade-off points where there are any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.errors import StudyError
from hpcdp.report.table import claim_of
from hpcdp.result import Result

_INK, _CLAIM, _EXACT = "#1b4f8a", "#b5482a", "#222222"


def draw(result: Result, path: str | Path | None = None) -> Any:
    """Draw a result; with a path (.png or .svg), write it. Returns the matplotlib Figure."""
    from matplotlib.figure import Figure

    suffix = Path(path).suffix.lower() if path is not None else ".png"
    if suffix not in (".png", ".svg"):
        raise StudyError(f"-o: accepted are .png and .svg; given: {path}")
    points = result.tradeoff()
    figure = Figure(figsize=(13 if points else 7.5, 5.2), layout="constrained")
    axes = figure.subplots(1, 2 if points else 1, squeeze=False)[0]
    _draw_spectrum(axes[0], result)
    if points:
        _draw_tradeoff(axes[1], result, points)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # no date in the file: equal results give equal files
        metadata: dict[str, Any] = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, metadata=metadata)
    return figure


def _draw_spectrum(axis: Any, result: Result) -> None:
    epsilon = result["epsilon"]
    delta, lower, upper = (result[f"spectrum_{name}"] for name in ("delta", "lower", "upper"))
    fine = np.linspace(epsilon[0], epsilon[-1], 400)
    claim = claim_of(result)
    if claim is not None:
        axis.plot(fine, claim.delta(fine), color=_CLAIM, linestyle="--", linewidth=1.6, label=f"claimed: {claim.text}")
    truth = _exact(result, fine)
    if truth is not None:
        axis.plot(fine, truth, color=_EXACT, linewidth=1.2, label="exact")
    axis.fill_between(epsilon, lower, upper, color=_INK, alpha=0.15, linewidth=0, label="certified ≥ … approximate ≤")
    axis.plot(epsilon, lower, color=_INK, linewidth=0.8, alpha=0.7)
    axis.plot(epsilon, delta, "o", color=_INK, markersize=4, label="estimated")
    what = "1 pair" if len(result.pairs) == 1 else f"largest of {len(result.pairs):,} pairs"
    axis.set(xlabel="ε", ylabel="δ(ε)", title=f"{result.name}: privacy spectrum, {what}, both directions")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.02)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)


def _exact(result: Result, epsilon: Any) -> Any:
    from hpcdp.databases import enumerate_pairs
    from hpcdp.store.arrays import read_array
    from hpcdp.store.layout import Layout
    from hpcdp.store.studies import latest_version, stored_databases
    from hpcdp.truth import exact_spectrum

    if result.study.pairs.distributional is not None:
        return None
    layout = Layout(result.store)
    databases = [read_array(layout.database(d)) for d in stored_databases(layout, latest_version(layout))]
    return exact_spectrum(result.study, enumerate_pairs(result.study, databases), epsilon)


def _draw_tradeoff(axis: Any, result: Result, points: list[dict[str, Any]]) -> None:
    axis.plot([0, 1], [1, 0], color="#999999", linewidth=0.8, linestyle=":", label="perfect privacy")
    claim = claim_of(result)
    if claim is not None:
        grid = np.linspace(0, 1, 401)
        axis.plot(
            grid, claim.tradeoff(grid), color=_CLAIM, linestyle="--", linewidth=1.6, label=f"claimed: {claim.text}"
        )
    alpha, beta = ([p[name] for p in points] for name in ("alpha", "beta"))
    over = [[p[f"{name}_upper"] - p[name] for p in points] for name in ("alpha", "beta")]
    axis.errorbar(
        alpha,
        beta,
        xerr=[np.zeros(len(points)), over[0]],
        yerr=[np.zeros(len(points)), over[1]],
        fmt="o",
        color=_INK,
        markersize=4,
        linewidth=0.8,
        label="estimated, with certified upper limits",
    )
    axis.set(xlabel="type-I error α", ylabel="type-II error β", title="trade-off points", xlim=(0, 1), ylim=(0, 1))
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
