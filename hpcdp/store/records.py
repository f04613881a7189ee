"""Records: small JSON files with a checksum, written whole or not at all, under the generation of a lease."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpcdp._base.files import parse_json, read_bytes
from hpcdp.errors import DamagedError, HpcdpError, StoreError
from hpcdp.keys import canonical_json, digest_bytes, digest_json
from hpcdp.store.fence import move, replacing
from hpcdp.store.layout import Generation, Layout

_HEAD, _TAIL = b'{"body":', b',"checksum":"%b"}'


def write_json(path: Path, body: Any) -> None:
    """Write a new file with a body and its checksum, down to the disk, where nobody reads it yet (see `hpcdp.store.fence`)."""
    data = canonical_json(body)
    with open(path, "xb") as handle:
        handle.write(_HEAD + data + _TAIL % digest_bytes(data).encode())
        handle.flush()
        os.fsync(handle.fileno())


def read_json(path: Path) -> Any:
    """The body of a record; DamagedError when its checksum does not match."""
    try:
        raw = read_bytes(path)
        data = parse_json(raw)
        body, checksum = data["body"], data["checksum"]
        tail = _TAIL % str(checksum).encode()
        if raw.startswith(_HEAD) and raw.endswith(
            tail
        ):  # as it was written: to spell it again takes as long as to read it
            right = digest_bytes(raw[len(_HEAD) : -len(tail)]) == checksum
        else:
            right = digest_json(body) == checksum
    except FileNotFoundError:
        raise DamagedError(f"no record at {path}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedError(f"the record {path} is damaged (not readable as JSON)") from None
    if not right:
        raise DamagedError(f"the record {path} is damaged (its checksum does not match)")
    return body


@contextmanager
def foreign(store: str | Path) -> Iterator[None]:
    """What is read here may have been written by anyone: whatever Python stumbles over in it becomes a StoreError."""
    try:
        yield
    except (HpcdpError, OSError, MemoryError):
        raise
    except Exception as error:
        raise StoreError(
            f"{store} holds what hpcdp does not write, and cannot be read: {type(error).__name__}: {error}"
        ) from error


def commit(layout: Layout, kind: str, name: str, body: dict[str, Any], generation: Generation) -> None:
    """Write a record under a lease's generation; LeaseError when a later generation has taken the store."""
    put_json(layout, layout.record(kind, name), {**body, "generation": generation}, generation)


def put_json(layout: Layout, path: Path, body: Any, generation: Generation) -> None:
    """Put a body with its checksum in the place of whatever is there, under a lease's generation."""
    with replacing(layout, generation, path) as new:
        write_json(new, body)


def record_names(layout: Layout, kind: str) -> set[str]:
    """Names of all records of a kind, from the folder's listing alone."""
    folder = layout.records(kind)
    if not folder.is_dir():
        return set()
    return {n.removesuffix(".json") for n in os.listdir(folder) if n.endswith(".json") and not n.startswith(".")}


def read_records(layout: Layout, kind: str) -> Iterator[tuple[str, dict[str, Any] | DamagedError]]:
    """All records of a kind in the order of their names; a damaged one comes as its error."""
    for name in sorted(record_names(layout, kind)):
        try:
            yield name, read_json(layout.record(kind, name))
        except DamagedError as error:
            yield name, error


def set_aside(layout: Layout, kind: str, name: str) -> None:
    """Take a record out of use, keeping its file under another name, so that what it stood for is done again.

    The layout is that of a run: LeaseError under an old generation.
    """
    path = layout.record(kind, name)
    assert layout.generation is not None
    try:
        move(layout, layout.generation, path, path.with_name(f"{name}.damaged"))
    except OSError as error:
        raise StoreError(f"cannot set aside {path}: {error}") from None
