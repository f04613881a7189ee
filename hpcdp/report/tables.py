"""Tables that a method makes once of a result, and their renderers: text, CSV, JSON, and the cells of pages."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcdp._base.plugins import load_plugin, plugins
from hpcdp._base.rounding import at_least
from hpcdp._base.terminal import columns, text_width
from hpcdp.errors import StudyError
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
    "finite-sample, of the sets",
    "limited",
    "holds at the stated confidence for the learned sets; δ itself may be larger",
)
LEFTOVER = Mark("finite-sample, no bound", "leftover", "holds up to the leftover only: by itself it bounds nothing")
ASSUMED = Mark("finite-sample, if assumed", "assumed", "holds at the stated confidence if what is assumed is true")
ASYMPTOTIC = Mark(
    "asymptotic", "asymptotic", "an estimate, or right as samples become many; rests on the classifier too"
)
HEURISTIC = Mark("heuristic", "heuristic", "a rule of thumb that nothing proves")
REFUTED = Mark("published, refuted", "refuted", "as a paper has it; promise nothing by it")
GIVEN = Mark("given", "given", "of the study or the claim, or a name")
CHOSEN = Mark("chosen by the samples", "chosen", "these samples chose which one it is; new samples may choose another")
COUNT = Mark("exact count", "count", "counted, not estimated")

MARKS = (FINITE, LIMITED, LEFTOVER, ASSUMED, ASYMPTOTIC, HEURISTIC, REFUTED, GIVEN, CHOSEN, COUNT)
"""All of them, in the order of a legend."""


@dataclass(frozen=True)
class Cell:
    """text: as it is read, a bound rounded to its safe side. value: a finite number in full, as JSON has it."""

    text: str
    value: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of entries as JSON has them.

    key: where the value is, with dots into nested tables. form: how the value reads, a bound rounded to its safe side. shown:
    whether an entry's value is told at all. said: how a text has it, where it says more. nothing: what a text has for None.
    only: "text" or "page", if the other has no such column. name: the heading in texts, where it is another. is_optional:
    whether the column is left out where no entry has a value.
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
    is_optional: bool = False

    def read(self, entry: Entry, nothing: str) -> str:
        """An entry's value as it is read, or what stands for nothing."""
        value = look_up(entry, self.key)
        return nothing if value is None or not self.shown(entry) else self.form(value)

    def cell(self, entry: Entry) -> Cell:
        """Of one entry, for a page."""
        value = look_up(entry, self.key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        return Cell(self.read(entry, NOTHING), repr(value) if is_number else None)

    def text(self, entry: Entry) -> str:
        """Of one entry, for a text."""
        return self.read(entry, self.nothing) if self.said is None else self.said(entry)


@dataclass(frozen=True)
class Table:
    """Entries under columns, with a caption. most, listed: how many a page and a text list; where: what lists the others.
    left: how many more there are, besides these entries.
    """

    caption: str
    columns: Sequence[Column]
    entries: Sequence[Entry]
    most: int | None = None
    where: str = ""
    left: int = 0
    listed: int | None = None

    def columns_of(self, place: str) -> list[Column]:
        """Those of a "text" or a "page"."""
        present = [column for column in self.columns if column.only in (None, place)]
        return [c for c in present if not c.is_optional or any(look_up(e, c.key) is not None for e in self.entries)]

    @property
    def rows(self) -> list[list[Cell]]:
        """Those that a page lists."""
        return [[column.cell(entry) for column in self.columns_of("page")] for entry in self.entries[: self.most]]

    @property
    def left_out(self) -> int:
        """How many rows a page does not list."""
        return self.left + len(self.entries) - len(self.entries[: self.most])

    def lines(self) -> list[str]:
        """The entries that a text lists as aligned lines, a rule below the headings, and how many others there are."""
        told, shown = self.columns_of("text"), self.entries[: self.listed]
        rows = [[column.name or column.heading for column in told]]
        rest = len(self.entries) - len(shown)
        return [
            *grid(rows + [[column.text(entry) for column in told] for entry in shown]),
            *(["", f"… and {rest:,} more; {self.where}"] if rest else []),
        ]


@dataclass(frozen=True)
class Reading:
    """What is read off one result, in each of its forms.

    title: above a text. tables: of a text, which has their captions from the second on, and of a page. lines: what a text has
    below its first table. notes: what each number rests on, paragraphs. body: what JSON has. csv: what CSV has, if it has a form.
    """

    title: str
    tables: Sequence[Table]
    notes: Sequence[str]
    body: Callable[[], Any]
    csv: Callable[[], str] | None = None
    lines: Sequence[str] = ()

    def blocks(self) -> Iterator[str | list[str]]:
        """Of a text, but for the notes."""
        yield self.title
        for number, table in enumerate(self.tables):
            yield [table.caption, *table.lines()] if number else table.lines()
            yield "" if number else [*self.lines]
        yield "" if self.tables else [*self.lines]


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

    def read(self, name: str, result: Result) -> Reading:
        """What it says of a result; name: of the notion."""
        entries = self.entries(result)
        return Reading(
            f"{result.name}: {self.title}",
            [Table(self.title, self.columns, entries)],
            self.notes(result),
            lambda: {**result.heading, name: entries, "warnings": result.warnings},
            lambda: to_csv([column.key for column in self.columns], entries),
        )


def write(
    readings: Sequence[Reading],
    form: str,
    ending: Sequence[str] = (),
    body: Callable[[], Any] | None = None,
    csv: Callable[[], str] | None = None,
) -> str:
    """Readings as "table", "json", "csv", or a form that a package offers; JSON in full precision, without infinities.

    ending: paragraphs after the texts of all. body, csv: what JSON and CSV have of several readings; by default of the last one.
    """
    body, csv = body or readings[-1].body, csv or readings[-1].csv
    if form in plugins(RENDERERS):
        text: str = load_plugin(RENDERERS, form)(finite(body()))
        return text
    if form == "json":
        return to_json(body()) + "\n"
    if form == "csv":
        if csv is None:
            raise StudyError("--format: csv was given; accepted of what is asked for: table, json")
        return csv()
    blocks = [block for reading in readings[:-1] for block in (*reading.blocks(), wrapped(reading.notes))]
    words = wrapped(dict.fromkeys([*readings[-1].notes, *ending]))
    return text_of(*blocks, *readings[-1].blocks(), words) + "\n"


def to_csv(fields: Sequence[str], entries: Iterable[Entry]) -> str:
    """A line an entry, below a line of fields, dotted keys; what is not known is empty, truths read as in JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([field.replace(".", "_") for field in fields])
    for entry in entries:
        values = [entry[field] if field in entry else look_up(entry, field) for field in fields]
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


def told(*paragraphs: str | bool | None) -> list[str]:
    """Those of some paragraphs that are said: of a condition and a text, the text where it holds."""
    return [words for words in paragraphs if words and isinstance(words, str)]


def wrapped(paragraphs: Iterable[str], width: int | None = None) -> list[str]:
    """Paragraphs as lines of a text, indented from the second on; an empty one as an empty line."""
    wrap = textwrap.TextWrapper(width or text_width(), subsequent_indent="  ", break_on_hyphens=False)
    return [line for words in paragraphs for line in wrap.wrap(words) or [""]]


def look_up(entry: Entry, key: str) -> Any:
    """A value by its dotted key; None where it, or a table on the way, is not there."""
    value: Any = entry
    for name in key.split("."):
        value = None if value is None else value.get(name)
    return value


def formed(spec: str, bound: Callable[..., str] = format) -> Callable[[Any], str]:
    """How a number reads by a format; bound: `at_least` or `at_most`, which round to the safe side."""
    return lambda value: bound(value, spec)


def words_if_true(words: str) -> Callable[[Any], str]:
    """How a truth reads on a page, and what is not true as "no"."""
    return lambda value: words if value else "no"


def lower_column(key: str = "lower", heading: str = "certified ≥", form: Any = at_least, **more: Any) -> Column:
    """A certified lower bound."""
    return Column(key, heading, FINITE, form, **more)


general, thousands = formed("g"), formed(",")
"""A number as short as it can be; a count."""

CHOSEN_PAIR, CHOSEN_DIRECTION = Column("pair", "pair", CHOSEN), Column("direction", "direction", CHOSEN)
"""Whose a number is, where samples chose that."""
