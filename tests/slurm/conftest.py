"""A real SLURM for the tests in this folder."""

import os
from collections.abc import Iterator

import pytest
from throwaway import ThrowawaySlurm, is_installed


@pytest.fixture(scope="session", name="slurm")
def slurm_fixture() -> Iterator[ThrowawaySlurm]:
    """A SLURM with four nodes, which is also the one of every process that a test starts."""
    if not is_installed():
        missing = "SLURM is not installed (slurmctld, slurmd, munge)"
        if os.environ.get("HPCDP_REQUIRE_SLURM") == "1":
            pytest.fail(f"{missing}, and HPCDP_REQUIRE_SLURM is 1")
        pytest.skip(f"{missing}: the tests in tests/slurm were skipped")
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
