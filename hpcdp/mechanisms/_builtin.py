"""Built-ins bound to a study's parameters, and the callables of the user's own that these name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcdp.errors import StudyError
from hpcdp.keys import digest_bytes
from hpcdp.mechanisms import BUILTINS, CALLABLES, load_builtin
from hpcdp.mechanisms._callable import CallableMechanism, bind
from hpcdp.mechanisms.subsampled import SUBSAMPLED, bind_inner
from hpcdp.mechanisms.user_code import import_callable, source_digest

Place = tuple[str, ...]
"""Where a parameter stands: the keys that lead to it."""


def bind_builtin(
    call: str, parameters: Mapping[str, Any], folder: Path, reproducible: bool = True
) -> tuple[CallableMechanism, str]:
    """Return a built-in bound to its parameters, and the digest of its name and of the sources of the user's callables.

    reproducible: as in the study; false is for a callable of the user's that is subsampled.
    """
    named = named_callables(call, parameters)
    if not reproducible and not (call == SUBSAMPLED and ("mechanism",) in named):
        raise StudyError(f"mechanism.reproducible: {call} is reproducible; leave this key out")
    loaded = dict(parameters)
    for place, path in named.items():
        _put(loaded, place, import_callable(path, folder, ".".join(("mechanism.parameters", *place))))
    function = load_builtin(call)
    mechanism = bind(function, loaded, call)
    if prepare := getattr(function, "prepare", None):
        mechanism = replace(mechanism, parameters=prepare(mechanism.parameters))
    if call == SUBSAMPLED:
        try:
            bind_inner(loaded["mechanism"], loaded.get("parameters"), reproducible, named.get(("mechanism",)))
        except ValueError as error:
            raise StudyError(f"mechanism.parameters.{error}") from None
    sources = [source_digest(path, folder).encode() for path in named.values()]
    return mechanism, digest_bytes(b"builtin", call.encode(), *sources)


def named_callables(call: str, parameters: Mapping[str, Any]) -> dict[Place, str]:
    """Return the user's callables that a built-in's parameters name: "package.module:callable" by place.

    The parameters of a built-in that is subsampled may name some too.
    """
    given: dict[Place, Any] = {(name,): parameters.get(name) for name in CALLABLES.get(call, ())}
    callables = {place: path for place, path in given.items() if isinstance(path, str) and ":" in path}
    inner, own = parameters.get("mechanism"), parameters.get("parameters")
    if call == SUBSAMPLED and isinstance(inner, str) and inner in BUILTINS and isinstance(own, Mapping):
        callables |= {("parameters", *place): path for place, path in named_callables(inner, own).items()}
    return callables


def _put(parameters: dict[str, Any], place: Place, value: Any) -> None:
    """Set the parameter at this place; tables on the way are copied, because they are the study's."""
    for key in place[:-1]:
        parameters[key] = dict(parameters[key])
        parameters = parameters[key]
    parameters[place[-1]] = value
