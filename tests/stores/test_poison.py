"""A store that a stranger wrote: commands that read it run nothing of it, end, and print nothing that a terminal would obey.

Arrays are opened only in the form that hpcdp writes; code and pickles of another user's store only when who runs it says so.
"""

import importlib.util
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import unicodedata
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numcodecs.pickles
import numpy as np
import pytest
import zarr
from alarms import within
from commands import call, write_study
from journals import line_of, raw_line, records

import hpcdp
from hpcdp import Study, load_result
from hpcdp._base.terminal import plain
from hpcdp.cli.command import main
from hpcdp.errors import HpcdpError, StudyError
from hpcdp.keys import canonical_json
from hpcdp.mechanisms.stored import read_outputs
from hpcdp.store.arrays import read_array
from hpcdp.store.records import read_json, write_json

SECONDS = 60  # far more than any of these commands takes
ESCAPE = "\x1b]0;owned\x07\x9b31m"
CLAIM = "dp(epsilon=1, delta=0.1)"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> Path:
    """A folder with a complete store that holds every kind of file; what it says of itself is in `clean`."""
    folder = tmp_path_factory.mktemp("poison")
    sizes = {"train": 200, "test": 1700, "chunk": 100, "refine": 200, "loss": "smooth"}  # in packs, and not
    study = write_study(folder, databases=[[0.0, 1.0]], claim=CLAIM, **sizes)
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    logs = folder / "s.zarr" / "jobs" / "logs"
    logs.mkdir(parents=True)
    (logs / "driver-1.log").write_text("fine\n")
    shutil.copytree(folder / "s.zarr", folder / "other.zarr")
    return folder


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole / "other.zarr", tmp_path / "other.zarr")
    return Path(shutil.copytree(whole / "s.zarr", tmp_path / "s.zarr"))


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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
    """Change a file's body, and make its checksum right."""
    body = change(read_json(path))
    path.unlink()
    write_json(path, body)


def old_form(array: Path, payload: object, beside: bool = False) -> None:
    """The array in Zarr's format 2, of text behind a compressor that unpickles."""
    if not beside:
        (array / "zarr.json").unlink()
    head = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C", "fill_value": 0}
    codecs = {"compressor": {"id": "pickle", "protocol": 5}, "filters": [{"id": "vlen-utf8"}]}
    (array / ".zarray").write_text(json.dumps(head | codecs))
    (array / "0").write_bytes(pickle.dumps(payload))


def codec(*codecs: Any) -> Callable[[Any], Any]:
    return lambda found: {**found, "codecs": [*codecs, *found["codecs"]]}


def test_every_character_that_turns_a_line_is_shown_as_its_number() -> None:
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    for c in map(chr, range(0x20000)):
        is_odd = unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t"
        is_odd = is_odd or unicodedata.bidirectional(c) in turning or c in "\u061c\u200e\u200f"
        assert plain(c) == (f"\\u{ord(c):04x}" if is_odd else c)


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


@pytest.fixture(scope="module")
def clean(whole: Path) -> dict[str, str]:
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


