"""Weighted draws of one distribution from all proposals so far, what was found on their tapes, and L̂ from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance._kernels import mix_log_weights
from hpcdp.importance.curve import fit_weighted, weighted_sums
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import Component, Floats, Ints, is_chain, join, log_ratios
from hpcdp.losses.line.cells import LineCells

FEWEST = 50.0
"""Outputs' worth in a set that tell anything of it."""

_MOST_ELITE = 4_000
_BLOCK = 1 << 16  # draws whose ratios are formed at once


@dataclass(frozen=True, eq=False)
class Elite:
    """Outputs of one tape in a set that is looked for, (selected,), their weights, and their places on the line."""

    tape: Tape
    which: Ints
    weights: Floats
    outputs: Floats


@dataclass(frozen=True, eq=False)
class Place:
    """What was found at one place: values (size,), of uniforms in ascending order, and the number of each one's output."""

    kind: str
    place: int
    values: Floats
    output: Ints


def ratios_of(tape: Tape, which: Ints, components: Sequence[Component]) -> Floats:
    """log g_c − log f of these outputs under the plain component and each of these, (selected, 1 + components)."""
    return log_ratios(tape.entries(), join(components, np.ones(len(components) + 1)), which)[0]


def find_places(elites: Sequence[Elite]) -> list[Place]:
    """All that was found, place by place, over all tapes."""
    parts: dict[tuple[str, int], list[tuple[Floats, Ints]]] = {}
    start = 0
    for elite in elites:
        number = start + np.arange(elite.which.size)
        start += elite.which.size
        for entry in elite.tape.entries():
            used = entry.used[elite.which]
            for j in range(entry.places):
                pair = entry.values[elite.which[used > j], j], number[used > j]
                parts.setdefault((entry.kind, j), []).append(pair)
    places = []
    for (kind, place), pairs in parts.items():
        values, outputs = (np.concatenate(part) for part in zip(*pairs, strict=True))
        if kind == "uniform":  # sorted once, for all the fits
            order = np.argsort(values, kind="stable")
            values, outputs = values[order], outputs[order]
        places.append(Place(kind, place, values, outputs))
    return places


class _Tiles:
    """Of each draw the chain of the last mixture that most leads there, with g/f; −1 where none does, or where chains cross."""

    def __init__(self, count: int) -> None:
        self._overlaps = np.zeros(count, np.bool_)
        self._found = list[tuple[Ints, Floats]]()

    def add(self, logs: Floats) -> None:
        """Draws with log g/f of the chains, (size, count)."""
        if not self._overlaps.size:
            self._found.append((np.full(logs.shape[0], -1), np.zeros(logs.shape[0])))
            return
        inside, chain, rows = logs > -np.inf, logs.argmax(axis=1), np.arange(logs.shape[0])
        reached, own = inside[rows, chain], np.exp(np.minimum(logs[rows, chain], 700.0))
        inside[rows, chain] = False
        self._overlaps |= inside.any(axis=0)
        self._found.append((np.where(reached, chain, -1), np.where(reached, own, 0.0)))

    def known(self) -> tuple[Ints, Floats]:
        """Of all draws, in turn."""
        tiles, ratios = (np.concatenate(part) for part in zip(*self._found, strict=True))
        return np.where((tiles >= 0) & ~np.append(self._overlaps, True)[tiles], tiles, -1), ratios


