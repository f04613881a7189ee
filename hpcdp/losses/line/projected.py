"""Counters of vector outputs that a projection brings to the line; its state lies beside that of the steps, under a prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.line.step import StepCounter
from hpcdp.losses.protocol import Outputs

Floats = NDArray[np.float64]
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


def projection_state(projection: Projection, prefix: str = PREFIX) -> dict[str, NDArray[Any]]:
    """The projection's arrays, their names behind a prefix."""
    return {prefix + name: array for name, array in projection.state().items()}


def restore_projection(
    state: State, prefix: str = PREFIX, restore: Callable[[State], Projection] | None = None
) -> Projection | None:
    """The projection whose arrays `state` holds behind the prefix; None where it holds none, and nothing need restore it."""
    own = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
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
    steps, projection = StepCounter.restore(state), restore_projection(state, PREFIX, restore)
    return steps if projection is None else ProjectedCounter(projection, steps)
