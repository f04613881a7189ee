"""Journals and the files that their records vouch for: whatever is lost or odd, a run names it and ends what is to do."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import call, one_message, show
from journals import line_of, lines_of, records
from studies import make_study

from hpcdp.driver import driver
from hpcdp.store.layout import Layout

PAIR = [([0.0], [1.0])]
SMALL = {"train": 600, "test": 600, "chunk": 200}


def run(store: Path, **changes: Any) -> dict[str, Any]:
    study = make_study("laplace", {"epsilon": 1.0}, PAIR, seed=3, **{"epsilons": [0.0, 0.5], **SMALL, **changes})
    found: dict[str, Any] = json.loads(driver.run(study, store, workers=0).to_json())
    return found


def test_samples_without_a_record_are_deleted(tmp_path: Path) -> None:
    """As of a run that was killed before it committed: they neither count nor stand in the way of a pack."""
    store = tmp_path / "s.zarr"
    first = run(store)
    (pack,) = records(store, "packs")
    orphans = [Layout(store).block(name) for name in pack.body["fingerprints"]]
    for orphan in orphans:
        orphan.mkdir()
    found = run(store, epsilons=[0.0, 0.5, 1.0])
    assert [c["exceed"] for c in found["cells"] if c["epsilon"] < 1.0] == [c["exceed"] for c in first["cells"]]
    assert not any(orphan.exists() for orphan in orphans)
    assert records(store, "packs") == [pack]


OWN = """
import numpy as np

def draw(database, size, rng):
    return database.sum() + np.random.default_rng().laplace(size=size)
"""


def test_what_cannot_be_drawn_again_takes_all_with_it(tmp_path: Path) -> None:
    """Counts that rest on draws that are no more are not used."""
    (tmp_path / "own.py").write_text(OWN)
    study = make_study("own:draw", {}, PAIR, seed=3, folder=tmp_path, epsilons=[0.0], **SMALL)
    study = study.model_copy(update={"mechanism": study.mechanism.model_copy(update={"reproducible": False})})
    store = tmp_path / "s.zarr"
    first = json.loads(driver.run(study, store, workers=1).to_json())
    record, *_ = records(store, "samples")
    record.damage()
    second = json.loads(driver.run(study, store, workers=1).to_json())
    assert first["cells"][0]["exceed"] != second["cells"][0]["exceed"]
    assert second["complete"]
    last = max(lines_of(store))
    kinds = [json.loads(line)["kind"] for line in lines_of(store)[last]]
    assert {"samples", "fits", "counts"} <= {*kinds}


@pytest.mark.parametrize("what", ["pipe", "folder", "link", "no lengths", "odd lengths"])
def test_what_is_no_journal_stops_no_command(tmp_path: Path, what: str) -> None:
    store = tmp_path / "s.zarr"
    run(store)
    printed, odd = show(store), store / "records" / f"000007-{'0' * 32}.jsonl"
    if what == "pipe":
        os.mkfifo(odd)
    elif what == "folder":
        odd.mkdir()
    elif what == "link":
        odd.symlink_to("nowhere")
    else:
        odd.write_bytes(line_of("journals", "", None if what == "no lengths" else {"a": "abc"}))
    assert show(store) == printed
    if what == "link":
        assert "is a symbolic link" in one_message(call("resume", store, "--workers", "0", code=2))
        odd.unlink()
    said = call("resume", store, "--workers", "0").stderr
    assert ("is no file" in said) == (what in ("pipe", "folder"))
    assert show(store) == printed
    shutil.rmtree(store)
