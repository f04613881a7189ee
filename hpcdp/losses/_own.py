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


def _refuse_without(returned: Any, name: str, what: str, *methods: str) -> None:
    missing = [method for method in methods if not callable(getattr(returned, method, None))]
    if missing:
        kind = type(returned).__name__
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
            model = self.loss.fit(p, q)
        _refuse_without(model, self.name, "fit", "counter")
        return _OwnModel(model, self.name)

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: NDArray[np.float64]) -> Counter:
        """The counter whose state this is; MechanismError where it fails."""
        with _blamed(self.name, "restore"):
            counter = self.loss.restore(state, thresholds)
        _refuse_without(counter, self.name, "restore", "count", "state")
        return _OwnCounter(counter, self.name, thresholds.size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loss, name)


@dataclass(frozen=True, eq=False)
class _Guarded:
    """What a loss made; whatever it has besides what counting needs is at arm's length too."""

    own: Any
    name: str

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.own, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any) -> Any:
            with _blamed(self.name, name):
                returned = attribute(*arguments)
            return _scores(returned, arguments[0].shape[0], self.name) if name == "score" else returned

        return call


@dataclass(frozen=True, eq=False)
class _OwnModel(_Guarded):
    """A model: its scores and counters are looked at."""

    def score(self, outputs: Outputs) -> NDArray[np.float64]:
        with _blamed(self.name, "score"):
            scores = self.own.score(outputs)
        return _scores(scores, outputs.shape[0], self.name)

    def counter(self, thresholds: NDArray[np.float64]) -> Counter:
        with _blamed(self.name, "counter"):
            counter = self.own.counter(thresholds)
        _refuse_without(counter, self.name, "counter", "count", "state")
        return _OwnCounter(counter, self.name, thresholds.size)


@dataclass(frozen=True, eq=False)
class _OwnCounter(_Guarded):
    """A counter of so many thresholds, which may have scores."""

    thresholds: int

    def count(self, outputs: Outputs) -> NDArray[np.int64]:
        with _blamed(self.name, "count"):
            returned = self.own.count(outputs)
            counts = np.asarray(returned)
            right = counts.shape == (2 * self.thresholds + 1,) and counts.dtype.kind in "iu"
            right = right and bool((counts >= 0).all()) and int(counts.sum()) == outputs.shape[0]
        if not right:
            raise MechanismError(
                f"estimate.loss: {self.name}: count gave {_shown(returned)} for {outputs.shape[0]:,} outputs; accepted: "
                f"{2 * self.thresholds + 1} integers, none below 0, that add up to the number of outputs"
            )
        return counts.astype(np.int64)

    def state(self) -> dict[str, NDArray[Any]] | None:
        with _blamed(self.name, "state"):
            state = self.own.state()
            if state is None:
                return None
            arrays = {key: np.asarray(value) for key, value in state.items()}
        wrong = [key for key in arrays if not (isinstance(key, str) and _NAME.fullmatch(key))]
        wrong += [key for key, array in arrays.items() if key not in wrong and array.dtype.kind not in "biuf"]
        if wrong:
            raise MechanismError(
                f"estimate.loss: {self.name}: state gave {wrong[0]!r}: {_shown(state[wrong[0]])}; accepted: arrays of numbers by "
                "names of letters, digits and _"
            )
        return arrays


def _scores(returned: Any, size: int, name: str) -> NDArray[np.float64]:
    """What a loss gave as L̂ of so many outputs; MechanismError where it cannot be."""
    scores = np.asarray(returned) if returned is not None else np.empty(0, object)
    if scores.shape != (size,) or scores.dtype.kind not in "iuf" or np.isnan(scores).any():
        what = "a NaN" if scores.shape == (size,) and scores.dtype.kind == "f" else _shown(returned)
        raise MechanismError(
            f"estimate.loss: {name}: score gave {what} for {size:,} outputs; accepted: {size:,} numbers, ±inf too, never a NaN"
        )
    return scores.astype(np.float64)


def _shown(returned: Any) -> str:
    if isinstance(returned, np.ndarray):
        adds = returned.size and returned.dtype.kind in "biu"
        return f"{returned.dtype} of shape {returned.shape}" + (f" that add up to {returned.sum():,}" if adds else "")
    return f"a {type(returned).__name__}"


def make_own(load: Callable[[], Loss], name: str) -> OwnLoss:
    """A loss as its class makes it; MechanismError where that fails, or it is none."""
    with _blamed(name, "its class"):
        loss = load()
    _refuse_without(loss, name, "its class", "fit", "restore")
    return OwnLoss(loss, name)


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
