"""The interval of pure ε of a histogram, and Rényi divergences of its tallies, as readable tables and as CSV."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from typing import Any

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.losses import validate_parameters
from hpcdp.planning.histogram import describe_sizes, promised_sizes
from hpcdp.report.table import changed_lines, grid, trust_lines
from hpcdp.results.histogram import renyi_entries
from hpcdp.results.result import Result
from hpcdp.store.again import resume_command
from hpcdp.study.pair_words import describe_pair

_SHOWN = 30  # pairs that a table lists


def table(result: Result) -> str:
    """What is certified, with and without the assumption, beside the published estimate."""
    found, given = result.pure, _given(result)
    state = "" if result.complete else "  (INCOMPLETE)"
    inside = f"[{given.range[0]:g}, {given.range[1]:g}]"
    head = f"{result.name}: pure ε of outputs in {inside}, {_over(result)}{state}"
    if found is None:
        return "\n".join([head, "", f"not all counts are there yet; go on with: {resume_command(result.store)}"])
    entries = found["rows"] or [found]
    rows = [[_named(result), "certified ≥", "in bin", f"≤ if {assumed(result)}", "in bin", "published ε̂"]]
    rows += [_line(entry) for entry in sorted(entries, key=lambda entry: -entry["certified"])[:_SHOWN]]
    lines = [head, "", *grid(rows), ""]
    if len(entries) > _SHOWN:
        lines += [f"… and {len(entries) - _SHOWN:,} more pairs; all: --format csv", ""]
    if found["rows"]:
        origin = result.pairs[found["pair"]]
        lines += [
            f"largest of all: {at_least(found['certified'], '.5f')} ≤ ε (pair {found['pair']}), "
            + ("no upper limit" if found["upper"] is None else f"ε ≤ {_upper(found)} if C holds and {NO_ATOMS}")
            + f" (pair {found['upper_pair']})",
            *([f"pair {found['pair']}: {describe_pair(found['pair'], origin)}"] if "rows" in origin else []),
            "",
        ]
    return "\n".join([*lines, *_wrapped(notes(result, found))])


def _wrapped(paragraphs: list[str]) -> list[str]:
    """Each as lines of a text, indented from the second on."""
    return [line for text in paragraphs for line in textwrap.wrap(text, 120, subsequent_indent="  ") or [""]]


def _given(result: Result) -> Any:
    e = result.study.estimate
    return validate_parameters(e.default_loss, e.parameters)


def assumed(result: Result) -> str:
    """What upper limits rest on."""
    return "C holds" if result.study.pairs.domain is None else "C and D hold"


NO_ATOMS = "no single value has a probability of its own (clamping makes such)"


def _over(result: Result) -> str:
    domain = result.study.pairs.domain
    if domain is None:
        return f"from {len(result.pairs):,} pair{'s' if len(result.pairs) > 1 else ''}"
    return f"of all pairs of inputs in [{domain.lower:g}, {domain.upper:g}], from {domain.points:,} midpoints"


def _named(result: Result) -> str:
    return "midpoints" if result.study.pairs.domain is not None else "pair"


def _line(entry: dict[str, Any]) -> list[str]:
    which = " : ".join(f"{x:.5g}" for x in entry["points"]) if "points" in entry else str(entry["pair"])
    published = "failed" if entry["published"] is None else f"{entry['published']:.4f}"
    return [
        which,
        at_least(entry["certified"], ".5f"),
        _bin(entry["bin"]),
        _upper(entry),
        _bin(entry["upper_bin"]),
        published,
    ]


def _upper(entry: dict[str, Any]) -> str:
    return "none" if entry["upper"] is None else at_most(entry["upper"], ".5f")


def _bin(ends: list[float]) -> str:
    return f"[{ends[0]:.5g}, {ends[1]:.5g}]"


def _refuted(result: Result, found: dict[str, Any]) -> list[str]:
    refuted, domain = found["refuted"], result.study.pairs.domain
    if refuted is None:
        return []
    low, high = refuted["densities"]
    if "points" in refuted and domain is not None:
        one, other = (f"{point:.5g}" for point in refuted["points"])
        return [
            f"REFUTED: D = {domain.lipschitz:g}. The density in {_bin(refuted['bin'])} is at least {at_least(low, '.4g')} on "
            f"average at midpoint {one}, and at most {at_most(high, '.4g')} at {other}: it changes faster with the input than D "
            "allows, so that there is no upper limit. The lower one needs no D.",
            "",
        ]
    of = (
        f"at midpoint {refuted['point']:.5g}"
        if "point" in refuted
        else f"of {refuted['side']} of pair {refuted['pair']}"
    )
    one, other = (_bin(ends) for ends in refuted["bins"])
    return [
        f"REFUTED: C = {found['lipschitz']:g}. The density {of} is at least {at_least(low, '.4g')} in {one} on average, and "
        f"at most {at_most(high, '.4g')} in {other}: "
        "it changes faster than C allows, so that there is no upper limit. The lower one needs no C.",
        "",
    ]


def notes(result: Result, found: dict[str, Any]) -> list[str]:
    """What refutes the assumption, where counts do, and what each figure rests on; paragraphs."""
    return [*_refuted(result, found), *_notes(result, found), *size_lines(result)]


def _notes(result: Result, found: dict[str, Any]) -> list[str]:
    sure, domain = percent(result.confidence), result.study.pairs.domain
    laws = result["bin_counts"].shape[0]
    lines = [
        f"certified ≥ and ≤: with confidence {sure} both, of all pairs and both directions together, by limits of "
        f"{found['bins']:,} bin{'s' if found['bins'] > 1 else ''} "
        f"of {laws:,} laws, {found['test']:,} outputs each; finite-sample. The lower limit rests on independent draws alone.",
        f"A single value has at most {at_most(found['atom'], '.2g')}, each by itself with confidence 95 %; finite-sample.",
        f"if {assumed(result)}: densities change by at most C = {found['lipschitz']:g} a unit everywhere in the range, and "
        f"{NO_ATOMS}; an assumption, that counts can refute and never prove.",
    ]
    if domain is not None:
        lines[-1] += (
            f" And by at most D = {domain.lipschitz:g} while the input moves by a unit: the upper limit is of all inputs, "
            "the lower one of the midpoints."
        )
    if any(entry["upper"] is None for entry in found["rows"] or [found]) and found["refuted"] is None:
        wide, more = "C times half a bin's width", "bins"
        if domain is not None:
            wide, more = f"{wide} and D times half a bucket's length", "bins or points"
        lines.append(
            f"none: by its limits the density may be 0 somewhere in a bin. More outputs help; where {wide} are as much as the "
            f"density itself, only more {more} do."
        )
    lines += trust_lines(result.study) + changed_lines(result)
    return [
        *lines,
        "published ε̂: the largest ln(N/M) of a bin, both directions (Gorla et al. 2023, Algorithm 1), failed where a bin is "
        "empty; a point estimate.",
    ]


def size_lines(result: Result) -> list[str]:
    """What sizes promise, as published and by union bounds."""
    found = promised_sizes(result.study, result.pure["test"] if result.pure else 1)
    of = "" if result.study.pairs.domain is not None else " of one pair"
    return [f"sizes of the published estimate{of}: {describe_sizes(result.study, found)}"]


def csv_text(result: Result) -> str:
    """One line a pair, or the one of the domain."""
    found = result.pure
    entries = [] if found is None else found["rows"] or [found]
    names = ["points" if "points" in entry else "pair" for entry in entries[:1]] or ["pair"]
    names += ["certified", "bin", "upper", "upper_bin", "published"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*names, "refuted"])
    for entry in entries:
        values = [json.dumps(v) if isinstance(v := entry[name], list) else v for name in names]
        writer.writerow([*values, int(found is not None and found["refuted"] is not None)])
    return buffer.getvalue()


def renyi_json(result: Result, orders: list[float]) -> str:
    """One object: name, complete, confidence, and `renyi`, as Gorla et al. estimate it."""
    head = {"name": result.name, "complete": result.complete, "confidence": result.confidence}
    found = {**head, "published_renyi": renyi_of(result, orders), **result.changed_entry}
    return json.dumps(found, allow_nan=False, ensure_ascii=False)


def renyi_of(result: Result, orders: list[float]) -> list[dict[str, Any]]:
    """Published estimates of some orders above 1; none while counts are missing, or of a domain, whose pairs are not listed."""
    usable = [order for order in orders if order > 1.0]
    if result.study.pairs.domain is not None or result["bin_counts"].min() < 0:
        return []
    return renyi_entries(result.study, result.arrays, usable)


def renyi_lines(result: Result, orders: list[float]) -> str:
    """The published estimates of Rényi divergences, and their sizes."""
    rows = [["order", "published D̂", "pair", "direction"]]
    entries = renyi_of(result, orders)
    if not entries:
        return f"{result.name}: no published estimate: orders above 1, of listed pairs that have all their counts"
    for entry in entries:
        value = "failed" if entry["estimate"] is None else f"{entry['estimate']:.6f}"
        place = ["-" if v is None else str(v) for v in (entry["pair"], entry["direction"])]
        rows.append([f"{entry['order']:g}", value, *place])
    lines = [f"{result.name}: Rényi divergences from counts of bins (Gorla et al. 2023)", "", *grid(rows), ""]
    test = int(result["bin_counts"][0].sum())
    lines += [
        f"order {order:g}: {describe_sizes(result.study, promised_sizes(result.study, test, order))}"
        for order in (entry["order"] for entry in entries)
    ]
    words = (
        "published D̂: a point estimate, failed where a bin is empty; with these sizes within ±γ if C holds and "
        + NO_ATOMS
        + "."
    )
    return "\n".join([*lines, words, *changed_lines(result)])
