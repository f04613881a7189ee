"""A result as a readable table."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp._base.terminal import columns
from hpcdp.losses import foreign_code
from hpcdp.notions.spectrum import TOLD, told_pairs
from hpcdp.planning.accuracy import state_lines
from hpcdp.report import tape
from hpcdp.report.exposed import exposed_lines, pair_words
from hpcdp.results.result import Result
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study
from hpcdp.study.reuse import FOLDS

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim

_ORIGIN = ("database", "rows", "distribution", "index")  # of a pair, in CSV: numbers, never contents
_NAMED = 4  # pairs whose test samples are told, and rows whose bound is of another


def claim_of(result: Result) -> Claim | None:
    """The study's claim, if it makes one."""
    text = result.study.study.claim
    if text is None:
        return None
    return parse_claim(text, result.study.folder)


def table(result: Result) -> str:
    """The spectrum with its bounds, beside the claim; the most exposed pairs; and what each number rests on."""
    claim = claim_of(result)
    rows = result.spectrum()
    state = "" if result.complete else "  (INCOMPLETE: only cells that have all their counts)"
    many = len(result.pairs)
    over = "both directions of 1 pair" if many == 1 else f"{many:,} pairs and both directions"
    lines = [f"{result.name}: δ(ε), the largest over {over}{state}", ""]
    lines += [*grid(_spectrum_rows(rows, claim, result)), *_others_bounds(rows, len(result.pairs) > 1)]
    exposed = exposed_lines(result)
    if exposed:
        lines += ["", *exposed]
    if "eta" in result.arrays:
        lines += ["", "trade-off points (reject when q/p > η)", *grid(_tradeoff_rows(result))]
    lines += ["", *footnotes(result, claim)]
    return "\n".join(lines)


def _spectrum_rows(rows: list[dict[str, Any]], claim: Claim | None, result: Result) -> list[list[str]]:
    many = len(result.pairs) > 1
    head = (
        (tape.HEAD if result.is_tape else ["ε", "δ̂", "certified ≥", "approx ≤"])
        + (["claimed"] if claim else [])
        + (["pair"] if many else [])
        + ["direction"]
    )
    errors = tape.errors(result) if result.is_tape else []
    table = [head]
    for number, row in enumerate(rows):
        sure = row["resolved"]
        implied = "" if row.get("certified", True) else "†"
        told = estimate(row["delta"], row["limit"])
        if result.is_tape:
            cells = tape.row_cells(row, errors[number], told, implied)
        else:
            cells = [
                f"{row['epsilon']:g}",
                told,
                at_least(row["lower"]) + implied,
                at_most(row["upper"]) if sure else "-",
            ]
        if claim:
            allowed = float(claim.implied(row["epsilon"]))
            cells.append(share(allowed) + (" violated" if row["lower"] > allowed else ""))
        if many:
            cells.append(str(row["pair"]) if sure else "-")
        cells.append(row["direction"] if sure else "-")
        table.append(cells)
    return table


def _others_bounds(rows: list[dict[str, Any]], many: bool) -> list[str]:
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
    words = f"{what} of δ̂; the certified bound is of another: {'; '.join(named)}."
    return ["", *textwrap.wrap(words, 120, subsequent_indent="  ", break_on_hyphens=False)]


def estimate(delta: float, limit: float | None) -> str:
    """δ̂ as tables print it: where it is not resolved, the limit of the sets that were learned (see `limit_lines`)."""
    return share(delta) if limit is None else f"< {at_most(limit)}*"


