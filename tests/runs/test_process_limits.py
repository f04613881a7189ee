"""How many files a process may open: too low limits are told before anything is drawn."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import psutil
import pytest
from commands import LONG, hold, hpcdp, one_message, started, wait_until, write_study

SMALL = {"databases": [[0.0, 1.0]], "train": 1000, "test": 1000}


def limited(files: int) -> list[str]:
    """Begin a command with a limit of open files."""
    return ["/bin/sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]


@pytest.mark.slow
def test_a_run_needs_few_open_files(tmp_path: Path) -> None:
    """A scheduler more; what is too few is refused before anything is drawn."""
    study = write_study(tmp_path, **SMALL)
    hpcdp("run", study, "--workers", "2", folder=tmp_path, prefix=limited(40))
    line = one_message(hpcdp("run", study, "--dashboard", folder=tmp_path, prefix=limited(40), code=2))
    assert re.search(r"a run on Dask's workers: needs \d+ open files .* given: a limit of 40 \(ulimit -Hn\)", line)
    soft = ["/bin/sh", "-c", 'ulimit -Sn 40 && exec "$@"', "sh"]
    hpcdp("run", study, "--dashboard", folder=tmp_path, prefix=soft)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux changes another process's limits")
def test_a_scheduler_that_may_open_no_more_files_ends_its_run(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, rows=[0], **SMALL), tmp_path / "s.zarr"
    hold(tmp_path, store, 0)
    with started("run", study, "--store", store, "--workers", 2, "--dashboard", folder=tmp_path) as process:
        wait_until(store.exists, "the run has begun")
        below = psutil.Process(process.pid)
        wait_until(
            lambda: [one for one in below.children(recursive=True) if one.name() == "hpcdp-child"], "a child draws"
        )
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (30, 30))
        _, said = process.communicate(timeout=LONG)
    assert process.returncode == 1, said
    assert said.endswith("hpcdp: too many open files: the limit is 30 (ulimit -n); what is committed is kept\n")
    assert "Traceback" not in said