@pytest.mark.slow
@pytest.mark.parametrize("poison", FILES)
def test_every_kind_of_file(store: Path, clean: dict[str, str], poison: str) -> None:
    """One file of each kind at a time, as each poison, read by three commands and two of the others in turn."""
    others = [name for name in commands(store) if name not in ("json", "status", "logs")]
    (journal,) = (store / "records").glob("*.jsonl")
    files = [
        store / "zarr.json",
        store / "delta" / "zarr.json",
        next(p for p in (store / "delta" / "c").rglob("*") if p.is_file()),
        next((store / "study" / "databases").glob("*.npz")),
        store / "study" / "study-000001.json",
        store / "records" / "results.json",
        journal,
        next((store / "samples").glob("*/zarr.json")),
        next((store / "tallies").rglob("*.npz")),
        next((store / "lease").glob("*.json")),
        store / "jobs" / "logs" / "driver-1.log",
    ]
    for number, path in enumerate(files, list(FILES).index(poison)):
        before = path.read_bytes()
        FILES[poison](path)
        turn = [others[number % len(others)], others[(number + len(others) // 2) % len(others)]]
        kept = path.parts[-2] != "logs" and path != journal  # without counts the store is not complete
        look(store, clean, ["json", "status", "logs", *turn], kept=kept)
        path.unlink()
        path.write_bytes(before)


BODIES: dict[str, bytes] = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "no UTF-8": b'{"a":"\xff\xfe"}',
    "no JSON": b'{"a":',
    "huge number": b'{"a":' + b"9" * 10_000 + b"}",
    "list": b"[1,2]",
    "other": b"{}",
    "empty": b"",
    "escape": canonical_json({"thresholds": ESCAPE, "entries": [{ESCAPE: ESCAPE}], "fingerprints": ESCAPE}),
}


@pytest.mark.slow
@pytest.mark.parametrize("poison", BODIES)
def test_lines_of_journals(store: Path, clean: dict[str, str], poison: str) -> None:
    """One record of each kind at a time, whose checksum is right."""
    (journal,) = (store / "records").glob("*.jsonl")
    whole = journal.read_bytes()
    known = {
        one.kind: one.name for one in records(store, "samples", "packs", "fits", "counts", "pilots", "tallies", "runs")
    }
    assert len(known) > 7
    for kind, name in {**known, "damaged": "x", "sizes": "x"}.items():
        journal.write_bytes(whole + raw_line(kind, name, BODIES[poison]))
        look(store, clean, ["json", "status", "logs", "verify"], kept=False)


def named(name: str, digest: str = "") -> dict[str, Any]:
    return {"arrays": {name: ["epsilon"]}, "digests": {name: digest}}


HEADS: dict[str, Callable[[Any], Any]] = {
    "outward": lambda h: {**h, **named("../../../../etc"), "arrays": {"../../../../etc": ["epsilon"], **h["arrays"]}},
    "absolute": lambda h: {**h, **named("/etc")},
    "names": lambda h: {**h, **named(ESCAPE, ESCAPE)},
    "no arrays": lambda h: {**h, "arrays": {}},
    "dimensions": lambda h: {**h, "arrays": {**h["arrays"], "delta": ["epsilon", "pair", "direction"]}},
    "pairs": lambda h: {**h, "pairs": h["pairs"] * 3},
    "version": lambda h: {**h, "version": ESCAPE},
    "deep pairs": lambda h: {**h, "pairs": 7},
    "list": lambda h: [h],
}


@pytest.mark.parametrize("poison", HEADS)
def test_a_head_of_results(store: Path, clean: dict[str, str], poison: str) -> None:
    record(store / "records" / "results.json", HEADS[poison])
    look(store, clean, ["json", "status"], kept=True)


@pytest.mark.slow
def test_names_that_a_terminal_would_obey(store: Path, clean: dict[str, str]) -> None:
    pairs = [{"pair": 0, "database": ESCAPE, "rows": [ESCAPE], "value": ESCAPE}] * 2
    record(store / "records" / "results.json", lambda head: {**head, "pairs": pairs})
    for one in records(store, "runs"):
        one.rewrite({**one.body, "failed": [ESCAPE], "stopped": ESCAPE})
    edit(next((store / "lease").glob("*.json")), lambda _: {"host": ESCAPE, "process": "\udc80"})
    (store / "jobs" / "logs" / f"worker-{ESCAPE}\udcff.log").write_text(ESCAPE + "\u202e")
    (journal,) = (store / "records").glob("*.jsonl")
    with journal.open("ab") as file:
        for kind in ("counts", "samples", "runs", ESCAPE):
            file.write(line_of(kind, ESCAPE, {}) + line_of(kind, "x", {ESCAPE: ESCAPE}))
    (journal.parent / f"{ESCAPE}.jsonl").write_text(ESCAPE)
    look(store, clean, list(commands(store)), kept=False)
    assert "\\u001b]0;owned\\u0007\\u009b31m" in run(commands(store)["logs"])[1]


LAW = {"call": "evil:draw", "parameters": {}, "index": "all", "values": [0, 1], "exchangeable": False}
LAWS = {"given": None, "relative": None, "distributional": [LAW]}
STUDIES: dict[str, Callable[[Any], Any]] = {
    "claim on a device": changed_study(study={"claim": "file(/dev/zero)"}),
    "claim on a store on a device": changed_study(study={"claim": "store(/dev/zero)"}),
    "claim with an escape": changed_study(study={"claim": f"file({ESCAPE})"}),
    "name": changed_study(study={"name": ESCAPE}),
    "name outward": changed_study(study={"name": "../../x"}),
    "code": changed_study(mechanism={"call": "evil:noisy"}),
    "claim": changed_study(study={"claim": "pld(evil:noisy)"}),
    "program": changed_study(mechanism={"call": {"command": ["/bin/sh", "-c", "touch ../canary"]}}),
    "loss": changed_study(estimate={"loss": "learned", "parameters": {"model": "evil:Classifier"}}),
    "many chunks": changed_study(estimate={"test": 10**30, "chunk": 1}),
    "a chunk each": changed_study(estimate={"test": 10**15, "train": 10**15, "refine": 10**15, "chunk": 1}),
    "many epsilons": changed_study(estimate={"epsilons": {"start": 0.0, "stop": 1.0, "count": 10**12}}),
    "infinite": changed_study(estimate={"epsilons": [0.0, float("inf")]}),
    "rows": changed_study(pairs={"relative": {"databases": [[0.0, 1.0]], "rows": [10**30]}}),
    "databases outward": lambda body: {**body, "databases": ["../../../../../../etc"]},
    "databases": lambda body: {**body, "databases": 7},
    "schema": lambda body: {**body, "schema": {"kind": ESCAPE, "columns": 10**30}},
    "folder": lambda body: {**body, "folder": "/dev/zero"},
    "many rows": lambda body: {**changed_study(pairs=LAWS)(body), "databases": [], "shapes": [[10**18]]},
}


@pytest.mark.parametrize("poison", STUDIES)
def test_a_study(store: Path, clean: dict[str, str], canary: Path, poison: str) -> None:
    (store.parent / "evil.py").write_text(f"open({str(canary)!r}, 'w')\n")
    record(store / "study" / "study-000001.json", lambda body: STUDIES[poison]({**body, "folder": str(store.parent)}))
    look(store, clean, ["json", "table", "verify", "status", "logs"], kept=False)
    shutil.rmtree(store / "records" / "results.json", ignore_errors=True)
    (store / "records" / "results.json").unlink()  # what no root array says is derived from the study
    look(store, clean, ["json", "status"], kept=False)


@pytest.mark.slow
@pytest.mark.parametrize("beside", [False, True])
def test_format_2_with_pickled_objects(store: Path, canary: Path, clean: dict[str, str], beside: bool) -> None:
    for array in ("delta", "epsilon"):
        old_form(store / array, Payload(canary), beside)
    if not beside:
        for path in (store / "study" / "databases").glob("*.npz"):
            np.savez(path, **dict.fromkeys(("data", "types", "shapes"), np.array([Payload(canary)], object)))
    look(store, clean, list(commands(store)), kept=True)
    if not beside:  # the root arrays are derived from the records, which need the databases
        with pytest.raises(HpcdpError, match="damaged or missing"):
            load_result(store)


@pytest.mark.parametrize("poison", METADATA)
def test_metadata_of_a_root_array(store: Path, clean: dict[str, str], poison: str) -> None:
    edit(store / "delta" / "zarr.json", METADATA[poison])
    look(store, clean, ["json", "status"], kept=True)
    assert load_result(store).to_json() + "\n" == clean["json"]


KINDS = ("samples", "tallies", "pilots", "counters")  # what a damaged counter held is learned again without a word

STATES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "objects": lambda state: dict.fromkeys(state, np.array([Payload(Path("canary"))], object)),
    "no arrays": lambda _: {},
    "other shapes": lambda state: {name: array.reshape(1, -1, 1) for name, array in state.items()},
    "other types": lambda state: {name: array.astype(np.complex64) for name, array in state.items()},
    "huge shapes": lambda state: dict.fromkeys(state, np.broadcast_to(np.float64(0), (1 << 40,))),
}
"""What may be in a file of named arrays instead."""


def put_state(path: Path, state: dict[str, Any]) -> None:
    """Write arrays, those of a huge shape as nothing but the word of it."""
    with zipfile.ZipFile(path, "w") as parts:
        for name, array in state.items():
            data = io.BytesIO()
            if array.size < 1 << 30:
                np.lib.format.write_array(data, array)
            else:
                head = {"shape": array.shape, "fortran_order": False, "descr": "<f8"}
                np.lib.format.write_array_header_1_0(data, head)
            parts.writestr(f"{name}.npy", data.getvalue())


def resumed(store: Path, clean: dict[str, str]) -> str:
    """What is said until all is counted again: what a task finds damaged fails it, and is made again by the next run."""
    for one in records(store, "counts"):
        one.unlink()
    (store / "records" / "results.json").unlink()
    said, code = "", 1
    for _ in KINDS:
        if code == 1:
            code, out, error = run(["resume", str(store), "--workers", "0"])
            said += out + error
    assert code == 0, said
    assert "Traceback" not in said
    look(store, clean, ["json", "status"], kept=True)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("poison", [*METADATA, "format 2"])
def test_arrays_that_a_resumed_run_computes_with(store: Path, canary: Path, clean: dict[str, str], poison: str) -> None:
    """Every array of samples, of their own and of packs: each is damage, and what it held is drawn again."""
    arrays = [path.parent for path in (store / "samples").rglob("zarr.json") if path.parent != store / "samples"]
    assert len(arrays) >= 4
    assert any("packs" in array.parts for array in arrays)
    for array in arrays:
        if poison == "format 2":
            old_form(array, Payload(canary))
        else:
            edit(array / "zarr.json", METADATA[poison])
    assert "samples/" in resumed(store, clean)
    for array in (path.parent for path in (store / "samples").rglob("c")):
        read_array(array)


@pytest.mark.slow
@pytest.mark.parametrize("poison", STATES)
def test_states_that_a_resumed_run_computes_with(
    store: Path, clean: dict[str, str], poison: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every file of pilots, of tallies, of counters."""
    monkeypatch.chdir(tmp_path)
    for kind in KINDS[1:]:
        files = list((store / kind).rglob("*.npz"))
        assert len(files) >= 2
        for file in files:
            with np.load(file) as arrays:
                state = dict(arrays)
            put_state(file, STATES[poison](state))
    said = resumed(store, clean)
    assert [kind for kind in KINDS[1:3] if f"{kind}/" in said] == [*KINDS[1:3]], said


@pytest.mark.parametrize("form", [2, 3])
def test_samples_that_others_wrote(tmp_path: Path, canary: Path, form: int) -> None:
    """Arrays for `stored`: of both formats, compressed or not, numbers or strings; never Python objects."""
    for number, values in enumerate([np.arange(100.0), np.arange(6).reshape(3, 2), np.array(["no", "yes"])]):
        for codecs in ("auto", None):
            path = tmp_path / f"{number}-{codecs}.zarr"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zarr has not settled how strings are written
                zarr.create_array(str(path), data=values, chunks=values.shape, compressors=codecs, zarr_format=form)
                np.testing.assert_array_equal(read_outputs(path), values)
    path, name = tmp_path / "0-auto.zarr", ".zarray" if form == 2 else "zarr.json"
    changes = {
        2: [
            (lambda m: {**m, "filters": [{"id": "pickle"}], "compressor": None}, "codec: 'pickle'; accepted: blosc"),
            (lambda m: {**m, "filters": None, "dtype": "|O"}, r"dtype: '\|O'; accepted: numbers, booleans and strings"),
        ],
        3: [(codec({"name": "numcodecs.pickle", "configuration": {}}), r"codec: 'numcodecs\.pickle'; accepted: blosc")],
    }
    (path / "0").write_bytes(pickle.dumps(Payload(canary)))
    for change, words in changes[form]:
        edit(path / name, change)
        with pytest.raises(StudyError, match=words):
            read_outputs(path)


as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a store to another user")


def test_code_in_a_store_that_is_not_ones_own(whole: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs no second user of the machine: who runs the command is another one than made the store."""
    before = (whole / "calls.log").read_bytes()
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    check_refused(call("resume", store, "--workers", 0, code=2).stderr, store, whole, os.getuid())
    assert (whole / "calls.log").read_bytes() == before
    own = call("run", whole / "study.toml", "--store", store, "--workers", 0, code=2)  # its trial draws are one's own
    check_refused(own.stderr, store, whole, os.getuid())
    call("resume", store, "--workers", 0, "--trust-code")


def check_refused(said: str, store: Path, folder: Path, user: int = 54321) -> None:
    line = said.splitlines()[-1]
    assert re.search(rf"{re.escape(str(store))} belongs to .*user {user}\)?, and its study names code", line)
    assert f"mechanism.call = own:noisy from {folder / 'own.py'}" in line
    assert "--trust-code" in line


@as_root
def test_pickles_in_another_users_store(tmp_path: Path) -> None:
    """A study of built-ins alone, whose models are pickles, is refused before anything is read, wherever another user wrote."""
    learned = {"loss": "learned", "train": 100, "test": 100, "epsilons": [0.0]}
    built_in = {"call": "laplace", "parameters": {"epsilon": 1.0}, "pairs": "given = [{ d = [0.0], d_prime = [1.0] }]"}
    study, store = write_study(tmp_path, **built_in, **learned), tmp_path / "s.zarr"
    study.write_text(study.read_text() + 'parameters = { classifier = "gradient-boosting" }\n')
    call("run", study, "--store", store, "--workers", 0)
    for theirs in (".", "study", "counters/key.npz", "pilots/key.npz"):
        if theirs.endswith(".npz"):
            (store / theirs).touch()
        owner = (store / theirs).stat().st_uid
        os.chown(store / theirs, 54321, -1)
        for command in (("resume", store), ("run", study, "--store", store)):
            said = call(*command, "--workers", 0, code=2).stderr
            assert re.search(r"belongs to user 54321.*learned, whose stored models.* are pickles.*--trust-code", said)
        os.chown(store / theirs, owner, -1)
    call("resume", store, "--workers", 0)


@pytest.mark.slow
@pytest.mark.promise
def test_commands_that_read_know_no_pickles(store: Path) -> None:
    """Whatever lies in a store, what would unpickle it is not even imported."""
    module = "hpcdp.losses.learned._estimator"
    assert importlib.util.find_spec(module)
    code = (
        "import json, sys; from hpcdp.cli.command import main; codes = [main(c) for c in json.loads(sys.argv[1])];"
        f"sys.exit(any(codes) or {module!r} in sys.modules)"
    )
    some = [commands(store)[name] for name in ("json", "accuracy", "verify", "status")]
    subprocess.run([sys.executable, "-c", code, json.dumps(some)], check=True, stdout=subprocess.DEVNULL)


def prepared(tmp_path: Path, canary: Path) -> tuple[Path, Path]:
    """A study of one's own, and a store that somebody else made of an equal one beside other code of the same names."""
    stranger, own, store = tmp_path / "stranger", tmp_path / "mine", tmp_path / "s.zarr"
    for folder in (stranger, own):
        write_study(folder, databases=[[0.0, 1.0]], train=20, test=20, chunk=20)
    call("run", stranger / "study.toml", "--store", store, "--workers", 0)
    code = (stranger / "own.py").read_text()
    (stranger / "own.py").write_text(f"open({str(canary)!r}, 'w')\n{code}")
    return own / "study.toml", store


@pytest.mark.slow
def test_a_run_imports_from_the_folder_that_its_user_gave(tmp_path: Path, canary: Path, scheduler: str) -> None:
    """Even where all of the store is the user's, who may have copied it."""
    study, store = prepared(tmp_path, canary)
    for one in records(store, "samples", "packs", "counts"):
        one.unlink()
    call("run", study, "--store", store, "--cluster", scheduler)
    body = read_json(max((store / "study").glob("study-*.json")))
    assert Path(body["folder"]) == study.parent
    assert (study.parent / "calls.log").is_file()


@pytest.mark.slow
@as_root
@pytest.mark.parametrize(
    "theirs", [".", "study", pytest.param("study/study-000001.json", marks=pytest.mark.promise), "records"]
)
def test_running_into_another_users_store(tmp_path: Path, canary: Path, theirs: str, scheduler: str) -> None:
    """`run`, `audit` and Python alike: who owns a part of the store can say what its tasks import."""
    study, store = prepared(tmp_path, canary)
    os.chown(store / theirs, 54321, -1)
    before = sorted(store.rglob("*"))
    for command in (("run", study), ("audit", study, "--claim", CLAIM)):
        found = call(*command, "--store", store, "--cluster", scheduler, code=2)
        check_refused(found.stderr, store, tmp_path / "stranger")
    with pytest.raises(StudyError, match="belongs to user 54321"):
        hpcdp.run(Study.from_toml(study), store, cluster=scheduler)
    assert sorted(store.rglob("*")) == before
    call("run", study, "--store", store, "--cluster", scheduler, "--trust-code")