def limit_lines(confidence: str, results: Sequence[Result]) -> list[str]:
    """What "<" and "*" of `estimate` mean in a text on some results."""
    is_tape = any(result.is_tape for result in results)
    every, kind = "all of a store" if len(results) > 1 else "all", "asymptotic" if is_tape else "finite-sample"
    head = (
        f"* not resolved: not told from 0, as those without a star are, {every} together with confidence {confidence} "
        f"({kind}, a family apart from the bounds)"
    )
    if is_tape:
        words = (
            f"{head}; δ̂ and as many standard errors as {confidence} says, at this ε alone, of the learned sets, and at "
            "least what no draw tells of (24 over their number); asymptotic. Another set may hold more: this is no limit of δ."
        )
        return textwrap.wrap(words, 120, subsequent_indent="  ", break_on_hyphens=False)
    which = "this ε" if any(result.way.draws_apart for result in results) else "any ε of the study"
    over = " Of the sets, those that the last block tests." if any(result.way.pools for result in results) else ""
    words = (
        f"{head}; with confidence {confidence}, at this ε alone, no set that was learned for {which} holds more than "
        f"this; finite-sample for those sets. Another set may hold more: this is no limit of δ.{over}"
    )
    return textwrap.wrap(words, 120, subsequent_indent="  ", break_on_hyphens=False)


