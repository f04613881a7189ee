"""Studies with a mechanism of their own, and the real commands: in processes of their own, or in this one."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import psutil
from journals import KINDS, records

from hpcdp.cli.command import main
from hpcdp.keys import digest_array, stream
from hpcdp.store.layout import Layout
from hpcdp.store.root import latest_version
from hpcdp.study.problem import Problem
from hpcdp.study.versions import read_problem

COMMAND = [sys.executable, "-m", "hpcdp"]
Started = subprocess.Popen[str]
SEED = 20240520

LONG = 300.0
"""Seconds after which what is waited for is taken for stuck, on whatever machine and however busy it is."""

HOLD = '''
import glob
import json
import os
import time

from hpcdp._base import doing


def hold():
    """Wait while the file `hold` is beside this one and as many records of some kinds as it says are in a folder.

    Trial draws do not wait.
    """
    while on_worker() and is_held():
        time.sleep(0.05)


def on_worker():
    return doing.step() is not None and "trial outputs" not in doing.step()


def is_held():
    try:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hold")) as file:
            folder, kinds, number = json.load(file)
    except FileNotFoundError:
        return False
    names = set()
    for path in glob.glob(os.path.join(folder, "*.jsonl")):
        with open(path) as file:
            names |= {line.split(',"checksum"')[0] for line in file}
    return sum(name.startswith(tuple('{"kind":"' + kind for kind in kinds)) for name in names) >= number
'''

MECHANISM = (
    '''
"""Laplace noise on a sum, slow if need be, that leaves one line a call in a log."""
import os
import time

from hpcdp.keys import digest_array

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.log")
'''
    + HOLD
    + """


def note(database, size, rng):
    line = f"{digest_array(database)} {size} {rng.bit_generator.state['state']['state']:x}\\n"
    handle = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)


def noisy(database, size, rng, pause=0.0):
    note(database, size, rng)
    hold()
    time.sleep(pause)
    return database.sum() + rng.laplace(size=size)
"""
)


def write_study(folder: Path, mechanism: str = MECHANISM, name: str = "study.toml", **changes: Any) -> Path:
    """A study file and its mechanism's module in a folder. changes: values of the study's keys, which are all distinct."""
    folder.mkdir(parents=True, exist_ok=True)
    if not {"loss", "method", "tape"} & changes.keys():
        changes["loss"] = "knn"  # auto learns for .3 s a pair
    module = folder / "own.py"
    if not module.exists() or module.read_text() != mechanism:
        module.write_text(mechanism)
    values: dict[str, Any] = {
        "seed": SEED,
        "stream": "numpy",
        "call": "own:noisy",
        "parameters": {},
        "databases": [[0.0, 0.5, 1.0, 2.0]],
        "rows": "all",
        "train": 2000,
        "test": 4500,
        "chunk": 500,
        "epsilons": [0.0, 0.5, 1.0],
        "etas": [0.5, 1.0],
        "keep": "all",
        **changes,
    }
    pairs = f"relative = {{ databases = {values.pop('databases')}, rows = {_toml(values.pop('rows'))} }}"
    pairs = values.pop("pairs", pairs)
    head = {key: values.pop(key) for key in ("seed", "stream", "claim") if key in values}
    mechanism_keys = {key: values.pop(key) for key in ("call", "parameters", "isolated") if key in values}
    sections = {"study": {"name": "s", **head}, "mechanism": mechanism_keys, "estimate": values}
    text = f"[pairs]\n{pairs}\n"
    for section, keys in sections.items():
        text += f"[{section}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())
    path = folder / name
    path.write_text(text)
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def hpcdp(
    *arguments: Any, folder: Path, code: int | None = 0, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder as a user does, and check its exit code and that it shows no traceback."""
    words = [*prefix, *COMMAND, *map(str, arguments)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=LONG, check=False)
    assert code is None or done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done


def python(folder: Path, *words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with a script's path, `-c` and its text, or what is else given to it."""
    command = [sys.executable, *map(str, words)]
    given = {"timeout": LONG, "check": False, **settings}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, **given)


