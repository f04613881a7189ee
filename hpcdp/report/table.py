"""The spectrum of a result with its bounds, trade-off points, and cells as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.engine.accuracy import state_lines
from hpcdp.notions.spectrum import TOLD, told_pairs
from hpcdp.report.exposed import exposed_lines, find_exposure
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
    Table,
    general,
    lower_column,
    text_of,
    to_csv,
    told,
    wrapped,
)
from hpcdp.report.words import (
    changed_words,
    claim_of,
    estimate,
    grown_words,
    limit_words,
    origin_names,
    origin_of,
    over_words,
    pair_words,
    tape_columns_words,
    trust_words,
    warning_words,
)
from hpcdp.results.result import Result
from hpcdp.study.reuse import FOLDS

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim

POINTS = 200
"""Trade-off points that a table lists at most."""

_NAMED = 4  # pairs whose test samples are told, and rows whose bound is of another


def table(result: Result) -> str:
    """The spectrum with its bounds, beside the claim; the most exposed pairs; and what each number rests on."""
    claim = claim_of(result)
    spectrum = spectrum_table(result, claim)
    points = []
    if "eta" in result.arrays:
        points = ["trade-off points (reject when q/p > η)", *tradeoff_table(result.tradeoff()).lines(POINTS)]
    others = wrapped(_others_bounds(spectrum.entries, len(result.pairs) > 1))
    head, exposed = f"{result.name}: δ(ε), {over_words(result)}", exposed_lines(result)
    return text_of(head, spectrum.lines(), others, exposed, points, wrapped(footnotes(result, claim)))


def spectrum_table(result: Result, claim: Claim | None) -> Table:
    """The largest δ at each ε, with its bounds, beside the claim."""
    entries: list[dict[str, Any]] = result.spectrum()
    for entry in entries:
        entry["implied"] = "" if entry.get("certified", True) else "†"
        if result.is_tape:
            entry["standard_error"] = _error(result, entry)
        if claim is not None:
            entry["claimed"] = float(claim.implied(entry["epsilon"]))
            entry["violated"] = entry["lower"] > entry["claimed"]
    approximate = HEURISTIC if result.method.draws_apart else ASYMPTOTIC  # of literal-knn a limit of its own risk
    limited = (ASYMPTOTIC, ASYMPTOTIC) if result.is_tape else (FINITE, LIMITED)
    many = len(result.pairs) > 1
    columns = {
        "epsilon": Column("epsilon", "ε", GIVEN, general),
        "delta": Column("delta", "δ̂", ASYMPTOTIC, share, _is_resolved, lambda e: estimate(e["delta"], e["limit"])),
        "error": Column("standard_error", "± error", ASYMPTOTIC, share, _is_resolved),
        "told": Column(
            "resolved", "told from 0", limited[0], lambda told: "yes" if told else "not resolved", only="page"
        ),
        "limit": Column("limit", "learned sets ≤", limited[1], at_most, only="page"),
        "within": Column(
            "lower_up_to_leftover", "up to the leftover ≥", LEFTOVER, at_least, said=_marked("lower_up_to_leftover")
        ),
        "lower": lower_column(said=_marked("lower")),
        "own": Column("certified", "bound", GIVEN, lambda own: "its own" if own else "implied †", only="page"),
        "upper": Column("upper", "approx ≤", approximate, at_most, _is_resolved),
        "claimed": Column(
            "claimed", "claimed", GIVEN, share, said=lambda e: share(e["claimed"]) + " violated" * e["violated"]
        ),
        "violated": Column("violated", "claim violated", FINITE, told("violated"), only="page"),
        "pair": Column("pair", "pair of δ̂", CHOSEN, str, _is_resolved, name="pair"),
        "direction": Column("direction", "direction of δ̂", CHOSEN, str, _is_resolved, name="direction"),
        "lower_pair": Column("lower_pair", "pair of the bound", CHOSEN, only="page"),
        "lower_direction": Column("lower_direction", "direction of the bound", CHOSEN, only="page"),
    }
    absent = [
        *(() if result.is_tape else ("error", "within")),
        *(("told", "limit") if all(entry["resolved"] for entry in entries) else ()),
        *(() if any("certified" in entry for entry in entries) else ("own",)),
        *(() if claim is not None else ("claimed", "violated")),
        *(() if many else ("pair", "lower_pair")),
    ]
    over = f"{len(result.pairs):,} pairs, both directions" if many else "both directions of one pair"
    present = [column for name, column in columns.items() if name not in absent]
    return Table(f"Spectrum: the largest δ(ε) over {over}", present, entries)


def _is_resolved(entry: Entry) -> bool:
    return bool(entry["resolved"])


def _marked(key: str) -> Callable[[Entry], str]:
    """A bound in a text, marked where other ε imply it."""
    return lambda entry: at_least(entry[key]) + str(entry["implied"])


def _error(result: Result, entry: Mapping[str, Any]) -> float:
    """The standard error of the largest δ̂ at an ε."""
    column = int(np.flatnonzero(result["epsilon"] == entry["epsilon"])[0])
    return float(result["standard_error"][entry["pair"], result["spectrum_direction"][column], column])


def _others_bounds(rows: Sequence[Entry], many: bool) -> list[str]:
    """Whose the certified bound is, where a row names another pair or direction, those of δ̂."""
    others = [
        f"at ε = {row['epsilon']:g} " + (f"pair {row['lower_pair']}, " if many else "") + row["lower_direction"]
        for row in rows
        if row["lower"] > 0.0
        and row["resolved"]
        and (row["lower_pair"], row["lower_direction"]) != (row["pair"], row["direction"])
    ]
    if not others:
        return []
    named = others[:_NAMED] + ([f"{len(others) - _NAMED} more in --format json"] if len(others) > _NAMED else [])
    what = "pair and direction are" if many else "direction is"
    return [f"{what} of δ̂; the certified bound is of another: {'; '.join(named)}."]


def leading_points(result: Result) -> list[dict[str, Any]]:
    """Trade-off points, those of the most exposed pairs first."""
    found = find_exposure(result) if result["delta"].size else None
    ranks = {int(pair): rank for rank, pair in enumerate(found.order)} if found is not None else {}
    return sorted(result.tradeoff(), key=lambda point: ranks.get(point["pair"], len(ranks)))


def tradeoff_table(points: list[dict[str, Any]]) -> Table:
    """Trade-off points with the limits of both errors."""
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
    return Table(caption, columns, points, POINTS, "hpcdp show --format json has every point")


def footnotes(result: Result, claim: Claim | None) -> list[str]:
    """What each column of the spectrum rests on, and what speaks against the result; paragraphs."""
    sure, certify = percent(result.confidence), result.study.estimate.certify
    of_counts = (
        f"certified ≥: δ is at least this, at all cells together with confidence {sure}; finite-sample, rests on independent "
        "draws alone, whatever the classifier. δ̂ and approx ≤ rest on the classifier too: approx ≤ is normal, one cell at a "
        "time, and ignores what the classifier misses. No number here bounds δ from above with certainty."
    )
    found = tape_columns_words(result) if result.is_tape else [of_counts]
    if certify is not None:
        anchors = ", ".join(f"{epsilon:g}" for epsilon in certify)
        found.append(
            f"† no bound of its own: what the bounds at ε = {anchors} (estimate.certify), which share the level, say there: "
            "each limits P(S) and Q(S) of a set S, and so δ at every ε; as sure as they are."
        )
    found += [*trust_words(result.study), *changed_words(result)]
    if result.resolution.warnings:
        found += [limit_words(sure, [result]), *warning_words(result)]
    if stated := result.accuracy():
        found += [f"{name}: {words}" for name, words in state_lines(stated, sure, result.method.pools)]
    if result.study.estimate.has_budget and not result.is_tape:
        found.append(_shares(result))
    if result.method.pools:
        found.append(_reuse(result))
    if "eta" in result.arrays:
        found.append(
            f"radius: all points together at {sure}. α ≤ and β ≤: the same, a family of their own. Finite-sample."
        )
    return [*found, *([] if claim is None else [f"claimed: {claim.text}"]), *grown_words(result)]


def _shares(result: Result) -> str:
    """What each pair got to test, where a run decided; the most tested pairs by name."""
    given = result["test"][:, 0, 0, :]
    most = given.max(axis=1)
    order = np.argsort(-most, kind="stable")
    named = [
        f"{pair_words(result, int(pair))} {given[pair, 0]:,} of D and {given[pair, 1]:,} of D′"
        for pair in order[:_NAMED]
    ]
    if len(order) > _NAMED:
        rest = most[order[_NAMED:]]
        named.append(f"{rest.size:,} more pairs {rest.min():,} to {rest.max():,}")
    words = f"test samples: {'; '.join(named)}"
    if len(order) > 1 and most.min() < most.max():
        words += " Which pairs got few is a heuristic; that δ is at least the bound of any of them is certified."
        if not told_pairs(result["test"]).all():
            words += (
                f" δ̂ is the largest of the pairs that got at least 1/{TOLD} of the most; of others it would be noise."
            )
    return words


def _reuse(result: Result) -> str:
    """How samples taught and tested."""
    first, *sizes = result["block_test"].tolist()
    return (
        f"reuse: δ̂ is cross-fitted over {int(result['test'].max()):,} samples per database, in {FOLDS} folds; it may spread more "
        f"than its error says (asymptotic). The bounds are prequential: after a first block of {first:,} samples come blocks of "
        f"{', '.join(f'{size:,}' for size in sizes)}, each counted by an L̂ that learned from all before it."
    )


def csv_text(result: Result) -> str:
    """All cells as CSV, one line a cell; where its pair comes from at the end, rows apart by spaces."""
    cells, method = result.cells(), result.method
    told = method.told(result.arrays, (0, 0, 0)) if result["delta"].size else {}
    counts = [*method.flat(told | {name: cells[0][name] for name in told} if cells else told)]
    counts = counts or [f"{name}_{side}" for name in method.counts for side in (0, 1)]
    fields = ["pair", "direction", "epsilon", "delta", "lower", "upper", "standard_error", *counts, "resolved"]
    fields += [] if result.study.estimate.certify is None else ["certified"]
    rows = (
        cell | method.flat({name: cell[name] for name in told}) | origin_of(result.pairs[cell["pair"]])
        for cell in cells
    )
    return to_csv([*fields, *origin_names(result)], rows)
