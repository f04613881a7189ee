"""Learning by levels: proposals lead ever further towards {L̂ > t}, and weighted draws of all levels teach L̂ there.

The cross-entropy method for rare events (Rubinstein and Kroese 2004), for both laws and both directions at once: draws of all
levels are weighed by the mixture of all proposals that were drawn from; t rises until the largest ε, or until it no longer does.
Heuristic: what is learned only decides how narrow the bounds become.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hpcdp.importance.chains import can_chain, is_score
from hpcdp.importance.curve import delta_by_loss
from hpcdp.importance.fit import fit, wild
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import Floats, Ints, Proposal, join
from hpcdp.importance.mixtures import MOST_TOLD, Goal, mixtures_of, side_of
from hpcdp.importance.pool import Above, Known, Pool, log_mixed
from hpcdp.importance.training import Direction, Taught
from hpcdp.losses.line.cells import LineCells

Draw = Callable[[int, Proposal, int, int], tuple[Floats, Tape]]
"""Outputs on the line, and their tape, of (side, proposal, size, number of the call)."""

Asks = Callable[["Learned"], float]
"""Draws of each law that aims ask for after this, as a share of what may be drawn; inf where one is not told."""

_MOST_LEVELS = 40
_ENOUGH = 400.0  # outputs' worth above a threshold, of either law, from which a proposal is learned
_SCARCE = (_ENOUGH, 40.0, 8.0)  # the same, tried in turn where there is nothing to climb on
_LEAST = 1e-20  # probability of a set from which on none rarer is looked for
_FIRST = 4  # a part of the draws of the last round teaches chains that the others come from
_LAST = 4  # times the draws of a level in the last round, where a call draws many


@dataclass(frozen=True, eq=False)
class TaughtSide:
    """One distribution's proposal, and the draws of all stages: cells, weights by the proposal.

    plain: shares of draws of weight 1. within: variance of w·1_S within strata, as a share of all draws', (2, epsilons).
    """

    proposal: Proposal
    cells: Ints
    weights: Floats
    shares: Floats
    plain: Floats
    within: Floats

    def plainly(self) -> TaughtSide:
        """The same with plain draws for the test."""
        ones = np.ones(self.weights.size), np.ones(self.within.shape)
        return replace(self, proposal=Proposal.plain(), weights=ones[0], shares=self.plain, within=ones[1])


@dataclass(frozen=True, eq=False)
class Learned:
    """What the stages taught: cells of the line with L̂, and both distributions'."""

    epsilons: Floats
    cells: LineCells
    losses: Floats
    sides: tuple[TaughtSide, TaughtSide]

    @cached_property
    def classes(self) -> Ints:
        """How many ε L̂ exceeds in each cell, and −L̂ does, (2, cells)."""
        return np.stack([np.searchsorted(self.epsilons, values, "left") for values in (self.losses, -self.losses)])

    def directions(self) -> list[Direction]:
        """Both directions, as training draws tell of them."""
        directions = []
        for d, sign in enumerate((1.0, -1.0)):
            p, q = (
                Taught(self.classes[d][side.cells], side.weights, side.shares, side.proposal.largest, side.within[d])
                for side in (self.sides[d], self.sides[1 - d])
            )
            loss = sign * self.losses[self.sides[d].cells]
            which = np.flatnonzero(loss > self.epsilons[0])
            density = (p.shares * p.weights)[which]
            by_loss = np.array([delta_by_loss(loss[which], density, e) for e in self.epsilons])
            directions.append(Direction(p, q, self.epsilons, by_loss))
        return directions


