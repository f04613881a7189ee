"""A store that a stranger wrote: commands that read it run nothing, end, and print nothing that a terminal would obey."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numcodecs.pickles
import numpy as np
import pytest
import zarr
from commands import COMMAND, call, records, write_study

from hpcdp import Study, load_result
from hpcdp import run as hpcdp_run
from hpcdp.cli.command import main
from hpcdp.engine.driver import store_problem
from hpcdp.errors import DamagedError, HpcdpError, StudyError
from hpcdp.store.layout import Layout
from hpcdp.store.records import read_json, write_json
from hpcdp.study.problem import resolve
from hpcdp.study.trust import refuse_foreign_code

SECONDS = 60  # far more than any of these commands takes
ESCAPE = "\x1b]0;owned\x07\x9b31m"
CLAIM = "dp(epsilon=1, delta=0.1)"
Poison = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> Path:
    """A folder with a complete store that holds every kind of file; what it says of itself is in `clean`."""
    folder = tmp_path_factory.mktemp("poison")
    sizes = {"train": 200, "test": 200, "chunk": 100, "refine": 200, "loss": "smooth"}
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


@contextmanager
def deadline() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"the command did not end within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code and both outputs of a command, in this process."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error), deadline():
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
        assert out == ""
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
    write_json(path, change(read_json(path)))


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


@pytest.mark.parametrize("beside", [False, True])
def test_format_2_with_pickled_objects(store: Path, canary: Path, clean: dict[str, str], beside: bool) -> None:
    for array in ("delta", "epsilon", "study/databases"):
        for path in [store / array] if array != "study/databases" else (store / array).glob("[0-9a-f]*"):
            old_form(path, Payload(canary), beside)
    look(store, clean, list(commands(store)), kept=True)
    if not beside:  # the root arrays are derived from the records, which need the databases
        with pytest.raises(HpcdpError, match="damaged or missing"):
            load_result(store)


@pytest.mark.parametrize("poison", METADATA)
def test_metadata_of_a_root_array(store: Path, clean: dict[str, str], poison: str) -> None:
    edit(store / "delta" / "zarr.json", METADATA[poison])
    look(store, clean, ["json", "status"], kept=True)
    assert load_result(store).to_json() + "\n" == clean["json"]


@pytest.mark.parametrize("poison", FILES)
def test_every_kind_of_file(store: Path, clean: dict[str, str], poison: str) -> None:
    """One file of each kind at a time, as each poison."""
    files = [
        store / "zarr.json",
        store / "delta" / "zarr.json",
        next(p for p in (store / "delta" / "c").rglob("*") if p.is_file()),
        next((store / "study" / "databases").glob("*/zarr.json")),
        store / "study" / "study-000001.json",
        store / "records" / "results.json",
        *{
            path.parent: path for path in records(store, "samples", "fits", "counts", "tallies", "sizes", "runs")
        }.values(),
        next((store / "lease").glob("*.json")),
        store / "jobs" / "logs" / "driver-1.log",
    ]
    for path in files:
        before = path.read_bytes()
        FILES[poison](path)
        look(store, clean, ["json", "status", "logs"], kept="log" not in path.parts[-2])
        path.unlink()
        path.write_bytes(before)


HEADS: dict[str, Callable[[Any], Any]] = {
    "outward": lambda h: {
        **h,
        "arrays": {"../../../../etc": ["epsilon"], **h["arrays"]},
        "digests": {"../../../../etc": ""},
    },
    "absolute": lambda h: {**h, "arrays": {"/etc": ["epsilon"]}, "digests": {"/etc": ""}},
    "names": lambda h: {**h, "arrays": {ESCAPE: ["epsilon"]}, "digests": {ESCAPE: ESCAPE}},
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


def test_names_that_a_terminal_would_obey(store: Path, clean: dict[str, str]) -> None:
    def pairs(head: Any) -> Any:
        return {**head, "pairs": [{"pair": 0, "database": ESCAPE, "rows": [ESCAPE], "value": ESCAPE}] * 2}

    def ends(body: Any) -> Any:
        return {**body, "failed": [ESCAPE], "stopped": ESCAPE}

    record(store / "records" / "results.json", pairs)
    record(next((store / "records" / "runs").glob("*.json")), ends)
    edit(next((store / "lease").glob("*.json")), lambda _: {"host": ESCAPE, "process": "\udc80"})
    (store / "jobs" / "logs" / f"worker-{ESCAPE}\udcff.log").write_text(ESCAPE + "\u202e")
    for kind in ("counts", "samples", "runs"):
        (store / "records" / kind / f"{ESCAPE}.json").write_text("")
    look(store, clean, list(commands(store)), kept=False)
    assert "\\u001b]0;owned\\u0007\\u009b31m" in run(commands(store)["logs"])[1]


def _study(**changes: Any) -> Callable[[Any], Any]:
    """The study with other values, by section."""
    return lambda body: {**body, "study": {k: {**v, **changes.get(k, {})} for k, v in body["study"].items()}}


STUDIES: dict[str, Callable[[Any], Any]] = {
    "claim on a device": _study(study={"claim": "file(/dev/zero)"}),
    "claim on a store on a device": _study(study={"claim": "store(/dev/zero)"}),
    "claim with an escape": _study(study={"claim": f"file({ESCAPE})"}),
    "name": _study(study={"name": ESCAPE}),
    "name outward": _study(study={"name": "../../x"}),
    "code": _study(mechanism={"call": "evil:noisy"}),
    "program": _study(mechanism={"call": {"command": ["/bin/sh", "-c", "touch ../canary"]}}),
    "loss": _study(estimate={"loss": "learned", "parameters": {"model": "evil:Classifier"}}),
    "many chunks": _study(estimate={"test": 10**30, "chunk": 1}),
    "a chunk each": _study(estimate={"test": 10**15, "train": 10**15, "refine": 10**15, "chunk": 1}),
    "many epsilons": _study(estimate={"epsilons": {"start": 0.0, "stop": 1.0, "count": 10**12}}),
    "infinite": _study(estimate={"epsilons": [0.0, float("inf")]}),
    "rows": _study(pairs={"relative": {"databases": [[0.0, 1.0]], "rows": [10**30]}}),
    "databases outward": lambda body: {**body, "databases": ["../../../../../../etc"]},
    "databases": lambda body: {**body, "databases": 7},
    "schema": lambda body: {**body, "schema": {"kind": ESCAPE, "columns": 10**30}},
    "folder": lambda body: {**body, "folder": "/dev/zero"},
    "many rows": lambda body: {
        **body,
        "databases": [],
        "shapes": [[10**18]],
        "study": {
            **body["study"],
            "pairs": {
                "given": None,
                "relative": None,
                "distributional": [
                    {"call": "evil:draw", "parameters": {}, "index": "all", "values": [0, 1], "exchangeable": False}
                ],
            },
        },
    },
}


@pytest.mark.parametrize("poison", STUDIES)
def test_a_study(store: Path, clean: dict[str, str], canary: Path, poison: str) -> None:
    (store.parent / "evil.py").write_text(f"open({str(canary)!r}, 'w')\n")
    record(store / "study" / "study-000001.json", lambda body: STUDIES[poison]({**body, "folder": str(store.parent)}))
    look(store, clean, ["json", "table", "verify", "status", "logs"], kept=False)
    shutil.rmtree(store / "records" / "results.json", ignore_errors=True)
    (store / "records" / "results.json").unlink()  # what no root array says is derived from the study
    look(store, clean, ["json", "status"], kept=False)


def test_real_processes(store: Path, canary: Path) -> None:
    """The same without a test's libraries: a pickled array, a pipe, and a log with escapes."""
    old_form(store / "delta", Payload(canary))
    pipe(next(p for p in (store / "epsilon" / "c").rglob("*") if p.is_file()))
    (store / "jobs" / "logs" / "worker-2.log").write_text(ESCAPE)
    environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    for arguments in (["show", str(store), "--format", "json"], ["logs", str(store)]):
        done = subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
        )
        check(done.returncode, done.stdout, done.stderr)
        assert done.returncode == 0


