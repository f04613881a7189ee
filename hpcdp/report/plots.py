"""The pictures: a result beside its claim and exact curve, trade-off points, several results, errors against samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from hpcdp._base.rounding import percent
from hpcdp.report._spectra import (
    SHADE,
    Floats,
    draw_legend,
    draw_spectrum,
    finish,
    is_seen,
    panels,
    save,
    span,
)
from hpcdp.report.colours import CERTIFIED, CLAIM, EXACT, MARKERS, QUIET, shades
from hpcdp.report.exposed import find_exposure
from hpcdp.report.plots_methods import FIGURES, draw_frame
from hpcdp.results.comparison import Comparison, exact_curve, exact_of
from hpcdp.results.result import Result
from hpcdp.results.verdict import PURE, verify
from hpcdp.study.claims import Claim

if TYPE_CHECKING:
    from hpcdp.driver.repeats import Repeats

_STEPS = 400  # of the curves of claims and exact laws
_LONGEST = 40  # characters of a path in a legend


def draw(result: Result, path: str | Path | None = None, log: bool | None = None) -> Any:
    """Draw a result, see `Result.plot`."""
    if "spectrum" not in result.notions:
        return save(FIGURES[result.notions[0]](result), path, result.code_warnings)
    points = result.tradeoff()
    figure, axes = panels(13 if points else 7.5, columns=2 if points else 1)
    claim = result.claim
    truth, scale = exact_of(result, levels_of(result)), is_about_small(result) if log is None else log
    draw_largest(axes[0] if points else axes, result, claim, truth, scale, _title(result))
    if points:
        draw_points(axes[1], result, claim, points)
    return save(figure, path, result.code_warnings)


def is_about_small(result: Result) -> bool:
    """Whether a result is about δ so small that only a logarithmic axis shows it."""
    return result.study.estimate.has_budget or bool(result.method.further_bounds)


def draw_comparison(comparison: Comparison, path: str | Path | None = None, log: bool = False) -> Any:
    """The Figure of several spectra with their bounds, and exact curves where they are known; written where a path is given."""
    figure, axis = panels()
    results = [*comparison.results]
    colours, ends, names = shades(len(results)), span(results), _apart(comparison.names)
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        colour = colours[number]
        draw_spectrum(axis, result, ends, colour, MARKERS[number % len(MARKERS)], name, SHADE / (len(results) - 1))
        fine = np.linspace(*ends, _STEPS)
        truth = exact_of(result, fine)
        if truth is not None:
            axis.plot(fine, truth, color=colour, linestyle="--", linewidth=1.0, label=f"{name}, exact")
    percents = dict.fromkeys(percent(result.confidence) for result in results)
    title = "privacy spectra, largest of all pairs and both directions\n"
    finish(axis, results, colours, log, f"{title}bounds of each certified at {' or '.join(percents)}")
    warnings = [
        f"{name}: {words}" for name, result in zip(names, results, strict=True) for words in result.code_warnings
    ]
    return save(figure, path, warnings)


def _apart(names: Sequence[str]) -> list[str]:
    """Names for a legend: of paths of which some is long, the ends, as few folders as tell them apart; cut in the middle."""
    if max(map(len, names)) <= _LONGEST:
        return [*names]
    parts = [PurePath(name).parts for name in names]
    ends = [tuple(path[-many:] for path in parts) for many in range(1, max(map(len, parts)) + 1)]
    kept = next((candidate for candidate in ends if len(set(candidate)) == len(names)), parts)
    said = [("…/" if len(end) < len(path) else "") + str(PurePath(*end)) for end, path in zip(kept, parts, strict=True)]
    half = _LONGEST // 2
    cut = [name if len(name) <= _LONGEST else f"{name[:half]}…{name[-half:]}" for name in said]
    return cut if len(set(cut)) == len(names) else said


def draw_errors(repeats: Repeats, path: str | Path | None = None) -> Any:
    """The Figure of δ̂'s root mean square error over seeds against test samples, beside standard errors (Lu et al., 4c, 4d)."""
    figure, axis = panels()
    colours = shades(len(repeats.epsilon))
    test = np.array([sum(size) if repeats.reuse else size[1] for size in repeats.sizes])
    lines: list[Any] = []
    for colour, epsilon, rms, expected in zip(
        colours, repeats.epsilon, repeats.error.T, repeats.expected.T, strict=True
    ):
        axis.plot(test, np.where(rms > 0, rms, np.nan), "o", color=colour, markersize=5, label=f"ε = {epsilon:g}")
        lines += axis.plot(test, expected, color=colour, linewidth=1.1)
    about = "exact value" if repeats.exact is not None else "mean over seeds"
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="samples per database" if repeats.reuse else "test samples per database",
        ylabel=f"rms error of δ̂ about the {about}",
        title=f"{repeats.name}: error of δ̂ over {len(repeats.seeds)} seeds",
    )
    axis.grid(alpha=0.25, which="both")
    words = Line2D([], [], color=QUIET, linewidth=1.1, label="standard error, Bayes classifier")
    draw_legend(axis, [words] if any(is_seen(axis, line) for line in lines) else [])
    return save(figure, path)


