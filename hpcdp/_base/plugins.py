"""Extensions that installed packages offer by entry points, such as `[project.entry-points."hpcdp.methods"]`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def plugins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group, such as "hpcdp.losses", by name; none of them is loaded."""
    return {point.name: point for point in entry_points(group=group)}


@cache
def load_plugin(group: str, name: str) -> Any:
    """The object of an entry point; KeyError where no installed package offers it."""
    return plugins(group)[name].load()
