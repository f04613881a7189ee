"""How a store is gone on with, in words that are printed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from hpcdp._base.asked import typed
from hpcdp.errors import HpcdpError
from hpcdp.store.layout import Layout
from hpcdp.store.records import read_json
from hpcdp.store.root import latest_version


def resume_command(store: str | Path, place: str | Path = "local", changed: bool = False) -> str:
    """The words to type; where the store's study was given what no store holds, what to do in Python.

    place: where the run is to compute, as `--cluster` takes it. changed: with other code than it began with.
    """
    if needs_objects(store):
        allowed = ", with allow_changed_code=True" if changed else ""
        return f"hpcdp.run with the study's function or DataFrames given again, and the store {typed(store)}{allowed}"
    there = ["--cluster", str(place)] if str(place) != "local" else []
    there += ["--allow-changed-code"] * changed
    return f"hpcdp resume {typed(store)}{''.join(f' {shlex.quote(word)}' for word in there)}"


def needs_objects(store: str | Path) -> bool:
    """Whether the latest study of a store was given a function or DataFrames as objects."""
    try:
        layout = Layout(Path(store))
        body = read_json(layout.study(latest_version(layout)))
    except (OSError, ValueError, HpcdpError):
        return False
    study = body.get("study") if isinstance(body, dict) else None
    return isinstance(study, dict) and any(_is_object(part) for part in _parts(study))


def _parts(study: dict[str, Any]) -> list[Any]:
    """Where a stored study may name an object."""
    mechanism, pairs = study.get("mechanism"), study.get("pairs")
    given = pairs.get("given") if isinstance(pairs, dict) else None
    relative = pairs.get("relative") if isinstance(pairs, dict) else None
    parts = [mechanism.get("call")] if isinstance(mechanism, dict) else []
    parts += [pair.get("d") for pair in given[:1] if isinstance(pair, dict)] if isinstance(given, list) else []
    return parts + ((relative.get("databases") or [])[:1] if isinstance(relative, dict) else [])


def _is_object(part: Any) -> bool:
    return isinstance(part, dict) and bool({"function", "frame"} & part.keys())
