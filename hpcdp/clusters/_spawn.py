"""Worker processes that start without the script that started the run."""

from __future__ import annotations

import multiprocessing.spawn
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hpcdp.imports import names_main

_WORKER = "Dask Worker process"  # how Dask's nannies call the processes of their workers


@contextmanager
def without_main() -> Iterator[None]:
    """Start workers within: they do not run the main script again, so that it needs no guard, or may have no file.

    Python's spawned processes import the main script, whose calls of hpcdp would start workers in turn; tasks need only
    what the study names. Nannies start workers anew at any time, so this holds while they live. A study that names
    `__main__` gets it as before.
    """
    original = multiprocessing.spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        data = original(name)
        if name.startswith(_WORKER) and not names_main():
            data.pop("init_main_from_name", None)
            data.pop("init_main_from_path", None)
        return data

    multiprocessing.spawn.get_preparation_data = prepared
    try:
        yield
    finally:
        multiprocessing.spawn.get_preparation_data = original
