"""Pictures that methods of their own have: audits, pure ε with the loss of the leading pair, sampled sensitivities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.analytic._exact import exact_log_density
from hpcdp.engine.derived import Records
from hpcdp.errors import StudyError
from hpcdp.losses import foreign_code, make_loss, validate_parameters
from hpcdp.losses.kde.kde import Kde, LineModel
from hpcdp.losses.local import as_json, in_region, is_discrete
from hpcdp.losses.protocol import Side
from hpcdp.notions._figure import Figure
from hpcdp.report._spectra import draw_legend, mark_edge, panels, save
from hpcdp.report.colours import BOX, CERTIFIED, CLAIM, EXACT, QUIET, shades
from hpcdp.report.sentences import assumed
from hpcdp.report.tables import look_up
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.store.samples import read_blocks
from hpcdp.study.claims import Claim
from hpcdp.study.distributions import Conditional
from hpcdp.study.problem import Problem

_BINS = 60  # of sensitivities
_AROUND = 3.0  # boxes that the right panel shows to each side of the vulnerable point
_LEAST_EVIDENCE = 1e-6  # what is below is not drawn, so that the axis shows what speaks against a claim
_MARKED = 200  # looks that have a marker each
_SMALLEST = 1e-6  # half of its width at least
_MOST_VALUES = 40  # of a discrete output that a figure shows
_MOST_PAIRS = 60


def draw_sensitivities(result: Result, upright: bool = False) -> Any:
    """The figure of S with every Δ: histogram and empirical distribution function (Figure 7). upright: one above the other."""
    values = np.sort(result["risk_sensitivity"])
    if not values.size:
        raise StudyError("plot: pairs are missing; accepted: a complete store")
    figure, (left, right) = panels(4.9, 8.0, 2) if upright else panels(11.0, 4.4, columns=2)
    left.hist(values, bins=_BINS, color=CERTIFIED)
    right.plot(values, np.arange(1, values.size + 1) / values.size, color=CERTIFIED, label="empirical distribution")
    for colour, entry in zip(shades(len(result.risk)), result.risk, strict=True):
        for axes in (left, right):
            axes.axvline(entry["sensitivity"], color=colour, linestyle="--", label=f"Δ of cover {entry['cover']}")
    left.set(
        xlabel="S = ‖f(x) − f(y)‖₁", ylabel="pairs", title=f"{result.name}: sensitivities of {values.size:,} pairs"
    )
    right.set(xlabel="S", ylabel="share of pairs", ylim=(0.0, 1.02), title=f"{result.name}: distribution of S")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend()
    return figure


def draw_audit(audit: Audit, path: str | Path | None = None, upright: bool = False) -> Any:
    """The Figure of the pair with the largest margin (Askin et al. 2025, Figure 4), and of its box; upright: in one column."""
    figure, (whole, near) = panels(4.9, 8.6, 2) if upright else panels(13, 5.4, columns=2)
    box = audit.worst
    centre, corner = (box.alpha, box.beta), (box.alpha_upper, box.beta_upper)
    if box.orientation == "reverse":
        centre, corner = centre[::-1], corner[::-1]
    for axis in (whole, near):
        _draw_curves(axis, audit, centre, corner)
    sides = [max(_AROUND * (k - c), _SMALLEST) for c, k in zip(centre, corner, strict=True)]
    view = [(max(0.0, c - side), min(1.0, c + side)) for c, side in zip(centre, sides, strict=True)]
    near.set(xlim=view[0], ylim=view[1])
    limits = f"α ≤ {at_most(box.alpha_upper, '.4g')}, β ≤ {at_most(box.beta_upper, '.4g')}"
    near.set_title(f"the box: {limits}; margin to the claim {at_least(box.margin, '+.4g')}", fontsize=10.5)
    (left, right), (low, high) = view
    whole.add_patch(Rectangle((left, low), right - left, high - low, fill=False, edgecolor=EXACT, linewidth=0.8))
    said = "violation" if box.violated else "no violation found"
    whole.set(xlim=(0, 1), ylim=(0, 1))
    title = (
        f"{audit.result.name}: {audit.claim.text}: {said}\n{audit.result.describe_pair(box.pair)}, {box.orientation}; "
    )
    whole.set_title(f"{title}limits certified at {percent(audit.result.confidence)}", fontsize=10.5)
    draw_legend(whole)
    return save(figure, path, audit.result.code_warnings)


def draw_sequential(audit: SequentialAudit, path: str | Path | None = None) -> Any:
    """The Figure of the evidence against the claim after each batch; written where a path is given."""
    figure, axis = panels()
    samples = [0, *(look.samples for look in audit.looks)]
    evidence = np.array([1.0, *(look.evidence for look in audit.looks)])
    low = evidence < _LEAST_EVIDENCE
    shown = np.where(low, np.nan, evidence)
    marker = "o" if len(samples) <= _MARKED else None
    axis.plot(
        samples, shown, marker=marker, color=CERTIFIED, markersize=4, linewidth=1.1, label="evidence against the claim"
    )
    if low.any():
        mark_edge(axis, np.array(samples)[low], CERTIFIED, f"evidence below {_LEAST_EVIDENCE:g}")
    axis.axhline(audit.needed, color=CLAIM, linewidth=1.5, label="refuted from here on")
    axis.axhline(1.0, color=QUIET, linewidth=0.8, linestyle=":")
    said = "violation" if audit.looks[-1].refuted else "no violation found"
    axis.set(
        yscale="log",
        xlabel="samples per database, training included",
        ylabel="evidence",
        title=f"{audit.name}: {audit.claim}: {said}, at confidence {percent(audit.confidence)}",
    )
    axis.grid(alpha=0.25)
    draw_legend(axis)
    return save(figure, path, audit.code_warnings)


def draw_frame(axis: Any, claim: Claim | None, sizes: Any, width: float) -> None:
    """Axes of a trade-off curve, perfect privacy, and what is claimed at some type-I errors."""
    axis.plot([0, 1], [1, 0], color=QUIET, linewidth=0.8, linestyle=":", label="perfect privacy")
    if claim is not None:
        style = {"color": CLAIM, "linestyle": "--", "linewidth": width, "label": f"claimed: {claim.text}"}
        axis.plot(sizes, claim.tradeoff(sizes), **style)
    axis.set(xlabel="type-I error α", ylabel="type-II error β")
    axis.grid(alpha=0.25)


def _draw_curves(axis: Any, audit: Audit, centre: tuple[float, ...], corner: tuple[float, ...]) -> None:
    result, box = audit.result, audit.worst
    sizes = np.unique(np.concatenate([np.linspace(0.0, 1.0, 1001), np.geomspace(1e-6, 1.0, 400)]))
    draw_frame(axis, audit.claim, sizes, 1.8)
    trained = [result[f"training_{name}"][box.pair] for name in ("alpha", "beta")]
    tested = [result[name][box.pair] for name in ("alpha", "beta")]
    if box.orientation == "reverse":
        trained, tested = trained[::-1], tested[::-1]
    order = np.lexsort((-trained[1], trained[0]))
    x, y = (np.concatenate([[first], v[order], [last]]) for v, first, last in zip(trained, (0, 1), (1, 0), strict=True))
    axis.plot(x, y, color=CERTIFIED, linewidth=0.9, alpha=0.6, label="training estimate")
    axis.plot(*tested, ".", color=CERTIFIED, markersize=3, label="test, every η")
    low = [max(0.0, 2.0 * c - k) for c, k in zip(centre, corner, strict=True)]  # as far below as the limits are above
    axis.add_patch(
        Rectangle((low[0], low[1]), corner[0] - low[0], corner[1] - low[1], facecolor=BOX, edgecolor=EXACT, alpha=0.6)
    )
    axis.plot(*corner, marker="s", color=EXACT, markersize=4, linestyle="none", label="upper limits, certified")
    axis.plot(
        *centre,
        marker="o",
        color=EXACT,
        markerfacecolor="white",
        markersize=6,
        linestyle="none",
        label=f"vulnerable point, η = {box.eta:.3g}",
    )


def draw_limits(result: Result) -> Any:
    """The Figure of certified limits of pure ε, pair by pair, beside published figures and, of a histogram, upper limits."""
    note, series = "", [("published.estimate", "x", "ε̂ (estimate)"), ("published.lower", "_", "LB (asymptotic)")]
    if "interval" in result.notions:
        series = [("upper", "v", f"≤ if {assumed(result)}"), ("published", "x", "published ε̂")]
        is_refuted = result.pure is not None and result.pure["refuted"] is not None
        note = "; counts refute what upper limits rest on" * is_refuted
    entries = [] if result.pure is None else result.pure["rows"] or [result.pure]
    if len(entries) > _MOST_PAIRS:  # names of more could not be read
        entries = sorted(entries, key=lambda entry: -entry["certified"])[:_MOST_PAIRS]
        note += f"; the {_MOST_PAIRS} largest limits"
    figure, axes = panels(height=4.8)
    axes.plot([e["certified"] for e in entries], "o", color="#1f4e79", label="certified ≥ (finite-sample)")
    for key, mark, label in series:
        values = [(i, value) for i, e in enumerate(entries) if (value := look_up(e, key)) is not None]
        if values:
            axes.plot(*zip(*values, strict=True), mark, color="#c55a11", label=label)
    axes.set_xticks(range(len(entries)), [str(entry.get("pair", "domain")) for entry in entries])
    axes.set(xlabel="pair", ylabel="pure ε", title=f"{result.name}: pure ε{note}")
    axes.set_ylim(0.0, 1.1 * max(1e-3, axes.dataLim.y1))
    axes.legend()
    return figure


FIGURES: Mapping[str, Callable[[Result], Any]] = {
    "pure": draw_limits,
    "interval": draw_limits,
    "covers": draw_sensitivities,
}
"""The pictures of notions but the spectrum."""


def draw_loss(result: Result) -> Any:
    """The Figure of both estimated densities of the leading pair, loss, t̂ and set; StudyError where there are none to draw."""
    measured, pure, e = result.pure, result.study.pure, result.study.estimate
    if pure is None or measured is None or measured["published"] is None:
        raise StudyError(
            "--loss: accepted with a study that has [pure], whose densities are estimated and whose tests are done"
        )
    problem = Records(result.layout.root).problem
    if problem.train not in problem.kept_stages:
        raise StudyError('--loss: needs the training samples; accepted: estimate.keep = "train" or "all"')
    chunks = range(problem.train.chunks)
    sides = []
    for law in problem.pair_laws[measured["pair"]]:
        parts = list(read_blocks(result.layout, problem.train, law, problem.schema, chunks))
        sides.append(Side(np.concatenate(parts), problem.train.total))
    if sides[0].outputs.ndim > 1:
        raise StudyError("--loss: accepted with outputs of one column")
    discrete = is_discrete(sides)
    rule = validate_parameters(e.default_loss, e.parameters) if e.default_loss == "kde" else None
    at, left_out = measured["published"]["at"], 0
    if discrete:
        points, densities, left_out = _frequencies(sides, at)
        at = [as_json(v) for v in points].index(at)
    else:
        points, densities = _kernels(sides, pure.within, rule)
    true = _exact(problem, measured["pair"], points)
    floor = pure.floor_of(e.train)
    loss = np.log(np.maximum(densities[0], floor)) - np.log(np.maximum(densities[1], floor))
    title = f"{result.name}: pair {measured['pair']}" + (
        f"; {left_out:,} rarer values are left out" if left_out else ""
    )
    figure = Figure(figsize=(7.5, 7.0), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    places = np.arange(points.size) if discrete else points
    style: dict[str, Any] = {"drawstyle": "steps-mid"} if discrete else {}
    for density, name, colour in zip(densities, ("M(D)", "M(D′)"), ("#1f4e79", "#c55a11"), strict=True):
        top.plot(places, density, color=colour, label=name, **style)
    bottom.plot(places, loss, color="#333333", label="loss ln f − ln f′ (estimate)", **style)
    if true is not None:
        exact_style = {"color": "black", "linestyle": "--", "linewidth": 0.9, **style}
        for log_density, label in zip(true, ("exact", None), strict=True):
            top.plot(places, np.exp(log_density), label=label, **exact_style)
        with np.errstate(invalid="ignore"):
            difference = true[0] - true[1]
        bottom.plot(places, np.where(np.isfinite(difference), difference, np.nan), label="exact loss", **exact_style)
    bottom.axvline(at, color="#c55a11", linestyle=":", label="t̂")
    if foreign_code(e.default_loss, e.parameters) is None:
        scores = make_loss(e.default_loss, e.parameters).fit(*sides).score(points)
        sign = 1.0 if measured["direction"] == "forward" else -1.0
        inside = (sign * scores > measured["region"]["above"]) & in_region(points, pure.within)
        edges = np.append(places, places[-1] + 1) - 0.5 if discrete else np.append(places, places[-1])
        ends = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
        for number, (first, end) in enumerate(ends.reshape(-1, 2)):
            shade: dict[str, Any] = {"color": "#1f4e79", "alpha": 0.15, "linewidth": 0.0}
            bottom.axvspan(edges[first], edges[end], label=None if number else "set", **shade)
    if discrete:
        bottom.set_xticks(places, [str(as_json(v)) for v in points], parse_math=False)  # whatever they are called
    top.set(ylabel="frequency" if discrete else "density", title=title)
    bottom.set(xlabel="output", ylabel="loss")
    for axes in (top, bottom):
        axes.legend()
    return figure


def _exact(problem: Problem, number: int, points: Any) -> list[Any] | None:
    """Exact log densities of both laws of a pair, where the mechanism has them."""
    pair, mechanism = problem.pairs[number], problem.study.mechanism
    if isinstance(pair.d, Conditional) or isinstance(pair.d_prime, Conditional):
        return None
    databases, call = (pair.d, pair.d_prime), str(mechanism.call)
    laws = [exact_log_density(call, mechanism.parameters, np.asarray(database)) for database in databases]
    return None if None in laws else [law(points) for law in laws if law is not None]


def _frequencies(sides: list[Side], at: Any) -> tuple[Any, list[Any], int]:
    """The most frequent outputs, t̂ among them, their shares, and how many others there are."""
    every, counts = np.unique(np.concatenate([side.outputs for side in sides]), return_counts=True)
    counts[[as_json(v) == at for v in every]] = counts.sum()
    points = np.sort(every[np.argsort(-counts, kind="stable")[:_MOST_VALUES]])
    return points, [np.array([(side.outputs == v).mean() for v in points]) for side in sides], every.size - points.size


def _kernels(sides: list[Side], within: Any, parameters: Any) -> tuple[Any, list[Any]]:
    model = (Kde() if parameters is None else Kde(parameters)).fit(*sides)
    assert isinstance(model, LineModel)
    both = np.concatenate([side.outputs for side in sides])
    low, high = np.quantile(both, [0.001, 0.999]) if within is None else within[0]
    points = np.linspace(low, high, 1001)
    return points, [model.p.density(points), model.q.density(points)]
