"""L̂ of one-dimensional outputs as a step function on the floats, exact, small, and fast to look up.

And counters of vector outputs that a projection brings to the line; its state lies beside that of the steps, under a prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import classes_of
from hpcdp.losses.line import _kernels as kernels
from hpcdp.losses.line.lookup import Lookup, Tables
from hpcdp.losses.protocol import Outputs

__all__ = ["Lookup", "StepCounter", "StepModel", "StepVotes", "holders", "pooled_atoms"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_APART = 1 << 20  # points from which on two threads sweep


def pooled_atoms(a: Floats, b: Floats, k: int) -> Floats:
    """Values that at least k of the pooled training samples hold, sorted; a and b are sorted."""
    half = (k + 1) // 2  # such a value is held by at least half of k points of one side, one of every `half` among them
    candidates = []
    for side in (a, b):
        near, step = side[::half], half // 2
        before, after = np.arange(near.size) * half - step, np.arange(near.size) * half + step
        held = (side[np.maximum(before, 0)] == near) | (side[np.minimum(after, side.size - 1)] == near)
        candidates.append(near[held])
    values = np.unique(np.concatenate(candidates))
    return values[holders(a, values) + holders(b, values) >= k]


def holders(side: Floats, values: Floats) -> Ints:
    """How many entries of a sorted side equal each value, shape of values, int64."""
    return np.searchsorted(side, values, "right") - np.searchsorted(side, values, "left")


def _without(side: Floats, values: Floats) -> Floats:
    if not values.size:
        return side
    position = np.minimum(np.searchsorted(values, side), values.size - 1)
    return side[values[position] != side]


def _sweep(a: Floats, b: Floats, k: int, n0: int, n1: int, thresholds: Floats | None) -> tuple[Floats, Ints, Ints]:
    """Runs of one class, or (no thresholds) of equal votes, of training samples without atoms."""
    if thresholds is None:
        nothing, table = np.empty(0), np.zeros((2, 0), np.int32)
        return kernels.sweep(a, b, k, n0, n1, nothing, int(b.size + 1), table)
    # classes of all votes of k and of k + 1 voters: what almost every event looks up
    table = np.zeros((2, k + 2), np.int32)
    for extra, row in enumerate(table):
        v0 = np.arange(k + extra + 1)
        row[: v0.size] = classes_of(log_ratios(v0, v0[::-1].copy(), n0, n1), thresholds)
    if a.size + b.size >= k:
        distinct, *runs = _sweep_distinct(a, b, k, table)
        if distinct:
            return tuple(runs)
    return kernels.sweep(a, b, k, n0, n1, thresholds, 0, table)


def _sweep_distinct(a: Floats, b: Floats, k: int, table: NDArray[np.int32]) -> tuple[Any, ...]:
    """`kernels.sweep_distinct`; of many points in two halves at once, each with the k of either side beyond it that may vote."""
    if a.size + b.size < _APART:
        return kernels.sweep_distinct(a, b, k, table)
    larger = max(a, b, key=len)
    middle = larger[larger.size // 2]
    i, j = np.searchsorted(a, middle), np.searchsorted(b, middle)
    halves = (a[: i + k], b[: j + k]), (a[max(0, i - k) :], b[max(0, j - k) :])
    with ThreadPoolExecutor(2) as pool:
        low, high = pool.map(lambda half: kernels.sweep_distinct(*half, k, table), halves)
    before, after = np.searchsorted(low[1], middle), np.searchsorted(high[1], middle)
    joined = (np.concatenate([part[:before], rest[after:]]) for part, rest in zip(low[1:], high[1:], strict=True))
    return low[0] and high[0], *joined


@dataclass(frozen=True, eq=False)
class StepVotes:
    """Votes of one column: run r holds on [starts[r], starts[r + 1]), starts[0] = -inf, with v0[r], v1[r] votes of the sides."""

    starts: Floats
    v0: Ints
    v1: Ints

    @classmethod
    def learn(
        cls, a: Floats, b: Floats, k: int, n0: int = 1, n1: int = 1, thresholds: Floats | None = None
    ) -> StepVotes:
        """Of closed k-balls with atoms of sorted a and b; with thresholds of L̂, of n0 and n1 draws, runs of one class are one."""
        atoms = pooled_atoms(a, b, k)
        starts, v0, v1 = _sweep(_without(a, atoms), _without(b, atoms), k, n0, n1, thresholds)
        if atoms.size:
            after = np.nextafter(atoms, np.inf)
            held = np.searchsorted(starts, after, "right") - 1
            starts = np.concatenate([starts, after, atoms])
            v0 = np.concatenate([v0, v0[held], holders(a, atoms)])
            v1 = np.concatenate([v1, v1[held], holders(b, atoms)])
            # of runs that start at one float the last one stands: an atom beats what follows an atom beats the rest
            order = np.argsort(starts, kind="stable")
            order = order[np.append(starts[order][1:] != starts[order][:-1], True)]
            starts, v0, v1 = starts[order], v0[order], v1[order]
        return cls(starts, v0, v1)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup.over(self.starts)

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size,) or (size, 1), int64, shape (size,) each."""
        runs = self._lookup.runs(np.ascontiguousarray(outputs, np.float64).reshape(-1))
        return self.v0[runs], self.v1[runs]


