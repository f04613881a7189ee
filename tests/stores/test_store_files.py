"""Where a store may lie, which layout it has, and of how many files it may consist."""

import json
import re
from pathlib import Path

import pytest
from commands import call, one_message, stored_problem, write_study
from studies import REALS, make_study, pose

from hpcdp.engine.sampling import MANY, count_files, describe_files
from hpcdp.mechanisms.outputs import Schema

GIVEN = "given = [ { d = [0.0], d_prime = [1.0] } ]"


@pytest.mark.parametrize("address", ["s3://bucket/s.zarr", "file:///tmp/s.zarr", "https://host/s.zarr"])
def test_a_store_is_no_address(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for show and plot, which read exported copies there."""
    monkeypatch.chdir(tmp_path)
    study = write_study(tmp_path, train=500, test=500)
    told = f"a store is a folder of a file system that all workers see; given: {address.replace('///', '//')}"
    verify = ("verify", "--claim", "dp(epsilon=1)")
    for command in (("run", study, "--store"), ("resume",), ("status",), ("compare",), verify):
        assert told in call(*command, address, code=2).stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(":")] == []


def test_another_layout_is_refused_in_one_line(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, pairs=GIVEN), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", 0)
    root = store / "zarr.json"
    body = json.loads(root.read_text())
    own = body["attributes"]["hpcdp"]
    for other in (own + 1, own - 1, {"layout": own}):
        root.write_text(json.dumps({**body, "attributes": {**body["attributes"], "hpcdp": other}}))
        for command in (("show", store), ("resume", store), ("run", study, "--store", store)):
            line = one_message(call(*command, code=1))
            assert f"{store} has layout version " in line
            assert f"this hpcdp reads version {own}" in line


@pytest.mark.parametrize(("schema", "chunk"), [(REALS, 10), (REALS, 1000), (Schema("bytes", None), 100)])
def test_too_many_files(chunk: int, schema: Schema) -> None:
    """10⁵ chunks of each of two laws; the chunk that is named makes them fewer, by the store's own cut."""

    def posed(chunk_: int):
        sizes = {"train": 100_000 * chunk, "test": 1000, "epsilons": [1.0], "keep": "all", "chunk": chunk_}
        return pose(make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, **sizes), schema)

    said = describe_files(posed(chunk))
    found = re.fullmatch(r"TOO MANY, perhaps: about ([\d,]+); estimate.chunk = (\d+) makes it about ([\d,]+)", said)
    assert found, said
    assert int(found[1].replace(",", "")) == count_files(posed(chunk)) >= MANY
    mended = posed(int(found[2]))
    assert describe_files(mended) == ""
    assert int(found[3].replace(",", "")) == count_files(mended) < MANY


def test_plan_says_which_chunk_makes_them_fewer(tmp_path: Path) -> None:
    study = write_study(tmp_path, databases=[[0.0, 1.0]], train=20_000, test=1_000_000, chunk=10)
    found = re.search(r"^  files +TOO MANY, perhaps: .*estimate.chunk = (\d+) makes", call("plan", study).stdout, re.M)
    assert found
    study = write_study(tmp_path, databases=[[0.0, 1.0]], train=20_000, test=1_000_000, chunk=int(found[1]))
    assert "  files " not in call("plan", study).stdout


@pytest.mark.slow
def test_files_are_few_and_counted_as_they_are(tmp_path: Path) -> None:
    """What a shared file system sees of a run: far less than a file a chunk."""
    sizes = {"train": 3200, "test": 160_000, "chunk": 100, "keep": "all"}
    study = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, pairs=GIVEN, **sizes)
    store = tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", 0)
    found, counted = len(list(store.rglob("*"))), count_files(stored_problem(store))
    chunks = 2 * (sizes["train"] + sizes["test"]) // sizes["chunk"]
    assert abs(found - counted) < 100
    assert max(found, counted) < chunks / 3
    assert len(list((store / "records").iterdir())) == 3, "a journal, the results, and the group"
