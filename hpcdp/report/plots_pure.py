"""Figures of pure ε: limits of the pairs, and the loss of the leading one."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcdp.analytic.densities import exact_log_density
from hpcdp.errors import StudyError
from hpcdp.losses import foreign_code, make_loss, validate_parameters
from hpcdp.losses.kde.kde import Kde, LineModel
from hpcdp.losses.local import as_json, in_region, is_discrete
from hpcdp.losses.protocol import Side
from hpcdp.notions._figure import Figure
from hpcdp.report.pure import assumed
from hpcdp.results.result import Result
from hpcdp.results.ways import Records
from hpcdp.store.samples import read_blocks
from hpcdp.study.distributions import Conditional
from hpcdp.study.problem import Problem

_MOST_VALUES = 40  # of a discrete output that a figure shows
_MOST_PAIRS = 60


def draw_limits(result: Result) -> Any:
    """Certified limits and published figures of the pairs that were tested. Returns the matplotlib figure."""
    found = result.pure
    entries = [] if found is None else found["rows"] or [found]
    if len(entries) > _MOST_PAIRS:  # names of more could not be read
        entries = sorted(entries, key=lambda entry: -entry["certified"])[:_MOST_PAIRS]
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    numbers = np.arange(len(entries))
    axes.plot(numbers, [e["certified"] for e in entries], "o", color="#1f4e79", label="certified ≥ (finite-sample)")
    if result.study.bounds_pure:
        return _draw_intervals(result, figure, axes, entries)
    told = [(i, e["published"]) for i, e in enumerate(entries) if e["published"] is not None]
    for key, mark, label in (("estimate", "x", "ε̂ (estimate)"), ("lower", "_", "LB (asymptotic)")):
        axes.plot([i for i, _ in told], [p[key] for _, p in told], mark, color="#c55a11", label=label)
    _finish(result, axes, [str(e["pair"]) for e in entries])
    return figure


def _finish(result: Result, axes: Any, names: list[str], note: str = "") -> None:
    if len(result.pairs) > _MOST_PAIRS == len(names):
        note += f"; the {_MOST_PAIRS} largest limits"
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel="pair", ylabel="pure ε", title=f"{result.name}: pure ε{note}")
    axes.set_ylim(0.0, 1.1 * max(1e-3, axes.dataLim.y1))
    axes.legend()


def _draw_intervals(result: Result, figure: Any, axes: Any, entries: list[dict[str, Any]]) -> Any:
    """Both ends of each interval, where there are two, and the published estimate."""
    for key, mark, label in (("upper", "v", f"≤ if {assumed(result)}"), ("published", "x", "published ε̂")):
        told = [(i, e[key]) for i, e in enumerate(entries) if e[key] is not None]
        if told:
            axes.plot([i for i, _ in told], [value for _, value in told], mark, color="#c55a11", label=label)
    is_refuted = result.pure is not None and result.pure["refuted"] is not None
    note = "; counts refute what upper limits rest on" if is_refuted else ""
    _finish(result, axes, [str(e.get("pair", "domain")) for e in entries], note)
    return figure


def draw_loss(result: Result) -> Any:
    """Estimated densities of both laws of the leading pair, their loss, t̂ and the set, from training samples.

    Dashed: both exact densities and the exact loss, where they are known (`hpcdp.analytic.densities`).

    Raises:
        StudyError: the study has no [pure], training samples are not kept, or outputs have several real columns.
    """
    found, pure, e = result.pure, result.study.pure, result.study.estimate
    if pure is None or found is None or found["published"] is None:
        raise StudyError(
            "--loss: accepted with a study that has [pure], whose densities are estimated and whose tests are done"
        )
    problem = Records(result.layout.root).problem
    if problem.train not in problem.kept_stages:
        raise StudyError('--loss: needs the training samples; accepted: estimate.keep = "train" or "all"')
    chunks = range(problem.train.chunks)
    sides = []
    for law in problem.pair_laws[found["pair"]]:
        parts = list(read_blocks(result.layout, problem.train, law, problem.schema, chunks))
        sides.append(Side(np.concatenate(parts), problem.train.total))
    if sides[0].outputs.ndim > 1:
        raise StudyError("--loss: accepted with outputs of one column")
    discrete = is_discrete(sides)
    rule = validate_parameters(e.default_loss, e.parameters) if e.default_loss == "kde" else None
    at, left_out = found["published"]["at"], 0
    if discrete:
        points, densities, left_out = _frequencies(sides, at)
        at = [as_json(v) for v in points].index(at)
    else:
        points, densities = _kernels(sides, pure.within, rule)
    true = _exact(problem, found["pair"], points)
    floor = pure.floor_of(e.train)
    loss = np.log(np.maximum(densities[0], floor)) - np.log(np.maximum(densities[1], floor))
    title = f"{result.name}: pair {found['pair']}" + (f"; {left_out:,} rarer values are left out" if left_out else "")
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
        sign = 1.0 if found["direction"] == "forward" else -1.0
        inside = (sign * scores > found["region"]["above"]) & in_region(points, pure.within)
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
    laws = [
        exact_log_density(str(mechanism.call), mechanism.parameters, np.asarray(database))
        for database in (pair.d, pair.d_prime)
    ]
    return None if laws[0] is None or laws[1] is None else [law(points) for law in laws if law is not None]


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
