"""Trial draws and workers use the same number of threads of numerical libraries, or what was measured would be of no use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from commands import MECHANISM, hpcdp, write_study
from threadpoolctl import threadpool_info

from hpcdp._base.threads import VARIABLES, library_threads, program_environment, worker_threads

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


def test_trial_draws_use_the_threads_of_workers(tmp_path: Path) -> None:
    study = write_study(tmp_path, COUNTING, rows=[0], train=500, test=500)
    as_users = ["env", *(word for name in VARIABLES for word in ("-u", name)), "NUMBA_NUM_THREADS=2"]
    hpcdp("plan", study, folder=tmp_path, prefix=as_users)
    lines = tmp_path / "threads.txt"
    assert set(lines.read_text().splitlines()) == {"in trial draws: ['1']"}
    lines.unlink()
    hpcdp("run", study, "--workers", 1, "--store", tmp_path / "s.zarr", folder=tmp_path)
    assert set(lines.read_text().splitlines()) == {"in trial draws: ['1']", "in a worker: ['1']"}


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_kernels_compile_in_trial_draws_and_after_them(threads: int) -> None:
    """Numba's threads run already here, after which it refuses another number in the environment."""
    numba.set_num_threads(1)
    before = dict(os.environ)

    def compiled() -> int:
        return int(numba.njit(lambda number: number + 1)(1))

    with worker_threads(threads):
        assert compiled() == 2
        assert numba.get_num_threads() == min(threads, numba.config.NUMBA_NUM_THREADS)
        code = f"import os; print([os.environ[name] for name in {VARIABLES}])"
        done = subprocess.run(
            [sys.executable, "-c", code], env=program_environment(), capture_output=True, text=True, check=True
        )
        assert set(eval(done.stdout)) == {str(threads)}
    assert compiled() == 2
    after = program_environment()
    assert dict(os.environ) == after
    assert [after.get(name) for name in VARIABLES] == [before.get(name) for name in VARIABLES]


def test_the_last_of_several_threads_puts_back_what_the_first_one_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    first, second = worker_threads(1), worker_threads(2)
    before = [library["num_threads"] for library in threadpool_info()]
    first.__enter__()
    second.__enter__()
    assert os.environ["OMP_NUM_THREADS"] == "2"
    first.__exit__(None, None, None)
    assert (os.environ["OMP_NUM_THREADS"], program_environment()["NUMBA_NUM_THREADS"]) == ("2", "2")
    second.__exit__(None, None, None)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
    assert [library["num_threads"] for library in threadpool_info()] == before
    assert program_environment() == dict(os.environ)


def test_libraries_have_one_count_of_who_wants_what() -> None:
    before = [library["num_threads"] for library in threadpool_info()]
    first, second = library_threads(1), worker_threads(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert [library["num_threads"] for library in threadpool_info()] == before
