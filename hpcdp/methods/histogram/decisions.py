"""What training counts decide of a histogram: in how many bins test outputs are counted, and how many there are;
and published sizes of histograms of Lipschitz densities, with those of union bounds, for what a study assumes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.rounding import at_most
from hpcdp.engine.index import Index
from hpcdp.keys import digest_json
from hpcdp.losses import validate_parameters
from hpcdp.losses.parameters import FINE, HistogramParameters
from hpcdp.methods.classes import total_of
from hpcdp.notions.bins import choose_bins, least_outputs
from hpcdp.notions.lipschitz import NAMES, buckets, precision_at, size_of
from hpcdp.store.stages import Stage
from hpcdp.study.estimate import Target
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem, Sizes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Decision:
    """What is counted: how many bins, and how many test outputs a law. width: of the interval that training promised."""

    bins: int
    outputs: int
    width: float | None = None


def given(study: Study) -> HistogramParameters:
    """What is assumed, and the bins."""
    return cast("HistogramParameters", validate_parameters(study.estimate.default_loss, study.estimate.parameters))


def learns(problem: Problem) -> bool:
    """Whether training outputs decide anything: where bins are given and no ε is counted they do not."""
    return (
        given(problem.study).bins == "auto"
        or problem.study.estimate.precision is not None
        or bool(problem.study.epsilons)
    )


def bin_key(problem: Problem, law: str, stage: str, bins: int) -> str:
    """Key of the counts of a law's outputs in so many equal bins; stage: its name."""
    return digest_json(["bins", stage, bins, list(given(problem.study).range), problem.study.estimate.chunk, law])


def counts_of(problem: Problem, index: Index, stage: Stage, bins: int) -> Ints | None:
    """Counts of all laws, (laws, bins); None while some are missing."""
    counts = []
    for law in problem.laws:
        key = bin_key(problem, law, stage.name, bins)
        if index.missing(key, (), stage):
            return None
        counts.append(total_of(index.done(key, (), stage)))
    return np.stack(counts)


def training_bins(problem: Problem) -> int | None:
    """In how many bins training outputs are counted; None where they decide nothing."""
    if not learns(problem):
        return None
    bins = given(problem.study).bins
    return FINE if bins == "auto" else bins


def decide(problem: Problem, index: Index) -> Decision | None:
    """What is counted, by training counts alone; None while some are missing or no number of outputs is enough."""
    decision = decision_or_words(problem, index)
    return None if isinstance(decision, str) else decision


def decision_or_words(problem: Problem, index: Index) -> Decision | str | None:
    """The same, and in words why there is none."""
    e, bins, domain = problem.study.estimate, given(problem.study).bins, problem.study.pairs.domain
    fine = training_bins(problem)
    if bins != "auto" and e.precision is None:
        return Decision(bins, e.test)
    assert fine is not None
    training = counts_of(problem, index, problem.train, fine)
    if training is None:
        return None
    assumed = given(problem.study), e.target, e.test, 1.0 - e.confidence, domain.change if domain else 0.0
    return _decide(training.tobytes(), training.shape[0], *assumed)


@lru_cache(maxsize=4)  # it is asked for again and again
def _decide(
    counts: bytes,
    laws: int,
    parameters: HistogramParameters,
    target: Target | None,
    test: int,
    failure: float,
    change: float,
) -> Decision | str:
    training, is_fixed = np.frombuffer(counts, np.int64).reshape(laws, -1), parameters.bins != "auto"
    assumed = (failure, parameters.range, parameters.lipschitz, change)
    if target is None or target.precision is None:
        return Decision(choose_bins(training, test, *assumed)[0], test)
    wanted = 2.0 * target.precision
    outputs, width = least_outputs(training, wanted, target.most, *assumed, is_fixed=is_fixed)
    if width > wanted:
        return (
            f"estimate.target.precision: {target.precision:g} needs an interval {wanted:g} wide; training promises one "
            f"{width:.3g} wide from target.most = {target.most:,} outputs a database; accepted, into another "
            "store: a larger precision, a larger target.most"
            + (", more points of pairs.domain" if change else "")
            + (', bins = "auto"' if is_fixed else "")
        )
    bins = int(parameters.bins) if is_fixed else choose_bins(training, outputs, *assumed)[0]
    return Decision(bins, outputs, width)


def sized(problem: Problem, index: Index) -> Problem:
    """The problem with as many test outputs as training decided, where it has a precision for target."""
    decision = decide(problem, index) if problem.study.estimate.precision is not None else None
    return problem if decision is None else problem.sized(Sizes(0, 0, decision.outputs))


def decided(problem: Problem, index: Index) -> list[tuple[Problem, Stage, int]]:
    """What is counted as far as it is decided: the problem, the stage, bins."""
    fine, decision = training_bins(problem), decide(problem, index)
    stages = [] if fine is None else [(problem, problem.train, fine)]
    if decision is not None:
        after = sized(problem, index)
        stages.append((after, after.test, decision.bins))
    return stages


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