def test_own_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Every shape and type that hpcdp writes passes the list of what is accepted."""
    from hpcdp.store.arrays import read_array, write_array

    for number, array in enumerate(
        [
            np.arange(10.0),
            np.arange(12, dtype=np.int64).reshape(2, 3, 2),
            np.array(3),
            np.zeros((0, 3)),
            np.array([True, False]),
            np.arange(250, dtype=np.uint8),
            np.arange(5, dtype=np.int8),
            np.arange(6, dtype=np.float32),
        ]
    ):
        for chunk in (None, 4):
            write_array(tmp_path / f"a{number}", array, chunk)
            found = read_array(tmp_path / f"a{number}")
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)
            np.testing.assert_array_equal(zarr.open_array(tmp_path / f"a{number}", mode="r")[...], array)


@pytest.mark.parametrize("chunk", [None, 4])
def test_every_changed_byte_of_an_own_array_is_seen(tmp_path: Path, chunk: int | None) -> None:
    from hpcdp.store.arrays import read_array, write_array

    write_array(tmp_path / "a", np.arange(10.0), chunk, checks=2)
    path = tmp_path / "a" / "c" / "0"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedError, match="checksum"):
            read_array(tmp_path / "a")
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedError, match="damaged"):
            read_array(tmp_path / "a")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a store to another user")
def test_resume_of_another_users_store(whole: Path, store: Path, scheduler: str) -> None:
    """What would run is named, and nothing runs; with --trust-code, and for the owner, the run goes on."""
    log = whole / "calls.log"
    place, before = ("--cluster", scheduler), log.read_bytes()
    for path in (store, store / "study" / "study-000001.json"):
        owner = path.stat().st_uid
        os.chown(path, 54321, -1)
        found = call("resume", store, *place, code=2)
        assert found.stdout == ""
        (line,) = found.stderr.splitlines()
        assert f"{store} belongs to user 54321, and its study names code" in line
        assert f"mechanism.call = own:noisy from {whole / 'own.py'}" in line
        assert "--trust-code" in line
        assert log.read_bytes() == before
        os.chown(path, owner, -1)
    call("resume", store, *place)
    assert log.read_bytes() != before
    os.chown(store, 54321, -1)
    call("resume", store, *place, "--trust-code")
    record(  # a built-in is no code of the study's
        store / "study" / "study-000001.json", _study(mechanism={"call": "laplace", "parameters": {"epsilon": 1.0}})
    )
    assert "changed" in call("resume", store, *place, code=2).stderr


PICKLED = """
[study]
name = "pickled"
seed = 1
[mechanism]
call = "laplace"
parameters = { epsilon = 1.0 }
[pairs]
given = [{ d = [0.0], d_prime = [1.0] }]
[estimate]
loss = "learned"
parameters = { classifier = "gradient-boosting" }
train = 100
test = 100
epsilons = [0.0]
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a store to another user")
@pytest.mark.parametrize("theirs", [".", "study", "counters/key/pickle", "pilots/key"])
def test_pickles_in_another_users_store(tmp_path: Path, theirs: str) -> None:
    """A study of built-ins alone, whose models are pickles, is refused before anything is read, wherever another user wrote."""
    (tmp_path / "own.toml").write_text(PICKLED)
    (study, _), store = resolve(Study.from_toml(tmp_path / "own.toml")), tmp_path / "s.zarr"
    store_problem(study, store)
    for name in ("counters/key/pickle", "pilots/key"):
        (store / name).mkdir(parents=True)
    refuse_foreign_code(Layout(store))
    os.chown(store / theirs, 54321, -1)
    for given in (None, study.study):
        with pytest.raises(StudyError, match=r"belongs to user 54321.*learned, whose stored models.* are pickles"):
            refuse_foreign_code(Layout(store), given)
    assert "--trust-code" in call("resume", store, code=2).stderr


