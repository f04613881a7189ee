"""Links that a stranger planted in a store, or beside it: nothing is written, renamed or deleted through one."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alarms import within
from commands import call, write_study
from journals import records

import hpcdp.store.root
from hpcdp import Study
from hpcdp.driver.driver import store_problem
from hpcdp.errors import StudyError
from hpcdp.store.layout import Layout
from hpcdp.store.lease import acquire
from hpcdp.store.records import commit, read_json, write_json
from hpcdp.study.resolving import resolve

CLAIM = "dp(epsilon=1, delta=0.1)"
SIZES: dict[str, Any] = {"train": 200, "test": 1700, "chunk": 100, "refine": 200, "loss": "smooth"}
Tree = dict[str, tuple[int, bytes]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> Path:
    """A folder with a complete store that has every kind of folder."""
    folder = tmp_path_factory.mktemp("links")
    study = write_study(folder, databases=[[0.0, 1.0]], claim=CLAIM, **SIZES)
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    (folder / "s.zarr" / "jobs" / "logs").mkdir(parents=True)
    return folder


@pytest.fixture(name="store")
def store_fixture(whole: Path, tmp_path: Path) -> Path:
    for name in ("study.toml", "own.py"):
        shutil.copy(whole / name, tmp_path / name)
    return Path(shutil.copytree(whole / "s.zarr", tmp_path / "s.zarr"))


@pytest.fixture(name="victim")
def victim_fixture(tmp_path: Path) -> Path:
    """What a link leads to: a home with names that hpcdp might take for its own."""
    home = tmp_path / "home"
    for name in ("thesis", "20240101", "c"):
        (home / name).mkdir(parents=True)
        (home / name / "t.txt").write_text("precious")
    (home / "config.json").write_text("{}")
    (home / "bashrc").write_text("precious")
    return home


def tree(folder: Path) -> Tree:
    """Time of change and bytes of all that is in a folder, and of itself."""
    found = [folder, *folder.rglob("*")]
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in found
        if not path.is_symlink()
    }


def places(store: Path) -> list[Path]:
    """Every folder of the layout in which a run writes, renames or deletes."""
    # what is deeper is replaced as a whole
    apart = {"samples": 2, "tallies": 2, "study": 2, "counters": 1, "pilots": 1}
    apart |= dict.fromkeys((path.parent.name for path in store.glob("*/c")), 1)  # root arrays
    found = [path for path in store.rglob("*") if path.is_dir()]
    return [path for path in found if len((p := path.relative_to(store)).parts) <= apart.get(p.parts[0], 9)]


@contextmanager
def linked(path: Path, target: Path) -> Iterator[None]:
    """Within, a link is in the place of a folder or a file."""
    away = path.with_name(".away")
    path.rename(away)
    path.symlink_to(target)
    try:
        yield
    finally:
        path.unlink()
        away.rename(path)


@pytest.mark.slow
def test_every_folder_of_the_layout_as_a_link(store: Path, victim: Path, scheduler: str) -> None:
    """All commands that write refuse it before they write anything."""
    before, found = tree(victim), places(store)
    assert {path.name for path in found} >= {"counters", "lease", "records", "delta", "databases", "logs", "packs"}
    problem = resolve(Study.from_toml(store.parent / "study.toml"))[0]
    for path in found:
        with linked(path, victim):
            inside = tree(store)
            with pytest.raises(StudyError, match=f"{path} is a symbolic link"):  # what submit does
                store_problem(problem, store)
            if path.parent == store:
                for command in (
                    ("run", store.parent / "study.toml", "--store", store),
                    ("resume", store),
                    ("audit", store.parent / "study.toml", "--store", store),
                ):
                    done = call(*command, "--cluster", scheduler, code=2 if path.name != "study" else None)
                    said = done.stderr.splitlines()[-1]
                    assert f"{path} is a symbolic link" in said or path.name == "study", said
                for command in ("status", "show", "logs"):
                    call(command, store, code=None)
            assert tree(store) == inside
            assert tree(victim) == before, path


@pytest.mark.slow
def test_links_in_the_place_of_files(store: Path, victim: Path) -> None:
    problem = resolve(Study.from_toml(store.parent / "study.toml"))[0]
    files = [store / "zarr.json", *(store / "records").glob("*.json*"), *(store / "lease").glob("*.json")]
    for path in [*files, *(store / "lease").glob("[0-9]*[0-9]")]:
        with linked(path, victim / "bashrc"), pytest.raises(StudyError, match=f"{path} is a symbolic link"):
            store_problem(problem, store)
    store_problem(problem, store)


def test_the_root_may_be_a_link(store: Path, scheduler: str) -> None:
    """Its user named it; scratch disks are often links."""
    own = store.parent / "own.zarr"
    own.symlink_to(store)
    (store / "records" / "results.json").unlink()
    call("resume", own, "--cluster", scheduler)
    assert own.is_symlink()
    assert (store / "records" / "results.json").is_file()


def _damage(store: Path) -> None:
    records(store, "counts")[0].damage()
    (store / "records" / "results.json").unlink()


@pytest.mark.parametrize("place", ["counters", "lease", "records", "samples", "samples/packs"])
def test_links_that_are_planted_after_the_look(
    store: Path, victim: Path, scheduler: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write looks at its folders again."""
    monkeypatch.setattr(hpcdp.store.root, "refuse_links", lambda _: None)
    (victim / "other.npz").write_text("{}")
    (victim / "other").mkdir()
    before = tree(victim)
    _damage(store)
    with linked(store / place, victim):
        done = call("resume", store, "--cluster", scheduler, code=None)
        assert f"{store / place} is a symbolic link" in done.stderr
        assert tree(victim) == before


