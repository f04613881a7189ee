"""Studies without ε: pure ε, certified and published, and rows by it; its interval of a histogram; the covers of [at_risk]."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.errors import StudyError
from hpcdp.losses import validate_parameters
from hpcdp.methods.histogram.decisions import describe_sizes, promised_sizes
from hpcdp.methods.histogram.interval import renyi_entries
from hpcdp.notions.at_risk import RHO
from hpcdp.report.exposed import EVERY_CELL, PAIRS, rows_table
from hpcdp.report.sentences import FOR_MORE, NO_ATOMS, assumed, missing_words, origin_names, origin_of
from hpcdp.report.tables import (
    ASSUMED,
    ASYMPTOTIC,
    CHOSEN,
    CHOSEN_DIRECTION,
    CHOSEN_PAIR,
    COUNT,
    FINITE,
    GIVEN,
    HEURISTIC,
    REFUTED,
    Column,
    Entry,
    Reading,
    Table,
    formed,
    general,
    lower_column,
    thousands,
    to_csv,
    told,
)
from hpcdp.results.result import Result
from hpcdp.store.root import resume_command
from hpcdp.study.pairs import describe_pair

_SHOWN = 30  # pairs or rows that a text lists
_FOUR, _FIVE = formed(".4f"), formed(".5f", at_least)
_EXCEED = ("exceed_0", "exceed_1", "test_0", "test_1")
_PUBLISHED = ("estimate", "at", "lower", "literal", "bandwidth", "floor")


def read_pure(result: Result, _: Any = None) -> Reading:
    """The certified limit beside the published figures, and the loss at outputs that the study names."""
    pure, many = result.pure, len(result.pairs)
    head = f"{result.name}: pure ε{_inside(result)}, from {many:,} pair{'s' if many > 1 else ''}"
    lines = [missing_words("no pair has all its counts yet", result)]
    if pure is not None:
        lines = [] if many == 1 else [f"pair {pure['pair']}: {describe_pair(pure['pair'], result.pairs[pure['pair']])}"]
    return Reading(
        head + ("" if result.complete else "  (INCOMPLETE)"),
        [] if pure is None else _tables(pure),
        [] if pure is None else _notes(result, pure),
        lambda: pure_body(result),
        lambda: _csv(result),
        lines,
    )


def pure_body(result: Result) -> dict[str, Any]:
    """What JSON has of pure ε."""
    warnings = [*result.code_warnings, *result.resolution.warnings]
    return result.heading | {"warnings": warnings, "pure": result.pure}


def _tables(pure: dict[str, Any]) -> list[Table]:
    """The certified limits, the largest first; and the loss at outputs that the study names."""
    entries = sorted(pure["rows"] or [pure], key=lambda entry: -entry["certified"])
    columns = [
        Column("pair", "pair"),
        CHOSEN_DIRECTION,
        lower_column("certified", form=_FIVE),
        Column("region.above", "threshold of the set", CHOSEN, formed(".4g"), said=_set_words, name="set"),
        Column("region.exceed", "outputs in the set", COUNT, _joined, name="in it"),
        Column("published.estimate", "ε̂", ASYMPTOTIC, _FOUR),
        Column("published.at", "at output", ASYMPTOTIC, _output_text, name="at"),
        Column("published.lower", "LB", ASYMPTOTIC, _FOUR),
        Column("published.literal", "LB literal", ASYMPTOTIC, _FOUR),
    ]
    caption = "Pure ε, the largest certified limit first"
    tables = [Table(caption, columns, entries, PAIRS, EVERY_CELL, listed=_SHOWN)]
    published = pure["published"]
    if published is not None and published["intervals"]:
        columns = [
            Column("at", "output", GIVEN, _output_text, nothing="null"),
            *(
                Column(key, name, ASYMPTOTIC, _FOUR)
                for key, name in (("loss", "loss"), ("lower", "from"), ("upper", "to"))
            ),
        ]
        caption = (
            f"Loss of pair {pure['pair']} at outputs named beforehand: ln p/q, each interval by itself (asymptotic)"
        )
        tables.append(Table(caption, columns, published["intervals"]))
    return tables


def _set_words(entry: Entry) -> str:
    return f"{'L̂' if entry['direction'] == 'forward' else '−L̂'} > {entry['region']['above']:.4g}"


def _joined(counts: list[int]) -> str:
    return " : ".join(f"{count:,}" for count in counts)


def _output_text(at: Any) -> str:
    """An output, cut where it is long."""
    text = f"{at:.5g}" if isinstance(at, float) else json.dumps(at, ensure_ascii=False)
    return text if len(text) <= 24 else text[:23] + "…"


def _inside(result: Result) -> str:
    """Of which outputs pure ε is."""
    within = None if result.study.pure is None else result.study.pure.within
    return "" if within is None else " of outputs in " + " × ".join(f"[{a:g}, {b:g}]" for a, b in within)


def _notes(result: Result, measured: dict[str, Any]) -> list[str]:
    sure, pure = percent(result.confidence), result.study.pure
    assert pure is not None
    whole = "the limits of all pairs together" if pure.test == "all" else "the pair was chosen by training samples"
    named = ", and at the outputs of `at`" if pure.at else ""
    certified = [
        f"certified ≥: the mechanism is ε-private for no smaller ε, with confidence {sure}; {whole}; finite-sample, rests on "
        "independent draws alone, whatever the classifier.",
        "in it: test outputs in the set, of D and of D′ forward, of D′ and of D reverse; each of "
        f"{result.study.estimate.test:,}. The set was chosen by training.",
    ]
    published = measured["published"]
    if published is None:
        none = f"ε̂, LB{named}: none, as densities are estimated of discrete outputs, or of one or two real columns."
        return [*certified, none]
    return told(
        *certified,
        f"ε̂: the largest |ln f − ln f′| on training outputs, densities not below {published['floor']:g} (DPL); a point estimate.",
        f"LB: the published lower bound (MPL, equation 26) at t̂, asymptotic, with the sign that training found: at {sure}. LB "
        "literal has the absolute value instead, which doubles its false alarms where the loss is 0. Neither is certified.",
        any(interval["loss"] is None for interval in published["intervals"])
        and "-: no test output of D or of D′ tells of that output.",
        pure.test == "all"
        and len(measured["rows"]) > 1
        and "LB and intervals are each pair's by itself. Of the pair with the largest certified limit, which test outputs pick, "
        "they hold at no stated confidence.",
    )


def read_pure_rows(result: Result, _: bool = True) -> Reading:
    """Removed or edited rows by their certified pure level."""
    entries = _rows(result)
    columns = [
        lower_column("certified", form=_FIVE),
        Column("published.estimate", "ε̂", ASYMPTOTIC, _FOUR),
        Column("published.lower", "LB", ASYMPTOTIC, _FOUR),
        CHOSEN_PAIR,
        CHOSEN_DIRECTION,
    ]
    words = (
        f"certified ≥: the pure level of the row's pairs, all rows together with confidence {percent(result.confidence)}; "
        "finite-sample. A row's level is bounded through the neighbours of the study, from below. ε̂ and LB: asymptotic, "
        "of the pair with the largest limit of each row, which test outputs pick: at no stated confidence."
    )
    return Reading(
        f"{result.name}: rows by pure ε{_inside(result)}",
        [rows_table("Rows by pure ε", columns, entries)],
        [words],
        lambda: pure_body(result),
        lambda: _csv(result),
    )


def _rows(result: Result) -> list[dict[str, Any]]:
    """The pair with the largest certified limit of each row, the most exposed row first."""
    pure = result.study.pure
    assert pure is not None
    if result.study.pairs.relative is None:
        raise StudyError("--rows: accepted with pairs.relative")
    if pure.test != "all":
        raise StudyError('--rows: with [pure] accepted with pure.test = "all"; given: "winner"')
    measured = result.pure
    best: dict[tuple[int, int], dict[str, Any]] = {}
    for entry in [] if measured is None else measured["rows"]:
        for row in entry["rows"]:
            place = entry["database"], row
            if place not in best or best[place]["certified"] < entry["certified"]:
                best[place] = {**entry, "row": row}
    if not best:
        raise StudyError(f"--rows: no pair has all its counts yet; go on with: {resume_command(result.store)}")
    return sorted(best.values(), key=lambda entry: (-entry["certified"], entry["database"], entry["row"]))


def _csv(result: Result) -> str:
    """One line a pair that was tested; where it comes from at the end, rows apart by spaces."""
    pure, rows, own = result.pure, [], ["pair", "direction", "certified"]
    for entry in [] if pure is None else pure["rows"] or [pure]:
        region, published = entry["region"], entry["published"] or {}
        counts = dict(zip(_EXCEED, [*region["exceed"], *region["test"]], strict=True))
        head = {name: entry[name] for name in own} | {"above": region["above"]}
        rows.append(head | counts | published | origin_of(result.pairs[entry["pair"]]))
    return to_csv([*own, "above", *_EXCEED, *_PUBLISHED, *origin_names(result)], rows)


def read_covers(result: Result, _: Any = None) -> Reading:
    """Of each cover the sensitivity and the ε, the share of losses within it, and the published figures beside them."""
    section = result.study.at_risk
    assert section is not None
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
    caption, state = "ε of a sampled sensitivity", "" if result.complete else "  (INCOMPLETE)"
    fields = ["cover", "rank", "sensitivity", "epsilon", "published"]
    within = ("hits", "pairs", "lower", "certified", "published", "epsilon0")
    return Reading(
        f"{result.name}: {caption}, {section.pairs:,} pairs of {section.rows:,} rows, Laplace noise of scale "
        f"{section.scale:g}{state}",
        [Table(caption, columns, result.risk)] if result.risk else [],
        _cover_notes(result) if result.risk else [],
        result.to_dict,
        lambda: to_csv([*fields, *(f"within.{name}" for name in within)], result.risk),
        [] if result.risk else [missing_words("pairs are missing", result)],
    )


def _cover_notes(result: Result) -> list[str]:
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
    ]


def read_interval(result: Result, _: Any = None) -> Reading:
    """The certified limit of pure ε, with the upper limit that holds if densities are as is assumed."""
    pure, e, domain, many = result.pure, result.study.estimate, result.study.pairs.domain, len(result.pairs)
    given: Any = validate_parameters(e.default_loss, e.parameters)
    over = f"from {many:,} pair{'s' if many > 1 else ''}"
    if domain is not None:
        over = f"of all pairs of inputs in [{domain.lower:g}, {domain.upper:g}], from {domain.points:,} midpoints"
    state = "" if result.complete else "  (INCOMPLETE)"
    return Reading(
        f"{result.name}: pure ε of outputs in [{given.range[0]:g}, {given.range[1]:g}], {over}{state}",
        [] if pure is None else [_interval_table(result, pure)],
        [] if pure is None else _interval_notes(result, pure),
        lambda: pure_body(result),
        lambda: _interval_csv(result),
        [missing_words("not all counts are there yet", result)] if pure is None else _largest(result, pure),
    )


def _interval_table(result: Result, pure: dict[str, Any]) -> Table:
    which = Column("pair", "pair")
    if result.study.pairs.domain is not None:
        which = Column("points", "midpoints", form=lambda points: " : ".join(f"{x:.5g}" for x in points))
    columns = [
        which,
        lower_column("certified", form=_FIVE),
        Column("bin", "in bin", COUNT, _bin),
        Column("upper", f"≤ if {assumed(result)}", ASSUMED, formed(".5f", at_most), nothing="none"),
        Column("upper_bin", "in bin ", COUNT, _bin, name="in bin"),
        Column("published", "published ε̂", ASYMPTOTIC, formed(".4f"), nothing="failed"),
    ]
    entries = sorted(pure["rows"] or [pure], key=lambda entry: -entry["certified"])
    caption = "Pure ε of outputs in bins, the largest certified limit first"
    return Table(caption, columns, entries, PAIRS, EVERY_CELL, listed=_SHOWN)


def _bin(ends: list[float]) -> str:
    return f"[{ends[0]:.5g}, {ends[1]:.5g}]"


def _largest(result: Result, pure: dict[str, Any]) -> list[str]:
    """The largest limits of several pairs of a histogram."""
    if not pure["rows"]:
        return []
    origin, upper = result.pairs[pure["pair"]], "no upper limit"
    if pure["upper"] is not None:
        upper = f"ε ≤ {at_most(pure['upper'], '.5f')} if C holds and {NO_ATOMS}"
    lower = f"largest of all: {_FIVE(pure['certified'])} ≤ ε (pair {pure['pair']})"
    named = [f"pair {pure['pair']}: {describe_pair(pure['pair'], origin)}"] if "rows" in origin else []
    return [f"{lower}, {upper} (pair {pure['upper_pair']})", *named]


def _interval_notes(result: Result, pure: dict[str, Any]) -> list[str]:
    """What refutes the assumption, where counts do, and what each figure rests on."""
    sure, domain = percent(result.confidence), result.study.pairs.domain
    laws = result["bin_counts"].shape[0]
    words = _refuted(result, pure)
    words += [
        f"certified ≥ and ≤: with confidence {sure} both, of all pairs and both directions together, by limits of "
        f"{pure['bins']:,} bin{'s' if pure['bins'] > 1 else ''} "
        f"of {laws:,} distributions, {pure['test']:,} outputs each; finite-sample. The lower limit rests on "
        "independent draws alone.",
        f"A single value has at most {at_most(pure['atom'], '.2g')}, each by itself with confidence 95 %; finite-sample.",
        f"if {assumed(result)}: densities change by at most C = {pure['lipschitz']:g} a unit everywhere in the range, and "
        f"{NO_ATOMS}; an assumption, that counts can refute and never prove.",
    ]
    wide, more = "C times half a bin's width", "bins"
    if domain is not None:
        wide, more = f"{wide} and D times half a bucket's length", "bins or points"
        words[-1] += (
            f" And by at most D = {domain.lipschitz:g} while the input moves by a unit: the upper limit is of all inputs, "
            "the lower one of the midpoints."
        )
    if any(entry["upper"] is None for entry in pure["rows"] or [pure]) and pure["refuted"] is None:
        words.append(
            f"none: by its limits the density may be 0 somewhere in a bin. More outputs help; where {wide} are as much as the "
            f"density itself, only more {more} do."
        )
    sizes = describe_sizes(result.study, promised_sizes(result.study, pure["test"]))
    return [
        *words,
        "published ε̂: the largest ln(N/M) of a bin, both directions (Gorla et al. 2023, Algorithm 1), failed where a bin is "
        "empty; a point estimate.",
        f"sizes of the published estimate{'' if domain is not None else ' of one pair'}: {sizes}",
    ]


def _refuted(result: Result, pure: dict[str, Any]) -> list[str]:
    refuted, domain = pure["refuted"], result.study.pairs.domain
    if refuted is None:
        return []
    low, high = at_least(refuted["densities"][0], ".4g"), at_most(refuted["densities"][1], ".4g")
    if "points" in refuted and domain is not None:
        dense, thin = (f"{point:.5g}" for point in refuted["points"])
        return [
            f"REFUTED: D = {domain.lipschitz:g}. The density in {_bin(refuted['bin'])} is at least {low} on "
            f"average at midpoint {dense}, and at most {high} at {thin}: it changes faster with the input than D "
            "allows, so that there is no upper limit. The lower one needs no D.",
            "",
        ]
    side = f"at midpoint {refuted['point']:.5g}" if "point" in refuted else None
    side = side or f"of {refuted['side']} of pair {refuted['pair']}"
    dense, thin = (_bin(ends) for ends in refuted["bins"])
    return [
        f"REFUTED: C = {pure['lipschitz']:g}. The density {side} is at least {low} in {dense} on average, and at most {high} "
        f"in {thin}: it changes faster than C allows, so that there is no upper limit. The lower one needs no C.",
        "",
    ]


def _interval_csv(result: Result) -> str:
    """One line a pair, or the one of the domain."""
    pure = result.pure
    entries = [] if pure is None else pure["rows"] or [pure]
    refuted = int(pure is not None and pure["refuted"] is not None)
    which = "points" if entries and "points" in entries[0] else "pair"
    fields = [which, "certified", "bin", "upper", "upper_bin", "published", "refuted"]
    return to_csv(fields, [entry | {"refuted": refuted} for entry in entries])


def read_published_renyi(result: Result, orders: Sequence[float]) -> Reading:
    """Rényi divergences from counts of bins, as Gorla et al. estimate them; none while counts are missing, or of a domain."""
    study, entries, words = result.study, list[dict[str, Any]](), list[str]()
    if study.pairs.domain is None and result["bin_counts"].min() >= 0:
        entries = renyi_entries(study, result.arrays, [order for order in orders if order > 1.0])
    columns = [
        Column("order", "order", form=general),
        Column("estimate", "published D̂", ASYMPTOTIC, formed(".6f"), nothing="failed"),
        CHOSEN_PAIR,
        CHOSEN_DIRECTION,
    ]
    if entries:
        test = int(result["bin_counts"][0].sum())
        words = [
            f"order {e['order']:g}: {describe_sizes(study, promised_sizes(study, test, e['order']))}" for e in entries
        ]
        words.append(
            "published D̂: a point estimate, failed where a bin is empty; with these sizes within ±γ if C holds and "
            f"{NO_ATOMS}."
        )
    head = f"{result.name}: Rényi divergences from counts of bins (Gorla et al. 2023)"
    return Reading(
        head if entries else f"{head}: no estimate: orders above 1, of listed pairs that have all their counts",
        [Table("Rényi divergences from counts of bins", columns, entries)] if entries else [],
        words,
        lambda: result.heading | {"published_renyi": entries} | result.changed_entry,
    )
