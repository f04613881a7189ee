"""Whether a study file, and what it names beside itself, are as they were: told by their bytes, before anything is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpcdp._base.files import parse_toml, read_bytes
from hpcdp.errors import HpcdpError
from hpcdp.keys import digest_bytes, digest_json
from hpcdp.store.layout import Layout

_MOST = 16 << 20  # bytes of a file that is read whole
_MODULES = 1000
_NAME = re.compile(r"([A-Za-z_]\w*):[A-Za-z_][\w.]*")  # a callable of a module that lies beside the study file
_OWN = re.compile(r"hpcdp(\.\w+)*:[\w.]+")


def named_store(path: Path) -> Path | None:
    """Where the results of a study file go, if nothing else is said; None where it names no study."""
    with suppress(HpcdpError, OSError, ValueError, KeyError, TypeError, RecursionError):
        name = parse_toml(read_bytes(path, _MOST).decode())["study"]["name"]
        return Path("runs") / f"{name}.zarr" if isinstance(name, str) else None
    return None


def is_own(store: Path) -> bool:
    """Whether a store and what it keeps of its results are this user's: a run believes nobody else's."""
    with suppress(HpcdpError, OSError, ValueError):
        return all(path.stat().st_uid == os.geteuid() for path in (store, store / "records", Layout(store).texts))
    return False


def digest_inputs(path: Path, modules: Sequence[str] = ()) -> str | None:
    """A digest of all that a study's databases, its law and its claim come from, as far as files tell.

    modules: paths of what its code imported from beside it. None where code says what they are, or where files are large.
    """
    with suppress(HpcdpError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = read_bytes(path, _MOST)
        folder = path.parent.resolve()
        if len(modules) > _MODULES:
            return None
        files = sorted({*_files(parse_toml(found.decode()), folder), *(folder / name for name in modules)})
        digests = [[str(file), digest_bytes(b"file", read_bytes(file, _MOST))] for file in files]
        return digest_json([digest_bytes(b"study", found), str(folder), digests])
    return None


def _files(study: dict[str, Any], folder: Path) -> Iterator[Path]:
    """Files beside the study that it names; ValueError where a file's bytes do not tell all."""
    if "at_risk" in study or study["mechanism"].get("reproducible", True) is not True:
        raise ValueError
    pairs, call = study["pairs"], study["mechanism"]["call"]
    given, relative = pairs.get("given"), pairs.get("relative") or {}
    if not isinstance(call, str) or call in ("stored", "scores") or "distributional" in pairs or "call" in relative:
        raise ValueError
    if isinstance(given, dict) and not _OWN.fullmatch(given["call"]):
        raise ValueError
    if "file" in relative:
        yield folder / relative["file"]
    for text in _texts([study["mechanism"], study["estimate"], study["study"].get("claim", ""), given]):
        if "(" in text and any(word in text for word in ("file(", "store(")):
            raise ValueError
        if ":" in text and not _OWN.fullmatch(text):
            match = _NAME.fullmatch(text)
            if match is None or (folder / match[1]).exists():
                raise ValueError
            yield folder / f"{match[1]}.py"


def _texts(value: Any) -> Iterator[str]:
    """All strings in what was read."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