def test_a_link_in_the_place_of_a_root_array(
    store: Path, victim: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The array replaces the link itself."""
    monkeypatch.setattr(hpcdp.store.root, "refuse_links", lambda _: None)
    before = tree(victim)
    _damage(store)
    (store / "delta").rename(store.parent / "delta")
    (store / "delta").symlink_to(victim)
    call("resume", store, "--cluster", scheduler)
    assert not (store / "delta").is_symlink()
    assert tree(victim) == before


def test_a_link_in_the_place_of_a_journal(store: Path, victim: Path) -> None:
    """One that is planted while its run goes on."""
    lease = acquire(layout := Layout(store))
    before, journal = tree(victim), layout.journal(lease.generation)
    with linked(journal, victim / "bashrc"), pytest.raises(OSError, match="symbolic links"):
        commit(layout, "counts", "one", {}, lease.generation)
    assert tree(victim) == before
    lease.release()


PICTURES: dict[str, Callable[[Path], list[Any]]] = {
    "s.png": lambda store: ["plot", store],
    "s.png at the end of a run": lambda store: ["resume", store],
    "compare.png": lambda store: ["compare", store, store.parent / "other.zarr"],
    "s-audit.png": lambda store: ["audit", store.parent / "study.toml", "--store", store],
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_link_where_a_picture_goes(store: Path, victim: Path, scheduler: str, name: str) -> None:
    shutil.copytree(store, store.parent / "other.zarr")
    picture, before = store.parent / name.split()[0], tree(victim)
    picture.symlink_to(victim / "bashrc")
    command, *words = PICTURES[name](store)
    call(command, *words, *(("--cluster", scheduler) if command in ("audit", "resume") else ()))
    assert tree(victim) == before
    assert not picture.is_symlink()
    assert picture.read_bytes()[1:4] == b"PNG"
    assert not list(store.parent.glob(".*"))


def test_files_that_a_refused_study_is_looked_for_in(store: Path, tmp_path: Path) -> None:
    """The folder is what the record says: a pipe or a device in it is not opened, and a stranger's folder not at all."""
    folder = tmp_path / "theirs"
    study = Path(shutil.copytree(store.parent, folder, ignore=shutil.ignore_patterns("*.zarr"))) / "study.toml"
    other = write_study(tmp_path / "own", databases=[[0.0, 1.0]], claim=CLAIM, seed=7, **SIZES)
    version = max((store / "study").glob("study-*.json"))
    body = read_json(version)
    version.unlink()
    write_json(version, {**body, "folder": str(folder)})
    os.mkfifo(folder / "a.toml")
    (folder / "b.toml").symlink_to("/dev/zero")
    (folder / "c.toml").mkdir()
    with (folder / "d.toml").open("wb") as large:
        large.truncate(1 << 40)
    with within(60.0, "the command"):
        assert f"another study, that of {study}, which" in call("run", other, "--store", store, code=2).stderr
        if os.geteuid() != 0:
            pytest.skip("only root gives a folder to a stranger; what is in one's own was looked at")
        os.chown(folder, 54321, -1)
        assert "another study; changed" in call("run", other, "--store", store, code=2).stderr
