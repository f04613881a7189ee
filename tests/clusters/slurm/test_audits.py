"""Audits on SLURM: the same JSON as here, and interruptions that lose nothing, for η tasks, batches and trained models."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
from commands import call, contents, hold, records, release, started, wait_until, write_study
from disturbed import STEERED, set_pause
from throwaway import ThrowawaySlurm

from hpcdp.store.layout import Layout

ROOT = Path(__file__).parents[3]
PROFILE = ROOT / "slurm" / "test.toml"
CLAIM = "laplace(epsilon=1)"
SIZES = {"train": 4000, "test": 8000, "chunk": 500, "databases": [[0.0, 1.0]]}
SEQUENTIAL = ("--sequential", "--batch", 200, "--budget", 1000)


def command(study: Path, store: Path, *options: object) -> tuple[object, ...]:
    return ("audit", study, "--claim", CLAIM, "--store", store, "--format", "json", *options)


@pytest.mark.slow
@pytest.mark.release  # test_models_are_trained_on_slurm has an audit there, tests/runs/test_sequential.py kills and continues one
@pytest.mark.parametrize(
    ("options", "kinds"), [((), ("samples",)), (SEQUENTIAL, ("rounds",))], ids=["whole", "sequential"]
)
def test_interrupted_on_slurm_and_continued(
    tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str, options: tuple[object, ...], kinds: tuple[str, ...]
) -> None:
    """The audit's own command goes on where SIGTERM ended it, and finds what an undisturbed one finds here."""
    chunk = 100 if options else SIZES["chunk"]
    study = write_study(tmp_path, STEERED, **{**SIZES, "chunk": chunk, "call": "own:steered"})
    store, here = tmp_path / "s.zarr", tmp_path / "here.zarr"
    set_pause(tmp_path, 0.1)  # tasks are the smaller the slower draws are
    hold(tmp_path, store, 2, *kinds)
    with started(*command(study, store, *options, "--cluster", PROFILE), folder=tmp_path) as process:
        wait_until(lambda: len(records(store, *kinds)) >= 2, "two records", 120.0)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
    assert "go on with: hpcdp audit" in said
    assert "Traceback" not in said
    release(tmp_path)
    set_pause(tmp_path, 0.0)
    before = contents(store) | {path: (0, path.read_bytes()) for path in records(store, "rounds")}
    found = call(*command(study, store, *options, "--cluster", PROFILE)).stdout
    after = contents(store) | {path: (0, path.read_bytes()) for path in records(store, "rounds")}
    assert {path: after[path] for path in before} == before, "what was committed did not change"
    assert found == call(*command(study, here, *options, "--cluster", scheduler)).stdout
    assert json.loads(found)["verdict"] != "violation"


@pytest.mark.slow
def test_models_are_trained_on_slurm(tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str) -> None:
    """A small audit of trained models: the training runs in jobs, and gives what it gives here."""
    folder = tmp_path / "digits"
    shutil.copytree(ROOT / "workflows" / "dpsgd_digits", folder, ignore=shutil.ignore_patterns("runs", "__pycache__"))
    text = (folder / "correct.toml").read_text()
    small = "\n".join(
        {"train": "train = 30", "test": "test = 30", "chunk": "chunk = 10"}.get(line.split(" ")[0], line)
        for line in text.splitlines()
    )
    study = folder / "small.toml"
    study.write_text(small)
    found = []
    for name, place in (("there", PROFILE), ("here", scheduler)):
        store = tmp_path / f"{name}.zarr"
        found.append(call("audit", study, "--store", store, "--format", "json", "--cluster", place).stdout)
        assert len(list(Layout(store).records("samples").glob("[!.]*.json"))) == 2 * 6
    assert found[0] == found[1]
    assert call("status", tmp_path / "there.zarr").stdout
