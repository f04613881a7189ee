"""The proposal of each law that the test draws from: components at the sets' edges and between, and their shares.

Shares are those under which the sum of squares of the cells' relative variances is least.
With weights w = f/Σ α_c g_c the variance of a cell is convex in the shares α, and a weighted sum of them over cells falls when
each share is multiplied by the root of its derivative (Titterington 1976; Yu 2010: such steps never rise). Each cell weighs
what its variance is; weights that build up over the steps instead run away with a cell that no share mends (seen: two to
three times the worst variance). Heuristic: the variances are those of training draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from hpcdp.importance.chains import Near, can_chain
from hpcdp.importance.curve import delta_by_loss
from hpcdp.importance.fit import count_modes, fit
from hpcdp.importance.kinds import Bools, Component, Floats, Ints, is_chain
from hpcdp.importance.pool import FEWEST, Above, Known, Pool, ratios_of
from hpcdp.importance.training import sums_above

Aims = Callable[[Floats], list[tuple[int, int]]]
"""(direction, column of ε) of the cells that matter most, from δ̂ (2, epsilons), NaN where it is not told."""

MOST_TOLD = 100_000
"""Draws by which variances within strata are told in the end."""

_MOST_SHARED, _MOST_CHAINED, _MOST_SUMS = 40_000, 6_000, 20_000  # by which shares are chosen; of many chains fewer
_MOST_NEAR = 200_000  # draws that tell where a set ends
_RUNG = 1.0  # between the logs of probabilities of two chains, at most
_LATTICE_RUNG, _BEYOND = 0.5, 6  # the same where a set holds few values, and how many chains lie beyond the last edge
_STEP = 2.0  # the same of two rungs of other components
_PLAIN_SHARE = 0.125  # of the draws that are plain
_MOST_LOG = 300.0  # of a ratio, whose square is a number still
_MOST_VALUES, _NEARLY = 64, 0.999  # of L̂ that hold so much of a set: up to so many each has a chain; far out are more
_MOST_EDGES = 24  # chained components of a direction

_STEPS = 60
_LEAST_TOLD = 1e-100  # of δ̂: squares of relative variances must stay floats
_COUNTS = 0.1  # of the least δ̂ that matters most: of cells below nothing is asked
_NOT_SEEN = 3.0  # over the draws that tell of a stratum: the share of it that may lie where none of them does, at .95
_ALIKE = 3.0  # standard errors of a stratum's mass within which it is 1
_LEAST, _LEAST_CHAIN = 0.004, 0.0005  # share of a component below which it is left out; of a chain at least


@dataclass(frozen=True)
class Goal:
    """What draws are for: the cells that matter most, the relative variance that others may have, the aims' least weight."""

    epsilons: Floats
    aims: Aims
    rest: float = 1.5
    main: float = 0.0


def mixtures_of(
    pools: tuple[Pool, Pool], known: Known, goal: Goal, chains: bool, alone: bool, spreads: bool = False
) -> tuple[list[list[Component]], list[Floats]]:
    """Components of each distribution's mixture but the plain one, and shares, plain first; spreads: half of these evenly."""
    deltas = _deltas(known, goal.epsilons)
    wanted = goal.aims(deltas)
    goals = np.full(deltas.shape, goal.rest)
    for d, j in wanted:
        goals[d, j] = 1.0
    sides, candidates = [], list[list[Component]]()
    for side, pool in enumerate(pools):
        components, weights = list[Component](), known.weights[side]
        for direction in (0, 1):
            score, above = known.scores[direction][side], known.above[direction][side]
            own = [float(goal.epsilons[j]) for d, j in wanted if d == direction]
            told, modes = goal.epsilons[deltas[direction] > 0.0], 1
            for t, is_aim in _ladder(above, score.size, told, own):
                elite = pool.elite(score > t, weights)
                if alone:
                    modes = max(modes, count_modes(elite))
                    continue
                tilted = fit(elite, narrows=is_aim)
                modes = max(modes, len(tilted) - is_aim)
                components += [component for _, component in tilted]
            if chains:
                components += _chains(pool, score, weights, above, told, modes > 1)
        candidates.append(components)
        most = _MOST_SHARED
        if chains:  # of one place weights are alike anyway
            most = _MOST_SUMS if can_chain(pool.tapes[0]) else _MOST_CHAINED
        sides.append(side_of(pool, components, known, goal.epsilons, side, most))
    shares = best_shares(sides, deltas, goals, _PLAIN_SHARE, goal.main)
    mixtures = list[list[Component]]()
    for side in (0, 1):
        if spreads and (chained := np.array([False, *map(is_chain, candidates[side])])).any():
            shares[side] = 0.5 * shares[side] + 0.5 * chained / chained.sum()
        kept = np.flatnonzero((shares[side] > 0.0) | (np.arange(shares[side].size) == 0))
        mixtures.append([candidates[side][k - 1] for k in kept[1:]])
        shares[side] = shares[side][kept]
    return mixtures, shares


