"""The one writer of a run: it puts what tasks found in place, data first, and commits the records in groups.

Chosen: the driver alone writes records, into a journal that only grows, because a group of a thousand costs one write and one
fsync, and a run that was superseded can change nothing. Weighed: each task its own record (62 calls of the file system a block).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hpcdp.engine.outcomes import NewFile, Report, stage_file
from hpcdp.store.fence import replace
from hpcdp.store.layout import Layout
from hpcdp.store.records import Entry, commit_all, record_names

_MOST, _EVERY = 1000, 0.5  # records in a group, and seconds between groups


class Writer:
    """Commits what tasks found. The layout is that of a run that holds the lease."""

    def __init__(self, layout: Layout) -> None:
        assert layout.generation is not None
        self._layout, self._generation = layout, layout.generation
        self._names: dict[str, set[str]] = {}
        self._waiting: list[Entry] = []
        self._last = time.monotonic()

    def take(self, report: Report) -> None:
        """Put files in place now, and commit records soon. Of two of one name the first one stays: a chunk is counted once."""
        for finding in report.found:
            if finding.record is not None:
                kind, name, _ = finding.record
                if kind not in self._names:
                    self._names[kind] = record_names(self._layout, kind)
                if name in (names := self._names[kind]):
                    for file in finding.files:
                        _drop(file)
                    continue
                names.add(name)
            for file in finding.files:
                self._place(file)
            if finding.record is not None:
                self._waiting.append(finding.record)
        if len(self._waiting) >= _MOST:
            self.flush()
        self.tick()

    def tick(self) -> None:
        """Commit what waits if it has waited for long."""
        if self._waiting and time.monotonic() - self._last >= _EVERY:
            self.flush()

    def flush(self) -> None:
        """Commit all that waits."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            commit_all(self._layout, waiting, self._generation)
        self._last = time.monotonic()

    def _place(self, file: NewFile) -> None:
        staged = file.staged
        if staged is None:
            staged = stage_file(self._layout)
            staged.write_bytes(file.content or b"")
        replace(self._layout, self._generation, staged, self._layout.root / file.target)


@contextmanager
def committing(writer: Writer) -> Iterator[None]:
    """At the end of the block, however it ends, all that was found is committed."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the first error is the one to be told
            writer.flush()
        raise
    writer.flush()


def _drop(file: NewFile) -> None:
    """Delete what a task wrote twice."""
    if file.staged is not None:
        shutil.rmtree(file.staged, ignore_errors=True)
        with suppress(OSError):
            file.staged.unlink()
