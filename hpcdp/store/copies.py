"""What tasks read of a store, for nodes that cannot write to it: a run that keeps no samples needs no disk that all share.

Chosen: workers that cannot write to the store get a copy of the study, its databases and the modules of its folder, and each call
carries what was learned for it, since a colleague's or a cloud's workers rarely see the driver's disk. Others use the store: a
module may read files beside it. Weighed: a copy for all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from hpcdp._base.files import read_bytes, replaced
from hpcdp.store.layout import COPY, Layout
from hpcdp.store.records import read_json, write_json

MOST_SENT = 8 << 20
"""Bytes of what a pair learned that go with a call, at most."""

_MOST_MODULES = 64 << 20  # bytes
_MODULES = "modules"  # a folder of the copy, in the place of the study's own


@dataclass(frozen=True)
class StoreCopy:
    """One version of a study, as a node has it."""

    version: int
    body: Mapping[str, Any] = field(repr=False)  # of the study's record
    files: Mapping[str, bytes] = field(repr=False)  # databases and modules, by path

    @classmethod
    def of(cls, layout: Layout, version: int, folder: Path, has_code: bool, chosen: bool | None) -> StoreCopy | None:
        """From a store; None where the modules, if the study names any, are too large. chosen: whether samples are reused."""
        files = {}
        for path in layout.databases.glob("*.np?"):
            with suppress(ValueError):  # no file: whoever put it there, no study reads it
                files[layout.relative(path)] = read_bytes(path)
        size = 0
        for path in _modules(folder) if has_code else ():
            with suppress(OSError):  # what cannot be read, nobody imports
                size += path.stat().st_size
                if size > _MOST_MODULES:
                    return None
                files[f"{_MODULES}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
        body = {**read_json(layout.study(version)), "chosen": chosen}
        return cls(version, body, files)

    def write(self, folder: Path) -> None:
        """Make the copy in a folder, which its user alone can read."""
        folder.mkdir(mode=0o700)
        for name, data in self.files.items():
            _put(folder / name, data)
        record = Layout(folder).study(self.version)
        record.parent.mkdir(exist_ok=True)
        (folder / _MODULES).mkdir(exist_ok=True)
        write_json(record, {**self.body, "folder": str(folder / _MODULES)})


def run_copied(files: Mapping[str, bytes], function: Callable[..., Any], store: str, *arguments: Any) -> Any:
    """In a child on a node: a function of a store's root, with the node's copy, and the files of this call, in its place."""
    if COPY not in os.environ:
        return function(store, *arguments)
    root = Path(os.environ[COPY])
    for name, data in files.items():
        path = root / name
        if not path.exists() or path.read_bytes() != data:
            _put(path, data)
    return function(str(root), *arguments)


def sent_files(layout: Layout, paths: Iterable[Path]) -> dict[str, bytes]:
    """Those of a store's files that are there, but for what has too many bytes to be sent, by their paths in it."""
    files = {}
    for path in paths:
        with suppress(FileNotFoundError):
            if path.parent.name != "counters" or path.stat().st_size <= MOST_SENT:
                files[layout.relative(path)] = path.read_bytes()
    return files


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as new:  # another child may write the same
        new.write_bytes(data)


def _modules(folder: Path) -> Iterator[Path]:
    """Files that an import from a folder may read, its packages' too, in order."""
    endings = tuple(all_suffixes())
    paths: list[Path] = []
    with suppress(OSError):  # the study's module may be an installed one, and the folder gone
        paths = sorted(folder.iterdir())
    for path in paths:
        with suppress(OSError):
            if path.is_dir() and (path / "__init__.py").is_file():
                yield from (file for file in sorted(path.rglob("*")) if file.name.endswith(endings) and file.is_file())
            elif path.name.endswith(endings) and path.is_file():
                yield path
