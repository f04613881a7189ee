"""Tables that a method makes once of a result, and their renderers: text, CSV, JSON, and the cells of pages."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcdp._base.plugins import load_plugin, plugins
from hpcdp._base.rounding import at_least
from hpcdp._base.terminal import columns
from hpcdp.results.result import Result, finite, to_json

RENDERERS = "hpcdp.renderers"
"""The entry points of forms of `show --format`: functions of the object that "json" prints, which return a text."""

Entry = Mapping[str, Any]
NOTHING = "–"
"""What a page has for what is not known, or not there."""


@dataclass(frozen=True)
class Mark:
    """What a number is. word: what stands above a column. key: of its style. means: what that says, for a page's legend."""

    word: str
    key: str
    means: str


FINITE = Mark("finite-sample", "finite", "holds for this number of samples, at the stated confidence")
LIMITED = Mark(
    "finite-sample, of the sets", "limited", "holds at the stated confidence of the learned sets: no limit of δ"
)
LEFTOVER = Mark("finite-sample, no bound", "leftover", "holds up to the leftover only: by itself it bounds nothing")
ASSUMED = Mark("finite-sample, if assumed", "assumed", "holds at the stated confidence if what is assumed is true")
ASYMPTOTIC = Mark(
    "asymptotic", "asymptotic", "an estimate, or right as samples become many; rests on the classifier too"
)
HEURISTIC = Mark("heuristic", "heuristic", "a rule of thumb that nothing proves")
REFUTED = Mark("published, refuted", "refuted", "as a paper has it; promise nothing by it")
GIVEN = Mark("given", "given", "of the study or the claim, or a name")
CHOSEN = Mark("chosen by the samples", "chosen", "which one it is was found by these samples; others may find another")
COUNT = Mark("exact count", "count", "counted, not estimated")

MARKS = (FINITE, LIMITED, LEFTOVER, ASSUMED, ASYMPTOTIC, HEURISTIC, REFUTED, GIVEN, CHOSEN, COUNT)
"""All of them, in the order of a legend."""


@dataclass(frozen=True)
class Cell:
    """text: as it is read, a bound rounded to its safe side. value: the number in full, as JSON has it; None of words."""

    text: str
    value: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of entries as JSON has them.

    key: where the value is, with dots into nested tables. form: how the value reads, a bound rounded to its safe side. shown:
    whether an entry's value is told at all. said: how a text has it, where it says more. nothing: what a text has for None.
    only: "text" or "page", if the other has no such column. name: the heading in texts, where it is another.
    """

    key: str
    heading: str
    mark: Mark = GIVEN
    form: Callable[[Any], str] = str
    shown: Callable[[Entry], bool] = lambda _: True
    said: Callable[[Entry], str] | None = None
    nothing: str = "-"
    only: str | None = None
    name: str | None = None

    def read(self, entry: Entry, nothing: str) -> str:
        """An entry's value as it is read, or what stands for nothing."""
        value = look_up(entry, self.key)
        return nothing if value is None or not self.shown(entry) else self.form(value)

    def cell(self, entry: Entry) -> Cell:
        """Of one entry, for a page."""
        return Cell(self.read(entry, NOTHING), exact_text(look_up(entry, self.key)))

    def text(self, entry: Entry) -> str:
        """Of one entry, for a text."""
        return self.read(entry, self.nothing) if self.said is None else self.said(entry)


@dataclass(frozen=True)
class Table:
    """Entries under columns, with a caption. most: how many a page lists; where: what lists the others. left: how many more
    there are, besides these entries.
    """

    caption: str
    columns: Sequence[Column]
    entries: Sequence[Entry]
    most: int | None = None
    where: str = ""
    left: int = 0

    @property
    def page_columns(self) -> list[Column]:
        """Those of a page."""
        return [column for column in self.columns if column.only != "text"]

    @property
    def rows(self) -> list[list[Cell]]:
        """Those that a page lists."""
        return [[column.cell(entry) for column in self.page_columns] for entry in self.entries[: self.most]]

    @property
    def left_out(self) -> int:
        """How many rows a page does not list."""
        return self.left + len(self.entries) - len(self.entries[: self.most])

    def lines(self, most: int | None = None) -> list[str]:
        """The first entries as aligned lines of a text, a rule below the headings."""
        told = [column for column in self.columns if column.only != "page"]
        rows = [[column.name or column.heading for column in told]]
        return grid(rows + [[column.text(entry) for column in told] for entry in self.entries[:most]])

    def lines_and_rest(self, most: int, what: str, where: str = "all: --format csv") -> list[str]:
        """The same, and how many more there are."""
        rest = len(self.entries) - most
        return [*self.lines(most), *(["", f"… and {rest:,} more {what}; {where}"] if rest > 0 else [])]


