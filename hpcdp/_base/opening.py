"""Arrays opened only in the forms that are expected: a store, or an array of samples, may come from a stranger.

zarr does what metadata says. It looks codecs up by name, of which some run code that the array holds, and it prefers no
format. So metadata is read and checked here. What hpcdp wrote is decoded here too, since zarr takes 0.3 s to load and 1 ms an
array; for arrays that others wrote, zarr gets what passed the check, not the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import psutil
from numpy.typing import NDArray

from hpcdp._base.files import open_regular, read_metadata

_TYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)
_MOST_CHUNKS = 1 << 16  # in one file
_MOST_DIMENSIONS = 8
_MOST_CHECKS = 4  # of root arrays, whose versions differ in it
_UNASKED = 1 << 28  # bytes that need no look at how much memory is free

_FOREIGN_CODECS = (
    "blosc",
    "bytes",
    "crc32c",
    "gzip",
    "sharding_indexed",
    "transpose",
    "vlen-bytes",
    "vlen-utf8",
    "zstd",
)
_FOREIGN_TYPES = (*_TYPES, "string", "variable_length_bytes", "fixed_length_utf32", "null_terminated_bytes")
_OLD_CODECS = ("blosc", "bz2", "gzip", "lz4", "lzma", "vlen-bytes", "vlen-utf8", "zlib", "zstd")


def read_own(path: Path, *shapes: tuple[int, ...], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """A whole array in the one form that `write_array` gives it: format 3, numbers, one file, no compression.

    shapes: those that it may have. out: where it is put if its shape and type are these. Raises ValueError or another error
    where it has another form, OSError where a file cannot be read.
    """
    shape, dtype, chunks = _describe(path, shapes)
    array = out if out is not None and (out.shape, out.dtype) == (shape, dtype) else np.empty(shape, dtype)
    if array.size:
        with chunks.opened():
            _fill(array, chunks)
    return array


def read_rows(path: Path, rows: int, some: Sequence[int], *shapes: tuple[int, ...]) -> Iterator[NDArray[Any]]:
    """Some of an array's parts of so many rows, the last of which may have fewer, each read when it is asked for.

    shapes: as in `read_own`, which raises alike.
    """
    shape, dtype, chunks = _describe(path, shapes)
    if chunks.inner != (min(rows, shape[0]), *shape[1:]):
        whole = read_own(path, shape)
        yield from (whole[rows * i : rows * (i + 1)] for i in some)
        return
    with chunks.opened():
        for i in some:
            part = np.empty(chunks.inner, dtype.newbyteorder("<"))
            chunks.read((i, *[0] * (len(shape) - 1)), part)
            yield part[: shape[0] - rows * i].astype(dtype, copy=False)


def _describe(path: Path, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], np.dtype[Any], _Chunks]:
    """Shape, type and chunks of an array."""
    found = read_metadata(path / "zarr.json")
    shape = _sizes("shape", found["shape"])
    if shapes and shape not in shapes:
        raise ValueError(f"it has shape {shape}; it should have {' or '.join(map(str, shapes))}")
    chunk = _sizes("chunk_shape", found["chunk_grid"]["configuration"]["chunk_shape"], shape)
    _refuse_others("data_type", [found["data_type"]], _TYPES)
    dtype, codecs = np.dtype(found["data_type"]), found["codecs"]
    size = _encoded(codecs, chunk, dtype.itemsize)
    if any(n > c for n, c in zip(shape, chunk, strict=True)):
        raise ValueError(f"shape {shape} in files of {chunk}; accepted: one file")
    if size > _UNASKED:
        refuse_more_than_free(2 * size)
    return shape, dtype, _Chunks(path.joinpath("c", *["0"] * len(shape)), size, codecs, chunk)


class _Chunks:
    """The chunks of one file of at most `most` bytes, of codecs that `_encoded` accepts. inner: their shape."""

    def __init__(self, path: Path, most: int, codecs: Any, chunk: tuple[int, ...]) -> None:
        self._path, self._most, self._index_checks = path, most, None
        self.inner, own = chunk, codecs
        if _names(codecs, nested=False) == ["sharding_indexed"]:
            shard = codecs[0]["configuration"]
            self.inner, own = tuple(shard["chunk_shape"]), shard["codecs"]
            self._index_checks = len(shard["index_codecs"]) - 1
        self._checks, self.counts = len(own) - 1, _counts(chunk, self.inner)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Within, they may be read."""
        with open_regular(self._path, self._most) as self._file:
            if self._index_checks is not None:
                self._index = np.empty((*self.counts, 2), "<u8")
                length = self._index.nbytes + 4 * self._index_checks
                start = os.fstat(self._file.fileno()).st_size - length
                _read_chunk(self._file, start, length, self._index, self._index_checks)
            yield

    def read(self, number: tuple[int, ...], part: NDArray[Any]) -> None:
        """One of them, of little-endian numbers, in one piece."""
        start, length = 0, part.nbytes + 4 * self._checks
        if self._index_checks is not None:
            start, length = self._index[number].tolist()
        _read_chunk(self._file, start, length, part, self._checks)


def _fill(array: NDArray[Any], chunks: _Chunks) -> None:
    """Read all chunks, each straight to its place where that is one piece."""
    stored, inner = array.dtype.newbyteorder("<"), chunks.inner
    for number in np.ndindex(chunks.counts):
        where: list[Any] = [slice(i * n, (i + 1) * n) for i, n in zip(number, inner, strict=True)]
        place = array[(*where, ...)]
        is_whole = place.shape == inner and place.flags.c_contiguous and stored == array.dtype
        part = place if is_whole else np.empty(inner, stored)
        chunks.read(number, part)
        if not is_whole:
            place[...] = part[tuple(slice(n) for n in place.shape)]  # a part reaches beyond the array


