"""What a pair's databases are called in messages and tables."""

from __future__ import annotations

from typing import Any

LEFT_OUT = "(left out)"
"""In the place of what is not handed on."""


def describe_pair(number: int, origin: dict[str, Any]) -> str:
    """A neighbour in words: whose rows were removed, edited or held; never what is in a row of a database."""
    if "values" in origin:
        return f"distribution {origin['distribution']} with row {origin['index']} held at its two values"
    if "rows" not in origin:
        return f"d_prime of pair {number}"
    rows = origin["rows"]
    which = f"row {rows[0]}" if len(rows) == 1 else f"one of the equal rows {', '.join(map(str, rows[:4]))}"
    if len(rows) > 4:
        which += ", …"
    if "value" in origin:
        return f"database {origin['database']} with {which} edited"
    return f"database {origin['database']} without {which}"


def describe_side(number: int, origin: dict[str, Any], is_neighbour: bool) -> str:
    """D or D′ of a pair in words, by numbers alone."""
    if "values" in origin:
        which = f"the {('first', 'second')[is_neighbour]} value of pair {number}"
        return f"distribution {origin['distribution']} with row {origin['index']} held at {which}"
    if "points" in origin:
        return f"midpoint {origin['points'][is_neighbour]} of pairs.domain"
    if is_neighbour:
        return describe_pair(number, origin)
    return f"database {origin['database']}" if "database" in origin else f"d of pair {number}"
