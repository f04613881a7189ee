"""Outputs as Zarr arrays: numbers as they are, booleans eight in a byte, strings as their bytes and where each begins; packs.

A pack has very many small blocks of samples, one task's, in one array with one record, so that none costs files of its own. It
is named by the names of its blocks, in whose order their outputs lie; its attributes have their fingerprints, which is what
tasks go by: they read no records. What takes a block out of use takes its pack.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp._base.files import read_attributes
from hpcdp.errors import DamagedError
from hpcdp.keys import digest_json
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.store.arrays import read_array, read_parts, write_array, write_parts
from hpcdp.store.layout import Layout, group_metadata
from hpcdp.store.records import read_records

_OTHER = "it has another shape or type than it should"


def write_outputs(
    path: Path,
    schema: Schema,
    parts: Iterable[Outputs],
    size: int,
    chunk: int | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write canonical outputs as they come; chunk: how many in a Zarr chunk and a part, None: all. attributes: read last."""
    if schema.kind in ("int", "float") and chunk is not None:  # each is written while it is in the processor's cache
        write_parts(path, schema.shape(size), schema.dtype, parts, chunk, attributes=attributes)
        return
    all_parts = list(parts)
    outputs = all_parts[0] if len(all_parts) == 1 else np.concatenate(all_parts)
    if schema.kind == "bytes":
        path.mkdir()
        (path / "zarr.json").write_text(group_metadata(attributes or {}))
        lengths = np.fromiter((len(item) for item in outputs), np.int64, outputs.size)
        write_array(path / "offsets", np.concatenate([[0], np.cumsum(lengths)]))
        write_array(path / "data", np.frombuffer(b"".join(outputs), np.uint8), chunk=1 << 20)
    elif schema.kind == "bool":  # eight in a byte; what is checked and cut is the outputs, whatever holds them
        bits = outputs.size // outputs.shape[0]
        rows = None if chunk is None else -(-chunk * bits // 8)
        write_array(path, np.packbits(outputs), chunk=rows, attributes=attributes)
    else:
        write_array(path, outputs, attributes=attributes)


def read_outputs(path: Path, schema: Schema, size: int, out: Outputs | None = None) -> Outputs:
    """So many outputs, put into `out` perhaps; DamagedError where missing, of another shape or type, or not of their checksum."""
    shape = schema.shape(size)
    if schema.kind == "bytes":
        outputs = _read_strings(path)
    else:
        outputs = _read_bits(path, shape) if schema.kind == "bool" else read_array(path, shape, out=out)
    if outputs.shape != shape or outputs.dtype != schema.dtype:
        raise DamagedError(_OTHER)
    return outputs


def read_chunks(path: Path, schema: Schema, size: int, chunk: int, numbers: Sequence[int]) -> Iterator[Outputs]:
    """Some of the chunks of so many outputs, one after another; DamagedError as `read_outputs`."""
    if schema.kind in ("int", "float"):
        for outputs in read_parts(path, chunk, numbers, schema.shape(size)):
            if outputs.dtype != schema.dtype:
                raise DamagedError(_OTHER)
            yield outputs
        return
    whole = read_outputs(path, schema, size)
    yield from (whole[i * chunk : (i + 1) * chunk] for i in numbers)


def _read_bits(path: Path, shape: tuple[int, ...]) -> Outputs:
    """Booleans, eight in a byte."""
    size = prod(shape)
    stored = read_array(path, (-(-size // 8),))
    if stored.dtype != np.uint8:
        raise DamagedError(_OTHER)
    return np.unpackbits(stored, count=size).view(np.bool_).reshape(shape)


def _read_strings(path: Path) -> Outputs:
    offsets, data = read_array(path / "offsets"), read_array(path / "data").tobytes()
    if offsets.ndim != 1 or offsets.size == 0:
        raise DamagedError(_OTHER)
    out = np.empty(offsets.size - 1, object)
    out[:] = [data[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    return out


KIND = "packs"
"""Of their records."""

PACK_BYTES = 12 << 20
"""Of outputs in a pack: as much is read to have one block of it."""

_OPEN = 4  # packs that stay in memory: those that a run meets next to each other

Prints = Mapping[str, list[str]]
"""Fingerprints of chunks by the name of their block."""


def pack_name(blocks: Iterable[str]) -> str:
    """The name of the pack of these blocks."""
    return digest_json(sorted(blocks))


def recorded_packs(layout: Layout) -> Iterator[tuple[str, Prints | DamagedError]]:
    """The name of every pack with a record, and its blocks with the fingerprints of their chunks, or what is wrong with it."""
    for name, body in read_records(layout, KIND):
        if isinstance(body, DamagedError):
            yield name, body
        elif _is_of(prints := body.get("fingerprints"), name):
            yield name, dict(prints or {})
        else:
            yield name, DamagedError(f"the record {KIND}/{name} is damaged (it is no pack)")


def recorded_pack(layout: Layout, block: str) -> str | None:
    """The pack in which a block lies, as records say; None where there is none."""
    if layout.root not in _recorded:
        _recorded.clear()
        sound = ((name, blocks) for name, blocks in recorded_packs(layout) if not isinstance(blocks, DamagedError))
        _recorded[layout.root] = {block: name for name, blocks in sound for block in blocks}
    return _recorded[layout.root].get(block)


def prints_in(path: Path) -> Any:
    """The fingerprints of the chunks in a stored array (or group, of strings), by block; DamagedError where it says none."""
    try:
        blocks = read_attributes(path, ("array", "group")).get("blocks")
    except (ValueError, FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"{path} is damaged or missing") from None
    if not _are_blocks(blocks):
        raise DamagedError(f"{path} is damaged: it does not say which chunks it holds")
    return blocks


def _is_of(prints: Any, name: str) -> bool:
    return _are_blocks(prints) and pack_name(prints) == name


def _are_blocks(prints: Any) -> bool:
    """Whether they are lists of fingerprints by blocks' names."""
    return isinstance(prints, dict) and all(size_of(block) and are_prints(own) for block, own in prints.items())


def are_prints(prints: Any) -> bool:
    """Whether they are a list of texts."""
    return isinstance(prints, list) and all(isinstance(text, str) for text in prints)


def size_of(block: str) -> int:
    """Outputs of a block, from its name; 0 of what is none."""
    size = block.rpartition("-")[2]
    return int(size) if size.isdecimal() and len(size) < 20 else 0


Pack = dict[str, tuple[Outputs, list[str]]]
"""By name each block of a pack: its outputs, and the fingerprints of its chunks."""

_holders: dict[Path, dict[str, str]] = {}
"""Of the last store: the pack of each block. A pack's name says what is in it, so that it is read once for that."""

_recorded: dict[Path, dict[str, str]] = {}
"""The same by the records: what is asked for where a pack is missing."""


def pack_of(layout: Layout, block: str) -> str | None:
    """The pack in which a block lies, as packs say, of which one that is damaged holds nothing; None where there is none."""
    known, names = _holders.get(layout.root, {}), set()
    if (pack := known.get(block)) is not None and _is_there(layout, pack):
        return pack
    with suppress(FileNotFoundError):
        names = {name for name in os.listdir(layout.pack("")) if _is_there(layout, name)}
    read = set(known.values())
    if read != names:
        known = {block: pack for block, pack in known.items() if pack in names}
        for name in names - read:
            with suppress(DamagedError):
                known.update(dict.fromkeys(prints_in(layout.pack(name)), name))
        _holders.clear()
        _holders[layout.root] = known
    return known.get(block)


def _is_there(layout: Layout, name: str) -> bool:
    return os.path.isfile(layout.pack(name) / "zarr.json")


def open_pack(layout: Layout, name: str, schema: Schema) -> Pack:
    """A pack, read once while it is at hand; DamagedError where it is not whole."""
    try:
        state = os.stat(layout.pack(name) / "zarr.json")
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"{layout.pack(name)} is missing") from None
    return _open(layout.root, name, schema, (state.st_ino, state.st_mtime_ns))


@lru_cache(_OPEN)
def _open(root: Path, name: str, schema: Schema, _state: tuple[int, int]) -> Pack:
    path = Layout(root).pack(name)
    prints = prints_in(path)
    if not _is_of(prints, name):
        raise DamagedError(f"{path} is damaged: it holds other blocks than its name says")
    sizes, start, pack = {block: size_of(block) for block in sorted(prints)}, 0, Pack()
    outputs = read_outputs(path, schema, sum(sizes.values()))
    for block, size in sizes.items():
        pack[block] = outputs[start : start + size], prints[block]
        start += size
    return pack


def forget_packs() -> None:
    """Read packs anew: what lies in their files is to be checked, or they are another store's by now."""
    _holders.clear()
    _recorded.clear()
    _open.cache_clear()
