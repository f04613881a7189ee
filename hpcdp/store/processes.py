"""Whether a process of this host is the one that it was: its number is used again, and the wall clock may be set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_CLOCK_STEP = 2.0  # seconds that a start may move by rounding, where only the wall clock tells it


def identify() -> dict[str, Any]:
    """What tells this process from all others of its host.

    boot, ticks: the boot's id and the start in clock ticks since then, None where the system does not tell (other than
    Linux). started: by the wall clock.
    """
    process = psutil.Process()
    return {"process": process.pid, "started": process.create_time(), "boot": _boot(), "ticks": _ticks(process.pid)}


def is_alive(owner: Mapping[str, Any]) -> bool:
    """Whether the process that identified itself so still runs.

    By boot and ticks, which no clock moves; records of older versions, and of systems without them, have the wall clock's
    start only.
    """
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
