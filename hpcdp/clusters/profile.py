"""Cluster profiles (TOML): what a site's jobs look like; parsed once, validated like studies, frozen.

An unknown key, a wrong type or an impossible value raises `StudyError` that names the key, what was given and what is
accepted. Durations are "90s", "30m", "8h", "2d" or SLURM's "D-HH:MM:SS"; memory is "4GB", "512MB" and so on.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BeforeValidator, Field, model_validator

from hpcdp._base.files import parse_toml
from hpcdp._base.messages import describe_errors
from hpcdp.clusters.slurm import REFUSED, refused_in, seconds_of
from hpcdp.errors import StudyError
from hpcdp.study.section import WHOLE, Section, duration_seconds

_BYTES = {"K": 10, "M": 20, "G": 30, "T": 40}


def _seconds(value: Any) -> int:
    """Whole seconds of a study's durations, of "30m", or as SLURM writes them: "MM:SS", "HH:MM:SS", "D-HH:MM:SS"."""
    if isinstance(value, str):
        if (seconds := seconds_of(value.strip())) is not None:
            return seconds
        simple = re.fullmatch(r"(\d+)\s*([a-z]+)", value.strip())
        with suppress(ValueError, OverflowError):
            return int(duration_seconds(f"{simple[1]} {'min' if simple[2] == 'm' else simple[2]}" if simple else ""))
    raise ValueError('a duration such as "30s", "90m", "8h", "2d" or "1-12:00:00"')


def _memory(value: Any) -> int:
    """Bytes of "4GB", "512 MiB", "3T": powers of 1024, as SLURM counts."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B)?", value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError('an amount of memory such as "4GB" or "512MB"')
    return int(float(match[1]) * 2 ** _BYTES[match[2]])


def _word(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\S+", value):
        return value
    raise ValueError("one word without spaces")


def _line(value: Any) -> str:
    if isinstance(value, str) and "\n" not in value:
        return value
    raise ValueError("one line of text")


def _lines(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(_line(item) for item in value)
    raise ValueError("a list of lines of text")


def _directives(value: Any) -> tuple[str, ...]:
    lines = _lines(value)
    if any(refused_in(line) for line in lines):
        raise ValueError(f"options of sbatch but {', '.join(REFUSED)}, with which a script is not one job of hpcdp's")
    return lines


def _prologue(value: Any) -> tuple[str, ...]:
    lines = _lines(value)
    _directives([line.removeprefix("#SBATCH") for line in lines if line.startswith("#SBATCH")])  # sbatch reads them too
    return lines


Seconds = Annotated[int, BeforeValidator(_seconds), Field(ge=1)]
Bytes = Annotated[int, BeforeValidator(_memory), Field(ge=1 << 20)]
Count = Annotated[int, Field(ge=1), WHOLE]
Word = Annotated[str, BeforeValidator(_word)]
Line = Annotated[str, BeforeValidator(_line)]
Directives = Annotated[tuple[str, ...], BeforeValidator(_directives)]
Prologue = Annotated[tuple[str, ...], BeforeValidator(_prologue)]


class Site(Section):
    """[cluster]: what holds for every job of the site."""

    system: Literal["slurm"] = "slurm"
    driver: Literal["elastic", "allocation"] = "elastic"
    interface: Word | None = None
    port: Annotated[int, Field(ge=0, le=65535), WHOLE] = 0
    python: Line | None = None
    prologue: Prologue = ()
    tls: bool = True
    dashboard: bool = False
    no_worker_timeout: Seconds = 3600
    drain: Seconds = 60
    poll: Seconds = 10

    @property
    def dashboard_address(self) -> str | None:
        """Where the driver's dashboard listens: on loopback, for every user of its node; None: nowhere."""
        return "127.0.0.1:0" if self.dashboard else None


