"""The current folder stays what it is, wherever a mechanism's code goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def same_folder() -> Iterator[None]:
    """Other people's code runs within; afterwards the current folder is again what it was."""
    here = None
    with suppress(OSError):  # it may have been removed; nobody can go back to it then
        here = os.getcwd()
    try:
        yield
    finally:
        if here is not None:
            with suppress(OSError):
                os.chdir(here)
