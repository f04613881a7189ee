"""The commands: what they print, where, and their exit codes."""

from __future__ import annotations

import io
import re
import tomllib
from contextlib import redirect_stdout
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from commands import call, hpcdp, python, show
from packaging.requirements import Requirement

from hpcdp import load_result, verify
from hpcdp.cli.command import main
from hpcdp.driver.driver import store_problem
from hpcdp.engine.outcomes import unusable
from hpcdp.errors import StudyError
from hpcdp.store.root import resume_command
from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve

STUDY = """
[study]
name = "tiny"
seed = 7
claim = "laplace(epsilon=1)"
[mechanism]
call = "laplace"
parameters = { epsilon = 1.0 }
[pairs]
given = [ { d = [0.0], d_prime = [1.0] }, { d = [0.0], d_prime = [0.5] } ]
[estimate]
train = 6000
test = 5000
chunk = 2048
epsilons = [0.0, 0.5, 1.5]
etas = [0.5, 2.0]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that has been run into its default store."""
    path = tmp_path_factory.mktemp("cli")
    (path / "tiny.toml").write_text(STUDY)
    done = hpcdp("run", "tiny.toml", "--workers", "1", folder=path)
    assert "certified" in done.stdout
    assert "claimed" in done.stdout
    assert "runs/tiny.zarr" in done.stdout
    assert "plan of tiny" in done.stderr
    assert (path / "runs" / "tiny.png").read_bytes().startswith(b"\x89PNG")
    return path


@pytest.mark.slow
def test_a_second_run_changes_nothing_and_status_says_complete(folder: Path) -> None:
    store = folder / "runs" / "tiny.zarr"
    before = show(store)
    call("run", folder / "tiny.toml", "--store", store)
    call("resume", store)
    assert show(store) == before
    status = call("status", store).stdout
    assert "complete" in status
    assert "0 to do" in status
    assert "nobody" in status


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_what_an_output_cannot_hold_is_replaced(folder: Path, encoding: str) -> None:
    bytes_written = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(bytes_written, encoding=encoding, write_through=True)):
        assert main(["verify", str(folder / "runs" / "tiny.zarr"), "--claim", "dp(epsilon=0.1)"]) == 3
        assert "certified" in bytes_written.getvalue().decode(encoding)


