"""Where tasks run: this machine, SLURM jobs, one SLURM allocation, or a running scheduler."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hpcdp._base.asked import option, wrong
from hpcdp._base.signals import kept_handlers
from hpcdp.clusters import slurm
from hpcdp.clusters.executors import TaskExecutor
from hpcdp.clusters.profile import Profile
from hpcdp.errors import StoreError, StudyError

if TYPE_CHECKING:
    from hpcdp.clusters.remote import OnDask
    from hpcdp.clusters.slurm import JobFolder

__all__ = ["TaskExecutor", "Where", "connect", "default_workers", "parse_place"]

_ACCEPTED = "local, a scheduler address such as tcp://host:8786, a scheduler file (.json) or a cluster profile (.toml)"
_ADDRESS = re.compile(r"^[a-z]+://")
_PATIENCE = 300.0  # seconds without a worker of somebody's own scheduler


@dataclass(frozen=True)
class Where:
    """A place that was named: a cluster profile, a scheduler, or this machine. to: how Dask is told of the scheduler."""

    profile: Profile | None = None
    to: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_here(self) -> bool:
        """Whether it is this machine, with workers of the run's own."""
        return self.profile is None and not self.to

    @property
    def slots(self) -> int | None:
        """Tasks that a profile's cluster runs at once; None where only the scheduler knows."""
        return self.profile.slots if self.profile else None

    @property
    def library_threads(self) -> int:
        """Threads that numerical libraries use in each task, as far as is known here."""
        return self.profile.worker.library_threads if self.profile else 1


def default_workers() -> int:
    """One process a usable core."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_place(cluster: str) -> Where:
    """What --cluster names; StudyError when it is none of: local, an address, FILE.json, PROFILE.toml."""
    if cluster == "local":
        return Where()
    if not isinstance(cluster, str):
        raise wrong("cluster", cluster, _ACCEPTED)
    if _ADDRESS.match(cluster):
        if cluster.startswith(("tcp://", "tls://")) and not re.search(r":\d+$", cluster):
            raise StudyError(
                f"{option('cluster', cluster)}: it has no port; accepted: such as {cluster.rstrip(':/')}:8786"
            )
        return Where(to={"address": cluster})
    if cluster.endswith(".toml"):
        profile = Profile.from_toml(cluster)
        check_profile(profile)
        return Where(profile=profile)
    if cluster.endswith(".json"):
        if not Path(cluster).is_file():
            raise StudyError(f"{option('cluster', cluster)}: no scheduler file there")
        return Where(to={"scheduler_file": cluster})
    raise StudyError(f"{option('cluster', repr(cluster))} was given; accepted: {_ACCEPTED}")


def silence_dask() -> None:
    """Keep Dask's log to itself: what it tells of lost connections is no news while workers end."""
    import dask

    names = ("distributed", "distributed.client", "tornado.application", "asyncio")
    dask.config.set({"logging": dict.fromkeys(names, "critical")})  # for when it is loaded
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def check_profile(profile: Profile) -> None:
    """Refuse a profile that cannot work on this machine, before anything is written."""
    slurm.check_installed()
    if profile.cluster.driver != "allocation":
        return
    nodes = os.environ.get("SLURM_JOB_NUM_NODES")
    if "SLURM_JOB_ID" not in os.environ or nodes is None:
        raise StudyError(
            'a profile with cluster.driver = "allocation" runs inside its own job: hpcdp submit STUDY --profile …, '
            "or sbatch a script like slurm/allocation.sh"
        )
    if int(nodes) < profile.size.most:
        raise StudyError(f"size.nodes: at most the {nodes} nodes of this job; given: {profile.size.most}")


def connect(
    where: Where,
    workers: int | None = None,
    folder: JobFolder | None = None,
    generation: int = 0,
    note: Callable[[str], None] = lambda _: None,
    dashboard: bool = False,
) -> AbstractContextManager[OnDask]:
    """Workers of a Dask scheduler; whatever this started ends with the context. StoreError when no scheduler answers."""
    if where.profile is not None:
        with kept_handlers():  # dask-jobqueue takes Ctrl-C for itself when it is imported
            from hpcdp.clusters.jobs import open_jobs
        assert folder is not None
        return open_jobs(where.profile, folder, generation, note)
    if where.to:
        return _attach(where, note)
    from hpcdp.clusters.scheduler import open_local

    return open_local(workers or default_workers(), dashboard)


@contextmanager
def _attach(where: Where, note: Callable[[str], None]) -> Iterator[OnDask]:
    import dask
    from distributed import Client, Security

    from hpcdp.clusters.remote import open_on_dask

    (name,) = where.to.values()
    if name.startswith("tls://") and Security().get_connection_args("client").get("ssl_context") is None:
        raise StoreError(
            f"{name} asks for a TLS certificate; given: none; accepted: the export lines that hpcdp certificate FOLDER printed, "
            "in this shell"
        )
    if name.startswith("tcp://") and dask.config.get("distributed.comm.require-encryption"):
        raise StoreError(
            f"{name} is an address without TLS, which Dask's settings in this shell ask for (as hpcdp certificate FOLDER prints "
            f"them); accepted: tls{name[3:]}"
        )
    try:
        client = Client(**where.to, timeout="20s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise StoreError(f"no Dask scheduler answers at {name}: {error}") from error
    with client:
        if not str(client.scheduler_info(n_workers=0)["address"]).startswith("tls://"):
            note(f"warning: the scheduler at {name} has no TLS: who reaches it can run code as you (hpcdp certificate)")
        with open_on_dask(client, _PATIENCE) as executor:
            yield executor
