"""Intervals of pure ε and published estimates of many seeds, at several numbers of outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part
from paper_figures.pictures import COLOURS, MARKERS, markdown, new_figure
from paper_figures.seeds import over_seeds, resolved, with_seed

from hpcdp.analytic import Curve, exact
from hpcdp.lipschitz import sizes
from hpcdp.losses import validate_parameters
from hpcdp.losses.histogram import count_bins
from hpcdp.losses.parameters import FINE, HistogramParameters
from hpcdp.methods.histogram.interval import describe_interval
from hpcdp.notions.bins import choose_bins, largest_ratio, renyi_ratio
from hpcdp.store.stages import Stage
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve

Floats = NDArray[np.float64]
Row = list[float | None]


def given(study: Study) -> HistogramParameters:
    """What a study assumes."""
    e = study.estimate
    return cast("HistogramParameters", validate_parameters(e.default_loss, e.parameters))


def ends_curve(study: Study) -> Curve:
    """The exact pair of the study's first pair, or of both ends of its domain, which are the worst of this mechanism."""
    domain = study.pairs.domain
    listed = resolve(study)[0].pairs[0] if domain is None else None
    d, d_prime = (
        ([domain.lower], [domain.upper]) if domain else (np.asarray(listed.d), np.asarray(listed.d_prime))  # type: ignore[union-attr]
    )
    curve = exact(str(study.mechanism.call), study.mechanism.parameters, np.asarray(d), np.asarray(d_prime))
    assert curve is not None
    return curve


def run_seeds(
    text: str, folder: str, seeds: Sequence[int], outputs: Sequence[int], order: float | None, bins: int
) -> list[Any]:
    """Of each seed, at each number of outputs: both ends, and the published estimate from so many bins.

    Draws, choices and counts are those of `hpcdp run` of that seed and `test`. order: the estimate is that of Rényi's divergence.
    """
    found = []
    for seed in seeds:
        problem = with_seed(resolved(text, folder), seed)
        e, assumed, domain = problem.study.estimate, given(problem.study), problem.study.pairs.domain
        training = np.stack([_counted(problem, problem.train, law, [FINE])[0] for law in problem.laws])
        change = domain.change if domain else 0.0
        failure = 1.0 - e.confidence
        numbers = [choose_bins(training, n, failure, assumed.range, assumed.lipschitz, change)[0] for n in outputs]
        rows: list[Row] = []
        for n, number in zip(outputs, numbers, strict=True):
            stage = Stage.of("test", n, e.chunk, problem.schema)
            laws = [_counted(problem, stage, law, [number, bins]) for law in problem.laws]
            counts, published = (np.stack([law[i] for law in laws]) for i in (0, 1))
            pairs = np.array([] if domain else [[0, 1]], np.int64).reshape(-1, 2)
            arrays = {"bin_counts": (("law", "bin"), counts), "pair_laws": (("pair", "side"), pairs)}
            entry = describe_interval(problem.study, arrays, [] if domain else [{"pair": 0}])
            assert entry is not None
            rows.append([entry["certified"], entry["upper"], _published(published, order)])
        found.append(rows)
    return found


def _counted(problem: Problem, stage: Stage, law: str, numbers: Sequence[int]) -> list[NDArray[np.int64]]:
    found = [np.zeros(number, np.int64) for number in numbers]
    for chunk in range(stage.chunks):
        start, size = chunk * stage.chunk, stage.chunk_size(chunk)
        outputs = problem.sampler.draw(problem.laws[law], law, stage.name, chunk, start, size, problem.schema)
        for counts in found:
            count_bins(outputs, given(problem.study).range, counts)
    return found


def _published(counts: NDArray[np.int64], order: float | None) -> float | None:
    least, most = counts.min(axis=0), counts.max(axis=0)
    if order is None:
        ratio = largest_ratio(most, least)
        return None if ratio is None else ratio[0]
    both = [renyi_ratio(counts[i], counts[1 - i], order) for i in (0, 1)]
    return None if None in both else max(value for value in both if value is not None)


@dataclass(frozen=True)
class Intervals:
    """So many seeds at several numbers of outputs; no store is written. order: of Rényi's divergence, None: pure ε."""

    outputs: tuple[int, ...]
    order: float | None = None
    seeds: int = 100
    paper_seeds: int = 400

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """Both ends and the published estimate of every seed."""
        seeds, assumed, precision = self.paper_seeds if paper else self.seeds, given(study), part.nominal
        curve = ends_curve(study)
        promised = sizes(assumed.lipschitz, assumed.width, precision, study.estimate.confidence, self.order)
        blocks = over_seeds(place, study, seeds, run_seeds, self.outputs, self.order, promised["published"][0])
        found = np.array(
            [row for block in blocks for row in block], np.float64
        )  # seeds, outputs, three figures; None is NaN
        truth = curve.pure() if self.order is None else curve.renyi(self.order)
        body: dict[str, Any] = {
            "name": study.name,
            "seeds": seeds,
            "test": list(self.outputs),
            "truth": round(float(truth or 0.0), 7),
            "pure": round(float(curve.pure() or 0.0), 7),
            "sizes": {key: list(value) for key, value in promised.items()},
        }
        for i, name in enumerate(("certified", "upper", "published")):
            body[name] = [
                [None if math.isnan(v) else round(v, 6) for v in column] for column in found[:, :, i].T.tolist()
            ]
        return Found(part, study, body)

    def sizes(self, found: Sequence[Found]) -> str:
        """Outputs and seeds."""
        return (
            f"Outputs per distribution: {', '.join(f'{n:,}' for n in self.outputs)}; {found[0].result['seeds']} seeds."
        )


