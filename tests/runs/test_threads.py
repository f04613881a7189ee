"""Trial draws and workers use the same number of threads of numerical libraries, or what was measured would be of no use."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest
from commands import MECHANISM, write_study
from commands import hpcdp as command
from threadpoolctl import threadpool_info

import hpcdp

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

# One line a call: how many threads each library that is loaded would use, and what a program that it starts would be told.
COUNTING = (
    MECHANISM
    + """

import numba
import numpy as np
from threadpoolctl import threadpool_info

honest = noisy


def noisy(database, size, rng):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    found = [library["num_threads"] for library in threadpool_info()] + [os.environ.get(name) for name in names]
    found.append(numba.get_num_threads())
    with open(os.path.join(os.path.dirname(LOG), "threads.txt"), "a") as lines:
        lines.write(f"{'in a worker' if on_worker() else 'in trial draws'}: {sorted(set(map(str, found)))}\\n")
    return honest(database, size, rng)
"""
)


@pytest.mark.slow
def test_trial_draws_use_the_threads_of_workers(tmp_path: Path) -> None:
    study = write_study(tmp_path, COUNTING, rows=[0], train=500, test=500)
    as_users = ["env", *(word for name in VARIABLES for word in ("-u", name)), "NUMBA_NUM_THREADS=2"]
    command("plan", study, folder=tmp_path, prefix=as_users)
    lines = tmp_path / "threads.txt"
    assert set(lines.read_text().splitlines()) == {"in trial draws: ['1']"}
    lines.unlink()
    command("run", study, "--workers", 1, "--store", tmp_path / "s.zarr", folder=tmp_path)
    assert set(lines.read_text().splitlines()) == {"in trial draws: ['1']", "in a worker: ['1']"}


def test_a_callers_threads_are_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of libraries, of the environment, and of kernels that are compiled afterwards; also where runs overlap."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    numba.set_num_threads(1)
    counts, before = [library["num_threads"] for library in threadpool_info()], dict(os.environ)
    study = write_study(tmp_path, COUNTING, rows=[0], train=500, test=500)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(hpcdp.run, study, tmp_path / f"{name}.zarr", workers=0) for name in "ab"]
    assert all(one.result().complete for one in runs)
    assert [library["num_threads"] for library in threadpool_info()] == counts
    assert {name: os.environ.get(name) for name in VARIABLES} == {name: before.get(name) for name in VARIABLES}
    assert numba.njit(lambda number: number + 1)(1) == 2
    assert len((tmp_path / "threads.txt").read_text().splitlines()) > 4
