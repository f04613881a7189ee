"""Where a store may lie, and of how many files it may consist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import call, stored_problem, write_study
from studies import REALS, make_study, pose

from hpcdp.mechanisms.outputs import Schema
from hpcdp.planning.store_files import MANY, count_files, describe_files


@pytest.mark.parametrize("address", ["s3://bucket/s.zarr", "file:///tmp/s.zarr", "https://host/s.zarr"])
def test_a_store_is_no_address(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = write_study(tmp_path, train=500, test=500)
    commands = [
        ("run", study, "--store"),
        ("resume",),
        ("status",),
        ("compare",),
    ]  # show and plot read exported copies there
    for command in [*commands, ("verify", "--claim", "dp(epsilon=1)")]:
        error = call(*command, address, code=2).stderr
        assert (
            f"a store is a folder of a file system that all workers see; given: {address.replace('///', '//')}" in error
        )
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith(":")) == []


@pytest.mark.parametrize("schema", [REALS, Schema("bytes", None)])
@pytest.mark.parametrize("chunk", [10, 100, 1000])
def test_too_many_files(chunk: int, schema: Schema) -> None:
    """10⁵ chunks of each of two laws; the chunk that is named makes them fewer, by the store's own cut."""
    changes = {"train": 100_000 * chunk, "test": 1000, "epsilons": [1.0], "keep": "all"}
    problem = pose(make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, chunk=chunk, **changes), schema)
    said = describe_files(problem, 10)
    found = re.fullmatch(r"TOO MANY, perhaps: about ([\d,]+); estimate.chunk = (\d+) makes it about ([\d,]+)", said)
    assert found, said
    assert int(found[1].replace(",", "")) == count_files(problem, 10) >= MANY
    mended = pose(
        make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, chunk=int(found[2]), **changes), schema
    )
    assert describe_files(mended, 10) == ""
    assert int(found[3].replace(",", "")) == count_files(mended, 10) < MANY


def test_files_are_counted_as_they_are(tmp_path: Path, scheduler: str) -> None:
    study, store = write_study(tmp_path, databases=[[0.0, 1.0]], train=1700, test=1700, chunk=100), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    places = [store / "samples", store / "study" / "databases", *(store / "records").iterdir()]
    kinds = ("samples", "databases", "fits", "counts", "cells")
    files = [path for place in places if place.name in kinds for path in place.rglob("*") if path.is_file()]
    files = [path for path in files if not (path.name == "zarr.json" and path.parent.name in kinds)]
    problem = stored_problem(store)
    records = len(list((store / "records" / "fits").iterdir())) + len(list((store / "records" / "counts").iterdir()))
    assert count_files(problem, records) == len(files)


def test_plan_says_which_chunk_makes_them_fewer(tmp_path: Path) -> None:
    study = write_study(tmp_path, databases=[[0.0, 1.0]], train=20_000, test=1_000_000, chunk=10)
    line = _line_of_files(study)
    found = re.fullmatch(
        r"  files +TOO MANY, perhaps: about ([\d,]+); estimate.chunk = (\d+) makes it about ([\d,]+)", line
    )
    assert found, line
    assert int(found[1].replace(",", "")) > MANY > int(found[3].replace(",", ""))
    mended = write_study(tmp_path, databases=[[0.0, 1.0]], train=20_000, test=1_000_000, chunk=int(found[2]))
    assert _line_of_files(mended) == ""


def _line_of_files(study: Path) -> str:
    said = call("plan", study).stdout
    return "\n".join(line for line in said.splitlines() if line.startswith("  files "))
