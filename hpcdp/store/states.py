"""States in the store: the named arrays of one object in a folder, and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.fence import replacing
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import read_json, write_json

_DIGESTS = "digests.json"  # written last: without it, or with another digest, a state is not whole


def write_state(layout: Layout, folder: Path, state: Mapping[str, NDArray[Any]], generation: Generation) -> None:
    """Put a folder with the arrays, each under its name, and their digests in place, whole or not at all."""
    with replacing(layout, generation, folder) as new:
        new.mkdir()
        for name, array in state.items():
            write_array(new / name, array)
        write_json(new / _DIGESTS, {name: digest_array(array) for name, array in state.items()})


def read_state(folder: Path) -> dict[str, NDArray[Any]]:
    """The arrays by name; DamagedError when one is missing, or is not what was written."""
    digests = read_json(folder / _DIGESTS)
    if not isinstance(digests, dict) or any(Path(name).name != name or name == ".." for name in digests):
        raise DamagedError(f"{folder / _DIGESTS} is damaged: it names no arrays")
    state = {name: read_array(folder / name) for name in digests}
    if any(digest_array(state[name]) != digests[name] for name in digests):
        raise DamagedError(f"{folder} is damaged: its values do not match their checksums")
    return state


def has_state(folder: Path) -> bool:
    """Whether a state was written whole; its arrays are not read."""
    return (folder / _DIGESTS).is_file()