def columns(one: Found, name: str) -> Floats:
    """Of each number of outputs, the figure of every seed; None is NaN."""
    return np.array(one.result[name], np.float64)


def within(one: Found) -> Floats:
    """Share of published estimates within the precision, at each number of outputs; a failure is none."""
    return np.asarray(np.mean(np.abs(columns(one, "published") - one.result["truth"]) <= one.part.nominal, axis=1))


def covered(one: Found) -> Floats:
    """Share of intervals that hold the pure level, at each number of outputs."""
    pure = one.result["pure"] + 1e-6 * np.array([-1.0, 1.0])  # as kept figures are rounded
    return np.asarray(np.mean((columns(one, "certified") <= pure[1]) & ~(columns(one, "upper") < pure[0]), axis=1))


def widths(one: Found) -> Floats:
    """Mean width of the interval at each number of outputs; NaN where some seed has no upper end."""
    return np.asarray((columns(one, "upper") - columns(one, "certified")).mean(axis=1))


def intervals_cover(found: Sequence[Found]) -> list[Check]:
    """At every number of outputs at least 95 % − 4σ."""
    checks = []
    for one in found:
        least = 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / one.result["seeds"])
        share = float(covered(one).min())
        rule = f"{one.part.label}: the interval holds ε in at least {100 * least:.1f} % (95 % − 4σ) of the seeds, at every size"
        checks.append(Check(rule, share >= least, f"{100 * share:.1f} %"))
    return checks


def published_is_near(found: Sequence[Found]) -> list[Check]:
    """Within γ in 95 of 100 runs with far fewer outputs than the paper asks for."""
    checks = []
    for one in found:
        share, n = float(within(one)[-1]), one.result["test"][-1]
        times = one.result["sizes"]["published"][1] / n
        rule = f"{one.part.label}: with {n:,} outputs at least 95 % of the published estimates are within {one.part.nominal:g}"
        checks.append(Check(rule, share >= 0.95, f"{100 * share:.0f} %, with {times:,.0f} times fewer than published"))
    return checks


def narrower_than(most: Sequence[float]) -> Callable[[Sequence[Found]], list[Check]]:
    """The mean width with the most outputs, of each part."""

    def check(found: Sequence[Found]) -> list[Check]:
        checks = []
        for one, width in zip(found, most, strict=True):
            rule = f"{one.part.label}: with {one.result['test'][-1]:,} outputs the interval is at most {width:g} wide"
            measured = float(widths(one)[-1])
            checks.append(Check(rule, measured <= width, f"{measured:.4f}"))
        return checks

    return check


def intervals_table(found: Sequence[Found]) -> list[str]:
    """Means, coverage and what the paper asks for."""
    rows = []
    for one in found:
        r = one.result
        lower, upper = (columns(one, name).mean(axis=1) for name in ("certified", "upper"))
        for i, n in enumerate(r["test"]):
            ends = f"{lower[i]:.4f} to {upper[i]:.4f}" if math.isfinite(upper[i]) else f"{lower[i]:.4f} to none"
            wide = f"{widths(one)[i]:.4f}" if math.isfinite(upper[i]) else "–"
            shares = [f"{100 * share[i]:.0f} %" for share in (covered(one), within(one))]
            rows.append([one.part.label, f"{n:,}", ends, wide, *shares, f"{r['sizes']['published'][1] / n:,.0f}"])
    head = ["distribution", "n", "mean interval of ε", "width", "holds ε", "published within γ", "published n / n"]
    return markdown(head, rows)


def draw_intervals(found: Sequence[Found], title: str) -> Any:
    """Mean widths against outputs, and the precision that is asked for."""
    figure, axes = new_figure(rows=(4.2,))
    axis = axes[0, 0]
    for colour, marker, one in zip(COLOURS, MARKERS, found, strict=False):
        axis.plot(one.result["test"], widths(one), marker, linestyle="-", color=colour, label=one.part.label)
        axis.axhline(2.0 * one.part.nominal, color=colour, linestyle=":", linewidth=1)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="outputs n per distribution",
        ylabel="mean width of the interval (dotted: 2γ)",
    )
    axis.set_title(title, fontsize=11)
    axis.legend(frameon=False, fontsize=9)
    return figure
