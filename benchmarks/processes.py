"""What a process and all below it took: seconds of the processor, and memory. Mechanisms run in child processes, which end."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil


def processor_seconds() -> float:
    """Seconds of the processor so far: of this process, of those below it, and of those that ended and were waited for."""
    taken = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:  # it ended meanwhile
            continue
        taken += times.user + times.system + times.children_user + times.children_system
    return taken


def peak_megabytes() -> float:
    """Peak resident memory of the largest process, MB: this one, those below it, and those that ended and were waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    running = (psutil.Process(), *psutil.Process().children(recursive=True))
    return max(ended, *(_peak(process.pid) for process in running))


def _peak(pid: int) -> float:
    """VmHWM, as getrusage's of a process that runs starts at what its parent had."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it ended meanwhile, or there is no /proc
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0.0)
