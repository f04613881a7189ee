"""One run at a time holds a store, and a dead run's hold can be taken over."""

import errno
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, hold, kill_group, one_message, release, show, started, wait_until, write_study
from journals import line_of, records

from hpcdp.errors import LeaseError
from hpcdp.store import lease as lease_module
from hpcdp.store.arrays import write_array
from hpcdp.store.fence import check_generation, create_exclusively, discard, replacing
from hpcdp.store.layout import Layout
from hpcdp.store.lease import STALE, Lease, acquire, holder, provenance
from hpcdp.store.records import commit, has_record, put_json, record_names, set_aside
from hpcdp.store.root import create_store

SLOW = {"databases": [[0.0, 1.0]], "parameters": {"pause": 0.02}, "train": 1000, "test": 16000}


@pytest.fixture(name="layout")
def layout_fixture(tmp_path: Path) -> Layout:
    """An empty store."""
    return create_store(tmp_path / "s.zarr")


def lease_files(store: Path) -> list[Path]:
    return sorted((store / "lease").glob("[0-9]*.json"))


@pytest.mark.slow
@pytest.mark.promise
def test_a_held_store_refuses_others_until_its_run_is_killed(tmp_path: Path, scheduler: str) -> None:
    study, store = write_study(tmp_path, **SLOW), tmp_path / "s.zarr"
    hold(tmp_path, store, 1, "samples")
    with started("run", study, "--store", store, "--workers", 1, folder=tmp_path) as process:
        wait_until(lambda: bool(records(store, "samples")), "a first block of samples")
        for command in (("run", study, "--store", store), ("resume", store)):
            line = one_message(call(*command, "--cluster", scheduler, code=1))
            assert f"process {process.pid} on {socket.gethostname()}" in line
            assert str(store) in line
        assert f"process {process.pid} on {socket.gethostname()}" in call("status", store).stdout
        assert json.loads(show(store))["complete"] is False, "reading needs no lease"
        assert process.poll() is None
        kill_group(process)
        release(tmp_path)
        os.utime(lease_files(store)[0], (time.time() + 86_400,) * 2)  # not stale before tomorrow: no beat is waited for
        call("resume", store, "--cluster", scheduler)
    assert json.loads(show(store))["complete"] is True
    assert [path.stem for path in lease_files(store)] == ["000001", "000002"]


def test_a_lease_of_another_host(layout: Layout) -> None:
    lease = acquire(layout)
    lease.release()
    owner = json.loads(lease.path.read_text())
    del owner["released"]
    lease.path.write_text(json.dumps({**owner, "host": "node17.cluster", "job": "4711"}))
    with pytest.raises(LeaseError, match=r"process \d+ on node17\.cluster, job 4711"):
        acquire(layout)
    os.utime(lease.path, (time.time() - STALE + 10,) * 2)
    with pytest.raises(LeaseError, match=r"last heartbeat 5\d s ago"):
        acquire(layout)
    assert lease_files(layout.root) == [lease.path], "a refusal leaves nothing behind"
    for generation, age in (
        (2, STALE + 1),
        (3, -86_400),
    ):  # of tomorrow it was copied: a live run would have written it since
        os.utime(lease.path, (time.time() - age,) * 2)
        later = acquire(layout)
        assert later.generation == generation
        later.release()
        later.path.write_text(lease.path.read_text())
        lease = later
    later.path.write_text(json.dumps({**owner, "released": True}))
    assert holder(layout) is None


