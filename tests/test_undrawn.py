"""A picture that cannot be drawn is no failure of the run that has ended well."""

from __future__ import annotations

from pathlib import Path

from commands import hpcdp, write_study


def test_a_run_whose_picture_cannot_be_written(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, databases=[[0.0, 1.0]], train=500, test=500), tmp_path / "s.zarr"
    (tmp_path / "s.png").mkdir()
    done = hpcdp("run", study, "--store", store, "--workers", 1, folder=tmp_path, code=0)
    assert f"store: {store}" in done.stdout
    assert "plot:" not in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "picture" in line]
    assert line.startswith("the picture could not be drawn (IsADirectoryError")
    assert line.endswith(f"; it is drawn by: hpcdp plot {store}")
