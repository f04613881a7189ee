"""Progress to stderr: a live bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from hpcdp._base.asked import wrong
from hpcdp._base.terminal import drawn, plain

_LINE_SECONDS, _SCRIPT_SECONDS = 10.0, 60.0  # from one line to the next: of a command, and of a call in a script
_NOTEBOOK_SECONDS = 0.1
_SHORT = 0.05  # seconds of a phase of which nothing is said
_ALIKE = 1.5  # times that are told as one


class Progress(Protocol):
    """Told what happens; draws it or not."""

    def note(self, text: str) -> None:
        """One line of news."""

    def begin(self, label: str, units: float) -> None:
        """A phase begins, with so much work."""

    def advance(self, units: float) -> None:
        """So much of the phase is done."""


class Silent:
    """Draws nothing."""

    def note(self, text: str) -> None: ...

    def begin(self, label: str, units: float) -> None: ...

    def advance(self, units: float) -> None: ...


class Lines:
    """A line now and then. seconds: from one to the next. says_end: whether a line ends each phase, short ones too."""

    def __init__(self, seconds: float = _LINE_SECONDS, says_end: bool = True) -> None:
        self._seconds, self._says_end = seconds, says_end
        self._label, self._total, self._done = "", 0.0, 0.0
        self._first = 0.0, 0.0
        self._start = self._last = time.monotonic()

    def note(self, text: str) -> None:
        """Print it."""
        print(text, file=sys.stderr, flush=True)

    def begin(self, label: str, units: float) -> None:
        """Remember the phase."""
        self._label, self._total, self._done = label, units, 0.0
        self._start = self._last = time.monotonic()

    def advance(self, units: float) -> None:
        """Print a line if the last one is old or the phase is done."""
        now = self._move(units)
        ends = self._done >= self._total * (1 - 1e-9)
        says_end = (self._says_end and now - self._start >= _SHORT) or self._last > self._start
        if now - self._last < self._seconds and not (ends and says_end):
            return
        self._last = now
        self.note(self._line(now))

    def _move(self, units: float) -> float:
        """What is done now, and when the first of it was; the time."""
        now = time.monotonic()
        if self._done == 0.0:
            self._first = now, units
        self._done += units
        return now

    def _line(self, now: float) -> str:
        share = self._done / self._total if self._total else 1.0
        line = f"{self._label}: {100 * share:.0f} %"
        if share > 1 - 1e-9:
            return f"{line}, done in {now - self._start:.1f} s"
        if self._done <= self._first[1]:
            return line
        # the first step may have waited for what is done once, such as compiling, or be one of many that end together
        left = self._total - self._done
        few, many = sorted(left * (now - at) / (self._done - done) for at, done in ((self._start, 0.0), self._first))
        return f"{line}, about {f'{few:.0f} to ' if many > _ALIKE * max(few, 1.0) else ''}{many:.0f} s left"


class Notebook(Lines):
    """A line below the cell of a notebook, in the place of the one before; a new one for every phase."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: Any = None

    def note(self, text: str) -> None:
        """Print it below the cell."""
        print(text, flush=True)

    def begin(self, label: str, units: float) -> None:
        """A line of its own."""
        super().begin(label, units)
        self._shown = None

    def advance(self, units: float) -> None:
        """Change the line, ten times a second at most."""
        now = self._move(units)
        is_done = self._done >= self._total * (1 - 1e-9)
        if self._shown is not None and now - self._last < _NOTEBOOK_SECONDS and not is_done:
            return
        from IPython.display import display  # there is one, else this is no notebook

        self._last, line = now, {"text/plain": plain(self._line(now))}
        if self._shown is None:
            self._shown = display(line, raw=True, display_id=True)
        else:
            self._shown.update(line, raw=True)


class Bar:
    """A live bar on a terminal. drawing: rich's, which draws it."""

    def __init__(self, drawing: Any) -> None:
        self._drawing = drawing
        self._tasks: dict[str, Any] = {}
        self._task: Any = None

    def note(self, text: str) -> None:
        """Print above the bar."""
        self._drawing.console.print(plain(text), markup=False, highlight=False)

    def begin(self, label: str, units: float) -> None:
        """A new bar; of a phase that begins again, the one that it has."""
        if label in self._tasks:
            self._drawing.reset(self._tasks[label], total=units)
        else:
            self._tasks[label] = self._drawing.add_task(label, total=units)
        self._task = self._tasks[label]

    def advance(self, units: float) -> None:
        """Move the bar."""
        self._drawing.advance(self._task, units)


@contextmanager
def on_stderr(seconds: float = _LINE_SECONDS, says_end: bool = True) -> Iterator[Progress]:
    """A bar if stderr is a terminal, else lines, as `Lines` has them; nothing where there is no stderr."""
    if sys.stderr is None or sys.stderr.closed:
        yield Silent()
        return
    if not sys.stderr.isatty():
        yield Lines(seconds, says_end)
        return
    from rich import progress as bars
    from rich.console import Console

    columns = bars.BarColumn(), bars.TaskProgressColumn(), bars.TimeElapsedColumn(), bars.TextColumn("left")
    description, left = bars.TextColumn("{task.description}"), bars.TimeRemainingColumn()
    with bars.Progress(description, *columns, left, console=Console(file=drawn(sys.stderr))) as drawing:
        yield Bar(drawing)


@contextmanager
def progress_shown(given: Progress | None) -> Iterator[Progress]:
    """What a call in Python shows: what is given, StudyError if it is none, a line in a notebook, a bar, or a line a minute."""
    if given is not None:
        if not all(callable(getattr(given, name, None)) for name in ("note", "begin", "advance")):
            raise wrong(
                "progress", given, "an object with the methods note(text), begin(label, units) and advance(units)"
            )
        yield given
        return
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        yield Notebook()
        return
    with on_stderr(_SCRIPT_SECONDS, says_end=False) as progress:
        yield progress
