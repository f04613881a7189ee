"""A lease on a store: one run at a time, from whatever node, and a dead run's lease can be taken over.

Each run takes the next generation by creating its file, which only one can do; it then rewrites the file every few
seconds, with news of how far it is. A run on the same host that is gone is taken over at once; one elsewhere when its
file has not changed for STALE seconds by the file system's own clock. Whether the run that is taken over is dead or only
sleeps does not matter: its gate is closed first (see `hpcdp.store.fence`). A random name of the run tells its
file from one of a store that was made anew in the place of a deleted one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import platform
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from hpcdp._base.files import make_folders, parse_json, read_bytes, refuse_link
from hpcdp.errors import LeaseError, StoreError
from hpcdp.store.fence import close_gate, create_exclusively, holds, is_closed, leave_gate, open_gate
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import begin_journal

BEAT = 10.0
"""Seconds between heartbeats."""
STALE = 60.0
"""Seconds without a heartbeat after which a lease of another host may be taken over."""


@dataclass
class Lease:
    """A lease that is held: its generation goes into every commit. news: what goes into the file with each beat."""

    layout: Layout
    generation: Generation
    owner: dict[str, Any]
    news: Callable[[], dict[str, Any]] = dict
    lost: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _beats: int = 0

    @property
    def path(self) -> Path:
        """The file of this generation."""
        return self.layout.lease_file(self.generation)

    def start(self) -> None:
        """Beat in the background until released."""
        self._thread = threading.Thread(target=self._beat, name="hpcdp-lease", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            with contextlib.suppress(OSError, MemoryError):  # whatever is short now, the next beat may have it
                if is_closed(self.layout, self.generation) or self.layout.lease_file(self.generation + 1).exists():
                    self.lost.set()
                    return
                self.beat()

    def beat(self) -> None:
        """Write the file anew, with the latest news; where it is another run's, or gone, the lease is lost."""
        if not holds(self.layout, self.generation):
            self.lost.set()
            return
        with self._lock, contextlib.suppress(OSError):  # a full disk must not end the run; it only risks takeover
            self._beats += 1
            self._write({"beats": self._beats})

    def _write(self, news: dict[str, Any]) -> None:
        """Through the gate: a file of that name may be another run's by now."""
        new = self.layout.passage(self.generation) / f"beat.{threading.get_ident()}"
        try:
            new.write_text(json.dumps({**self.owner, **news, "news": self.news()}))
            os.replace(new, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise

    def release(self) -> None:
        """Stop beating and mark the lease as released; nothing of this generation is committed any more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError):
            self._write({"released": True})
        with contextlib.suppress(OSError):  # who comes next closes it
            leave_gate(self.layout, self.generation)


def host_name() -> str:
    """What this machine is called: by SLURM, inside a job, else by itself."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def acquire(layout: Layout, note: Callable[[str], None] | None = None, ended: Container[str] = ()) -> Lease:
    """Take the next generation, or raise LeaseError; with `note`, others' leases are watched. ended: jobs that hold nothing."""
    make_folders(layout.root, layout.lease)  # no link: gates are emptied there before anything else is looked at
    last = latest_generation(layout)
    if last and str(_read(layout.lease_file(last)).get("job")) not in ended:
        _refuse_if_held(layout, last, note)
    run, job = uuid4().hex, os.environ.get("SLURM_JOB_ID")
    own = psutil.Process()  # boot and ticks, None where the system does not tell, and started tell it from all others
    process = {"process": own.pid, "started": own.create_time(), "boot": _boot(), "ticks": _ticks(own.pid)}
    owner = {"host": host_name(), **process, "job": job, "run": run, "beats": 0}
    taken = _numbers(layout, _LEASE) | _numbers(layout, _GATE)
    generation = Generation(max(taken, default=0) + 1, run)
    try:
        if latest_generation(layout) != last:  # one that was not looked at
            raise FileExistsError
        with open_gate(layout, generation):
            create_exclusively(layout.lease_file(generation), json.dumps(owner))
    except OSError as error:
        if isinstance(error, FileExistsError) or error.errno in (errno.ENOTEMPTY, errno.ENOTDIR):
            raise LeaseError(f"{layout.root} is being taken by another run at this moment; try again") from None
        raise
    # the current folder may change while it beats: a mechanism may share this process, a script has threads
    lease = Lease(replace(layout, root=layout.root.absolute()), generation, owner)
    lease.start()
    try:
        for earlier in sorted(taken):
            close_gate(layout, earlier)
        begin_journal(layout, generation)
    except BaseException:
        lease.release()
        raise
    return lease


_LEASE = re.compile(r"(\d{6,})\.json")
_GATE = re.compile(r"(\d{6,})")


def _numbers(layout: Layout, pattern: re.Pattern[str]) -> set[int]:
    """Generations that have a lease's file, or a gate; whatever else lies there is not hpcdp's."""
    try:
        matches = [pattern.fullmatch(name) for name in os.listdir(layout.lease)]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {int(match[1]) for match in matches if match}


def latest_generation(layout: Layout) -> int:
    """The highest generation that was ever taken, 0 when none."""
    return max(_numbers(layout, _LEASE), default=0)


def holder(layout: Layout) -> dict[str, Any] | None:
    """Who holds the store now (host, process, job, age of the heartbeat in seconds, news), or None."""
    last = latest_generation(layout)
    if not last:
        return None
    owner = _read(layout.lease_file(last))
    is_left = not layout.gate(last).is_dir()  # by a run of this process, perhaps, which could not say so on a full disk
    if owner.get("released") or (owner.get("host") == host_name() and (is_left or not is_alive(owner))):
        return None
    return {**owner, "generation": last, "age": _age(layout, layout.lease_file(last))}


def read_leases(layout: Layout) -> list[dict[str, Any]]:
    """All leases that were ever taken, the first generation first; damaged ones say unknown."""
    return [_read(layout.lease_file(generation)) for generation in sorted(_numbers(layout, _LEASE))]


def _refuse_if_held(layout: Layout, generation: int, note: Callable[[str], None] | None) -> None:
    owner = first = holder(layout)
    while owner is not None and not (owner["host"] != host_name() and owner["age"] > STALE):
        assert first is not None
        if note is None or owner["host"] == host_name() or owner.get("beats") != first.get("beats"):
            job = f", job {owner['job']}" if owner.get("job") else ""
            raise LeaseError(
                f"another run holds {layout.root}: process {owner.get('process')} on {owner.get('host')}{job}, generation "
                f"{generation}, last heartbeat {owner['age']:.0f} s ago; wait for it or end it (a lease of another host is taken "
                f"over {STALE:.0f} s after its last heartbeat)"
            )
        if owner is first:
            note(
                f"{layout.root} is held by process {owner['process']} on {owner['host']}, last heartbeat "
                f"{owner['age']:.0f} s ago; it is taken over {STALE:.0f} s after that unless there is another"
            )
        time.sleep(1.0)
        owner = holder(layout)


def _age(layout: Layout, path: Path) -> float:
    """Seconds since a file changed, by the file system's clock: hosts' clocks may differ; infinite of the future."""
    probe = layout.lease / f".probe.{uuid4().hex}"
    try:
        refuse_link(layout.lease)
        probe.touch(exist_ok=False)
        passed = probe.stat().st_mtime - path.stat().st_mtime
        probe.unlink(missing_ok=True)
    except (OSError, StoreError):  # a store that may only be read
        return max(0.0, time.time() - path.stat().st_mtime)
    return math.inf if passed < -STALE else max(0.0, passed)  # a live run writes it anew every few seconds


def _read(path: Path) -> dict[str, Any]:
    unknown = {"host": "unknown", "process": "unknown"}  # damaged: taken over when it is old, like another host's
    try:
        content = parse_json(read_bytes(path))
    except (ValueError, OSError):
        return unknown
    return {**unknown, **content} if isinstance(content, dict) else unknown


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_CLOCK_STEP = 2.0  # seconds that a start may move by rounding, where only the wall clock tells it


def is_alive(owner: Mapping[str, Any]) -> bool:
    """Whether the process that identified itself so still runs, by boot and ticks, which no clock moves, where it has them."""
    try:
        process = psutil.Process(int(owner["process"]))
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if owner.get("boot") and owner.get("ticks") and _boot():
            return (owner["boot"], owner["ticks"]) == (_boot(), _ticks(process.pid))
        return abs(process.create_time() - float(owner["started"])) <= _CLOCK_STEP
    except (psutil.NoSuchProcess, KeyError, TypeError, ValueError, OverflowError):
        return False
    except psutil.AccessDenied:
        return True


def _boot() -> str | None:
    try:
        return _BOOT.read_text().strip() or None
    except OSError:
        return None


def _ticks(process: int) -> int | None:
    """Field 22 of /proc/PID/stat; the second field, a name in brackets, may hold anything."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


_PACKAGES = ("hpcdp", "numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "distributed")


def provenance() -> dict[str, Any]:
    """Who computes: package versions, the commit when known, host, Python, and the time now."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return {
        "packages": versions,
        "commit": _commit(),
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """Of a clone; None of an installed package, around which there may be another repository."""
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), "rev-parse", "--show-prefix", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    prefix, _, commit = done.stdout.strip().partition("\n")
    return commit if done.returncode == 0 and prefix == "hpcdp/store/" else None