@dataclass
class Pool:
    """Weighted draws of one law: components, draws of each, of each draw log Σ nₖ·gₖ/f over these; tiles: see `_Tiles.known`."""

    components: list[Component] = field(default_factory=lambda: [{}])
    counts: list[int] = field(default_factory=lambda: [0])
    outputs: list[Floats] = field(default_factory=list)
    tapes: list[Tape] = field(default_factory=list)
    mixed: list[Floats] = field(default_factory=list)
    tiles: tuple[Ints, Floats] = (np.zeros(0, np.int64), np.zeros(0))

    def add(self, components: Sequence[Component]) -> range:
        """New components; their numbers."""
        self.components += components
        self.counts += [0] * len(components)
        return range(len(self.components) - len(components), len(self.components))

    def take(self, draws: Sequence[tuple[Floats, Tape]], numbers: Sequence[int]) -> None:
        """Outputs and tapes, each drawn from these components, in the proposal's order."""
        sizes = np.sum([np.diff(tape.starts) for _, tape in draws], axis=0)
        for number, size in zip(numbers, sizes.tolist(), strict=True):
            self.counts[number] += size
        own = [self.components[number] for number in numbers]
        is_tile = [is_chain(component) for component in own]
        tiles = _Tiles(sum(is_tile))
        self.mixed = [
            np.logaddexp(known, log_mixed(old, sizes, own, tiles, is_tile))
            for known, old in zip(self.mixed, self.tapes, strict=True)
        ]
        used = np.flatnonzero(self.counts)
        used = used if self.counts[0] else np.append(0, used)
        every, now = [self.components[n] for n in used], np.isin(used, np.asarray(numbers)[is_tile])
        for outputs, tape in draws:
            self.outputs.append(outputs)
            self.tapes.append(tape)
            self.mixed.append(log_mixed(tape, np.asarray(self.counts)[used], every, tiles, now))
        self.tiles = tiles.known()

    @property
    def size(self) -> int:
        """How many draws there are."""
        return sum(self.counts)

    def weights(self) -> Floats:
        """Of all draws, by the mixture of all that was drawn from."""
        return np.asarray(self.size * np.exp(-np.concatenate(self.mixed)))

    def elite(self, chosen: NDArray[np.bool_], weights: Floats, most: int = _MOST_ELITE) -> list[Elite]:
        """The chosen draws by tape, every so many of too many."""
        elites, start = [], 0
        step = max(1, int(chosen.sum()) // most)
        for tape, outputs in zip(self.tapes, self.outputs, strict=True):
            which = np.flatnonzero(chosen[start : start + tape.size])[::step]
            if which.size:
                elites.append(Elite(tape, which, weights[start + which], outputs[which]))
            start += tape.size
        return elites

    def of(self, elites: Sequence[Elite], values: NDArray[Any]) -> NDArray[Any]:
        """What the draws of the elites have of values of all draws."""
        starts = dict(zip(map(id, self.tapes), np.cumsum([0, *(tape.size for tape in self.tapes)]), strict=False))
        return np.concatenate([values[starts[id(elite.tape)] + elite.which] for elite in elites])


def log_mixed(
    tape: Tape,
    shares: NDArray[Any],
    components: Sequence[Component],
    tiles: _Tiles | None = None,
    is_tile: Sequence[bool] | NDArray[np.bool_] = (),
) -> Floats:
    """log Σ shares·g/f of a tape's draws, the plain component {} first; tiles takes those of the chains that is_tile marks."""
    log_weights = np.empty(tape.size)
    used = [k for k in range(1, len(components)) if shares[k] > 0]
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray([shares[0], *(shares[k] for k in used)], np.float64))
    for start in range(0, tape.size, _BLOCK):
        block = np.arange(start, min(tape.size, start + _BLOCK))
        ratios = ratios_of(tape, block, [components[k] for k in used])
        mix_log_weights(ratios, logs, log_weights[start : start + block.size])
        if tiles is not None:
            tiles.add(ratios[:, [at + 1 for at, k in enumerate(used) if is_tile[k]]])
    return -log_weights


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


@dataclass(frozen=True, eq=False)
class Known:
    """What all draws of both distributions tell: cells, L̂ on them, and of each draw its cell and its weight."""

    cells: LineCells
    losses: Floats
    where: tuple[Ints, Ints]
    weights: tuple[Floats, Floats]

    @classmethod
    def of(cls, pools: tuple[Pool, Pool]) -> Known:
        """From all outputs."""
        outputs = [np.concatenate(pool.outputs) for pool in pools]
        weights = pools[0].weights(), pools[1].weights()
        cells = LineCells.of(*(np.sort(side) for side in outputs))
        p_cells, q_cells = (np.searchsorted(cells.starts, side, "right") - 1 for side in outputs)
        p, q = (
            weighted_sums(cell, own, *pool.tiles, cells.size)
            for cell, own, pool in zip((p_cells, q_cells), weights, pools, strict=True)
        )
        return cls(cells, fit_weighted(cells, *p, *q), (p_cells, q_cells), weights)

    @cached_property
    def scores(self) -> list[list[Floats]]:
        """Of each direction L̂, or −L̂, of the draws of both distributions."""
        return [[(sign * self.losses)[cell] for cell in self.where] for sign in (1.0, -1.0)]

    @cached_property
    def above(self) -> list[list[Above]]:
        """Of each direction both distributions' draws by score."""
        return [[Above(*side) for side in zip(own, self.weights, strict=True)] for own in self.scores]