def _read_chunk(file: BufferedReader, start: int, length: int, part: NDArray[Any], checks: int) -> None:
    """Numbers under so many checksums, each of all before it; ValueError where one does not match."""
    words = bytearray(4 * checks)
    data = part.reshape(-1).view(np.uint8)
    if length != data.size + len(words) or not 0 <= start <= os.fstat(file.fileno()).st_size - length:
        raise ValueError("a chunk lies elsewhere than it should")
    file.seek(start)
    if file.readinto(data.data) + file.readinto(words) != length:
        raise ValueError("it ends too early")
    check = google_crc32c.value(data) if checks else 0
    for word in (words[i : i + 4] for i in range(0, len(words), 4)):
        if check != int.from_bytes(word, "little"):
            raise ValueError("a checksum does not match")
        check = google_crc32c.extend(check, bytes(word))


def read_foreign(path: Path) -> NDArray[Any]:
    """A whole array of numbers or strings that others wrote, compressed or not, of format 2 or 3; raises as `read_own`."""
    old = not (path / "zarr.json").is_file()
    found = read_metadata(path / ".zarray", 2) if old else read_metadata(path / "zarr.json")
    if old:
        codecs = [*(found.get("filters") or ()), *([found["compressor"]] if found.get("compressor") else ())]
        _refuse_others("codec", [codec["id"] for codec in codecs], _OLD_CODECS)
        strings = any(codec["id"].startswith("vlen-") for codec in codecs)
        dtype = np.dtype(found["dtype"]) if isinstance(found["dtype"], str) else np.dtype(object)
        if dtype.kind not in "biufSU" and not strings:
            raise ValueError(f"dtype: {found['dtype']!r}; accepted: numbers, booleans and strings")
    else:
        _refuse_others("data_type", [_name(found["data_type"])], _FOREIGN_TYPES)
        _refuse_others("codec", _names(found["codecs"]), _FOREIGN_CODECS)
    from zarr.storage import LocalStore, StorePath

    from hpcdp._base._zarr import zarr

    return np.asarray(zarr.Array.from_dict(StorePath(LocalStore(path, read_only=True)), found)[...])


def _sizes(name: str, value: Any, shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Lengths along the axes; of chunks of an array of this shape, at least 1 each."""
    least = 0 if shape is None else 1
    right = isinstance(value, list) and all(type(n) is int and least <= n < 1 << 62 for n in value)
    if not right or len(value) > _MOST_DIMENSIONS or (shape is not None and len(value) != len(shape)):
        raise ValueError(f"{name}: {str(value)[:100]}; accepted: a length for each axis")
    return tuple(value)


def _encoded(codecs: Any, chunk: tuple[int, ...], itemsize: int) -> int:
    """Bytes that one file may take, of chunks with these codecs; ValueError unless they are those that `write_array` uses."""
    names = _names(codecs, nested=False)
    if names != ["sharding_indexed"]:
        return _plain(codecs, chunk, itemsize)
    own = codecs[0]["configuration"]
    inner = _sizes("chunk_shape", own["chunk_shape"], chunk)
    counts = _counts(chunk, inner)
    if prod(counts) > _MOST_CHUNKS:
        raise ValueError(f"{prod(counts):,} chunks in one file; accepted: at most {_MOST_CHUNKS:,}")
    if own.get("index_location", "end") != "end":
        raise ValueError(f"index_location: {str(own['index_location'])[:100]}; accepted: end")
    return prod(counts) * _plain(own["codecs"], inner, itemsize) + _plain(own["index_codecs"], (prod(counts), 2), 8)


def _counts(chunk: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...]:
    """How many inner chunks lie along each axis of a shard."""
    return tuple(-(-n // m) for n, m in zip(chunk, inner, strict=True))


def _plain(codecs: Any, chunk: tuple[int, ...], itemsize: int) -> int:
    names = _names(codecs, nested=False)
    checks = len(names) - 1
    if names != ["bytes", *["crc32c"] * checks] or checks > _MOST_CHECKS:
        raise ValueError(f"codecs: {str(names)[:200]}; accepted: bytes, crc32c")
    endian = codecs[0].get("configuration", {}).get("endian", "little") if isinstance(codecs[0], dict) else "little"
    if endian != "little":
        raise ValueError(f"endian: {str(endian)[:100]}; accepted: little")
    return prod(chunk) * itemsize + 4 * max(1, checks)


def refuse_more_than_free(size: int) -> None:
    """ValueError where so many bytes are more than are free."""
    if size > (free := psutil.virtual_memory().available):
        raise ValueError(f"it would take {size:,} bytes of memory, and {free:,} are free")


def _names(codecs: Any, nested: bool = True) -> list[str]:
    """Names of codecs in the order of the list; nested: of those within shards too."""
    if not isinstance(codecs, list):
        raise ValueError(f"codecs: {type(codecs).__name__}; accepted: a list")
    names = []
    for codec in codecs:
        names.append(_name(codec))
        own = codec.get("configuration", {}) if isinstance(codec, dict) else {}
        if nested:
            names += [name for key in ("codecs", "index_codecs") if key in own for name in _names(own[key])]
    return names


def _name(value: Any) -> str:
    """The name of a codec or data type, which may be a table with a configuration."""
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise ValueError(f"{str(value)[:100]}; accepted: a name")
    return name


def _refuse_others(what: str, names: Sequence[Any], accepted: Sequence[str]) -> None:
    for name in names:
        if name not in accepted:
            raise ValueError(f"{what}: {str(name)[:100]!r}; accepted: {', '.join(accepted)}")
