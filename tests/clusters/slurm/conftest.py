"""A real SLURM for the tests in this folder."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import call, calls, committed, show, write_study
from disturbed import SETTINGS
from throwaway import ThrowawaySlurm, is_installed


@pytest.fixture(scope="session", name="slurm")
def slurm_fixture() -> Iterator[ThrowawaySlurm]:
    """A SLURM with four nodes, which is also the one of every process that a test starts."""
    if not is_installed():
        missing = "SLURM is not installed (slurmctld, slurmd, munge)"
        if os.environ.get("HPCDP_REQUIRE_SLURM") == "1":
            pytest.fail(f"{missing}, and HPCDP_REQUIRE_SLURM is 1")
        pytest.skip(f"{missing}: the tests in tests/clusters/slurm were skipped")
    with ThrowawaySlurm(nodes=4) as slurm, pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - set(slurm.environment):  # the settings for another SLURM
            patch.delenv(name)
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        yield slurm


@pytest.fixture(name="clean_slurm")
def clean_slurm_fixture(slurm: ThrowawaySlurm) -> Iterator[ThrowawaySlurm]:
    """The same SLURM. Afterwards its jobs are ended, and what a test stopped is started again."""
    try:
        yield slurm
    finally:
        slurm.reset()


@pytest.fixture(scope="session", name="undisturbed_store")
def undisturbed_store_fixture(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> Path:
    """A store of the study that workers of this machine ran from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    store = folder / "s.zarr"
    call("run", write_study(folder, **SETTINGS), "--store", store, "--cluster", scheduler)
    assert Counter(calls(folder, store)) == dict.fromkeys(committed(store), 1)
    return store


@pytest.fixture(scope="session", name="undisturbed")
def undisturbed_fixture(undisturbed_store: Path) -> str:
    """The JSON of the study, as it should be whatever happens."""
    return show(undisturbed_store)
