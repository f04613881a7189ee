"""Runs of [pure] studies without a store, for figures that need hundreds: what `hpcdp run` of that seed chooses and counts.

The functions that tasks call take the study as JSON text, which worker processes resolve once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from paper_figures.seeds import draw, resolved, with_seed

from hpcdp.analytic import exact
from hpcdp.engine.index import first_of
from hpcdp.losses import make_loss
from hpcdp.losses.local import UNIT, find_peak, weigh
from hpcdp.losses.protocol import Side, ascending
from hpcdp.methods.pure import choose_from, pure_keys
from hpcdp.notions.pure import LossAt, pure_lower
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem


@dataclass(frozen=True)
class Run:
    """What one seed finds. drawing, seconds: time of the draws, and of the whole run."""

    pair: int
    certified: float
    lower: float
    literal: float
    estimate: float
    drawing: float
    seconds: float


def pure_level(study: Study, problem: Problem) -> float:
    """The largest exact pure level of the study's pairs.

    Raises:
        ValueError: of one of them none is known.
    """
    found = []
    for pair in problem.pairs:
        curve = exact(
            str(study.mechanism.call), study.mechanism.parameters, np.asarray(pair.d), np.asarray(pair.d_prime)
        )
        level = None if curve is None else curve.pure()
        if level is None:
            raise ValueError(f"{study.name}: no exact level is known of one of its pairs")
        found.append(level)
    return max(found)


def _laws(problem: Problem, numbers: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(law for number in numbers for law in problem.pair_laws[number]))


def side_of(problem: Problem, outputs: NDArray[Any]) -> Side:
    """Training outputs as a run holds them."""
    real = outputs.dtype.kind == "f" and outputs.ndim == 1
    return Side(ascending(outputs) if real else outputs, problem.train.total, is_sorted=real)


def run_seed(problem: Problem) -> Run:
    """Train, choose and test, as a run of the study with test = "winner" does."""
    study, pure = problem.study, problem.study.pure
    assert pure is not None
    e, begin = study.estimate, time.perf_counter()
    loss = make_loss(e.default_loss, e.parameters, study.folder)
    numbers = list(first_of(problem.once(pure_keys)).values())
    drawing = time.perf_counter()
    outputs = {law: draw(problem, problem.train, law) for law in _laws(problem, numbers)}
    drawn = time.perf_counter() - drawing
    sides = {law: side_of(problem, found) for law, found in outputs.items()}
    choices = {n: choose_from(problem, loss, *(sides[law] for law in problem.pair_laws[n])) for n in numbers}
    winner = max(numbers, key=lambda n: (choices[n].score, -n))
    region, peak = choices[winner].region, choices[winner].peak
    assert peak is not None
    counter = loss.fit(*(sides[law] for law in problem.pair_laws[winner])).counter(np.array([region.threshold]))
    drawing = time.perf_counter()
    fresh = [draw(problem, problem.test, law) for law in problem.pair_laws[winner]]
    drawn += time.perf_counter() - drawing
    counts = [region.count(counter, outputs, pure.within) for outputs in fresh][:: 1 - 2 * region.direction]
    sums = [weigh(outputs, peak.at, peak.bandwidths) for outputs in fresh]
    told = LossAt.of(sums, (e.test, e.test), peak.bandwidths, pure.floor_of(e.train), UNIT)
    level = 1.0 - e.confidence
    certified = float(pure_lower(counts[0], e.test, counts[1], e.test, level))
    lower, literal = told.lower(-1.0 if peak.loss < 0.0 else 1.0, level), told.literal(level)
    return Run(winner, certified, lower, literal, abs(peak.loss), drawn, time.perf_counter() - begin)


def run_seeds(text: str, folder: str, seeds: Sequence[int]) -> list[Run]:
    """Each of these seeds."""
    problem = resolved(text, folder)
    return [run_seed(with_seed(problem, seed)) for seed in seeds]


def estimate_seeds(text: str, folder: str, seeds: Sequence[int], sizes: Sequence[int]) -> list[list[float]]:
    """ε̂ of DPL of the first pair, of each seed at each number of training samples."""
    problem = resolved(text, folder)
    pure, test = problem.study.pure, problem.study.estimate.test
    assert pure is not None
    found = []
    for seed in seeds:
        sides = [draw(with_seed(problem, seed), problem.train, law) for law in problem.pair_laws[0]]
        row = []
        for size in sizes:
            first = [Side(ascending(outputs[:size]), size, is_sorted=True) for outputs in sides]
            peak = find_peak(first[0], first[1], pure.floor_of(size), pure.within, test)
            row.append(abs(peak.loss))
        found.append(row)
    return found
