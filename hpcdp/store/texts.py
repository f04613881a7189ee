"""What a complete store prints, kept beside its results: it is shown again without the libraries that its numbers need.

The file is no part of the results. It counts only beside the very study, results and hpcdp that it was made with, so a run that
is superseded may leave one, and a store without one is read as ever.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hpcdp._base.files import read_bytes, refuse_links_to
from hpcdp.errors import HpcdpError
from hpcdp.keys import digest_bytes, digest_json
from hpcdp.store.layout import Layout
from hpcdp.store.modes import own_files
from hpcdp.store.records import read_json, write_json
from hpcdp.store.root import open_latest

_MOST = 4 << 20  # bytes of text; more takes as long to print as to make
_PACKAGE = Path(__file__).parents[1]


@own_files()
def write_texts(root: Path, texts: Mapping[str, str]) -> None:
    """Keep texts by name, for the study and the results that are in the store now; where that fails there are none."""
    if sum(map(len, texts.values())) > _MOST:
        return
    with suppress(HpcdpError, OSError, ValueError):
        layout, version = open_latest(root)
        refuse_links_to(root, layout.texts.parent)
        write_json(layout.texts, {"key": _key(layout, version), "texts": dict(texts)})


def read_text(root: Path, name: str) -> str | None:
    """A text that was kept, if the study, the results and hpcdp itself are what they were; None else, or where there is none."""
    with suppress(HpcdpError, OSError, ValueError, TypeError, KeyError):
        layout, version = open_latest(root)
        body = read_json(layout.texts)
        text = body["texts"].get(name) if body["key"] == _key(layout, version) else None
        return text if isinstance(text, str) else None
    return None


def _key(layout: Layout, version: int) -> str:
    parts = [digest_bytes(read_bytes(path)) for path in (layout.study(version), layout.results)]
    return digest_json([version, *parts, _own_code()])


def _own_code() -> str:
    """Digest of the names, sizes and times of hpcdp's own files."""
    found = []
    for folder, _, names in os.walk(_PACKAGE):
        for name in names:
            if name.endswith(".py"):
                state = os.stat(os.path.join(folder, name))
                found.append([os.path.join(os.path.relpath(folder, _PACKAGE), name), state.st_size, state.st_mtime_ns])
    return digest_json(sorted(found))
