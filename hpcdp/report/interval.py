"""The interval of pure ε of a histogram: what is certified, what is assumed, and the published estimates beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.losses import validate_parameters
from hpcdp.methods.histogram.decisions import describe_sizes, promised_sizes
from hpcdp.methods.histogram.interval import renyi_entries
from hpcdp.report.exposed import EVERY_CELL, PAIRS
from hpcdp.report.pure import pure_body
from hpcdp.report.sentences import NO_ATOMS, assumed, missing_words
from hpcdp.report.tables import (
    ASSUMED,
    ASYMPTOTIC,
    CHOSEN_DIRECTION,
    CHOSEN_PAIR,
    COUNT,
    Column,
    Reading,
    Table,
    formed,
    general,
    lower_column,
    to_csv,
)
from hpcdp.results.result import Result
from hpcdp.study.pairs import describe_pair

_SHOWN = 30  # pairs that a text lists
_FIVE = formed(".5f", at_least)


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
        [] if pure is None else [_table(result, pure)],
        [] if pure is None else _notes(result, pure),
        lambda: pure_body(result),
        lambda: _csv(result),
        [missing_words("not all counts are there yet", result)] if pure is None else _largest(result, pure),
    )


def _table(result: Result, pure: dict[str, Any]) -> Table:
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


def _notes(result: Result, pure: dict[str, Any]) -> list[str]:
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


def _csv(result: Result) -> str:
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
