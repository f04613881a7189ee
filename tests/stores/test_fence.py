"""A run that was superseded while it slept changes nothing when it goes on, wherever it slept."""

import itertools
import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import xarray
from commands import LONG, call, hold, release, show, started, wait_until, write_study
from journals import lines_of, records

from hpcdp import Study, run
from hpcdp.errors import LeaseError
from hpcdp.store.layout import Layout
from hpcdp.store.lease import acquire
from hpcdp.store.results import Arrays, read_results, write_results
from hpcdp.store.root import create_store

Files = dict[str, tuple[int, int, bytes]]
OF_A_KIND = 2
Place = tuple[str, ...]
"""A kind of change: the event, and the paths in the store."""

GIVEN = "given = [{ d = [0.0], d_prime = [1.0] }]"
SMALL: dict[str, Any] = {"pairs": GIVEN, "call": "laplace", "parameters": {"epsilon": 1.0}}
SMALL |= {"train": 1700, "test": 1700, "chunk": 100}
"""Drawn in the process that is frozen, in blocks with files of their own."""


def files(store: Path) -> Files:
    """Inode, time of change and bytes of every file but leases, which are each generation's own; of journals what counts."""
    found = {
        path.relative_to(store).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.suffix != ".jsonl" and not (path.parent.name == "lease" and path.suffix == ".json")
    }
    journals = lines_of(store)
    last = max(journals, default=None)
    for path, lines in journals.items():  # to those of runs that were superseded they may add what nobody reads
        changed = path.stat().st_mtime_ns if path == last else 0
        found[path.relative_to(store).as_posix()] = (path.stat().st_ino, changed, b"".join(lines))
    return found


class _Watch:
    """Calls a function before every change that this process makes to a store, while it is switched on."""

    def __init__(self) -> None:
        self.see: Callable[[Place], None] | None = None
        self.store = Path()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, values: tuple[Any, ...]) -> None:
        see, place = self.see, place_of(self.store, event, values) if self.see else None
        if see is not None and place is not None:
            self.see = None
            see(place)
            self.see = see


WATCH = _Watch()
CHANGES = {"os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "shutil.rmtree": (0,), "open": (0,)}
"""Audit events of calls that overwrite or delete, and which of their arguments they change."""


def place_of(store: Path, event: str, arguments: tuple[Any, ...]) -> Place | None:
    """Which change a call is; None where others see none: a gate's inside, or a generation's own files."""
    if event not in CHANGES or (event == "open" and not _writes(arguments)):
        return None
    paths = [arguments[n] for n in CHANGES[event]]
    if any(not isinstance(path, str | os.PathLike) for path in paths):
        return None
    found = [_within(store, Path(os.fsdecode(path))) for path in paths]
    if not any(found) or all(name is None or name.startswith(("gate/", "own")) for name in found):
        return None
    return (event, *(name or "outside" for name in found))


def _writes(arguments: tuple[Any, ...]) -> bool:
    """Whether a file is opened to write into it, unless it is new."""
    flags = arguments[2] if isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) and not flags & os.O_EXCL


def _within(store: Path, path: Path) -> str | None:
    """A path in the store with digests, numbers and generations left out."""
    if not path.is_relative_to(store):
        return None
    name = path.relative_to(store).as_posix()
    if re.match(r"lease/\d+\.json|(.*/)?\.[^/]*$", name):  # names with a dot are a process's own
        return "own"
    name = re.sub(r"^records/\d+-[0-9a-f]{32}\.jsonl$", "records/journal", name)
    name = re.sub(r"^lease/\d{6}(?=/|$)", "gate", name)
    name = re.sub(r"^gate/.*", "gate/…", name)
    name = re.sub(r"^[a-z_]+$", "ARRAY", name)
    return re.sub(r"(/0)+$|[0-9a-f]{16,}|\d{6}-\d+|\d{4,}", "#", name)