def test_the_store_opens_with_xarray(folder: Path) -> None:
    import xarray as xr

    data = xr.open_zarr(folder / "runs" / "tiny.zarr")  # a warning is an error
    assert data["delta"].dims == ("pair", "direction", "epsilon")
    assert data["alpha"].dims == ("pair", "eta")
    assert data["epsilon"].values.tolist() == [0.0, 0.5, 1.5]
    result = load_result(folder / "runs" / "tiny.zarr")
    np.testing.assert_array_equal(result.data["delta"], data["delta"])
    assert result.data["direction"].values.tolist() == ["forward", "reverse"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.toml"], ["nowhere.toml", "no study file"]),
        (["audit", "http://127.0.0.1/s.zarr"], ["http://127.0.0.1/s.zarr: an address was given", "accepted: the"]),
        (["show", "nowhere.zarr"], ["nowhere.zarr", "no hpcdp store"]),
        (["resume", "nowhere.zarr"], ["nowhere.zarr", "no hpcdp store"]),
        (["status", "."], ["no hpcdp store"]),
        (["run", "tiny.toml", "--workers", "-1"], ["--workers", "0 or a positive integer", "-1"]),
        (["run", "tiny.toml", "--workers", "0", "--dashboard"], ["--dashboard", "--workers 0"]),
        (["run", "tiny.toml", "--store", "other.zarr", "--cluster", "moon"], ["--cluster", "moon", "tcp://"]),
        (["plot", "runs/tiny.zarr", "-o", "p.pdf"], [".png and .svg"]),
        (["fly"], ["fly", "plan"]),
        ([], ["usage: hpcdp", "COMMAND", "check claims against a store's results"]),
    ],
)
def test_wrong_commands(folder: Path, arguments: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = call(*arguments, code=2)
    for word in words:
        assert word in done.stderr
    assert not [*folder.rglob("other.zarr")], "a wrong place leaves no store"


def test_a_current_folder_that_was_deleted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs none works, and what does says so."""
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    store = folder / "runs" / "tiny.zarr"
    assert "consistent" in call("verify", store, "--claim", "laplace(epsilon=1)").stdout
    assert verify(load_result(store), "laplace(epsilon=1)").verdict == "consistent"
    said = call("run", folder / "tiny.toml", code=2).stderr
    assert "the current folder was deleted; accepted: one that exists (cd)" in said
    with pytest.raises(StudyError, match="the current folder was deleted"):
        Study.from_dict(tomllib.loads(STUDY))


@pytest.mark.parametrize("loss", ["[]", "3", '["knn", 3]', "{}"])
def test_a_loss_that_is_none_is_one_message(tmp_path: Path, loss: str) -> None:
    (path := tmp_path / "s.toml").write_text(STUDY.replace("[estimate]\n", f"[estimate]\nloss = {loss}\n"))
    losses = "auto | frequency | histogram | kde | knn | learned | literal-knn | smooth"
    accepted = f'{losses}, or a list of several of them without auto, or "package.module:Class"'
    given = loss.replace('"', "'")
    assert call("plan", path, code=2).stderr == f"hpcdp: estimate.loss: {accepted}; given: {given} ({path}, line 12)\n"


def test_how_to_go_on_is_typed_as_it_is_printed(tmp_path: Path) -> None:
    """Also where the store's path has a space: the shell must take it for one word."""
    store = tmp_path / "my runs" / "s.zarr"
    (tmp_path / "study.toml").write_text(STUDY)
    store_problem(resolve(Study.from_toml(tmp_path / "study.toml"))[0], store)
    words = f"hpcdp resume '{store}'"
    told = [
        call("status", store).stdout,
        call("verify", store, code=1).stderr,
        call("verify", store, code=1).stdout,
        call("verify", store, "--claim", f"store({store})", code=2).stderr,
        str(unusable(store, OSError("full"))),
    ]
    assert [words in text for text in told] == [True] * len(told), told
    assert resume_command(store, "my site.toml") == f"{words} --cluster 'my site.toml'"


def test_logs_are_of_all_jobs_or_of_the_one_that_is_named(folder: Path) -> None:
    store = folder / "runs" / "tiny.zarr"
    logs = store / "jobs" / "logs"
    logs.mkdir(parents=True)
    for name in ("driver-7", "worker-8"):
        (logs / f"{name}.log").write_text(f"first line of {name}\nlast line of {name}\n")
    assert re.findall("last line of (.*)", call("logs", store).stdout) == ["driver-7", "worker-8"]
    named = call("logs", store, "--job", "8", "--lines", "1").stdout
    assert re.findall("line of (.*)", named) == ["worker-8"]
    done = call("logs", store, "--job", "9", code=2)
    assert re.search(r"driver-7, worker-8.*given: 9", done.stderr)


@pytest.mark.parametrize("columns", [80, 100])
def test_sentences_fit_the_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    words = call("show", folder / "runs" / "tiny.zarr").stdout.partition("certified ≥:")[2]
    lines = words.partition("store:")[0].splitlines()[1:]
    assert columns - 20 < max(map(len, lines)) <= columns


def test_mechanisms_are_listed() -> None:
    text = call("mechanisms").stdout
    for name in ("laplace", "gaussian", "bounded_mean", "bounded_sum", "pmf", "stored", "package.module:callable"):
        assert name in text


def test_every_package_that_is_asked_for_is_used() -> None:
    root = Path(__file__).resolve().parents[2]
    asked = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    # distributed imports cryptography for TLS, unasked for; numcodecs is zarr's, asked for because of its floor
    modules = {"scikit-learn": "sklearn", "cryptography": "distributed", "numcodecs": "zarr"}
    names = [re.split(r"[<>=~! ;\[]", text)[0] for text in asked]
    code = "\n".join(path.read_text() for path in (root / "hpcdp").rglob("*.py"))
    used = re.findall(r"^ *(?:import|from) (\w+)", code, re.MULTILINE)
    assert [name for name in names if modules.get(name, name.replace("-", "_")) not in used] == []


def test_codecs_that_unpickle_are_not_accepted() -> None:
    """Up to 0.16.5 numcodecs unpickles what an array of Zarr's format 2 holds."""
    (accepted,) = [r.specifier for r in map(Requirement, metadata.requires("hpcdp") or ()) if r.name == "numcodecs"]
    assert [version for version in ("0.15.1", "0.16.3", "0.16.5") if version in accepted] == []
    assert metadata.version("numcodecs") in accepted


@pytest.mark.slow
def test_the_public_names_stay_what_they_are() -> None:
    """A module of such a name would stand in the place of the function once it is imported, by whatever else."""
    code = """
import importlib, pkgutil, sys
import hpcdp
first = {name: getattr(hpcdp, name) for name in hpcdp.__all__}
for module in pkgutil.walk_packages(hpcdp.__path__, "hpcdp."):
    importlib.import_module(module.name)
assert [name for name, value in first.items() if getattr(hpcdp, name) is not value] == []
modules = {name.partition(".")[2] for name in sys.modules if name.startswith("hpcdp.")}
assert len(modules) > 150
assert modules & first.keys() == set()
"""
    done = python(Path.cwd(), "-c", code)
    assert done.returncode == 0, done.stderr
