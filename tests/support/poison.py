"""A store that somebody else has poisoned, and what commands may do with it: nothing but say so."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numcodecs.pickles
import pytest
from alarms import within
from commands import call, rewrite, write_study

from hpcdp.cli.command import main
from hpcdp.store.records import read_json

SECONDS = 60  # far more than any of these commands takes
ESCAPE = "\x1b]0;owned\x07\x9b31m"
CLAIM = "dp(epsilon=1, delta=0.1)"
Poison = Callable[[Path], object]


@pytest.fixture(scope="module", name="whole")
def whole_fixture(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> Path:
    """A folder with a complete store that holds every kind of file; what it says of itself is in `clean`."""
    folder = tmp_path_factory.mktemp("poison")
    sizes = {"train": 200, "test": 200, "chunk": 100, "refine": 200, "loss": "smooth", "isolated": False}
    study = write_study(folder, databases=[[0.0, 1.0]], claim=CLAIM, **sizes)
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    logs = folder / "s.zarr" / "jobs" / "logs"
    logs.mkdir(parents=True)
    (logs / "driver-1.log").write_text("fine\n")
    shutil.copytree(folder / "s.zarr", folder / "other.zarr")
    return folder


@pytest.fixture(name="store")
def store_fixture(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole / "other.zarr", tmp_path / "other.zarr")
    return Path(shutil.copytree(whole / "s.zarr", tmp_path / "s.zarr"))


@pytest.fixture(name="canary", autouse=True)
def canary_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that code from a store would make. numcodecs unpickles, as it did before 0.16.6."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    path = tmp_path / "canary"
    yield path
    assert not path.exists(), "code from the store was run"


class Payload:
    """Code that unpickling runs."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.canary}",)


def commands(store: Path) -> dict[str, list[str]]:
    """Every command that reads a store; those whose output a poisoned root array leaves as it was come first."""
    own, out = str(store), str(store.parent / "out.png")
    return {
        "json": ["show", own, "--format", "json"],
        "table": ["show", own],
        "csv": ["show", own, "--format", "csv"],
        "delta": ["show", own, "--delta", "0.1"],
        "accuracy": ["show", own, "--accuracy"],
        "verify": ["verify", own],
        "claim": ["verify", own, "--claim", f"store({store})", "--format", "json"],
        "plot": ["plot", own, "-o", out],
        "compare": ["compare", own, str(store.parent / "other.zarr"), "-o", out, "--format", "json"],
        "status": ["status", own],
        "logs": ["logs", own],
    }


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code and both outputs of a command, in this process."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error), within(SECONDS, "the command"):
        code = main(arguments)
    return code, out.getvalue(), error.getvalue()


def check(code: int, out: str, error: str, untouched: str | None = None) -> None:
    """One message and a failure, or a result; nothing to obey."""
    odd = {c for c in out + error if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"}
    assert not odd, f"raw {odd!r}"
    assert "Traceback" not in error
    if code in (0, 3):
        assert error == "", error
        assert untouched is None or out == untouched
    else:
        assert code in (1, 2)
        assert out == "" or " is not complete: " in error
        assert error.startswith("hpcdp: ")
        assert error.count("\n") == 1, error


def link(target: str) -> Callable[[Path], None]:
    def place(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return place


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change plain JSON."""
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def record(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a record, and make its checksum right."""
    rewrite(path, change(read_json(path)))


def old_form(array: Path, payload: object, beside: bool = False) -> None:
    """The array in Zarr's format 2, of text behind a compressor that unpickles."""
    if not beside:
        (array / "zarr.json").unlink()
    shape: list[int] = [1]
    head = {"zarr_format": 2, "shape": shape, "chunks": shape, "dtype": "|O", "order": "C"}
    rest = {"compressor": {"id": "pickle", "protocol": 5}, "fill_value": 0, "filters": [{"id": "vlen-utf8"}]}
    (array / ".zarray").write_text(json.dumps(head | rest))
    (array / "0").write_bytes(pickle.dumps(payload))


def codec(*codecs: Any) -> Callable[[Any], Any]:
    return lambda found: {**found, "codecs": [*codecs, *found["codecs"]]}


FILES: dict[str, Callable[[Path], None]] = {
    "zero": link("/dev/zero"),
    "terminal": link("/dev/tty"),
    "outward": link("../../../../../../../etc/hostname"),
    "loop": lambda path: link(path.name)(path),
    "fifo": pipe,
    "deep": lambda path: path.write_bytes(b"[" * 100_000 + b"]" * 100_000) and None,
    "deep objects": lambda path: path.write_bytes(b'{"body":' * 900 + b"1" + b"}" * 900) and None,
    "no UTF-8": lambda path: path.write_bytes(b'{"body": "\xff\xfe", "checksum": 1}') and None,
    "huge number": lambda path: path.write_text('{"zarr_format": ' + "9" * 10_000 + "}") and None,
    "other": lambda path: path.write_text("[1, 2]") and None,
}
"""What a file may be instead of itself."""

METADATA: dict[str, Callable[[Any], Any]] = {
    "unknown codec": codec({"name": ESCAPE}),
    "pickle codec": codec({"name": "numcodecs.pickle", "configuration": {"protocol": 5}}),
    "compressed": codec({"name": "gzip", "configuration": {"level": 1}}),
    "huge shape": lambda m: {**m, "shape": [1 << 61 for _ in m["shape"]]},
    "huge chunk": lambda m: _chunk(m, 1 << 61),
    "no chunk": lambda m: _chunk(m, 0),
    "many dimensions": lambda m: {**m, "shape": [1] * 10_000},
    "negative": lambda m: {**m, "shape": [-1 for _ in m["shape"]]},
    "objects": lambda m: {**m, "data_type": {"name": "pickle", "configuration": {}}},
    "strings": lambda m: {**m, "data_type": "string", "codecs": [{"name": "vlen-utf8"}]},
    "transformers": lambda m: {**m, "storage_transformers": [{"name": ESCAPE}]},
    "key": lambda m: {**m, "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "../"}}},
}


def _chunk(metadata: Any, length: int) -> Any:
    shape = [length for _ in metadata["shape"]]
    return {**metadata, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}}}


@pytest.fixture(scope="module", name="clean")
def clean_fixture(whole: Path) -> dict[str, str]:
    """What each command prints of the clean store, with its path left open."""
    found = {}
    for name, arguments in commands(whole / "s.zarr").items():
        code, out, error = run(arguments)
        assert code == 0, error
        found[name] = out.replace(str(whole), "")
    return found


def look(store: Path, clean: dict[str, str], names: list[str], kept: bool) -> None:
    """Run some commands; kept: whether they must print what they print of the clean store, if they print anything."""
    for name in names:
        code, out, error = run(commands(store)[name])
        check(code, out.replace(str(store.parent), ""), error, clean[name] if kept and name != "status" else None)


def changed_study(**changes: Any) -> Callable[[Any], Any]:
    """The study with other values, by section."""
    return lambda body: {**body, "study": {k: {**v, **changes.get(k, {})} for k, v in body["study"].items()}}
