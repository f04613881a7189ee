"""The proposal of each law that the test draws from: components at the sets' edges and between, and their shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance.chains import Near, can_chain, is_chain
from hpcdp.importance.curve import delta_by_loss
from hpcdp.importance.elite import Component, log_ratios
from hpcdp.importance.fit import count_modes, fit
from hpcdp.importance.pool import FEWEST, Above, Pool
from hpcdp.importance.shares import Side, best_shares

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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


def mixtures_of(
    pools: tuple[Pool, Pool],
    epsilons: Floats,
    losses: Floats,
    where: tuple[Ints, Ints],
    weights: tuple[Floats, Floats],
    aims: Aims,
    rest: float,
    main: float,
    chains: bool,
    alone: bool,
    spreads: bool = False,
) -> tuple[list[list[Component]], list[Floats]]:
    """The components of a mixture for each law but the plain one, and shares, the plain one's first.

    chains: whether they are among the candidates; alone: and nothing else. spreads: half is spread evenly over them, as what the
    present L̂ takes for the edge of a set may be none.
    """
    scores = [[sign * losses[cell] for cell in where] for sign in (1.0, -1.0)]
    every = [[Above(*side) for side in zip(own, weights, strict=True)] for own in scores]
    deltas = _deltas(scores, every, weights, epsilons)
    wanted = aims(deltas)
    goals = np.full(deltas.shape, rest)
    for d, j in wanted:
        goals[d, j] = 1.0
    sides, candidates = [], list[list[Component]]()
    for side in (0, 1):
        found = list[Component]()
        for direction in (0, 1):
            score, above = scores[direction][side], every[direction][side]
            own = [float(epsilons[j]) for d, j in wanted if d == direction]
            told = epsilons[deltas[direction] > 0.0]
            modes = 1
            for t, is_aim in _ladder(above, score.size, told, own):
                elite = pools[side].elite(score > t, weights[side])
                if alone:
                    modes = max(modes, count_modes(elite))
                    continue
                tilted = fit(elite, narrows=is_aim)
                modes = max(modes, len(tilted) - is_aim)
                found += [one for _, one in tilted]
            if chains:
                found += _chains(pools[side], score, weights[side], above, told, modes > 1)
        candidates.append(found)
        most = _MOST_SHARED
        if chains:  # of one place weights are alike anyway
            most = _MOST_SUMS if can_chain(pools[side].tapes[0]) else _MOST_CHAINED
        sides.append(side_of(pools[side], found, losses[where[side]], weights[side], epsilons, side, most))
    shares = best_shares(sides, deltas, goals, _PLAIN_SHARE, main)
    mixtures = list[list[Component]]()
    for side in (0, 1):
        if spreads and (some := np.array([False, *map(is_chain, candidates[side])])).any():
            shares[side] = 0.5 * shares[side] + 0.5 * some / some.sum()
        kept = np.flatnonzero((shares[side] > 0.0) | (np.arange(shares[side].size) == 0))
        mixtures.append([candidates[side][k - 1] for k in kept[1:]])
        shares[side] = shares[side][kept]
    return mixtures, shares


def _deltas(
    scores: Sequence[Sequence[Floats]],
    every: Sequence[Sequence[Above]],
    weights: tuple[Floats, Floats],
    epsilons: Floats,
) -> Floats:
    """`delta_by_loss` of both directions at each ε, (2, epsilons); NaN where few draws tell it.

    scores, every: of each direction those of both laws.
    """
    found = np.full((2, epsilons.size), np.nan)
    for direction in (0, 1):
        score, own = scores[direction][direction], weights[direction]
        mine, other = every[direction][direction], every[direction][1 - direction]
        inside = np.flatnonzero(score > epsilons[0])
        score, weight = score[inside], own[inside]
        for j, epsilon in enumerate(epsilons):
            if mine.told(epsilon) >= FEWEST and (not other.held(epsilon) or other.told(epsilon) >= FEWEST):
                above = score > epsilon
                found[direction, j] = delta_by_loss(score[above], weight[above], epsilon) / own.size
    return found


def _ladder(above: Above, draws: int, epsilons: Floats, aims: Sequence[float]) -> list[tuple[float, bool]]:
    """Thresholds for proposals, rarer and rarer: from where plain draws are few, a step apart, to the largest ε; and the aims."""
    found = [(e, True) for e in aims if above.told(e) >= FEWEST]
    if not epsilons.size:
        return found
    last = np.log(0.05) + _STEP
    for epsilon in np.unique(np.append(epsilons, np.linspace(epsilons[0], epsilons[-1], 41))):
        mass = above.mass(epsilon) / draws
        if mass <= 0.0 or above.told(epsilon) < FEWEST:
            break
        if np.log(mass) <= last - _STEP and not any(abs(epsilon - e) < 1e-9 for e in aims):
            last = np.log(mass)
            found.append((float(epsilon), False))
    return found


def _chains(
    pool: Pool, score: Floats, weights: Floats, above: Above, epsilons: Floats, splits: bool
) -> list[Component]:
    """Chained components that begin where the sets of ε do, and some between, and end where the next begins.

    splits: modes are told apart.
    """
    some = (
        np.unique(np.linspace(0, epsilons.size - 1, _MOST_EDGES).astype(np.int64))
        if epsilons.size
        else np.zeros(0, np.int64)
    )
    levels = epsilons[some].tolist()
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
    found = list[Component]()
    for at, epsilon in enumerate(edges):
        near = pool.elite((classes >= at) & (classes <= at + 2), weights, _MOST_NEAR)
        sides = Near(near, np.sign(pool.of(near, classes) - at - 1))
        found += [
            one for _, one in fit(pool.elite(score > epsilon, weights), near=sides, splits=splits) if is_chain(one)
        ]
    return found


def _values_in(score: Floats, weights: Floats, low: float) -> int:
    """How many values of L̂ hold nearly all of the set above."""
    inside = score > low
    _, which = np.unique(score[inside], return_inverse=True)
    masses = np.sort(np.bincount(which, weights[inside]))[::-1].cumsum()
    return 1 + int(np.searchsorted(masses, _NEARLY * masses[-1])) if masses.size else 0


def side_of(
    pool: Pool, components: Sequence[Component], scores: Floats, weights: Floats, epsilons: Floats, side: int, most: int
) -> Side:
    """Draws of a law for `best_shares`: every so many of those in any set, so that they are about this many at most."""
    classes = np.stack([np.searchsorted(epsilons, sign * scores, "left") for sign in (1.0, -1.0)])
    inside = np.flatnonzero(classes.any(axis=0))
    step = max(1, inside.size // most)
    inside = inside[::step]
    ends = np.cumsum([0, *(tape.size for tape in pool.tapes)])
    parts = np.split(inside, np.searchsorted(inside, ends[1:-1]))
    ratios = [
        log_ratios(tape, part - start, components)
        for tape, part, start in zip(pool.tapes, parts, ends[:-1], strict=True)
    ]
    factors = np.ones((2, epsilons.size))
    factors[1 - side] = np.exp(epsilons)
    every = np.exp(np.clip(np.pad(np.concatenate(ratios), ((0, 0), (1, 0))), -_MOST_LOG, _MOST_LOG))
    chains = np.array([False, *map(is_chain, components)])
    return Side(every, weights[inside] * (step / scores.size), classes[:, inside], factors, chains)
