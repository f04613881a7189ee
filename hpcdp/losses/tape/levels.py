"""Learning by levels: proposals lead ever further towards {L̂ > t}, and weighted draws of all levels teach L̂ there.

The cross-entropy method for rare events (Rubinstein and Kroese 2004), for both laws and both directions at once: draws of all
levels are weighed by the mixture of all proposals that were drawn from; t rises until the largest ε, or until it no longer does.
Heuristic: what is learned only decides how narrow the bounds become.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.line.cells import LineCells
from hpcdp.losses.tape.chains import Near, can_chain, is_chain
from hpcdp.losses.tape.curve import delta_by_loss, fit_weighted, weighted_sums
from hpcdp.losses.tape.elite import Component, Elite, log_ratios
from hpcdp.losses.tape.fit import fit, wild
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

Asks = Callable[["Learned"], float]
"""Draws of each law that aims ask for after this, as a share of what may be drawn; inf where one is not told."""

_MOST_LEVELS = 40
_ENOUGH = 400.0  # outputs' worth above a threshold, of either law, from which a proposal is learned
_SCARCE = (_ENOUGH, 40.0, 8.0)  # the same, tried in turn where there is nothing to climb on
_FEWEST = 50.0  # outputs' worth in a set that tell anything of it
_MOST_ELITE = 4_000
_BLOCK = 1 << 16  # draws whose ratios are formed at once
_MOST_NEAR = 200_000  # draws that tell where a set ends
_LEAST = 1e-20  # probability of a set from which on none rarer is looked for
_RUNG = 1.0  # the same, at most, of two chains
_STEP = 2.0  # between the logs of probabilities of two rungs of the final proposals
_PLAIN_SHARE = 0.125  # of the draws that are plain
_LAST = 4  # times the draws of a level in the last round, where a call draws many
_MOST_LOG = 300.0  # of a ratio, whose square is a number still
_MOST_EDGES = 24  # chained components of a direction
_MOST_SHARED, _MOST_CHAINED = 40_000, 6_000  # draws that shares are chosen by; the same with chains, which are many


@dataclass
class Pool:
    """Weighted draws of one law: components, how many draws each gave, and the log-ratios to the plain law of draws of levels.

    Of the last draws, which are many, ratios are formed anew where they are asked for.
    """

    components: list[Component] = field(default_factory=lambda: [{}])
    counts: list[int] = field(default_factory=lambda: [0])
    outputs: list[Floats] = field(default_factory=list)
    tapes: list[Tape] = field(default_factory=list)
    ratios: list[Floats | None] = field(default_factory=list)

    def add(self, components: Sequence[Component]) -> range:
        """New components; their numbers."""
        if components:
            for at, tape in enumerate(self.tapes):
                known = self.ratios[at]
                if known is not None:
                    self.ratios[at] = np.hstack([known, log_ratios(tape, np.arange(tape.size), components)])
            self.components += components
            self.counts += [0] * len(components)
        return range(len(self.components) - len(components), len(self.components))

    def take(self, outputs: Floats, tape: Tape, numbers: Sequence[int], keeps: bool) -> None:
        """Draws of these components, in the proposal's order; keeps: their ratios."""
        for number, size in zip(numbers, np.diff(tape.starts).tolist(), strict=True):
            self.counts[number] += size
        self.outputs.append(outputs)
        self.tapes.append(tape)
        self.ratios.append(self._ratios(tape, np.arange(tape.size), self.components) if keeps else None)

    @staticmethod
    def _ratios(tape: Tape, which: Ints, components: Sequence[Component]) -> Floats:
        """Of the plain component, the first, and of others, (selected, components)."""
        return np.pad(log_ratios(tape, which, components[1:]), ((0, 0), (1, 0)))

    @property
    def size(self) -> int:
        """How many draws there are."""
        return sum(self.counts)

    def weights(self) -> Floats:
        """Of all draws, by the mixture of all that was drawn from."""
        used = np.flatnonzero(self.counts)
        logs = np.log(np.asarray(self.counts, np.float64)[used] / self.size)
        own = [self.components[n] for n in used]
        parts = [
            np.logaddexp.reduce(known[:, used] + logs, axis=1) if known is not None else self._mixed(tape, logs, own)
            for known, tape in zip(self.ratios, self.tapes, strict=True)
        ]
        return np.exp(-np.concatenate(parts))

    def log_mixture(self, shares: Floats, components: Sequence[Component]) -> Floats:
        """log of a mixture's density over the plain one's, of all draws; components: the plain one first."""
        return np.concatenate([self._mixed(tape, np.log(shares), components) for tape in self.tapes])

    def _mixed(self, tape: Tape, logs: Floats, components: Sequence[Component]) -> Floats:
        blocks = [np.arange(start, min(tape.size, start + _BLOCK)) for start in range(0, tape.size, _BLOCK)]
        parts = [np.logaddexp.reduce(self._ratios(tape, block, components) + logs, axis=1) for block in blocks]
        return np.concatenate(parts)

    def elite(self, chosen: NDArray[np.bool_], weights: Floats, most: int = _MOST_ELITE) -> list[Elite]:
        """The chosen draws by tape, every so many of too many."""
        found, start = [], 0
        step = max(1, int(chosen.sum()) // most)
        for tape, outputs in zip(self.tapes, self.outputs, strict=True):
            which = np.flatnonzero(chosen[start : start + tape.size])[::step]
            if which.size:
                found.append(Elite(tape, which, weights[start + which], outputs[which]))
            start += tape.size
        return found

    def of(self, elites: Sequence[Elite], values: NDArray[Any]) -> NDArray[Any]:
        """What the draws of the elites have of values of all draws."""
        starts = dict(zip(map(id, self.tapes), np.cumsum([0, *(tape.size for tape in self.tapes)]), strict=False))
        return np.concatenate([values[starts[id(elite.tape)] + elite.which] for elite in elites])


@dataclass(frozen=True, eq=False)
class Learned:
    """What the levels taught: cells with L̂, a proposal of each law; and the draws that taught it, with their weights by it.

    cells_of, weights: of all draws of both laws. shares: of each draw, so that the mean of φ(w) of fresh draws is about
    their sum of shares·φ(w). plain: the shares of draws whose weight is 1. within: of each law by direction and ε the variance of
    w·1_S of a draw within its stratum, as a share of that of all draws, (2, epsilons).
    """

    cells: LineCells
    losses: Floats
    proposals: tuple[Proposal, Proposal]
    cells_of: tuple[Ints, Ints]
    weights: tuple[Floats, Floats]
    shares: tuple[Floats, Floats]
    plain: tuple[Floats, Floats]
    within: tuple[Floats, Floats]

    def plainly(self) -> Learned:
        """The same with plain draws for the test."""
        ones, whole = (tuple(np.ones(side.shape) for side in sides) for sides in (self.weights, self.within))
        plain = (Proposal.plain(), Proposal.plain())
        return replace(self, proposals=plain, weights=ones, shares=self.plain, within=whole)  # type: ignore[arg-type]


def learn(
    draw: Draw,
    epsilons: Floats,
    size: int,
    chunk: int,
    aims: Aims,
    rest: float = 1.5,
    main: float = 0.0,
    last: int = 0,
    asks: Asks = lambda _: 0.0,
) -> Learned:
    """Learn from draws of both laws; with chains too where without them more is asked for than may be drawn.

    size: draws of each law and level. chunk: outputs to a chunk of the test, of which shares are whole numbers. aims: told
    what is known, for which cells the draws are meant. rest: times their relative variance that other cells may have. main:
    what they weigh at least when draws are shared out. last: draws of each law of the last round at least where chains are
    tried, which decide sets.
    """
    pools, calls = (Pool(), Pool()), [0, 0]

    def sample(side: int, numbers: Sequence[int], counts: Sequence[int], keeps: bool = True) -> None:
        pool, total = pools[side], sum(counts)
        numbers = [0, *numbers] if numbers[0] else list(numbers)
        counts = [0, *counts] if len(counts) < len(numbers) else list(counts)
        proposal = join([pool.components[n] for n in numbers[1:]], np.asarray(counts) / total, PLAIN)
        outputs, tape = draw(side, proposal, total, calls[side])
        calls[side] += 1
        pool.take(outputs, tape, numbers, keeps)

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
            above = [Above(*side) for side in zip(scores, weights, strict=True)]
            t = _rise(scores, above, goal)
            if t is None or t <= reached[direction] + 1e-6 or t >= goal:
                rounds_left[direction] -= 1
            if t is None:
                continue
            if above[direction].mass(t) < _LEAST * weights[direction].size:
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

    def finish(chains: bool) -> Learned:
        least = size * (_LAST if chunk >= size else 1)
        sizes = [size] * -(-max(last, least) // size) if chains else [least]
        return _finish(pools, epsilons, sample, sizes, chunk, aims, rest, main, chains)

    without = finish(False)
    if not any(can_chain(pool.tapes[0]) for pool in pools) or (asked := asks(without)) <= 1.0:
        return without
    chained = finish(True)
    return chained if asks(chained) < asked else without


def _estimate(pools: tuple[Pool, Pool]) -> tuple[LineCells, Floats, tuple[Ints, Ints], tuple[Floats, Floats]]:
    """Cells from all outputs, L̂ on them, the cell of each draw, and its weight."""
    outputs = [np.concatenate(pool.outputs) for pool in pools]
    weights = tuple(pool.weights() for pool in pools)
    cells = LineCells.of(*(np.sort(side) for side in outputs))
    where = tuple(np.searchsorted(cells.starts, side, "right") - 1 for side in outputs)
    p, q = (weighted_sums(w, v, cells.size, v.size) for w, v in zip(where, weights, strict=True))
    return cells, fit_weighted(cells, *p, *q), where, weights  # type: ignore[return-value]


class Above:
    """Draws by score: what lies above thresholds."""

    def __init__(self, scores: Floats, weights: Floats) -> None:
        order = np.argsort(-scores, kind="stable")
        self._scores, own = -scores[order], weights[order]
        self._mass, self._squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (own, own * own))

    def held(self, t: float) -> int:
        """How many draws."""
        return int(np.searchsorted(self._scores, -t, "left"))

    def mass(self, t: float) -> float:
        """Their weight."""
        return float(self._mass[self.held(t)])

    def level(self, mass: float) -> float:
        """A score above which there is about so much weight, not more."""
        at = int(np.searchsorted(self._mass, mass, "right")) - 1
        return float(-self._scores[min(at, self._scores.size - 1)])

    def told(self, t: float) -> float:
        """What they are worth in draws of equal weights."""
        held = self.held(t)
        return float(self._mass[held] ** 2 / self._squares[held]) if self._squares[held] > 0.0 else 0.0


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
    epsilons: Floats,
    sample: Callable[[int, Sequence[int], Sequence[int], bool], None],
    sizes: Sequence[int],
    chunk: int,
    aims: Aims,
    rest: float,
    main: float,
    chains: bool,
) -> Learned:
    """The final proposals, with shares by the variances of all cells, and a last round drawn from them, in calls of these sizes.

    chains: whether they are among the candidates.
    """
    cells, losses, where, weights = _estimate(pools)
    mixtures, shares = _mixtures(pools, epsilons, losses, where, weights, aims, rest, main, chains, chains)
    for side in (0, 1):
        numbers = [0, *pools[side].add(mixtures[side])]
        for size in sizes if len(numbers) > 1 else ():
            sample(side, numbers, [max(1, int(s * size)) for s in shares[side]], not chains)
    cells, losses, where, weights = _estimate(pools)
    if chains:  # they end where sets do, which the last draws have moved
        mixtures, shares = _mixtures(pools, epsilons, losses, where, weights, aims, rest, main, chains)
    proposals, final, per_draw, within = [], [], [], []
    for side, pool in enumerate(pools):
        whole = _whole_shares(shares[side], chunk)
        proposals.append(join(mixtures[side], whole, PLAIN))
        mixture = pool.log_mixture(whole, [{}, *mixtures[side]])
        final.append(np.exp(-mixture))
        per_draw.append(_shares_of(weights[side] * np.exp(mixture)))
        told = _side(pool, mixtures[side], losses[where[side]], weights[side], epsilons, side, _MOST_CHAINED)
        within.append(told.within(whole))
    return Learned(
        cells,
        losses,
        (proposals[0], proposals[1]),
        where,
        (final[0], final[1]),
        (per_draw[0], per_draw[1]),
        (_shares_of(weights[0]), _shares_of(weights[1])),
        (within[0], within[1]),
    )


