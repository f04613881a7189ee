"""Zarr arrays with checksums, read back or reported as damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from hpcdp._base.files import make_folders
from hpcdp._base.opening import read_own, read_rows
from hpcdp.errors import DamagedError


def write_array(
    path: Path,
    array: NDArray[Any],
    chunk: int | None = None,
    names: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    checks: int = 1,
) -> None:
    """Write a numeric array as a Zarr array of format 3; `chunk` rows a chunk, all chunks in one shard (one file).

    The bytes are those that zarr writes, which takes a quarter of a second to load and ten times as long an array. Every chunk is
    written, also of zeros: a missing one is damage. The folder's parent is there: where it was deleted, it is not made anew.

    checks: how many checksums lie around a chunk, one more of each (see `hpcdp.store.results`).
    """
    rows = array.shape[0] if array.shape else 1
    inner = max(1, min(chunk or rows, rows))
    parts = (array[start : start + inner] for start in range(0, rows, inner)) if array.shape else (array,)
    write_parts(path, array.shape, array.dtype, parts, inner, names, attributes, checks)


def write_parts(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    parts: Iterable[NDArray[Any]],
    chunk: int,
    names: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    checks: int = 1,
) -> None:
    """Write an array whose parts come one after another, each of `chunk` rows but for the last, as `write_array` does."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir()
    rows = max(1, shape[0]) if shape else 1
    inner = min(chunk, rows)
    if 0 not in shape:  # there is no chunk of nothing
        _write_file(path, shape, parts, inner, checks)
    told = _metadata(shape, dtype, inner, checks, tuple(names or ()), json.dumps(dict(attributes or {})))
    (path / "zarr.json").write_text(told)


def _write_file(path: Path, shape: tuple[int, ...], parts: Iterable[NDArray[Any]], inner: int, checks: int) -> None:
    """The chunks, all in one file."""
    rows = shape[0] if shape else 1
    folder = path.joinpath("c", *["0"] * (len(shape) - 1)) if shape else path
    make_folders(path.parent, folder)
    index = []
    with (folder / ("0" if shape else "c")).open("xb") as file:
        for part in parts:
            place = file.tell()
            _write_chunk(file, part if not shape or len(part) == inner else _filled(part, inner), checks)
            index.append((place, file.tell() - place))
        if inner < rows:
            _write_chunk(file, np.array(index, "<u8"), 1)


def _bytes_codec(dtype: np.dtype[Any]) -> dict[str, Any]:
    return {"name": "bytes", **({"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {})}


def _sharded(inner: list[int], codecs: list[dict[str, Any]]) -> dict[str, Any]:
    """The codec of a file that holds several chunks, and at its end where each lies."""
    index = [_bytes_codec(np.dtype(np.uint64)), {"name": "crc32c"}]
    own = {"chunk_shape": inner, "codecs": codecs, "index_codecs": index, "index_location": "end"}
    return {"name": "sharding_indexed", "configuration": own}


@lru_cache(64)  # a run writes many arrays of few forms
def _metadata(
    shape: tuple[int, ...], dtype: np.dtype[Any], inner: int, checks: int, names: tuple[str, ...], attributes: str
) -> str:
    """What zarr.json says. inner: rows of a chunk. attributes: as JSON."""
    codecs = [_bytes_codec(dtype), *[{"name": "crc32c"}] * checks]
    chunk = [inner, *(max(1, n) for n in shape[1:])] if shape else []
    if shape and inner < shape[0]:
        chunk, codecs = [-(-shape[0] // inner) * inner, *chunk[1:]], [_sharded(chunk, codecs)]
    found = {
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": dtype.type(0).item(),
        "codecs": codecs,
        "attributes": json.loads(attributes),
        **({"dimension_names": list(names)} if names else {}),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
    return json.dumps(found, indent=2)


def _filled(values: NDArray[Any], rows: int) -> NDArray[Any]:
    """The last rows, and zeros up to the end of the chunk."""
    found = np.zeros((rows, *values.shape[1:]), values.dtype)
    found[: len(values)] = values
    return found


def _write_chunk(file: BinaryIO, values: NDArray[Any], checks: int) -> None:
    """A chunk's bytes, and as many checksums, each of all before it."""
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
    file.write(data.data)
    check = google_crc32c.value(data)
    for _ in range(checks):
        word = check.to_bytes(4, "little")
        file.write(word)
        check = google_crc32c.extend(check, word)


def read_array(path: Path, *shapes: tuple[int, ...], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """A whole array; DamagedError when it is missing, has none of these shapes, or a checksum does not match.

    out: where it is put if its shape and type are these. Whoever reads compares a digest too: a checksum in the file is no
    more than what somebody wrote there.
    """
    with damage_of(path):
        return read_own(path, *shapes, out=out)


def read_parts(path: Path, rows: int, some: Sequence[int], *shapes: tuple[int, ...]) -> Iterator[NDArray[Any]]:
    """Some of an array's parts of so many rows, one after another; DamagedError as `read_array`."""
    with damage_of(path):
        yield from read_rows(path, rows, some, *shapes)


@contextmanager
def damage_of(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes a reader stumble over becomes a DamagedError."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"{path} is missing") from None
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DamagedError(f"{path} is damaged: {error}") from None


def fingerprint(outputs: NDArray[Any]) -> str:
    """96-bit fingerprint of one chunk of canonical outputs, 24 hexadecimal digits: CRC-32C and the sum of its words.

    Two chunks of continuous outputs share one only when they are equal (chance: 10⁻²⁸ a pair).
    """
    if outputs.dtype == object:
        data = b"".join(len(item).to_bytes(4, "little") + item for item in outputs)
        raw = np.frombuffer(data, np.uint8)
    else:
        raw = np.ascontiguousarray(outputs).reshape(-1).view(np.uint8)
    words, others = raw[: raw.size // 8 * 8].view(np.uint64), raw[raw.size // 8 * 8 :]
    total = int(words.sum(dtype=np.uint64)) + int(others.sum(dtype=np.uint64))
    return f"{google_crc32c.value(raw):08x}{total % (1 << 64):016x}"
