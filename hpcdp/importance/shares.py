"""Shares of the components of a mixture: those under which the sum of squares of the cells' relative variances is least.

With weights w = f/Σ α_c g_c the variance of a cell is convex in the shares α, and a weighted sum of them over cells falls when
each share is multiplied by the root of its derivative (Titterington 1976; Yu 2010: such steps never rise). Each cell weighs
what its variance is; weights that build up over the steps instead run away with a cell that no share mends (seen: two to
three times the worst variance). Heuristic: the variances are those of training draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_STEPS = 60
_LEAST_TOLD = 1e-100  # of δ̂: squares of relative variances must stay floats
_COUNTS = 0.1  # of the least δ̂ that matters most: of cells below nothing is asked
_NOT_SEEN = 3.0  # over the draws that tell of a stratum: the share of it that may lie where none of them does, at .95
_ALIKE = 3.0  # standard errors of a stratum's mass within which it is 1
_LEAST, _LEAST_CHAIN = 0.004, 0.0005  # share of a component below which it is left out; of a chain at least


@dataclass(frozen=True, eq=False)
class Side:
    """Draws of a law: ratios exp(log g_c − log f), (n, components), the first all 1; density (n,), so that Σ density·φ is E_f φ;
    classes (2, n): how many ascending ε each direction's L̂ exceeds; factors (2, epsilons): what each cell multiplies P(S) by;
    chains (components,): which have a chain.
    """

    ratios: Floats
    density: Floats
    classes: Ints
    factors: Floats
    chains: Bools | None = None

    @cached_property
    def _sorted(self) -> list[tuple[Floats, Floats, Ints]]:
        """Of each direction ratios and densities of the draws in any of its sets by class, and where classes 1, 2, … begin."""
        found = []
        for classes in self.classes:
            order = np.argsort(classes, kind="stable")
            ends = np.searchsorted(classes[order], np.arange(1, self.factors.shape[1] + 2))
            inside = order[ends[0] :]
            found.append((self.ratios[inside], self.density[inside], ends - ends[0]))
        return found

    @cached_property
    def _masses(self) -> tuple[Floats, Floats]:
        """Of each component how much mass the draws here tell, which is 1 but for noise where it leads to sets alone, and what
        share of E w² its variance is at least, as so few tell.
        """
        count = self.ratios.shape[1]
        mass, square = self.density @ self.ratios, (self.density * self.density) @ (self.ratios * self.ratios)
        masses, least = np.ones(count), np.ones(count)
        told = square > 0.0
        near = told & (np.abs(mass - 1.0) <= _ALIKE * np.sqrt(square))
        masses[near] = mass[near]
        least[told] = np.minimum(1.0, _NOT_SEEN * square[told] / mass[told] ** 2)
        return masses, least

    def strata_variances(self, alpha: Floats) -> Floats:
        """Variances of w·1_S of a draw, (2, epsilons), where draws of each component are a stratum of fixed size."""
        masses, least = self._masses
        found = np.zeros(self.factors.shape)
        for d, (ratios, density, ends) in enumerate(self._sorted):
            own = density / (mixed := ratios @ alpha)
            terms = np.stack([own, own / mixed])
            sums = np.stack([terms[:, a:b] @ ratios[a:b] for a, b in pairwise(ends)], axis=1)
            means, squares = sums[:, ::-1].cumsum(axis=1)[:, ::-1]  # (cells, components)
            means, squares = means / masses, squares / masses
            found[d] = np.maximum(squares - means**2, least * squares) @ alpha
        return found

    def within(self, alpha: Floats) -> Floats:
        """`strata_variances` as shares of those of draws that are one stratum, (2, epsilons), at most 1."""
        own = self.density / (self.ratios @ alpha)
        parts = [
            (above(c, own, self.factors.shape[1]), above(c, self.density, self.factors.shape[1])) for c in self.classes
        ]
        whole = np.stack([squares - mean**2 for squares, mean in parts])
        found = np.divide(self.strata_variances(alpha), whole, out=np.ones(whole.shape), where=whole > 0.0)
        return np.asarray(np.minimum(1.0, found))


def best_shares(sides: Sequence[Side], deltas: Floats, goals: Floats, plain: float, main: float = 0.0) -> list[Floats]:
    """Shares of each side's components, 0 for those that are left out.

    Where draws of chains alone, and plain ones, have smaller variances than a mixture of all, others are left out: a few draws of
    a wide component in a set that a chain fills have weights of the same size, and no stratum of their own.

    deltas: δ̂ (2, epsilons), NaN for cells that do not count. goals: relative variances of cells, (2, epsilons), to each other; of
    the least one are the cells that matter most; cells with less than a tenth of their δ̂ do not count. inf: does not count.
    plain: the least share of the first component. main: what the cells that matter most weigh at least, of all.
    """
    if not all(side.chains is not None and side.chains.any() for side in sides):
        return _shares(sides, deltas, goals, plain, main)
    if all(side.chains[1:].all() for side in sides):  # type: ignore[index]
        return _shares(sides, deltas, goals, plain, main, True)
    every = _shares(sides, deltas, goals, plain, main)
    kept = [np.flatnonzero(side.chains | (np.arange(side.chains.size) == 0)) for side in sides]  # type: ignore[union-attr]
    few = [replace(side, ratios=side.ratios[:, own]) for side, own in zip(sides, kept, strict=True)]
    alone = [np.zeros(side.ratios.shape[1]) for side in sides]
    for found, own, values in zip(alone, kept, _shares(few, deltas, goals, plain, main, True), strict=True):
        found[own] = values
    used, aims, squares = _cells(sides, deltas, goals)
    which = aims if main > 0.0 else used

    def worth(alphas: list[Floats]) -> float:
        parts = [s.strata_variances(a) * square for s, a, square in zip(sides, alphas, squares, strict=True)]
        return float((np.sum(parts, axis=0)[which] ** 2).sum())

    return min(every, alone, key=worth)


def _cells(sides: Sequence[Side], deltas: Floats, goals: Floats) -> tuple[Bools, Bools, list[Floats]]:
    """Which cells count, which matter most, and what each side's variances are multiplied by."""
    used = (deltas > _LEAST_TOLD) & (goals < np.inf)
    aims = used & (goals <= goals.min())
    if aims.any():
        used &= deltas >= least_counted(deltas[aims])
    return used, aims, [np.where(used, (s.factors / np.where(used, deltas, 1.0)) ** 2 / goals, 0.0) for s in sides]


def _shares(
    sides: Sequence[Side], deltas: Floats, goals: Floats, plain: float, main: float, chains: bool = False
) -> list[Floats]:
    """By variances of draws that are one stratum, which steps are known to lower; of chains each cell weighs what that of its
    strata is, which no such proof covers.
    """
    used, aims, squares = _cells(sides, deltas, goals)
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
                if not chains:
                    variances[d] += square[d] * above(side.classes[d], terms, deltas.shape[1])
            if chains:
                variances += square * side.strata_variances(alpha)
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
            if chains:  # each has its part of the tapes to itself: without one, plain draws alone would be there
                alphas[at] = _floored(np.maximum(alphas[at], _LEAST_CHAIN), plain)
            elif step == _STEPS // 2:
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