def test_a_lease_of_a_job_that_has_ended(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Young and of another host: nobody waits for it whom SLURM told, and the lost run commits nothing more."""
    with monkeypatch.context() as there:
        there.setenv("SLURMD_NODENAME", "n1")
        there.setenv("SLURM_JOB_ID", "7")
        lost = acquire(layout)
    for ended in ({"8"}, set[str]()):
        with pytest.raises(LeaseError, match=r"another run holds .* on n1, job 7, generation 1"):
            acquire(layout, ended=ended)
    acquire(layout, ended={"7"}).release()
    with pytest.raises(LeaseError, match="a later run has taken over"):
        check_generation(layout, lost.generation)
    lost.release()


def test_a_heartbeat_keeps_a_lease_young(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcdp.store.lease.BEAT", 0.05)
    lease = acquire(layout)
    os.utime(lease.path, (time.time() - 2 * STALE,) * 2)
    wait_until(lambda: time.time() - lease.path.stat().st_mtime < STALE, "a heartbeat")
    assert not lease.lost.is_set()
    (layout.lease / "000002.json").write_text("{}")
    wait_until(lease.lost.is_set, "the run sees that a later one has taken the store")
    lease.release()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_damaged_lease_is_taken_over_when_it_is_old(text: str, layout: Layout) -> None:
    path = layout.lease / "000001.json"
    path.write_text(text)
    with pytest.raises(LeaseError, match="unknown"):
        acquire(layout)
    os.utime(path, (time.time() - STALE - 1,) * 2)
    acquire(layout).release()


def test_a_commit_under_an_old_generation_writes_nothing(layout: Layout) -> None:
    old = acquire(layout)
    commit(layout, "counts", "before", {"entries": []}, old.generation)
    owner = json.loads(old.path.read_text())
    old.path.write_text(json.dumps({**owner, "host": "elsewhere"}))
    os.utime(old.path, (time.time() - STALE - 1,) * 2)
    new = acquire(layout)
    with pytest.raises(LeaseError, match="generation 1"):
        commit(layout, "counts", "after", {"entries": []}, old.generation)
    assert [record.name for record in records(layout.root, "counts")] == ["before"]
    with layout.journal(old.generation).open("ab") as journal:  # as of one that looked before it was superseded
        journal.write(line_of("counts", "late", {"entries": []}) + line_of("counts", "before", None))
    assert record_names(layout, "counts") == {"before"}
    commit(layout, "counts", "after", {"entries": []}, new.generation)
    assert record_names(layout, "counts") == {"before", "after"}
    for lease in (old, new):
        lease.release()


def test_a_step_of_the_wall_clock_frees_no_lease(layout: Layout) -> None:
    """As if the clock had been set by 30 s since: what the live process said of its start is no longer what the system says."""
    lease = acquire(layout)
    owner = json.loads(lease.path.read_text())
    for stepped in (30.0, -30.0):
        lease.path.write_text(json.dumps({**owner, "started": owner["started"] + stepped}))
        with pytest.raises(LeaseError, match=f"process {os.getpid()} "):
            acquire(layout)
    for other in ({"boot": "another"}, {"ticks": owner["ticks"] + 1}):
        lease.path.write_text(json.dumps({**owner, **other}))
        assert holder(layout) is None, "its number is another process's now"
    lease.path.write_text(json.dumps(owner))
    lease.release()


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    layout = create_store(tmp_path / "s.zarr")
    lease = acquire(layout)
    with pytest.raises(LeaseError):
        acquire(layout)
    with pytest.raises(FileExistsError):
        create_exclusively(lease.path, "another")
    assert json.loads(lease.path.read_text())["process"] == os.getpid()
    assert not list(layout.root.rglob(".*")), "no temporary file is left"
    lease.release()


def test_a_run_that_starts_between_look_and_take(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has looked, the first takes generation 2, then the second goes on."""
    acquire(layout).release()
    first: list[Lease] = []

    def link_late(*given: Any) -> None:
        monkeypatch.undo()
        first.append(acquire(layout))
        os.link(*given)

    monkeypatch.setattr("os.link", link_late)
    with pytest.raises(LeaseError, match="being taken by another run at this moment"):
        acquire(layout)
    assert first[0].generation == 2
    commit(layout, "counts", "one", {"entries": []}, first[0].generation)
    assert [path.stem for path in lease_files(layout.root)] == ["000001", "000002"]
    first[0].release()


def write_anything(layout: Layout, lease: Lease) -> list[Callable[[], object]]:
    """All ways in which a run writes."""
    return [
        lambda: commit(layout, "counts", "after", {"entries": []}, lease.generation),
        lambda: set_aside(replace(layout, generation=lease.generation), "counts", "other"),
        lambda: put_json(layout, layout.study(1), {"after": 1}, lease.generation),
        lambda: discard(layout, lease.generation, layout.databases / "zarr.json"),
    ]


def test_a_deleted_store_is_not_made_anew(layout: Layout) -> None:
    lease = acquire(layout)
    commit(layout, "counts", "before", {"entries": []}, lease.generation)

    def delete_in_the_middle() -> None:
        with replacing(layout, lease.generation, layout.block("x")) as new:
            shutil.rmtree(layout.root)
            write_array(new, np.zeros(3))

    for write in (delete_in_the_middle, *write_anything(layout, lease)):
        with pytest.raises(LeaseError, match="is gone"):
            write()
    lease.beat()
    assert lease.lost.is_set()
    lease.release()
    assert not layout.root.exists()


@pytest.mark.parametrize("over", [False, True])
def test_a_store_that_is_made_anew_in_the_place_of_a_deleted_one(layout: Layout, over: bool) -> None:
    old = acquire(layout)
    shutil.rmtree(layout.root)
    new = acquire(create_store(layout.root))
    assert new.generation == old.generation
    commit(layout, "counts", "other", {"entries": []}, new.generation)
    if over:
        new.release()
    kept = {path: path.read_bytes() for path in layout.root.rglob("*") if path.is_file()}
    for write in write_anything(layout, old):
        with pytest.raises(LeaseError, match="is gone"):
            write()
    old.beat()
    assert old.lost.is_set()
    old.release()
    assert {path: path.read_bytes() for path in layout.root.rglob("*") if path.is_file()} == kept
    assert has_record(layout, "counts", "other")
    if not over:
        commit(layout, "counts", "last", {"entries": []}, new.generation)
        new.release()


def test_an_installed_package_has_no_commit_of_a_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = tmp_path / "site-packages" / "hpcdp" / "store"
    around.mkdir(parents=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(lease_module, "__file__", str(around / "lease.py"))
    assert provenance()["commit"] is None
