"""A user's own loss, at arm's length: what it raises is its failure, and what it counts is looked at before it is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.doing import drawing
from hpcdp._base.raised import Blamed, readable
from hpcdp.errors import HpcdpError, MechanismError
from hpcdp.losses.protocol import Counter, Loss, Model, Outputs, Side
from hpcdp.mechanisms.outputs import Schema

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _blamed(name: str, what: str) -> ExitStack:
    """Whatever is raised within is the failure of this part of the loss, in one line."""
    told = f"estimate.loss: {name}: {what}"
    with ExitStack() as stack:
        for context in (Blamed(told, HpcdpError), drawing(lambda: told)):
            stack.enter_context(context)
        return stack.pop_all()


def _refuse_without(found: Any, name: str, what: str, *methods: str) -> None:
    missing = [method for method in methods if not callable(getattr(found, method, None))]
    if missing:
        kind = type(found).__name__
        raise MechanismError(
            f"estimate.loss: {name}: {what} gave a {kind} without {' and '.join(missing)}; see docs/extending.md"
        )


@dataclass(frozen=True, eq=False)
class OwnLoss:
    """A loss whose failures are told."""

    loss: Any
    name: str

    def fit(self, p: Side, q: Side) -> Model:
        """What it learns; MechanismError where it fails."""
        with _blamed(self.name, "fit"):
            found = self.loss.fit(p, q)
        _refuse_without(found, self.name, "fit", "counter")
        return _OwnModel(found, self.name)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: NDArray[np.float64]) -> Counter:
        """The counter whose state this is; MechanismError where it fails."""
        with _blamed(self.name, "restore"):
            found = self.loss.restore(state, thresholds)
        _refuse_without(found, self.name, "restore", "count", "state")
        return _OwnCounter(found, self.name, thresholds.size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loss, name)


@dataclass(frozen=True, eq=False)
class _OwnModel:
    model: Any
    name: str

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        with _blamed(self.name, "score"):
            found = self.model.score(outputs)
        return _scores(found, outputs.shape[0], self.name)

    def counter(self, thresholds: NDArray[np.float64]) -> Counter:
        with _blamed(self.name, "counter"):
            found = self.model.counter(thresholds)
        _refuse_without(found, self.name, "counter", "count", "state")
        return _OwnCounter(found, self.name, thresholds.size)

    def __getattr__(self, name: str) -> Any:
        return _guarded(self.model, self.name, name)


@dataclass(frozen=True, eq=False)
class _OwnCounter:
    counter: Any
    name: str
    thresholds: int

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        with _blamed(self.name, "count"):
            found = self.counter.count(outputs)
            counts = np.asarray(found)
            right = counts.shape == (2 * self.thresholds + 1,) and counts.dtype.kind in "iu"
            right = right and bool((counts >= 0).all()) and int(counts.sum()) == outputs.shape[0]
        if not right:
            raise MechanismError(
                f"estimate.loss: {self.name}: count gave {_shown(found)} for {outputs.shape[0]:,} outputs; accepted: "
                f"{2 * self.thresholds + 1} integers, none below 0, that add up to the number of outputs"
            )
        return counts.astype(np.int64)

    def state(self) -> dict[str, NDArray[Any]] | None:
        with _blamed(self.name, "state"):
            found = self.counter.state()
            if found is None:
                return None
            arrays = {key: np.asarray(value) for key, value in found.items()}
        wrong = [key for key in arrays if not (isinstance(key, str) and _NAME.fullmatch(key))]
        wrong += [key for key, array in arrays.items() if key not in wrong and array.dtype.kind not in "biuf"]
        if wrong:
            raise MechanismError(
                f"estimate.loss: {self.name}: state gave {wrong[0]!r}: {_shown(found[wrong[0]])}; accepted: arrays of numbers by "
                "names of letters, digits and _"
            )
        return arrays

    def __getattr__(self, name: str) -> Any:
        found = _guarded(self.counter, self.name, name)
        return (lambda outputs: _scores(found(outputs), outputs.shape[0], self.name)) if name == "score" else found


def _scores(found: Any, size: int, name: str) -> NDArray[np.float64]:
    """What a loss gave as L̂ of so many outputs; MechanismError where it cannot be."""
    scores = np.asarray(found) if found is not None else np.empty(0, object)
    if scores.shape != (size,) or scores.dtype.kind not in "iuf" or np.isnan(scores).any():
        what = "a NaN" if scores.shape == (size,) and scores.dtype.kind == "f" else _shown(found)
        raise MechanismError(
            f"estimate.loss: {name}: score gave {what} for {size:,} outputs; accepted: {size:,} numbers, ±inf too, never a NaN"
        )
    return scores.astype(np.float64)


def _guarded(owner: Any, loss: str, name: str) -> Any:
    found = getattr(owner, name)
    if not callable(found):
        return found

    def call(*arguments: Any) -> Any:
        with _blamed(loss, name):
            return found(*arguments)

    return call


def _shown(found: Any) -> str:
    if isinstance(found, np.ndarray):
        adds = found.size and found.dtype.kind in "biu"
        return f"{found.dtype} of shape {found.shape}" + (f" that add up to {found.sum():,}" if adds else "")
    return f"a {type(found).__name__}"


def make_own(load: Callable[[], Loss], name: str) -> OwnLoss:
    """A loss as its class makes it; MechanismError where that fails, or it is none."""
    with _blamed(name, "its class"):
        found = load()
    _refuse_without(found, name, "its class", "fit", "restore")
    return OwnLoss(found, name)


def refuse_own(own: OwnLoss, schema: Schema, train: int) -> None:
    """Ask a loss whether it can learn from `train` outputs per database that look like this; its ValueError says why not."""
    refuse = getattr(own.loss, "refuse", None)
    if refuse is None:
        return
    try:
        with _blamed(own.name, "refuse"):
            refuse(schema, train)
    except MechanismError as error:
        if isinstance(error.__cause__, ValueError):
            raise ValueError(readable(str(error.__cause__))) from None
        raise
