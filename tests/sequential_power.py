"""Sequential audits without a store: how many samples a side it takes to refute a claim, over many seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcdp.losses import make_loss
from hpcdp.losses._protocol import Side
from hpcdp.notions.betting import Lines, Wealth, is_refuted, play

Draw = Callable[[np.random.Generator, int], tuple[Any, Any]]


def samples_needed(
    draw: Draw, lines: Lines, loss: str, parameters: dict[str, Any], seed: int, batch: int, budget: int, gamma: float
) -> float:
    """Samples a side after which the claim was refuted, looking after every batch; infinite where it never was."""
    made = make_loss(loss, parameters)

    def learn(p, q):
        return made.fit(Side(p, p.shape[0]), Side(q, q.shape[0])).score

    p, q = draw(np.random.default_rng(seed), budget)
    wealth = Wealth()
    for start in range(0, budget, batch):
        past, new = (p[:start], q[:start]), (p[start : start + batch], q[start : start + batch])
        (wealth,) = play([wealth], [lines], learn, past, new)
        if is_refuted(wealth, gamma):
            return float(start + batch)
    return np.inf
