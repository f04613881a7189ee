"""Objects in the place of names: a function or class that an import finds is the same as its "package.module:name"."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcdp.errors import StudyError
from hpcdp.mechanisms.functions import import_path, name_of

_NAMED = (
    "pairs.given.call",
    "pairs.relative.call",
    "pairs.distributional.call",
    "estimate.loss",
    "mechanism.impossible",
    "at_risk.query",
    "at_risk.population.call",
)
_LIST = "pairs.distributional"  # all others may be long, and hold no names


def with_names(value: Any, folder: Path, key: str = "") -> Any:
    """Keys of a study with names for objects; mechanism.call, which may be an object of any kind, is left as it is.

    Raises:
        StudyError: no import finds an object by its name.
    """
    if isinstance(value, Mapping) and any(name.startswith(f"{key}." if key else "") for name in _NAMED):
        return {own: with_names(one, folder, f"{key}.{own}" if key else str(own)) for own, one in value.items()}
    if isinstance(value, list) and key == _LIST:
        return [with_names(one, folder, key) for one in value]
    if key not in _NAMED or not callable(value):
        return value
    found = import_path(value, folder)
    if found is None:
        raise StudyError(
            f"{key}: {name_of(value)} was given, an object that no import finds by its name; accepted: "
            '"package.module:name", or an object of a module, as it stands there'
        )
    return found
