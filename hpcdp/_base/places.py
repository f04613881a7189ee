"""On which line of a TOML file a key stands: where a header or a key begins a line, as in ordinary files."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from hpcdp._base.files import read_bytes

_BEGINS = re.compile(r"\s*(?P<table>\[\[?)?\s*(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*(?(table)\]|=)")
_NAMED = re.compile(r"[a-z_]+(?:\.\w+)*")
_KEY = re.compile(r"(?:study|mechanism|pairs|estimate|pure|at_risk)(?:\.\w+)+: ")


def located(message: str, path: Path) -> str:
    """A message on a study, and where in its file the key stands that it begins with, if it does and does not say so yet."""
    if _KEY.match(message) and f"({path}" not in message:
        with suppress(OSError, ValueError):
            return message + place_of(message, path, read_bytes(path).decode())
    return message


def place_of(message: str, path: Path, text: str) -> str:
    """ " (FILE, line N)" of the key that a message begins with, or of the innermost table around it. path: as it was given."""
    lines, place, found = _lines(text), "", _NAMED.match(message)
    for word in found[0].split(".") if found else ():
        if f"{place}.{word}" in lines:
            place = f"{place}.{word}"
        elif not word.isdigit():  # a number is no place where one table stands for a list of one
            break
    return f" ({path}, line {lines[place]})" if place else f" ({path})"


def _lines(text: str) -> dict[str, int]:
    """Of ".table.key" and its beginnings, and ".table.0" of arrays of tables; none where texts of several lines may hold such."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate([] if '"""' in text or "'''" in text else text.split("\n"), 1):
        if found := _BEGINS.match(line):
            place = f".{found['name']}" if found["table"] else f"{table}.{found['name']}"
            for dot in re.finditer(r"(?<=.)\.|$", place):
                lines.setdefault(place[: dot.start()], number)
            if found["table"]:
                many = sum(known.rpartition(".")[0] == place and known[-1].isdigit() for known in lines)
                table = f"{place}.{many}" if found["table"] == "[[" else place
                lines[table] = number
    return lines