def _deltas(known: Known, epsilons: Floats) -> Floats:
    """`delta_by_loss` of both directions at each ε, (2, epsilons); NaN where few draws tell it."""
    deltas = np.full((2, epsilons.size), np.nan)
    for d in (0, 1):
        score, own, mine, other = known.scores[d][d], known.weights[d], known.above[d][d], known.above[d][1 - d]
        inside = np.flatnonzero(score > epsilons[0])
        score, weight = score[inside], own[inside]
        for j, epsilon in enumerate(epsilons):
            if mine.told(epsilon) >= FEWEST and (not other.held(epsilon) or other.told(epsilon) >= FEWEST):
                above = score > epsilon
                deltas[d, j] = delta_by_loss(score[above], weight[above], epsilon) / own.size
    return deltas


def _ladder(above: Above, draws: int, epsilons: Floats, aims: Sequence[float]) -> list[tuple[float, bool]]:
    """Thresholds for proposals, rarer and rarer: from where plain draws are few, a step apart, to the largest ε; and the aims."""
    thresholds = [(e, True) for e in aims if above.told(e) >= FEWEST]
    if not epsilons.size:
        return thresholds
    last = np.log(0.05) + _STEP
    for epsilon in np.unique(np.append(epsilons, np.linspace(epsilons[0], epsilons[-1], 41))):
        mass = above.mass(epsilon) / draws
        if mass <= 0.0 or above.told(epsilon) < FEWEST:
            break
        if np.log(mass) <= last - _STEP and not any(abs(epsilon - e) < 1e-9 for e in aims):
            last = np.log(mass)
            thresholds.append((float(epsilon), False))
    return thresholds


def _chains(
    pool: Pool, score: Floats, weights: Floats, above: Above, epsilons: Floats, splits: bool
) -> list[Component]:
    """Chained components from each set's edge to the next, with some between; splits: whether modes are told apart."""
    levels = list[float]()
    if epsilons.size:
        levels = epsilons[np.unique(np.linspace(0, epsilons.size - 1, _MOST_EDGES).astype(np.int64))].tolist()
    rung = _RUNG
    if levels and can_chain(pool.tapes[0]) and _values_in(score, weights, levels[0]) <= _MOST_VALUES:
        # few values: a chain for each, nearly, whose probability is then told by its draws alone; also beyond the last set
        rung, mass = _LATTICE_RUNG, above.mass(levels[-1])
        beyond = [above.level(mass * math.exp(-k * rung)) for k in range(1, _BEYOND + 1)]
        levels += [t for t in beyond if t > levels[-1]]
    for low, high in pairwise([*levels]):  # sets that fall by more than a rung are cut, so that draws are everywhere
        mass = above.mass(low)
        fall = float(np.log(mass / above.mass(high))) if above.mass(high) > 0.0 else 0.0
        steps = math.ceil(fall / rung)
        levels += [t for k in range(1, steps) if low < (t := above.level(mass * math.exp(-k * fall / steps))) < high]
    edges, held = list[float](), -1
    for t in sorted(levels):
        if above.held(t) != held and above.told(t) >= FEWEST:
            edges.append(float(t))
            held = above.held(t)
    classes = np.searchsorted(edges, score, "left")  # how many edges lie below
    components = list[Component]()
    for at, epsilon in enumerate(edges):
        near = pool.elite((classes >= at) & (classes <= at + 2), weights, _MOST_NEAR)
        sides = Near(near, np.sign(pool.of(near, classes) - at - 1))
        fitted = fit(pool.elite(score > epsilon, weights), near=sides, splits=splits)
        components += [component for _, component in fitted if is_chain(component)]
    return components


def _values_in(score: Floats, weights: Floats, low: float) -> int:
    """How many values of L̂ hold nearly all of the set above."""
    inside = score > low
    _, which = np.unique(score[inside], return_inverse=True)
    masses = np.sort(np.bincount(which, weights[inside]))[::-1].cumsum()
    return 1 + int(np.searchsorted(masses, _NEARLY * masses[-1])) if masses.size else 0


