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
from hpcdp.losses.tape.curve import fit_weighted, weighted_sums
from hpcdp.losses.tape.fit import Component, Elite, fit, log_ratios, wild
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
_MOST_ELITE = 8_000
_STEP = 2.0  # between the logs of probabilities of two rungs of the final proposals
_PLAIN_SHARE, _AIMED = 0.125, 0.7  # of the draws that are plain, and of the others those for what matters most


@dataclass
class Pool:
    """Weighted draws of one law: components, how many draws came from each, and of all draws their log-ratios to the plain law."""

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

    cells_of, weights: of all draws of both laws. shares: of each draw, so that the mean of φ(w) of fresh draws is about their sum of
    shares·φ(w). plain: the shares of draws whose weight is 1. levels: how far each direction came.
    """

    cells: LineCells
    losses: Floats
    proposals: tuple[Proposal, Proposal]
    cells_of: tuple[Ints, Ints]
    weights: tuple[Floats, Floats]
    shares: tuple[Floats, Floats]
    plain: tuple[Floats, Floats]
    levels: tuple[float, float]

    def plainly(self) -> Learned:
        """The same with plain draws for the test."""
        ones = tuple(np.ones(side.size) for side in self.weights)
        return replace(self, proposals=(Proposal.plain(), Proposal.plain()), weights=ones, shares=self.plain)  # type: ignore[arg-type]


def learn(draw: Draw, epsilons: Floats, size: int, chunk: int, aims: Aims) -> Learned:
    """Learn from draws of both laws.

    size: draws of each law and level. chunk: outputs to a chunk of the test, of which shares are whole numbers. aims: told what is
    known, for which cells most of the draws are meant.
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
        cells, losses, where, weights = _estimate(pools)
        for direction in (0, 1):
            if not rounds_left[direction]:
                continue
            scores = [(losses if direction == 0 else -losses)[cell] for cell in where]
            t = _rise(scores, weights, goal)
            if t is None or t <= reached[direction] + 1e-6 or t >= goal:
                rounds_left[direction] -= 1
            if t is None:
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
    return _finish(pools, epsilons, sample, size, chunk, aims, reached)


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
    best = None
    pooled = np.concatenate([s[np.isfinite(s)] for s in scores])
    if not pooled.size:
        return goal if any((s > goal).sum() > 0 for s in scores) else None
    candidates = np.unique(
        np.append(np.quantile(pooled[pooled < goal], np.linspace(0.3, 1.0, 60)) if (pooled < goal).any() else [], goal)
    )
    for t in candidates[::-1]:
        told = [_told(w[s > t]) for s, w in zip(scores, weights, strict=True)]
        if min(told) >= _ENOUGH or (max(told) >= _ENOUGH and min(told) == 0.0):
            best = float(t)
            break
    return best


def _told(weights: Floats) -> float:
    return float(weights.sum() ** 2 / (weights @ weights)) if weights.size else 0.0


def _finish(
    pools: tuple[Pool, Pool],
    epsilons: Floats,
    sample: Callable[[int, Sequence[int], Sequence[int]], None],
    size: int,
    chunk: int,
    aims: Aims,
    reached: list[float],
) -> Learned:
    """The final proposals, a rung for every step down in probability, and a last round drawn from them."""
    cells, losses, where, weights = _estimate(pools)
    wanted = aims(_deltas(losses, where, weights, epsilons))
    numbers: list[list[int]] = [[0], [0]]
    shares: list[list[float]] = [[_PLAIN_SHARE], [_PLAIN_SHARE]]
    for side in (0, 1):
        rungs: list[tuple[bool, list[tuple[float, Component]]]] = []
        for direction in (0, 1):
            score = (losses if direction == 0 else -losses)[where[side]]
            for t, is_aim in _ladder(
                score, weights[side], epsilons, [float(epsilons[j]) for d, j in wanted if d == direction]
            ):
                elite = pools[side].elite(score > t, weights[side])
                if elite:
                    rungs.append((is_aim, fit(elite, narrows=is_aim)))
        parts = [_AIMED if is_aim else 1.0 - _AIMED for is_aim, _ in rungs]
        counts = {is_aim: sum(is_aim == other for other, _ in rungs) for is_aim, _ in rungs}
        parts = [part / counts[is_aim] for part, (is_aim, _) in zip(parts, rungs, strict=True)]
        for part, (_, found) in zip(parts, rungs, strict=True):
            numbers[side] += pools[side].add([component for _, component in found])
            shares[side] += [(1.0 - _PLAIN_SHARE) * part / sum(parts) * share for share, _ in found]
        if not rungs:
            shares[side] = [1.0]
        if len(numbers[side]) > 1:
            sample(side, numbers[side], [max(1, int(s * size)) for s in shares[side]])
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
        (reached[0], reached[1]),
    )


def _shares_of(densities: Floats) -> Floats:
    """Shares of draws whose mean density is about 1, with a sum of at most 1."""
    return densities / max(float(densities.size), float(densities.sum()))


def _deltas(losses: Floats, where: tuple[Ints, Ints], weights: tuple[Floats, Floats], epsilons: Floats) -> Floats:
    """δ̂ of both directions at each ε, (2, epsilons); NaN where less than three standard errors tell it."""
    found = np.full((2, epsilons.size), np.nan)
    for direction in (0, 1):
        scores = [(losses if direction == 0 else -losses)[cell] for cell in where]
        first, other = (direction, 1 - direction)
        for j, epsilon in enumerate(epsilons):
            c = np.exp(epsilon)
            parts = [(weights[s][scores[s] > epsilon], weights[s].size, f) for s, f in ((first, 1.0), (other, c))]
            delta = parts[0][0].sum() / parts[0][1] - c * parts[1][0].sum() / parts[1][1]
            error = np.sqrt(sum(f * f * (w @ w) / n**2 for w, n, f in parts))
            if delta > 3.0 * error:
                found[direction, j] = delta
    return found


def _ladder(score: Floats, weights: Floats, epsilons: Floats, aims: Sequence[float]) -> list[tuple[float, bool]]:
    """Thresholds for proposals, rarer and rarer: from where plain draws are few, a step apart, to the largest ε; and the aims."""
    found = [(e, True) for e in aims if _told(weights[score > e]) >= 50.0]
    last = np.log(0.05) + _STEP
    for epsilon in np.unique(np.append(epsilons, np.linspace(epsilons[0], epsilons[-1], 41))):
        inside = score > epsilon
        mass = float(weights[inside].sum() / weights.size)
        if mass <= 0.0 or _told(weights[inside]) < 50.0:
            break
        if np.log(mass) <= last - _STEP and not any(abs(epsilon - e) < 1e-9 for e in aims):
            last = np.log(mass)
            found.append((float(epsilon), False))
    return found


def _whole_shares(shares: Sequence[float], chunk: int) -> Floats:
    """Shares that are whole numbers of outputs of a chunk, the plain one's at least one."""
    counts = np.maximum(1, np.floor(np.asarray(shares) / sum(shares) * chunk)).astype(np.int64)
    counts[0] += chunk - counts.sum()
    if counts[0] < 1:
        counts[int(counts.argmax())] += counts[0] - 1
        counts[0] = 1
    return counts / chunk
