"""Damaged, missing and unwritable files: each is named in one message, and what it held is computed again, alone."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import (
    LONG,
    call,
    calls,
    committed,
    contents,
    hold,
    one_message,
    release,
    show,
    started,
    stored_problem,
    wait_until,
    write_study,
)
from journals import Record, change, records

from hpcdp.keys import digest_array
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.layout import Layout
from hpcdp.store.records import read_json, write_json


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> Path:
    """A folder with a complete store s.zarr; tests damage copies of it."""
    folder = tmp_path_factory.mktemp("whole")
    study = write_study(folder, databases=[[0.0, 0.5, 1.0]], chunk=100)  # blocks with files of their own
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    return folder


@pytest.fixture(name="copy")
def copy_fixture(whole: Path, tmp_path: Path) -> Path:
    """A copy of the complete store, whose mechanism logs into the folder of the original."""
    return Path(shutil.copytree(whole / "s.zarr", tmp_path / "s.zarr"))


def flip_bit(path: Path, place: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 4
    path.write_bytes(bytes(data))


def blocks(store: Path, stage: str) -> list[Path]:
    return sorted((store / "samples").glob(f"*-{stage}-*"))


def bits(store: Path) -> dict[Any, bytes]:
    """Bytes of all that `contents` has, by what it is in whatever store."""
    return {
        (key.kind, key.name) if isinstance(key, Record) else key.relative_to(store): (
            value if isinstance(key, Record) else value[1]
        )
        for key, value in contents(store).items()
    }


def damaged_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if "damaged" in line]


@pytest.mark.slow
@pytest.mark.promise
def test_a_flipped_bit_a_missing_file_and_a_link_to_itself_among_samples(
    whole: Path, copy: Path, scheduler: str
) -> None:
    flipped, looped, missing = blocks(copy, "test")[1], blocks(copy, "test")[2], blocks(copy, "train")[0]
    for block in (flipped, looped):
        (file,) = [path for path in block.rglob("c/*") if path.is_file()]
        flip_bit(file)
    file.unlink()
    file.symlink_to(file.name)
    shutil.rmtree(missing / "c")
    before, drawn = contents(copy), len(calls(whole, copy))
    lines = damaged_lines(call("resume", copy, "--cluster", scheduler).stderr)
    assert len(lines) == 3
    for block, stage in ((flipped, "test"), (looped, "test"), (missing, "train")):
        (line,) = [line for line in lines if str(block.relative_to(copy)) in line]
        assert line.startswith(f"damaged: {stage} chunk ")
        assert "computed again" in line
        assert ("it is a link that leads back to itself" in line) == (block == looped)
    new = {(law, stage) for law, stage, _ in calls(whole, copy)[drawn:]}
    assert new == {(block.name.partition("-")[0], block.name.split("-")[1]) for block in (flipped, looped, missing)}
    after = contents(copy)
    anew = {key for key in before if isinstance(key, Path) and {flipped, looped, missing} & {*key.parents}}
    assert {path: after[path] for path in before.keys() - anew} == {path: before[path] for path in before.keys() - anew}
    assert bits(copy) == bits(whole / "s.zarr"), "the same bits came back"
    assert "3 records, all computed again" in call("status", copy).stdout
    assert show(copy) == show(whole / "s.zarr")


def altered(raw: bytes) -> bytes:
    """A record in which one count is smaller by 1, so that its checksum is wrong."""
    place = next(n for n in range(raw.index(b'"entries"'), len(raw)) if chr(raw[n]) in "123456789")
    return raw[:place] + b"%d" % (int(raw[place : place + 1]) - 1) + raw[place + 1 :]


HARMS: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "altered": (altered, True),
    "spelled otherwise than hpcdp does": (lambda raw: json.dumps(json.loads(altered(raw))).encode() + b"\n", False),
    "cut short": (lambda raw: raw[:-40] + b"\n", False),
    "run together with the next line, which is as lost": (lambda raw: raw[:-1], True),
}
"""What becomes of a record, and whether its name can still be told."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.promise) if n[:2] in ("al", "sp") else n for n in HARMS]
)
def test_a_damaged_count_record(name: str, whole: Path, copy: Path, scheduler: str) -> None:
    harmed, is_named = HARMS[name]
    (record, *_), before = records(copy, "counts"), contents(copy)
    raw = record.read_bytes()
    change(copy, lambda _, name, line: harmed(line) if name == record.name else line)
    unrecorded = [copy / "counters" / f"{'0' * 32}.npz", Layout(copy).pack("0" * 32)]  # of a task that was killed
    for folder in unrecorded:
        folder.mkdir(parents=True)
    drawn = len(calls(whole, copy))
    assert json.loads(show(copy))["complete"] is False, "what no record counts is no result, whatever root arrays say"
    done = call("run", whole / "study.toml", "--store", copy, "--cluster", scheduler)
    (line,) = damaged_lines(done.stderr)
    if is_named:
        assert f"damaged: the record counts/{record.name}, line " in line
    else:
        assert re.search(r"damaged: line \d+ of the journal 0{5}1-[0-9a-f]{32}\.jsonl is damaged; what it ", line)
    assert "computed again" in line
    assert calls(whole, copy)[drawn:] == []
    assert [folder for folder in unrecorded if folder.exists()] == []
    assert contents(copy) == {**before, record: raw}
    assert show(copy) == show(whole / "s.zarr")
    assert "1 records, all computed again" in call("status", copy).stdout
    assert damaged_lines(call("resume", copy, "--cluster", scheduler).stderr) == []


