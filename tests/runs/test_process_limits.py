"""What a process may open, write and hold: too low limits are told before anything is drawn, and of who lowered them."""

from __future__ import annotations

import re
import resource
import shutil
from pathlib import Path

import psutil
import pytest
from commands import LONG, hold, hpcdp, one_message, started, wait_until, worker_of, write_study

LOWERING = """
import resource
import threading


def lowering(database, size, rng, which, limit, trials):
    if trials or threading.current_thread() is not threading.main_thread():
        resource.setrlimit(getattr(resource, which), (limit, limit))
    return database.sum() + rng.laplace(size=size)
"""
LIMITS = {
    "RLIMIT_FSIZE": (
        500,
        "of the bytes of a file (RLIMIT_FSIZE) of its process from none to 500; cannot use the store",
    ),
    "RLIMIT_NOFILE": (5, "of open files (RLIMIT_NOFILE) of its process from 4,096 to 5; cannot use the store"),
}
SMALL = {"databases": [[0.0, 1.0]], "train": 1000, "test": 1000}


def limited(files: int) -> list[str]:
    """Begin a command with a limit of open files."""
    return ["/bin/sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--workers", "2")])
def test_few_open_files_are_refused_with_the_number_that_is_enough(words: tuple[str, ...], tmp_path: Path) -> None:
    command = ("run", write_study(tmp_path, **SMALL), *words)
    line = one_message(hpcdp(*command, folder=tmp_path, prefix=limited(10), code=2))
    found = re.search(r"needs (\d+) open files .* given: a limit of 10 \(ulimit -Hn\)", line)
    assert found, line
    assert bool(words) != (tmp_path / "runs").exists(), "a number of workers that is given is refused before all else"
    enough = int(found[1])
    assert f"needs {enough} open" in hpcdp(*command, folder=tmp_path, prefix=limited(enough - 1), code=2).stderr
    hpcdp(*command, folder=tmp_path, prefix=limited(enough))


@pytest.mark.slow
def test_a_soft_limit_that_is_too_low_is_raised(tmp_path: Path) -> None:
    soft = ["/bin/sh", "-c", 'ulimit -Sn 10 && exec "$@"', "sh"]
    hpcdp("run", write_study(tmp_path, **SMALL), "--workers", "2", folder=tmp_path, prefix=soft)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux changes another process's limits")
def test_a_scheduler_that_may_open_no_more_files_ends_its_run(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, rows=[0], **SMALL), tmp_path / "s.zarr"
    hold(tmp_path, store, 0)
    with started("run", study, "--store", store, "--workers", 2, "--dashboard", folder=tmp_path) as process:
        wait_until((tmp_path / "calls.log").exists, "the command draws")
        wait_until(lambda: len(psutil.Process(process.pid).children(recursive=True)) >= 6, "workers are there")
        resource.prlimit(worker_of(process).pid, resource.RLIMIT_NOFILE, (30, 30))
        _, said = process.communicate(timeout=LONG)
    assert process.returncode == 1, said
    assert said.endswith("hpcdp: too many open files: the limit is 30 (ulimit -n); what is committed is kept\n")
    assert "Traceback" not in said


def powerless() -> list[str]:
    """Begin a command without the right to raise a hard limit again, which root has in most places."""
    status = Path("/proc/self/status").read_text()
    effective = re.search(r"CapEff:\s*(\w+)", status)
    if effective is None or not int(effective[1], 16) >> 24 & 1:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may raise limits again, and there is no setpriv to give that up with")
    return ["setpriv", "--bounding-set=-sys_resource"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "isolated", "trials"),
    [
        ("RLIMIT_FSIZE", True, False),
        ("RLIMIT_NOFILE", False, False),
        ("RLIMIT_NOFILE", True, False),
        ("RLIMIT_FSIZE", True, True),
    ],
)
def test_whose_code_lowered_a_limit_is_told(which: str, isolated: bool, trials: bool, tmp_path: Path) -> None:
    limit, words = LIMITS[which]
    parameters = {"which": which, "limit": limit, "trials": trials}
    study = write_study(tmp_path, LOWERING, call="own:lowering", parameters=parameters, isolated=isolated, **SMALL)
    prefix = [*powerless(), *limited(4096)]
    said = one_message(hpcdp("run", study, "--workers", int(isolated), folder=tmp_path, prefix=prefix, code=1))
    assert f"hpcdp: mechanism.call own:lowering lowered the limit {words}" in said


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_a_soft_limit_that_trial_draws_lowered_is_raised_again(workers: int, tmp_path: Path) -> None:
    soft = LOWERING.replace("(limit, limit)", "(limit, resource.getrlimit(getattr(resource, which))[1])")
    parameters = {"which": "RLIMIT_NOFILE", "limit": 9, "trials": True}
    study = write_study(tmp_path, soft, call="own:lowering", parameters=parameters, **SMALL)
    hpcdp("run", study, "--workers", workers, folder=tmp_path)


@pytest.mark.slow
def test_a_hard_limit_that_trial_draws_lowered_is_told(tmp_path: Path) -> None:
    parameters = {"which": "RLIMIT_NOFILE", "limit": 9, "trials": True}
    study = write_study(tmp_path, LOWERING, call="own:lowering", parameters=parameters, **SMALL)
    said = one_message(hpcdp("run", study, folder=tmp_path, prefix=[*powerless(), *limited(1024)], code=2))
    assert "mechanism.call own:lowering: it lowered the limit of open files from 1024 to 9 for good; accepted: " in said
