"""Commands that are printed, as a shell takes them."""

from __future__ import annotations

import shlex
from pathlib import Path


def resume_command(store: str | Path, place: str | Path = "local") -> str:
    """The words to type. place: where the run is to compute, as `--cluster` takes it."""
    there = ["--cluster", str(place)] if str(place) != "local" else []
    return f"hpcdp resume {typed(store)}{''.join(f' {shlex.quote(word)}' for word in there)}"


def typed(path: str | Path) -> str:
    """A path as a word of a command: none begins as an option does."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
