"""An adaptive size: as many jobs as the work can use, no more."""

from pathlib import Path

import pytest
from commands import call, kill_group, show, started, wait_until, write_study
from throwaway import ThrowawaySlurm

from hpcdp.clusters.slurm import job_folder
from hpcdp.store.layout import Layout
from hpcdp.store.lease import read_leases

PROFILE = """
[cluster]
interface = "lo"
poll = "1s"
drain = "10s"
[worker]
cores = 1
memory = "1GB"
walltime = "10m"
useful = "1s"
[size]
minimum = 0
maximum = 3
"""
SMALL = {"databases": [[0.0, 1.0]], "rows": [0], "keep": "none", "train": 500, "test": 500}
LARGE = {"train": 4000, "test": 8000, "chunk": 250, "parameters": {"pause": 0.05}}


@pytest.mark.slow
def test_jobs_follow_the_work(tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text(PROFILE)
    for name, settings, most in (("small", SMALL, 1), ("large", LARGE, 3)):
        folder = tmp_path / name
        study, store = write_study(folder, **settings), folder / "s.zarr"
        call("run", study, "--store", store, "--cluster", profile)
        jobs = clean_slurm.jobs(job_folder(Layout(store), "s").name)
        assert len(jobs) == most
        (lease,) = read_leases(Layout(store))
        fleet = lease["news"]["fleet"]
        assert fleet["started"] == most
        assert fleet["active"] == []
        print(f"{name}: {lease['news']['total']:.0f} chunks, {most} jobs: {fleet['ended']}")
        call("run", study, "--store", folder / "here.zarr", "--cluster", scheduler)
        assert show(store) == show(folder / "here.zarr")
        status = call("status", store).stdout
        assert f"used           {most} job" in status
        assert "planned" in status


@pytest.mark.slow
def test_jobs_that_wait_for_a_killed_driver_are_cancelled(tmp_path: Path, clean_slurm: ThrowawaySlurm) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text(PROFILE)
    study, store = write_study(tmp_path, **SMALL), tmp_path / "s.zarr"
    nodes = len(clean_slurm.nodes)
    blocker = clean_slurm.submit("exec sleep 600", f"--nodes={nodes}", "--exclusive")
    clean_slurm.wait_for(blocker, "RUNNING")
    name = job_folder(Layout(store), "s").name
    with started("run", study, "--store", store, "--cluster", profile, folder=tmp_path) as process:
        wait_until(lambda: bool(clean_slurm.jobs(name)), "a worker job that waits")
        kill_group(process)
    (orphan,) = clean_slurm.jobs(name)
    assert orphan.state == "PENDING"
    clean_slurm.run("scontrol", "hold", orphan.id)  # first, or it starts as soon as there is room
    clean_slurm.cancel(blocker)
    said = call("resume", store, "--cluster", profile).stderr
    assert f"cancelled 1 waiting jobs of an earlier run: {orphan.id}" in said
    assert clean_slurm.job(orphan.id).state == "CANCELLED"
