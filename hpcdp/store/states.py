"""States in the store: the named arrays of one object in a file of NumPy's, npz."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.files import open_regular
from hpcdp.keys import digest_array, digest_json
from hpcdp.store.arrays import damage_of, refuse_more_than_free

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


def state_bytes(state: State) -> bytes:
    """The same in memory."""
    file = io.BytesIO()
    dump_state(file, state)
    return file.getvalue()


def read_state(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays by name; DamagedError where there are none, or a checksum does not match."""
    with damage_of(path), open_regular(path, _MOST) as file, zipfile.ZipFile(file) as parts:
        refuse_more_than_free(sum(part.file_size for part in parts.infolist()))
        for part in parts.infolist():
            _refuse_other_size(parts, part)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            state = {name: arrays[name] for name in arrays.files}
        if state.pop(_CHECKSUM, np.zeros(0)).tolist() != _checksum(state).tolist():
            raise ValueError("its values do not match their checksum")
    return state


def _refuse_other_size(parts: zipfile.ZipFile, part: zipfile.ZipInfo) -> None:
    """ValueError where an array says that it is larger than it is."""
    with parts.open(part) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if math.prod(shape) * dtype.itemsize > part.file_size:
        raise ValueError(f"{part.filename} has {part.file_size} bytes, too few for its shape, {shape}")
