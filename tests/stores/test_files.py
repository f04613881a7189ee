"""What a shared file system sees of a store: few files, whatever the number of chunks; how a process that had it open ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import call, write_study


def test_files_a_chunk(tmp_path: Path, scheduler: str) -> None:
    settings = {"databases": [[0.0, 1.0]], "rows": [0], "train": 3200, "test": 160_000, "chunk": 100, "keep": "all"}
    study = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, **settings)
    study.write_text(study.read_text().replace("relative = { databases = [[0.0, 1.0]], rows = [0] }", GIVEN))
    store = tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    chunks = 2 * (160_000 + 3200) // 100
    files = sum(path.is_file() for path in (store / "samples").rglob("*"))
    files += sum(path.is_file() for path in (store / "records").rglob("*"))
    print(f"{chunks} kept chunks lie in {files} files, records and all: {files / chunks:.2f} a chunk")
    assert files < chunks / 4


GIVEN = "given = [ { d = [0.0], d_prime = [1.0] } ]"


@pytest.mark.parametrize("name", ["hpcdp._base._zarr", "zarr"])
def test_a_busy_end_is_a_quiet_one(tmp_path: Path, name: str) -> None:
    """zarr's thread is busy when the process ends; zarr alone prints a traceback then, or our waiting for it may go."""
    lines = [f"import time, {name}, zarr", "from zarr.core import sync", f"zarr.create_group({str(tmp_path / 'g')!r})"]
    lines += ["sync.loop[0].call_soon_threadsafe(time.sleep, 1.0)"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ("Traceback" in done.stderr) == (name == "zarr")
    assert name == "zarr" or not done.stderr
