"""Settings that every test shares."""

import os
import tempfile

import pytest
from hypothesis import settings

# The same examples in every run, and no time limit, which would measure how busy the machine is.
settings.register_profile("hpcdp", derandomize=True, deadline=None, database=None)
settings.load_profile("hpcdp")


def pytest_configure(config: pytest.Config) -> None:
    """Keep windows, and Dask's configuration files, away from whoever runs the tests."""
    os.environ["MPLBACKEND"] = "Agg"
    folder = tempfile.TemporaryDirectory(prefix="hpcdp-dask-")
    config.add_cleanup(folder.cleanup)
    os.environ["DASK_CONFIG"] = folder.name  # importing dask-jobqueue writes into this folder
