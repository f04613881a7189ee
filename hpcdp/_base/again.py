"""Words of commands that are printed, as a shell takes them."""

from __future__ import annotations

import shlex
from pathlib import Path


def typed(path: str | Path) -> str:
    """A path as a word of a command: none begins as an option does."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
