"""What `show` tells of a spectrum besides itself: ε at given δ, Rényi divergences, privacy at risk, and how accurate δ̂ is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.analytic import Curve
from hpcdp.notions.epsilon_at import BELOW, BEYOND
from hpcdp.report.exposed import exposed_lines
from hpcdp.report.tables import (
    ASYMPTOTIC,
    CHOSEN,
    FINITE,
    LEFTOVER,
    Column,
    Entry,
    Table,
    View,
    formed,
    general,
    lower_column,
    text_of,
    to_csv,
    wrapped,
)
from hpcdp.report.words import (
    FOR_MORE,
    base_words,
    basis_words,
    changed_words,
    claim_of,
    estimate,
    grown_words,
    leading_words,
    leftover_words,
    limit_words,
    over_words,
    raced_words,
    rests_on,
    state_words,
    trust_words,
    warning_words,
)
from hpcdp.results.bootstrap import Error
from hpcdp.results.epsilon_at import NO_ESTIMATE, OF_DELTA, Level
from hpcdp.results.renyi import RenyiLevel, ZcdpLevel
from hpcdp.results.result import Result
from hpcdp.results.risk import RiskLevel, risk_levels

_FIVE = formed(".5f", at_least)
_PAIR, _DIRECTION = Column("pair", "pair", CHOSEN), Column("direction", "direction", CHOSEN)
_METHODS = {
    "chunks": "chunks of test outputs drawn with replacement",
    "classes": "multinomial over the classes of L̂ (records hold several chunks, or there are few)",
    "folds": "multinomial over the classes of L̂, fold by fold",
    "errors": "binomial over testing errors",
    "weights": "chunks of draws from proposals drawn with replacement",
    "normal": "normal, by the standard error, as there are few chunks",
}
_SIDES = {"d": "D", "d_prime": "D′"}


def _head(result: Result) -> dict[str, Any]:
    """What the object of each view begins with."""
    return {"name": result.name, "complete": result.complete, "confidence": result.confidence, **result.declared}


def levels_view(result: Result, levels: Sequence[Level]) -> View:
    """ε at some δ."""
    rows = [level.to_dict() for level in levels]
    return View(
        lambda: _head(result) | {"levels": rows, "warnings": result.warnings},
        lambda: _levels_text(result, levels),
        lambda: to_csv([*rows[0]], rows),
    )


def _levels_text(result: Result, levels: Sequence[Level]) -> str:
    """At each δ: the estimate and its bounds; which set shows the certified one; and what each number rests on."""
    entries = [{**vars(level), "shown": _shown_estimate(level)} for level in levels]
    columns = [
        Column("delta", "δ", form=general),
        Column("shown", "ε̂", ASYMPTOTIC),
        *([Column("up_to_leftover", "up to the leftover ≥", LEFTOVER, _FIVE)] if result.is_tape else []),
        lower_column(form=_FIVE),
        Column("upper", "approx ≤", ASYMPTOTIC, formed(".4f", at_most)),
        _PAIR,
        _DIRECTION,
        Column("epsilon", "set", CHOSEN, lambda epsilon: f"L̂ > {epsilon:g}"),
    ]
    return text_of(
        f"{result.name}: ε at given δ, {over_words(result)}",
        Table("", columns, entries).lines(),
        leading_words(result, [level.pair for level in levels]),
        exposed_lines(result),
        wrapped(_level_notes(result, levels)),
    )


def _shown_estimate(level: Level) -> str:
    if level.estimate is not None and level.estimate_low is not None:
        low, high = at_least(level.estimate_low, ".4f"), at_most(level.estimate, ".4f")
        return high if float(low) >= float(high) else f"[{low}, {high}]"
    if level.reach is None:
        return "-" if level.found == NO_ESTIMATE else level.found
    return f"{'<=' if level.found == BELOW else '>'} {level.reach:g} ({level.found})"


def _level_notes(result: Result, levels: Sequence[Level]) -> list[str]:
    alone = len(levels) == 1 and levels[0].delta == 0.0
    if any(level.family == OF_DELTA for level in levels):
        family = "From the bounds on δ, and together with them."
    elif alone:
        family = "δ = 0 alone: from an exact test of its own, a family that holds with no limit at another δ."
    else:
        family = "A family of its own: these limits together, and the bounds on δ together, not all at once."
    found = [
        f"certified ≥: the mechanism is (ε, δ)-private for no smaller ε, with confidence {percent(result.confidence)}"
        f"{'' if alone else ' for every δ at once'}; finite-sample, {rests_on(result)}. δ = 0: pure differential privacy. "
        + family,
        *trust_words(result.study),
        *changed_words(result),
    ]
    if result.is_tape:
        found += [
            "up to the leftover ≥: by itself no limit: what would be certified if no plain draw could lie in the leftover, of "
            "probability r. At any smaller ε, δ(ε) ≥ δ − e^ε·r is certified.",
            *leftover_words(result),
            *basis_words(result),
            *raced_words(result),
        ]
    found.append(
        "ε̂: where the largest δ̂ falls to δ: from what the study's ε on both sides show, to linear in e^ε between them. "
        "Interpolation adds at most the width; what the learned set misses may lower both. ε̂ and approx ≤ rest on the "
        "classifier too, and are at least what is certified."
    )
    if any(level.found == BEYOND for level in levels):
        found.append("beyond the grid: the largest δ̂ is above δ at the study's last ε. Add larger ε.")
    if any(level.found == NO_ESTIMATE for level in levels):
        found.append("δ = 0 has a certified limit only: counts cannot tell δ = 0 from a small δ.")
    return [*found, *warning_words(result), *grown_words(result)]


def renyi_view(result: Result, levels: Sequence[RenyiLevel], rho: ZcdpLevel | None) -> View:
    """Rényi divergences of some orders, and ρ where it is asked for; in CSV second bounds have lines of their own."""
    found = [asdict(level) for level in levels]
    rows = [*found, *({"order": row["order"]} | row["variational"] for row in found if row["variational"] is not None)]
    rows += [] if rho is None else [asdict(rho) | {"order": "zcdp"}]
    asked = ({"renyi": found} if levels else {}) | ({} if rho is None else {"zcdp": asdict(rho)})
    return View(
        lambda: _head(result) | asked | {"warnings": result.warnings},
        lambda: _renyi_text(result, levels, rho),
        lambda: to_csv([name for name in RenyiLevel.__dataclass_fields__ if name != "variational"], rows),
    )


def renyi_table(result: Result, levels: Sequence[RenyiLevel], rho: ZcdpLevel | None) -> Table:
    """Rényi divergences of some orders, and on pages ρ."""
    entries = [
        asdict(level) | {"what": f"D of order {level.order:g}" + " (KL)" * (level.order == 1.0)} for level in levels
    ]
    if rho is not None:
        entries.append(asdict(rho) | {"what": "ρ of zero-concentrated DP"})
    both = any(level.variational is not None for level in levels)
    columns = [
        Column("what", "quantity", said=lambda e: e["what"].removeprefix("D of order "), name="order"),
        Column(
            "estimate", "D̂", ASYMPTOTIC, formed(".4f"), nothing="not resolved" if "exceed" in result.arrays else "-"
        ),
        lower_column(form=_FIVE),
        _PAIR,
        _DIRECTION,
        lower_column("variational.lower", "or: certified ≥", _FIVE, only=None if both else "page"),
    ]
    if both:
        columns += [Column(f"variational.{name}", name, CHOSEN, only="text") for name in ("pair", "direction")]
    return Table("Rényi divergences in nats, and ρ", columns, entries)


def _renyi_text(result: Result, levels: Sequence[RenyiLevel], rho: ZcdpLevel | None) -> str:
    """Each order with its estimate and certified bound, then ρ; and what each number rests on."""
    certified = ""
    if rho is not None:
        whose = "" if rho.order is None else f", by order {rho.order:g} of pair {rho.pair}, {rho.direction}"
        certified = f"zero-concentrated DP: ρ certified ≥ {at_least(rho.lower, '.5f')}{whose}"
    pairs = [level.pair for level in levels] + ([rho.pair] if rho is not None else [])
    pairs += [level.variational.pair for level in levels if level.variational is not None]
    return text_of(
        f"{result.name}: Rényi divergences, {over_words(result)}",
        renyi_table(result, levels, None).lines() if levels else [],
        certified,
        leading_words(result, pairs),
        wrapped(renyi_notes(result, levels)),
    )


def renyi_notes(result: Result, levels: Sequence[RenyiLevel]) -> list[str]:
    """What each bound and estimate rests on."""
    sure, named = percent(result.confidence), result.study.estimate.renyi or ()
    found = [
        f"certified ≥: with confidence {sure}, all orders and ρ together with the bounds on δ: it is their integral; "
        f"finite-sample, {rests_on(result)}. In nats; what lies beyond the study's ε is left out.",
        *base_words(result),
    ]
    if any(level.variational is not None for level in levels):
        found.append(
            f"or: certified ≥: the family of estimate.renyi, its orders together at {sure}, finite-sample. "
            "Each of both columns holds by itself; the larger of two bounds has no stated confidence."
        )
    if result.complete and any(level.order in named and level.variational is None for level in levels):
        found.append(
            "The bound of estimate.renyi: none, since ε were added to a study with refine, whose classes are then of several L̂."
        )
    if result.is_tape:
        found.append(
            "D̂: none, as draws have weights. Bounds are of the certified row, not of what is up to the leftover."
        )
    elif "exceed" not in result.arrays:
        found.append(
            "D̂: none, as each cell has draws and a classifier of its own, so that there are no classes to compare."
        )
    elif levels:
        found.append(
            "D̂: of the classes of L̂ between the study's ε, at least what is certified; asymptotic; rests on the classifier too."
        )
        if any(level.estimate is None for level in levels):
            found.append(
                "not resolved: a class has no test output of one side, so D̂ would be infinite; or counts are missing."
            )
    return [*found, *warning_words(result), *grown_words(result)]


def risk_view(result: Result, epsilons: Sequence[float]) -> View:
    """P[|L| > ε] at some levels, beside what the study's claim of a pure ε, if it makes one, adds."""
    claim = claim_of(result)
    bound = None if claim is None else claim.bound
    level = bound.pure() if isinstance(bound, Curve) else None
    levels = risk_levels(result, epsilons, level if level is not None and math.isfinite(level) else None)
    rows = [asdict(level) for level in levels]
    return View(
        lambda: _head(result) | result.changed_entry | {"risk": rows},
        lambda: _risk_text(result, rows),
        lambda: to_csv([*RiskLevel.__dataclass_fields__], rows),
    )


