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


class Projection(Protocol):
    """Brings vector outputs to the line."""

    def coordinate(self, outputs: Outputs) -> Floats:
        """The place of each output, shape (size,), finite."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Small arrays that tell all of it."""
        ...


def projection_state(projection: Projection, prefix: str) -> dict[str, NDArray[Any]]:
    """The projection's arrays, their names behind a prefix."""
    return {prefix + name: array for name, array in projection.state().items()}


def restore_projection(state: State, prefix: str, restore: Callable[[State], Projection]) -> Projection | None:
    """The projection whose arrays `state` holds behind the prefix; None where it holds none."""
    own = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
    return restore(own) if own else None


@dataclass(frozen=True, eq=False)
class ProjectedCounter:
    """Counts vector outputs by class of L̂, which is a step function of their projection. prefix: of its arrays' names."""

    projection: Projection
    steps: StepCounter
    prefix: str

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
        return {**self.steps.state(), **projection_state(self.projection, self.prefix)}


def restore_steps(state: State, prefix: str, restore: Callable[[State], Projection]) -> StepCounter | ProjectedCounter:
    """The counter whose `state` this is: a projected one where it holds a projection behind the prefix."""
    steps, projection = StepCounter.restore(state), restore_projection(state, prefix, restore)
    return steps if projection is None else ProjectedCounter(projection, steps, prefix)