def levels_of(result: Result) -> Floats:
    """The ε at which curves of claims and exact laws are drawn beside a result, shape (400,)."""
    return np.linspace(*span([result]), _STEPS)


def draw_largest(axis: Any, result: Result, claim: Claim | None, truth: Floats | None, log: bool, title: str) -> None:
    """Draw the largest δ at each ε with its bounds, beside the claim and, where it is known at `levels_of`, the exact δ."""
    ends = span([result])
    draw_spectrum(axis, result, ends, CERTIFIED, "o", None, SHADE)
    fine = levels_of(result)
    if claim is not None:
        axis.plot(fine, claim.implied(fine), color=CLAIM, linestyle="--", linewidth=1.8, label=f"claimed: {claim.text}")
    if truth is not None:
        axis.plot(fine, truth, color=EXACT, linewidth=0.9, label="exact")
    finish(axis, [result], [CERTIFIED], log, title)


def _title(result: Result) -> str:
    """Study, claim and verdict; whose δ it is; at which confidence the bounds hold."""
    claim = result.claim
    verdict = None if claim is None else verify(result, claim)
    said = "privacy spectrum" if verdict is None else f"{verdict.claim.text}: {verdict.text}"
    said += " (by [pure])" if verdict is not None and verdict.family == PURE else ""
    lines = [f"{result.name}: {said}" + ("" if result.complete else " (INCOMPLETE)")]
    if len(result.pairs) == 1:
        lines.append("pair 0, both directions")
    else:
        exposure = find_exposure(result)
        lines.append(f"largest of {len(result.pairs):,} pairs and both directions")
        if exposure is not None:
            lines.append(f"most exposed: {result.describe_pair(exposure.pair)}")
    which = "certified bounds hold" if result.method.further_bounds else "all bounds certified"
    lines[-1] += f"; {which} together at {percent(result.confidence)}"
    lines += [f"declared: D′ gives no output of {named}" for named in result.declared.values()]
    return "\n".join(lines)


def draw_points(axis: Any, result: Result, claim: Claim | None, points: list[dict[str, Any]]) -> None:
    """Draw trade-off points with their limits, beside the claimed and the exact curve."""
    draw_frame(axis, claim, np.linspace(0, 1, 401), 1.6)
    truth = exact_curve(result, 0) if len(result.pairs) == 1 else None
    if truth is not None:
        grid = np.linspace(0, 1, 1001)
        axis.plot(grid, truth.tradeoff(grid), color=EXACT, linewidth=1.2, label="exact")
    alpha, beta = ([p[name] for p in points] for name in ("alpha", "beta"))
    over = [[p[f"{name}_upper"] - p[name] for p in points] for name in ("alpha", "beta")]
    axis.errorbar(
        alpha,
        beta,
        xerr=[np.zeros(len(points)), over[0]],
        yerr=[np.zeros(len(points)), over[1]],
        fmt="o",
        color=CERTIFIED,
        markersize=4,
        linewidth=0.8,
        label="estimated, with certified upper limits",
    )
    axis.set(title="trade-off points", xlim=(0, 1), ylim=(0, 1))
    draw_legend(axis)
