"""The spectrum of a result with its bounds, trade-off points, and entries as CSV; several spectra beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.engine.accuracy import state_lines
from hpcdp.report.exposed import exposed_lines, find_exposure
from hpcdp.report.sentences import (
    changed_words,
    estimate,
    limit_words,
    missing_words,
    origin_names,
    origin_of,
    over_words,
    state_words,
)
from hpcdp.report.tables import (
    ASYMPTOTIC,
    CHOSEN,
    FINITE,
    GIVEN,
    HEURISTIC,
    LEFTOVER,
    LIMITED,
    Column,
    Entry,
    Reading,
    Table,
    general,
    grid,
    lower_column,
    text_of,
    to_csv,
    words_if_true,
    wrapped,
)
from hpcdp.results.comparison import Comparison, largest_difference
from hpcdp.results.result import Result

POINTS = 200
"""Trade-off points that a table lists at most."""

_NAMED = 4  # rows whose bound is of another pair or direction


def read_spectrum(result: Result, claim: Any = None) -> Reading:
    """The largest δ at each ε with its bounds, beside a claim; in a text the most exposed pairs too. claim: None: the study's."""
    claim = result.claim if claim is None else claim
    entries: list[dict[str, Any]] = result.spectrum()
    if not entries:
        title, missing = f"{result.name}: δ(ε)  (INCOMPLETE)", missing_words("nothing is counted yet", result)
        return Reading(title, [], [], result.to_dict, lambda: csv_text(result), [missing])
    for entry in entries:
        entry["implied"] = "" if entry.get("certified", True) else "†"
        if result.method.further_bounds:
            entry["standard_error"] = _error(result, entry)
        if claim is not None:
            entry["claimed"] = float(claim.implied(entry["epsilon"]))
            entry["violated"] = entry["lower"] > entry["claimed"]
    many = len(result.pairs) > 1
    over = f"{len(result.pairs):,} pairs, both directions" if many else "both directions of one pair"
    table = Table(f"Spectrum: the largest δ(ε) over {over}", _columns(result, entries), entries)
    others, exposed = wrapped(_others_bounds(entries, many)), exposed_lines(result)
    return Reading(
        f"{result.name}: δ(ε), {over_words(result)}",
        [table],
        _notes(result),
        result.to_dict,
        lambda: csv_text(result),
        [*others, *([""] if others and exposed else []), *exposed],
    )


def _columns(result: Result, entries: Sequence[Entry]) -> list[Column]:
    marks = {"finite-sample": FINITE, "asymptotic": ASYMPTOTIC, "heuristic": HEURISTIC}
    kind, approximate = marks[result.method.limit_kind], marks[result.method.upper_kind]
    by_pair = [
        Column("pair", "pair of δ̂", CHOSEN, str, _is_resolved, name="pair"),
        Column("lower_pair", "pair of the bound", CHOSEN, str, _is_certified, only="page"),
    ]
    pair, lower_pair = ([column] if len(result.pairs) > 1 else [] for column in by_pair)
    is_told = [Column("resolved", "significantly above 0", kind, words_if_true("yes"), only="page")]
    return [
        Column("epsilon", "ε", GIVEN, general),
        Column("delta", "δ̂", ASYMPTOTIC, share, _is_resolved, lambda e: estimate(e["delta"], e["limit"])),
        Column("standard_error", "± error", ASYMPTOTIC, share, _is_resolved, is_optional=True),
        *([] if all(entry["resolved"] for entry in entries) else is_told),
        Column("limit", "learned sets ≤", LIMITED if kind is FINITE else kind, at_most, only="page", is_optional=True),
        further_column(said=_marked("lower_up_to_leftover")),
        lower_column(said=_marked("lower")),
        Column(
            "certified", "bound", GIVEN, lambda own: "its own" if own else "implied †", only="page", is_optional=True
        ),
        Column("upper", "approx ≤", approximate, at_most, _is_resolved),
        Column("claimed", "claimed", GIVEN, share, said=_claimed, is_optional=True),
        Column("violated", "claim violated", FINITE, words_if_true("violated"), only="page", is_optional=True),
        *pair,
        Column("direction", "direction of δ̂", CHOSEN, str, _is_resolved, name="direction"),
        *lower_pair,
        Column("lower_direction", "direction of the bound", CHOSEN, str, _is_certified, only="page"),
    ]