@pytest.mark.slow
def test_a_damaged_root_array(whole: Path, copy: Path, scheduler: str) -> None:
    """Whatever became of it, it is derived from the records."""
    before, printed = contents(copy), show(whole / "s.zarr")

    def file(array: Path) -> Path:
        (found,) = [path for path in (array / "c").rglob("*") if path.is_file()]
        return found

    damages: dict[str, Callable[[Path], object]] = {
        "exceed": lambda array: file(array).unlink(),
        "lower": lambda array: flip_bit(file(array)),
        "test": lambda array: (array / "zarr.json").write_text('{"shape": '),
    }
    for name, damage in damages.items():
        damage(copy / name)
        assert show(copy) == printed
        (line,) = damaged_lines(call("resume", copy, "--cluster", scheduler).stderr)
        assert str(copy / name) in line
        assert contents(copy) == before
    assert show(copy) == printed
    assert damaged_lines(call("resume", copy, "--cluster", scheduler).stderr) == []


@pytest.mark.slow
def test_what_the_study_needs(copy: Path, whole: Path, scheduler: str) -> None:
    """A damaged database, and the root's metadata, are told by `resume` and written anew by `run`."""
    printed = show(copy)
    (database,) = (copy / "study" / "databases").glob("*.npz")
    for path, message in (
        (database, f"study/databases/{database.name} in {copy}"),
        (copy / "zarr.json", f"{copy}/zarr.json"),
    ):
        flip_bit(path, 0.0)
        error = call("resume", copy, "--cluster", scheduler, code=1).stderr
        assert error.startswith(f"hpcdp: {message} is damaged or missing; run the study file again")
        call("run", whole / "study.toml", "--store", copy, "--cluster", scheduler)
        assert show(copy) == printed
    record = copy / "study" / "study-000001.json"
    record.write_bytes(record.read_bytes()[:-3])
    error = call("resume", copy, "--cluster", scheduler, code=1).stderr
    assert error.startswith(f"hpcdp: the record {record} is damaged")
    assert error.endswith("run the study file again, which writes it anew\n")
    error = call("run", whole / "study.toml", "--store", copy, "--cluster", scheduler).stderr
    assert f"damaged: the record {record} is damaged" in error
    assert show(copy) == printed


@pytest.mark.parametrize("other", [{"seed": 77}, {"mechanism": "scale"}], ids=["seed", "code"])
def test_a_damaged_study_does_not_let_another_one_have_its_counts(
    other: dict[str, Any], copy: Path, whole: Path, tmp_path: Path, scheduler: str
) -> None:
    """The journals hold the study too; where that copy is damaged as well, nothing is gone on with."""
    kept = {"databases": [[0.0, 0.5, 1.0]], "chunk": 100}
    if "mechanism" in other:
        other = {"mechanism": (whole / "own.py").read_text() + "\nSCALE = 2\n"}
    theirs = write_study(tmp_path / "theirs", **kept, **other)
    record = copy / "study" / "study-000001.json"
    record.write_bytes(record.read_bytes()[:-3])
    error = call("run", theirs, "--store", copy, "--cluster", scheduler, code=2).stderr
    assert "study.seed" in error if "seed" in other else "changed" in error
    assert show(copy) == show(whole / "s.zarr"), "written anew, and the study that it was"
    record.write_bytes(record.read_bytes()[:-3])
    change(copy, lambda kind, _, line: line[:-20] + b"\n" if kind == "study" else line)
    error = call("run", whole / "study.toml", "--store", copy, "--cluster", scheduler, code=1).stderr
    assert "and so is its copy; nothing tells any more which study the store's counts are of" in error


