"""What a shared file system sees of a store: few files, whatever the number of chunks."""

from __future__ import annotations

from pathlib import Path

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
