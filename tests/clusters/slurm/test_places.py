"""Runs whose driver is a job, with jobs as they are needed or in one fixed allocation: cancelled and submitted again."""

import sys
from pathlib import Path

import psutil
import pytest
from commands import call
from disturbed import BUSY, Disturbed, wait_until
from journals import records
from throwaway import ThrowawaySlurm

ELASTIC = (
    (Path(__file__).parents[3] / "slurm" / "test.toml").read_text().replace("[cluster]", "[cluster]\ndashboard = true")
)
ALLOCATION = """
[cluster]
driver = "allocation"
dashboard = true
interface = "lo"
no_worker_timeout = "60s"
drain = "15s"
poll = "1s"
[worker]
cores = 2
processes = 2
memory = "2GB"
walltime = "10m"
[size]
nodes = 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("profile", [pytest.param(ELASTIC, marks=pytest.mark.release), ALLOCATION])
def test_cancelled_and_submitted_again(
    profile: str, clean_slurm: ThrowawaySlurm, tmp_path: Path, undisturbed: str
) -> None:
    """It goes on from what is committed, to the same bytes; its job's id is all that stdout of submit holds."""
    run = Disturbed(tmp_path / "where I work", clean_slurm)
    run.profile.write_text(profile)
    submit = ("submit", run.study, "--profile", run.profile, "--store", run.store)
    run.hold_after(BUSY)
    job = int(call(*submit).stdout)
    wait_until(lambda: len(records(run.store)) >= run.enough, "records")
    run.remember()
    check_status(job, run)
    assert f"job {job} runs this store already" in call(*submit, code=1).stderr
    assert sys.executable in (run.store / "jobs" / "driver.sh").read_text()
    assert f"driver job {job}" in call("cancel", run.store).stdout
    clean_slurm.wait_for(job, "COMPLETED", "FAILED", "CANCELLED")
    assert not [j for j in clean_slurm.jobs() if j.state in ("RUNNING", "PENDING")]
    run.set_pause(0.0)
    run.release()
    job = int(call(*submit).stdout)
    end = clean_slurm.wait_for(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", seconds=300)
    log = (run.store / "jobs" / "logs" / f"driver-{job}.log").read_text()
    assert end.state == "COMPLETED", log
    assert "Traceback" not in log
    run.check("cancel of a driver in a job", undisturbed)


def check_status(job: int, run: Disturbed) -> None:
    """The driver is called by its node, so that status tells where to look, also for its dashboard, on loopback only."""
    wait_until(lambda: "ssh -L" in call("status", run.store).stdout, "a heartbeat that tells of it")
    status, nodes = call("status", run.store).stdout, run.slurm.job(job).nodes
    assert f"driver job     {job} running on {nodes[0] if len(nodes) == 1 else 'n'}" in status
    (line,) = [line for line in status.splitlines() if "ssh -L" in line]
    port = int(line.split("ssh -L ")[1].split(":")[0])
    links = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert [c.laddr.ip for c in links if c.laddr.port == port] == ["127.0.0.1"]