def take_over_everywhere(
    study: Path, folder: Path, least: set[str], monkeypatch: pytest.MonkeyPatch, made: Path | None = None
) -> None:
    """Have another host take the store over before each change of a run, which then changes nothing.

    Of changes of a kind before the first ones. made: the store that runs begin with.
    """

    def watched(see: Callable[[Place], None], name: str) -> Path:
        store = folder / f"{name}.zarr"
        if made is not None:
            shutil.copytree(made, store)
        monkeypatch.setenv("SLURMD_NODENAME", "here")
        WATCH.store, WATCH.see = store, see
        try:
            run(Study.from_toml(study), store, workers=0)
        finally:
            WATCH.see = None
        return store

    places: list[Place] = []
    whole = watched(places.append, "whole")
    missing = {name for name in least if not any(name in path for _, *paths in places for path in paths)}
    assert not missing, f"no change of {missing} among {places}"
    chosen = [number for number, place in enumerate(places) if places[:number].count(place) < OF_A_KIND]
    for number in chosen:
        store, seen, taken = folder / f"{number}.zarr", itertools.count(), list[Files]()

        def take(_: Place, number: int = number, store: Path = store, seen: Any = seen, taken: Any = taken) -> None:
            if next(seen) == number:
                for lease in (store / "lease").glob("*.json"):
                    os.utime(lease, (0, 0))
                monkeypatch.setenv("SLURMD_NODENAME", "elsewhere")
                acquire(Layout(store)).release()
                taken.append(files(store))

        with suppress(LeaseError):
            watched(take, str(number))
            assert number > chosen[-1] - 3, f"it goes on after {places[number]}"  # it may have ended its work
        for before in taken:  # none where this run needs fewer records than the first one did
            after = files(store)
            assert {name for name in before | after if before.get(name) != after.get(name)} == set(), places[number]
        if number == chosen[-1]:
            run(Study.from_toml(study), store, workers=0)
            assert show(store) == show(whole)


@pytest.mark.promise
@pytest.mark.slow
def test_a_new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write_study(tmp_path, **SMALL)
    least = {"study/study-#", "study/databases/pack-#", "samples/#", "records/journal"}
    least |= {"ARRAY", "zarr.json", "records/results.json"}
    take_over_everywhere(study, tmp_path, least, monkeypatch)


@pytest.mark.slow
def test_a_damaged_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is set aside, deleted and written anew: records, samples, counters, the root's metadata, the results."""
    study, made = write_study(tmp_path, **SMALL), tmp_path / "made.zarr"
    run(Study.from_toml(study), made, workers=0)
    for record in records(made, "counts"):
        record.damage()
    (made / "zarr.json").write_bytes((made / "zarr.json").read_bytes()[:-9])
    (file, *_) = [path for path in (made / "samples").rglob("c/*") if path.is_file()]
    file.write_bytes(file.read_bytes()[:-9])
    (made / "counters" / "0123456789abcdef.npz").write_bytes(b"")
    least = {"records/journal", "counters/#", "zarr.json"}
    least |= {"samples/#", "records/results.json"}
    take_over_everywhere(study, tmp_path, least, monkeypatch, made)


@pytest.mark.slow
def test_tallies_and_what_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a refined loss: pilots, tallies, counters, each with its record."""
    changes = {"refine": 2000, "validation": 1000, "keep": "none", "etas": []}
    study = write_study(tmp_path, **SMALL, rows=[0], **changes)
    least = {"pilots/#", "tallies/#", "records/journal"}
    take_over_everywhere(study, tmp_path, least, monkeypatch)


@pytest.mark.slow
def test_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many small blocks and databases: those that lie together, with their records."""
    given = ", ".join(f"{{ d = [{2 * n}], d_prime = [{2 * n + 1}] }}" for n in range(130))
    changes = {"call": "pmf", "parameters": {"outcomes": [0, 1], "table": [[0.5, 0.5], [0.4, 0.6]] * 130}}
    study = write_study(tmp_path, train=20, test=20, pairs=f"given = [{given}]", **changes)
    least = {"samples/packs/#", "records/journal"}
    take_over_everywhere(study, tmp_path, least, monkeypatch)


