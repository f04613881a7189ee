"""Zarr arrays with checksums, read back or reported as damaged."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.opening import read_own
from hpcdp.errors import DamagedError

_CONFIG: Any = {"write_empty_chunks": True}  # a chunk of zeros is data, a missing chunk is damage


def write_array(
    path: Path,
    array: NDArray[Any],
    chunk: int | None = None,
    names: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    checks: int = 1,
) -> None:
    """Write a numeric array; `chunk` rows a Zarr chunk, all chunks in one shard (one file).

    checks: how many checksums lie around a chunk, one more of each (see `hpcdp.store.results`).
    """
    from zarr.codecs import Crc32cCodec

    from hpcdp._base._zarr import Below, zarr

    shape = array.shape
    rows = max(1, shape[0]) if shape else 1
    inner = min(chunk or rows, rows)
    rest = tuple(max(1, n) for n in shape[1:])
    chunks: Any = (inner, *rest) if shape else ()
    shards: Any = (-(-rows // inner) * inner, *rest) if shape and inner < rows else None
    made = zarr.create_array(
        store=Below(path),
        shape=shape,
        dtype=array.dtype,
        chunks=chunks,
        shards=shards,
        compressors=[Crc32cCodec()] * checks,
        fill_value=0,
        dimension_names=list(names) if names is not None else None,
        attributes=dict(attributes) if attributes else None,
        config=_CONFIG,
        overwrite=True,
    )
    made[...] = array


def read_array(path: Path, *shapes: tuple[int, ...]) -> NDArray[Any]:
    """A whole array; DamagedError when it is missing, has none of these shapes, or a checksum does not match.

    Whoever reads compares a digest too: a checksum in the file is no more than what somebody wrote there.
    """
    try:
        return read_own(path, *shapes)
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"{path} is missing") from None
    except MemoryError:
        raise
    except Exception as error:  # damaged metadata raise whatever they make the reader stumble over
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DamagedError(f"{path} is damaged: {error}") from None


def fingerprint(outputs: NDArray[Any]) -> str:
    """96-bit fingerprint of one chunk of canonical outputs, 24 hexadecimal digits: CRC-32 and the sum of its words.

    Two chunks of continuous outputs share one only when they are equal (chance: 10⁻²⁸ a pair).
    """
    if outputs.dtype == object:
        data = b"".join(len(item).to_bytes(4, "little") + item for item in outputs)
        raw = np.frombuffer(data, np.uint8)
    else:
        raw = np.ascontiguousarray(outputs).reshape(-1).view(np.uint8)
    words = raw[: raw.size // 8 * 8].view(np.uint64)
    total = (int(np.add.reduce(words, dtype=np.uint64)) + int(raw[words.size * 8 :].sum(dtype=np.uint64))) % (1 << 64)
    return f"{zlib.crc32(raw.data):08x}{total:016x}"
