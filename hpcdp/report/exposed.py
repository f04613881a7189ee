"""The most exposed pair by resolved cells, and those that cannot be told from it (**approximate**); rows by exposure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.asked import option
from hpcdp._base.rounding import at_most, percent, share, shorter
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.errors import StudyError
from hpcdp.notions.spectrum import told_pairs
from hpcdp.report.tables import (
    ASYMPTOTIC,
    CHOSEN_DIRECTION,
    CHOSEN_PAIR,
    HEURISTIC,
    Column,
    Entry,
    Reading,
    Table,
    lower_column,
    to_csv,
    words_if_true,
)
from hpcdp.results.result import Result
from hpcdp.results.verdict import careful_error
from hpcdp.store.root import latest_version, open_layout, resume_command
from hpcdp.study.stored import stored_databases

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOISE = 2.0
"""Pairs whose δ̂ differ by at most so many standard errors of the difference are within noise of each other."""

PAIRS, EVERY_CELL, EVERY_ROW = 50, "hpcdp show --format csv has every entry", "--format csv has all"
"""Pairs that a page lists at most, and what has the others."""

_NAMED = 6  # rows or pairs that a line lists
_SHOWN = 30  # rows that a table lists


@dataclass(frozen=True, eq=False)
class Exposure:
    """The most exposed pair: the one whose resolved δ̂ is the largest at the most ε (ties: the lowest pair).

    column: where it is compared with others, the middle one of the ε at which it leads. leads, of: at how many ε it leads,
    and how many have a resolved δ̂. delta, error: shape (pairs,), the largest resolved δ̂ of each pair at that ε and its
    standard error (asymptotic), NaN without one. direction: of these, shape (pairs,). order: the pairs with one, the
    largest first. close: the others whose δ̂ is within noise of the largest, in that order: by at most `NOISE` standard
    errors of the difference, √(se² + se²), pairs taken as independent (approximate, one pair at a time).
    """

    pair: int
    column: int
    leads: int
    of: int
    delta: Floats
    error: Floats
    direction: Ints
    order: Ints
    close: Ints


def find_exposure(result: Result) -> Exposure | None:
    """The most exposed pair of a result; None where the largest δ̂ is resolved at no ε."""
    if not result["delta"].size:
        return None
    delta = np.where(result.resolution.cells, result["delta"], -np.inf)
    if "test" in result.arrays:
        delta[~told_pairs(result["test"])] = -np.inf
    best = delta.max(axis=1)
    known = (best.max(axis=0) > -np.inf) & (best.max(axis=0) >= result["spectrum_lower"])
    led = known & result.resolution.rows  # where tables name the leading pair, so that this never contradicts them
    seen = np.flatnonzero(led)
    if not seen.size:
        return None
    seen = seen[np.argsort(result["epsilon"][seen])]
    leaders = best[:, seen].argmax(axis=0)
    pair = int(np.bincount(leaders).argmax())
    own = seen[leaders == pair]
    column = int(own[own.size // 2])
    direction = delta[:, :, column].argmax(axis=1)
    there = np.where(best[:, column] > -np.inf, best[:, column], np.nan)
    error = np.where(np.isnan(there), np.nan, careful_error(result, column)[np.arange(there.size), direction, 0])
    order = np.argsort(-there, kind="stable")[: int((~np.isnan(there)).sum())]
    order = np.concatenate([[pair], order[order != pair]])
    near = there[pair] - there <= NOISE * np.hypot(error[pair], error)  # of NaN false
    close = order[1:][near[order[1:]]]
    return Exposure(pair, column, int(own.size), int(seen.size), there, error, direction, order, close)


def exposed_lines(result: Result) -> list[str]:
    """The most exposed pair and who is within noise of it, in words; none of a single pair, or where nothing is resolved."""
    exposure = find_exposure(result) if len(result.pairs) > 1 else None
    if exposure is None:
        return []
    at = f"at ε = {result['epsilon'][exposure.column]:g}"
    counted = "; rows count from 0" if "rows" in result.pairs[exposure.pair] else ""
    lines = [
        f"most exposed: {result.describe_pair(exposure.pair)}, leads at {exposure.leads} of "
        f"{exposure.of} ε with a significant δ̂; "
        f"{at} δ̂ = {shorter(exposure.delta[exposure.pair])}{counted}"
    ]
    if exposure.close.size:
        lines.append(
            f"within noise {at} ({NOISE:g} standard errors of the difference, approximate): "
            f"{_listed(result, exposure.pair, exposure.close)}"
        )
    elif exposure.order.size > 1:
        second = int(exposure.order[1])
        lines.append(f"next {at}: {result.describe_pair(second)}, δ̂ = {shorter(exposure.delta[second])}")
    else:
        lines.append(f"no other pair has a δ̂ significantly above 0 {at}")
    return lines


def _listed(result: Result, leader: int, pairs: Ints) -> str:
    """The rows of some pairs, or the pairs where rows do not name them."""
    entries = [result.pairs[int(pair)] for pair in pairs]
    everywhere = [*entries, result.pairs[leader]]
    own = set(result.pairs[leader].get("rows", ()))
    rows = [row for entry in entries for row in entry.get("rows", ()) if row not in own]
    one_database = len({entry.get("database") for entry in everywhere}) == 1
    named = one_database and all(own.isdisjoint(entry.get("rows", (-1,))) and "rows" in entry for entry in entries)
    items = list(dict.fromkeys(rows)) if named else [int(pair) for pair in pairs]
    word = "row" if named else "pair"
    shown = ", ".join(map(str, items[:_NAMED]))
    more = f" and {len(items) - _NAMED:,} more" if len(items) > _NAMED else ""
    return f"{word}{'s' if len(items) > 1 else ''} {shown}{more}"


def exposed_table(result: Result, exposure: Exposure) -> Table:
    """Pairs where the most exposed one leads, the largest δ̂ first; never what is in a row."""
    near = {exposure.pair, *exposure.close.tolist()}
    lower = np.nan_to_num(result["lower"][:, :, exposure.column].max(axis=1), nan=0.0)
    ordered = np.argsort(-lower, kind="stable")
    rest = ordered[~np.isin(ordered, exposure.order)].tolist()
    entries = [
        {
            "who": result.describe_pair(pair),
            "delta": None if np.isnan(exposure.delta[pair]) else float(exposure.delta[pair]),
            "error": None if np.isnan(exposure.delta[pair]) else float(exposure.error[pair]),
            "near": pair in near,
            "lower": float(lower[pair]),
        }
        for pair in [*exposure.order.tolist(), *rest][:PAIRS]
    ]
    columns = [
        Column("who", "pair"),
        Column("delta", "δ̂", ASYMPTOTIC, share),
        Column("error", "± error", ASYMPTOTIC, share),
        Column("near", "within noise", HEURISTIC, words_if_true("most exposed, or within noise of it")),
        lower_column(),
    ]
    caption = f"Most exposed pairs at ε = {result['epsilon'][exposure.column]:g}"
    return Table(caption, columns, entries, PAIRS, EVERY_CELL, len(result.pairs) - len(entries))


def rank_rows(result: Result) -> tuple[float, list[dict[str, Any]]]:
    """The ε at which the most exposed pair leads, and every removed or edited row there, as JSON has it, the most exposed first.

    Of a row, pair, direction, delta, standard_error, upper: of its pair and direction with the largest δ̂ that is significantly
    above 0; None without one, or where `lower` is above it. lower, lower_pair, lower_direction: its largest certified bound
    (finite-sample, of all pairs together). within_noise: whether δ̂ is that of the most exposed row or within noise of it.
    StudyError where the pairs are not neighbours by a row, or nothing has its counts.
    """
    if result.study.pairs.relative is None:
        kind = "given" if result.study.pairs.given is not None else "distributional"
        raise StudyError(f"--rows: accepted with pairs.relative; given: pairs.{kind}")
    known = ~np.isnan(result["delta"]).all(axis=(0, 1))
    if not known.any():
        raise StudyError(f"--rows: no counts are complete yet; go on with: {resume_command(result.store)}")
    exposure = find_exposure(result)
    column = exposure.column if exposure else int(np.flatnonzero(known)[result["epsilon"][known].argmin()])
    owned: dict[tuple[int, int], list[int]] = {}
    for entry in result.pairs:
        for row in entry["rows"]:
            owned.setdefault((entry["database"], row), []).append(entry["pair"])
    rows = [_row(result, exposure, column, place, pairs) for place, pairs in owned.items()]
    rows.sort(key=lambda r: (-1.0 if r["delta"] is None else -1.0 - r["delta"], -r["lower"], r["database"], r["row"]))
    return float(result["epsilon"][column]), rows


def _row(
    result: Result, exposure: Exposure | None, column: int, place: tuple[int, int], pairs: list[int]
) -> dict[str, Any]:
    bounds = np.nan_to_num(result["lower"][pairs, :, column], nan=0.0)
    first, side = np.unravel_index(int(bounds.argmax()), bounds.shape)
    lower, is_near = float(bounds[first, side]), False
    shown = [] if exposure is None else [p for p in pairs if not np.isnan(exposure.delta[p])]
    own: dict[str, Any] = dict.fromkeys(("pair", "direction", "delta", "standard_error", "upper"))
    if exposure is not None and shown:
        lead = max(shown, key=lambda p: (exposure.delta[p], -p))
        if exposure.delta[lead] >= lower:  # else another of its pairs certifies more
            direction = int(exposure.direction[lead])
            is_near = any(p == exposure.pair or p in exposure.close for p in shown)
            numbers = exposure.delta[lead], exposure.error[lead], result["upper"][lead, direction, column]
            own = dict(zip(own, (lead, DIRECTIONS[direction], *map(float, numbers)), strict=True))
    bound = {"lower": lower, "lower_pair": pairs[int(first)], "lower_direction": DIRECTIONS[int(side)]}
    return {"database": place[0], "row": place[1], **own, **bound, "within_noise": is_near}


def read_rows(result: Result, _: bool = True, contents: bool = False) -> Reading:
    """The removed or edited rows by how exposed they are. contents: what is in the rows too."""
    epsilon, entries = rank_rows(result)
    if contents:
        held = _contents(result)
        entries = [entry | {"contents": held[entry["database"]][entry["row"]].tolist()} for entry in entries]
    columns = [
        Column("delta", "δ̂", said=lambda e: "-" if e["delta"] is None else "~" * e["within_noise"] + share(e["delta"])),
        lower_column(),
        Column("upper", "approx ≤", ASYMPTOTIC, at_most),
        CHOSEN_PAIR,
        CHOSEN_DIRECTION,
        Column("contents", "contents", is_optional=True),
    ]
    notes = [
        f"~ within noise of the most exposed: by at most {NOISE:g} standard errors of the difference (approximate). - no δ̂ "
        "significantly above 0. certified ≥: for all pairs, directions and ε together with "
        f"confidence {percent(result.confidence)}; finite-sample."
    ]
    return Reading(
        f"{result.name}: rows by exposure at ε = {epsilon:g}",
        [rows_table("Rows by exposure", columns, entries)],
        notes,
        lambda: result.heading | result.changed_entry | {"epsilon": epsilon, "rows": entries},
        lambda: to_csv([*entries[0]], entries),
    )


def rows_table(caption: str, columns: Sequence[Column], entries: Sequence[Entry]) -> Table:
    """Removed or edited rows, with the database of each where there are several."""
    databases = [Column("database", "database")] if len({entry["database"] for entry in entries}) > 1 else []
    return Table(
        caption, [*databases, Column("row", "row (from 0)"), *columns], entries, PAIRS, EVERY_ROW, listed=_SHOWN
    )


def _contents(result: Result) -> list[NDArray[Any]]:
    """The databases of a result, from its store; StudyError where it holds codes of DataFrames alone."""
    if result.study.framed:
        raise StudyError(
            f"{option('show_rows', True)}: accepted for arrays; given: a DataFrame, whose texts are not stored; leave it out"
        )
    layout = open_layout(result.layout.root)
    return stored_databases(layout, latest_version(layout))


def contents_table(result: Result) -> Table:
    """What is in the rows of the most exposed pair and of those within noise of it, an entry a pair; for who asks for it."""
    if result.study.pairs.relative is None:
        raise StudyError(
            f"{option('show_rows', True)}: accepted with pairs.relative; the pairs of this study have no rows of a database"
        )
    exposure = find_exposure(result)
    pairs = [] if exposure is None else [exposure.pair, *exposure.close[: _SHOWN - 1].tolist()]
    held, entries = _contents(result) if pairs else [], []
    for entry in (result.pairs[pair] for pair in dict.fromkeys(pairs)):
        rows = entry["rows"]
        named = ", ".join(map(str, rows[:4])) + (", …" if len(rows) > 4 else "")
        entries.append({**entry, "rows": named, "row": held[entry["database"]][rows[0]].tolist()})
    columns = [
        Column("pair", "pair"),
        Column("database", "database"),
        Column("rows", "rows"),
        Column("row", "contents"),
        Column("value", "set to", is_optional=True),
    ]
    return Table("Contents of the most exposed rows", columns, entries)
