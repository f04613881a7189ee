"""The portfolio of bets that grows fastest, by Cover's algorithm.

Outcomes are cells 0 … m − 1 in ascending order of L̂, so that a set R_j = {cells 0 … j} is where D' is more likely. There are
2 + (m − 1)·S assets. Two are cash: it pays 2 on every output of one side and 0 on the other. The others belong to a set
R_j and a line (η, δ) of the claim, Q(R) <= δ + η P(R): with w = 2/(η + δ), each pays w on an output of D' in R_j, and
w η on an output of D outside R_j. What an asset pays on both sides together has a mean of at most 2 under the claim.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel

Floats = NDArray[np.float64]

_CASH = 0.45  # of each side at the start: near the claim's edge the best portfolio is mostly cash
_FORGOTTEN = 1e-40  # less than this of an asset is none, before it gets so small that the processor slows down


class Portfolio(NamedTuple):
    """Shares of the assets, which sum to 1. on_q, on_p: of the two kinds of cash. weights: (m − 1, S), of the others."""

    on_q: float
    on_p: float
    weights: Floats


@kernel()
def _grow(q, p, etas, deltas, iterations, tolerance, weights):  # type: ignore[no-untyped-def]
    """Cover's update until the growth is within `tolerance` of the largest; fills weights, returns both kinds of cash."""
    sets, lines = weights.shape
    on_q = on_p = _CASH
    weights[:] = (1.0 - 2.0 * _CASH) / max(1, sets * lines)
    pays_q = 2.0 / (etas + deltas)
    pays_p = pays_q * etas
    a, b = np.empty(sets + 1), np.empty(sets + 1)
    for _ in range(iterations):
        total = 0.0
        for i in range(sets, -1, -1):
            if i < sets:
                for s in range(lines):
                    total += weights[i, s] * pays_q[s]
            a[i] = 2.0 * on_q + total
        total = 0.0
        for i in range(sets + 1):
            b[i] = 2.0 * on_p + total
            if i < sets:
                for s in range(lines):
                    total += weights[i, s] * pays_p[s]
        all_q = all_p = 0.0
        for i in range(sets + 1):
            all_q += q[i] / a[i]
            all_p += p[i] / b[i]
        largest = max(all_q, all_p)
        on_q *= all_q
        on_p *= all_p
        inside, outside = 0.0, all_p
        for i in range(sets):
            inside += q[i] / a[i]
            outside -= p[i] / b[i]
            for s in range(lines):
                rate = 0.5 * (pays_q[s] * inside + pays_p[s] * outside)
                largest = max(largest, rate)
                grown = weights[i, s] * rate
                weights[i, s] = grown if grown > _FORGOTTEN else 0.0
        if 2.0 * (largest - 1.0) <= tolerance:
            break
    return on_q, on_p


def grow_fastest(
    q: Floats, p: Floats, etas: Floats, deltas: Floats, iterations: int = 2000, tolerance: float = 1e-5
) -> Portfolio:
    """The portfolio with the largest mean log-payoff of one output of each side, when D' and D have cell probabilities q and p.

    Cover (1984): each share is multiplied by the mean of its asset's payoff over the portfolio's, which never lowers the
    growth. Growth is concave, so it is within 2 (largest multiplier − 1) of the largest; that ends it, or `iterations` do.

    Args:
        q, p: probabilities of the cells, all above 0, float64 (m,), m >= 1.
        etas, deltas: lines of the claim, float64 (S,).
        iterations: at most so many.
        tolerance: nats an output of each side.
    """
    weights = np.empty((q.size - 1, etas.size))
    on_q, on_p = _grow(q, p, etas, deltas, iterations, tolerance, weights)
    total = on_q + on_p + weights.sum()
    return Portfolio(on_q / total, on_p / total, weights / total)


def payoffs(portfolio: Portfolio, etas: Floats, deltas: Floats) -> tuple[Floats, Floats]:
    """What the portfolio pays on an output of D' and of D in each cell, float64 (m,) each."""
    rate = 2.0 / (etas + deltas)
    bought = portfolio.weights @ rate
    spent = portfolio.weights @ (rate * etas)
    on_q = 2.0 * portfolio.on_q + np.append(np.cumsum(bought[::-1])[::-1], 0.0)
    on_p = 2.0 * portfolio.on_p + np.append(0.0, np.cumsum(spent))
    return on_q, on_p
