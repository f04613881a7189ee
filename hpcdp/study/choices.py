"""What runs choose once for a store where its study leaves it open: whether samples are reused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, record_names

_NAMES = {"reuse": True, "no-reuse": False}


def known_choice(layout: Layout) -> bool | None:
    """Whether samples of this store are reused; None where no run has chosen yet."""
    found = record_names(layout, "choices")
    return next((reuse for name, reuse in _NAMES.items() if name in found), None)


def commit_choice(layout: Layout, reuse: bool, why: Mapping[str, Any], generation: Generation) -> None:
    """Record the choice, and what it rests on, before anything acts on it."""
    name = next(name for name, value in _NAMES.items() if value == reuse)
    commit(layout, "choices", name, dict(why), generation)
