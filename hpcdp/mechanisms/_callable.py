"""Callables as samplers: which arguments they take, and one output a call or many."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.messages import did_you_mean
from hpcdp._base.raised import Blamed
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms.exceptions import Catching
from hpcdp.mechanisms.tabular import plain_output, plain_outputs

_MANY = "mechanism(database, size, rng, **parameters)"
_ONE = "mechanism(database, rng, **parameters)"


@dataclass(frozen=True)
class CallableMechanism:
    """A mechanism function bound to its parameters."""

    function: Callable[..., Any]
    parameters: Mapping[str, Any]
    vectorised: bool  # whether it takes `size`
    takes_rng: bool = True
    catching: Catching | None = None  # its calls, where some exceptions are outputs

    def draw(self, database: Any, size: int, rng: np.random.Generator) -> Any:
        """`size` outputs as the function returns them; whatever it raises becomes a MechanismError."""
        if self.catching is not None:
            return self.catching.draw(database, size, rng)
        arguments = self._arguments(rng)
        with Blamed("the mechanism", MechanismError) as guard:
            if self.vectorised:
                outputs = self.function(database.copy(), size=size, **arguments)
            else:
                outputs = []
                for _ in range(size):
                    outputs.append(plain_output(self.function(database.copy(), **arguments)))
                    guard.end_copy()
        with Blamed("the mechanism", MechanismError):  # another one, which has the depth of recursion back
            return plain_outputs(outputs)

    def catch(self, raises: Sequence[str], folder: Path, path: str, digest: str | None) -> CallableMechanism:
        """The same with exceptions of these classes as outputs; StudyError where it gives many outputs a call."""
        if self.vectorised:
            raise StudyError(
                f"mechanism.raises: was given with a mechanism that takes size; accepted: {_ONE}, which gives one output a call"
            )
        call = partial(self._call, self.function, dict(self.parameters))
        return replace(self, catching=Catching.of(call, raises, folder, path, digest))

    @staticmethod
    def _call(function: Callable[..., Any], parameters: dict[str, Any], database: Any, rng: np.random.Generator) -> Any:
        return function(database, rng=rng, **parameters)

    def draw_each(self, databases: NDArray[Any], rng: np.random.Generator) -> Any:
        """One output of each database (size, rows) or (size, rows, columns), by the function's own `each`; None without."""
        each = getattr(self.function, "each", None)
        if each is None:
            return None
        with Blamed("the mechanism's each", MechanismError):
            return plain_outputs(each(databases, **self._arguments(rng)))

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        return {**({"rng": rng} if self.takes_rng else {}), **self.parameters}


def _meant(given: Mapping[str, Any], accepted: list[str]) -> str:
    """What the first parameter that is not accepted means, perhaps."""
    return next((did_you_mean(name, accepted) for name in given if name not in accepted), "")


def bind(
    function: Callable[..., Any],
    parameters: Mapping[str, Any],
    call: str,
    reproducible: bool = True,
    keys: tuple[str, str] = ("mechanism.call", "mechanism.parameters"),
) -> CallableMechanism:
    """Check a function's signature against the contract and the study's parameters; keys: of the study, for messages."""
    # reproducible: whether all its randomness must come from rng; without that it need not take rng
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return CallableMechanism(function, dict(parameters), True)
    names = signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in names.values())
    takes_rng = "rng" in names or takes_any
    if not takes_rng and reproducible:
        raise StudyError(
            f"{keys[0]}: {call} takes ({', '.join(names)}) and no rng; accepted: {_MANY} or {_ONE}; "
            "what has randomness of its own needs mechanism.reproducible = false"
        )
    for reserved in ("database", "size", "rng"):
        if reserved in parameters:
            raise StudyError(f"{keys[1]}.{reserved}: hpcdp passes this argument itself; leave it out")
    vectorised = "size" in names or (takes_any and "rng" not in names)
    arguments: dict[str, Any] = {
        **({"rng": None} if takes_rng else {}),
        **({"size": 1} if vectorised else {}),
        **parameters,
    }
    try:
        signature.bind(None, **arguments)
    except TypeError as error:
        accepted = [n for n, p in names.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        own = [n for n in accepted[1:] if n not in ("size", "rng")]
        raise StudyError(
            f"{keys[1]}: {error}; given: {', '.join(parameters) or 'none'}; accepted by {call}: "
            f"{', '.join(own) or 'none'}{_meant(parameters, own)}; "
            f"hpcdp passes the database first, and size and rng by these names: {_MANY} or {_ONE}"
        ) from None
    return CallableMechanism(function, dict(parameters), vectorised, takes_rng)
