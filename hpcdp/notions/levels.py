"""How the failure probability is shared by the cells whose lower bounds hold together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def share_level(
    training_delta: NDArray[np.float64] | None,
    cells: tuple[int, int, int],
    failure: float,
    certified: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Failure probability of each cell's bound, shape (pairs, 2, epsilons); the sum is at most `failure`.

    Half is shared equally by all cells, half by the pair and direction that training ranks first at each ε. Training
    samples alone decide, so the union bound over all cells is finite-sample. training_delta: δ̂ on training outputs,
    NaN where unknown; None (nothing was ranked) shares everything equally. certified: (epsilons,), whose cells share it; 0 is
    the level of the others, which have no bound of their own. None: all.
    """
    if certified is not None:
        shares = np.zeros(cells)
        ranked = None if training_delta is None else training_delta[..., certified]
        shares[..., certified] = share_level(ranked, (*cells[:2], int(certified.sum())), failure)
        return shares
    pairs, directions, epsilons = cells
    equal = np.full(cells, failure / (pairs * directions * epsilons))
    if training_delta is None:
        return equal
    shares = 0.5 * equal
    flat = np.where(np.isnan(training_delta), -np.inf, training_delta).reshape(pairs * directions, epsilons)
    first = flat.argmax(axis=0)  # ties: the lowest pair, forward first
    shares.reshape(pairs * directions, epsilons)[first, np.arange(epsilons)] += 0.5 * failure / epsilons
    return shares
