"""What a pair's databases are called in messages and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_pair(number: int, origin: dict[str, Any]) -> str:
    """A neighbour in words: whose rows were removed, edited or held; never what is in a row of a database."""
    if "values" in origin:
        return describe_held(origin, " against ".join(map(str, origin["values"])))
    if "rows" not in origin:
        return f"d_prime of pair {number}"
    rows = origin["rows"]
    which = f"row {rows[0]}" if len(rows) == 1 else f"one of the equal rows {', '.join(map(str, rows[:4]))}"
    if len(rows) > 4:
        which += ", …"
    if "value" in origin:
        return f"database {origin['database']} with {which} edited"
    return f"database {origin['database']} without {which}"


def describe_held(origin: Mapping[str, Any], value: Any) -> str:
    """A distribution's row held at a value, in words."""
    return f"distribution {origin['distribution']} with row {origin['index']} held at {value}"
