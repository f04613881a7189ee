"""Runs of all kinds whose processes are killed at random moments: what they end with is what undisturbed ones do.

SIGKILL falls on child processes and on the servers above them, those that are just starting too. A run that gives up, since
the same task was hit too often, is resumed. After every run its JSON is compared with that of an undisturbed one, and every
record that was committed when a process was killed with what it is at the end.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.journals import committed
from hpcdp import load_result

_KILLS, _KILLS_SMALL = 200, 12
_PAUSES = (0.05, 1.5)  # seconds from one kill to the next
_MOST = 15  # kills in one run
_WORKERS = (2, 0)  # of the runs of a kind, in turn; 0: one process, of no scheduler
_LONGEST = 600.0  # seconds that a command may take, killed processes and all; one that hangs fails the soak
_MECHANISM = """
import time


def slow(database, size, rng):
    time.sleep(0.02)
    return database.sum() + rng.laplace(size=size)
"""
_PLAIN = "train = 2000\ntest = 6000\nchunk = 500\nepsilons = [0.0, 0.5, 1.0]\netas = [0.5, 1.0, 2.0]\n"
_TARGET = "train = 2000\ntest = 1048576\nchunk = 2000\nkeep = 'none'\nepsilons = [0.0, 0.5]\n"
_FEW, _MANY = [0.0, 0.5, 1.0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0]
_AUDIT = ("audit", "study.toml", "--claim", "laplace(epsilon=0.5)", "--format", "json")


@dataclass(frozen=True)
class _Kind:
    """estimate: the section's text. command: what is run, again and again until it ends well."""

    estimate: str
    rows: Sequence[float] = tuple(_FEW)
    command: tuple[str, ...] = ("run", "study.toml")


KINDS = {
    "plain": _Kind(_PLAIN),
    "streamed": _Kind(_PLAIN + "keep = 'none'\n"),
    "target": _Kind(_TARGET + "target = { epsilon = 0.5, relative_error = 0.05, most = 100000 }\n"),
    "race": _Kind(_TARGET + "target = { epsilon = 0.5, relative_error = 0.03, most = 100000 }\n", tuple(_MANY)),
    "reuse": _Kind("train = 2000\ntest = 6000\nchunk = 500\nepsilons = [0.0, 0.5, 1.0]\nreuse = true\n"),
    "audit": _Kind(_PLAIN, command=_AUDIT),
    "sequential": _Kind(
        "train = 4000\ntest = 4000\nchunk = 500\nepsilons = [0.0]\n",
        command=(
            *_AUDIT[:3],
            "laplace(epsilon=1)",
            *_AUDIT[4:],
            "--sequential",
            "--batch",
            "2000",
            "--budget",
            "12000",
        ),
    ),
}
"""What is disturbed, by name."""
# whose ways of keeping and of deciding what is next differ most
_KINDS_SMALL = ("plain", "race", "reuse", "sequential")


@dataclass
class Figures:
    """What a soak did. wrong: what differed from an undisturbed run; it is empty, or hpcdp is wrong."""

    kills: int = 0
    runs: int = 0
    resumed: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    wrong: list[str] = field(default_factory=list)


