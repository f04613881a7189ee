"""Real processes that run a study and stop themselves (SIGSTOP) right before a given change of the store."""

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

from hpcdp import Study, run
from hpcdp.engine import execute
from hpcdp.store import records

CONTEXT = multiprocessing.get_context("forkserver")  # children that have the libraries already, and no threads
CONTEXT.set_forkserver_preload(["hpcdp.driver.driver", "hpcdp.losses.knn.knn"])

CHANGES = {"os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "shutil.rmtree": (0,), "open": (0,)}
"""Audit events of calls that overwrite or delete, and which of their arguments they change."""

Place = tuple[str, ...]
"""A kind of change: the event, and the paths in the store with digests, numbers and generations left out; of a journal
that a run is about to add to, kinds of the records too, those that are taken out of use as "no" such kind.
"""


def place_of(store: Path, event: str, arguments: tuple[Any, ...]) -> Place | None:
    """Which place a call is, None where it changes nothing that others see: a gate's inside, or a generation's own files."""
    if event not in CHANGES or (event == "open" and not _writes(arguments)):
        return None
    paths = [arguments[n] for n in CHANGES[event]]
    if any(not isinstance(path, str | os.PathLike) for path in paths):
        return None
    found = [_within(store, Path(os.fsdecode(path))) for path in paths]
    if not any(found) or all(name is None or name.startswith(("gate/", "own")) for name in found):
        return None
    return (event, *(name or "outside" for name in found))


def _journal_of(entries: Iterable[records.Entry]) -> str:
    kinds = {f"{'no ' if body is None else ''}{kind.partition('/')[0]}" for kind, _, body in entries}
    return " ".join(("records/journal", *(f"of {kind}" for kind in sorted(kinds))))


def _writes(arguments: tuple[Any, ...]) -> bool:
    """Whether a file is opened to write into it, unless it is new."""
    flags = arguments[2] if isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) and not flags & os.O_EXCL


def _within(store: Path, path: Path) -> str | None:
    if not path.is_relative_to(store):
        return None
    name = path.relative_to(store).as_posix()
    if re.match(r"lease/\d+\.json|(.*/)?\.[^/]*$", name):  # names with a dot are a process's own
        return "own"
    name = re.sub(r"^records/\d+-[0-9a-f]{32}\.jsonl$", "records/journal", name)
    name = re.sub(r"^lease/\d{6}(?=/|$)", "gate", name)
    name = re.sub(r"^gate/.*", "gate/…", name)
    name = re.sub(r"^[a-z_]+$", "ARRAY", name)
    return re.sub(r"(/0)+$|[0-9a-f]{16,}|\d{6}-\d+|\d{4,}", "#", name)


def _child(
    store: str, host: str, work: Callable[..., Any], arguments: tuple[Any, ...], pipe: Any, at: Place | None
) -> None:
    os.environ["SLURMD_NODENAME"] = host  # another host, whose lease is taken over when it is old
    root = Path(store)
    seen: list[Place] = []

    adding = "records/journal"
    append = records._append

    def hook(event: str, values: tuple[Any, ...]) -> None:
        place = place_of(root, event, values)
        if place == ("open", "records/journal"):
            place = ("open", adding)
        if place is not None and place not in seen:
            seen.append(place)
            if place == at:
                os.kill(os.getpid(), signal.SIGSTOP)

    def seen_append(path: Path, entries: Iterable[records.Entry], mode: str) -> None:
        nonlocal adding
        entries = list(entries)
        adding = _journal_of(entries)
        append(path, entries, mode)

    records._append = seen_append
    execute._EVERY = 0.0  # groups are the same in every run: one a task
    sys.addaudithook(hook)
    try:
        work(store, *arguments)
    except Exception as error:
        pipe.send((type(error).__name__, str(error), seen))
    else:
        pipe.send(("done", "", seen))


class Run:
    """A study that runs in a process of its own, on a host of its own."""

    def __init__(
        self, store: Path, host: str, work: Callable[..., Any], arguments: Any, at: Place | None = None
    ) -> None:
        self.store = store
        self._pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_child, args=(str(store), host, work, arguments, theirs, at))
        self.process.start()
        theirs.close()

    def frozen(self) -> bool:
        """Wait until it stopped itself, or ended; whether it stopped. Its lease looks old then."""
        process = psutil.Process(self.process.pid)
        while not self._pipe.poll(0.02):
            if process.status() == psutil.STATUS_STOPPED:
                for lease in (self.store / "lease").glob("*.json"):
                    os.utime(lease, (0, 0))
                return True
        return False

    def go_on(self) -> None:
        """Let it go on after it stopped."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> tuple[str, str, list[Place]]:
        """How it ended ("done", or the exception's type), its message, and the places it went through."""
        assert self._pipe.poll(120), "it does not end"
        found: tuple[str, str, list[Place]] = self._pipe.recv()
        self.process.join()
        return found

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def run_here(store: str, study: str) -> None:
    """`hpcdp run`, all of it in this process."""
    run(Study.from_toml(study), store, workers=0)
