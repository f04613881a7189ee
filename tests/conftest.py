"""Settings and clusters that all tests share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from distributed import Client

# The same examples in every run, and no time limit, which would measure how busy the machine is.
settings.register_profile("hpcdp", derandomize=True, deadline=None, database=None)
settings.load_profile("hpcdp")


def pytest_configure(config: pytest.Config) -> None:
    """Keep windows, and Dask's configuration files, away from whoever runs the tests."""
    os.environ["MPLBACKEND"] = "Agg"
    folder = tempfile.TemporaryDirectory(prefix="hpcdp-dask-")
    config.add_cleanup(folder.cleanup)
    os.environ["DASK_CONFIG"] = folder.name  # importing dask-jobqueue writes into this folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that wait for jobs among those that compute, so that neither is left for the end."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [path for path in files if path.parent.name == "slurm"]
    computing = [path for path in files if path.parent.name != "slurm"]
    step = max(1, 2 * len(computing) // (3 * max(1, len(waiting))))  # the last third has none
    order: list[Path] = []
    for number, path in enumerate(computing):
        if number % step == 0 and waiting:
            order.append(waiting.pop(0))
        order.append(path)
    items[:] = [item for path in (*order, *waiting) for item in files[path]]


@pytest.fixture(scope="session", name="client")
def client_fixture() -> Iterator[Client]:
    """A client of a local cluster of two workers of one thread, for studies that run in this process."""
    from hpcdp.clusters import open_local  # Dask reads its configuration's place when it is imported

    with open_local(2) as place:
        yield place.client


@pytest.fixture(scope="session", name="scheduler")
def scheduler_fixture() -> Iterator[str]:
    """The address of a scheduler with two workers, for commands that need no processes of their own."""
    from hpcdp.clusters import open_local

    with open_local(2) as place:
        yield place.client.scheduler.address
