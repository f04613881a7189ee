"""Rows of the databases by how exposed they are, as a readable table, as JSON and as CSV; contents only where asked for."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.asked import option
from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.errors import StudyError
from hpcdp.report.exposed import NOISE, Exposure, find_exposure
from hpcdp.report.table import changed_lines, grid
from hpcdp.report.tape import basis_lines, raced_lines
from hpcdp.results.result import Result
from hpcdp.store.again import resume_command
from hpcdp.store.root import latest_version, open_layout
from hpcdp.study.stored import stored_databases

_SHOWN = 30  # rows that a table lists


@dataclass(frozen=True)
class Row:
    """A row that was removed or edited, and the figures of its most exposed pair at one ε.

    pair, direction, delta, standard_error, upper: of the pair and direction with the largest resolved δ̂; None where none is
    resolved, or `lower` is above it. lower, lower_pair, lower_direction: the largest certified bound of its pairs
    (finite-sample, all cells together).
    within_noise: whether δ̂ is that of the most exposed row or within noise of it (approximate).
    """

    database: int
    row: int
    pair: int | None
    direction: str | None
    delta: float | None
    standard_error: float | None
    upper: float | None
    lower: float
    lower_pair: int
    lower_direction: str
    within_noise: bool


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows at one ε, where the most exposed pair leads: the largest resolved δ̂ first, then the largest certified bound."""

    epsilon: float
    rows: list[Row]


def rank_rows(result: Result) -> Ranking:
    """Every row of the pairs, the most exposed first.

    Raises:
        StudyError: the pairs are not neighbours by a row, or no cell has its counts.
    """
    if result.study.pairs.relative is None:
        kind = "given" if result.study.pairs.given is not None else "distributional"
        raise StudyError(f"--rows: accepted with pairs.relative; given: pairs.{kind}")
    known = ~np.isnan(result["delta"]).all(axis=(0, 1))
    if not known.any():
        raise StudyError(f"--rows: no cell has all its counts yet; go on with: {resume_command(result.store)}")
    found = find_exposure(result)
    column = found.column if found else int(np.flatnonzero(known)[result["epsilon"][known].argmin()])
    owned: dict[tuple[int, int], list[int]] = {}
    for entry in result.pairs:
        for row in entry["rows"]:
            owned.setdefault((entry["database"], row), []).append(entry["pair"])
    rows = [_row(result, found, column, place, pairs) for place, pairs in owned.items()]
    rows.sort(key=lambda r: (-1.0 if r.delta is None else -1.0 - r.delta, -r.lower, r.database, r.row))
    return Ranking(float(result["epsilon"][column]), rows)


def _row(result: Result, found: Exposure | None, column: int, place: tuple[int, int], pairs: list[int]) -> Row:
    bounds = np.nan_to_num(result["lower"][pairs, :, column], nan=0.0)
    first, side = np.unravel_index(int(bounds.argmax()), bounds.shape)
    row = Row(
        database=place[0],
        row=place[1],
        pair=None,
        direction=None,
        delta=None,
        standard_error=None,
        upper=None,
        lower=float(bounds[first, side]),
        lower_pair=pairs[int(first)],
        lower_direction=DIRECTIONS[int(side)],
        within_noise=False,
    )
    shown = [p for p in pairs if found is not None and not np.isnan(found.delta[p])]
    if found is None or not shown:
        return row
    lead = max(shown, key=lambda p: (found.delta[p], -p))
    if found.delta[lead] < row.lower:  # another of its pairs certifies more
        return row
    direction = int(found.direction[lead])
    return replace(
        row,
        pair=lead,
        direction=DIRECTIONS[direction],
        delta=float(found.delta[lead]),
        standard_error=float(found.error[lead]),
        upper=float(result["upper"][lead, direction, column]),
        within_noise=any(p == found.pair or p in found.close for p in shown),
    )


