"""Outputs as Zarr arrays: numbers as they are, booleans eight in a byte, strings as their bytes and where each begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.errors import DamagedError
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.store.arrays import read_array, read_parts, write_array, write_parts
from hpcdp.store.layout import group_metadata

_OTHER = "it has another shape or type than it should"


def write_outputs(
    path: Path,
    schema: Schema,
    parts: Iterable[Outputs],
    size: int,
    chunk: int | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write canonical outputs, so many in all, as they come; chunk: how many lie in a Zarr chunk, and in each part but the
    last, None: all. attributes: as they are once all parts were written.
    """
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
    """So many outputs; DamagedError where they are missing, of another shape or type, or a checksum does not match.

    out: where they may be put.
    """
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
