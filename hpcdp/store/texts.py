"""What a complete store prints, kept beside its results: it is shown again without the libraries that its numbers need.

The file is no part of the results. It counts only beside the very study, results, records and hpcdp that it was made with, and a
store without one is read as ever.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from hpcdp._base.files import read_bytes
from hpcdp.errors import HpcdpError
from hpcdp.keys import digest_bytes, digest_json
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import put_json, read_json
from hpcdp.store.root import open_latest

_MOST = 4 << 20  # bytes of text; more takes as long to print as to make
_PACKAGE = Path(__file__).parents[1]
_OTHERS = frozenset(
    ("samples", "counters", "pilots", "tallies", "lease", "jobs", "records/texts.json", "records/runs", "records/draws")
)
"""What is large, or says what was done and not what is there: samples are checked by a run that looks at them."""


def write_texts(layout: Layout, version: int, texts: Mapping[str, str], generation: Generation) -> None:
    """Keep texts by name, for the study, the results and the records that are there now; where that fails there are none."""
    if sum(map(len, texts.values())) > _MOST:
        return
    with suppress(HpcdpError, OSError, ValueError):
        put_json(layout, layout.texts, {"key": _key(layout, version), "texts": dict(texts)}, generation)


def read_texts(root: Path) -> dict[str, str]:
    """The texts that were kept, if the study, the results, the records and hpcdp itself are what they were, and this user kept
    them; none else.
    """
    with suppress(HpcdpError, OSError, ValueError, TypeError, KeyError):
        layout, version = open_latest(root)
        if any(os.stat(path).st_uid != os.geteuid() for path in (root, layout.texts.parent, layout.texts)):
            return {}  # anybody who may write there could have it say anything
        body = read_json(layout.texts)
        if body["key"] == _key(layout, version) and isinstance(body["texts"], dict):
            return {str(name): text for name, text in body["texts"].items() if isinstance(text, str)}
    return {}


def _key(layout: Layout, version: int) -> str:
    """Digest of the bytes of the study and of the results' head, and of what else there is by names, sizes and times."""
    parts = [digest_bytes(read_bytes(path)) for path in (layout.study(version), layout.results)]
    return digest_json([version, *parts, _state(layout.root, "", _OTHERS), _state(_PACKAGE, ".py", ())])


def _state(root: Path, ending: str, others: Collection[str]) -> list[list[str | int]]:
    """Name, size and time of every file below a folder whose name ends so. others: paths that are left out."""
    found: list[list[str | int]] = []
    folders = [""]
    while folders:
        below = folders.pop()
        with os.scandir(root / below) as entries:
            for entry in entries:
                path = below + entry.name
                if path in others:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}/")
                elif path.endswith(ending):
                    state = entry.stat(follow_symlinks=False)
                    found.append([path, state.st_size, state.st_mtime_ns])
    return sorted(found)