def side_of(pool: Pool, components: Sequence[Component], known: Known, epsilons: Floats, side: int, most: int) -> Side:
    """Draws of a distribution for `best_shares`: every so many of those in any set, so that they are about this many at most."""
    scores = known.scores[0][side]
    classes = np.stack([np.searchsorted(epsilons, sign * scores, "left") for sign in (1.0, -1.0)])
    inside = np.flatnonzero(classes.any(axis=0))
    step = max(1, inside.size // most)
    inside = inside[::step]
    ends = np.cumsum([0, *(tape.size for tape in pool.tapes)])
    parts = np.split(inside, np.searchsorted(inside, ends[1:-1]))
    ratios = [
        ratios_of(tape, part - start, components)
        for tape, part, start in zip(pool.tapes, parts, ends[:-1], strict=True)
    ]
    factors = np.ones((2, epsilons.size))
    factors[1 - side] = np.exp(epsilons)
    every = np.exp(np.clip(np.concatenate(ratios), -_MOST_LOG, _MOST_LOG))
    chains = np.array([False, *map(is_chain, components)])
    return Side(every, known.weights[side][inside] * (step / scores.size), classes[:, inside], factors, chains)


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
        directions = []
        for classes in self.classes:
            order = np.argsort(classes, kind="stable")
            ends = np.searchsorted(classes[order], np.arange(1, self.factors.shape[1] + 2))
            inside = order[ends[0] :]
            directions.append((self.ratios[inside], self.density[inside], ends - ends[0]))
        return directions

    @cached_property
    def _masses(self) -> tuple[Floats, Floats]:
        """Of each component the mass that draws tell, 1 but for noise, and what share of E w² its variance is at least."""
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
        variances = np.zeros(self.factors.shape)
        for d, (ratios, density, ends) in enumerate(self._sorted):
            own = density / (mixed := ratios @ alpha)
            terms = np.stack([own, own / mixed])
            sums = np.stack([terms[:, a:b] @ ratios[a:b] for a, b in pairwise(ends)], axis=1)
            means, squares = sums[:, ::-1].cumsum(axis=1)[:, ::-1]  # (cells, components)
            means, squares = means / masses, squares / masses
            variances[d] = np.maximum(squares - means**2, least * squares) @ alpha
        return variances

    def within(self, alpha: Floats) -> Floats:
        """`strata_variances` as shares of those of draws that are one stratum, (2, epsilons), at most 1."""
        own = self.density / (self.ratios @ alpha)
        parts = [
            (sums_above(c, own, self.factors.shape[1]), sums_above(c, self.density, self.factors.shape[1]))
            for c in self.classes
        ]
        whole = np.stack([squares - mean**2 for squares, mean in parts])
        shares = np.divide(self.strata_variances(alpha), whole, out=np.ones(whole.shape), where=whole > 0.0)
        return np.asarray(np.minimum(1.0, shares))


def best_shares(sides: Sequence[Side], deltas: Floats, goals: Floats, plain: float, main: float = 0.0) -> list[Floats]:
    """Shares of each side's components, 0 for those left out: of chains alone where their variances are smaller than with all.

    deltas: NaN for cells that do not count. goals: relative variances to each other, the least of which matter most; inf: none.
    """
    cells = _cells(sides, deltas, goals)
    chains = [np.zeros(side.ratios.shape[1], np.bool_) if side.chains is None else side.chains for side in sides]
    if not all(mask.any() for mask in chains):
        return _shares(sides, *cells, plain, main)
    if all(mask[1:].all() for mask in chains):
        return _shares(sides, *cells, plain, main, True)
    every = _shares(sides, *cells, plain, main)
    kept = [np.flatnonzero(mask | (np.arange(mask.size) == 0)) for mask in chains]
    few = [replace(side, ratios=side.ratios[:, own]) for side, own in zip(sides, kept, strict=True)]
    alone = [np.zeros(mask.size) for mask in chains]
    for shares, own, values in zip(alone, kept, _shares(few, *cells, plain, main, True), strict=True):
        shares[own] = values
    used, aims, squares = cells
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
    sides: Sequence[Side],
    used: Bools,
    aims: Bools,
    squares: list[Floats],
    plain: float,
    main: float,
    chains: bool = False,
) -> list[Floats]:
    """By variances of draws that are one stratum, which steps are known to lower; of chains by their strata's, unproved."""
    alphas = [np.full(side.ratios.shape[1], 1.0 / side.ratios.shape[1]) for side in sides]
    if not used.any():
        return [np.eye(side.ratios.shape[1])[0] for side in sides]
    kept = [np.ones(alpha.size, np.bool_) for alpha in alphas]
    for step in range(_STEPS):
        variances = np.zeros(used.shape)
        mixed = []
        for side, alpha, square in zip(sides, alphas, squares, strict=True):
            mixed.append(side.ratios @ alpha)
            terms = side.density / mixed[-1]
            for d in (0, 1):
                if not chains:
                    variances[d] += square[d] * sums_above(side.classes[d], terms, used.shape[1])
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


def _floored(shares: Floats, plain: float) -> Floats:
    total = float(shares.sum())
    if not (0.0 < total < np.inf):
        return np.asarray(np.eye(shares.size)[0])
    floored = shares / total
    if floored[0] < plain and floored[1:].sum() > 0.0:
        floored[1:] *= (1.0 - plain) / floored[1:].sum()
        floored[0] = plain
    return np.asarray(floored)
