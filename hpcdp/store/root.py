"""The root of a store: made, opened, told apart from other folders, and gone on with."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpcdp._base.asked import option, typed
from hpcdp._base.files import absolute, describe_link, make_folders, read_attributes
from hpcdp.errors import HpcdpError, StoreError, StudyError
from hpcdp.store.fence import create_exclusively
from hpcdp.store.layout import EXPORTED, VERSION, Layout, group_metadata
from hpcdp.store.records import read_json

MARK = {"hpcdp": VERSION}
"""Attributes of a store's root."""


def create_store(root: Path) -> Layout:
    """Make the groups of a new store, whatever is there already, or accept one of this layout version; `mend` mends its root."""
    layout = Layout(root)
    if root.is_symlink() and not root.exists():
        raise StudyError(
            f"{root} is a link that leads nowhere; give another {option('store')}, or make the folder {root.readlink()}"
        )
    refuse_links(root)
    if has_lost_its_root(layout):
        return layout
    if is_store(root):
        for group in layout.groups:  # those of later versions
            make_group(root, group, {})
        return open_layout(root)
    if root.exists() and not _is_unfinished(layout) and not is_store(root):  # another run may have made it just now
        raise StudyError(f"{root} exists and is no hpcdp store; give another {option('store')}")
    absolute(root).mkdir(parents=True, exist_ok=True)
    for group in (*layout.groups, layout.root / "study" / "databases"):
        make_group(root, group, {})
    make_group(root, root, MARK)  # last: now it is a store
    return open_layout(root)


def make_group(root: Path, path: Path, attributes: dict[str, Any]) -> None:
    """A Zarr group in a store, whole or not at all, and never in place of one that is there."""
    make_folders(root, path)
    with suppress(FileExistsError):
        create_exclusively(path / "zarr.json", group_metadata(attributes))


def _is_unfinished(layout: Layout) -> bool:
    """Whether a folder holds nothing but what a run leaves that is killed while it makes a store."""
    names = {"databases", *(group.name for group in layout.groups)}
    return layout.root.is_dir() and all(
        path.name in names if path.is_dir() else path.name.lstrip(".").startswith("zarr.json")
        for path in layout.root.rglob("*")
    )


def has_lost_its_root(layout: Layout) -> bool:
    """Whether this is a store but for the metadata of its root, which can be written anew."""
    return layout.study(1).is_file() and not is_store(layout.root)


def is_store(root: Path) -> bool:
    """Whether a folder is an hpcdp store (of whatever layout version)."""
    path = Layout(root).root  # refuses addresses
    try:
        return "hpcdp" in read_attributes(path)
    except (ValueError, FileNotFoundError, NotADirectoryError):
        return False


def open_layout(root: Path) -> Layout:
    """The layout of an existing store; StoreError when there is none or it is of another version."""
    if has_lost_its_root(Layout(root)):
        raise StoreError(f"{root / 'zarr.json'} is damaged or missing; run the study file again, which writes it anew")
    if not is_store(root):
        is_copy = (root / EXPORTED).is_file()
        copy = " but an exported copy, which show, plot and report read; accepted here: its store" if is_copy else ""
        raise StudyError(f"no hpcdp store at {root}{copy or _meant(root)}")
    version = read_attributes(root)["hpcdp"]
    if version != VERSION:
        raise StoreError(f"{root} has layout version {version}; this hpcdp reads version {VERSION}")
    return Layout(root)


def _meant(root: Path) -> str:
    """The store that a name or a study file stands for, perhaps."""
    name = f"{root.name.removesuffix('.toml').removesuffix('.zarr')}.zarr"
    near = (path for path in (root.parent / "runs" / name, root.parent / name) if path != root and is_store(path))
    text = root.read_text("utf-8", "replace") if root.suffix == ".toml" and root.is_file() else ""
    command = "risk" if "[at_risk]" in text else "run"
    other = f"; it is a study file: hpcdp {command} {typed(root)}" if "[study]" in text else ""
    return next((f"; did you mean {path}?" for path in near), other)


def open_latest(store: str | Path) -> tuple[Layout, int]:
    """Of an existing store that holds a study: its layout and the number of the study's latest version. StoreError else."""
    layout = open_layout(Path(store))
    version = latest_version(layout)
    if not version:
        raise StoreError(f"{store} holds no study yet; run the study file again")
    return layout, version


def latest_version(layout: Layout) -> int:
    """Number of the study's latest version, 0 of an empty store."""
    names = (re.fullmatch(r"study-(\d{6})\.json", p.name) for p in (layout.root / "study").glob("study-*.json"))
    return max((int(m.group(1)) for m in names if m), default=0)


_DEPTHS = {"study": 2, "tallies": 2, "jobs": 1 << 10}
"""Levels that are listed of a folder, of others one. What is deeper is replaced or deleted as a whole, which follows no link."""


def refuse_links(root: Path) -> None:
    """StudyError naming a symbolic link where a run writes; the root may be one. Files are not looked at: 10⁵ take 0.4 s."""
    folders = [(str(root), 0)]
    while folders:
        folder, levels = folders.pop()
        # a run that goes on moves them
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise StudyError(describe_link(entry.path))
                below = levels - 1 if levels else _DEPTHS.get(entry.name, 1)
                if below and entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, below))


def resume_command(store: str | Path, place: str | Path = "local", changed: bool = False) -> str:
    """The words to type; where objects were given, what to do in Python. place: as --cluster. changed: with other code."""
    if needs_objects(store):
        allowed = ", with allow_changed_code=True" if changed else ""
        return f"hpcdp.run with the study's function or DataFrames given again, and the store {typed(store)}{allowed}"
    there = ["--cluster", str(place)] if str(place) != "local" else []
    there += ["--allow-changed-code"] * changed
    return f"hpcdp resume {typed(store)}{''.join(f' {shlex.quote(word)}' for word in there)}"


def needs_objects(store: str | Path) -> bool:
    """Whether the latest study of a store was given a function or DataFrames as objects."""
    with suppress(OSError, ValueError, HpcdpError, LookupError, AttributeError, TypeError):  # none, or an odd one
        layout = Layout(Path(store))
        study = read_json(layout.study(latest_version(layout)))["study"]
        call, given, relative = study["mechanism"]["call"], study["pairs"]["given"], study["pairs"]["relative"]
        databases = [given[0]["d"]] if isinstance(given, list) else relative["databases"] if relative else None
        parts = call, *(databases or [])[:1]
        return any(isinstance(part, dict) and {"function", "frame"} & part.keys() for part in parts)
    return False
