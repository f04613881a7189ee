"""What `show` reads off a spectrum besides itself: ε at given δ, Rényi divergences, privacy at risk, and how accurate δ̂ is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.analytic import Curve
from hpcdp.notions.epsilon_at import BELOW, BEYOND
from hpcdp.report.exposed import exposed_lines
from hpcdp.report.sentences import FOR_MORE, estimate, leading_words, limit_words, over_words, state_words
from hpcdp.report.spectrum import further_column
from hpcdp.report.tables import (
    ASYMPTOTIC,
    CHOSEN,
    CHOSEN_DIRECTION,
    CHOSEN_PAIR,
    FINITE,
    Column,
    Entry,
    Reading,
    Table,
    formed,
    general,
    lower_column,
    to_csv,
    told,
)
from hpcdp.results.levels import NO_ESTIMATE, OF_DELTA, Level, RenyiLevel, ZcdpLevel
from hpcdp.results.result import Result
from hpcdp.results.risk import bootstrap, risk_levels

_FIVE = formed(".5f", at_least)
_METHODS = {
    "chunks": "chunks of test outputs drawn with replacement",
    "classes": "multinomial over the classes of L̂ (records hold several chunks, or there are few)",
    "folds": "multinomial over the classes of L̂, fold by fold",
    "errors": "binomial over testing errors",
    "weights": "chunks of draws from proposals drawn with replacement",
    "normal": "normal, by the standard error, as there are few chunks",
}
_SIDES = {"d": "D", "d_prime": "D′"}


def read_levels(result: Result, deltas: Sequence[float]) -> Reading:
    """ε at some δ: the estimate and its bounds, and which set shows the certified one."""
    levels = [result.epsilon_at(delta, alone=len(deltas) == 1) for delta in deltas]
    rows = [level.to_dict() for level in levels]
    entries = [{**row, "shown": _shown_estimate(level)} for row, level in zip(rows, levels, strict=True)]
    columns = [
        Column("delta", "δ", form=general),
        Column("shown", "ε̂", ASYMPTOTIC),
        further_column(_FIVE),
        lower_column(form=_FIVE),
        Column("upper", "approx ≤", ASYMPTOTIC, formed(".4f", at_most)),
        CHOSEN_PAIR,
        CHOSEN_DIRECTION,
        Column("epsilon", "set", CHOSEN, lambda epsilon: f"L̂ > {epsilon:g}"),
    ]
    return Reading(
        f"{result.name}: ε at given δ, {over_words(result)}",
        [Table("ε at given δ", columns, entries)],
        _level_notes(result, levels),
        lambda: result.heading | {"levels": rows, "warnings": result.warnings},
        lambda: to_csv([*rows[0]], rows),
        [*leading_words(result, [level.pair for level in levels]), *exposed_lines(result)],
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
    return told(
        f"certified ≥: the mechanism is (ε, δ)-private for no smaller ε, with confidence {percent(result.confidence)}"
        f"{'' if alone else ' for every δ at once'}; finite-sample, {result.method.basis}. δ = 0: pure differential privacy. "
        + family,
        bool(result.method.further_bounds)
        and "up to the leftover ≥: by itself no limit of ε: it would be certified if the leftover, which proposals do not "
        "reach, had probability r = 0. Whatever r is, δ(ε) ≥ δ − e^ε·r is certified at any smaller ε.",
        "ε̂: an interval in which the largest δ̂ falls to δ. The δ̂ at the study's ε on both sides imply its lower end; its upper "
        "end is interpolated between them, linear in e^ε. Interpolation errs by at most its width; both ends are too low if "
        "the learned set misses part of δ. ε̂ and approx ≤ rest on the classifier too, and are at least what is certified.",
        any(level.found == BEYOND for level in levels)
        and "beyond the grid: the largest δ̂ is above δ at the study's last ε. Add larger ε.",
        any(level.found == NO_ESTIMATE for level in levels)
        and "δ = 0 has a certified limit only: counts cannot tell δ = 0 from a small δ.",
    )


def read_renyi(result: Result, orders: Sequence[float] = (), with_rho: bool = True) -> Reading:
    """Rényi divergences of some orders, and ρ; in CSV second bounds have lines of their own."""
    levels, rho = result.renyi([*orders]), result.zcdp() if with_rho else None
    entries = [asdict(level) for level in levels]
    rows = [
        *entries,
        *({"order": row["order"]} | row["variational"] for row in entries if row["variational"] is not None),
    ]
    rows += [] if rho is None else [asdict(rho) | {"order": "zcdp"}]
    pairs = [level.pair for level in levels] + [level.variational.pair for level in levels if level.variational]
    asked = ({"renyi": entries} if levels else {}) | ({} if rho is None else {"zcdp": asdict(rho)})
    return Reading(
        f"{result.name}: Rényi divergences in nats, {over_words(result)}",
        [_renyi_table(result, levels, rho)],
        _renyi_notes(result, levels),
        lambda: result.heading | asked | {"warnings": result.warnings},
        lambda: to_csv([name for name in RenyiLevel.__dataclass_fields__ if name != "variational"], rows),
        leading_words(result, pairs + ([] if rho is None else [rho.pair])),
    )


def _renyi_table(result: Result, levels: Sequence[RenyiLevel], rho: ZcdpLevel | None) -> Table:
    entries = [
        asdict(level) | {"what": f"D of order {level.order:g}" + " (KL)" * (level.order == 1.0)} for level in levels
    ]
    if rho is not None:
        by_order = "" if rho.order is None else f", by order {rho.order:g}"
        entries.append(asdict(rho) | {"what": f"ρ of zero-concentrated DP{by_order}"})
    columns = [
        Column("what", "quantity"),
        Column("estimate", "D̂", ASYMPTOTIC, formed(".4f"), said=None if result.method.no_classes else _divergence),
        lower_column(form=_FIVE),
        CHOSEN_PAIR,
        CHOSEN_DIRECTION,
        lower_column("variational.lower", "or: certified ≥", _FIVE, is_optional=True),
        *(Column(f"variational.{n}", n, CHOSEN, only="text", is_optional=True) for n in ("pair", "direction")),
    ]
    return Table("Rényi divergences in nats, and ρ", columns, entries)


def _divergence(entry: Entry) -> str:
    """The estimate of an order; ρ has none."""
    if "estimate" not in entry:
        return "-"
    return "not finite" if entry["estimate"] is None else f"{entry['estimate']:.4f}"


def _renyi_notes(result: Result, levels: Sequence[RenyiLevel]) -> list[str]:
    """What each bound and estimate rests on."""
    sure, named, method = percent(result.confidence), result.study.estimate.renyi or (), result.method
    return told(
        f"certified ≥: with confidence {sure}, all orders and ρ together with the bounds on δ: it is their integral; "
        f"finite-sample, {method.basis}. In nats; what lies beyond the study's ε is left out.",
        any(level.variational is not None for level in levels)
        and f"or: certified ≥: the family of estimate.renyi, its orders together at {sure}, finite-sample. "
        "Each of both columns holds by itself; the larger of two bounds has no stated confidence.",
        result.complete
        and any(level.order in named and level.variational is None for level in levels)
        and "The bound of estimate.renyi: none, since ε were added to a study with refine, whose classes are then of several L̂.",
        method.no_classes and f"D̂: none, as {method.no_classes}.",
        bool(levels and not method.no_classes)
        and "D̂: of the classes of L̂ between the study's ε, at least what is certified; asymptotic; rests on the classifier too.",
        any(level.estimate is None for level in levels if not method.no_classes)
        and "not finite: some class has no test output of one side, so that D̂ would be infinite; or counts are missing.",
    )


def read_risk(result: Result, epsilons: Sequence[float]) -> Reading:
    """P[|L| > ε] at some ε: the estimate and the certified limits, also with what the study's claim of a pure ε adds."""
    claim = result.claim
    bound = None if claim is None else claim.bound
    level = bound.pure() if isinstance(bound, Curve) else None
    epsilon0 = level if level is not None and math.isfinite(level) else None
    rows = risk_levels(result, epsilons, epsilon0)
    columns = [
        Column("epsilon", "ε", form=general),
        Column("estimate", "P̂[|L̂| > ε]", ASYMPTOTIC, share),
        Column("standard_error", "± error", ASYMPTOTIC, formed(".1e")),
        CHOSEN_PAIR,
        Column("side", "of", CHOSEN, lambda side: _SIDES[side]),
        lower_column(heading="certified P[L > ε] ≥"),
    ]
    notes = [
        "certified: some pair and direction has P[L > ε] of at least δ(ε), for all ε together with confidence "
        f"{percent(result.confidence)}; finite-sample, {result.method.basis}.",
        "P̂[|L̂| > ε]: the share of test outputs of a database; it rests on the classifier, and bounds nothing. Its error is "
        "asymptotic, of one pair. It is known at the study's ε, where sets are {L̂ > ε} (no refine, target, time, reuse, tape).",
    ]
    if epsilon0 is not None:
        columns.append(Column("claimed", f"if {epsilon0:g}-DP ≥", FINITE, said=_claimed))
        notes.append(
            f"if {epsilon0:g}-DP: δ(ε)/(1 − e^(ε − {epsilon0:g})), if the claim holds; above 1 it is refuted. "
            f"By the claim the risk is 0 from ε = {epsilon0:g} on."
        )
    return Reading(
        f"{result.name}: privacy at risk, the largest over all pairs and both databases{state_words(result)}",
        [Table("Privacy at risk", columns, rows)],
        [*notes, FOR_MORE],
        lambda: result.heading | result.changed_entry | {"risk": rows},
        lambda: to_csv([*rows[0]], rows),
    )


