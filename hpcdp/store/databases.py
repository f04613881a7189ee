"""Databases in the store, by their digests: small ones together in files of NumPy's, npz, large ones in one each, npy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.files import open_regular
from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array, digest_json
from hpcdp.store.arrays import dump_state, read_state
from hpcdp.store.fence import replacing
from hpcdp.store.layout import Generation, Layout

Database = NDArray[Any]

_SMALL = 64 << 10  # bytes of one that does
_BYTES = 32 << 20  # of databases that lie together, all of which are read to have one
_MOST = 1 << 62
_TYPES = ("|b1", "<i8", "<f8")


def store_databases(layout: Layout, databases: Mapping[str, Database], generation: Generation) -> None:
    """Store those that are not there, or not whole."""
    there = read_databases(layout, databases)
    missing = {digest: database for digest, database in databases.items() if digest not in there}
    small = {digest: database for digest, database in missing.items() if _is_small(database)}
    for batch in _batches(small):
        target = layout.databases / f"pack-{digest_json(sorted(batch))}.npz"
        with replacing(layout, generation, target) as new, open(new, "xb") as file:
            dump_state(file, _packed([small[digest] for digest in batch]))
    for digest in missing.keys() - small.keys():
        with replacing(layout, generation, layout.database(digest)) as new, open(new, "xb") as file:
            np.save(file, missing[digest])


def read_databases(layout: Layout, digests: Iterable[str]) -> dict[str, Database]:
    """Those of these databases that are there and whole, by digest; what does not match its digest is not."""
    wanted, databases = set(digests), {}
    for pack in _packs(layout):
        with suppress(DamagedError):
            for database in _unpacked(pack):
                if (digest := digest_array(database)) in wanted:
                    databases[digest] = database
    for digest in wanted - databases.keys():
        path = layout.database(digest)
        with suppress(OSError, ValueError), open_regular(path, _MOST):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # processes of a node share its memory
            database = mapped.view(np.ndarray)
            if database.size and digest_array(database) == digest:
                databases[digest] = database
    return databases


def lost_place(layout: Layout, digest: str) -> Path:
    """What to name where a database cannot be read: its own file, else the first pack that is not whole, else the folder."""
    own, packs = layout.database(digest), _packs(layout)
    if own.exists():
        return own
    for pack in packs:
        try:
            list(_unpacked(pack))
        except DamagedError:
            return pack
    return layout.databases


def _packs(layout: Layout) -> list[Path]:
    return sorted(layout.databases.glob("pack-*.npz"))


def count_files(databases: Sequence[Database]) -> int:
    """Of how many files these databases consist."""
    small = [database.nbytes for database in databases if _is_small(database)]
    return len(databases) - len(small) + -(-sum(small) // _BYTES)


def _is_small(database: Database) -> bool:
    return database.nbytes <= _SMALL and database.dtype.str in _TYPES and database.ndim in (1, 2)


def _batches(databases: Mapping[str, Database]) -> Iterator[list[str]]:
    batch, size = [], 0
    for digest, database in databases.items():
        batch.append(digest)
        size += database.nbytes
        if size >= _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _packed(databases: list[Database]) -> dict[str, NDArray[Any]]:
    """The bytes of all, and of each its type and shape, (rows, columns), without columns (rows, −1)."""
    return {
        "data": np.concatenate([database.reshape(-1).view(np.uint8) for database in databases]),
        "types": np.array([_TYPES.index(database.dtype.str) for database in databases], np.uint8),
        "shapes": np.array([(*database.shape, -1)[:2] for database in databases], np.int64),
    }


def _unpacked(pack: Path) -> Iterator[Database]:
    """The databases of a file; DamagedError where one array does not fit the others."""
    state = read_state(pack)
    try:
        data, types, shapes = (state[name] for name in ("data", "types", "shapes"))
        place = 0
        for code, (rows, columns) in zip(types.tolist(), shapes.tolist(), strict=True):
            shape, dtype = ((rows,) if columns < 0 else (rows, columns)), np.dtype(_TYPES[code])
            size = dtype.itemsize * int(np.prod(shape))
            yield data[place : place + size].copy().view(dtype).reshape(shape)
            place += size
    except (KeyError, IndexError, TypeError, ValueError):
        raise DamagedError(f"{pack} is damaged: it holds no databases") from None
