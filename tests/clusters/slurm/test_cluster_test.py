"""`hpcdp cluster-test`: a profile that works, and profiles that do not, on a real SLURM."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import call
from throwaway import ThrowawaySlurm

PROFILE = """
[cluster]
poll = "1s"
{site}
[worker]
queue = "{queue}"
cores = 1
memory = "500MB"
walltime = "5m"
{worker}
[size]
jobs = 2
"""


def written(folder: Path, site: str = "", queue: str = "main", worker: str = "") -> Path:
    path = folder / "site.toml"
    path.write_text(PROFILE.format(site=site, queue=queue, worker=worker))
    return path


def test_a_profile_that_works(tmp_path: Path, clean_slurm: ThrowawaySlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = call("cluster-test", profile)
    assert "works: every process of 2 jobs did its task" in done.stdout
    assert sum(" 1 processes" in line or " 2 processes" in line for line in done.stderr.splitlines()) >= 1
    assert [path.name for path in tmp_path.iterdir()] == ["site.toml"], "the jobs' folder is gone"


@pytest.mark.parametrize(
    ("site", "queue", "named"),
    [
        ("", "nosuchpartition", "invalid partition"),
        ('prologue = ["echo no module named nosuch; exit 1"]', "main", "no module named nosuch"),
    ],
)
def test_what_is_wrong_is_said(
    site: str,
    queue: str,
    named: str,
    tmp_path: Path,
    clean_slurm: ThrowawaySlurm,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = written(tmp_path, site, queue)
    monkeypatch.chdir(tmp_path)
    done = call("cluster-test", profile, code=1)
    assert any(line.startswith("wrong: ") and named in line for line in done.stdout.splitlines()), done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["site.toml"]