@dataclass(frozen=True)
class View:
    """What `show` prints of one thing that is asked for, in each of its forms; None of a form that it has not."""

    body: Callable[[], Any]
    text: Callable[[], str]
    csv: Callable[[], str] | None = None

    def render(self, form: str) -> str:
        """As "table", "json", "csv", or a form that a package offers; JSON in full precision, without infinities."""
        if form in plugins(RENDERERS):
            text: str = load_plugin(RENDERERS, form)(finite(self.body()))
            return text
        if form == "csv" and self.csv is not None:
            return self.csv()
        return to_json(self.body()) + "\n" if form == "json" else self.text() + "\n"


@dataclass(frozen=True)
class Notion:
    """What is read off a result and shown by `hpcdp show --notion NAME`, where a package offers it (docs/extending.md).

    title: above its table. columns: see `Column`; their marks say what each number is. entries: the rows of a result, JSON values
    by the columns' keys. notes: what each number rests on, a sentence each.
    """

    title: str
    columns: Sequence[Column]
    entries: Callable[[Result], Sequence[Entry]]
    notes: Callable[[Result], Sequence[str]]

    def view(self, name: str, result: Result) -> View:
        """What `show` prints of it; name: of the notion."""
        entries = self.entries(result)
        head = {"name": result.name, "complete": result.complete, "confidence": result.confidence}
        return View(
            lambda: {**head, name: entries, "warnings": result.warnings},
            lambda: text_of(
                f"{result.name}: {self.title}",
                Table("", self.columns, entries).lines(),
                wrapped([*self.notes(result), *result.warnings]),
            ),
            lambda: to_csv([column.key for column in self.columns], entries),
        )


def to_csv(fields: Sequence[str], entries: Iterable[Entry]) -> str:
    """A line an entry, below a line of fields; what is not known is empty, what is true or false reads as in JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(fields)
    for entry in entries:
        values = [entry.get(field) for field in fields]
        writer.writerow([to_json(v) if isinstance(v, (list, bool)) else v for v in values])
    return buffer.getvalue()


def grid(rows: list[list[str]]) -> list[str]:
    """Rows of cells as aligned lines, a rule below the first."""
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(" " * (width - columns(cell)) + cell for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def text_of(*blocks: str | Sequence[str]) -> str:
    """Lines, or blocks of lines, with an empty line between them; what is empty is left out."""
    return "\n\n".join(block if isinstance(block, str) else "\n".join(block) for block in blocks if block)


def wrapped(paragraphs: Iterable[str], width: int = 120) -> list[str]:
    """Paragraphs as lines of a text, indented from the second on; an empty one as an empty line."""
    return [
        line
        for words in paragraphs
        for line in textwrap.wrap(words, width, subsequent_indent="  ", break_on_hyphens=False) or [""]
    ]


def look_up(entry: Entry, key: str) -> Any:
    """A value by its dotted key; None where it, or a table on the way, is not there."""
    found: Any = entry
    for name in key.split("."):
        found = None if found is None else found.get(name)
    return found


def exact_text(value: Any) -> str | None:
    """A number in full; None of what is none, and of what is not finite, which JSON has as null."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return repr(value)


def formed(spec: str, bound: Callable[..., str] = format) -> Callable[[Any], str]:
    """How a number reads by a format; bound: `at_least` or `at_most`, which round to the safe side."""
    return lambda value: bound(value, spec)


def told(words: str) -> Callable[[Any], str]:
    """How a truth reads on a page, and what is not true as "no"."""
    return lambda value: words if value else "no"


def lower_column(key: str = "lower", heading: str = "certified ≥", form: Any = at_least, **more: Any) -> Column:
    """A certified lower bound."""
    return Column(key, heading, FINITE, form, **more)


general, thousands = formed("g"), formed(",")
"""A number as short as it can be; a count."""