def further_column(form: Any = at_least, **more: Any) -> Column:
    """The bound up to the leftover, of results that have one."""
    return Column("lower_up_to_leftover", "up to the leftover ≥", LEFTOVER, form, is_optional=True, **more)


def _is_resolved(entry: Entry) -> bool:
    return bool(entry["resolved"])


def _is_certified(entry: Entry) -> bool:
    return entry["lower"] is not None and float(entry["lower"]) > 0.0


def _claimed(entry: Entry) -> str:
    return share(entry["claimed"]) + " violated" * entry["violated"]


def _marked(key: str) -> Callable[[Entry], str]:
    """A bound in a text, marked where other ε imply it."""
    return lambda entry: at_least(entry[key]) + str(entry["implied"])


def _error(result: Result, entry: Entry) -> float:
    """The standard error of the largest δ̂ at an ε."""
    column = int(np.flatnonzero(result["epsilon"] == entry["epsilon"])[0])
    return float(result["standard_error"][entry["pair"], result["spectrum_direction"][column], column])


def _others_bounds(rows: Sequence[Entry], many: bool) -> list[str]:
    """Whose the certified bound is, where a row names another pair or direction, those of δ̂."""
    others = [
        f"{row['epsilon']:g} (" + (f"pair {row['lower_pair']}, " if many else "") + f"{row['lower_direction']})"
        for row in rows
        if row["lower"] > 0.0
        and row["resolved"]
        and (row["lower_pair"], row["lower_direction"]) != (row["pair"], row["direction"])
    ]
    if not others:
        return []
    more = f" and at {len(others) - _NAMED} more ε (--format json)" if len(others) > _NAMED else ""
    pairs = any(row["lower_pair"] != row["pair"] for row in rows if row["lower"] > 0.0 and row["resolved"])
    named, where = ("pair and direction", "others") if pairs else ("direction", "the other one")
    listed = ", ".join(others[:_NAMED])
    return [f"The table names the {named} of δ̂. The certified bound comes from {where} at ε = {listed}{more}."]


def _notes(result: Result) -> list[str]:
    """What each column of the spectrum rests on."""
    sure, certify = percent(result.confidence), result.study.estimate.certify
    paragraphs = result.method.describe_columns(result, sure)
    if certify is not None:
        anchors = ", ".join(f"{epsilon:g}" for epsilon in certify)
        paragraphs.append(
            f"† implied by the bounds at ε = {anchors} (estimate.certify), which share the failure probability: each "
            "limits P(S) and Q(S) of a set S, and so δ at every ε, with the same confidence."
        )
    paragraphs += limit_words([result])
    if stated := result.accuracy():
        paragraphs += [f"{name}: {words}" for name, words in state_lines(stated, sure, result.method.pools)]
    return paragraphs


def read_tradeoff(result: Result, _: Any = None) -> Reading:
    """Trade-off points with the limits of both errors, on pages those of the most exposed pairs first."""
    columns = [
        Column("pair", "pair"),
        Column("eta", "η", GIVEN, general),
        Column("alpha", "α̃", ASYMPTOTIC, share),
        Column("beta", "β̃", ASYMPTOTIC, share),
        Column("radius", "radius", FINITE, at_most),
        Column("alpha_upper", "α ≤", FINITE, at_most),
        Column("beta_upper", "β ≤", FINITE, at_most),
    ]
    caption = "Trade-off points: errors of the test that rejects when q/p > η"
    points = leading_points(result)
    sure = percent(result.confidence)
    return Reading(
        f"{result.name}: trade-off points (reject when q/p > η){'' if points else ': no pair has all its counts yet'}",
        [Table(caption, columns, points, POINTS, "hpcdp show --format json has every point", listed=POINTS)],
        [f"radius: all points together at {sure}. α ≤ and β ≤: the same, a family of their own. Finite-sample."],
        result.to_dict,
        lambda: csv_text(result),
    )


def leading_points(result: Result) -> list[dict[str, Any]]:
    """Trade-off points, those of the most exposed pairs first."""
    exposure = find_exposure(result) if result["delta"].size else None
    ranks = {int(pair): rank for rank, pair in enumerate(exposure.order)} if exposure is not None else {}
    return sorted(result.tradeoff(), key=lambda point: ranks.get(point["pair"], len(ranks)))