@dataclass(frozen=True)
class StepCounter:
    """Counts scalar outputs by class of L̂; all it needs is starts (runs,) and codes (runs,) int32."""

    lookup: Lookup
    codes: NDArray[np.int32]
    classes: int

    @classmethod
    def merged(cls, starts: Floats, codes: NDArray[np.integer], thresholds: Floats) -> StepCounter:
        """The counter of runs [starts[r], starts[r + 1]) of class codes[r], (runs,) both; neighbours of one class are one run."""
        first = np.append(True, codes[1:] != codes[:-1])
        return cls(Lookup.over(starts[first]), codes[first].astype(np.int32, copy=False), 2 * thresholds.size + 1)

    def count(self, outputs: NDArray[Any]) -> Ints:
        """Histogram over the 2T + 1 classes, int64, of outputs of shape (size,) or (size, 1)."""
        x = np.ascontiguousarray(outputs, np.float64).reshape(-1)
        if self._tables.pay(x.size):
            return self._tables.count(x)
        return np.bincount(self.classes_of(x), minlength=self.classes)

    def classes_of(self, outputs: NDArray[Any]) -> NDArray[np.int32]:
        """Class of each output, shape (size,)."""
        return self.codes[self.lookup.runs(np.ascontiguousarray(outputs, np.float64).reshape(-1))]

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self.lookup, self.codes, self.classes)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that `restore` needs."""
        return {"starts": self.lookup.starts, "codes": self.codes, "classes": np.array(self.classes)}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> StepCounter:
        """The counter that `state` came from."""
        return cls(Lookup.over(state["starts"]), state["codes"], int(state["classes"]))


@dataclass(frozen=True, eq=False)
class StepModel:
    """L̂ of scalar outputs as a step function of training samples a and b, sorted float64, of n0 and n1 draws."""

    a: Floats
    b: Floats
    k: int
    n0: int
    n1: int

    @cached_property
    def _source(self) -> StepVotes:
        return StepVotes.learn(self.a, self.b, self.k)

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size,) or (size, 1), shape (size,), natural log."""
        return log_ratios(*self._source.votes(outputs), self.n0, self.n1)

    def counter(self, thresholds: Floats) -> StepCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        votes = StepVotes.learn(self.a, self.b, self.k, self.n0, self.n1, thresholds)
        classes = classes_of(log_ratios(votes.v0, votes.v1, self.n0, self.n1), thresholds)
        return StepCounter.merged(votes.starts, classes, thresholds)


State = Mapping[str, NDArray[Any]]

PREFIX = "projection."
"""Of the projection's arrays in the state of a pilot or a counter."""


class Projection(Protocol):
    """Brings vector outputs to the line."""

    def coordinate(self, outputs: Outputs) -> Floats:
        """The place of each output, shape (size,), finite."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Small arrays that tell all of it."""
        ...


def projection_state(projection: Projection) -> dict[str, NDArray[Any]]:
    """The projection's arrays, their names behind the prefix."""
    return {PREFIX + name: array for name, array in projection.state().items()}


def restore_projection(state: State, restore: Callable[[State], Projection] | None) -> Projection | None:
    """The projection whose arrays `state` holds behind the prefix; None where it holds none, and nothing need restore it."""
    own = {name.removeprefix(PREFIX): array for name, array in state.items() if name.startswith(PREFIX)}
    return restore(own) if own and restore is not None else None


@dataclass(frozen=True, eq=False)
class ProjectedCounter:
    """Counts vector outputs by class of L̂, which is a step function of their projection."""

    projection: Projection
    steps: StepCounter

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        """Histogram over the 2T + 1 classes, int64, of outputs of shape (size, d)."""
        return self.steps.count(self.projection.coordinate(outputs))

    def classes_of(self, outputs: Outputs) -> NDArray[np.int32]:
        """Class of each output, shape (size,)."""
        return self.steps.classes_of(self.projection.coordinate(outputs))

    def score(self, outputs: Outputs) -> Floats:
        """The place of each output on the line, which decides its class."""
        return self.projection.coordinate(outputs)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that `restore_steps` needs."""
        return {**self.steps.state(), **projection_state(self.projection)}


def restore_steps(state: State, restore: Callable[[State], Projection] | None) -> StepCounter | ProjectedCounter:
    """The counter whose `state` this is: a projected one where it holds a projection."""
    steps, projection = StepCounter.restore(state), restore_projection(state, restore)
    return steps if projection is None else ProjectedCounter(projection, steps)
