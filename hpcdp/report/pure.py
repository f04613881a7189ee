"""Pure ε of a study with [pure] or of a histogram, and of a sampled sensitivity: what is certified, assumed, asymptotic."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.errors import StudyError
from hpcdp.losses import validate_parameters
from hpcdp.methods.histogram.interval import renyi_entries
from hpcdp.methods.histogram.sizes import describe_sizes, promised_sizes
from hpcdp.notions.at_risk import RHO
from hpcdp.report.exposed import EVERY_CELL, PAIRS
from hpcdp.report.tables import (
    ASSUMED,
    ASYMPTOTIC,
    CHOSEN,
    COUNT,
    FINITE,
    GIVEN,
    HEURISTIC,
    REFUTED,
    Column,
    Entry,
    Table,
    View,
    formed,
    general,
    lower_column,
    text_of,
    thousands,
    to_csv,
    wrapped,
)
from hpcdp.report.words import FOR_MORE, changed_words, grown_words, origin_names, origin_of, trust_words
from hpcdp.results.result import Result
from hpcdp.store.again import resume_command
from hpcdp.study.pairs import describe_pair

NO_ATOMS = "no single value has a probability of its own (clamping makes such)"

_SHOWN = 30  # pairs or rows that a text lists
_FOUR, _FIVE = formed(".4f"), formed(".5f", at_least)
_EXCEED = ("exceed_0", "exceed_1", "test_0", "test_1")
_PUBLISHED = ("estimate", "at", "lower", "literal", "bandwidth", "floor")


def pure_view(result: Result, rows: bool = False) -> View:
    """Pure ε of a study with [pure] or of a histogram. rows: in texts the removed or edited rows instead of pairs."""
    head = {"name": result.name, "complete": result.complete, "confidence": result.confidence}
    warnings = [*result.code_warnings, *result.resolution.warnings]
    is_binned = result.study.bounds_pure
    text: Callable[[Result], str] = rows_table if rows else table
    csv_text = _histogram_csv if is_binned else _pure_csv
    return View(
        lambda: head | {"warnings": warnings, "pure": result.pure}, lambda: text(result), lambda: csv_text(result)
    )


def table(result: Result) -> str:
    """The certified limit beside the published figures, or with and without the assumption, and what each rests on."""
    found, is_binned = result.pure, result.study.bounds_pure
    head = f"{result.name}: pure ε{_inside(result)}, {_over(result)}{'' if result.complete else '  (INCOMPLETE)'}"
    if found is None:
        missing = "not all counts are there yet" if is_binned else "no pair has all its counts yet"
        return text_of(head, f"{missing}; go on with: {resume_command(result.store)}")
    limits, *losses = pure_tables(result, found)
    blocks: list[str | list[str]] = [head, limits.lines_and_rest(_SHOWN, "pairs")]
    if is_binned:
        blocks.append(_largest(result, found))
    elif len(result.pairs) > 1:
        blocks.append(f"pair {found['pair']}: {describe_pair(found['pair'], result.pairs[found['pair']])}")
    for loss in losses:
        caption = f"loss ln p/q of pair {found['pair']} at outputs named beforehand, with its interval"
        blocks += [f"{caption} (asymptotic, each by itself):", loss.lines()]
        if any(entry["loss"] is None for entry in loss.entries):
            blocks.append("-: no test output of D or of D′ tells of that output.")
    return text_of(*blocks, wrapped(notes(result, found)))


def pure_tables(result: Result, found: dict[str, Any]) -> list[Table]:
    """The certified limits, the largest first; and the loss at outputs that the study names."""
    entries = sorted(found["rows"] or [found], key=lambda entry: -entry["certified"])
    if result.study.bounds_pure:
        caption = "Pure ε of outputs in bins, the largest certified limit first"
        return [Table(caption, _histogram_columns(result), entries, PAIRS, EVERY_CELL)]
    columns = [
        Column("pair", "pair"),
        Column("direction", "direction", CHOSEN),
        lower_column("certified", form=_FIVE),
        Column("region.above", "threshold of the set", CHOSEN, formed(".4g"), said=_set_words, name="set"),
        Column("region.exceed", "outputs in the set", COUNT, _joined, name="in it"),
        Column("published.estimate", "ε̂", ASYMPTOTIC, _FOUR),
        Column("published.at", "at output", ASYMPTOTIC, _output_text, name="at"),
        Column("published.lower", "LB", ASYMPTOTIC, _FOUR),
        Column("published.literal", "LB literal", ASYMPTOTIC, _FOUR),
    ]
    tables = [Table("Pure ε, the largest certified limit first", columns, entries, PAIRS, EVERY_CELL)]
    published = found["published"]
    if published is not None and published["intervals"]:
        named = (
            ("at", "output", _output_text),
            ("loss", "loss", _FOUR),
            ("lower", "from", _FOUR),
            ("upper", "to", _FOUR),
        )
        columns = [
            Column(key, heading, GIVEN if key == "at" else ASYMPTOTIC, form, nothing="null" if key == "at" else "-")
            for key, heading, form in named
        ]
        tables.append(
            Table(f"Loss of pair {found['pair']} at outputs named beforehand", columns, published["intervals"])
        )
    return tables


def _histogram_columns(result: Result) -> list[Column]:
    which = Column("pair", "pair")
    if result.study.pairs.domain is not None:
        which = Column("points", "midpoints", form=lambda points: " : ".join(f"{x:.5g}" for x in points))
    return [
        which,
        lower_column("certified", form=_FIVE),
        Column("bin", "in bin", COUNT, _bin),
        Column("upper", f"≤ if {assumed(result)}", ASSUMED, formed(".5f", at_most), nothing="none"),
        Column("upper_bin", "in bin ", COUNT, _bin, name="in bin"),
        Column("published", "published ε̂", ASYMPTOTIC, _FOUR, nothing="failed"),
    ]


def _set_words(entry: Entry) -> str:
    return f"{'L̂' if entry['direction'] == 'forward' else '−L̂'} > {entry['region']['above']:.4g}"


def _joined(counts: list[int]) -> str:
    return " : ".join(f"{count:,}" for count in counts)


def _output_text(at: Any) -> str:
    """An output, cut where it is long."""
    text = f"{at:.5g}" if isinstance(at, float) else json.dumps(at, ensure_ascii=False)
    return text if len(text) <= 24 else text[:23] + "…"


def _bin(ends: list[float]) -> str:
    return f"[{ends[0]:.5g}, {ends[1]:.5g}]"


def _inside(result: Result) -> str:
    """Of which outputs pure ε is."""
    e, pure = result.study.estimate, result.study.pure
    if pure is None:
        given: Any = validate_parameters(e.default_loss, e.parameters)
        return f" of outputs in [{given.range[0]:g}, {given.range[1]:g}]"
    return "" if pure.within is None else " of outputs in " + " × ".join(f"[{a:g}, {b:g}]" for a, b in pure.within)


def _over(result: Result) -> str:
    domain = result.study.pairs.domain
    if domain is None:
        return f"from {len(result.pairs):,} pair{'s' if len(result.pairs) > 1 else ''}"
    return f"of all pairs of inputs in [{domain.lower:g}, {domain.upper:g}], from {domain.points:,} midpoints"


def assumed(result: Result) -> str:
    """What upper limits of a histogram rest on."""
    return "C holds" if result.study.pairs.domain is None else "C and D hold"


def _largest(result: Result, found: dict[str, Any]) -> list[str]:
    """The largest limits of several pairs of a histogram."""
    if not found["rows"]:
        return []
    origin, upper = result.pairs[found["pair"]], "no upper limit"
    if found["upper"] is not None:
        upper = f"ε ≤ {at_most(found['upper'], '.5f')} if C holds and {NO_ATOMS}"
    lower = f"largest of all: {_FIVE(found['certified'])} ≤ ε (pair {found['pair']})"
    named = [f"pair {found['pair']}: {describe_pair(found['pair'], origin)}"] if "rows" in origin else []
    return [f"{lower}, {upper} (pair {found['upper_pair']})", *named]


def notes(result: Result, found: dict[str, Any]) -> list[str]:
    """What each figure rests on; paragraphs."""
    return _histogram_notes(result, found) if result.study.bounds_pure else _pure_notes(result, found)


def _pure_notes(result: Result, found: dict[str, Any]) -> list[str]:
    sure, pure = percent(result.confidence), result.study.pure
    assert pure is not None
    whole = "the limits of all pairs together" if pure.test == "all" else "the pair was chosen by training samples"
    words = [
        f"certified ≥: the mechanism is ε-private for no smaller ε, with confidence {sure}; {whole}; finite-sample, rests on "
        "independent draws alone, whatever the classifier.",
        *trust_words(result.study),
        *changed_words(result),
        "in it: test outputs in the set, of D and of D′ forward, of D′ and of D reverse; each of "
        f"{result.study.estimate.test:,}. The set was chosen by training.",
        *grown_words(result),
    ]
    if found["published"] is None:
        named = ", and at the outputs of `at`" if pure.at else ""
        words.append(
            f"ε̂, LB{named}: none, as densities are estimated of discrete outputs, or of one or two real columns."
        )
        return words
    words += [
        f"ε̂: the largest |ln f − ln f′| on training outputs, densities not below {found['published']['floor']:g} (DPL); a "
        "point estimate.",
        f"LB: the published lower bound (MPL, equation 26) at t̂, asymptotic, with the sign that training found: at {sure}. LB "
        "literal has the absolute value instead, which doubles its false alarms where the loss is 0. Neither is certified.",
    ]
    if pure.test == "all" and len(found["rows"]) > 1:
        words.append(
            "LB and intervals are each pair's by itself. Of the pair with the largest certified limit, which test outputs pick, "
            "they hold at no stated confidence."
        )
    return words


def _histogram_notes(result: Result, found: dict[str, Any]) -> list[str]:
    """What refutes the assumption, where counts do, and what each figure rests on."""
    sure, domain = percent(result.confidence), result.study.pairs.domain
    laws = result["bin_counts"].shape[0]
    words = _refuted(result, found)
    words += [
        f"certified ≥ and ≤: with confidence {sure} both, of all pairs and both directions together, by limits of "
        f"{found['bins']:,} bin{'s' if found['bins'] > 1 else ''} "
        f"of {laws:,} laws, {found['test']:,} outputs each; finite-sample. The lower limit rests on independent draws alone.",
        f"A single value has at most {at_most(found['atom'], '.2g')}, each by itself with confidence 95 %; finite-sample.",
        f"if {assumed(result)}: densities change by at most C = {found['lipschitz']:g} a unit everywhere in the range, and "
        f"{NO_ATOMS}; an assumption, that counts can refute and never prove.",
    ]
    wide, more = "C times half a bin's width", "bins"
    if domain is not None:
        wide, more = f"{wide} and D times half a bucket's length", "bins or points"
        words[-1] += (
            f" And by at most D = {domain.lipschitz:g} while the input moves by a unit: the upper limit is of all inputs, "
            "the lower one of the midpoints."
        )
    if any(entry["upper"] is None for entry in found["rows"] or [found]) and found["refuted"] is None:
        words.append(
            f"none: by its limits the density may be 0 somewhere in a bin. More outputs help; where {wide} are as much as the "
            f"density itself, only more {more} do."
        )
    sizes = describe_sizes(result.study, promised_sizes(result.study, found["test"]))
    return [
        *words,
        *trust_words(result.study),
        *changed_words(result),
        "published ε̂: the largest ln(N/M) of a bin, both directions (Gorla et al. 2023, Algorithm 1), failed where a bin is "
        "empty; a point estimate.",
        f"sizes of the published estimate{'' if domain is not None else ' of one pair'}: {sizes}",
    ]


def _refuted(result: Result, found: dict[str, Any]) -> list[str]:
    refuted, domain = found["refuted"], result.study.pairs.domain
    if refuted is None:
        return []
    low, high = at_least(refuted["densities"][0], ".4g"), at_most(refuted["densities"][1], ".4g")
    if "points" in refuted and domain is not None:
        one, other = (f"{point:.5g}" for point in refuted["points"])
        return [
            f"REFUTED: D = {domain.lipschitz:g}. The density in {_bin(refuted['bin'])} is at least {low} on "
            f"average at midpoint {one}, and at most {high} at {other}: it changes faster with the input than D "
            "allows, so that there is no upper limit. The lower one needs no D.",
            "",
        ]
    side = f"at midpoint {refuted['point']:.5g}" if "point" in refuted else None
    side = side or f"of {refuted['side']} of pair {refuted['pair']}"
    one, other = (_bin(ends) for ends in refuted["bins"])
    return [
        f"REFUTED: C = {found['lipschitz']:g}. The density {side} is at least {low} in {one} on average, and "
        f"at most {high} in {other}: "
        "it changes faster than C allows, so that there is no upper limit. The lower one needs no C.",
        "",
    ]


def rows_table(result: Result) -> str:
    """Removed or edited rows by their certified pure level."""
    entries = _rows(result)
    columns = [
        *([Column("database", "database")] if len({entry["database"] for entry in entries}) > 1 else []),
        Column("row", "row"),
        lower_column("certified", form=_FIVE),
        Column("published.estimate", "ε̂", ASYMPTOTIC, _FOUR),
        Column("published.lower", "LB", ASYMPTOTIC, _FOUR),
        Column("pair", "pair", CHOSEN),
        Column("direction", "direction", CHOSEN),
    ]
    words = [
        f"certified ≥: the pure level of the row's pairs, all rows together with confidence {percent(result.confidence)}; "
        "finite-sample. A row's level is bounded through the neighbours of the study, from below. ε̂ and LB: asymptotic, "
        "of the pair with the largest limit of each row, which test outputs pick: at no stated confidence.",
        *grown_words(result),
    ]
    lines = Table("", columns, entries).lines_and_rest(_SHOWN, "rows")
    return text_of(f"{result.name}: rows by pure ε{_inside(result)}", lines, wrapped(words))


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


def _pure_csv(result: Result) -> str:
    """One line a pair that was tested; where it comes from at the end, rows apart by spaces."""
    found, rows = result.pure, []
    for entry in [] if found is None else found["rows"] or [found]:
        region = entry["region"]
        counts = dict(zip(_EXCEED, [*region["exceed"], *region["test"]], strict=True))
        head = {name: entry[name] for name in ("pair", "direction", "certified")}
        rows.append(
            head
            | {"above": region["above"]}
            | counts
            | (entry["published"] or {})
            | origin_of(result.pairs[entry["pair"]])
        )
    return to_csv(["pair", "direction", "certified", "above", *_EXCEED, *_PUBLISHED, *origin_names(result)], rows)


def _histogram_csv(result: Result) -> str:
    """One line a pair, or the one of the domain."""
    found = result.pure
    entries = [] if found is None else found["rows"] or [found]
    refuted = int(found is not None and found["refuted"] is not None)
    which = "points" if entries and "points" in entries[0] else "pair"
    fields = [which, "certified", "bin", "upper", "upper_bin", "published", "refuted"]
    return to_csv(fields, [entry | {"refuted": refuted} for entry in entries])


def published_renyi_view(result: Result, orders: list[float]) -> View:
    """Rényi divergences from counts of bins, as Gorla et al. estimate them; none while counts are missing, or of a domain."""
    head = {"name": result.name, "complete": result.complete, "confidence": result.confidence}
    usable, entries = [order for order in orders if order > 1.0], []
    if result.study.pairs.domain is None and result["bin_counts"].min() >= 0:
        entries = renyi_entries(result.study, result.arrays, usable)
    return View(
        lambda: head | {"published_renyi": entries} | result.changed_entry, lambda: _renyi_text(result, entries)
    )


def _renyi_text(result: Result, entries: list[dict[str, Any]]) -> str:
    if not entries:
        return f"{result.name}: no published estimate: orders above 1, of listed pairs that have all their counts"
    columns = [
        Column("order", "order", form=general),
        Column("estimate", "published D̂", ASYMPTOTIC, formed(".6f"), nothing="failed"),
        Column("pair", "pair", CHOSEN),
        Column("direction", "direction", CHOSEN),
    ]
    study, test = result.study, int(result["bin_counts"][0].sum())
    words = [
        f"order {entry['order']:g}: {describe_sizes(study, promised_sizes(study, test, entry['order']))}"
        for entry in entries
    ]
    words.append(
        "published D̂: a point estimate, failed where a bin is empty; with these sizes within ±γ if C holds and "
        f"{NO_ATOMS}."
    )
    head = f"{result.name}: Rényi divergences from counts of bins (Gorla et al. 2023)"
    return text_of(head, Table("", columns, entries).lines(), wrapped([*words, *changed_words(result)]))


def risk_text(result: Result) -> str:
    """Of each cover the sensitivity and the ε, the share of losses within it, and the published figures beside them."""
    section = result.study.at_risk
    assert section is not None
    head = f"{result.name}: ε of a sampled sensitivity, {section.pairs:,} pairs of {section.rows:,} rows, Laplace noise of scale "
    head = f"{head}{section.scale:g}{'' if result.complete else '  (INCOMPLETE)'}"
    if not result.risk:
        return text_of(head, f"pairs are missing; go on with: {resume_command(result.store)}")
    return text_of(head, risk_table(result).lines(), wrapped(risk_notes(result)))


def risk_table(result: Result) -> Table:
    """What may be promised of each cover, and what the paper says."""
    five = formed(".5f", at_least)
    columns = [
        Column("cover", "cover"),
        Column("rank", "rank", COUNT, thousands),
        Column("sensitivity", "Δ", FINITE, formed(".6g", at_most)),
        Column("epsilon", "ε", FINITE, formed(".5g", at_most), nothing="inf"),
        lower_column("within.certified", "P[|L| ≤ ε] ≥", five, name="P[|L| <= ε] ≥"),
        Column("within.hits", "hits", COUNT, thousands),
        Column("within.lower", "CP ≥", HEURISTIC, five),
        Column("published", f"Theorem 5 at ρ = {RHO:g}", REFUTED, formed(".4f"), name="Theorem 5"),
        Column("within.published", f"Theorem 6 at ρ = {RHO:g}", REFUTED, formed(".4f"), name="Theorem 6"),
    ]
    return Table("ε of a sampled sensitivity", columns, result.risk)


def risk_notes(result: Result) -> list[str]:
    """What each figure rests on; paragraphs."""
    section, sure = result.study.at_risk, percent(result.confidence)
    assert section is not None
    drawn = (
        "the file, whose rows were drawn with replacement" if section.population.file is not None else "its callable"
    )
    return [
        f"Δ, ε = Δ/scale: with confidence {sure} at least the share `cover` of pairs has a sensitivity of at most Δ, so that no "
        "loss of theirs is above ε, whatever the noise; finite-sample, each cover by itself. Pairs beyond Δ have no limit. "
        f"It is of pairs drawn independently from {drawn}.",
        f"P[|L| <= ε] ≥: over pairs and noise, of one draw of noise a pair; finite-sample with confidence {sure}, also as ε was "
        "taken from these pairs. CP: the Clopper–Pearson limit of the same hits, as if ε had been named before.",
        f"Theorem 5, Theorem 6: γ̂₂ and γ̂₃ of Dandekar et al. as published, at ρ = {RHO:g}, γ̂₃ with ηε₀ = "
        f"{result.risk[0]['within']['epsilon0']:.5g} (largest Δ/scale). Both are refuted: γ̂₂ forgets ρ, γ̂₃ takes noise of its "
        "own for each database. Promise nothing by them.",
        FOR_MORE,
        *changed_words(result),
    ]


def risk_csv(result: Result) -> str:
    """One line a cover."""
    fields = ["cover", "rank", "sensitivity", "epsilon", "published"]
    within = ("hits", "pairs", "lower", "certified", "published", "epsilon0")
    rows = [entry | {f"within_{name}": entry["within"][name] for name in within} for entry in result.risk]
    return to_csv([*fields, *(f"within_{name}" for name in within)], rows)
