"""What a loss is: it learns L̂ from training outputs, and counts fresh outputs by thresholds of L̂."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Outputs = NDArray[Any]
"""Outputs of one database: bool, integer or float64 of shape (size,) or (size, d), or an object array (size,) of
canonical bytes when outputs are not numbers."""


@dataclass(frozen=True, eq=False)
class Side:
    """Training outputs of one database.

    outputs: (size,) or (size, d), see `Outputs`. draws: how many draws they came from; more than size when the
    outputs were filtered to a region. is_sorted: whether the outputs are scalar float64 in ascending order already.
    """

    outputs: Outputs
    draws: int
    is_sorted: bool = False

    @cached_property
    def ascending(self) -> NDArray[np.float64]:
        """The scalar outputs as sorted float64, shape (size,); kept, because one D serves many pairs."""
        if self.is_sorted:
            return self.outputs
        from hpcdp.losses._sort import ascending

        return ascending(np.asarray(self.outputs, np.float64).reshape(-1))

    @property
    def size(self) -> int:
        """How many outputs there are."""
        return int(self.outputs.shape[0])


class Counter(Protocol):
    """Counts outputs by class of L̂ among fixed thresholds (see `hpcdp.counts`)."""

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        """Histogram over the 2T + 1 classes, shape (2T + 1,), int64; it adds up over chunks."""
        ...

    def state(self) -> dict[str, NDArray[Any]] | None:
        """Small arrays from which `Loss.restore` makes the counter again; None when fitting again is the way."""
        ...


class Model(Protocol):
    """A learned L̂."""

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        """L̂ of each output, shape (size,), natural log; ±inf allowed, never a NaN."""
        ...

    def counter(self, thresholds: NDArray[np.float64]) -> Counter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        ...


class Loss(Protocol):
    """An estimator of L: `fit`, and the way back from a counter's state."""

    def fit(self, p: Side, q: Side) -> Model:
        """Learn L̂ = log(p/q) from training outputs of D (p) and D' (q)."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: NDArray[np.float64]) -> Counter:
        """The counter whose `state` this is."""
        ...
