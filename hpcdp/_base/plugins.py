"""Extensions that installed packages offer by entry points, such as `[project.entry-points."hpcdp.methods"]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def plugins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group, such as "hpcdp.losses", by name; none of them is loaded."""
    return {point.name: point for point in entry_points(group=group)}


def import_path(group: str, given: Any, known: Collection[str] = ()) -> Any:
    """ "package.module:name" of an entry point that is given by its name; all else, and what is known already, as it is."""
    if not isinstance(given, str) or ":" in given or given in known or given not in plugins(group):
        return given
    return plugins(group)[given].value


@cache
def load_plugin(group: str, name: str) -> Any:
    """The object of an entry point; KeyError where no installed package offers it."""
    return plugins(group)[name].load()
