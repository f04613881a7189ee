"""Zarr arrays in the one form that hpcdp writes: format 3, numbers, one file, a checksum a chunk; all else is damage. States.

A state is the named arrays of one object in a file of NumPy's, npz.

A store may come from a stranger, and zarr does what metadata says: it looks codecs up by name, of which some run code that the
array holds. So an array is read only where its metadata are what hpcdp writes for its shape and type, and decoded here: zarr
takes 0.3 s to load, and five to ten times as long to read or write.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import psutil
from numpy.typing import NDArray

from hpcdp._base.files import open_regular, read_metadata
from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array, digest_json

_TYPES = {np.dtype(code).name for code in "?efdbhilBHIL"}
_MOST_DIMENSIONS = 8
_UNASKED = 1 << 28  # bytes that need no look at how much memory is free
_CHECK = 4  # bytes of a checksum


def write_array(
    path: Path,
    array: NDArray[Any],
    chunk: int | None = None,
    names: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write an array as zarr does, format 3; `chunk` rows a chunk, all in one shard. Its parent is there, or it is an error."""
    rows = array.shape[0] if array.shape else 1
    inner = max(1, min(chunk or rows, rows))
    parts = (array[start : start + inner] for start in range(0, rows, inner)) if array.shape else (array,)
    write_parts(path, array.shape, array.dtype, parts, inner, names, attributes)