class WorkerJob(Section):
    """[worker]: one job of workers, or one node's share of an allocation."""

    queue: Word | None = None
    account: Word | None = None
    cores: Count
    memory: Bytes
    processes: Count | None = None
    threads: Count = 1
    walltime: Seconds
    cores_per_node: Count | None = None
    scratch: Line = "${TMPDIR:-/tmp}"
    directives: Directives = ()
    useful: Seconds = 300

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.slots > self.cores:
            raise ValueError(
                f"processes × threads is at most cores = {self.cores}; given: {self.process_count} × {self.threads}"
            )
        return self

    @property
    def process_count(self) -> int:
        """Worker processes a job: one a core, unless told otherwise."""
        return self.processes or max(1, self.cores // self.threads)

    @property
    def slots(self) -> int:
        """Tasks that a job runs at once."""
        return self.process_count * self.threads

    @property
    def library_threads(self) -> int:
        """Threads that BLAS and numba may use in each task."""
        return max(1, self.cores // self.slots)


class Size(Section):
    """[size]: how many jobs: fixed (`jobs`), adaptive (`minimum` to `maximum`), or `nodes` of an allocation."""

    jobs: Count | None = None
    minimum: Annotated[int, Field(ge=0), WHOLE] | None = None
    maximum: Count | None = None
    nodes: Count | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        adaptive = self.minimum is not None or self.maximum is not None
        given = (self.jobs is not None) + adaptive + (self.nodes is not None)
        if given != 1:
            raise ValueError(f"exactly one of: jobs | minimum and maximum | nodes; given: {self._given()}")
        if adaptive and self.maximum is None:
            raise ValueError(f"maximum is needed where minimum is given; given: {self._given()}")
        if self.most < self.least:
            raise ValueError(f"minimum is at most maximum = {self.maximum}; given: {self.minimum}")
        return self

    def _given(self) -> str:
        given = {k: v for k, v in self.model_dump().items() if v is not None}
        return ", ".join(f"{key} = {value}" for key, value in given.items()) or "none of them"

    @property
    def least(self) -> int:
        """Jobs that are kept while there is work."""
        return self.jobs or self.nodes or self.minimum or 0

    @property
    def most(self) -> int:
        """Jobs at most."""
        return self.jobs or self.nodes or self.maximum or 0


class DriverJob(Section):
    """[driver]: the job of the driver itself, for `hpcdp submit`; an allocation has its workers in the same job."""

    queue: Word | None = None
    account: Word | None = None
    cores: Count = 2
    memory: Bytes = 4 << 30
    walltime: Seconds | None = None
    directives: Directives = ()
    resubmit: bool = False


class Profile(Section):
    """A cluster profile."""

    cluster: Site = Site()
    worker: WorkerJob
    size: Size
    driver: DriverJob = DriverJob()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        allocation = self.cluster.driver == "allocation"
        if allocation != (self.size.nodes is not None):
            raise ValueError(
                'size.nodes goes with cluster.driver = "allocation", jobs or maximum with "elastic"; '
                f"given: size.nodes = {self.size.nodes}, cluster.driver = {self.cluster.driver!r}"
            )
        for name, walltime in (("worker", self.worker.walltime), ("driver", self.driver_walltime)):
            if 2 * self.cluster.drain > walltime:
                raise ValueError(
                    f"cluster.drain is at most half of {name}.walltime = {walltime} s; given: {self.cluster.drain} s"
                )
        return self

    @property
    def driver_walltime(self) -> int:
        """Seconds of the driver's job; an allocation ends with its workers."""
        allocation = self.cluster.driver == "allocation"
        return self.worker.walltime if allocation else self.driver.walltime or self.worker.walltime

    @property
    def slots(self) -> int:
        """Tasks that run at once when all jobs run."""
        return self.size.most * self.worker.slots

    def jobs_for(self, tasks: int, seconds: float) -> int:
        """Jobs for so many tasks that take so long in all: none has less to do than `worker.useful` on all its slots."""
        slots = self.worker.slots
        wanted = min(-(-tasks // slots), math.ceil(seconds / (self.worker.useful * slots)))
        return min(self.size.most, max(self.size.least, wanted, 1 if tasks else 0))

    @property
    def useful_seconds(self) -> int:
        """Seconds of a worker job in which it takes tasks."""
        return self.worker.walltime - self.cluster.drain

    @classmethod
    def from_toml(cls, path: str | Path) -> Profile:
        """Read a profile; StudyError when there is none or it is wrong."""
        try:
            data = parse_toml(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise StudyError(f"cannot read the profile {path}: {error.strerror or error}") from None
        except ValueError as error:
            raise StudyError(f"{path} is not TOML: {error}") from None
        return cls.from_dict(data, str(path))

    @classmethod
    def from_dict(cls, data: dict[str, Any], name: str = "the profile") -> Profile:
        """Validate a profile's tables; StudyError names every key that is wrong."""
        try:
            return cls.model_validate(data)
        except pydantic.ValidationError as error:
            raise StudyError(f"{name}: " + describe_errors(error, cls)) from None