def call(*arguments: Any, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has the libraries already; paths are absolute."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            found = main([*map(str, arguments)])
        except SystemExit as ended:  # of argparse
            found = int(ended.code or 0)
    assert code is None or found == code, f"exit code {found}\n{out.getvalue()}\n{error.getvalue()}"
    assert "Traceback" not in error.getvalue(), error.getvalue()
    return subprocess.CompletedProcess([*map(str, arguments)], found, out.getvalue(), error.getvalue())


def one_message(done: subprocess.CompletedProcess[str]) -> str:
    """The only line on stderr that is no news of the plan or of progress."""
    news = (
        "plan of",
        " ",
        "run:",
        "certify:",
        "check stored samples:",
        "compiling kernels",
        "warning: the scheduler",
        "beyond the plan",
    )
    (line,) = [line for line in done.stderr.splitlines() if line and not line.startswith(news)]
    assert line.startswith("hpcdp: ")
    return line


def show(store: Path) -> str:
    """What `show --format json` prints."""
    return call("show", store, "--format", "json").stdout


@contextmanager
def started(*arguments: Any, folder: Path) -> Iterator[Started]:
    """A command in a session of its own, as on a terminal; whatever is left of the session is killed."""
    words, pipe = [*COMMAND, *map(str, arguments)], subprocess.PIPE
    with subprocess.Popen(words, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            kill_group(process)


def kill_group(process: Started) -> None:
    """SIGKILL to a process and all that it started."""
    for member in members(process):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not members(process), "the session is gone")


def members(process: Started) -> list[int]:
    """Processes of its session that are alive: children have groups of their own."""
    found = []
    for other in psutil.process_iter():
        try:
            if os.getsid(other.pid) == process.pid and other.status() != psutil.STATUS_ZOMBIE:
                found.append(other.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = LONG) -> None:
    """Wait for something to be so; fail naming it when it takes too long."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not so after {seconds} s: {what}"
        time.sleep(0.03)  # looking at all processes, or at a store's records, takes time from what is waited for


def hold(folder: Path, store: Path, number: int, *kinds: str) -> None:
    """Let the mechanism of a folder draw nothing more once the store has so many records of some kinds, as `records`.

    A run that has more to draw is then not over before a test has seen it, however busy the machine is.
    """
    written = folder / "hold.new"
    written.write_text(json.dumps([str(store / "records"), kinds or KINDS, number]))
    written.replace(folder / "hold")  # a worker that reads meanwhile sees the one or the other


def release(folder: Path) -> None:
    """Let the mechanism of a folder draw on."""
    (folder / "hold").unlink()


def contents(store: Path) -> dict[Any, Any]:
    """Every committed record, and time of change and bytes of every file of samples that has one."""
    found: dict[Any, Any] = {record: record.read_bytes() for record in records(store)}
    for record in records(store, "samples", "packs"):
        folder = store / "samples" / ("packs" if record.kind == "packs" else "") / record.name
        files = (path for path in folder.rglob("*") if path.is_file())
        found |= {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
    return found


@contextmanager
def nothing_lost(store: Path) -> Iterator[None]:
    """Whatever happens to a store: what is committed stays, byte for byte, and its files are not written again."""
    before = contents(store)
    yield
    after = contents(store)
    assert {path: after.get(path) for path in before} == before, "what was committed changed"


def kept(store: Path) -> dict[str, bytes]:
    """The same by names, without times: equal where equal things are committed, in whatever store."""
    told = {f"{record.kind}/{record.name}": record.read_bytes() for record in records(store)}
    files = {key: value for key, value in contents(store).items() if isinstance(key, Path)}
    return told | {path.relative_to(store).as_posix(): body for path, (_, body) in files.items()}


def blocks(store: Path) -> set[str]:
    """Names of the committed blocks of samples, in packs too."""
    packed = {name for record in records(store, "packs") for name in record.body["fingerprints"]}
    return packed | {record.name for record in records(store, "samples")}


def stored_problem(store: Path) -> Problem:
    """The problem that a store holds."""
    return read_problem(Layout(store), latest_version(Layout(store)))


Chunk = tuple[str, str, int]
"""A law, a stage's name, and the chunk's number."""


def calls(folder: Path, store: Path) -> list[Chunk]:
    """The chunks that the logging mechanism drew, call by call; trial draws are left out."""
    problem = stored_problem(store)
    streams = {
        f"{stream(SEED, law, stage.name, chunk).bit_generator.state['state']['state']:x}": (law, stage, chunk)
        for law in problem.laws
        for stage in (problem.train, problem.test)
        for chunk in range(stage.chunks)
    }
    found = []
    for line in (folder / "calls.log").read_text().splitlines():
        database, size, words = line.split()
        if words in streams:
            law, stage, chunk = streams[words]
            assert digest_array(problem.laws[law]) == database
            assert 0 < int(size) <= stage.chunk_size(chunk)  # the last chunk was shorter before a stage grew
            found.append((law, stage.name, chunk))
    return found


def committed(store: Path) -> set[Chunk]:
    """The chunks that no run may draw again: all that needs them has a record."""
    problem = stored_problem(store)
    done = set()
    names = blocks(store)
    for stage in problem.kept_stages:
        for law in problem.laws:
            for block in range(stage.blocks):
                if stage.name_of(law, block) in names:
                    done |= {(law, stage.name, chunk) for chunk in stage.block_chunks(block)}
    counted: set[tuple[str, int]] = set()
    learned: set[str] = set()
    for body in (record.body for record in records(store, "counts")):
        counted |= {(entry["key"], chunk) for entry in body["entries"] for chunk in range(body["start"], body["stop"])}
    for record in records(store, "fits"):
        learned |= {entry["key"] for entry in record.body["entries"] if entry["stored"]}
    for law in problem.laws:
        models = [m for m, pair in zip(problem.model_keys, problem.pair_laws, strict=True) if law in pair]
        if problem.test not in problem.kept_stages:
            everyone = [c for c in range(problem.test.chunks) if all((m, c) in counted for m in models)]
            done |= {(law, "test", chunk) for chunk in everyone}
        if problem.train not in problem.kept_stages and learned.issuperset(models):
            done |= {(law, "train", chunk) for chunk in range(problem.train.chunks)}
    return done