def test_commands_that_read_know_no_pickles(store: Path) -> None:
    """Whatever lies in a store, what would unpickle it is not even imported."""
    code = (
        "import json, sys; from hpcdp.cli.command import main; codes = [main(c) for c in json.loads(sys.argv[1])];"
        "sys.exit(any(codes) or 'hpcdp.losses.learned._pickled' in sys.modules)"
    )
    some = [commands(store)[name] for name in ("json", "accuracy", "verify", "status")]
    subprocess.run([sys.executable, "-c", code, json.dumps(some)], check=True, stdout=subprocess.DEVNULL)


def _prepared(tmp_path: Path, canary: Path) -> tuple[Path, Path]:
    """A study of one's own, and a store that somebody else made of an equal one beside other code of the same names."""
    stranger, own = tmp_path / "stranger", tmp_path / "mine"
    stranger.mkdir()
    own.mkdir()
    for folder in (stranger, own):
        write_study(folder, databases=[[0.0, 1.0]], train=20, test=20, chunk=20)
    store_problem(resolve(Study.from_toml(stranger / "study.toml"))[0], tmp_path / "s.zarr")
    code = (stranger / "own.py").read_text()
    (stranger / "own.py").write_text(f"open({str(canary)!r}, 'w')\n{code}")
    return own / "study.toml", tmp_path / "s.zarr"


