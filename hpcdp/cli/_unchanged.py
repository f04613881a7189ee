"""Whether a study file, and what it names beside itself, are as they were: told by their bytes, before anything is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpcdp._base.files import parse_toml, read_bytes
from hpcdp.errors import HpcdpError
from hpcdp.keys import digest_bytes, digest_json

_MOST = 16 << 20  # bytes of a file that is read whole
_OWN = re.compile(r"hpcdp(\.\w+)*:[\w.]+")


def named_store(path: Path) -> Path | None:
    """Where the results of a study file go, if nothing else is said; None where it names no study."""
    with suppress(HpcdpError, OSError, ValueError, KeyError, TypeError, RecursionError):
        name = parse_toml(read_bytes(path, _MOST).decode())["study"]["name"]
        return Path("runs") / f"{name}.zarr" if isinstance(name, str) else None
    return None


def digest_inputs(path: Path) -> str | None:
    """A digest of all that a study's databases and its law come from; None where that is more than the file, a file of
    databases, and hpcdp: code of users, whose imports and data no list of files tells, or where files are large.
    """
    with suppress(HpcdpError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = read_bytes(path, _MOST)
        folder = path.resolve().parent
        files = [*_files(parse_toml(found.decode()), folder)]
        digests = [[str(file), digest_bytes(b"file", read_bytes(file, _MOST))] for file in files]
        return digest_json([digest_bytes(b"study", found), str(folder), digests])
    return None


def _files(study: dict[str, Any], folder: Path) -> Iterator[Path]:
    """Files beside the study that it names; ValueError where their bytes do not tell all, or where a run would draw a picture."""
    pairs, call, estimate = study["pairs"], study["mechanism"]["call"], study["estimate"]
    given, relative = pairs.get("given"), pairs.get("relative") or {}
    if "at_risk" in study or call in ("stored", "scores") or "target" in estimate or "time" in estimate:
        raise ValueError
    if (
        not isinstance(call, str)
        or study["mechanism"].get("reproducible", True) is not True
        or "distributional" in pairs
    ):
        raise ValueError
    others = {key: value for key, value in study.items() if key not in ("study", "pairs")}
    if any(":" in text and not _OWN.fullmatch(text) for text in _texts([others, given, relative])):
        raise ValueError
    if "file" in relative:
        yield folder / relative["file"]


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
