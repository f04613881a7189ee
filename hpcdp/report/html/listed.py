"""The tables of a page, each from what JSON has of the same result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcdp._base.rounding import at_least, at_most, gap, share
from hpcdp.notions.at_risk import RHO
from hpcdp.report import tape
from hpcdp.report.exposed import Exposure, find_exposure, pair_words
from hpcdp.report.histogram import assumed
from hpcdp.report.html.marks import (
    ASSUMED,
    ASYMPTOTIC,
    CHOSEN,
    COUNT,
    FINITE,
    GIVEN,
    HEURISTIC,
    LEFTOVER,
    LIMITED,
    REFUTED,
)
from hpcdp.report.html.tables import Column, Entry, Table, decimals, general, lower_column, make_table, thousands
from hpcdp.report.pure import output_text
from hpcdp.results.audit import Audit
from hpcdp.results.renyi import RenyiLevel, ZcdpLevel
from hpcdp.results.result import Result

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim

POINTS, PAIRS = 200, 50
"""Rows that a table lists at most: of trade-off points, and of pairs."""

_CSV = "hpcdp show --format csv has every cell"
_DIRECTION = Column("direction", "direction", CHOSEN)
_PAIR = Column("pair", "pair", GIVEN)


def _is_resolved(entry: Entry) -> bool:
    return bool(entry["resolved"])


def _said(words: str) -> Any:
    """How a truth reads, and what is not true as "no"."""
    return lambda value: words if value else "no"


def _joined(values: Any) -> str:
    return " : ".join(f"{value:,}" for value in values)


def _ends(values: Any) -> str:
    return f"[{values[0]:.5g}, {values[1]:.5g}]"


def spectrum_table(result: Result, claim: Claim | None) -> Table:
    """The largest δ at each ε, with its bounds, beside the claim."""
    entries: list[dict[str, Any]] = [dict(row) for row in result.spectrum()]
    errors = tape.errors(result) if result.is_tape else []
    for number, entry in enumerate(entries):
        if errors:
            entry["standard_error"] = errors[number]
        if claim is not None:
            entry["claimed"] = float(claim.implied(entry["epsilon"]))
            entry["violated"] = entry["lower"] > entry["claimed"]
    columns = [
        Column("epsilon", "ε", GIVEN, general),
        Column("delta", "δ̂", ASYMPTOTIC, share, _is_resolved),
        *([Column("standard_error", "± error", ASYMPTOTIC, share, _is_resolved)] if errors else []),
    ]
    if any(not entry["resolved"] for entry in entries):
        limited_by, limited = (ASYMPTOTIC, ASYMPTOTIC) if result.is_tape else (FINITE, LIMITED)
        columns += [
            Column("resolved", "told from 0", limited_by, lambda value: "yes" if value else "not resolved"),
            Column("limit", "learned sets ≤", limited, at_most),
        ]
    if result.is_tape:
        columns.append(Column("lower_up_to_leftover", "up to the leftover ≥", LEFTOVER, at_least))
    columns.append(lower_column())
    if any("certified" in entry for entry in entries):
        columns.append(Column("certified", "bound", GIVEN, lambda value: "its own" if value else "implied †"))
    approximate = HEURISTIC if result.way.draws_apart else ASYMPTOTIC  # of literal-knn a limit of its own risk
    columns.append(Column("upper", "approx ≤", approximate, at_most, _is_resolved))
    if claim is not None:
        columns += [
            Column("claimed", "claimed", GIVEN, share),
            Column("violated", "claim violated", FINITE, _said("violated")),
        ]
    if len(result.pairs) > 1:
        columns.append(Column("pair", "pair of δ̂", CHOSEN, str, _is_resolved))
    columns.append(Column("direction", "direction of δ̂", CHOSEN, str, _is_resolved))
    if len(result.pairs) > 1:
        columns.append(Column("lower_pair", "pair of the bound", CHOSEN, str))
    columns.append(Column("lower_direction", "direction of the bound", CHOSEN))
    over = "both directions of one pair" if len(result.pairs) == 1 else f"{len(result.pairs):,} pairs, both directions"
    return make_table(f"Spectrum: the largest δ(ε) over {over}", columns, entries)


def leading_points(result: Result) -> list[dict[str, Any]]:
    """Trade-off points, those of the most exposed pairs first."""
    found = find_exposure(result) if result["delta"].size else None
    ranks = {int(pair): rank for rank, pair in enumerate(found.order)} if found is not None else {}
    return sorted(result.tradeoff(), key=lambda point: ranks.get(point["pair"], len(ranks)))


def tradeoff_table(result: Result) -> Table:
    """Trade-off points with the limits of both errors."""
    columns = [
        _PAIR,
        Column("eta", "η", GIVEN, general),
        Column("alpha", "α̃", ASYMPTOTIC, share),
        Column("beta", "β̃", ASYMPTOTIC, share),
        Column("radius", "radius", FINITE, at_most),
        Column("alpha_upper", "α ≤", FINITE, at_most),
        Column("beta_upper", "β ≤", FINITE, at_most),
    ]
    caption = "Trade-off points: errors of the test that rejects when q/p > η"
    return make_table(caption, columns, leading_points(result), POINTS, "hpcdp show --format json has every point")


def exposed_table(result: Result, found: Exposure) -> Table:
    """Pairs where the most exposed one leads, the largest δ̂ first; never what is in a row."""
    near = {found.pair, *found.close.tolist()}
    lower = np.nan_to_num(result["lower"][:, :, found.column].max(axis=1), nan=0.0)
    ordered = np.argsort(-lower, kind="stable")
    rest = ordered[~np.isin(ordered, found.order)].tolist()
    entries = []
    for pair in [*found.order.tolist(), *rest][:PAIRS]:
        told = not np.isnan(found.delta[pair])
        entries.append(
            {
                "pair": pair,
                "who": pair_words(result, pair),
                "delta": float(found.delta[pair]) if told else None,
                "error": float(found.error[pair]) if told else None,
                "near": pair in near,
                "lower": float(lower[pair]),
            }
        )
    columns = [
        Column("who", "pair", GIVEN),
        Column("delta", "δ̂", ASYMPTOTIC, share),
        Column("error", "± error", ASYMPTOTIC, share),
        Column("near", "within noise", HEURISTIC, _said("most exposed, or within noise of it")),
        lower_column(),
    ]
    at = f"{result['epsilon'][found.column]:g}"
    table = make_table(f"Most exposed pairs at ε = {at}", columns, entries)
    return Table(table.caption, columns, table.rows, len(result.pairs) - len(entries), _CSV)


def pure_tables(_: Result, found: dict[str, Any]) -> list[Table]:
    """Of a study with [pure]: the certified limit beside the published figures, the largest first; the loss where it is named."""
    published = "published."
    columns = [
        _PAIR,
        _DIRECTION,
        lower_column("certified", form=decimals(5, at_least)),
        Column("region.above", "threshold of the set", CHOSEN, lambda value: f"{value:.4g}"),
        Column("region.exceed", "outputs in the set", COUNT, _joined),
        Column(f"{published}estimate", "ε̂", ASYMPTOTIC, decimals(4)),
        Column(f"{published}at", "at output", ASYMPTOTIC, output_text),
        Column(f"{published}lower", "LB", ASYMPTOTIC, decimals(4)),
        Column(f"{published}literal", "LB literal", ASYMPTOTIC, decimals(4)),
    ]
    entries = sorted(found["rows"] or [found], key=lambda entry: -entry["certified"])
    limits = make_table("Pure ε, the largest certified limit first", columns, entries, PAIRS, _CSV)
    return [limits, *_intervals(found)]


def _intervals(found: dict[str, Any]) -> list[Table]:
    """The loss at outputs that the study names."""
    published = found["published"]
    if published is None or not published["intervals"]:
        return []
    columns = [
        Column("at", "output", GIVEN, output_text),
        Column("loss", "ln p/q", ASYMPTOTIC, decimals(4)),
        Column("lower", "from", ASYMPTOTIC, decimals(4)),
        Column("upper", "to", ASYMPTOTIC, decimals(4)),
    ]
    return [make_table(f"Loss of pair {found['pair']} at outputs named beforehand", columns, published["intervals"])]


def histogram_tables(result: Result, found: dict[str, Any]) -> list[Table]:
    """The interval of pure ε of a histogram."""
    entries = sorted(found["rows"] or [found], key=lambda entry: -entry["certified"])
    is_domain = result.study.pairs.domain is not None
    who = Column("points", "midpoints", GIVEN, lambda v: " : ".join(f"{x:.5g}" for x in v)) if is_domain else _PAIR
    columns = [
        who,
        lower_column("certified", form=decimals(5, at_least)),
        Column("bin", "in bin", COUNT, _ends),
        Column("upper", f"≤ if {assumed(result)}", ASSUMED, decimals(5, at_most)),
        Column("upper_bin", "in bin ", COUNT, _ends),
        Column("published", "published ε̂", ASYMPTOTIC, decimals(4)),
    ]
    return [make_table("Pure ε of outputs in bins, the largest certified limit first", columns, entries, PAIRS, _CSV)]


def risk_table(result: Result) -> Table:
    """Of a study with [at_risk]: what may be promised of each cover, and what the paper says."""
    columns = [
        Column("cover", "cover", GIVEN),
        Column("rank", "rank", COUNT, thousands),
        Column("sensitivity", "Δ", FINITE, lambda value: at_most(value, ".6g")),
        Column("epsilon", "ε", FINITE, lambda value: at_most(value, ".5g")),
        lower_column("within.certified", "P[|L| ≤ ε] ≥", decimals(5, at_least)),
        Column("within.hits", "hits", COUNT, thousands),
        Column("within.lower", "CP ≥", HEURISTIC, decimals(5, at_least)),
        Column("published", f"Theorem 5 at ρ = {RHO:g}", REFUTED, decimals(4)),
        Column("within.published", f"Theorem 6 at ρ = {RHO:g}", REFUTED, decimals(4)),
    ]
    return make_table("ε of a sampled sensitivity", columns, result.risk)


def box_table(audit: Audit) -> Table:
    """Boxes of an audit, the largest margin first."""
    columns = [
        _PAIR,
        Column("orientation", "orientation", GIVEN),
        Column("eta", "η", HEURISTIC, lambda value: f"{value:.4g}"),
        Column("alpha", "α̃", ASYMPTOTIC, share),
        Column("beta", "β̃", ASYMPTOTIC, share),
        Column("alpha_upper", "α ≤", FINITE, at_most),
        Column("beta_upper", "β ≤", FINITE, at_most),
        Column("claimed", "claimed ≥", GIVEN, at_least),
        Column("margin", "margin", FINITE, gap),
        Column("violated", "claim violated", FINITE, _said("violated")),
    ]
    entries = [vars(box) for box in sorted(audit.boxes, key=lambda box: -box.margin)]
    return make_table(
        "Audit: one test a pair, the largest margin first",
        columns,
        entries,
        PAIRS,
        "hpcdp audit --format json has every one",
    )


def bounds_table(audit: Audit) -> Table:
    """What an audit certifies of μ and of ε."""
    entries = [{"what": "μ of Gaussian DP", "box": audit.bounds.mu[0], "all": audit.bounds.mu[1]}]
    entries += [{"what": f"ε at δ = {d:g}", "box": box, "all": every} for d, box, every in audit.bounds.epsilon]
    columns = [
        Column("what", "quantity", GIVEN),
        lower_column("box", "certified ≥, from the boxes", decimals(4, at_least)),
        lower_column("all", "certified ≥, from every η", decimals(4, at_least)),
    ]
    return make_table("Certified lower bounds, each column by itself", columns, entries)


def renyi_table(levels: Sequence[RenyiLevel], rho: ZcdpLevel) -> Table:
    """Rényi divergences of some orders, and ρ."""
    entries: list[dict[str, Any]] = [
        {"what": f"D of order {level.order:g}" + (" (KL)" if level.order == 1.0 else ""), **vars(level)}
        | {"variational": None if level.variational is None else vars(level.variational)}
        for level in levels
    ]
    empty = {"estimate": None, "variational": None}
    entries.append({"what": "ρ of zero-concentrated DP", **empty, **vars(rho)})
    five = decimals(5, at_least)
    columns = [
        Column("what", "quantity", GIVEN),
        Column("estimate", "D̂", ASYMPTOTIC, decimals(4)),
        lower_column(form=five),
        Column("pair", "pair", CHOSEN),
        _DIRECTION,
        lower_column("variational.lower", "or: certified ≥", five),
    ]
    return make_table("Rényi divergences in nats, and ρ", columns, entries)


def rows_table(held: Sequence[Entry]) -> Table:
    """What is in the most exposed rows; for who asks for it."""
    columns = [
        _PAIR,
        Column("database", "database", GIVEN),
        Column("rows", "rows", GIVEN),
        Column("row", "contents", GIVEN),
        *([Column("value", "set to", GIVEN)] if any("value" in entry for entry in held) else []),
    ]
    return make_table("Contents of the most exposed rows", columns, held)
