"""Published sizes of histograms of Lipschitz densities, and those of union bounds, for what a study assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress

from hpcdp._base.rounding import at_most
from hpcdp.methods.histogram.decisions import given, learns
from hpcdp.notions.lipschitz import NAMES, buckets, precision_at, size_of
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem

Promised = Mapping[str, tuple[float, int, int]]
"""By name, "published", "union" and "half": a precision, and with how many bins and outputs a law it is had."""


def promised_sizes(study: Study, outputs: int, order: float | None = None) -> Promised | None:
    """Published sizes and those of union bounds, at the study's precision, else at that which so many outputs have.

    Of a domain those of Algorithm 2: a third of the precision and the root of the confidence a call as published; two thirds,
    for the limits of all midpoints at once, by union bounds. None where C >= 2/W². What so many outputs never have is left out.
    """
    e, parameters, domain = study.estimate, given(study), study.pairs.domain
    c, w = parameters.lipschitz, parameters.width
    if not c * w * w < 2.0:
        return None

    def at(name: str, precision: float) -> tuple[int, int]:
        if domain is None:
            return size_of(name, c, w, precision, e.confidence, order, 2)
        if name == "published":
            return size_of(name, c, w, precision / 3.0, math.sqrt(e.confidence), order, 2)
        laws = max(2, buckets(domain.lipschitz, domain.upper - domain.lower, c, w, precision, order))
        return size_of(name, c, w, 2.0 * precision / 3.0, e.confidence, order, laws)

    promised = {}
    for name in NAMES:
        precision = e.precision or precision_at(outputs, lambda gamma, name=name: at(name, gamma)[1])  # type: ignore[misc]
        with suppress(ValueError):  # more outputs than can be said
            promised[name] = (precision, *at(name, precision))
    return promised


def describe_sizes(study: Study, promised: Promised | None) -> str:
    """Sizes as published and by union bounds, in words."""
    if promised is None:
        return "none, as C ≥ 2/W²; the certified interval needs no such limit"
    words = {"published": "published", "union": "by a union bound", "half": "with half the bins"}
    parts = [
        f"{words[name]} ±{at_most(precision, '.3g')} from {bins:,} bin{'s' if bins > 1 else ''} and {outputs:,} outputs"
        for name, (precision, bins, outputs) in promised.items()
    ]
    domain, parameters = study.pairs.domain, given(study)
    if domain is not None and "published" in promised:
        k = buckets(
            domain.lipschitz,
            domain.upper - domain.lower,
            parameters.lipschitz,
            parameters.width,
            promised["published"][0],
        )
        parts[0] += f" a call, of which there are {k * (k - 1):,} for its {k:,} midpoints"
    return "; ".join(parts) or "none, with so few outputs"


def describe_plan(problem: Problem) -> str:
    """What is counted, and what sizes promise, in words."""
    e = problem.study.estimate
    learned = f", chosen by {e.train:,} training outputs of each" if learns(problem) else ""
    bins = given(problem.study).bins
    what = "bins" if bins == "auto" else f"{bins:,} bin{'s' if bins > 1 else ''}"
    sizes_ = describe_sizes(problem.study, promised_sizes(problem.study, e.test))
    return f"an interval, from counts of each distribution in {what}{learned}. The published estimate: {sizes_}"