def write_parts(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    parts: Iterable[NDArray[Any]],
    chunk: int,
    names: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write an array whose parts come one after another, each of `chunk` rows but for the last, as `write_array` does."""
    try:
        path.mkdir()
    except FileExistsError:
        shutil.rmtree(path)
        path.mkdir()
    inner = min(chunk, max(1, shape[0]) if shape else 1)
    if 0 not in shape:  # there is no chunk of nothing
        file_path = _file_of(path, shape)
        for folder in [*file_path.parents][: len(shape)][::-1]:
            folder.mkdir()  # never its parents: where the store was deleted, it is not made anew
        with file_path.open("xb") as file:
            for part in parts:
                _write_checked(file, part if not shape or len(part) == inner else _filled(part, inner))
            if shape and inner < shape[0]:
                _write_checked(file, _index(shape, dtype, inner))
    form = _form(shape, dtype, inner)
    told = {**form, "attributes": dict(attributes or {}), **({"dimension_names": list(names)} if names else {})}
    (path / "zarr.json").write_text(json.dumps({key: told[key] for key in _KEYS if key in told}, indent=2))


def _file_of(path: Path, shape: tuple[int, ...]) -> Path:
    return path.joinpath("c", *["0"] * len(shape))


_KEYS = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes", "dimension_names",
         "zarr_format", "node_type", "storage_transformers")  # fmt: skip
"""Keys of an array's metadata, as zarr orders them."""


@lru_cache(64)  # a run writes many arrays of few forms
def _form(shape: tuple[int, ...], dtype: np.dtype[Any], inner: int) -> dict[str, Any]:
    """What zarr.json says but for names and attributes. inner: rows of a chunk."""
    codecs = [_bytes_codec(dtype), {"name": "crc32c"}]
    chunk = [inner, *(max(1, n) for n in shape[1:])] if shape else []
    if shape and inner < shape[0]:
        index = [_bytes_codec(np.dtype(np.uint64)), {"name": "crc32c"}]
        own = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": index, "index_location": "end"}
        chunk = [-(-shape[0] // inner) * inner, *chunk[1:]]
        codecs = [{"name": "sharding_indexed", "configuration": own}]
    return {
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        # what a reader gets where a chunk is missing
        "fill_value": "NaN" if dtype.kind == "f" else dtype.type(0).item(),
        "codecs": codecs,
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _bytes_codec(dtype: np.dtype[Any]) -> dict[str, Any]:
    return {"name": "bytes", **({"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {})}


def _chunk_bytes(shape: tuple[int, ...], dtype: np.dtype[Any], inner: int) -> int:
    """Bytes of a chunk, without its checksum."""
    return dtype.itemsize * (inner * prod(shape[1:]) if shape else 1)


def _index(shape: tuple[int, ...], dtype: np.dtype[Any], inner: int) -> NDArray[Any]:
    """At the end of a file of several chunks: where each begins and how long it is, (chunks, 2)."""
    length = _chunk_bytes(shape, dtype, inner) + _CHECK
    starts = np.arange(-(-shape[0] // inner)) * length
    return np.column_stack([starts, np.full_like(starts, length)]).astype("<u8")


def _filled(values: NDArray[Any], rows: int) -> NDArray[Any]:
    """The last rows, and up to the end of the chunk what stands for no value."""
    filled = np.full((rows, *values.shape[1:]), np.nan if values.dtype.kind == "f" else 0, values.dtype)
    filled[: len(values)] = values
    return filled


def _write_checked(file: BinaryIO, values: NDArray[Any]) -> None:
    """Little-endian numbers and their checksum."""
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
    file.write(data.data)
    file.write(google_crc32c.value(data).to_bytes(_CHECK, "little"))


def read_array(path: Path, *shapes: tuple[int, ...], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """A whole array, into `out` if that fits; DamagedError when missing, of none of these shapes, or not of its checksum."""
    with damage_of(path):  # whoever reads compares a digest too: a checksum in the file is what somebody wrote there
        shape, dtype, inner = _describe(path, shapes)
        with _opened(path, shape, dtype, inner) as file:  # which has the right length, and memory is there for it
            array = out if out is not None and (out.shape, out.dtype) == (shape, dtype) else np.empty(shape, dtype)
            rows = array if shape else array.reshape(1)
            for start in range(0, len(rows) if array.size else 0, inner):
                part = rows[start : start + inner]
                if len(part) == inner and part.flags.c_contiguous and dtype == dtype.newbyteorder("<"):
                    _read_checked(file, part)
                else:
                    part[...] = _read_checked(file, np.empty((inner, *shape[1:]), dtype.newbyteorder("<")))[: len(part)]
        return array


def read_parts(path: Path, rows: int, numbers: Sequence[int], *shapes: tuple[int, ...]) -> Iterator[NDArray[Any]]:
    """Some of an array's parts of so many rows, the last with fewer perhaps, one after another; DamagedError as `read_array`."""
    with damage_of(path):
        shape, dtype, inner = _describe(path, shapes)
        if inner != min(rows, shape[0]):
            whole = read_array(path, shape)
            yield from (whole[rows * i : rows * (i + 1)] for i in numbers)
            return
        with _opened(path, shape, dtype, inner) as file:
            for i in numbers:
                file.seek(i * (_chunk_bytes(shape, dtype, inner) + _CHECK))
                part = _read_checked(file, np.empty((inner, *shape[1:]), dtype.newbyteorder("<")))
                yield part[: shape[0] - rows * i].astype(dtype, copy=False)


def _describe(path: Path, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and rows of a chunk of an array; ValueError where hpcdp writes no such array."""
    metadata = read_metadata(path / "zarr.json")
    shape, name, (first, *_) = metadata["shape"], metadata["data_type"], metadata["codecs"]
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"shape: {str(shape)[:100]}; accepted: a length for each of at most {_MOST_DIMENSIONS} axes")
    if not isinstance(name, str) or name not in _TYPES:
        raise ValueError(f"data_type: {str(name)[:100]!r}; accepted: {', '.join(sorted(_TYPES))}")
    own = first["configuration"] if first["name"] == "sharding_indexed" else metadata["chunk_grid"]["configuration"]
    inner = own["chunk_shape"][0] if shape else 1
    if type(inner) is not int or not 1 <= inner <= max(1, *shape[:1], 1):
        raise ValueError(f"chunk_shape: {str(inner)[:100]}; accepted: a number of rows")
    form = _form(tuple(shape), np.dtype(name), inner)
    if other := [key for key in form if metadata.get(key) != form[key]]:
        raise ValueError(f"{other[0]}: {str(metadata.get(other[0]))[:200]}; accepted: {str(form[other[0]])[:200]}")
    if shapes and tuple(shape) not in shapes:
        raise ValueError(f"it has shape {tuple(shape)}; it should have {' or '.join(map(str, shapes))}")
    return tuple(shape), np.dtype(name), inner


@contextmanager
def _opened(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], inner: int) -> Iterator[BinaryIO]:
    """The file of an array, at its first chunk, once its length and its index are what they should be."""
    if 0 in shape:  # there is no file
        with open(os.devnull, "rb") as file:
            yield file
        return
    chunks = -(-shape[0] // inner) if shape else 1
    length = chunks * (_chunk_bytes(shape, dtype, inner) + _CHECK)
    size = length + (16 * chunks + _CHECK if chunks > 1 else 0)
    if size > _UNASKED:
        refuse_more_than_free(2 * size)
    with open_regular(_file_of(path, shape), size) as file:
        if (given := os.fstat(file.fileno()).st_size) != size:
            raise ValueError(f"its file has {given:,} bytes; it should have {size:,}")
        if chunks > 1:
            index = _index(shape, dtype, inner)
            file.seek(length)
            if (_read_checked(file, np.empty_like(index)) != index).any():
                raise ValueError("a chunk lies elsewhere than it should")
            file.seek(0)
        yield file


def _read_checked(file: BinaryIO, values: NDArray[Any]) -> NDArray[Any]:
    """Numbers, in one piece, that stand before their checksum; ValueError where it does not match."""
    data, word = values.reshape(-1).view(np.uint8), bytearray(_CHECK)
    if file.readinto(data.data) + file.readinto(word) != data.size + _CHECK:  # type: ignore[attr-defined]
        raise ValueError("it ends too early")
    if google_crc32c.value(data) != int.from_bytes(word, "little"):
        raise ValueError("a checksum does not match")
    return values


def refuse_more_than_free(size: int) -> None:
    """ValueError where so many bytes are more than are free."""
    if size > (free := psutil.virtual_memory().available):
        raise ValueError(f"it would take {size:,} bytes of memory, and {free:,} are free")


@contextmanager
def damage_of(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes a reader stumble over becomes a DamagedError."""
    try:
        yield
    except DamagedError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"{path} is missing") from None
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DamagedError(f"{path} is damaged: {error}") from None


def fingerprint(outputs: NDArray[Any]) -> str:
    """96-bit fingerprint of a chunk of canonical outputs, 24 hexadecimal digits; equal ones are equal (chance: 10⁻²⁸ a pair)."""
    if outputs.dtype == object:
        data = b"".join(len(item).to_bytes(4, "little") + item for item in outputs)
        raw = np.frombuffer(data, np.uint8)
    else:
        raw = np.ascontiguousarray(outputs).reshape(-1).view(np.uint8)
    words, others = raw[: raw.size // 8 * 8].view(np.uint64), raw[raw.size // 8 * 8 :]
    total = int(words.sum(dtype=np.uint64)) + int(others.sum(dtype=np.uint64))
    return f"{google_crc32c.value(raw):08x}{total % (1 << 64):016x}"


_CHECKSUM = ".checksum"  # the name of one more array, which no loss may use
_MOST = 1 << 62  # bytes of a file: memory is what limits them

State = Mapping[str, NDArray[Any]]


def digest_of(state: State) -> str:
    """Digest of the names and values."""
    return digest_json({name: digest_array(array) for name, array in state.items()})


def bytes_of(state: State) -> int:
    """Bytes of all arrays."""
    return sum(array.nbytes for array in state.values())


def _checksum(state: State) -> NDArray[Any]:
    return np.frombuffer(digest_of(state).encode(), np.uint8)


def dump_state(file: BinaryIO, state: State) -> None:
    """Write the arrays by name, and their checksum; equal arrays give equal bytes."""
    np.savez(file, **{**state, _CHECKSUM: _checksum(state)})  # type: ignore[arg-type]


def read_state(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays by name; DamagedError where there are none, or a checksum does not match."""
    with damage_of(path), open_regular(path, _MOST) as file, zipfile.ZipFile(file) as parts:
        refuse_more_than_free(sum(part.file_size for part in parts.infolist()))
        for part in parts.infolist():
            with parts.open(part) as array:
                version = np.lib.format.read_magic(array)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(array)
            if math.prod(shape) * dtype.itemsize > part.file_size:  # it says that it is larger than it is
                raise ValueError(f"{part.filename} has {part.file_size} bytes, too few for its shape, {shape}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            state = {name: arrays[name] for name in arrays.files}
        if state.pop(_CHECKSUM, np.zeros(0)).tolist() != _checksum(state).tolist():
            raise ValueError("its values do not match their checksum")
    return state
