"""Trial draws and workers use the same number of threads of numerical libraries, or what was measured would be of no use."""

from __future__ import annotations

from pathlib import Path

from commands import MECHANISM, hpcdp, write_study

# One line a call: how many threads each library that is loaded would use, and what a program that it starts would be told.
COUNTING = (
    MECHANISM
    + """

import numpy as np
from threadpoolctl import threadpool_info

honest = noisy


def noisy(database, size, rng):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    found = [library["num_threads"] for library in threadpool_info()] + [os.environ.get(name) for name in names]
    with open(os.path.join(os.path.dirname(LOG), "threads.txt"), "a") as lines:
        lines.write(f"{sorted(set(map(str, found)))}\\n")
    return honest(database, size, rng)
"""
)


def test_trial_draws_use_the_threads_of_workers(tmp_path: Path) -> None:
    study = write_study(tmp_path, COUNTING, rows=[0], train=500, test=500)
    hpcdp("plan", study, folder=tmp_path)
    planned = (tmp_path / "threads.txt").read_text().splitlines()
    hpcdp("run", study, "--workers", 1, "--store", tmp_path / "s.zarr", folder=tmp_path)
    everywhere = (tmp_path / "threads.txt").read_text().splitlines()
    assert len(everywhere) > 2 * len(planned) > 0
    assert set(everywhere) == {"['1']"}
