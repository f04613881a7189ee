"""The job scripts that users read and adapt: submitted as they are, they do what a run on this machine does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call, show, write_study
from disturbed import SETTINGS
from throwaway import ThrowawaySlurm

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "workflows" / "diabetes_mean.toml"
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


def check_log(log: str, store: Path) -> None:
    """The result was printed, and no traceback before it; afterwards Dask's processes may say that others are gone."""
    before, result, _ = log.partition(f"store: {store}")
    assert result
    assert "Traceback" not in before


@pytest.fixture(scope="module", name="study")
def study_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study, in a folder whose name needs quotes."""
    return write_study(tmp_path_factory.mktemp("a study"), **SETTINGS)


@pytest.mark.slow
def test_elastic_script_gives_the_bytes_of_a_local_run(
    clean_slurm: ThrowawaySlurm, scheduler: str, tmp_path: Path
) -> None:
    """The quickstart, with a sixteenth of its samples."""
    folder = tmp_path / "where I work"
    folder.mkdir()
    shutil.copy(QUICKSTART.with_name("diabetes.py"), tmp_path)
    quickstart = tmp_path / "quick start.toml"
    quickstart.write_text(QUICKSTART.read_text().replace("131072", "8192"))
    store = folder / "s 1.zarr"
    script = [*SMALL, ROOT / "slurm" / "elastic.sh", quickstart, ROOT / "slurm" / "test.toml"]
    job = sbatch(*script, "--store", store, folder=folder)
    check_log(end(clean_slurm, job, folder), store)
    call("run", quickstart, "--store", tmp_path / "local.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "local.zarr")
    assert json.loads(show(store))["complete"] is True
    assert {path.name for path in folder.iterdir()} == {"s 1.zarr", "s 1.png", f"hpcdp-driver-{job}.log"}
    assert not list((store / "jobs" / "keys").iterdir())  # the key is gone


@pytest.mark.slow
def test_allocation_ends_when_its_scheduler_cannot_start(
    clean_slurm: ThrowawaySlurm, study: Path, tmp_path: Path
) -> None:
    job = sbatch(*ALLOCATION, study, "--store", tmp_path / "s.zarr", folder=tmp_path, HPCDP_INTERFACE="none0")
    log = end(clean_slurm, job, tmp_path, "FAILED")
    assert "'none0' is not a valid network interface" in log
    assert log.endswith("the scheduler did not start\n")
    assert [path.name for path in tmp_path.iterdir()] == [f"hpcdp-allocation-{job}.log"]


@pytest.mark.parametrize("script, lacks", [("elastic", 2), ("elastic", 1), ("allocation", 1)])
def test_script_without_its_arguments_says_how_to_call_it(script: str, lacks: int) -> None:
    given = ["study.toml"] * (2 - lacks if script == "elastic" else 0)
    command = ["bash", str(ROOT / "slurm" / f"{script}.sh"), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode != 0
    assert f"usage: sbatch slurm/{script}.sh STUDY" in done.stderr