def soak(kills: int, kinds: Sequence[str], seed: int, folder: Path) -> Figures:
    """Disturb runs of these kinds in turn until so many processes were killed."""
    chance, figures, begin = random.Random(seed), Figures(), time.monotonic()
    expected = {}
    for kind in kinds:
        whole = _write(folder / f"{kind}-whole", KINDS[kind])
        expected[kind] = _finish(KINDS[kind], whole, _start(KINDS[kind], whole, 0))[0]
    while figures.kills < kills:
        kind = kinds[figures.runs % len(kinds)]
        place = _write(folder / f"{kind}-{figures.runs}", KINDS[kind])
        start = time.monotonic()
        most = min(kills - figures.kills, -(-kills // len(kinds)), _MOST)
        workers = _WORKERS[figures.runs // len(kinds) % len(_WORKERS)]
        _disturb(kind, place, workers, expected[kind], most, chance, figures)
        figures.runs += 1
        figures.longest = max(figures.longest, time.monotonic() - start)
    figures.seconds = time.monotonic() - begin
    return figures


def _write(folder: Path, kind: _Kind) -> Path:
    folder.mkdir()
    (folder / "own.py").write_text(_MECHANISM)
    (folder / "study.toml").write_text(
        f"[study]\nname = 's'\nseed = 20240520\n[mechanism]\ncall = 'own:slow'\n"
        f"[pairs]\nrelative = {{ databases = [{list(kind.rows)}], rows = 'all' }}\n[estimate]\n{kind.estimate}"
    )
    return folder


def _start(kind: _Kind, folder: Path, workers: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hpcdp", *kind.command, "--store", "s.zarr", "--workers", str(workers)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def _finish(kind: _Kind, folder: Path, process: subprocess.Popen[str]) -> tuple[str, int]:
    """The JSON that a command ends with, and its exit code."""
    try:
        out, said = process.communicate(timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{folder.name}: it did not end; it said: {process.communicate()[1]}") from None
    if process.returncode not in (0, 3):
        return said, process.returncode
    if kind.command[0] == "run":
        out = load_result(folder / "s.zarr").to_json()
    return json.dumps(json.loads(out), sort_keys=True), process.returncode


def _disturb(
    kind: str, folder: Path, workers: int, expected: str, most: int, chance: random.Random, figures: Figures
) -> None:
    seen: dict[str, bytes] = {}
    for _ in range(100):
        process = _start(KINDS[kind], folder, workers)
        end = time.monotonic() + _LONGEST
        while process.poll() is None and most > 0 and time.monotonic() < end:
            time.sleep(chance.uniform(*_PAUSES))
            seen |= committed(folder / "s.zarr") if process.poll() is None else {}
            if _kill_one(process.pid, chance):
                figures.kills, most = figures.kills + 1, most - 1
        found, code = _finish(KINDS[kind], folder, process)
        if code in (0, 3):
            break
        if "ended its worker process each time it ran" not in found and "the process was ended by SIGKILL" not in found:
            figures.wrong.append(f"{folder.name}: exit code {code}: {found}")
            return
        figures.resumed += 1
    if found != expected:
        figures.wrong.append(f"{folder.name}: its JSON is not that of an undisturbed run")
    now = committed(folder / "s.zarr")
    changed = [name for name, line in seen.items() if now.get(name) != line]
    if changed:
        figures.wrong.append(f"{folder.name}: committed records changed: {', '.join(changed)}")


_NAMES = ("hpcdp-child", "hpcdp-server")


def _kill_one(driver: int, chance: random.Random) -> bool:
    """SIGKILL to a child process of a run, or to the server above it, whatever it does; whether there was one."""
    with suppress(psutil.NoSuchProcess):
        below = psutil.Process(driver).children(recursive=True)
        kept = [process for process in below if process.name() in _NAMES]
        if kept:
            chance.choice(kept).send_signal(signal.SIGKILL)
            return True
    return False


def main(small: bool = False, seed: int = 20240520) -> Figures:
    """Run the soak, print its figures, and fail if anything was wrong."""
    kinds = _KINDS_SMALL if small else tuple(KINDS)
    with tempfile.TemporaryDirectory(prefix="hpcdp-soak-") as folder:
        figures = soak(_KILLS_SMALL if small else _KILLS, kinds, seed, Path(folder))
    print(
        f"soak: {figures.kills} kills in {figures.runs} runs ({', '.join(kinds)}), {figures.resumed} resumed, "
        f"{figures.seconds:.0f} s, the longest run {figures.longest:.0f} s; wrong: {len(figures.wrong)}"
    )
    for words in figures.wrong:
        print(f"  {words}")
    if figures.wrong:
        raise AssertionError(f"{len(figures.wrong)} of {figures.runs} runs are wrong")
    return figures
