"""Zarr arrays that others wrote, opened only in the forms that are expected: they may come from a stranger.

zarr does what metadata says. It looks codecs up by name, of which some run code that the array holds, and it prefers no
format. So metadata are read and checked here, and zarr gets what passed the check, not the file.

zarr takes 0.3 s to load, so this is imported only where arrays of others are read. At the end of a process zarr 3 waits 0.2 s for
its thread and then closes its event loop, which fails with a traceback if the thread still runs, as it may on a busy machine. So
its end is waited for here, before zarr's own exit function runs.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core import sync
from zarr.storage import LocalStore, StorePath

from hpcdp._base.files import read_metadata

_PATIENCE = 30.0  # seconds
_CODECS = ("blosc", "bytes", "crc32c", "gzip", "sharding_indexed", "transpose", "vlen-bytes", "vlen-utf8", "zstd")
_OLD_CODECS = ("blosc", "bz2", "gzip", "lz4", "lzma", "vlen-bytes", "vlen-utf8", "zlib", "zstd")
_NUMBERS = (
    "bool",
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_TYPES = (*_NUMBERS, "string", "variable_length_bytes", "fixed_length_utf32", "null_terminated_bytes")


def read_foreign(path: Path) -> NDArray[Any]:
    """A whole array of numbers or strings that others wrote, of format 2 or 3; an error where it has another form."""
    old = not (path / "zarr.json").is_file()
    metadata = read_metadata(path / ".zarray", 2) if old else read_metadata(path / "zarr.json")
    if old:
        codecs = [*(metadata.get("filters") or ()), *([metadata["compressor"]] if metadata.get("compressor") else ())]
        _refuse_others("codec", [codec["id"] for codec in codecs], _OLD_CODECS)
        strings = any(codec["id"].startswith("vlen-") for codec in codecs)
        dtype = np.dtype(metadata["dtype"]) if isinstance(metadata["dtype"], str) else np.dtype(object)
        if dtype.kind not in "biufSU" and not strings:
            raise ValueError(f"dtype: {metadata['dtype']!r}; accepted: numbers, booleans and strings")
    else:
        _refuse_others("data_type", [_name(metadata["data_type"])], _TYPES)
        _refuse_others("codec", _names(metadata["codecs"]), _CODECS)
    return np.asarray(zarr.Array.from_dict(StorePath(LocalStore(path, read_only=True)), metadata)[...])


def _names(codecs: Any) -> list[str]:
    """Names of codecs in the order of the list, of those within shards too."""
    if not isinstance(codecs, list):
        raise ValueError(f"codecs: {type(codecs).__name__}; accepted: a list")
    names = []
    for codec in codecs:
        names.append(_name(codec))
        own = codec.get("configuration", {}) if isinstance(codec, dict) else {}
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


def _wait_for_thread() -> None:
    loop, thread = sync.loop[0], sync.iothread[0]
    if loop is not None and thread is not None and thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)


atexit.register(_wait_for_thread)
