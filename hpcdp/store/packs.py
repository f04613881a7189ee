"""Packs: very many small blocks of samples, one task's, in one array with one record, so that none costs files of its own.

A pack is named by the names of its blocks, in whose order their outputs lie. What takes a block out of use takes its pack.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from hpcdp.errors import DamagedError
from hpcdp.keys import digest_json
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.store._outputs import read_outputs, write_outputs
from hpcdp.store.arrays import fingerprint
from hpcdp.store.fence import replacing
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, read_json, record_names

KIND = "packs"
"""Of their records."""

PACK_BYTES = 8 << 20
"""Of outputs in a pack: as much is read to have one block of it."""

_OPEN = 4  # packs that stay in memory: those that a run meets next to each other


def is_pack(record: str) -> bool:
    """Whether a record that holds a block is a pack's, by its name."""
    return "-" not in record


def write_packs(
    layout: Layout, schema: Schema, blocks: Iterable[tuple[str, list[Outputs]]], generation: Generation
) -> None:
    """Write blocks, given by the names of their records with their chunks, into packs as they come, each before its record."""
    some: dict[str, list[Outputs]] = {}
    size = 0
    for block, parts in blocks:
        some[block] = parts
        size += sum(sum(map(len, part)) if part.dtype == object else part.nbytes for part in parts)
        if size >= PACK_BYTES:
            _write_pack(layout, schema, some, generation)
            some, size = {}, 0
    if some:
        _write_pack(layout, schema, some, generation)


def _write_pack(layout: Layout, schema: Schema, blocks: Mapping[str, list[Outputs]], generation: Generation) -> None:
    order = sorted(blocks)
    name = _name_of(order)
    if layout.record(KIND, name).is_file():
        return  # another worker was faster, with the same bits
    with replacing(layout, generation, layout.pack(name)) as new:
        parts = [part for block in order for part in blocks[block]]
        write_outputs(new, schema, parts, sum(map(len, parts)))
    prints = {block: [fingerprint(part) for part in parts] for block, parts in blocks.items()}
    commit(layout, KIND, name, {"fingerprints": prints}, generation)


def _name_of(blocks: Iterable[str]) -> str:
    return digest_json(sorted(blocks))


def read_packs(layout: Layout) -> Iterator[tuple[str, dict[str, list[str]] | DamagedError]]:
    """The name of every pack, and its blocks with the fingerprints of their chunks, or what is wrong with its record."""
    for name in sorted(record_names(layout, KIND)):
        try:
            yield name, _read_prints(layout, name)
        except DamagedError as error:
            yield name, error


def _read_prints(layout: Layout, name: str) -> dict[str, list[str]]:
    path = layout.record(KIND, name)
    body = read_json(path)
    prints = body.get("fingerprints") if isinstance(body, dict) else None
    if (
        not isinstance(prints, dict)
        or _name_of(prints) != name
        or not all(_size(block) and isinstance(some, list) for block, some in prints.items())
    ):
        raise DamagedError(f"the record {path} is damaged (it is no pack)")
    return prints


def _size(block: str) -> int:
    """Outputs of a block, from the name of its record; 0 of what is none."""
    size = block.rpartition("-")[2]
    return int(size) if size.isdecimal() and len(size) < 20 else 0


@dataclass(frozen=True, eq=False)
class Pack:
    """What a pack holds. starts: where each block's outputs begin. prints: of each block's chunks."""

    starts: Mapping[str, int]
    prints: Mapping[str, list[str]]
    outputs: Outputs = field(repr=False)

    def block(self, name: str) -> tuple[Outputs, list[str]]:
        """A block's outputs, and the fingerprints of its chunks."""
        start = self.starts[name]
        return self.outputs[start : start + _size(name)], self.prints[name]


_holders: dict[Path, dict[str, str]] = {}
"""Of the last store: the pack of each block. A pack's name says what is in it, so that its record is read once for that."""


def pack_of(layout: Layout, block: str, own: bool = False) -> str | None:
    """The pack that holds a block, by the name of the block's record; None where there is none.

    own: whether the block may have a record of its own, which is looked for before packs that were not read yet.
    """
    found = _holders.get(layout.root, {}).get(block)
    if found is not None and os.path.isfile(_record(layout, found)):
        return found
    if own and layout.record("samples", block).is_file():
        return None
    return known_packs(layout).get(block)


@lru_cache(_OPEN)
def _record(layout: Layout, name: str) -> str:
    """The path of a pack's record, as text: it is asked for with every block."""
    return str(layout.record(KIND, name))


def known_packs(layout: Layout) -> Mapping[str, str]:
    """The pack of each block that lies in one, as records say now; one that is damaged holds nothing."""
    known, names = _holders.get(layout.root, {}), record_names(layout, KIND)
    read = set(known.values())
    if read != names:
        known = {block: pack for block, pack in known.items() if pack in names}
        for name in names - read:
            with suppress(DamagedError):
                known.update(dict.fromkeys(_read_prints(layout, name), name))
        _holders.clear()
        _holders[layout.root] = known
    return known


def open_pack(layout: Layout, name: str, schema: Schema) -> Pack:
    """A pack, read once while it is at hand; DamagedError where it is not whole."""
    try:
        state = os.stat(_record(layout, name))
    except FileNotFoundError:
        raise DamagedError(f"no record at {layout.record(KIND, name)}") from None
    return _open(layout.root, name, schema, (state.st_ino, state.st_mtime_ns))


@lru_cache(_OPEN)
def _open(root: Path, name: str, schema: Schema, _state: tuple[int, int]) -> Pack:
    layout, starts, size = Layout(root), {}, 0
    prints = _read_prints(layout, name)
    for block in sorted(prints):
        starts[block] = size
        size += _size(block)
    return Pack(starts, prints, read_outputs(layout.pack(name), schema, size))


def forget_packs() -> None:
    """Read packs anew: what lies in their files is to be checked, or they are another store's by now."""
    _holders.clear()
    _open.cache_clear()
