"""Real processes that run a study and stop themselves (SIGSTOP) right before a given change of the store."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from hpcdp.engine.driver import opened
from hpcdp.engine.identical_chunks import refuse_identical_chunks
from hpcdp.engine.places import Options
from hpcdp.engine.progress import Silent
from hpcdp.engine.repair import read_sound_index, remove_unrecorded, set_samples_aside
from hpcdp.engine.tasks import check_blocks, run_task
from hpcdp.notions.bounds import BOUNDS_VERSION
from hpcdp.planning.costs import Costs
from hpcdp.planning.reuse_choice import choose_reuse
from hpcdp.planning.targets import decide, share_time
from hpcdp.planning.ways import schedule
from hpcdp.results.assemble import assemble, pair_entries
from hpcdp.store.results import digests_of, read_results, write_results
from hpcdp.study.decisions import with_known_sizes
from hpcdp.study.file import Study
from hpcdp.study.problem import resolve

CONTEXT = multiprocessing.get_context("forkserver")  # children that have the libraries already, and no threads
CONTEXT.set_forkserver_preload(
    ["hpcdp.engine.driver", "hpcdp.engine.tasks", "hpcdp.planning.targets", "hpcdp.losses.knn.knn"]
)

CHANGES = {"os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "shutil.rmtree": (0,), "open": (0,)}
"""Audit events of calls that overwrite or delete, and which of their arguments they change."""

Place = tuple[str, ...]
"""A kind of change: the event, and the paths in the store with digests, numbers and generations left out."""


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


def _writes(arguments: tuple[Any, ...]) -> bool:
    """Whether a file is opened to write into it, unless it is new."""
    flags = arguments[2] if isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) and not flags & os.O_EXCL


def _within(store: Path, path: Path) -> str | None:
    if not path.is_relative_to(store):
        return None
    name = path.relative_to(store).as_posix()
    if re.match(r"lease/\d+\.json|records/runs/|(.*/)?\.[^/]*$", name):  # names with a dot are a process's own
        return "own"
    name = re.sub(r"^lease/\d{6}(?=/|$)", "gate", name)
    name = re.sub(r"^gate/.*", "gate/…", name)
    name = re.sub(r"^\w+/(?=c/|c$|zarr\.json$)", "ARRAY/", name)
    return re.sub(r"(/0)+$|[0-9a-f]{16,}|\d{6}-\d+|\d{4,}", "#", name)


def _child(
    store: str, host: str, work: Callable[..., Any], arguments: tuple[Any, ...], pipe: Any, at: Place | None
) -> None:
    os.environ["SLURMD_NODENAME"] = host  # another host, whose lease is taken over when it is old
    root = Path(store)
    seen: list[Place] = []

    def hook(event: str, values: tuple[Any, ...]) -> None:
        place = place_of(root, event, values)
        if place is not None and place not in seen:
            seen.append(place)
            if place == at:
                os.kill(os.getpid(), signal.SIGSTOP)

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
    """What `hpcdp run` does, with the functions that it and its workers call, all in this process."""
    problem, trial = resolve(Study.from_toml(study))
    with opened(problem, Path(store), Options(), Silent()) as (layout, lease, version):
        root, costs, generation = str(layout.root), Costs.of(problem, trial), lease.generation
        share_time(problem, costs, 2, layout, generation)
        problem, _ = choose_reuse(problem, costs, layout, generation)
        problem = with_known_sizes(layout, problem)
        index = read_sound_index(layout, Silent())
        remove_unrecorded(layout, index)
        stages = {stage.name: stage for stage in problem.kept_stages}
        kept = [(law, name, b) for name, stage in stages.items() for law in problem.laws for b in range(stage.blocks)]
        known = tuple(item for item in kept if stages[item[1]].name_of(item[0], item[2]) in index.samples)
        for record, _ in check_blocks(root, version, known):
            set_samples_aside(layout, problem, record)
        while True:
            index = read_sound_index(layout, Silent())
            tasks = schedule(problem, index, costs, 2)
            for task in tasks:
                assert not run_task(root, version, generation, task).failures
            if not tasks and not (problem.study.estimate.has_budget and decide(problem, index, layout, generation)):
                break
            problem = with_known_sizes(layout, problem)
        refuse_identical_chunks(layout, problem)
        arrays, stored = assemble(problem, index), read_results(layout)
        if stored is None or stored[1]["version"] != version or digests_of(stored[0]) != digests_of(arrays):
            head = {
                "version": version,
                "complete": True,
                "name": problem.study.name,
                "confidence": problem.study.estimate.confidence,
                "pairs": pair_entries(problem),
                "bounds": BOUNDS_VERSION,
            }
            write_results(layout, arrays, head, generation)
