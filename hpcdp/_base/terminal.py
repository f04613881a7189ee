"""What is printed holds no character that a terminal would obey: names, claims and logs may come from a stranger.

One place for all that a command prints: standard output and error are wrapped while it runs. JSON stays what it is, as a
character within a string may be written as its number there too.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# All controls but tab and line feed, what turns or breaks lines unseen, and halves of characters, which no file can hold.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """The text with every character that a terminal would obey as its number, such as \\u001b."""
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def text_width() -> int:
    """Columns to wrap sentences at: those of the terminal, or COLUMNS, from 60 to 120; 120 where there is neither."""
    return min(max(shutil.get_terminal_size((120, 24)).columns, 60), 120)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: none for a combining character, two for a wide one."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(bool(unicodedata.combining(c)) for c in text)


class _Escaped:
    """A stream that writes plain text to another."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        written, encoding = plain(text), getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(written.encode(encoding, "replace").decode(encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Nothing: a command has one more word to say, whoever closes what it prints to."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Closed(io.TextIOBase):
    """In place of the stream that Python does not have where standard output was closed before it began."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "standard output is closed; nothing could be printed")


def open_closed_descriptors() -> None:
    """Point what is closed of descriptors 0 to 2 nowhere: else a file of a store would be opened there, and printed into."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)


def drawn(stream: Any) -> Any:
    """The stream for what moves the cursor on purpose, such as a bar."""
    return stream.stream if isinstance(stream, _Escaped) else stream


@contextmanager
def escaped() -> Iterator[None]:
    """Standard output and error, plain while this lasts."""
    before = sys.stdout, sys.stderr
    out = _Closed() if sys.stdout is None else sys.stdout
    error = io.StringIO() if sys.stderr is None else sys.stderr  # whoever closed it does not want to be told
    sys.stdout, sys.stderr = _Escaped(out), _Escaped(error)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
