"""The pictures: a result beside its claim and exact curve, trade-off points, several results, errors against samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcdp.errors import StudyError
from hpcdp.report.table import claim_of
from hpcdp.result import Result
from hpcdp.truth import exact_curve, exact_of

if TYPE_CHECKING:
    from hpcdp.comparison import Comparison
    from hpcdp.repeats import Repeats

_INK, _CLAIM, _EXACT = "#1b4f8a", "#b5482a", "#222222"


def draw(result: Result, path: str | Path | None = None, log: bool | None = None) -> Any:
    """Draw a result; with a path (.png or .svg), write it. Returns the matplotlib Figure.

    log: δ on a logarithmic axis; None: of a study with a target or a time, which is about small δ.
    """
    from matplotlib.figure import Figure

    check_path(path)
    points = result.tradeoff()
    figure = Figure(figsize=(13 if points else 7.5, 5.2), layout="constrained")
    axes = figure.subplots(1, 2 if points else 1, squeeze=False)[0]
    _draw_spectrum(axes[0], result, result.study.estimate.has_budget if log is None else log)
    if points:
        _draw_tradeoff(axes[1], result, points)
    return save(figure, path)


def check_path(path: str | Path | None) -> None:
    """Refuse what is neither .png nor .svg; StudyError."""
    if path is not None and Path(path).suffix.lower() not in (".png", ".svg"):
        raise StudyError(f"-o: accepted are .png and .svg; given: {path}")


def save(figure: Any, path: str | Path | None) -> Any:
    """Write a figure where a path is given; equal results give equal files. Returns the figure."""
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # no date in the file: equal results give equal files
        metadata: dict[str, Any] = {"Date": None} if Path(path).suffix.lower() == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, metadata=metadata)
    return figure


def draw_comparison(comparison: Comparison, path: str | Path | None = None, log: bool = False) -> Any:
    """Draw several spectra with their bounds, and exact curves where they are known. log: δ on a logarithmic axis.

    With a path (.png or .svg), write it. Returns the matplotlib Figure.
    """
    import matplotlib
    from matplotlib.figure import Figure

    check_path(path)
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    axis = figure.subplots()
    colours = matplotlib.colormaps["tab10"](np.arange(10))
    seen: list[float] = []
    for number, (name, result) in enumerate(zip(comparison.names, comparison.results, strict=True)):
        colour, marker = colours[number % len(colours)], "os^Dv<>P*X"[number % 10]
        order = np.argsort(result["epsilon"])
        epsilon, delta, lower, upper = (
            result[key][order] for key in ("epsilon", "spectrum_delta", "spectrum_lower", "spectrum_upper")
        )
        seen += delta[delta > 0].tolist()
        if log:  # bounds are known at the levels only, and a band down to 0 has no shape on this axis
            axis.vlines(epsilon, np.maximum(lower, np.finfo(float).tiny), upper, color=colour, linewidth=1.2, alpha=0.7)
        else:
            axis.fill_between(epsilon, lower, upper, color=colour, alpha=0.18, linewidth=0)
        axis.plot(epsilon, delta, marker, color=colour, markersize=4.5, label=name)
        fine = np.linspace(epsilon[0], epsilon[-1], 400)
        truth = exact_of(result, fine)
        if truth is not None:
            axis.plot(fine, truth, color=colour, linewidth=1.1, label=f"{name}, exact")
    if log:
        axis.plot([], [], color="#777777", linewidth=1.2, label="certified ≥ … approximate ≤")
    else:
        axis.fill_between([], [], [], color="#777777", alpha=0.25, label="certified ≥ … approximate ≤")
    axis.set(xlabel="ε", ylabel="δ(ε)", title="privacy spectra, largest of all pairs and both directions")
    if log and seen:
        axis.set_yscale("log")
        axis.set_ylim(bottom=0.5 * min(seen))
    else:
        axis.set_ylim(bottom=0)
    axis.margins(x=0.02)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)
    return save(figure, path)


def draw_errors(repeats: Repeats, path: str | Path | None = None) -> Any:
    """Draw the error of δ̂ against test samples per database, as in Figures 4c and 4d of Lu et al. (2024).

    Points: root mean square error over seeds, a line of expected standard error beside it (asymptotic, Figure 1 with the
    Bayes classifier), a colour for each ε. Where samples teach and test, all of them are counted as test samples. With a path
    (.png or .svg), write it. Returns the matplotlib Figure.
    """
    import matplotlib
    from matplotlib.figure import Figure

    check_path(path)
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    axis = figure.subplots()
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(repeats.epsilon)))
    test = np.array([sum(size) if repeats.reuse else size[1] for size in repeats.sizes])
    for colour, epsilon, rms, expected in zip(
        colours, repeats.epsilon, repeats.error.T, repeats.expected.T, strict=True
    ):
        axis.plot(test, np.where(rms > 0, rms, np.nan), "o", color=colour, markersize=5, label=f"ε = {epsilon:g}")
        axis.plot(test, expected, color=colour, linewidth=1.1)
    about = "exact value" if repeats.exact is not None else "mean over seeds"
    axis.plot([], [], color="#777777", linewidth=1.1, label="standard error, Bayes classifier")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="samples per database" if repeats.reuse else "test samples per database",
        ylabel=f"rms error of δ̂ about the {about}",
        title=f"{repeats.name}: error of δ̂ over {len(repeats.seeds)} seeds",
    )
    axis.grid(alpha=0.25, which="both")
    axis.legend(frameon=False)
    return save(figure, path)


def _draw_spectrum(axis: Any, result: Result, log: bool) -> None:
    epsilon = result["epsilon"]
    delta, lower, upper = (result[f"spectrum_{name}"] for name in ("delta", "lower", "upper"))
    fine = np.linspace(epsilon[0], epsilon[-1], 400)
    claim = claim_of(result)
    if claim is not None:
        axis.plot(fine, claim.delta(fine), color=_CLAIM, linestyle="--", linewidth=1.6, label=f"claimed: {claim.text}")
    truth = exact_of(result, fine)
    if truth is not None:
        axis.plot(fine, truth, color=_EXACT, linewidth=1.2, label="exact")
    sure, limits = result.resolution.rows, result.resolution.limits
    span = "certified ≥ … approximate ≤"
    if log:  # bounds are known at the levels only, and a band down to 0 has no shape on this axis
        axis.vlines(
            epsilon, np.maximum(lower, np.finfo(float).tiny), upper, color=_INK, linewidth=1.2, alpha=0.7, label=span
        )
        axis.set_yscale("log")
    else:
        axis.fill_between(epsilon, lower, upper, color=_INK, alpha=0.15, linewidth=0, label=span)
        axis.plot(epsilon, lower, color=_INK, linewidth=0.8, alpha=0.7)
    axis.plot(epsilon, np.where(sure, delta, np.nan), "o", color=_INK, markersize=4, label="estimated")
    if np.isfinite(limits).any():
        label = "not resolved: limit of the learned set"
        axis.plot(epsilon, limits, "v", color=_INK, markersize=5, markerfacecolor="none", label=label)
    what = "1 pair" if len(result.pairs) == 1 else f"largest of {len(result.pairs):,} pairs"
    axis.set(xlabel="ε", ylabel="δ(ε)", title=f"{result.name}: privacy spectrum, {what}, both directions")
    shown = np.concatenate([delta[sure & (delta > 0)], limits[np.isfinite(limits)]])
    axis.set_ylim(bottom=0.5 * shown.min() if log and shown.size else None if log else 0)
    axis.margins(x=0.02)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False)


def _draw_tradeoff(axis: Any, result: Result, points: list[dict[str, Any]]) -> None:
    axis.plot([0, 1], [1, 0], color="#999999", linewidth=0.8, linestyle=":", label="perfect privacy")
    claim = claim_of(result)
    if claim is not None:
        grid = np.linspace(0, 1, 401)
        axis.plot(
            grid, claim.tradeoff(grid), color=_CLAIM, linestyle="--", linewidth=1.6, label=f"claimed: {claim.text}"
        )
    truth = exact_curve(result, 0) if len(result.pairs) == 1 else None
    if truth is not None:
        grid = np.linspace(0, 1, 1001)
        axis.plot(grid, truth.tradeoff(grid), color=_EXACT, linewidth=1.2, label="exact")
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
