"""On which line of a TOML file a key stands: no reader of TOML tells that of a text that it accepts."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpcdp._base.files import read_bytes

Place = tuple[str | int, ...]

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_SCALAR = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|'''
    r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+",
    re.DOTALL,
)

_NAMED = re.compile(r"[a-z_]+(?:\.\w+)*")
_KEY = re.compile(r"(?:study|mechanism|pairs|estimate|pure|at_risk)(?:\.\w+)+: ")


def located(message: str, path: Path) -> str:
    """A message on a study, and where in its file the key stands that it begins with, if it does and does not say so yet."""
    if _KEY.match(message) and f"({path}" not in message:
        with suppress(OSError, ValueError):
            return message + Places(path, read_bytes(path).decode()).describe(message)
    return message


class Places:
    """The places of a file's keys. path: as it was given."""

    def __init__(self, path: Path, text: str) -> None:
        """text: TOML that was read without an error; else what is found is not meant."""
        self._path, self._text, self._at = path, text, 0
        self._ends: list[int] = []
        self._lines: dict[Place, int] = {}
        self._tables: dict[Place, int] = {}  # of arrays of tables: the number of the last one

    def describe(self, message: str) -> str:
        """ " (FILE, line N)" of the key that a message begins with, or of the innermost table that the key is missing from."""
        if not self._at:
            self._ends = [found.start() for found in re.finditer("\n", self._text)]
            with suppress(RecursionError):  # what was found until then will do
                self._read()
        named = _NAMED.match(message)
        place: Place = ()
        for word in named[0].split(".") if named else ():
            part = int(word) if word.isdigit() else word
            if (*place, part) in self._lines:
                place = (*place, part)
            elif isinstance(part, str):
                break  # a number is no place where one table stands for a list of one
        return f" ({self._path}, line {self._lines[place]})" if place else f" ({self._path})"

    def _read(self) -> None:
        table: Place = ()
        while self._skip():
            if self._text[self._at] != "[":
                self._pair(table)
                continue
            many = self._text.startswith("[[", self._at)
            start = self._at
            self._at += 1 + many
            table = self._inside(self._key())
            if many:
                self._tables[table] = self._tables.get(table, -1) + 1
                table = (*table, self._tables[table])
            for length in range(1, len(table) + 1):
                self._note(table[:length], start)
            self._at = self._text.index("]", self._at) + 1 + many

    def _inside(self, key: Place) -> Place:
        """A table's place: below arrays of tables it is in the last one."""
        found: Place = ()
        for number, part in enumerate(key):
            found = (*found, part)
            if number < len(key) - 1 and found in self._tables:
                found = (*found, self._tables[found])
        return found

    def _pair(self, table: Place) -> None:
        start = self._at
        key = self._key()
        for length in range(1, len(key) + 1):
            self._note((*table, *key[:length]), start)
        self._at = self._text.index("=", self._at) + 1
        self._value((*table, *key))

    def _key(self) -> Place:
        parts = []
        while True:
            self._skip()
            found = _PART.match(self._text, self._at)
            assert found is not None
            (part,) = tomllib.loads(f"{found[0]} = 0")
            parts.append(part)
            self._at = found.end()
            self._skip()
            if self._text[self._at] != ".":
                return tuple(parts)
            self._at += 1

    def _value(self, place: Place) -> None:
        self._skip()
        opened = self._text[self._at]
        if opened not in "[{":
            found = _SCALAR.match(self._text, self._at)
            assert found is not None
            self._at = found.end()
            return
        self._at += 1
        for number in self._items("]" if opened == "[" else "}"):
            if opened == "{":
                self._pair(place)
            else:
                self._note((*place, number), self._at)
                self._value((*place, number))

    def _items(self, closing: str) -> Iterator[int]:
        """Stands before each item of an array or an inline table, and in the end behind its bracket."""
        number = 0
        while self._skip() and self._text[self._at] != closing:
            if self._text[self._at] == ",":
                self._at += 1
                number += 1
                continue
            yield number
        self._at += 1

    def _note(self, place: Place, at: int) -> None:
        self._lines.setdefault(place, bisect_left(self._ends, at) + 1)

    def _skip(self) -> bool:
        """Past space and comments; whether there is more."""
        found: Any = _SPACE.match(self._text, self._at)
        self._at = found.end()
        return self._at < len(self._text)
