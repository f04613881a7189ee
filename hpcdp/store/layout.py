"""Where everything is in a store: all paths in one place."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcdp._base.asked import address_of
from hpcdp.errors import StudyError
from hpcdp.keys import digest_json

VERSION = 5
"""Version of the layout, in the root's attributes; a store of another version is refused."""

EXPORTED = "export.json"
"""In an exported copy of a result, which is no store."""

COPY = "HPCDP_COPY"
"""Variable of the environment of child processes on a node that works with a copy: where that is."""

_GROUPS = ("study", "samples", "pilots", "tallies", "counters", "records", "lease", "jobs")


def group_metadata(attributes: Mapping[str, Any]) -> str:
    """Text of the file that makes a folder a Zarr group."""
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)})


class Generation(int):
    """The number of a lease in its store. run: a random name, as a store that is made anew has the same numbers."""

    run: str

    def __new__(cls, number: int, run: str) -> Generation:
        made = super().__new__(cls, number)
        made.run = run
        return made

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return int(self), self.run


@dataclass(frozen=True)
class Layout:
    """Paths below a store's root. generation: of the run that changes it through this layout; None of those that only read."""

    root: Path
    generation: Generation | None = None

    def __post_init__(self) -> None:
        if address := address_of(self.root):
            raise StudyError(
                f"a store is a folder of a file system that all workers see; given: {address}; accepted: a path"
            )

    @property
    def groups(self) -> tuple[Path, ...]:
        """Members of the root that are not result arrays."""
        return tuple(self.root / name for name in _GROUPS)

    @property
    def is_copy(self) -> bool:
        """Whether this is a node's copy of what tasks read (see `hpcdp.store.copies`), in which nothing is kept."""
        return os.environ.get(COPY) == str(self.root)

    def study(self, version: int) -> Path:
        """Record of the study as it was at its n-th version."""
        return self.root.joinpath("study", f"study-{version:06d}.json")

    @property
    def databases(self) -> Path:
        """Folder of the databases."""
        return self.root.joinpath("study", "databases")

    def database(self, digest: str) -> Path:
        """File of one large database."""
        return self.databases / f"{digest}.npy"

    def block(self, name: str) -> Path:
        """Zarr array (group, of strings) with the samples of one block of chunks."""
        return self.root.joinpath("samples", name)

    def pack(self, name: str) -> Path:
        """Zarr array (group, of strings) with the samples of many small blocks."""
        return self.root.joinpath("samples", "packs", name)

    def counter(self, model: str, thresholds: Sequence[float]) -> Path:
        """File with the arrays of a learned counter."""
        return self.root.joinpath("counters", f"{digest_json([model, list(thresholds)])}.npz")

    def pilot(self, key: str) -> Path:
        """File with the arrays of a pair's pilot: its cells and its own L̂."""
        return self.root.joinpath("pilots", f"{key}.npz")

    def tally(self, pilot: str, name: str) -> Path:
        """File of one tally, counts by side and cell."""
        return self.tallies(pilot) / f"{name}.npz"

    def tallies(self, pilot: str) -> Path:
        """Folder of the tallies of a pilot."""
        return self.root.joinpath("tallies", pilot)

    @property
    def results(self) -> Path:
        """The record that says the root arrays are whole."""
        return self.root.joinpath("records", "results.json")

    @property
    def journals(self) -> Path:
        """Folder of the journals, one a run (see `hpcdp.store.records`)."""
        return self.root / "records"

    def journal(self, generation: Generation) -> Path:
        """The journal of a run."""
        return self.journals / f"{generation:06d}-{generation.run}.jsonl"

    @property
    def lease(self) -> Path:
        """Folder of the leases, one file a generation."""
        return self.root / "lease"

    def lease_file(self, generation: int) -> Path:
        """Who took this generation."""
        return self.lease / f"{generation:06d}.json"

    def gate(self, generation: int) -> Path:
        """The folder that all changes of a generation pass; a file once it is closed (see `hpcdp.store.fence`)."""
        return self.lease / f"{generation:06d}"

    def passage(self, generation: Generation) -> Path:
        """The folder of a run within its gate."""
        return self.gate(generation) / generation.run

    @property
    def jobs(self) -> Path:
        """Folder of what jobs of a cluster need and leave: scripts, logs, the keys of a run."""
        return self.root / "jobs"

    def relative(self, path: Path) -> str:
        """A path as messages name it."""
        return path.relative_to(self.root).as_posix()