def test_a_run_imports_from_the_folder_that_its_user_gave(tmp_path: Path, canary: Path, scheduler: str) -> None:
    """Even where all of the store is the user's, who may have copied it."""
    study, store = _prepared(tmp_path, canary)
    call("run", study, "--store", store, "--cluster", scheduler)
    body = read_json(max((store / "study").glob("study-*.json")))
    assert Path(body["folder"]) == study.parent
    assert (study.parent / "calls.log").is_file()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a store to another user")
@pytest.mark.parametrize("theirs", [".", "study", "study/study-000001.json", "records"])
def test_running_into_another_users_store(tmp_path: Path, canary: Path, theirs: str, scheduler: str) -> None:
    """`run`, `audit`, `submit` and Python alike: who owns a part of the store can say what its tasks import."""
    study, store = _prepared(tmp_path, canary)
    os.chown(store / theirs, 54321, -1)
    before = sorted(store.rglob("*"))
    for command in ("run", "audit"):
        extra = ("--claim", CLAIM) if command == "audit" else ()
        found = call(command, study, "--store", store, "--cluster", scheduler, *extra, code=2)
        line = found.stderr.splitlines()[-1]
        assert f"{store} belongs to user 54321, and its study names code" in line
        assert f"mechanism.call = own:noisy from {tmp_path / 'stranger' / 'own.py'}" in line
        assert "--trust-code" in line
    with pytest.raises(StudyError, match="belongs to user 54321"):
        hpcdp_run(study, store, cluster=scheduler)
    with pytest.raises(StudyError, match="belongs to user 54321"):  # what submit does
        store_problem(resolve(Study.from_toml(study))[0], store)
    assert sorted(store.rglob("*")) == before
    call("run", study, "--store", store, "--cluster", scheduler, "--trust-code")


@pytest.mark.parametrize("form", [2, 3])
def test_samples_that_others_wrote(tmp_path: Path, canary: Path, form: int) -> None:
    """Arrays for `stored`: of both formats, compressed or not, numbers or strings; never Python objects."""
    import zarr

    from hpcdp.mechanisms.stored import read_outputs

    for number, values in enumerate([np.arange(100.0), np.arange(6).reshape(3, 2), np.array(["no", "yes"])]):
        for codecs in ("auto", None):
            path = tmp_path / f"{number}-{codecs}.zarr"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zarr has not settled how strings are written
                zarr.create_array(str(path), data=values, chunks=values.shape, compressors=codecs, zarr_format=form)
                np.testing.assert_array_equal(read_outputs(path), values)
    path = tmp_path / "0-auto.zarr"
    if form == 2:
        edit(path / ".zarray", lambda m: {**m, "filters": [{"id": "pickle", "protocol": 5}], "compressor": None})
        (path / "0").write_bytes(pickle.dumps(Payload(canary)))
        with pytest.raises(StudyError, match="codec: 'pickle'; accepted: blosc"):
            read_outputs(path)
        edit(path / ".zarray", lambda m: {**m, "filters": None, "dtype": "|O"})
        with pytest.raises(StudyError, match=r"dtype: '\|O'; accepted: numbers, booleans and strings"):
            read_outputs(path)
    else:
        edit(path / "zarr.json", codec({"name": "numcodecs.pickle", "configuration": {}}))
        with pytest.raises(StudyError, match=r"codec: 'numcodecs\.pickle'; accepted: blosc"):
            read_outputs(path)
