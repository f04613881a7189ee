"""Golden studies that are stopped again and again, or whose files are damaged, end as if nothing had been."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from commands import call, nothing_lost, show
from golden_studies import STUDIES
from journals import KINDS, records
from studies import StopAtOnce

from hpcdp import Study, load_result
from hpcdp.driver.driver import run_problem
from hpcdp.engine.executors import Options
from hpcdp.engine.stopping import Stopped
from hpcdp.study.resolving import resolve

GOLDEN = Path(__file__).parents[1] / "golden"
SOME = ("histogram", "pure-all", "relative-edit", "target-epsilon", "reuse", "literal", "tape-rows")
by_name = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SOME else pytest.mark.slow) for name in STUDIES]
)
FOLDERS = ("samples", "counters", "pilots", "tallies")


@pytest.fixture(scope="module", name="whole")
def whole_fixture(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The store of a golden study that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")

    @cache
    def make(name: str) -> Path:
        go_on(name, folder / f"{name}.zarr")
        return folder / f"{name}.zarr"

    return make


def go_on(name: str, store: Path, tasks: int = 1 << 30) -> None:
    """Run a golden study until so many more of its tasks are done."""
    head = {"name": name, "seed": 1, **STUDIES[name]["study"]}
    study, progress = Study.from_dict({**STUDIES[name], "study": head}, GOLDEN), StopAtOnce(tasks)
    with suppress(Stopped):
        run_problem(*resolve(study), store, Options(workers=0, stop=progress.stop), progress)


@by_name
def test_stopped_and_gone_on_with(
    name: str, whole: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcdp.engine.sampling.task_seconds", lambda *_: 0.0)  # tasks are as small as they can be
    store, tasks = tmp_path / "s.zarr", 1
    go_on(name, store, tasks)
    assert not load_result(store).complete
    while not load_result(store).complete:
        tasks *= 2
        with nothing_lost(store):
            go_on(name, store, tasks)
    assert tasks > 1
    assert show(store) == show(whole(name))


@by_name
def test_what_is_damaged_is_made_again(name: str, whole: Callable[[str], Path], tmp_path: Path) -> None:
    """A bit of the largest file of each folder, then the first record of each kind; what is told names it."""
    store = Path(shutil.copytree(whole(name), tmp_path / "s.zarr"))
    for record in records(store, "fits", "counts"):
        record.unlink()  # or nothing would need the files
    for folder in FOLDERS:
        if files := [
            path
            for path in (store / folder).rglob("*")
            if path.is_file() and (path.suffix == ".npz" or "c" in path.parts)
        ]:
            path = max(files, key=lambda path: path.stat().st_size)
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(bytes(data))
    assert ("damaged" in resumed(store)) == bool(records(store, "samples", "packs", "pilots"))
    assert show(store) == show(whole(name))
    for kind in KINDS:
        for record in records(store, kind)[:1]:
            record.damage()
    assert "damaged" in resumed(store)
    assert show(store) == show(whole(name))


def resumed(store: Path) -> str:
    """What is said until the study is done: a task that meets damage fails, and the next run makes anew what it needs."""
    (store / "records" / "results.json").unlink()
    said = ""
    for _ in FOLDERS:
        done = call("resume", store, "--workers", 0, code=None)
        said += done.stderr
        if done.returncode == 0:
            break
    assert done.returncode == 0, said
    return said
