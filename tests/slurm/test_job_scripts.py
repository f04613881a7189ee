"""The job scripts that users read and adapt: submitted as they are, they do what a run on this machine does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import hpcdp, records, show, wait_until, write_study
from disturbed import STEERED, set_pause
from test_docs import read_blocks
from throwaway import ThrowawaySlurm

ROOT = Path(__file__).parents[2]
SMALL = ["--cpus-per-task=1", "--mem=2G", "--time=5"]
ALLOCATION = ["--nodes=2", *SMALL, ROOT / "slurm" / "allocation.sh"]
SECONDS = 300.0


def sbatch(*arguments: object, folder: Path, **variables: str) -> int:
    """Submit as a user does in a folder whose shell has hpcdp's Python on its PATH; the job's id."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"HPCDP_INTERFACE": "lo", **variables}
    command = ["sbatch", "--parsable", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def end(slurm: ThrowawaySlurm, job: int, folder: Path, state: str = "COMPLETED") -> str:
    """Wait for a job's end in a state; its log."""
    found = slurm.wait_for(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", seconds=SECONDS)
    (log,) = folder.glob(f"hpcdp-*-{job}.log")
    assert found.state == state, log.read_text()
    return log.read_text()


@pytest.fixture(scope="module", name="study")
def study_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study, in a folder whose name needs quotes."""
    return write_study(tmp_path_factory.mktemp("a study"))


@pytest.fixture(scope="module", name="local")
def local_fixture(study: Path) -> str:
    """The JSON of the small study, run on this machine."""
    store = study.parent / "local.zarr"
    hpcdp("run", study, "--store", store, "--workers", 1, folder=study.parent)
    return show(store)


@pytest.mark.parametrize("script", ["elastic", "allocation"])
def test_script_gives_the_bytes_of_a_local_run(
    script: str, clean_slurm: ThrowawaySlurm, study: Path, local: str, tmp_path: Path
) -> None:
    folder = tmp_path / "where I work"
    folder.mkdir()
    store = folder / "s 1.zarr"
    elastic = [*SMALL, ROOT / "slurm" / "elastic.sh", study, ROOT / "slurm" / "test.toml"]
    job = sbatch(*(elastic if script == "elastic" else [*ALLOCATION, study]), "--store", store, folder=folder)
    log = end(clean_slurm, job, folder)
    assert show(store) == local
    before, result, _ = log.partition(f"store: {store}")  # afterwards Dask's processes may say that others are gone
    assert result
    assert "Traceback" not in before
    log_name = f"hpcdp-{'driver' if script == 'elastic' else 'allocation'}-{job}.log"
    assert {path.name for path in folder.iterdir()} == {"s 1.zarr", "s 1.png", log_name}
    if script == "elastic":  # the key is gone; the allocation's went with its folder
        assert not list((store / "jobs" / "keys").iterdir())


@pytest.mark.slow
def test_allocation_stops_in_order_before_the_time_limit_and_goes_on(
    clean_slurm: ThrowawaySlurm, tmp_path: Path
) -> None:
    """The signal that SLURM sends before the time limit is sent by hand, to the script alone as SLURM does."""
    study = write_study(tmp_path, mechanism=STEERED, call="own:steered", train=2000, test=6000)
    set_pause(tmp_path, 0.4)
    store = tmp_path / "s.zarr"
    first = sbatch(*ALLOCATION, study, "--store", store, folder=tmp_path)
    wait_until(lambda: len(records(store)) >= 2, "two records", SECONDS)
    clean_slurm.run("scancel", "--batch", "--signal=USR1", first)
    log = end(clean_slurm, first, tmp_path, "FAILED")
    assert f"hpcdp: the walltime ends; what is committed is kept; go on with: hpcdp resume {store}" in log
    assert json.loads(show(store))["complete"] is False
    assert not list(tmp_path.glob("hpcdp-allocation-*[!g]"))  # the folder with the key
    set_pause(tmp_path, 0.0)
    end(clean_slurm, sbatch(*ALLOCATION, study, "--store", store, folder=tmp_path), tmp_path)
    hpcdp("run", study, "--store", tmp_path / "local.zarr", "--workers", 1, folder=tmp_path)
    assert show(store) == show(tmp_path / "local.zarr")


def test_allocation_ends_when_its_scheduler_cannot_start(
    clean_slurm: ThrowawaySlurm, study: Path, tmp_path: Path
) -> None:
    job = sbatch(*ALLOCATION, study, "--store", tmp_path / "s.zarr", folder=tmp_path, HPCDP_INTERFACE="none0")
    log = end(clean_slurm, job, tmp_path, "FAILED")
    assert "'none0' is not a valid network interface" in log
    assert log.endswith("the scheduler did not start\n")
    assert [path.name for path in tmp_path.iterdir()] == [f"hpcdp-allocation-{job}.log"]


def test_script_for_any_cluster_gives_the_bytes_of_a_local_run(
    clean_slurm: ThrowawaySlurm, study: Path, local: str, tmp_path: Path
) -> None:
    """The one on the page about other clusters, with the class of the batch system that is here."""
    (script,) = [b for b in read_blocks("docs/other-clusters.md") if b.note == "file: anywhere.py"]
    (tmp_path / "anywhere.py").write_text(script.text)
    store = tmp_path / "s.zarr"
    command = [sys.executable, "anywhere.py", "SLURMCluster", str(study), str(store)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True [")
    assert show(store) == local
    assert len(clean_slurm.jobs("dask-worker")) == 2
    assert not list(tmp_path.glob(".dask-jobqueue.*"))  # the certificate


@pytest.mark.parametrize("script, lacks", [("elastic", 2), ("elastic", 1), ("allocation", 1)])
def test_script_without_its_arguments_says_how_to_call_it(script: str, lacks: int) -> None:
    given = ["study.toml"] * (2 - lacks if script == "elastic" else 0)
    command = ["bash", str(ROOT / "slurm" / f"{script}.sh"), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode != 0
    assert f"usage: sbatch slurm/{script}.sh STUDY" in done.stderr
