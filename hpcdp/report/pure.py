"""Pure ε as a readable table, as JSON and as CSV: what is certified, what is asymptotic."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hpcdp._base.rounding import at_least, percent
from hpcdp.errors import StudyError
from hpcdp.report.table import changed_lines, grid, grown_lines, origin_names, origin_of, trust_lines
from hpcdp.results.result import Result
from hpcdp.store.again import resume_command
from hpcdp.study.pair_words import describe_pair

_SHOWN = 30  # pairs or rows that a table lists
_PICKED = [
    "LB and intervals are each pair's by itself. Of the pair with the largest certified limit, which test outputs pick, they",
    "  hold at no stated confidence.",
]


def table(result: Result) -> str:
    """The certified limit beside the published figures, and what each rests on."""
    found, many = result.pure, len(result.pairs)
    state = "" if result.complete else "  (INCOMPLETE)"
    head = f"{result.name}: pure ε{_of(result)}, from {many:,} pair{'s' if many > 1 else ''}{state}"
    if found is None:
        return "\n".join([head, "", f"no pair has all its counts yet; go on with: {resume_command(result.store)}"])
    entries = found["rows"] or [found]
    lines = [["pair", "direction", "certified ≥", "set", "in it", "ε̂", "at", "LB", "LB literal"]]
    lines += [_line(entry) for entry in sorted(entries, key=lambda entry: -entry["certified"])[:_SHOWN]]
    text = [head, "", *grid(lines), ""]
    if len(entries) > _SHOWN:
        text += [f"… and {len(entries) - _SHOWN:,} more pairs; all: --format csv", ""]
    if many > 1:
        text += [f"pair {found['pair']}: {describe_pair(found['pair'], result.pairs[found['pair']])}", ""]
    return "\n".join([*text, *_intervals(found), *notes(result, found)])


def _of(result: Result) -> str:
    pure = result.study.pure
    assert pure is not None
    return "" if pure.within is None else " of outputs in " + " × ".join(f"[{a:g}, {b:g}]" for a, b in pure.within)


def _line(entry: dict[str, Any]) -> list[str]:
    region, published = entry["region"], entry["published"]
    loss = "L̂" if entry["direction"] == "forward" else "−L̂"
    counts = " : ".join(f"{x:,}" for x in region["exceed"])
    cells = [str(entry["pair"]), entry["direction"], at_least(entry["certified"], ".5f")]
    cells += [f"{loss} > {region['above']:.4g}", counts]
    if published is None:
        return [*cells, "-", "-", "-", "-"]
    figures = [f"{published[key]:.4f}" for key in ("estimate", "lower", "literal")]
    return [*cells, figures[0], output_text(published["at"]), *figures[1:]]


def output_text(at: Any) -> str:
    """An output, cut where it is long."""
    text = f"{at:.5g}" if isinstance(at, float) else json.dumps(at, ensure_ascii=False)
    return text if len(text) <= 24 else text[:23] + "…"


def _intervals(found: dict[str, Any]) -> list[str]:
    published = found["published"]
    if published is None or not published["intervals"]:
        return []
    rows = [["output", "loss", "from", "to"]]
    rows += [
        [
            output_text(entry["at"]),
            *("-" if entry[key] is None else f"{entry[key]:.4f}" for key in ("loss", "lower", "upper")),
        ]
        for entry in published["intervals"]
    ]
    return [
        f"loss ln p/q of pair {found['pair']} at outputs named beforehand, with its interval (asymptotic, each by itself):",
        "",
        *grid(rows),
        "",
        *(
            ["-: no test output of D or of D′ tells of that output.", ""]
            if any(entry["loss"] is None for entry in published["intervals"])
            else []
        ),
    ]


def notes(result: Result, found: dict[str, Any]) -> list[str]:
    """What each figure rests on."""
    sure, pure = percent(result.confidence), result.study.pure
    assert pure is not None
    whole = "the limits of all pairs together" if pure.test == "all" else "the pair was chosen by training samples"
    lines = [
        f"certified ≥: the mechanism is ε-private for no smaller ε, with confidence {sure}; {whole};",
        "  finite-sample, rests on independent draws alone, whatever the classifier.",
        *trust_lines(result.study),
        *changed_lines(result),
        "in it: test outputs in the set, of D and of D′ forward, of D′ and of D reverse; each of "
        f"{result.study.estimate.test:,}. The set was chosen by training.",
    ]
    lines += grown_lines(result)
    if found["published"] is None:
        named = ", and at the outputs of `at`" if pure.at else ""
        return [
            *lines,
            f"ε̂, LB{named}: none, as densities are estimated of discrete outputs, or of one or two real columns.",
        ]
    return [
        *lines,
        f"ε̂: the largest |ln f − ln f′| on training outputs, densities not below {found['published']['floor']:g} (DPL); a "
        "point estimate.",
        f"LB: the published lower bound (MPL, equation 26) at t̂, asymptotic, with the sign that training found: at {sure}. LB",
        "  literal has the absolute value instead, which doubles its false alarms where the loss is 0. Neither is certified.",
        *(_PICKED if pure.test == "all" and len(found["rows"]) > 1 else []),
    ]


def rows_table(result: Result) -> str:
    """Removed or edited rows by their certified pure level."""
    entries = _rows(result)
    many = len({entry["database"] for entry in entries}) > 1
    lines = [[*(["database"] if many else []), "row", "certified ≥", "ε̂", "LB", "pair", "direction"]]
    for entry in entries[:_SHOWN]:
        published = entry["published"]
        figures = ["-", "-"] if published is None else [f"{published[key]:.4f}" for key in ("estimate", "lower")]
        cells = [
            str(entry["row"]),
            at_least(entry["certified"], ".5f"),
            *figures,
            str(entry["pair"]),
            entry["direction"],
        ]
        lines.append([*([str(entry["database"])] if many else []), *cells])
    text = [f"{result.name}: rows by pure ε{_of(result)}", "", *grid(lines), ""]
    if len(entries) > _SHOWN:
        text += [f"… and {len(entries) - _SHOWN:,} more rows; all: --format csv", ""]
    return "\n".join(
        [
            *text,
            f"certified ≥: the pure level of the row's pairs, all rows together with confidence {percent(result.confidence)};",
            "  finite-sample. A row's level is bounded through the neighbours of the study, from below. ε̂ and LB: asymptotic,",
            "  of the pair with the largest limit of each row, which test outputs pick: at no stated confidence.",
            *grown_lines(result),
        ]
    )


def _rows(result: Result) -> list[dict[str, Any]]:
    """The pair with the largest certified limit of each row, the most exposed row first."""
    pure = result.study.pure
    assert pure is not None
    if result.study.pairs.relative is None:
        raise StudyError("--rows: accepted with pairs.relative")
    if pure.test != "all":
        raise StudyError('--rows: with [pure] accepted with pure.test = "all"; given: "winner"')
    found = result.pure
    best: dict[tuple[int, int], dict[str, Any]] = {}
    for entry in [] if found is None else found["rows"]:
        for row in entry["rows"]:
            place = entry["database"], row
            if place not in best or best[place]["certified"] < entry["certified"]:
                best[place] = {**entry, "row": row}
    if not best:
        raise StudyError(f"--rows: no pair has all its counts yet; go on with: {resume_command(result.store)}")
    return sorted(best.values(), key=lambda entry: (-entry["certified"], entry["database"], entry["row"]))


def to_json(result: Result) -> str:
    """One object: name, complete, confidence, warnings and `pure`."""
    head = {"name": result.name, "complete": result.complete, "confidence": result.confidence}
    body = {**head, "warnings": [*result.code_warnings, *result.resolution.warnings], "pure": result.pure}
    return json.dumps(body, allow_nan=False, ensure_ascii=False)


def csv_text(result: Result) -> str:
    """One line a pair that was tested; where it comes from at the end, rows apart by spaces."""
    buffer = io.StringIO()
    names = ("pair", "direction", "certified")
    published = ("estimate", "at", "lower", "literal", "bandwidth", "floor")
    writer = csv.writer(buffer, lineterminator="\n")
    origin, pairs = origin_names(result), result.pairs
    writer.writerow([*names, "above", "exceed_0", "exceed_1", "test_0", "test_1", *published, *origin])
    found = result.pure
    for entry in [] if found is None else found["rows"] or [found]:
        region, told = entry["region"], entry["published"] or {}
        counts = [*region["exceed"], *region["test"]]
        values = [json.dumps(v, ensure_ascii=False) if isinstance(v := told.get(key), list) else v for key in published]
        writer.writerow(
            [
                *(entry[name] for name in names),
                region["above"],
                *counts,
                *values,
                *origin_of(pairs[entry["pair"]], origin),
            ]
        )
    return buffer.getvalue()