def grid(rows: list[list[str]]) -> list[str]:
    """Rows of cells as aligned lines, a rule below the first."""
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(" " * (width - columns(cell)) + cell for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _tradeoff_rows(result: Result) -> list[list[str]]:
    rows = [["pair", "η", "α̃", "β̃", "radius", "α ≤", "β ≤"]]
    for point in result.tradeoff()[:200]:
        rates = [share(point[name]) for name in ("alpha", "beta")]
        limits = [at_most(point[name]) for name in ("radius", "alpha_upper", "beta_upper")]
        rows.append([str(point["pair"]), f"{point['eta']:g}", *rates, *limits])
    return rows


def warning_lines(result: Result) -> list[str]:
    """A result's warnings as lines of a text."""
    return marked_lines("warning", result.resolution.warnings)


def changed_lines(result: Result) -> list[str]:
    """That code changed while the store grew, as lines of a text."""
    return marked_lines("WARNING", result.code_warnings)


def marked_lines(mark: str, sentences: Sequence[str], width: int = 120) -> list[str]:
    """Sentences behind a mark as lines of a text, of so many characters at most."""
    wrapped = (textwrap.wrap(f"{mark}: {words}", width, subsequent_indent="  ") for words in sentences)
    return [line for lines in wrapped for line in lines]


def _shares(result: Result) -> list[str]:
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
    lines = textwrap.wrap(f"test samples: {'; '.join(named)}", 120, subsequent_indent="  ")
    if len(order) > 1 and most.min() < most.max():
        lines.append("  Which pairs got few is a heuristic; that δ is at least the bound of any of them is certified.")
        if not told_pairs(result["test"]).all():
            lines.append(
                f"  δ̂ is the largest of the pairs that got at least 1/{TOLD} of the most; of others it would be noise."
            )
    return lines


def _reuse(result: Result) -> list[str]:
    """How samples taught and tested."""
    first, *sizes = result["block_test"].tolist()
    words = (
        f"reuse: δ̂ is cross-fitted over {int(result['test'].max()):,} samples per database, in {FOLDS} folds; it may spread more "
        f"than its error says (asymptotic). The bounds are prequential: after a first block of {first:,} samples come blocks of "
        f"{', '.join(f'{size:,}' for size in sizes)}, each counted by an L̂ that learned from all before it."
    )
    return textwrap.wrap(words, 120, subsequent_indent="  ")


def trust_lines(study: Study, tried: str = "the first chunk of each database") -> list[str]:
    """What certified numbers rest on besides independent draws, and of which law they are, where that is not plain.

    tried: the outputs that a class of somebody else was tried on.
    """
    e, lines = study.estimate, []
    foreign = foreign_code(e.default_loss, e.parameters)
    if foreign is not None:
        lines += [
            f"Certified numbers also rest on {foreign} judging each output by itself, whatever else is in its batch. That was",
            f"  tried on trial outputs and on {tried}, not proved.",
        ]
    if not study.mechanism.reproducible:
        lines += [
            "reproducible = false: a chunk that failed is drawn anew, so that certified numbers are of the law of outputs given",
            "  that the mechanism does not fail. Whether it fails may tell D from D′; that is not counted.",
        ]
    return lines


def footnotes(result: Result, claim: Claim | None) -> list[str]:
    """What each column of the spectrum rests on, and what speaks against the result."""
    sure = percent(result.confidence)
    certify = result.study.estimate.certify
    of_counts = [
        f"certified ≥: δ is at least this, at all cells together with confidence {sure}; finite-sample, rests on independent",
        "  draws alone, whatever the classifier. δ̂ and approx ≤ rest on the classifier too: approx ≤ is normal, one cell at a",
        "  time, and ignores what the classifier misses. No number here bounds δ from above with certainty.",
    ]
    lines = [
        *(tape.footnotes(result) if result.is_tape else of_counts),
        *([] if certify is None else _implied_lines(certify)),
        *trust_lines(result.study),
        *changed_lines(result),
    ]
    if result.resolution.warnings:
        lines += [
            *limit_lines(sure, [result]),
            *warning_lines(result),
        ]
    stated = result.accuracy()
    for name, words in state_lines(stated, sure, result.way.pools) if stated else []:
        lines += textwrap.wrap(f"{name}: {words}", 120, subsequent_indent="  ", break_on_hyphens=False)
    if result.study.estimate.has_budget and not result.is_tape:
        lines += _shares(result)
    if result.way.pools:
        lines += _reuse(result)
    if "eta" in result.arrays:
        lines.append(
            f"radius: all points together at {sure}. α ≤ and β ≤: the same, a family of their own. Finite-sample."
        )
    if claim:
        lines.append(f"claimed: {claim.text}")
    return [*lines, *grown_lines(result)]


def _implied_lines(certify: Sequence[float]) -> list[str]:
    words = (
        f"† no bound of its own: what the bounds at ε = {', '.join(f'{epsilon:g}' for epsilon in certify)} (estimate.certify), "
        "which share the level, say there: each limits P(S) and Q(S) of a set S, and so δ at every ε; as sure as they are."
    )
    return textwrap.wrap(words, 120, subsequent_indent="  ", break_on_hyphens=False)


def grown_lines(result: Result) -> list[str]:
    """What the store's study was before, of one that has grown."""
    if not result.grown:
        return []
    return [
        f"This is a new estimate; the study of this store was before: {'; '.join(result.grown)}. The bounds of each "
        "estimate hold by themselves, if what was added was not chosen after a look at the results."
    ]


def origin_names(result: Result) -> list[str]:
    """Columns of a CSV file that say where a pair comes from."""
    return [key for key in _ORIGIN if any(key in entry for entry in result.pairs)]


def origin_of(pair: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """These columns of a pair, rows apart by spaces."""
    values = [pair.get(key, "") for key in names]
    return [" ".join(map(str, value)) if isinstance(value, list) else value for value in values]


def _count_names(result: Result) -> list[str]:
    """Columns of counts where no cell has any yet."""
    if result["delta"].size:
        return [*result.way.flat(result.way.told(result.arrays, (0, 0, 0)))]
    return [f"{name}_{side}" for name in result.way.counts for side in (0, 1)]


def csv_text(result: Result) -> str:
    """All cells as CSV, one line a cell; where its pair comes from at the end, rows apart by spaces."""
    cells = result.cells()
    told = [*(result.way.told(result.arrays, (0, 0, 0)) if result["delta"].size else {})]
    counts = [*result.way.flat({name: cells[0][name] for name in told})] if cells else _count_names(result)
    fields = ["pair", "direction", "epsilon", "delta", "lower", "upper", "standard_error", *counts, "resolved"]
    fields += [] if result.study.estimate.certify is None else ["certified"]
    origin = origin_names(result)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*fields, *origin])
    for cell in cells:
        head = [cell[name] for name in fields[:7]]
        tail = result.way.flat({name: cell[name] for name in told}).values()
        where = origin_of(result.pairs[cell["pair"]], origin)
        said = [json.dumps(cell[name]) for name in ("resolved", "certified") if name in cell]
        writer.writerow([*head, *tail, *said, *where])
    return buffer.getvalue()
