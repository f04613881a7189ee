"""What a loss is: it learns L̂ from training outputs, and counts fresh outputs by thresholds of L̂."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hpcdp.mechanisms.outputs import Outputs

__all__ = [
    "Arrays",
    "Counter",
    "Decides",
    "Decision",
    "Densities",
    "Loss",
    "Model",
    "Outputs",
    "Side",
    "StreamedSide",
    "ascending",
    "decided",
]

_BLOCK = 1 << 20
_SPREAD = 1 << 18


def ascending(values: NDArray[np.float64], is_own: bool = False) -> NDArray[np.float64]:
    """Sorted copy of finite float64 values, shape (size,), with −0.0 as 0.0. is_own: whether the array may become it."""
    out = values if is_own else values.copy()
    out.sort()
    out += 0.0  # −0.0 as 0.0
    return out


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
        return ascending(np.asarray(self.outputs, np.float64).reshape(-1))

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What was learned of this side alone, by name; kept, because one D serves many pairs."""
        return {}

    @property
    def size(self) -> int:
        """How many outputs there are."""
        return int(self.outputs.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of the outputs."""
        return self.outputs.dtype

    def blocks(self) -> Iterator[Outputs]:
        """The outputs in blocks, in order."""
        for start in range(0, self.size, _BLOCK):
            yield self.outputs[start : start + _BLOCK]

    def spread(self, limit: int) -> Outputs:
        """At most `limit` outputs, evenly spaced, because they may be sorted."""
        return self.outputs[:: max(1, -(-self.size // limit))]


class StreamedSide(Side):
    """Training outputs of one database that are too many for memory: read anew, block by block, whenever asked for.

    Of a loss that does not read blocks, `outputs` holds them all after all.
    """

    def __init__(self, read: Callable[[], Iterator[Outputs]], size: int, dtype: np.dtype[Any]) -> None:
        """`read` gives the blocks of all `size` outputs, in order, the same each time."""
        self.__dict__.update(draws=size, _read=read, _size=size, _dtype=dtype, _spread=None)

    @cached_property
    def outputs(self) -> Outputs:
        """All outputs at once."""
        return np.concatenate(list(self.blocks()))

    @property
    def size(self) -> int:
        """How many outputs there are."""
        return int(self.__dict__["_size"])

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of the outputs."""
        dtype: np.dtype[Any] = self.__dict__["_dtype"]
        return dtype

    def blocks(self) -> Iterator[Outputs]:
        """The outputs in blocks, in order; the first whole pass keeps a few for `spread`."""
        step, start, kept = max(1, -(-self.size // _SPREAD)), 0, []
        for block in self.__dict__["_read"]():
            kept.append(block[-start % step :: step].copy())
            start += block.shape[0]
            yield block
        self.__dict__["_spread"] = np.concatenate(kept)

    def spread(self, limit: int) -> Outputs:
        """At most `limit` <= 2¹⁸ outputs, evenly spaced."""
        if self.__dict__["_spread"] is None:
            for _ in self.blocks():
                pass
        kept: Outputs = self.__dict__["_spread"]
        return kept[:: max(1, -(-kept.shape[0] // limit))]


class Arrays:
    """Of a dataclass of arrays and numbers: the way to a state, and back."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that `restore` needs, by name."""
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """What `state` came from."""
        arrays = {name: state[name] for name in cls.__dataclass_fields__}
        return cls(**{name: array if array.ndim else array.item() for name, array in arrays.items()})


class Counter(Protocol):
    """Counts outputs by class of L̂ among fixed thresholds (see `hpcdp.losses.counts`)."""

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


@runtime_checkable
class Densities(Protocol):
    """A learned L̂ that comes from two density estimates."""

    def masses(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Probability of each cell of one grid under both estimates, (cells,) each; both sum to 1."""
        ...


@dataclass(frozen=True, eq=False)
class Decision:
    """How training outputs chose among estimators.

    chosen: the estimator by threshold. judged: training outputs of both sides by class, (2, 2T + 1) int64, each of what other
    training outputs taught; they were chosen by, so that fresh ones may show a little less. Where there was no choice: of what
    they taught themselves.
    """

    chosen: list[str]
    judged: NDArray[np.int64]


@runtime_checkable
class Decides(Protocol):
    """A model that may choose among estimators once it knows the thresholds."""

    def decide(self, thresholds: NDArray[np.float64]) -> tuple[Counter, Decision | None]:
        """The counter for sorted distinct thresholds, shape (T,), and how it was chosen, None where it was not."""
        ...

    def counter(self, thresholds: NDArray[np.float64]) -> Counter:
        """The counter alone."""
        return self.decide(thresholds)[0]


def decided(model: Model, thresholds: NDArray[np.float64]) -> tuple[Counter, Decision | None]:
    """The counter of any model, and how it was chosen, if it was."""
    return model.decide(thresholds) if isinstance(model, Decides) else (model.counter(thresholds), None)


class Loss(Protocol):
    """An estimator of L: `fit`, and the way back from a counter's state.

    A loss that reads the training outputs of some kinds (see `hpcdp.mechanisms.outputs.Schema`) by `Side.blocks` alone
    may say so in a class attribute, `block_kinds: ClassVar[frozenset[str]]`; then they are not all held in memory. One
    whose counters' state does not depend on the thresholds may say `serves_any_thresholds: ClassVar[bool] = True`; then
    an added ε does not make it learn again.
    """

    def fit(self, p: Side, q: Side) -> Model:
        """Learn L̂ = log(p/q) from training outputs of D (p) and D' (q)."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: NDArray[np.float64]) -> Counter:
        """The counter whose `state` this is."""
        ...
