"""What training counts decide of a histogram: in how many bins test outputs are counted, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.index import Index
from hpcdp.keys import digest_json
from hpcdp.losses import validate_parameters
from hpcdp.losses.histogram.parameters import FINE, HistogramParameters
from hpcdp.methods.classes import total_of
from hpcdp.notions.bins import Bins, choose_bins, least_outputs
from hpcdp.store.stages import Stage
from hpcdp.study.estimate import Target
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.sizes import Sizes

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


def bins_of(problem: Problem, number: int) -> Bins:
    """So many bins, and what is assumed on them."""
    parameters, domain = given(problem.study), problem.study.pairs.domain
    return Bins.of(parameters.range, number, parameters.lipschitz, domain.change if domain else 0.0)


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
    """What is counted, a function of training counts alone; None while some are missing, and where training promises the
    interval that is wanted with no number of outputs that is allowed.
    """
    decision = decision_or_words(problem, index)
    return None if isinstance(decision, str) else decision


def decision_or_words(problem: Problem, index: Index) -> Decision | str | None:
    """The same, and in words why there is none."""
    e, bins = problem.study.estimate, given(problem.study).bins
    fine = training_bins(problem)
    if bins != "auto" and e.precision is None:
        return Decision(bins, e.test)
    assert fine is not None
    training = counts_of(problem, index, problem.train, fine)
    if training is None:
        return None
    change = bins_of(problem, 1).change
    return _decide(
        training.tobytes(), training.shape[0], given(problem.study), e.target, e.test, 1.0 - e.confidence, change
    )


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
