"""Tables of pages: columns that say what they rest on, and cells that keep the full number beside the one that is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcdp._base.rounding import at_least
from hpcdp.report.html.marks import FINITE, Mark

Entry = Mapping[str, Any]
NOTHING = "–"
"""What is not known, or not there."""


@dataclass(frozen=True)
class Column:
    """A column of entries as JSON has them.

    key: where the value is, with dots into nested tables. form: how the value reads; None of it reads as `NOTHING`.
    shown: whether an entry's value is told at all.
    """

    key: str
    heading: str
    mark: Mark
    form: Callable[[Any], str] = str
    shown: Callable[[Entry], bool] = lambda _: True

    def cell(self, entry: Entry) -> Cell:
        """Of one entry."""
        value = look_up(entry, self.key)
        text = NOTHING if value is None or not self.shown(entry) else self.form(value)
        return Cell(text, exact_text(value))


@dataclass(frozen=True)
class Cell:
    """text: as it is read, a bound rounded to its safe side. value: the number in full, as JSON has it; None of words."""

    text: str
    value: str | None = None


@dataclass(frozen=True)
class Table:
    """A table with a caption. left_out: how many rows are not listed; where: what lists them."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    left_out: int = 0
    where: str = ""


def make_table(
    caption: str, columns: Sequence[Column], entries: Sequence[Entry], most: int | None = None, where: str = ""
) -> Table:
    """A table of entries, of which at most so many are listed."""
    listed = entries if most is None else entries[:most]
    rows = [[column.cell(entry) for column in columns] for entry in listed]
    return Table(caption, columns, rows, len(entries) - len(listed), where)


def look_up(entry: Entry, key: str) -> Any:
    """A value by its dotted key; None where a table on the way is."""
    found: Any = entry
    for name in key.split("."):
        found = None if found is None else found[name]
    return found


def exact_text(value: Any) -> str | None:
    """A number in full; None of what is none, and of what is not finite, which JSON has as null."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return repr(value)


def decimals(digits: int, bound: Callable[..., str] | None = None) -> Callable[[Any], str]:
    """How a number with so many decimals reads; bound: `at_least` or `at_most`, which round to the safe side."""
    spec = f".{digits}f"
    return lambda value: format(value, spec) if bound is None else bound(value, spec)


def general(value: Any) -> str:
    """A number as short as it can be."""
    return f"{value:g}"


def thousands(value: Any) -> str:
    """A count."""
    return f"{value:,}"


def lower_column(key: str = "lower", heading: str = "certified ≥", form: Callable[[Any], str] = at_least) -> Column:
    """A certified lower bound."""
    return Column(key, heading, FINITE, form)