def _claimed(entry: Entry) -> str:
    if entry["claimed"] is not None:
        return at_least(entry["claimed"])
    return "refuted" if entry["lower"] > 0.0 else "-"


def read_accuracy(result: Result, _: bool = True) -> Reading:
    """The largest estimate at each ε, its standard errors, and what is stated of it."""
    errors = bootstrap(result)
    limits = {row["epsilon"]: row["limit"] for row in result.spectrum()}
    stated = {statement.epsilon: vars(statement) for statement in result.accuracy()}
    columns = [
        Column("epsilon", "ε", form=general),
        Column("delta", "δ̂", said=lambda e: estimate(e["delta"], limits[e["epsilon"]])),
        Column("standard_error", "standard error", ASYMPTOTIC, share),
        Column("resampled", "resampled", ASYMPTOTIC, share),
        Column("radius", "radius", FINITE, at_most, is_optional=True),
        Column("alpha", "published α", form=at_most, is_optional=True),
    ]
    notes = told(
        *limit_words([result]),
        *(f"resampled: {_METHODS[how]}; asymptotic" for how in dict.fromkeys(error["method"] for error in errors)),
        f"standard error: {'binomial, at the observed counts' if stated else 'of a mean of weights, all included'}; asymptotic",
        bool(stated)
        and "radius: the sampling error of δ̂ is at most this, at all ε together with confidence "
        f"{percent(result.confidence)} (finite-sample). It is the error around the exact δ of {result.method.sets}, which "
        "may miss part of δ.",
        any(statement["alpha"] is not None for statement in stated.values())
        and "published α: |δ̂ − δ|, Lu et al., Corollaries 2 to 4, corrected; heuristic: not proved at any size",
    )
    return Reading(
        f"{result.name}: accuracy of the largest δ̂",
        [Table("Accuracy of δ̂", columns, [stated.get(error["epsilon"], {}) | error for error in errors])],
        notes,
        lambda: errors,
    )