def _risk_text(result: Result, rows: Sequence[Entry]) -> str:
    """At each level the estimate and the certified limits, and what each number rests on."""
    epsilon0 = rows[0]["epsilon0"]
    columns = [
        Column("epsilon", "ε", form=general),
        Column("estimate", "P̂[|L̂| > ε]", ASYMPTOTIC, share),
        Column("standard_error", "± error", ASYMPTOTIC, formed(".1e")),
        _PAIR,
        Column("side", "of", CHOSEN, lambda side: _SIDES[side]),
        lower_column(heading="certified P[L > ε] ≥"),
    ]
    if epsilon0 is not None:
        columns.append(Column("claimed", f"if {epsilon0:g}-DP ≥", FINITE, said=_claimed))
    notes = [
        "certified: some pair and direction has P[L > ε] of at least δ(ε), for all ε together with confidence "
        f"{percent(result.confidence)}; finite-sample, {rests_on(result)}.",
        *base_words(result),
        "P̂[|L̂| > ε]: the share of test outputs of a database; it rests on the classifier, and bounds nothing. Its error is "
        "asymptotic, of one pair. It is told at the study's ε, where sets are {L̂ > ε} (no refine, target, time, reuse, tape).",
    ]
    if epsilon0 is not None:
        notes.append(
            f"if {epsilon0:g}-DP: δ(ε)/(1 − e^(ε − {epsilon0:g})), if the claim holds; above 1 it is refuted. "
            f"By the claim the risk is 0 from ε = {epsilon0:g} on."
        )
    head = f"{result.name}: privacy at risk, the largest over all pairs and both databases{state_words(result)}"
    return text_of(head, Table("", columns, rows).lines(), wrapped([*notes, FOR_MORE]))