def table(result: Result, ranking: Ranking, contents: bool = False) -> str:
    """The most exposed rows, and what the figures rest on. contents: what is in the rows too."""
    many = len({row.database for row in ranking.rows}) > 1
    head = [*(["database"] if many else []), "row", "δ̂", "certified ≥", "approx ≤", "pair", "direction"]
    lines = [[*head, *(["contents"] if contents else [])]]
    held = _contents(result) if contents else None
    for row in ranking.rows[:_SHOWN]:
        delta, upper = ("-" if v is None else form(v) for v, form in ((row.delta, share), (row.upper, at_most)))
        pair, direction = ("-" if v is None else str(v) for v in (row.pair, row.direction))
        mark = "~" if row.within_noise else ""
        cells = [str(row.row), mark + delta, at_least(row.lower), upper, pair, direction]
        shown = [str(held[row.database][row.row].tolist())] if held is not None else []
        lines.append([*([str(row.database)] if many else []), *cells, *shown])
    text = [f"{result.name}: rows by exposure at ε = {ranking.epsilon:g}", "", *grid(lines), ""]
    if len(ranking.rows) > _SHOWN:
        text += [f"… and {len(ranking.rows) - _SHOWN:,} more rows; all: --format csv", ""]
    return "\n".join(
        [
            *text,
            f"~ within noise of the most exposed: by at most {NOISE:g} standard errors of the difference (approximate). - not",
            f"  resolved. certified ≥: at all cells together with confidence {percent(result.confidence)}; finite-sample.",
            *basis_lines(result),
            *(raced_lines(result) if result.is_tape else []),
            *changed_lines(result),
        ]
    )


def to_json(result: Result, ranking: Ranking, contents: bool = False) -> str:
    """One object; `rows` has one entry for each row, the most exposed first."""
    head = {"name": result.name, "complete": result.complete, "confidence": result.confidence, **result.declared}
    head |= result.changed_entry
    return json.dumps(
        head | {"epsilon": ranking.epsilon, "rows": _entries(result, ranking, contents)},
        allow_nan=False,
        ensure_ascii=False,
    )


def csv_text(result: Result, ranking: Ranking, contents: bool = False) -> str:
    """One line for each row, the most exposed first; what is not known is empty."""
    fields = [*Row.__dataclass_fields__, *(["contents"] if contents else [])]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fields, lineterminator="\n")
    writer.writeheader()
    for entry in _entries(result, ranking, contents):
        writer.writerow({key: str(v).lower() if isinstance(v, bool) else v for key, v in entry.items()})
    return buffer.getvalue()


def _entries(result: Result, ranking: Ranking, contents: bool) -> list[dict[str, Any]]:
    held = _contents(result) if contents else None
    shown = [{} if held is None else {"contents": held[r.database][r.row].tolist()} for r in ranking.rows]
    return [asdict(row) | more for row, more in zip(ranking.rows, shown, strict=True)]


def contents_lines(result: Result) -> list[str]:
    """What is in the rows of the most exposed pair and of those within noise of it; for who asks for it."""
    lines = []
    for held in held_rows(result):
        edited = f", set to {held['value']}" if "value" in held else ""
        word = "row" if held["many"] == 1 else "rows"
        lines.append(
            f"  pair {held['pair']}, database {held['database']}, {word} {held['rows']}: {held['row']}{edited}"
        )
    return ["contents of rows:", *lines] if lines else []


def held_rows(result: Result) -> list[dict[str, Any]]:
    """The same, an entry a pair: `row` holds the contents."""
    if result.study.pairs.relative is None:
        raise StudyError(
            f"{option('show_rows', True)}: accepted with pairs.relative; the pairs of this study have no rows of a database"
        )
    found = find_exposure(result)
    if found is None:
        return []
    held, entries = _contents(result), []
    for pair in dict.fromkeys([found.pair, *found.close[: _SHOWN - 1].tolist()]):
        entry = result.pairs[pair]
        many = len(entry["rows"])
        own = {"value": entry["value"]} if "value" in entry else {}
        entries.append(
            {
                "pair": pair,
                "database": entry["database"],
                "rows": ", ".join(map(str, entry["rows"][:4])) + (", …" if many > 4 else ""),
                "many": many,
                "row": held[entry["database"]][entry["rows"][0]].tolist(),
                **own,
            }
        )
    return entries


def _contents(result: Result) -> list[NDArray[Any]]:
    """The databases of a result, from its store; StudyError where it holds codes of DataFrames alone."""
    if result.study.framed:
        raise StudyError(
            f"{option('show_rows', True)}: of arrays; a store holds codes of DataFrames, which do not tell what is in their rows"
        )
    layout = open_layout(result.layout.root)
    return stored_databases(layout, latest_version(layout))
