"""Learning by levels: proposals lead ever further towards {L̂ > t}, and weighted draws of all levels teach L̂ there.

The cross-entropy method for rare events (Rubinstein and Kroese 2004), for both laws and both directions at once: draws of all
levels are weighed by the mixture of all proposals that were drawn from; t rises until the largest ε, or until it no longer does.
Heuristic: what is learned only decides how narrow the bounds become.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.line.cells import LineCells
from hpcdp.losses.tape.curve import delta_by_loss, fit_weighted, weighted_sums
from hpcdp.losses.tape.fit import Component, Elite, fit, log_ratios, wild
from hpcdp.losses.tape.shares import Side, best_shares
from hpcdp.mechanisms.tape.generator import Tape
from hpcdp.mechanisms.tape.kinds import PLAIN
from hpcdp.mechanisms.tape.proposal import Proposal, join

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Draw = Callable[[int, Proposal, int, int], tuple[Floats, Tape]]
"""Outputs on the line, and their tape, of (side, proposal, size, number of the call)."""

Aims = Callable[[Floats], list[tuple[int, int]]]
"""(direction, column of ε) of the cells that matter most, from δ̂ (2, epsilons), NaN where it is not told."""

_MOST_LEVELS = 40
_ENOUGH = 400.0  # outputs' worth above a threshold, of either law, from which a proposal is learned
_SCARCE = (_ENOUGH, 40.0, 8.0)  # the same, tried in turn where there is nothing to climb on
_FEWEST = 50.0  # outputs' worth in a set that tell anything of it
_MOST_ELITE = 4_000
_LEAST = 1e-20  # probability of a set from which on none rarer is looked for
_STEP = 2.0  # between the logs of probabilities of two rungs of the final proposals
_PLAIN_SHARE = 0.125  # of the draws that are plain
_LAST = 4  # times the draws of a level in the last round, where a call draws many
_MOST_LOG = 300.0  # of a ratio, whose square is a number still
_MOST_SHARED = 40_000  # draws that shares are chosen by


@dataclass
class Pool:
    """Weighted draws of one law: components, how many draws each gave, and of all draws the log-ratios to the plain law."""

    components: list[Component] = field(default_factory=lambda: [{}])
    counts: list[int] = field(default_factory=lambda: [0])
    outputs: list[Floats] = field(default_factory=list)
    tapes: list[Tape] = field(default_factory=list)
    ratios: list[Floats] = field(default_factory=list)

    def add(self, components: Sequence[Component]) -> range:
        """New components; their numbers."""
        if components:
            for at, tape in enumerate(self.tapes):
                new = log_ratios(tape, np.arange(tape.size), components)
                self.ratios[at] = np.hstack([self.ratios[at], new])
            self.components += components
            self.counts += [0] * len(components)
        return range(len(self.components) - len(components), len(self.components))

    def take(self, outputs: Floats, tape: Tape, numbers: Sequence[int]) -> None:
        """Draws of these components, in the proposal's order."""
        for number, size in zip(numbers, np.diff(tape.starts).tolist(), strict=True):
            self.counts[number] += size
        own = np.zeros((tape.size, len(self.components)))
        if len(self.components) > 1:
            own[:, 1:] = log_ratios(tape, np.arange(tape.size), self.components[1:])
        self.outputs.append(outputs)
        self.tapes.append(tape)
        self.ratios.append(own)

    @property
    def size(self) -> int:
        """How many draws there are."""
        return sum(self.counts)

    def weights(self) -> Floats:
        """Of all draws, by the mixture of all that was drawn from."""
        used = np.flatnonzero(self.counts)
        logs = np.log(np.asarray(self.counts, np.float64)[used] / self.size)
        return np.exp(-np.concatenate([np.logaddexp.reduce(r[:, used] + logs, axis=1) for r in self.ratios]))

    def log_mixture(self, shares: Floats, numbers: Sequence[int]) -> Floats:
        """log of a mixture's density over the plain one's, of all draws."""
        logs = np.log(shares)
        return np.concatenate([np.logaddexp.reduce(r[:, list(numbers)] + logs, axis=1) for r in self.ratios])

    def elite(self, chosen: NDArray[np.bool_], weights: Floats) -> list[Elite]:
        """The chosen draws by tape, the first of too many."""
        found, start = [], 0
        step = max(1, int(chosen.sum()) // _MOST_ELITE)
        for tape in self.tapes:
            which = np.flatnonzero(chosen[start : start + tape.size])[::step]
            if which.size:
                found.append(Elite(tape, which, weights[start + which]))
            start += tape.size
        return found


@dataclass(frozen=True, eq=False)
class Learned:
    """What the levels taught: cells with L̂, a proposal of each law; and the draws that taught it, with their weights by it.

    cells_of, weights: of all draws of both laws. shares: of each draw, so that the mean of φ(w) of fresh draws is about
    their sum of shares·φ(w). plain: the shares of draws whose weight is 1.
    """

    cells: LineCells
    losses: Floats
    proposals: tuple[Proposal, Proposal]
    cells_of: tuple[Ints, Ints]
    weights: tuple[Floats, Floats]
    shares: tuple[Floats, Floats]
    plain: tuple[Floats, Floats]

    def plainly(self) -> Learned:
        """The same with plain draws for the test."""
        ones = tuple(np.ones(side.size) for side in self.weights)
        return replace(self, proposals=(Proposal.plain(), Proposal.plain()), weights=ones, shares=self.plain)  # type: ignore[arg-type]


def learn(
    draw: Draw, epsilons: Floats, size: int, chunk: int, aims: Aims, rest: float = 1.5, main: float = 0.0
) -> Learned:
    """Learn from draws of both laws.

    size: draws of each law and level. chunk: outputs to a chunk of the test, of which shares are whole numbers. aims: told
    what is known, for which cells the draws are meant. rest: times their relative variance that other cells may have. main:
    what they weigh at least when draws are shared out.
    """
    pools, calls = (Pool(), Pool()), [0, 0]

    def sample(side: int, numbers: Sequence[int], counts: Sequence[int]) -> None:
        pool, total = pools[side], sum(counts)
        numbers = [0, *numbers] if numbers[0] else list(numbers)
        counts = [0, *counts] if len(counts) < len(numbers) else list(counts)
        proposal = join([pool.components[n] for n in numbers[1:]], np.asarray(counts) / total, PLAIN)
        outputs, tape = draw(side, proposal, total, calls[side])
        calls[side] += 1
        pool.take(outputs, tape, numbers)

    for side in (0, 1):
        sample(side, [0], [size // 2])
        numbers = pools[side].add(wild(pools[side].tapes[0]))
        if len(numbers):
            sample(side, numbers, [size // 2 // len(numbers)] * len(numbers))
    reached = [-np.inf, -np.inf]
    goal = max(float(epsilons[-1]), 0.0)
    rounds_left = [2, 2]  # at the goal, or without progress
    for _ in range(_MOST_LEVELS):
        _, losses, where, weights = _estimate(pools)
        for direction in (0, 1):
            if not rounds_left[direction]:
                continue
            scores = [(losses if direction == 0 else -losses)[cell] for cell in where]
            t = _rise(scores, weights, goal)
            if t is None or t <= reached[direction] + 1e-6 or t >= goal:
                rounds_left[direction] -= 1
            if t is None:
                continue
            if weights[direction][scores[direction] > t].sum() < _LEAST * weights[direction].size:
                rounds_left[direction] = 0  # δ beyond is smaller still: L̂ rises no more, and draws would lead nowhere
                continue
            reached[direction] = max(t, reached[direction])
            for side in (0, 1):
                elite = pools[side].elite(scores[side] > t, weights[side])
                if elite:
                    found = fit(elite)
                    numbers = pools[side].add([component for _, component in found])
                    counts = [max(1, int(share * size / 2)) for share, _ in found]
                    sample(side, numbers, counts)
        if not any(rounds_left):
            break
    return _finish(pools, epsilons, sample, size, chunk, aims, rest, main)


def _estimate(pools: tuple[Pool, Pool]) -> tuple[LineCells, Floats, tuple[Ints, Ints], tuple[Floats, Floats]]:
    """Cells from all outputs, L̂ on them, the cell of each draw, and its weight."""
    outputs = [np.concatenate(pool.outputs) for pool in pools]
    weights = tuple(pool.weights() for pool in pools)
    cells = LineCells.of(*(np.sort(side) for side in outputs))
    where = tuple(np.searchsorted(cells.starts, side, "right") - 1 for side in outputs)
    p, q = (weighted_sums(w, v, cells.size, v.size) for w, v in zip(where, weights, strict=True))
    return cells, fit_weighted(cells, *p, *q), where, weights  # type: ignore[return-value]


def _rise(scores: Sequence[Floats], weights: Sequence[Floats], goal: float) -> float | None:
    """The largest t up to the goal above which there is enough of both laws, or much of one and nothing of the other."""
    pooled = np.concatenate([s[np.isfinite(s)] for s in scores])
    if not pooled.size:
        return goal if any((s > goal).sum() > 0 for s in scores) else None
    candidates = np.unique(
        np.append(np.quantile(pooled[pooled < goal], np.linspace(0.3, 1.0, 60)) if (pooled < goal).any() else [], goal)
    )
    told = [(t, [_told(w[s > t]) for s, w in zip(scores, weights, strict=True)]) for t in candidates[::-1]]
    for enough in _SCARCE:
        for t, both in told:
            if min(both) >= enough or (max(both) >= enough and min(both) == 0.0):
                return float(t)
    return None


def _told(weights: Floats) -> float:
    most = weights.max(initial=0.0)
    if most <= 0.0:
        return 0.0
    shares = weights / most  # squares of tiny weights are no floats
    return float(shares.sum() ** 2 / (shares @ shares))


def _finish(
    pools: tuple[Pool, Pool],
    epsilons: Floats,
    sample: Callable[[int, Sequence[int], Sequence[int]], None],
    size: int,
    chunk: int,
    aims: Aims,
    rest: float,
    main: float,
) -> Learned:
    """The final proposals, with shares by the variances of all cells, and a last round drawn from them."""
    cells, losses, where, weights = _estimate(pools)
    deltas = _deltas(losses, where, weights, epsilons)
    wanted = aims(deltas)
    goals = np.full(deltas.shape, rest)
    for d, j in wanted:
        goals[d, j] = 1.0
    sides = []
    numbers: list[list[int]] = [[0], [0]]
    for side in (0, 1):
        for direction in (0, 1):
            score = (losses if direction == 0 else -losses)[where[side]]
            own = [float(epsilons[j]) for d, j in wanted if d == direction]
            told = epsilons[deltas[direction] > 0.0]
            for t, is_aim in _ladder(score, weights[side], told, own):
                elite = pools[side].elite(score > t, weights[side])
                if elite:
                    numbers[side] += pools[side].add([one for _, one in fit(elite, narrows=is_aim)])
        sides.append(_side(pools[side], numbers[side], losses[where[side]], weights[side], epsilons, side))
    shares = best_shares(sides, deltas, goals, _PLAIN_SHARE, main)
    for side in (0, 1):
        kept = np.flatnonzero((shares[side] > 0.0) | (np.arange(shares[side].size) == 0))
        numbers[side], shares[side] = [numbers[side][k] for k in kept], shares[side][kept]
        if kept.size > 1:
            last = size * (_LAST if chunk >= size else 1)
            sample(side, numbers[side], [max(1, int(s * last)) for s in shares[side]])
    cells, losses, where, weights = _estimate(pools)
    proposals, final, per_draw = [], [], []
    for side, pool in enumerate(pools):
        whole = _whole_shares(shares[side], chunk)
        proposals.append(join([pool.components[n] for n in numbers[side][1:]], whole, PLAIN))
        mixture = pool.log_mixture(whole, numbers[side])
        final.append(np.exp(-mixture))
        per_draw.append(_shares_of(weights[side] * np.exp(mixture)))
    return Learned(
        cells,
        losses,
        (proposals[0], proposals[1]),
        where,
        (final[0], final[1]),
        (per_draw[0], per_draw[1]),
        (_shares_of(weights[0]), _shares_of(weights[1])),
    )


def _shares_of(densities: Floats) -> Floats:
    """Shares of draws whose mean density is about 1, with a sum of at most 1."""
    return densities / max(float(densities.size), float(densities.sum()))


def _deltas(losses: Floats, where: tuple[Ints, Ints], weights: tuple[Floats, Floats], epsilons: Floats) -> Floats:
    """`delta_by_loss` of both directions at each ε, (2, epsilons); NaN where few draws tell it."""
    found = np.full((2, epsilons.size), np.nan)
    for direction in (0, 1):
        scores = [(losses if direction == 0 else -losses)[cell] for cell in where]
        score, own = scores[direction], weights[direction]
        inside = np.flatnonzero(score > epsilons[0])
        score, weight = score[inside], own[inside]
        for j, epsilon in enumerate(epsilons):
            above = score > epsilon
            other = weights[1 - direction][scores[1 - direction] > epsilon]
            if _told(weight[above]) >= _FEWEST and (not other.size or _told(other) >= _FEWEST):
                found[direction, j] = delta_by_loss(score[above], weight[above], epsilon) / own.size
    return found


def _ladder(score: Floats, weights: Floats, epsilons: Floats, aims: Sequence[float]) -> list[tuple[float, bool]]:
    """Thresholds for proposals, rarer and rarer: from where plain draws are few, a step apart, to the largest ε; and the aims."""
    found = [(e, True) for e in aims if _told(weights[score > e]) >= _FEWEST]
    if not epsilons.size:
        return found
    last = np.log(0.05) + _STEP
    for epsilon in np.unique(np.append(epsilons, np.linspace(epsilons[0], epsilons[-1], 41))):
        inside = score > epsilon
        mass = float(weights[inside].sum() / weights.size)
        if mass <= 0.0 or _told(weights[inside]) < _FEWEST:
            break
        if np.log(mass) <= last - _STEP and not any(abs(epsilon - e) < 1e-9 for e in aims):
            last = np.log(mass)
            found.append((float(epsilon), False))
    return found


def _side(pool: Pool, numbers: Sequence[int], scores: Floats, weights: Floats, epsilons: Floats, side: int) -> Side:
    """Draws of a law for `best_shares`: every so many, so that they are not too many."""
    step = max(1, scores.size // _MOST_SHARED)
    ratios = np.concatenate([part[:, list(numbers)] for part in pool.ratios])[::step]
    classes = np.stack([np.searchsorted(epsilons, sign * scores[::step], "left") for sign in (1.0, -1.0)])
    factors = np.ones((2, epsilons.size))
    factors[1 - side] = np.exp(epsilons)
    inside = classes.any(axis=0)
    density = weights[::step] / ratios.shape[0]
    return Side(np.exp(np.clip(ratios[inside], -_MOST_LOG, _MOST_LOG)), density[inside], classes[:, inside], factors)


def _whole_shares(shares: Sequence[float] | Floats, chunk: int) -> Floats:
    """Shares that are whole numbers of outputs of a chunk, the plain one's at least one."""
    counts = np.maximum(1, np.floor(np.asarray(shares) / sum(shares) * chunk)).astype(np.int64)
    counts[0] += chunk - counts.sum()
    if counts[0] < 1:
        counts[int(counts.argmax())] += counts[0] - 1
        counts[0] = 1
    return counts / chunk
