"""Figures 4 and 5, and two equal distributions: lower bounds of hundreds of seeds, certified and published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from local.figures.direct import Run, pure_level, run_seeds
from numpy.typing import NDArray
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part
from paper_figures.pictures import COLOURS, markdown, new_figure
from paper_figures.seeds import over_seeds

from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve

Floats = NDArray[np.float64]

LEVEL = 0.95
_LEAST_APART, _MOST_APART = 1.4, 2.1
_DEVIATIONS, _SLACK = 4.0, 0.03  # of a binomial number; what the asymptotics may be off


@dataclass(frozen=True)
class Bounds:
    """Runs of so many seeds, 1, 2, …; no store is written."""

    seeds: int = 400
    paper_seeds: int = 1000

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """All bounds, in order of the seeds; the seconds of a run are medians."""
        seeds = self.paper_seeds if paper else self.seeds
        runs: list[Run] = [run for block in over_seeds(place, study, seeds, run_seeds) for run in block]
        body: dict[str, Any] = {"name": study.name, "seeds": seeds, "level": _rounded(_level(study))}
        for name in ("certified", "lower", "literal", "estimate"):
            body[name] = [_rounded(getattr(run, name)) for run in runs]
        for name in ("drawing", "seconds"):
            body[name] = round(float(np.median([getattr(run, name) for run in runs])), 4)
        return Found(part, study, body)

    def sizes(self, found: Sequence[Found]) -> str:
        """All of them."""
        e = found[0].study.estimate
        return f"Samples per database: n = {e.train:,} for training, N = {e.test:,} for testing; {self.seeds} seeds."


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None


def _level(study: Study) -> float:
    return pure_level(study, resolve(study)[0])


def level_of(one: Found) -> float:
    """The largest exact pure level of its pairs; infinite where supports differ."""
    level = one.result["level"]
    return np.inf if level is None else float(level)


def bounds_of(one: Found, name: str) -> Floats:
    """certified, lower, literal or estimate of each seed."""
    return np.array(one.result[name], np.float64)


def _most(share: float, seeds: int, slack: float = 0.0) -> float:
    return share + _DEVIATIONS * float(np.sqrt(share * (1.0 - share) / seeds)) + slack


def near_reference(means: Sequence[float], tolerance: float) -> Callable[[Sequence[Found]], list[Check]]:
    """A rule: the mean of LB is within the tolerance of that of independent code, by part."""

    def check(found: Sequence[Found]) -> list[Check]:
        checks = []
        for one, known in zip(found, means, strict=True):
            mean = float(bounds_of(one, "lower").mean())
            rule = (
                f"ε₀ = {one.part.nominal:g}: the mean of LB is within {tolerance:g} of {known:g}, of independent code"
            )
            checks.append(Check(rule, abs(mean - known) <= tolerance, f"{mean:.4f}"))
        return checks

    return check


def reaches(goals: Sequence[float], short: float = 0.01) -> Callable[[Sequence[Found]], list[Check]]:
    """A rule: the mean certified limit is at most `short` below a goal, by part."""

    def check(found: Sequence[Found]) -> list[Check]:
        checks = []
        for one, goal in zip(found, goals, strict=True):
            mean = float(bounds_of(one, "certified").mean())
            rule = f"{_name(one)}the mean certified limit is at least {goal:g}, or at most {short:g} below"
            words = "" if mean >= goal else f", {goal - mean:.4f} below"
            checks.append(Check(rule, mean >= goal - short, f"{mean:.4f}{words}"))
        return checks

    return check


def _name(one: Found) -> str:
    return f"{one.part.label}: " if one.part.label else f"ε₀ = {one.part.nominal:g}: "


def certified_covers(found: Sequence[Found]) -> list[Check]:
    """Certified limits are above the pairs' level in at most 5 % of runs, by 4 standard deviations of a binomial number."""
    checks = []
    for one in found:
        seeds, above = one.result["seeds"], int((bounds_of(one, "certified") > level_of(one)).sum())
        rule = f"{_name(one)}the certified limit is above the level in at most 5 % of runs (binomial 4σ)"
        checks.append(Check(rule, above / seeds <= _most(1.0 - LEVEL, seeds), f"{above} of {seeds}"))
    return checks


def published_covers(found: Sequence[Found]) -> list[Check]:
    """LB is at most the pairs' level in 95 % of runs (binomial 4σ, and .03 for the asymptotics)."""
    checks = []
    for one in found:
        seeds = one.result["seeds"]
        share = float((bounds_of(one, "lower") <= level_of(one)).mean())
        rule = f"{_name(one)}LB is at most the level in 95 % of runs (binomial 4σ and 3 %)"
        checks.append(
            Check(rule, abs(share - LEVEL) <= _most(0.0, seeds, _SLACK) + _sigma(seeds), f"{100 * share:.1f} %")
        )
    return checks


def lower_by_its_spread(found: Sequence[Found]) -> list[Check]:
    """The mean of LB is below the level by 1.4 to 2.1 of its standard deviations, as a 95 % limit's should be."""
    checks = []
    for one in found:
        lower = bounds_of(one, "lower")
        apart = float((level_of(one) - lower.mean()) / lower.std(ddof=1))
        rule = f"{_name(one)}the mean of LB is below the level by {_LEAST_APART:g} to {_MOST_APART:g} standard deviations of it"
        checks.append(Check(rule, _LEAST_APART <= apart <= _MOST_APART, f"by {apart:.2f}"))
    return checks


