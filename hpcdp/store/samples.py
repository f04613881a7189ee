"""Samples in the store: a block of a few chunks is one Zarr array, one file, one writer, one record, or lies in a pack."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from hpcdp.errors import DamagedError
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.store._outputs import read_chunks, read_outputs, write_outputs
from hpcdp.store.arrays import fingerprint
from hpcdp.store.fence import behind, replace
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.packs import KIND, is_pack, open_pack, pack_of, read_packs
from hpcdp.store.records import commit, read_json, record_names, set_aside
from hpcdp.store.stages import Stage


def write_block(
    layout: Layout,
    stage: Stage,
    law: str,
    block: int,
    schema: Schema,
    generation: Generation,
    draw: Callable[[int], Outputs],
) -> list[str]:
    """Draw a block's chunks, write them, then the record; returns the chunks' fingerprints."""
    path = layout.block(law, stage.name, block, stage.block_size(block))
    record = layout.record("samples", stage.name_of(law, block))
    prints: list[str] = []

    def drawn() -> Iterator[Outputs]:
        for chunk in stage.block_chunks(block):
            part = draw(chunk)
            prints.append(fingerprint(part))
            yield part

    with behind(layout, generation) as new:
        write_outputs(new, schema, drawn(), stage.block_size(block), stage.chunk)
        if (
            record.is_file()
        ):  # another worker was faster; its outputs may differ where the mechanism is not reproducible
            found: list[str] = read_json(record)["fingerprints"]
            return found
        replace(layout, generation, new, path)
    commit(layout, "samples", stage.name_of(law, block), {"fingerprints": prints}, generation)
    return prints


def read_blocks(
    layout: Layout, stage: Stage, law: str, schema: Schema, chunks: range, out: Outputs | None = None
) -> Iterator[Outputs]:
    """The stored chunks of a range in order, each checked against its fingerprint; DamagedError names what is not.

    out: of all outputs of the stage, where each is put; numbers are read straight to their place.
    """
    for block, some in groupby(chunks, stage.block_of):
        begin = stage.block_chunks(block).start
        numbers, first = [chunk - begin for chunk in some], begin * stage.chunk
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
    record, path = place_of(layout, stage, law, block)
    size = stage.block_size(block)
    outputs = None
    if is_pack(record):
        outputs, prints = open_pack(layout, record, schema).block(stage.name_of(law, block))
    else:
        prints = _prints_at(layout.record("samples", record))
        if out is not None:
            outputs = read_outputs(path, schema, size, out)
    if not _are_of(prints, stage, block):
        raise DamagedError("its record has other fingerprints than one a chunk")
    if outputs is None:
        return read_chunks(path, schema, size, stage.chunk, numbers), prints
    if out is not None and outputs is not out:
        out[...] = outputs
    return (outputs[i * stage.chunk : (i + 1) * stage.chunk] for i in numbers), prints


def _prints_at(record: Path) -> Any:
    body = read_json(record)
    return body.get("fingerprints") if isinstance(body, dict) else None


def _are_of(prints: Any, stage: Stage, block: int) -> bool:
    """Whether they are one text for each chunk of a block."""
    right = isinstance(prints, list) and all(isinstance(text, str) for text in prints)
    return right and len(prints) == len(stage.block_chunks(block))


def place_of(layout: Layout, stage: Stage, law: str, block: int) -> tuple[str, Path]:
    """The record of a block and where its outputs are, or those of the pack that holds it; its own, if there is neither."""
    name = stage.name_of(law, block)
    if (pack := pack_of(layout, name, own=True)) is not None:
        return pack, layout.pack(pack)
    return name, layout.block(law, stage.name, block, stage.block_size(block))


def known_prints(layout: Layout, stage: Stage, laws: Container[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Law, number and the fingerprints of the chunks of every block of a stage of these laws; none of damaged records."""
    for name, prints in _all_prints(layout):
        if (found := stage.block_named(name)) is not None and found[0] in laws:
            with suppress(DamagedError):
                known = prints()
                if _are_of(known, stage, found[1]):
                    yield *found, known


def _all_prints(layout: Layout) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The name of every block, and what reads what its record has for fingerprints."""
    for name in record_names(layout, "samples"):
        yield name, partial(_prints_at, layout.record("samples", name))
    for _, blocks in read_packs(layout):
        for name, prints in {}.items() if isinstance(blocks, DamagedError) else blocks.items():
            yield name, partial(list, prints)


def set_block_aside(layout: Layout, record: str) -> None:
    """Take a block, or the pack in which it lies, out of use, by the name of the record of either."""
    pack = record if is_pack(record) else pack_of(layout, record)
    if pack is not None:
        set_aside(layout, KIND, pack)
    if pack != record:
        set_aside(layout, "samples", record)


class DamagedBlock(DamagedError):
    """A stored block that cannot be used; `record` is the record to set aside, its own or that of its pack."""

    def __init__(self, law: str, stage: Stage, block: int, chunk: int, layout: Layout, reason: str) -> None:
        self.record, path = place_of(layout, stage, law, block)
        super().__init__(f"{stage.name} chunk {chunk} of {layout.relative(path)} is damaged or missing: {reason}")
        self.arguments = (law, stage, block, chunk, layout, reason)

    def __reduce__(self) -> tuple[type[DamagedBlock], tuple[Any, ...]]:
        return type(self), self.arguments
