"""The command that goes on with a store, as a shell takes it."""

from __future__ import annotations

import shlex
from pathlib import Path


def resume_command(store: str | Path, place: str | Path = "local") -> str:
    """The words to type. place: where the run is to compute, as `--cluster` takes it."""
    return shlex.join(["hpcdp", "resume", str(store), *(["--cluster", str(place)] if str(place) != "local" else [])])
