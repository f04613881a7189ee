"""Loaded by the workers of this machine: their standard output is the driver's, which is for results."""

from __future__ import annotations

from typing import Any

from hpcdp._prints import end_results


def dask_setup(_: Any) -> None:
    """Whatever this process prints goes to standard error, between tasks and after them too."""
    end_results()