def _mixtures(
    pools: tuple[Pool, Pool],
    epsilons: Floats,
    losses: Floats,
    where: tuple[Ints, Ints],
    weights: tuple[Floats, Floats],
    aims: Aims,
    rest: float,
    main: float,
    chains: bool,
    spreads: bool = False,
) -> tuple[list[list[Component]], list[Floats]]:
    """The components of a mixture for each law but the plain one, and shares, the plain one's first.

    chains: whether they are among the candidates. spreads: half is spread evenly over them, as what the present L̂ takes for the
    edge of a set may be none.
    """
    deltas = _deltas(losses, where, weights, epsilons)
    wanted = aims(deltas)
    goals = np.full(deltas.shape, rest)
    for d, j in wanted:
        goals[d, j] = 1.0
    sides, candidates = [], list[list[Component]]()
    for side in (0, 1):
        found = list[Component]()
        for direction in (0, 1):
            score = (losses if direction == 0 else -losses)[where[side]]
            own = [float(epsilons[j]) for d, j in wanted if d == direction]
            told = epsilons[deltas[direction] > 0.0]
            above = Above(score, weights[side])
            modes = 1
            for t, is_aim in _ladder(above, score.size, told, own):
                tilted = fit(pools[side].elite(score > t, weights[side]), narrows=is_aim)
                modes = max(modes, len(tilted) - is_aim)
                found += [one for _, one in tilted]
            if chains:
                found += _chains(pools[side], score, weights[side], above, told, modes > 1)
        candidates.append(found)
        most = _MOST_CHAINED if chains else _MOST_SHARED
        sides.append(_side(pools[side], found, losses[where[side]], weights[side], epsilons, side, most))
    shares = best_shares(sides, deltas, goals, _PLAIN_SHARE, main)
    mixtures = list[list[Component]]()
    for side in (0, 1):
        if spreads and (some := np.array([False, *map(is_chain, candidates[side])])).any():
            shares[side] = 0.5 * shares[side] + 0.5 * some / some.sum()
        kept = np.flatnonzero((shares[side] > 0.0) | (np.arange(shares[side].size) == 0))
        mixtures.append([candidates[side][k - 1] for k in kept[1:]])
        shares[side] = shares[side][kept]
    return mixtures, shares