def learn(draw: Draw, goal: Goal, size: int, chunk: int, last: int = 0, asks: Asks = lambda _: 0.0) -> Learned:
    """Learn from draws of both distributions; with chains where a score tells outputs exactly.

    size: draws of each and stage. chunk: of the test, of which shares are whole numbers. last: draws of the last round with
    chains.
    """
    pools, calls = (Pool(), Pool()), [0, 0]

    def sample(side: int, numbers: Sequence[int], counts: Sequence[int], times: int = 1) -> None:
        pool, total = pools[side], sum(counts)
        numbers = [0, *numbers] if numbers[0] else list(numbers)
        counts = [0, *counts] if len(counts) < len(numbers) else list(counts)
        proposal = join([pool.components[n] for n in numbers[1:]], np.asarray(counts) / total)
        drawn = [draw(side, proposal, total, calls[side] + time) for time in range(times)]
        calls[side] += times
        pool.take(drawn, numbers)

    for side in (0, 1):
        sample(side, [0], [size // 2])
        numbers = pools[side].add(wild(pools[side].tapes[0]))
        if len(numbers):
            sample(side, numbers, [size // 2 // len(numbers)] * len(numbers))
    _climb(pools, max(float(goal.epsilons[-1]), 0.0), size, sample)

    def finish(chains: bool, alone: bool = False) -> Learned:
        least = size * (_LAST if chunk >= size else 1)
        own, times = (size, -(-max(last, least) // size)) if chains else (least, 1)
        return _finish(pools, goal, sample, own, times, chunk, chains, alone)

    if goal.main == 0.0 and all(is_score(pool.tapes[0], pool.outputs[0]) for pool in pools):
        chained = finish(True, True)
        if (asked := asks(chained)) <= 1.0:
            return chained
        return without if asks(without := finish(False)) < asked else chained
    without = finish(False)
    if not any(can_chain(pool.tapes[0]) for pool in pools) or (asked := asks(without)) <= 1.0:
        return without
    chained = finish(True)
    return chained if asks(chained) < asked else without


def _climb(pools: tuple[Pool, Pool], goal: float, size: int, sample: Callable[..., None]) -> None:
    """Draw from ever rarer sets of both directions, up to {L̂ > goal}, or until that no longer leads on."""
    reached = [-np.inf, -np.inf]
    rounds_left = [2, 2]  # at the goal, or without progress
    for _ in range(_MOST_LEVELS):
        known = Known.of(pools)
        for direction in (0, 1):
            if not rounds_left[direction]:
                continue
            scores, above = known.scores[direction], known.above[direction]
            t = _rise(scores, above, goal)
            if t is None or t <= reached[direction] + 1e-6 or t >= goal:
                rounds_left[direction] -= 1
            if t is None:
                continue
            if above[direction].mass(t) < _LEAST * known.weights[direction].size:
                rounds_left[direction] = 0  # δ beyond is smaller still: L̂ rises no more, and draws would lead nowhere
                continue
            reached[direction] = max(t, reached[direction])
            for side, pool in enumerate(pools):
                elite = pool.elite(scores[side] > t, known.weights[side])
                if elite:
                    mixture = fit(elite)
                    numbers = pool.add([component for _, component in mixture])
                    sample(side, numbers, [max(1, int(share * size / 2)) for share, _ in mixture])
        if not any(rounds_left):
            return


def _rise(scores: Sequence[Floats], above: Sequence[Above], goal: float) -> float | None:
    """The largest t up to the goal above which there is enough of both laws, or much of one and nothing of the other."""
    pooled = np.concatenate([s[np.isfinite(s)] for s in scores])
    if not pooled.size:
        return goal if any((s > goal).sum() > 0 for s in scores) else None
    candidates = np.unique(
        np.append(np.quantile(pooled[pooled < goal], np.linspace(0.3, 1.0, 60)) if (pooled < goal).any() else [], goal)
    )
    told = [(t, [side.told(t) for side in above]) for t in candidates[::-1]]
    for enough in _SCARCE:
        for t, both in told:
            if min(both) >= enough or (max(both) >= enough and min(both) == 0.0):
                return float(t)
    return None


def _finish(
    pools: tuple[Pool, Pool],
    goal: Goal,
    sample: Callable[..., None],
    size: int,
    times: int,
    chunk: int,
    chains: bool,
    alone: bool,
) -> Learned:
    """The final proposals, with shares by the variances of all cells, and a last round drawn from them in so many calls."""
    rounds = [-(-times // _FIRST), times - -(-times // _FIRST)] if chains and can_chain(pools[0].tapes[0]) else [times]
    for calls in filter(None, rounds):
        mixtures, shares = mixtures_of(pools, Known.of(pools), goal, chains, alone, chains)
        for side, pool in enumerate(pools):
            numbers = [0, *pool.add(mixtures[side])]
            if len(numbers) > 1:
                sample(side, numbers, [max(1, int(s * size)) for s in shares[side]], calls)
    known = Known.of(pools)
    if chains:  # they end where sets do, which the last draws have moved
        mixtures, shares = mixtures_of(pools, known, goal, chains, alone)
    sides = []
    for side, pool in enumerate(pools):
        whole, weights = _whole_shares(shares[side], chunk), known.weights[side]
        mixture = np.concatenate([log_mixed(tape, whole, [{}, *mixtures[side]]) for tape in pool.tapes])
        taught = TaughtSide(
            proposal=join(mixtures[side], whole),
            cells=known.where[side],
            weights=np.exp(-mixture),
            shares=_shares_of(weights * np.exp(mixture)),
            plain=_shares_of(weights),
            within=side_of(pool, mixtures[side], known, goal.epsilons, side, MOST_TOLD).within(whole),
        )
        sides.append(taught)
    return Learned(goal.epsilons, known.cells, known.losses, (sides[0], sides[1]))


def _shares_of(densities: Floats) -> Floats:
    """Shares of draws whose mean density is about 1, with a sum of at most 1."""
    return densities / max(float(densities.size), float(densities.sum()))


def _whole_shares(shares: Sequence[float] | Floats, chunk: int) -> Floats:
    """Shares that are whole numbers of outputs of a chunk, the plain one's at least one."""
    counts = np.maximum(1, np.floor(np.asarray(shares) / sum(shares) * chunk)).astype(np.int64)
    counts[0] += chunk - counts.sum()
    if counts[0] < 1:
        counts[int(counts.argmax())] += counts[0] - 1
        counts[0] = 1
    return counts / chunk
