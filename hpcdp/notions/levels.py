"""How the failure probability is shared by the cells whose lower bounds hold together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_APART = 3.0
"""Standard errors of one from which on another is told from it: about two of their difference."""


def share_level(
    training_delta: NDArray[np.float64] | None,
    cells: tuple[int, int, int],
    failure: float,
    certified: NDArray[np.bool_] | None = None,
    error: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Failure probability of each cell's bound, shape (pairs, 2, epsilons); the sum is at most `failure`.

    Half is shared equally by all cells, half by the pair and direction that training ranks first at each ε. Training
    samples alone decide, so the union bound over all cells is finite-sample. training_delta: δ̂ on training outputs,
    NaN where unknown; None (nothing was ranked) shares everything equally. certified: (epsilons,), whose cells share it; 0 is
    the level of the others, which have no bound of their own. None: all. error: standard errors of training_delta; where no
    other is above it by more than chance would have it, the pair and direction that leads on the whole is ranked first.
    """
    if certified is not None:
        shares = np.zeros(cells)
        ranked = None if training_delta is None else training_delta[..., certified]
        errors = None if error is None else error[..., certified]
        shares[..., certified] = share_level(ranked, (*cells[:2], int(certified.sum())), failure, error=errors)
        return shares
    pairs, directions, epsilons = cells
    equal = np.full(cells, failure / (pairs * directions * epsilons))
    if training_delta is None:
        return equal
    shares = 0.5 * equal
    flat = np.where(np.isnan(training_delta), -np.inf, training_delta).reshape(pairs * directions, epsilons)
    first = flat.argmax(axis=0)  # ties: the lowest pair, forward first
    if error is not None:
        first = _settled(flat, error.reshape(flat.shape), first)
    shares.reshape(pairs * directions, epsilons)[first, np.arange(epsilons)] += 0.5 * failure / epsilons
    return shares


def _settled(ranked: NDArray[np.float64], error: NDArray[np.float64], first: NDArray[np.intp]) -> NDArray[np.intp]:
    """Which leads at each ε, (groups, epsilons): the one that leads on the whole, unless another is _APART errors above it."""
    top = ranked[first, np.arange(first.size)]
    telling = top > 0.0
    if not telling.any():
        return first
    whole = int(np.clip(ranked[:, telling] / top[telling], 0.0, 1.0).sum(axis=1).argmax())
    return np.where(ranked[whole] + _APART * error[whole] >= top, whole, first)
