"""Shares of the components of a mixture: those under which the sum of squares of the cells' relative variances is least.

With weights w = f/Σ α_c g_c the variance of a cell is convex in the shares α, and a weighted sum of them over cells falls when
each share is multiplied by the root of its derivative (Titterington 1976; Yu 2010: such steps never rise). Each cell weighs
what its variance is; weights that build up over the steps instead run away with a cell that no share mends (seen: two to
three times the worst variance). Heuristic: the variances are those of training draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STEPS = 60
_LEAST_TOLD = 1e-100  # of δ̂: squares of relative variances must stay floats
_COUNTS = 0.1  # of the least δ̂ that matters most: of cells below nothing is asked
_LEAST = 0.004  # share of a component below which it is left out


@dataclass(frozen=True, eq=False)
class Side:
    """Draws of a law: ratios exp(log g_c − log f), (n, components), the first all 1; density (n,), so that Σ density·φ is E_f φ;
    classes (2, n): how many ascending ε each direction's L̂ exceeds; factors (2, epsilons): what each cell multiplies P(S) by.
    """

    ratios: Floats
    density: Floats
    classes: Ints
    factors: Floats


def best_shares(sides: Sequence[Side], deltas: Floats, goals: Floats, plain: float, main: float = 0.0) -> list[Floats]:
    """Shares of each side's components, 0 for those that are left out.

    deltas: δ̂ (2, epsilons), NaN for cells that do not count. goals: relative variances of cells, (2, epsilons), to each other; of
    the least one are the cells that matter most; cells with less than a tenth of their δ̂ do not count. inf: does not count.
    plain: the least share of the first component. main: what the cells that matter most weigh at least, of all.
    """
    used = (deltas > _LEAST_TOLD) & (goals < np.inf)
    aims = used & (goals <= goals.min())
    if aims.any():
        used &= deltas >= least_counted(deltas[aims])
    squares = [np.where(used, (side.factors / np.where(used, deltas, 1.0)) ** 2 / goals, 0.0) for side in sides]
    alphas = [np.full(side.ratios.shape[1], 1.0 / side.ratios.shape[1]) for side in sides]
    if not used.any():
        return [np.eye(side.ratios.shape[1])[0] for side in sides]
    kept = [np.ones(alpha.size, np.bool_) for alpha in alphas]
    for step in range(_STEPS):
        variances = np.zeros(deltas.shape)
        mixed = []
        for side, alpha, square in zip(sides, alphas, squares, strict=True):
            mixed.append(side.ratios @ alpha)
            terms = side.density / mixed[-1]
            for d in (0, 1):
                variances[d] += square[d] * above(side.classes[d], terms, deltas.shape[1])
        cells = np.where(used, np.maximum(variances / max(float(variances[used].max()), 1e-300), 1e-300), 0.0)
        cells /= cells.sum()
        own = float(cells[aims].sum())
        if 0.0 < own < main:
            cells = np.where(aims, cells * main / own, cells * (1.0 - main) / (1.0 - own))
        for at, (side, square) in enumerate(zip(sides, squares, strict=True)):
            worth = np.zeros(side.density.size)
            for d in (0, 1):
                worth += np.concatenate([[0.0], np.cumsum(cells[d] * square[d])])[side.classes[d]]
            slopes = (side.density * worth / mixed[at] ** 2) @ side.ratios
            alphas[at] = _floored(np.where(kept[at], alphas[at] * np.sqrt(slopes), 0.0), plain)
            if step == _STEPS // 2:
                kept[at] = (alphas[at] >= _LEAST) | (np.arange(alphas[at].size) == 0)
                alphas[at] = _floored(np.where(kept[at], alphas[at], 0.0), plain)
    return alphas


def least_counted(aims: Floats) -> float:
    """The least δ̂ of a cell that counts where these are the δ̂ that matter most."""
    return _COUNTS * float(aims.min())


def above(classes: Ints, values: Floats, cells: int) -> Floats:
    """Sums of the values in the set of each ε, (cells,)."""
    return np.asarray(np.bincount(classes, values, cells + 1)[::-1].cumsum()[::-1][1 : cells + 1])


def _floored(shares: Floats, plain: float) -> Floats:
    total = float(shares.sum())
    if not (0.0 < total < np.inf):
        return np.asarray(np.eye(shares.size)[0])
    found = shares / total
    if found[0] < plain and found[1:].sum() > 0.0:
        found[1:] *= (1.0 - plain) / found[1:].sum()
        found[0] = plain
    return np.asarray(found)