@pytest.mark.slow
def test_a_run_that_was_killed_while_it_made_its_store(tmp_path: Path, scheduler: str) -> None:
    study, store = write_study(tmp_path), tmp_path / "s.zarr"
    (store / "study").mkdir(parents=True)
    (store / "study" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    (store / "study" / ".zarr.json.node1.4711").write_text('{"zarr_')
    (store / "samples").mkdir()
    call("run", study, "--store", store, "--cluster", scheduler)
    assert json.loads(show(store))["complete"] is True
    other = tmp_path / "other"
    (other / "samples").mkdir(parents=True)
    (other / "samples" / "mine.csv").write_text("1")
    assert "is no hpcdp store" in call("run", study, "--store", other, "--cluster", scheduler, code=2).stderr
    assert [path.name for path in other.rglob("*")] == ["samples", "mine.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.6])
def test_damage_in_the_middle_of_a_run(share: float, tmp_path: Path, scheduler: str) -> None:
    settings = {"databases": [[0.0, 1.0]], "parameters": {"pause": 0.02}, "train": 10_000, "test": 16_000}
    study, store = write_study(tmp_path, **settings), tmp_path / "s.zarr"
    hold(tmp_path, store, 1, "samples")  # before anything is counted
    with started("run", study, "--store", store, "--cluster", scheduler, folder=tmp_path) as process:
        wait_until(lambda: bool(records(store, "samples")), "a first block of samples")
        name = records(store, "samples")[0].name
        _, stage, block, _ = name.split("-")
        (file,) = [path for path in (store / "samples" / name / "c").iterdir() if path.is_file()]
        problem = stored_problem(store)
        chunk = next(one for one in problem.kept_stages if one.name == stage).chunk
        damaged = int(block) // chunk + int(share * file.stat().st_size) // (8 * chunk + 4)  # each has a checksum
        flip_bit(file, share)
        assert not records(store, "counts")
        release(tmp_path)
        _, error = process.communicate(timeout=LONG)
    assert process.returncode == 1, error
    assert "Traceback" not in error
    assert damaged or share < 0.1
    assert f"{stage} chunk {damaged} of samples/{name} is damaged" in error
    assert f"hpcdp resume {store}" in error
    assert json.loads(show(store))["complete"] is False
    assert "failed" in call("status", store).stdout
    call("resume", store, "--cluster", scheduler)
    call("run", study, "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "anew.zarr")


def mount(options: str, folder: Path) -> None:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine does not allow mounting: {done.stderr.strip()}")


@pytest.fixture(name="disk")
def disk_fixture(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount command")
    mount("size=400k", folder)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path, disk: Path, scheduler: str) -> None:
    settings = {"train": 10_000, "test": 12_000, "parameters": {"pause": 0.03}}  # slower than records are committed
    study, store = write_study(tmp_path, **settings), disk / "s.zarr"
    line = one_message(call("run", study, "--store", store, "--cluster", scheduler, code=1))
    assert "No space left on device" in line
    assert str(store) in line
    before, done = contents(store), committed(store)
    assert done, "something was committed before the disk was full"
    assert "No space left on device" in one_message(call("resume", store, "--cluster", scheduler, code=1)), (
        "it is as full as it was"
    )
    number = len(calls(tmp_path, store))
    remount(disk, "size=40m")
    call("resume", store, "--cluster", scheduler)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    assert not done & set(calls(tmp_path, store)[number:])
    call("run", study, "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "anew.zarr")


@pytest.mark.slow
def test_a_store_that_may_only_be_read(whole: Path, disk: Path, scheduler: str) -> None:
    remount(disk, "size=40m")
    store = Path(shutil.copytree(whole / "s.zarr", disk / "s.zarr"))
    remount(disk, "ro")
    assert show(store) == show(whole / "s.zarr")
    assert "complete" in call("status", store).stdout
    new = disk / "new.zarr"
    for command, place in ((("resume", store), store), (("run", whole / "study.toml", "--store", new), new)):
        line = one_message(call(*command, "--cluster", scheduler, code=1))
        assert "Read-only file system" in line
        assert str(place) in line
    remount(disk, "rw")


def test_what_is_said_of_a_complete_store_is_derived_from_its_records(tmp_path: Path) -> None:
    """Not from root arrays, though their digests fit them, nor from anything else that lies in the store."""
    pair = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    sizes = {"train": 4000, "test": 4000, "claim": "laplace(epsilon=0.3)"}
    study = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, pairs=pair, **sizes)
    store = tmp_path / "s.zarr"
    whole = call("run", study, "--store", store, "--workers", "0").stdout
    commands = [["show"], ["show", "--format", "json"], ["status"], ["verify"], ["verify", "--format", "json"]]

    def said() -> list[tuple[int, str]]:
        done = [call(name, store, *words, code=None) for name, *words in commands]
        return [(one.returncode, one.stdout) for one in done]

    before = said()
    assert [code for code, _ in before] == [0, 0, 0, 3, 3]
    head = store / "records" / "results.json"
    body = read_json(head)
    for name in [name for name in body["arrays"] if "lower" in name]:
        zeros = np.zeros_like(read_array(store / name))
        write_array(store / name, zeros, names=body["arrays"][name])
        body["digests"][name] = digest_array(zeros)
    head.unlink()
    write_json(head, body)
    assert said() == before
    assert not (store / "records" / "texts.json").exists(), "no command keeps what it prints"
    assert call("run", study, "--store", store, "--workers", "0").stdout == whole
    assert read_array(store / "lower").max() > 0.0, "written anew"
