"""Samples in the store: a block of a few chunks is one Zarr array, one file, one writer, one record, or lies in a pack."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from hpcdp.errors import DamagedError
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.store.arrays import fingerprint
from hpcdp.store.fence import discard
from hpcdp.store.layout import Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.packs import (
    are_prints,
    open_pack,
    pack_of,
    prints_in,
    read_chunks,
    read_outputs,
    recorded_pack,
    recorded_packs,
    write_outputs,
)
from hpcdp.store.records import has_record, read_records, set_aside
from hpcdp.store.stages import Stage

SAMPLES = "samples"
"""The kind of records of blocks that lie in no pack."""

Drawn = Mapping[str, Iterator[Outputs] | Sequence[Outputs]]


def write_blocks(
    path: Path, schema: Schema, blocks: Drawn, size: int, chunk: int | None = None
) -> dict[str, list[str]]:
    """Write blocks, by name in order, with their chunks, as one array of so many outputs; returns the chunks' fingerprints."""
    prints: dict[str, list[str]] = {block: [] for block in blocks}

    def parts() -> Iterator[Outputs]:
        for block, chunks in blocks.items():
            for part in chunks:
                prints[block].append(fingerprint(part))
                yield part

    write_outputs(path, schema, parts(), size, chunk, {"blocks": prints})
    return prints


def read_blocks(
    layout: Layout, stage: Stage, law: str, schema: Schema, chunks: range, out: Outputs | None = None
) -> Iterator[Outputs]:
    """The stored chunks of a range, each checked against its fingerprint, into `out` of all the stage; DamagedError names one."""
    for block, group in groupby(chunks, stage.block_of):
        begin = stage.block_chunks(block).start
        numbers, first = [chunk - begin for chunk in group], begin * stage.chunk
        place = None if out is None else out[first : first + stage.block_size(block)]
        number = 0
        try:
            parts, prints = _open(layout, stage, law, block, schema, numbers, place)
            for number in numbers:
                part = next(parts)
                if fingerprint(part) != prints[number]:
                    reason = "its bytes do not match their checksum"
                    raise DamagedBlock(law, stage, block, begin + number, layout, reason)
                yield part
        except DamagedBlock:
            raise
        except DamagedError as error:
            if place is not None:  # all were read at once, so one by one they tell which it is
                deque(read_blocks(layout, stage, law, schema, stage.block_chunks(block)), 0)
            raise DamagedBlock(law, stage, block, begin + number, layout, str(error)) from None


def _open(
    layout: Layout, stage: Stage, law: str, block: int, schema: Schema, numbers: Sequence[int], out: Outputs | None
) -> tuple[Iterator[Outputs], list[str]]:
    """Chunks of a block by their numbers in it, as they are asked for, and the fingerprints of all of the block."""
    name, size = stage.name_of(law, block), stage.block_size(block)
    (kind, record), path = place_of(layout, stage, law, block)
    outputs = None
    if kind == PACKS:
        outputs, prints = open_pack(layout, record, schema)[name]
    else:
        prints = prints_in(path).get(name)
        if out is not None:
            outputs = read_outputs(path, schema, size, out)
    if not _are_of(prints, stage, block):
        raise DamagedError("it has other fingerprints than one a chunk")
    if outputs is None:
        return read_chunks(path, schema, size, stage.chunk, numbers), prints
    if out is not None and outputs is not out:
        out[...] = outputs
    return (outputs[i * stage.chunk : (i + 1) * stage.chunk] for i in numbers), prints


def _are_of(prints: Any, stage: Stage, block: int) -> bool:
    """Whether they are one text for each chunk of a block."""
    return are_prints(prints) and len(prints) == len(stage.block_chunks(block))


def place_of(layout: Layout, stage: Stage, law: str, block: int) -> tuple[tuple[str, str], Path]:
    """The record of a block, by kind and name, and where its outputs are, or those of the pack in which it lies."""
    name = stage.name_of(law, block)
    own = layout.block(name)
    if not own.is_dir() and (pack := pack_of(layout, name) or recorded_pack(layout, name)) is not None:
        return (PACKS, pack), layout.pack(pack)
    return (SAMPLES, name), own


def known_prints(layout: Layout, stage: Stage, laws: Container[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Law, number and the fingerprints of the chunks of every block of a stage of these laws; none of damaged records."""
    own = ((name, body.get("fingerprints")) for name, body in read_records(layout, SAMPLES) if isinstance(body, dict))
    packed = (block for _, blocks in recorded_packs(layout) if isinstance(blocks, Mapping) for block in blocks.items())
    prints: Any
    for name, prints in chain(own, packed):
        if (place := stage.block_named(name)) is not None and place[0] in laws and _are_of(prints, stage, place[1]):
            yield *place, prints


def set_block_aside(layout: Layout, kind: str, name: str) -> None:
    """Take a block, or a pack, out of use; of a block that lies in a pack, its pack."""
    assert layout.generation is not None
    if kind == SAMPLES and not has_record(layout, kind, name):
        discard(layout, layout.generation, layout.block(name))
        if (pack := recorded_pack(layout, name)) is None:
            return
        kind, name = PACKS, pack
    set_aside(layout, kind, name)
    discard(layout, layout.generation, layout.pack(name) if kind == PACKS else layout.block(name))


class DamagedBlock(DamagedError):
    """A stored block that cannot be used. record: the one to set aside, by kind and name, its own or that of its pack."""

    def __init__(self, law: str, stage: Stage, block: int, chunk: int, layout: Layout, reason: str) -> None:
        self.record, path = place_of(layout, stage, law, block)
        super().__init__(f"{stage.name} chunk {chunk} of {layout.relative(path)} is damaged or missing: {reason}")
        self.arguments = (law, stage, block, chunk, layout, reason)

    def __reduce__(self) -> tuple[type[DamagedBlock], tuple[Any, ...]]:
        return type(self), self.arguments