def _sigma(seeds: int) -> float:
    return _DEVIATIONS * float(np.sqrt(LEVEL * (1.0 - LEVEL) / seeds))


def exposes(name: str, levels: Sequence[float]) -> Callable[[Sequence[Found]], list[Check]]:
    """A rule: a bound is above ε₀ in at least 99 % of runs, at these ε₀."""

    def check(found: Sequence[Found]) -> list[Check]:
        checks = []
        words = "the certified limit" if name == "certified" else "LB"
        for one in (one for one in found if one.part.nominal in levels):
            seeds, above = one.result["seeds"], int((bounds_of(one, name) > one.part.nominal).sum())
            rule = f"ε₀ = {one.part.nominal:g}: {words} is above ε₀ in at least 99 % of runs"
            checks.append(Check(rule, above >= 0.99 * seeds, f"{above} of {seeds}"))
        return checks

    return check


def the_sign_halves_false_alarms(found: Sequence[Found]) -> list[Check]:
    """At loss 0: the literal bound is above 0 in about 10 % of runs, the signed and the certified in at most 5 %."""
    (one,) = found
    seeds = one.result["seeds"]
    shares = {name: float((bounds_of(one, name) > 0.0).mean()) for name in ("literal", "lower", "certified")}
    spread = _DEVIATIONS * float(np.sqrt(0.1 * 0.9 / seeds))
    rules = [
        Check(
            "LB to the letter is above 0 in 10 % of runs (binomial 4σ)",
            abs(shares["literal"] - 0.1) <= spread,
            f"{100 * shares['literal']:.1f} %",
        )
    ]
    for name, words in (("lower", "LB with the sign of training"), ("certified", "the certified limit")):
        rule = f"{words} is above 0 in at most 5 % of runs (binomial 4σ)"
        rules.append(Check(rule, shares[name] <= _most(0.05, seeds), f"{100 * shares[name]:.1f} %"))
    return rules


def draw_cdfs(found: Sequence[Found], title: str) -> Any:
    """Empirical distribution functions of LB and of the certified limit, with the exact levels and ε₀."""
    figure, axes = new_figure(rows=(4.2,))
    axis = axes[0, 0]
    for colour, one in zip(COLOURS, found, strict=False):
        share = np.arange(1, one.result["seeds"] + 1) / one.result["seeds"]
        label = one.part.label or f"ε₀ = {one.part.nominal:g}"
        axis.step(np.sort(bounds_of(one, "certified")), share, where="post", color=colour, label=f"{label}, certified")
        axis.step(
            np.sort(bounds_of(one, "lower")), share, where="post", color=colour, linestyle=":", label=f"{label}, LB"
        )
        axis.axvline(one.part.nominal, color=colour, linestyle="--", linewidth=0.8)
        if np.isfinite(level_of(one)):
            axis.axvline(level_of(one), color=colour, linewidth=0.8)
    axis.axhline(LEVEL, color="#b5482a", linewidth=0.8)
    axis.set(xlabel="lower bound", ylabel="share of runs at most there", ylim=(0.0, 1.02))
    axis.set_title(title, fontsize=11)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def bounds_table(found: Sequence[Found]) -> list[str]:
    """Means and shares of the bounds."""
    rows = []
    for one in found:
        level, certified, lower = level_of(one), bounds_of(one, "certified"), bounds_of(one, "lower")
        rows.append(
            [
                one.part.label or f"{one.part.nominal:g}",
                f"{level:.4f}" if np.isfinite(level) else "∞",
                f"{certified.mean():.4f} ± {_error(certified):.4f}",
                f"{lower.mean():.4f} ± {_error(lower):.4f}",
                f"{bounds_of(one, 'estimate').mean():.4f}",
                f"{100 * (certified > level).mean():.1f} %",
                f"{100 * (lower <= level).mean():.1f} %",
                f"{100 * (lower <= one.part.nominal).mean():.1f} %",
            ]
        )
    head = ["ε₀", "level", "certified", "LB", "ε̂", "certified above level", "LB ≤ level", "LB ≤ ε₀"]
    if found[0].part.label:
        head[0] = "pairs"
    return markdown(head, rows)


def timed_table(found: Sequence[Found], published: float) -> list[str]:
    """The table of bounds, and the time of a run beside that of Table II."""
    seconds = [one.result["seconds"] for one in found]
    drawing = [one.result["drawing"] for one in found]
    words = (
        f"{min(seconds):.2f} to {max(seconds):.2f} s"
        if max(seconds) - min(seconds) >= 0.005
        else f"{max(seconds):.2f} s"
    )
    return [
        *bounds_table(found),
        "",
        f"A run took {words} (median), of which drawing its samples took {min(drawing):.3f} to {max(drawing):.3f} s; in Table II "
        f"{published:g} s, on a desktop computer with four cores. Other work shared the cores here.",
    ]


def _error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))