def csv_text(result: Result) -> str:
    """All entries as CSV, one a line; where its pair comes from at the end, rows apart by spaces."""
    cells, method = result.flat_cells(), result.method
    own = ["pair", "direction", "epsilon", "delta", "lower", "upper", "standard_error", "resolved"]
    own += [] if result.study.estimate.certify is None else ["certified"]
    counts = [name for name in cells[0] if name not in own] if cells else []
    if not cells and result["delta"].size:
        counts = [*method.columns_of(method.counts_of(result.arrays, (0, 0, 0)))]
    counts = counts or [f"{name}_{side}" for name in method.counts for side in (0, 1)]
    fields = [*own[:7], *counts, *own[7:]]
    rows = (cell | origin_of(result.pairs[cell["pair"]]) for cell in cells)
    return to_csv([*fields, *origin_names(result)], rows)


def table(comparison: Comparison) -> str:
    """δ̂ and bounds of each store at the common ε, which is below which, and what that rests on."""
    named = zip(comparison.names, comparison.results, strict=True)
    stores = [f"{name}: {result.store}{state_words(result)}" for name, result in named]
    head = "δ(ε), the largest over all pairs and both directions of each store"
    lines = [*_below(comparison), *_differences(comparison)]
    return text_of(head, stores, grid(_rows(comparison)), lines, wrapped(_compared_notes(comparison)))


def _rows(comparison: Comparison) -> list[list[str]]:
    rows = [["ε", *(cell for name in comparison.names for cell in (f"{name} δ̂", "certified ≥", "approx ≤"))]]
    for k, epsilon in enumerate(comparison.epsilon):
        rows.append([f"{epsilon:g}"])
        for i in range(len(comparison.names)):
            limit = None if np.isnan(comparison.limit[i, k]) else float(comparison.limit[i, k])
            upper = at_most(float(comparison.upper[i, k])) if limit is None else "-"
            rows[-1] += [estimate(float(comparison.delta[i, k]), limit), at_least(float(comparison.lower[i, k])), upper]
    return rows


def _below(comparison: Comparison) -> list[str]:
    lines = []
    for i, j in permutations(range(len(comparison.names)), 2):
        columns = np.flatnonzero(comparison.below[i, j])
        if columns.size:
            where = ", ".join(f"{e:g}" for e in comparison.epsilon[columns])
            lines.append(f"{comparison.names[i]} is below {comparison.names[j]} beyond the bounds at ε = {where}")
    return lines or ["no spectrum is below another beyond the bounds at any ε"]


def _differences(comparison: Comparison) -> list[str]:
    lines = []
    for i, j in combinations(range(len(comparison.names)), 2):
        if not (comparison.below[i, j].any() or comparison.below[j, i].any()):
            epsilon, difference, errors = largest_difference(comparison, i, j)
            first, second = (i, j) if difference <= 0 else (j, i)
            lines.append(
                f"{comparison.names[first]} and {comparison.names[second]} differ most at ε = {epsilon:g}: by "
                f"{abs(difference):.2g}, {errors:.1f} standard errors of the difference"
            )
    return lines


def _compared_notes(comparison: Comparison) -> list[str]:
    paragraphs = [
        "A is below B beyond the bounds: the certified lower bound of B (finite-sample, all pairs, directions and ε of B "
        "together) is above the approximate upper limit of A (normal, one entry at a time, without what A's classifier "
        "misses), or, marked *, above the limit of A's learned sets. Nothing certifies an upper limit, so this is no "
        "certificate about A. Standard errors take the stores as independent."
    ]
    paragraphs += limit_words(comparison.results)
    for name, result in zip(comparison.names, comparison.results, strict=True):
        if result.method.further_bounds:
            paragraphs.append(f"{name}: only what is certified is compared, not what is certified up to the leftover")
            warned = [f"warning: {words}" for words in result.resolution.warnings]
            paragraphs += [f"{name}: {words}" for words in (*result.method.describe_basis(result), *warned)]
        paragraphs += [f"{name}: {words}" for words in changed_words(result)]
    if {result["epsilon"].size for result in comparison.results} != {comparison.epsilon.size}:
        paragraphs.append(
            f"Only the {comparison.epsilon.size} ε that all stores have are compared; the plot shows all."
        )
    return paragraphs