def _claimed(entry: Entry) -> str:
    if entry["claimed"] is not None:
        return at_least(entry["claimed"])
    return "refuted" if entry["lower"] > 0.0 else "-"


def accuracy_view(result: Result, errors: Sequence[Error]) -> View:
    """The largest estimate at each level, its standard errors, and what is stated of it."""
    return View(lambda: [vars(error) for error in errors], lambda: _accuracy_text(result, errors))


def _accuracy_text(result: Result, errors: Sequence[Error]) -> str:
    sure = percent(result.confidence)
    limits = {row["epsilon"]: row["limit"] for row in result.spectrum()}
    stated = {statement.epsilon: vars(statement) for statement in result.accuracy()}
    columns = [
        Column("epsilon", "ε", form=general),
        Column("delta", "δ̂", said=lambda e: estimate(e["delta"], limits[e["epsilon"]])),
        Column("standard_error", "standard error", ASYMPTOTIC, share),
        Column("resampled", "resampled", ASYMPTOTIC, share),
    ]
    notes = [limit_words(sure, [result])] if any(limit is not None for limit in limits.values()) else []
    notes += [
        f"resampled: {_METHODS[method]}; asymptotic" for method in dict.fromkeys(error.method for error in errors)
    ]
    if result.is_tape:
        notes += [
            "standard error: of a mean of weights, those above the cut-offs included; asymptotic; of the learned sets",
            *basis_words(result),
            *changed_words(result),
            *warning_words(result),
        ]
    else:
        columns += [Column("radius", "radius", FINITE, at_most), Column("alpha", "published α", form=at_most)]
        known = "its folds' learned sets, on average" if result.method.pools else "its learned sets"
        notes += [
            "standard error: binomial, at the observed counts; asymptotic",
            f"radius: every cell's δ̂ is within it of the exact δ of {known}, so the largest is within it of the "
            f"largest of that, which is below δ by what they miss; at all ε together with confidence {sure}; finite-sample",
            "published α: |δ̂ − δ|, Lu et al., Corollaries 2 to 4, corrected; heuristic: not proved at any given size",
            *changed_words(result),
        ]
    entries = [stated.get(error.epsilon, {}) | vars(error) for error in errors]
    return text_of(f"{result.name}: accuracy of the largest δ̂", Table("", columns, entries).lines(), wrapped(notes))
