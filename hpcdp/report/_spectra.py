"""A spectrum on an axis: what is certified as a shaded region, estimates as points, what is not resolved as limits; and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from hpcdp._base.asked import option, path_of
from hpcdp._base.terminal import plain
from hpcdp.errors import StudyError
from hpcdp.notions._draw import write_figure
from hpcdp.notions._figure import Figure
from hpcdp.notions.epsilon_at import outline
from hpcdp.report.colours import ESTIMATED, UP_TO_LEFTOVER
from hpcdp.report.tables import wrapped
from hpcdp.results.result import Result

Floats = NDArray[np.float64]

CERTIFIED_WORDS = "certified: δ is on or above the line"
FURTHER_WORDS = "up to the leftover (finite-sample): δ ≥ mark − e^ε·r, by itself no bound"
ESTIMATED_WORDS = "estimated δ̂, whisker to approx ≤ (approximate)"
LIMIT_WORDS = "δ̂ not significantly above 0: limit of the learned sets"
EDGE_WORDS = "certified bound below the axis, or 0"

SHADE = 0.18  # of a certified region
_ARROW, _GREY = r"$\Downarrow$", "#444444"
_LOWEST = 1e-6  # where a logarithmic axis ends that shows nothing
_ESTIMATE: dict[str, Any] = {
    "markersize": 4.5,
    "markerfacecolor": "white",
    "markeredgewidth": 1.1,
    "clip_on": False,
    "zorder": 3.0,
}
_OPEN: dict[str, Any] = {"markerfacecolor": "none", "linestyle": "none", "clip_on": False, "zorder": 3.0}
_NOTE = "note"  # marks an entry of the legend that says why nothing is drawn
_SMALL, _PER_INCH = 7.0, 19  # size of the letters under a picture, and how many of them fit
_ROOM = 1.06  # above what is drawn, of its height


def span(results: list[Result]) -> tuple[float, float]:
    """From which to which ε a picture goes: over all levels; of a single one, from 0 to twice as far."""
    levels = np.concatenate([result["epsilon"] for result in results])
    start, stop = float(levels.min()), float(levels.max())
    return (start, stop) if start < stop else (0.0, 2.0 * stop or 1.0)


def draw_spectrum(
    axis: Any, result: Result, ends: tuple[float, float], colour: Any, marker: str, name: str | None, alpha: float
) -> None:
    """One result's largest estimates and what its bounds imply, certified wherever it is drawn; whiskers are approximate."""
    order = _draw_certified(axis, result, ends, colour, name, alpha)
    if not order.size:
        return
    epsilon, delta, upper = (result[name][order] for name in ("epsilon", "spectrum_delta", "spectrum_upper"))
    further = result.method.further_bounds if name is None else ()
    for bound in further:
        values, own = result[f"spectrum_{bound}"][order], {"color": UP_TO_LEFTOVER, "gid": "up to the leftover"}
        axis.plot(
            epsilon[values > 0.0], values[values > 0.0], "^", label=FURTHER_WORDS, markersize=5.5, **(_OPEN | own)
        )
    colour = ESTIMATED if further else colour  # never that of what is certified beside another kind of bound
    sure, limits = result.resolution.rows[order], result.resolution.limits[order]
    over = np.maximum(0.0, upper - delta)[sure]
    style = {"color": colour, "fmt": marker, "elinewidth": 0.7, "label": ESTIMATED_WORDS if name is None else name}
    bars = axis.errorbar(epsilon[sure], delta[sure], yerr=[over if further else 0.0 * over, over], **_ESTIMATE, **style)
    bars[0].set_gid("estimate")
    named = None if sure.any() else name
    axis.plot(epsilon[~sure], limits[~sure], "v", gid="limit", label=named, color=colour, markersize=6, **_OPEN)