def _shares_of(densities: Floats) -> Floats:
    """Shares of draws whose mean density is about 1, with a sum of at most 1."""
    return densities / max(float(densities.size), float(densities.sum()))


def _deltas(losses: Floats, where: tuple[Ints, Ints], weights: tuple[Floats, Floats], epsilons: Floats) -> Floats:
    """`delta_by_loss` of both directions at each ε, (2, epsilons); NaN where few draws tell it."""
    found = np.full((2, epsilons.size), np.nan)
    for direction in (0, 1):
        scores = [(losses if direction == 0 else -losses)[cell] for cell in where]
        score, own = scores[direction], weights[direction]
        mine, other = Above(score, own), Above(scores[1 - direction], weights[1 - direction])
        inside = np.flatnonzero(score > epsilons[0])
        score, weight = score[inside], own[inside]
        for j, epsilon in enumerate(epsilons):
            if mine.told(epsilon) >= _FEWEST and (not other.held(epsilon) or other.told(epsilon) >= _FEWEST):
                above = score > epsilon
                found[direction, j] = delta_by_loss(score[above], weight[above], epsilon) / own.size
    return found


def _ladder(above: Above, draws: int, epsilons: Floats, aims: Sequence[float]) -> list[tuple[float, bool]]:
    """Thresholds for proposals, rarer and rarer: from where plain draws are few, a step apart, to the largest ε; and the aims."""
    found = [(e, True) for e in aims if above.told(e) >= _FEWEST]
    if not epsilons.size:
        return found
    last = np.log(0.05) + _STEP
    for epsilon in np.unique(np.append(epsilons, np.linspace(epsilons[0], epsilons[-1], 41))):
        mass = above.mass(epsilon) / draws
        if mass <= 0.0 or above.told(epsilon) < _FEWEST:
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
    for low, high in pairwise([*levels]):  # sets that fall by more than a rung are cut, so that draws are everywhere
        mass = above.mass(low)
        steps = int(np.log(mass / above.mass(high)) / _RUNG) if above.mass(high) > 0.0 else 0
        levels += [t for k in range(1, steps + 1) if low < (t := above.level(mass * np.exp(-k * _RUNG))) < high]
    edges, held = list[float](), -1
    for t in sorted(levels):
        if above.held(t) != held and above.told(t) >= _FEWEST:
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


def _side(
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


def _whole_shares(shares: Sequence[float] | Floats, chunk: int) -> Floats:
    """Shares that are whole numbers of outputs of a chunk, the plain one's at least one."""
    counts = np.maximum(1, np.floor(np.asarray(shares) / sum(shares) * chunk)).astype(np.int64)
    counts[0] += chunk - counts.sum()
    if counts[0] < 1:
        counts[int(counts.argmax())] += counts[0] - 1
        counts[0] = 1
    return counts / chunk
