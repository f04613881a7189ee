"""Databases in the store, by their digests: an array each; where very many are small, many in one folder of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array, digest_json
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.fence import replacing
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.states import read_state, write_state

Database = NDArray[Any]

_FEWEST = 256  # that go together: of fewer, files of their own take less than a second
_SMALL = 64 << 10  # bytes of one that does
_BYTES = 32 << 20  # of databases that lie together, all of which are read to have one
_TYPES = ("|b1", "<i8", "<f8")


def store_databases(layout: Layout, databases: Mapping[str, Database], generation: Generation) -> None:
    """Store those that are not there, or not whole."""
    there = read_databases(layout, databases)
    missing = {digest: database for digest, database in databases.items() if digest not in there}
    small = {digest: database for digest, database in missing.items() if _is_small(database)}
    if len(small) < _FEWEST:
        small = {}
    for some in _batches(small):
        folder = layout.database(f"pack-{digest_json(sorted(some))}")
        write_state(layout, folder, _packed([small[digest] for digest in some]), generation)
    for digest in missing.keys() - small.keys():
        with replacing(layout, generation, layout.database(digest)) as new:
            write_array(new, missing[digest])


def read_databases(layout: Layout, digests: Iterable[str]) -> dict[str, Database]:
    """Those of these databases that are there and whole, by digest; what does not match its digest is not."""
    wanted, found = set(digests), {}
    for folder in _packs(layout):
        with suppress(DamagedError):
            for database in _unpacked(folder):
                if (digest := digest_array(database)) in wanted:
                    found[digest] = database
    for digest in wanted - found.keys():
        with suppress(DamagedError):
            database = read_array(layout.database(digest))
            if digest_array(database) == digest:
                found[digest] = database
    return found


def lost_place(layout: Layout, digest: str) -> Path:
    """What is to be named where a database cannot be read: its own array, the first folder of many that is not whole, or, where
    none shows, the folder of all.
    """
    own, folders = layout.database(digest), _packs(layout)
    if own.exists():
        return own
    for folder in folders:
        try:
            list(_unpacked(folder))
        except DamagedError:
            return folder
    return own.parent if folders else own


def _packs(layout: Layout) -> list[Path]:
    return sorted(layout.database("").glob("pack-*"))


def count_files(databases: Sequence[Database]) -> int:
    """Of how many files these databases consist, two an array."""
    small = sum(map(_is_small, databases))
    return 2 * len(databases) if small < _FEWEST else 2 * (len(databases) - small) + 7


def _is_small(database: Database) -> bool:
    return database.nbytes <= _SMALL and database.dtype.str in _TYPES and database.ndim in (1, 2)


def _batches(databases: Mapping[str, Database]) -> Iterator[list[str]]:
    some, size = [], 0
    for digest, database in databases.items():
        some.append(digest)
        size += database.nbytes
        if size >= _BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _packed(databases: list[Database]) -> dict[str, NDArray[Any]]:
    """The bytes of all, and of each its type and shape, (rows, columns), without columns (rows, −1)."""
    return {
        "data": np.concatenate([database.reshape(-1).view(np.uint8) for database in databases]),
        "types": np.array([_TYPES.index(database.dtype.str) for database in databases], np.uint8),
        "shapes": np.array([(*database.shape, -1)[:2] for database in databases], np.int64),
    }


def _unpacked(folder: Path) -> Iterator[Database]:
    """The databases of a folder; DamagedError where one array does not fit the others."""
    state = read_state(folder)
    try:
        data, types, shapes = (state[name] for name in ("data", "types", "shapes"))
        place = 0
        for code, (rows, columns) in zip(types.tolist(), shapes.tolist(), strict=True):
            shape, dtype = ((rows,) if columns < 0 else (rows, columns)), np.dtype(_TYPES[code])
            size = dtype.itemsize * int(np.prod(shape))
            yield data[place : place + size].copy().view(dtype).reshape(shape)
            place += size
    except (KeyError, IndexError, TypeError, ValueError):
        raise DamagedError(f"{folder} is damaged: it holds no databases") from None
