"""The fixed place: this process runs in a job of several nodes, holds the scheduler, and starts workers with srun."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import SpecCluster

from hpcdp._base.files import make_folders, open_itself, replaced
from hpcdp.clusters import slurm
from hpcdp.clusters.certificates import Certificate
from hpcdp.clusters.fleet import Unit, Units
from hpcdp.clusters.profile import Profile
from hpcdp.clusters.remote import OnDask, open_fleet
from hpcdp.clusters.scheduler import QuietScheduler, own_cluster
from hpcdp.clusters.slurm import JobFolder
from hpcdp.clusters.worker import WorkerJob, job_arguments
from hpcdp.errors import StudyError

_PATIENCE = 15.0  # seconds between SIGTERM and SIGKILL for a step


def check_allocation(profile: Profile) -> None:
    """Refuse to run outside a job, or in one that is smaller than the profile says."""
    nodes = os.environ.get("SLURM_JOB_NUM_NODES")
    if "SLURM_JOB_ID" not in os.environ or nodes is None:
        raise StudyError(
            'a profile with cluster.driver = "allocation" runs inside its own job: hpcdp submit STUDY --profile …, '
            "or sbatch a script like slurm/allocation.sh"
        )
    if int(nodes) < profile.size.most:
        raise StudyError(f"size.nodes: at most the {nodes} nodes of this job; given: {profile.size.most}")


class StepUnits(Units):
    """Job steps, one a node, each of which runs a worker's script."""

    word = "step"

    def __init__(self, cluster: SpecCluster, profile: Profile, folder: JobFolder, arguments: dict[str, Any]) -> None:
        super().__init__(cluster)
        self._profile, self._folder, self._arguments = profile, folder, arguments
        self._steps: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self._count = 0

    def start(self, count: int) -> list[Unit]:
        """One srun a unit: when one ends, the others and the allocation go on."""
        units = []
        for _ in range(count):
            self._count += 1
            name = f"{self._folder.name}-{self._count}"
            unit = Unit(name, str(self._count), cores=self._profile.worker.cores)
            job = WorkerJob(self._cluster.scheduler.address, name=name, **self._arguments)
            script = self._folder.worker_script
            with replaced(script) as new:
                new.write_text(job.job_script())
            command = ["srun", "--nodes=1", "--ntasks=1", f"--cpus-per-task={unit.cores}", "--mem=0", "--exact"]
            command += ["--kill-on-bad-exit=0", f"--job-name={self._folder.name}", "--unbuffered", "bash", "-c"]
            command.append(job.job_script())
            log = self._folder.logs / f"worker-{os.environ['SLURM_JOB_ID']}-{self._count}.log"
            try:
                with open_itself(log, "ab") as out:
                    step = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            except OSError as error:
                unit.refuse(f"cannot run srun: {error.strerror or error}")
            else:
                unit.state = "RUNNING"
                self._steps[name] = (step, time.monotonic())
            units.append(unit)
        return units

    def look(self, units: Sequence[Unit]) -> None:
        """Whether their sruns still run."""
        for unit in units:
            step, begin = self._steps[unit.name]
            code = step.poll()
            if code is None:
                unit.seconds = int(time.monotonic() - begin)
            else:
                unit.state, unit.reason = ("COMPLETED" if code == 0 else "FAILED"), f"exit code {code}"

    def end(self, units: Sequence[Unit]) -> None:
        """SIGTERM to the sruns, which pass it on."""
        steps = [self._steps.pop(unit.name)[0] for unit in units if unit.name in self._steps]
        for step in steps:
            if step.poll() is None:
                step.terminate()
        for step in steps:
            try:
                step.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                step.kill()
                step.wait()


@contextmanager
def open_allocation(
    profile: Profile,
    folder: JobFolder,
    certificate: Certificate | None,
    note: Callable[[str], None],
) -> Iterator[OnDask]:
    """A scheduler in this process, and a step of workers on every node of this job."""
    left = slurm.seconds_left(os.environ["SLURM_JOB_ID"])
    arguments = job_arguments(profile, folder, certificate, time.time() + left if left else None)
    security = certificate.security() if certificate else None
    options = {
        "dashboard_address": profile.cluster.dashboard_address,
        "port": profile.cluster.port,
        "interface": profile.cluster.interface,
        "protocol": arguments["protocol"],
        "security": security,
    }
    make_folders(folder.root.parent, folder.logs)
    with own_cluster() as ending:
        cluster = SpecCluster(
            name=folder.name,
            scheduler={"cls": QuietScheduler, "options": options},
            security=security,
            silence_logs="CRITICAL",
        )
        ending.enter_context(cluster)
        units = StepUnits(cluster, profile, folder, arguments)
        yield open_fleet(ending, cluster, units, profile, note)
