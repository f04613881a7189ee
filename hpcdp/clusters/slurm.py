"""SLURM's own commands: submit, list and cancel jobs; their names, and where a store has their files. No database is needed.

Options of sbatch that a profile's jobs cannot have: one script must be one job, of its own name, that runs. Jobs are found by
their name and id, on this cluster. An array would start many drivers or workers of one id; --test-only submits nothing; --wait
lets sbatch return when the job is over; --wrap takes the place of the script.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcdp.errors import HpcdpError, StudyError
from hpcdp.keys import digest_bytes
from hpcdp.store.layout import Layout

ACTIVE = frozenset(
    {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
    | {"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
"""States of jobs that run or may still run."""

_FIELDS = ("%i", "%j", "%T", "%M", "%N", "%C", "%r")
_TIMEOUT = 60.0  # a controller that is busy or restarts answers late


class SlurmError(HpcdpError, RuntimeError):
    """A SLURM command failed or did not answer; its message is what SLURM said, in one line."""


@dataclass
class Job:
    """A job as `squeue` shows it. seconds: how long it has run; cpus: how many it has; reason: why it waits."""

    id: str
    name: str
    state: str = "PENDING"
    seconds: int = 0
    node: str = ""
    cpus: int = 0
    reason: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it runs or may still run."""
        return self.state in ACTIVE


def check_installed() -> None:
    """Refuse a machine without SLURM's client commands."""
    missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
    if missing:
        raise StudyError(f"a SLURM profile needs SLURM's commands on the PATH; missing here: {', '.join(missing)}")


def outside_a_job() -> dict[str, str]:
    """The environment without what SLURM set for this process's job, and without options that hpcdp's jobs cannot have."""
    kept = ("SLURM_CONF", "SLURM_TIME_FORMAT")
    return {k: v for k, v in os.environ.items() if k in kept or (not k.startswith("SLURM") and k not in ENVIRONMENT)}


def submit(*arguments: str, given: str = "") -> str:
    """Submit a script, or the text that is given; the job's id."""
    return call("sbatch", "--parsable", *arguments, given=given).strip().partition(";")[0]


def jobs_named(names: Iterable[str]) -> list[Job]:
    """This user's jobs of these names that run, wait, or ended a short time ago."""
    words = ("--noheader", "--states=all", "--format=" + "|".join(_FIELDS), "--me", "--name", ",".join(names))
    jobs = []
    for line in call("squeue", *words).splitlines():
        parts = line.split("|", len(_FIELDS) - 1)
        if len(parts) == len(_FIELDS):
            number, name, state, elapsed, node, cpus, reason = (part.strip() for part in parts)
            jobs.append(Job(number, name, state, seconds_of(elapsed) or 0, node, int(cpus or 0), reason))
    return jobs


def seconds_left(job: str) -> int | None:
    """Seconds until a running job's walltime ends; None when it has none."""
    return seconds_of(call("squeue", "--noheader", "--format=%L", "--jobs", job).strip()) or None


def cancel(ids: Iterable[str], *how: str) -> None:
    """Cancel jobs; those that ended already are no error. how: other options of scancel."""
    if jobs := list(ids):
        call("scancel", "--quiet", *how, *jobs, accept=(0, 1))


def call(*command: str, accept: Sequence[int] = (0,), given: str = "") -> str:
    """Run a command outside this process's own job; what it prints. SlurmError when it fails or does not answer."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            env=outside_a_job(),
            input=given,
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} did not answer in {_TIMEOUT:.0f} s") from None
    except OSError as error:
        raise SlurmError(f"cannot run {command[0]}: {error.strerror or error}") from None
    if done.returncode not in accept:
        said = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise SlurmError(f"{command[0]}: {said}")
    return done.stdout


def seconds_of(text: str) -> int | None:
    """Seconds of SLURM's [D-][HH:]MM:SS; None where it is no such time, as where squeue says INVALID."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def clock(seconds: int) -> str:
    """D-HH:MM:SS, as SLURM takes a time limit."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours // 24}-{hours % 24:02}:{minute:02}:{second:02}"


_SHORT = {"--array": "-a", "--clusters": "-M", "--job-name": "-J", "--wait": "-W"}
REFUSED = (*_SHORT, "--test-only", "--wrap")
ENVIRONMENT = ("SBATCH_ARRAY_INX", "SBATCH_CLUSTERS", "SBATCH_JOB_NAME", "SBATCH_WAIT")
"""The same options as variables; sbatch lets them rule what a script says."""


def refused_in(line: str) -> str | None:
    """The first such option among those of a line, as after #SBATCH; None where there is none."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a quote that does not end: sbatch itself will say so
        words = line.split()
    return next((name for word in words for name in REFUSED if _means(word, name)), None)


def _means(word: str, name: str) -> bool:
    given = word.partition("=")[0]
    is_beginning = len(given) > 2 and name.startswith(given)  # sbatch itself refuses those of several options
    short = _SHORT.get(name)
    return is_beginning or bool(short and re.match(rf"-[HIQhksv]*{short[1]}", word))


def job_name(study: str, store: str) -> str:
    """The name of all jobs of a store, by which they are found again: hpcdp, the study's name, a digest of the path."""
    word = re.sub(r"[^A-Za-z0-9._+-]", "-", study)[:40]
    return f"hpcdp-{word}-{digest_bytes(b'store', os.fsencode(store))[:8]}"


def driver_name(name: str) -> str:
    """The name of the driver's jobs where the workers' is `name`."""
    return f"{name}-driver"


class JobFolder:
    """The folder of a store in which its jobs keep what they need. name: of the jobs."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        self.logs = root / "logs"  # of the driver's and of the workers' jobs
        self.profile = root / "profile.toml"  # the one that `submit` was given, as it was then
        self.driver_script = root / "driver.sh"  # what `submit` hands to sbatch
        self.worker_script = root / "worker.sh"  # the last one of a worker's job or step, to read
        self.keys = root / "keys"  # folder of the folders of certificates

    def key(self, generation: int) -> Path:
        """Folder of the certificate of one run."""
        return self.keys / f"{generation:06d}"


def job_folder(layout: Layout, study: str) -> JobFolder:
    """The folder of a store's jobs."""
    root = layout.root.resolve()
    return JobFolder(Layout(root).jobs, job_name(study, str(root)))
