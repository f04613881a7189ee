"""How a batch is played: learn on what came before, practise on it, bet on the next block, learn from that too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import integer, non_negative, positive, refusal
from hpcdp.mechanisms.outputs import Outputs

Floats = NDArray[np.float64]
Learner = Callable[[Outputs, Outputs], Callable[[Outputs], Floats]]
"""Learns L̂ = log(p/q) from outputs of D and of D', and returns what scores others; such as `fit` and `score` of a loss."""

Check = Callable[[Callable[[Outputs], Floats], Outputs, Floats], None]
"""Raises where a score (first) does not judge a block of outputs of one side one by one, by the edges of a bet's cells."""


@dataclass(frozen=True)
class Rules:
    """How it is played. None of it may be changed after the first output was seen; the false-alarm rate holds for all.

    Args:
        first: so many outputs per database only teach, >= folds.
        smallest, growth: a block has `growth` times the outputs seen before it, but at least `smallest`.
        folds: parts in which the outputs seen before are held out from learning in turn, to practise on, >= 2.
        practice: after so many held-out outputs per database no further part is held out.
        cells: at most so many intervals of L̂, >= 2.
        prior: outputs per database, spread evenly over the cells, that practice is mixed with, > 0.
        cautions: the wealth starts split evenly among players, one for each number c > 0, who bet the share n/(n + c) of
            theirs after n outputs of practice per database. Small ones win where the claim is far from true, large ones where it
            is near.

    Raises:
        ValueError: a value out of its range.
    """

    first: int = 24
    smallest: int = 10
    growth: float = 0.15
    folds: int = 8
    practice: int = 4096
    cells: int = 16
    prior: float = 2.0
    cautions: tuple[float, ...] = (20.0, 200.0)

    def __post_init__(self) -> None:
        for name, least in (("folds", 2), ("first", self.folds), ("smallest", 1), ("practice", 1), ("cells", 2)):
            integer(name, getattr(self, name), least)
        positive("prior", self.prior)
        non_negative("growth", self.growth)
        for caution in self.cautions:
            positive("cautions", caution)
        if not self.cautions:
            raise refusal("cautions", self.cautions, "one or more numbers > 0")


def blocks(past: int, drawn: int, rules: Rules) -> Iterator[tuple[int, int]]:
    """Blocks (start, stop) of outputs past … drawn − 1 to bet on, one after the other; those before `start` teach.

    They follow from the sizes alone. The first `rules.first` outputs of all are in no block.
    """
    start = max(past, rules.first)
    while start < drawn:
        stop = min(drawn, start + max(rules.smallest, int(rules.growth * start)))
        yield start, stop
        start = stop


def practise(learn: Learner, p: Outputs, q: Outputs, rules: Rules) -> tuple[Floats, Floats]:
    """Scores of outputs by learners that did not see them: what the next block's scores will be like.

    Every `folds`-th output is held out, as often as it takes for `practice` outputs or for all.

    Args:
        learn: see `Learner`.
        p, q: outputs of D and of D', as many, at least `folds`.

    Returns:
        L̂ of the outputs that were held out, of D and of D', float64 (n,) each.
    """
    size = p.shape[0]
    if q.shape[0] != size or size < rules.folds:
        raise refusal("outputs of D and of D'", (size, q.shape[0]), f"two equal numbers >= {rules.folds}")
    parts = min(rules.folds, ceil(rules.folds * rules.practice / size))
    place = np.arange(size) % rules.folds
    found: tuple[list[Floats], list[Floats]] = ([], [])
    for part in range(parts):
        held = place == part
        score = learn(p[~held], q[~held])
        for scores, side in zip(found, (p, q), strict=True):
            scores.append(score(side[held]))
    return np.concatenate(found[0]), np.concatenate(found[1])
