"""Stores of earlier versions open in this one: with the same counts, and as complete as they were."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from commands import call
from stores import FOLDER

import hpcdp

ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder with a store, and what `show` printed of it then."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_store_of_an_earlier_version_says_what_it_said(kept: Path) -> None:
    (store,) = kept.glob("*.zarr")
    then = json.loads((kept / "shown.json").read_text())
    now = json.loads(call("show", store, "--format", "json").stdout)
    assert now["complete"]
    assert now["name"] == then["name"]
    assert now["pairs"] == then["pairs"]
    told = ("pair", "direction", "epsilon", "exceed", "test", "delta")
    for before, after in zip(then["cells"], now["cells"], strict=True):
        assert {key: after[key] for key in told} == {key: before[key] for key in told}
    assert {key: now[key] for key in ("pure",) if key in then} == {key: then[key] for key in ("pure",) if key in then}
    assert then["name"] in call("show", store).stdout
    assert "complete" in call("status", store).stdout


def test_a_store_of_an_earlier_version_goes_on_and_draws_and_counts_nothing_anew(kept: Path) -> None:
    (store,) = kept.glob("*.zarr")

    def done() -> dict[Path, bytes]:
        found = [path for kind in ("samples", "fits", "counts") for path in (store / "records" / kind).rglob("*.json")]
        return {path: path.read_bytes() for path in found}

    before = done()
    assert before
    call("resume", store, "--workers", "0")
    assert done() == before
    then = json.loads((kept / "shown.json").read_text())
    now = json.loads(call("show", store, "--format", "json").stdout)
    assert [cell["exceed"] for cell in now["cells"]] == [cell["exceed"] for cell in then["cells"]]


def test_every_released_version_has_its_stores() -> None:
    assert any(path.name.startswith(f"{hpcdp.__version__}-given") for path in ARCHIVES)
    assert sum(path.stat().st_size for path in ARCHIVES) < 500_000


def test_the_citation_names_this_version_and_license() -> None:
    text = (FOLDER.parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {hpcdp.__version__}\n" in text
    assert "\nlicense: Apache-2.0\n" in text
