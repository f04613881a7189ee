"""Where a store is, settled before other people's code runs: that may go to another folder, in a thread of its own at any time.

From then on its path is absolute; what is said names it as the user did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcdp._base.again import typed
from hpcdp.engine.progress import Progress
from hpcdp.errors import HpcdpError
from hpcdp.store.layout import Layout


@dataclass(frozen=True)
class Settled:
    """A store's absolute path, and the path that was given."""

    root: Path
    given: Path

    def words(self, text: str) -> str:
        """A text that names the store as it was given, in commands too."""
        for path, word in ((typed(self.root), typed(self.given)), (str(self.root), str(self.given))):
            text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", lambda _, word=word: word, text)  # type: ignore[misc]
        return text

    def telling(self, progress: Progress) -> Progress:
        """Progress whose news name it so."""
        return _Telling(self, progress)


@dataclass(frozen=True)
class _Telling:
    there: Settled
    progress: Progress

    def note(self, text: str) -> None:
        """One line of news."""
        self.progress.note(self.there.words(text))

    def begin(self, label: str, units: float) -> None:
        """A phase begins, with so much work."""
        self.progress.begin(label, units)

    def advance(self, units: float) -> None:
        """So much of the phase is done."""
        self.progress.advance(units)


@contextmanager
def settled(store: str | Path) -> Iterator[Settled]:
    """The store's place, from here on the same; errors of hpcdp from within name it as it was given."""
    there = Settled(Layout(Path(store)).root.absolute(), Path(store))
    try:
        yield there
    except HpcdpError as error:
        error.args = tuple(there.words(one) if isinstance(one, str) else one for one in error.args)
        raise
