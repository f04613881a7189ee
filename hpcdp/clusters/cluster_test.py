"""A cluster tried out by a profile: one small task on every process of some nodes, and what is wrong with these in words."""

from __future__ import annotations

import os
import platform
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from hpcdp.clusters import Where, connect
from hpcdp.clusters.executors import Call, TaskExecutor
from hpcdp.clusters.profile import Profile
from hpcdp.clusters.slurm import job_folder
from hpcdp.errors import HpcdpError, PlaceError
from hpcdp.store.layout import Layout

_LOOK = 0.5  # seconds between looks at the workers
_TASK = 0.5  # seconds of a task, so that every process gets one
_ANSWER = 60.0  # seconds in which all tasks must end


@dataclass(frozen=True)
class NodeReport:
    """What one task saw. cores: that its process may use. sees: whether the file of the driver is there."""

    host: str
    process: int
    cores: int
    versions: tuple[str, str]
    sees: bool


def report_node(path: str, seconds: float) -> NodeReport:
    """What a task sees where it runs."""
    time.sleep(seconds)
    return NodeReport(
        socket.gethostname(), os.getpid(), len(os.sched_getaffinity(0)), _versions(), os.path.exists(path)
    )


def _versions() -> tuple[str, str]:
    return metadata.version("hpcdp"), platform.python_version()


def try_cluster(profile: Profile, nodes: int, patience: float, note: Callable[[str], None]) -> list[str]:
    """Try jobs of workers, a task on each process, from a temporary folder here; a line a node, noted, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="hpcdp-cluster-test-", dir=Path.cwd()) as name:
        folder = job_folder(Layout(Path(name)), "cluster-test")
        seen = Path(name, "seen")
        seen.touch()
        try:
            with connect(Where(profile=profile), None, folder, 1, note) as executor:
                slots = nodes * profile.worker.slots
                executor.want(slots, float(slots * profile.worker.useful))
                _wait_for_workers(executor, slots, patience, note)
                executor.prepare(Path(name))
                calls = [Call("look", report_node, (os.fspath(seen), _TASK))] * slots
                done, late = wait(executor.begin(calls), _ANSWER)
                reports = [future.result() for future in done]
        except HpcdpError as error:
            return [*_ends_of_logs(folder.logs), str(error)]
    wrong = [f"{len(late)} of {slots} tasks did not end within {_ANSWER:g} s"] if late else []
    for host in sorted({report.host for report in reports}):
        there = [report for report in reports if report.host == host]
        processes = len({report.process for report in there})
        note(
            f"{host}: {len(there)} tasks in {processes} processes, {there[0].cores} cores, Python {there[0].versions[1]}"
        )
        wrong += _wrong_on(host, there, processes)
    return wrong


def _wait_for_workers(executor: TaskExecutor, slots: int, patience: float, note: Callable[[str], None]) -> None:
    fleet, end, told = executor.fleet, time.monotonic() + patience, ""
    assert fleet is not None
    fleet.tries = 1
    while (there := executor.threads()) < slots:
        waiting = f"{there} of {slots} processes are there: {fleet.waiting_for()}"
        if trouble := fleet.trouble():
            raise PlaceError(trouble)
        if time.monotonic() > end:
            raise PlaceError(f"{waiting}, after {patience:g} s")
        if waiting != told:
            note(waiting)
            told = waiting
        time.sleep(_LOOK)


def _wrong_on(host: str, there: Sequence[NodeReport], processes: int) -> list[str]:
    """What is wrong with one node."""
    wrong, first = [], there[0]
    if first.versions != _versions():
        ours, theirs = (f"hpcdp {versions[0]} on Python {versions[1]}" for versions in (_versions(), first.versions))
        wrong.append(f"{host} has {theirs}, and this machine {ours}: set cluster.python or cluster.prologue")
    if not first.sees:
        wrong.append(f"{host} does not see the files of this folder: start runs in a folder that all nodes share")
    if first.cores < processes:
        wrong.append(
            f"{host} has {first.cores} cores for {processes} processes: ask for more of worker.cores, or fewer worker.processes"
        )
    return wrong


def _ends_of_logs(logs: Path) -> list[str]:
    """The last line of each job's log, which says why its workers did not come."""
    texts = {path.name: path.read_text(errors="replace").split("\n") for path in sorted(logs.glob("*"))}
    said = {name: [line for line in lines if line.strip()] for name, lines in texts.items()}
    return [f"{name}: {lines[-1]}" for name, lines in said.items() if lines]