def _version(number: int, more: bool) -> Arrays:
    cell, shape = ("pair", "direction", "epsilon"), (2, 2, 3)
    arrays: Arrays = {name: (cell, np.full(shape, float(number))) for name in ("delta", "lower", "level")}
    arrays |= {"test": (cell, np.full(shape, number)), "direction": (("direction",), np.array([0, 1], np.int8))}
    arrays["spectrum_delta"] = (("epsilon",), np.full(3, float(number)))
    arrays["epsilon"] = (("epsilon",), np.full(3, float(number)))
    return arrays | ({"gone": (("epsilon",), np.full(3, float(number)))} if more else {})


def test_who_reads_while_results_are_replaced(tmp_path: Path) -> None:
    """Anybody's `open_zarr(…)`, at any moment and loaded at any later one: each array is of one version, or nothing."""
    layout = create_store(tmp_path / "s.zarr")
    head = {"version": 1, "complete": True, "name": "s", "confidence": 0.95, "pairs": [{"pair": 0}, {"pair": 1}]}
    lease = acquire(layout)
    WATCH.store = layout.root
    opened: list[xarray.Dataset] = []
    found: set[float] = set()

    def look(_: Place) -> None:
        with suppress(ValueError):  # a shape or an index that does not fit
            opened.append(xarray.open_zarr(layout.root, chunks=None))
        for data in opened:
            versions: set[float] = set()
            for name in (*data.data_vars, "epsilon"):
                values = np.unique(np.nan_to_num(data[str(name)].values.astype(float), nan=0.0))
                assert len(values) == 1, f"a mixture in {name}: {values}"
                versions.update(values.tolist())
            found.update(versions)
            assert data is not opened[-1] or data.attrs["complete"] == 0 or len(versions) == 1, versions

    try:
        write_results(layout, _version(1, True), head, lease.generation)
        for number, more in ((2, False), (3, True)):
            begun = len(opened)
            WATCH.see = look
            write_results(layout, _version(number, more), head, lease.generation)
            WATCH.see = None
            assert {data.attrs["complete"] for data in opened[begun:]} == {0, 1}
            assert xarray.open_zarr(layout.root).attrs["complete"] == 1
    finally:
        lease.release()
    assert found == {0.0, 1.0, 2.0, 3.0}
    result = read_results(layout)
    assert set(result[0]) == set(_version(3, True))


@pytest.mark.slow
@pytest.mark.parametrize("place", [("--workers", "0"), ("--workers", "2"), ("--workers", "2", "--dashboard")])
def test_a_command_that_was_stopped_for_longer_than_its_lease(
    place: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its workers, which draw on with it: it ends with one message, and what its successor stored stays as it is."""
    study, store = write_study(tmp_path, train=1000, test=1000, rows=[0]), tmp_path / "s.zarr"
    hold(tmp_path, store, 1)
    monkeypatch.setenv("SLURMD_NODENAME", "first")  # of another host: its process may not be looked for here
    with started("run", study, "--store", store, *place, folder=tmp_path) as process:
        wait_until(lambda: len(records(store)) >= 1 and (store / "lease").exists(), "a record")
        top = psutil.Process(process.pid)
        stopped = [top, *top.children(recursive=True)]
        for one in stopped:
            one.suspend()
        for lease in (store / "lease").glob("*.json"):
            os.utime(lease, (0, 0))
        release(tmp_path)
        monkeypatch.setenv("SLURMD_NODENAME", "second")
        call("resume", store, "--workers", "0")
        before = files(store)
        for one in stopped:
            with suppress(psutil.NoSuchProcess):  # the command, which goes on first, ended its workers
                one.resume()
        _, said = process.communicate(timeout=LONG)
    assert process.returncode == 1, said
    assert re.search(r"\nhpcdp: a later run has taken over .*\n$", said), said
    assert "Traceback" not in said
    assert files(store) == before