def _draw_certified(
    axis: Any, result: Result, ends: tuple[float, float], colour: Any, name: str | None, alpha: float
) -> NDArray[np.intp]:
    """Draw the certified region, or say that there is none; returns where the ε with counts are, ascending."""
    order = np.argsort(result["epsilon"])
    order = order[~np.isnan(result["spectrum_lower"][order])]
    if not order.size:
        uncounted = "no entry has all its counts yet"
        axis.plot([], [], color=colour, gid=_NOTE, label=uncounted if name is None else f"{name}: {uncounted}")
        return order
    x, y = outline(result["epsilon"][order], result["spectrum_lower"][order], *ends)
    axis.fill_between(x, y, 0.0, color=colour, alpha=alpha, linewidth=0, gid="certified")
    axis.plot(x, y, color=colour, linewidth=1.5, gid="certified", zorder=2.2)
    return order


def finish(axis: Any, results: list[Result], colours: list[Any], log: bool, title: str) -> None:
    """Axes, marks at the lower edge, words and legend. δ ends at 1; a logarithmic axis begins below what is drawn."""
    start, stop = span(results)
    axis.set_xlim(start - 0.02 * (stop - start), stop + 0.02 * (stop - start))
    drawn = [_shown(result) for result in results]
    shown = np.concatenate(drawn) if drawn else np.empty(0)
    if log:
        axis.set_yscale("log")
        # half of the smallest that is drawn; lower where a bound would not be seen at any ε of a result
        bounds = [bound for result in results if (bound := result["spectrum_lower"].max(initial=0.0)) > 0.0]
        bottom = 0.5 * min([*shown.tolist(), *bounds], default=2.0 * _LOWEST)
        axis.set_ylim(bottom, 1.0)
        for result, colour in zip(results, colours, strict=True):
            mark_edge(axis, result["epsilon"][result["spectrum_lower"] < bottom], colour)
        for line in axis.get_lines():  # a curve that has a name and lies below the axis would be nowhere to be seen
            x, y = (np.asarray(values, np.float64) for values in line.get_data())
            if not line.get_label().startswith("_") and line.get_gid() is None and y.size and (y < bottom).all():
                mark_edge(axis, x[[x.size // 2]], line.get_color(), f"{line.get_label()}, below this axis", "below")
    else:
        tops = [
            values.max()
            for values in (*drawn, *(_finite(line.get_ydata()) for line in axis.get_lines()))
            if values.size
        ]
        tops += [_finite(result["spectrum_upper"][result.resolution.rows]).max(initial=0.0) for result in results]
        axis.set_ylim(0.0, min(1.0, _ROOM * max(tops, default=1.0) or 1.0))
    axis.set(xlabel="ε", ylabel="δ(ε)")
    axis.set_title(title, fontsize=10.5)
    axis.grid(alpha=0.25)
    shared = _shared(axis, results, colours[0] if len(results) == 1 else _GREY)
    draw_legend(axis, shared, fontsize=8.5 if len(results) < 6 else 7)


def draw_legend(axis: Any, others: Sequence[Any] = (), **style: Any) -> None:
    """A legend of what is seen on an axis that is done, and these others."""
    seen = [handle for handle in axis.get_legend_handles_labels()[0] if is_seen(axis, handle)]
    axis.legend(handles=[*seen, *others], frameon=False, **style)


def is_seen(axis: Any, handle: Any) -> bool:
    """Whether any part of a line, or of the points and whiskers of an error bar, lies within an axis; a note always is."""
    if isinstance(handle, tuple):
        points, _, whiskers = handle
        return any(is_seen(axis, part) for part in (points, *whiskers))
    axis.autoscale_view()  # else matplotlib does so as it draws
    box, is_line = axis.bbox.padded(1.0), handle.get_linestyle() != "None"
    for path in handle.get_paths() if hasattr(handle, "get_paths") else [handle.get_path()]:
        drawn = handle.get_transform().transform_path(path).cleaned(remove_nans=True)
        points = drawn.vertices[drawn.codes != drawn.STOP]
        if any(box.contains(x, y) for x, y in points) or (is_line and drawn.intersects_bbox(box, filled=False)):
            return True
    return bool(handle.get_gid() == _NOTE)


def _shown(result: Result) -> Floats:
    """What a logarithmic axis must reach: resolved estimates and limits, all above 0."""
    values = np.where(result.resolution.rows, result["spectrum_delta"], result.resolution.limits)
    return values[values > 0.0]


def _finite(values: Any) -> Floats:
    array = np.asarray(values, np.float64)
    return array[np.isfinite(array)]


def mark_edge(axis: Any, places: Floats, colour: Any, label: str | None = None, gid: str = "edge") -> None:
    """Open arrows at an axis' lower edge, where a value is below it: it may be 0, the axis does not tell."""
    axis.plot(
        places,
        np.full(len(places), 0.025),
        marker=_ARROW,
        markersize=11,
        markeredgewidth=0.0,
        gid=gid,
        color=colour,
        linestyle="none",
        label=label,
        transform=axis.get_xaxis_transform(),
        clip_on=False,
    )


def _shared(axis: Any, results: list[Result], colour: Any) -> list[Any]:
    """Entries of the legend for what all results of a picture share."""
    marked = {line.get_gid() for line in axis.get_lines() if is_seen(axis, line)}
    open_mark: dict[str, Any] = {"color": colour, "linestyle": "none", "markerfacecolor": "none"}
    entries: list[Any] = []
    if "certified" in marked:
        entries.append(Patch(facecolor=(*to_rgb(colour), SHADE), edgecolor=colour, label=CERTIFIED_WORDS))
    if len(results) > 1 and any(is_seen(axis, box) for box in axis.containers):
        entries.append(Line2D([], [], marker="|", markersize=8, label=ESTIMATED_WORDS, color=colour, linestyle="none"))
    if "limit" in marked:
        marks = [line for line in axis.get_lines() if line.get_gid() == "limit" and is_seen(axis, line)]
        own = open_mark | ({"color": marks[0].get_color()} if len(results) == 1 else {})
        entries.append(Line2D([], [], marker="v", label=LIMIT_WORDS, **own))
    if "edge" in marked:
        arrow: dict[str, Any] = {"marker": _ARROW, "markersize": 10, "markeredgewidth": 0.0, "linestyle": "none"}
        entries.append(Line2D([], [], color=colour, label=EDGE_WORDS, **arrow))
    return entries


def panels(width: float = 7.5, height: float = 5.2, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """A figure of this size in inches, and its axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns)


def check_path(path: str | Path | None, accepted: Sequence[str] = (".png", ".svg")) -> None:
    """Refuse a file of another kind, StudyError."""
    if path is not None and path_of("path", path).suffix.lower() not in accepted:
        raise StudyError(f"{option('path', path, '-o')} was given; accepted are {' and '.join(accepted)}")


def save(figure: Any, path: str | Path | None, warnings: Sequence[str] = ()) -> Any:
    """Write a figure, which is returned, where a path is given, warnings under it; a dollar in a name begins no formula."""
    if lines := wrapped([f"WARNING: {words}" for words in warnings], int(_PER_INCH * figure.get_figwidth())):
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=_SMALL)
    for text in figure.texts:
        _draw_plainly(text)
    for axis in figure.axes:
        legend = axis.get_legend()
        words = [axis.title, axis.xaxis.label, axis.yaxis.label, *axis.texts, *(legend.get_texts() if legend else ())]
        for text in words:  # not the numbers at the axes, whose powers of ten are formulas
            _draw_plainly(text)
    if path is not None:
        check_path(path)
        write_figure(figure, Path(path))
    return figure


def _draw_plainly(text: Any) -> None:
    text.set_parse_math(False)
    text.set_text("\n".join(map(plain, text.get_text().split("\n"))))
