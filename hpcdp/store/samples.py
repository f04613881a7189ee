"""Samples in the store: a block of a few chunks is one Zarr array, one file, one writer, one record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.errors import DamagedError
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.store.arrays import fingerprint, read_array, write_array
from hpcdp.store.fence import replacing
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, read_json
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
    parts = [draw(chunk) for chunk in stage.block_chunks(block)]
    record = layout.record("samples", stage.name_of(law, block))
    if record.is_file():  # another worker was faster; its outputs may differ where the mechanism is not reproducible
        found: list[str] = read_json(record)["fingerprints"]
        return found
    prints = [fingerprint(part) for part in parts]
    outputs = parts[0] if len(parts) == 1 else np.concatenate(parts)
    with replacing(layout, generation, path) as new:
        _write(new, stage, schema, outputs)
    commit(layout, "samples", stage.name_of(law, block), {"fingerprints": prints}, generation)
    return prints


def _write(path: Path, stage: Stage, schema: Schema, outputs: Outputs) -> None:
    if schema.kind == "bytes":
        path.mkdir()
        lengths = np.fromiter((len(item) for item in outputs), np.int64, outputs.size)
        write_array(path / "offsets", np.concatenate([[0], np.cumsum(lengths)]))
        write_array(path / "data", np.frombuffer(b"".join(outputs), np.uint8), chunk=1 << 20)
    elif schema.kind == "bool":  # eight in a byte; what is checked and cut is the outputs, whatever holds them
        bits = outputs.size // outputs.shape[0]
        write_array(path, np.packbits(outputs), chunk=-(-stage.chunk * bits // 8))
    else:
        write_array(path, outputs, chunk=stage.chunk)


def read_blocks(layout: Layout, stage: Stage, law: str, schema: Schema, chunks: range) -> Iterator[Outputs]:
    """The stored chunks of a range in order, each checked against its fingerprint; DamagedError names what is not."""
    block, outputs = -1, np.empty(0)
    prints: list[str] = []
    for chunk in chunks:
        if stage.block_of(chunk) != block:
            block = stage.block_of(chunk)
            outputs, prints = _load(layout, stage, law, block, schema)
        number = chunk - stage.block_chunks(block).start
        part = outputs[number * stage.chunk : number * stage.chunk + stage.chunk_size(chunk)]
        if fingerprint(part) != prints[number]:
            raise DamagedBlock(law, stage, block, chunk, layout, "its bytes do not match their checksum")
        yield part


def _load(layout: Layout, stage: Stage, law: str, block: int, schema: Schema) -> tuple[Outputs, list[str]]:
    path = layout.block(law, stage.name, block, stage.block_size(block))
    try:
        prints = read_json(layout.record("samples", stage.name_of(law, block)))["fingerprints"]
        shape = schema.shape(stage.block_size(block))
        if schema.kind == "bytes":
            outputs = _read_strings(path)
        else:
            outputs = _read_bits(path, shape) if schema.kind == "bool" else read_array(path, shape)
        if outputs.shape != shape or outputs.dtype != schema.dtype:
            raise DamagedError("it has another shape or type than it should")
    except DamagedError as error:
        raise DamagedBlock(law, stage, block, stage.block_chunks(block)[0], layout, str(error)) from None
    return outputs, prints


def _read_bits(path: Path, shape: tuple[int, ...]) -> Outputs:
    """Booleans, packed or (as version 0.1.0 wrote them) a byte each."""
    size = prod(shape)
    stored = read_array(path, (-(-size // 8),), shape)
    return np.unpackbits(stored, count=size).view(np.bool_).reshape(shape) if stored.dtype == np.uint8 else stored


def _read_strings(path: Path) -> Outputs:
    offsets, data = read_array(path / "offsets"), read_array(path / "data").tobytes()
    if offsets.ndim != 1 or offsets.size == 0:
        raise DamagedError("it has another shape or type than it should")
    out = np.empty(offsets.size - 1, object)
    out[:] = [data[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    return out


class DamagedBlock(DamagedError):
    """A stored block that cannot be used; `record` is the record to set aside."""

    def __init__(self, law: str, stage: Stage, block: int, chunk: int, layout: Layout, reason: str) -> None:
        self.record = stage.name_of(law, block)
        where = layout.relative(layout.block(law, stage.name, block, stage.block_size(block)))
        super().__init__(f"{stage.name} chunk {chunk} of {where} is damaged or missing: {reason}")
        self.arguments = (law, stage, block, chunk, layout, reason)

    def __reduce__(self) -> tuple[type[DamagedBlock], tuple[Any, ...]]:
        return type(self), self.arguments
