"""The logs of a store's jobs: the driver's and the workers', each with its last lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcdp._base.files import read_tail
from hpcdp.clusters.folder import JobFolder
from hpcdp.errors import StoreError, StudyError

_MOST_BYTES = 16 << 20  # of the end of a log


def log_files(folder: JobFolder, job: str | None = None) -> list[Path]:
    """Logs, drivers' first, each kind in the order of its jobs; StudyError when there is none, or none of this job."""
    found = sorted(folder.logs.glob("*.log"), key=lambda p: (not p.name.startswith("driver"), len(p.name), p.name))
    if job is not None:
        chosen = [path for path in found if job in path.stem.split("-")]
        if not chosen:
            names = ", ".join(path.stem for path in found) or "none"
            raise StudyError(f"--job: one of the logs in {folder.logs} ({names}); given: {job}")
        return chosen
    if not found:
        raise StudyError(f"no logs in {folder.logs}: no job of this store has begun")
    return found


def logs(folder: JobFolder, lines: int, job: str | None = None) -> Iterator[str]:
    """The last lines of each log, under the file's name; empty logs are left out unless asked for by job."""
    for path in log_files(folder, job):
        try:
            text = read_tail(path, _MOST_BYTES).decode(errors="replace").splitlines()
        except ValueError as error:
            raise StoreError(f"the log {path} cannot be read: {error}") from None
        if text or job is not None:
            yield f"==> {path} <=="
            yield from text[-lines:]
            yield ""
