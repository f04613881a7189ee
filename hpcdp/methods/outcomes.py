"""Entries of methods that count each law by outcome, such as a bin: sets of outcomes that training chooses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.derived import Floats, Ints
from hpcdp.engine.entries import counted_cells, maximum_of
from hpcdp.engine.method import Run
from hpcdp.notions.resolution import share_level
from hpcdp.notions.spectrum import make_cells
from hpcdp.store.results import Arrays
from hpcdp.study.problem import Problem


def entries_of_outcomes(
    problem: Problem, training: Ints | None, counts: Ints, sides: Ints, epsilons: Floats, run: Run
) -> Arrays:
    """Arrays of the sets of outcomes in which training outputs of one law outweigh the other's: {L̂ > ε}, {−L̂ > ε}.

    Certified bounds are finite-sample: the sets are fixed by training outputs before test outputs are counted.

    Args:
        problem: the study's.
        training: counts of `train` outputs of each law by outcome, (laws, outcomes); None while some are missing.
        counts: the same of `test` outputs, −1 while some are missing.
        sides: which laws are D and D' of each pair, (pairs, 2).
        epsilons: levels, (k,).
        run: what computes bounds, as `Method.arrays` gets it.
    """
    e, shape = problem.study.estimate, (len(sides), 2, epsilons.size)
    exceed, share = np.full((*shape, 2), -1, np.int64), np.full((*shape, 2), np.nan)
    if training is not None:
        for pair, laws in enumerate(sides):
            for direction, (one, other) in enumerate((laws, laws[::-1])):
                chosen = _loss(training[one], training[other])[:, None] > epsilons  # (outcomes, ε)
                share[pair, direction] = np.stack([training[law] @ chosen for law in (one, other)], axis=-1) / e.train
                if counts.min() >= 0:
                    exceed[pair, direction] = np.stack([counts[law] @ chosen for law in (one, other)], axis=-1)
    test = np.full(exceed.shape, problem.test.total)
    ranked = np.where(np.isnan(share).any(axis=-1), np.nan, share[..., 0] - np.exp(epsilons) * share[..., 1])
    level = share_level(ranked, shape, 1.0 - e.confidence)
    cells = make_cells(exceed, test, share, epsilons, level, e.confidence, run)
    return counted_cells(cells, level, ranked) | maximum_of(cells)


def _loss(p: Ints, q: Ints) -> NDArray[np.float64]:
    """log(p/q) of each outcome, 0 where neither law had any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.log(p) - np.log(q), nan=0.0, posinf=np.inf, neginf=-np.inf)
