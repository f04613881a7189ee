"""Verdicts on claims as a readable text, and as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.report.exposed import exposed_lines, pair_words
from hpcdp.report.histogram import NO_ATOMS, assumed
from hpcdp.report.table import changed_lines, estimate, grid, limit_lines, marked_lines, trust_lines, warning_lines
from hpcdp.report.tape import basis_lines, rests_on
from hpcdp.results.decision import CONSISTENT, VIOLATION
from hpcdp.results.verdict import PURE, Separation, Verdict, round_up, worst
from hpcdp.store.again import resume_command

if TYPE_CHECKING:
    from hpcdp.results.ranking import Ranking
    from hpcdp.results.result import Result


def to_json(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> str:
    """One object: the worst verdict at the top; with several claims, all of them under "claims", and "ranking"."""
    found = worst(verdicts).to_dict()
    if len(verdicts) > 1:
        found["claims"] = [verdict.to_dict() for verdict in verdicts]
        found["ranking"] = None if ranking is None else ranking.to_dict()
    return json.dumps(found, allow_nan=False, ensure_ascii=False)


def report(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> str:
    """Each verdict with the spectrum beside its claim; which claim fits best, if there are several; what it rests on."""
    result = verdicts[0].result
    lines = []
    for verdict in verdicts:
        cells = [*grid(_rows(verdict)), ""] if verdict.known.size else []
        lines += [f"{result.name}: {verdict.claim.text}: {verdict.verdict}", "", *cells]
        lines += [*verdict_lines(verdict), ""]
    if ranking is not None:
        lines += [*_ranking(ranking, verdicts[0].result.way.tests_words), ""]
    exposed = exposed_lines(result)
    return "\n".join([*lines, *exposed, *([""] if exposed else []), *notes(verdicts, ranking), *_incomplete(verdicts)])


def verdict_lines(verdict: Verdict) -> list[str]:
    """A verdict in words, with what shows it most."""
    if verdict.result.depends is not None:
        return marked_lines("not separable", [verdict.result.depends])
    return [*_words(verdict), *_order(verdict)]


def _rows(verdict: Verdict) -> list[list[str]]:
    """At each ε: the claim, the largest estimate and bound, and the largest gap in standard errors."""
    result = verdict.result
    with np.errstate(divide="ignore", invalid="ignore"):  # a set in which no draw fell has no error
        gap = np.where(
            verdict.standard_error > 0.0, (result["delta"] - verdict.claimed) / verdict.standard_error, -np.inf
        )
    within = ["up to the leftover ≥"] if result.is_tape else []
    rows = [["ε", "claimed", "δ̂", *within, "certified ≥", "gap/se"]]
    for column, epsilon in enumerate(result["epsilon"]):
        if verdict.known[..., column].any():
            allowed = float(verdict.claimed[0, 0, column])
            lower = float(result["spectrum_lower"][column])
            mark = " violated" if lower > allowed else ""
            rows.append(
                [
                    f"{epsilon:g}",
                    share(allowed),
                    estimate(float(result["spectrum_delta"][column]), result.resolution.limit(column)),
                    *(at_least(float(result["spectrum_lower_up_to_leftover"][column])) for _ in within),
                    at_least(lower) + mark,
                    f"{np.nanmax(gap[..., column]):+.1f}",
                ]
            )
    return rows


def _words(verdict: Verdict) -> list[str]:
    """What a verdict says, in a few lines."""
    result = verdict.result
    if verdict.family == PURE:
        return _pure(verdict)
    if not verdict.known.any():
        return ["No cell has all its counts yet."]
    if verdict.verdict == VIOLATION:
        if not (result["lower"][verdict.known] > verdict.claimed[verdict.known]).any():
            return [
                "No certified δ is above what the claim implies, but the divergence that it limits is above the claim."
            ]
        excess = np.where(verdict.known, result["lower"] - verdict.claimed, -np.inf)
        place = np.unravel_index(int(excess.argmax()), excess.shape)
        many = int((excess > 0.0).any(axis=(0, 1)).sum())
        direction = DIRECTIONS[place[1]]
        return [
            f"Violated at {many} of {excess.shape[2]} ε, most clearly at ε = {result['epsilon'][place[2]]:g} by "
            f"{pair_words(result, int(place[0]))}, {direction}: δ is at",
            f"  least {at_least(float(result['lower'][place]))}, the claim allows {share(float(verdict.claimed[place]))}; "
            f"certified with confidence {percent(result.confidence)}, all cells together.",
        ]
    if verdict.verdict == CONSISTENT:
        which = (
            "No δ̂ is above what the claim implies" if verdict.order is not None else "No estimate is above the claim"
        )
        return [f"{which}. This proves no privacy: an upper bound cannot be had from samples."]
    if verdict.separation is None:
        return ["No bound is above the claim, and no δ̂ above what it implies, but D̂ of the order that it limits is."]
    return _separation(verdict, verdict.separation)


def _pure(verdict: Verdict) -> list[str]:
    found = verdict.pure
    if found is None:
        return ["No pair is tested yet."]
    sure = percent(verdict.result.confidence)
    is_binned = verdict.result.study.bounds_pure
    who = (
        "midpoints of the domain" if found.pair < 0 else f"{pair_words(verdict.result, found.pair)}, {found.direction}"
    )
    lines = [
        f"Pure ε is at least {at_least(found.lower, '.5f')} by {who};",
        f"  the claim allows {found.claimed:g}{' (violated)' if found.violated else ''}; certified with confidence {sure}, by "
        + ("the limits of all bins: they alone decide." if is_binned else "the test of [pure]: it alone decides."),
    ]
    upper = (verdict.result.pure or {}).get("upper") if is_binned else None
    if upper is not None and upper <= found.claimed:
        where = "this domain" if found.pair < 0 else "these pairs"
        ceiling, rest = at_most(upper, ".5f"), assumed(verdict.result)
        lines.append(
            f"Of {where} the claim holds if {rest}, and {NO_ATOMS}: pure ε is then at most {ceiling}, with the same confidence."
        )
    elif verdict.verdict == CONSISTENT:
        lines.append(
            "No estimate from a tested set is above it. This proves no privacy: an upper bound cannot be had from samples."
        )
    elif not found.violated:
        shown = f"{found.estimate:.5f}" if math.isfinite(found.estimate) else "infinite"
        whose = "that set" if found.estimate_pair == found.pair else f"the set of pair {found.estimate_pair}"
        lines.append(f"The estimate from {whose} is above the claim ({shown}), but not certified.")
    if verdict.known.size:
        lines.append("The cells by ε are a family of their own, which this claim is not judged by.")
    return lines


def _order(verdict: Verdict) -> list[str]:
    found = verdict.order
    if found is None or not verdict.known.any():
        return []
    limit = verdict.claim.limit
    assert limit is not None
    name = "ρ" if limit.order is None else "KL" if limit.order == 1.0 else f"D of order {limit.order:g}"
    who = "" if found.pair is None else f" by {pair_words(verdict.result, found.pair)}, {found.direction}"
    sure = percent(verdict.result.confidence)
    return [
        f"{name} is at least {at_least(found.lower, '.5f')}{who};",
        f"  the claim allows {found.claimed:g}{' (violated)' if found.violated else ''}; certified with confidence {sure}, "
        "together with the bounds on δ.",
        *([] if found.estimate is None else [f"  D̂ is {found.estimate:.5f} (asymptotic)."]),
    ]


def _separation(verdict: Verdict, found: Separation) -> list[str]:
    over = int((verdict.result["delta"][verdict.known] > verdict.claimed[verdict.known]).sum())
    words = verdict.result.way.tests_words
    lines = [
        f"No bound is above the claim, but δ̂ is, at {over:,} of {int(verdict.known.sum()):,} cells. The largest gap is at "
        f"ε = {found.epsilon:g}, {pair_words(verdict.result, found.pair)},",
        f"  {found.direction}: {found.gap:.2g}, {found.gap / found.standard_error:.1f} standard errors of "
        f"{found.standard_error:.2g}. "
        + (
            "Chance alone gives such a gap."
            if found.is_chance
            else f"Chance gives such a gap with probability at most {at_most(found.chance, '.1g')} (asymptotic)."
        ),
    ]
    column = int(np.flatnonzero(verdict.result["epsilon"] == found.epsilon)[0])
    if not verdict.result.has_bound((found.pair, DIRECTIONS.index(found.direction), column)):
        is_other = verdict.result.has_bound(np.s_[found.pair, :, column])
        what = (
            "direction has no bound (target.direction)" if is_other else "ε has no bound of its own (estimate.certify)"
        )
        lines.append(f"  That {what}: another study, with fresh draws, could certify it.")
    elif verdict.result.is_tape:
        lines += textwrap.wrap(_tape_separation(found), 120, initial_indent="  ", subsequent_indent="  ")
    elif found.test is None:
        lines.append(f"  No number of {words} that can be drawn would separate it from the claim.")
    else:
        lines.append(
            f"  If it is real, the bound would pass the claim with about {found.test:,} {words} per database "
            f"(now {found.now:,})."
        )
    return lines


def _tape_separation(found: Separation) -> str:
    """What would separate an estimate by random tapes from a claim."""
    if found.test is None:
        return "No number of draws that can be made would separate it from the claim."
    draws = f"about {found.test:,} draws from proposals per database (now {found.now:,})"
    if found.leftover is None:
        return "Plain draws hit the leftover: more draws than now do not separate it; what is hidden may explain it."
    if found.leftover == 0:
        return f"If it is real, the bound would pass the claim with {draws}; nothing is left over."
    return (
        f"If it is real, the bound would pass the claim with {draws} and about {round_up(found.leftover):,} plain draws for the "
        "leftover without a hit."
    )


def _ranking(ranking: Ranking, words: str) -> list[str]:
    rows = [["fit", "score", "largest residual", "at ε", "claim"]]
    for place, fit in enumerate(ranking.fits, start=1):
        rows.append([str(place), f"{fit.score:.1f}", f"{fit.residual:+.1f} se", f"{fit.epsilon:g}", fit.claim])
    lines = ["best fit first (asymptotic)", *grid(rows), ""]
    for step in ranking.steps:
        apart = f"{step.better} and {step.worse}"
        if step.separable:
            lines.append(f"{apart}: the data reject the second, {step.evidence:.1f} standard errors away")
        elif step.test is None:
            lines.append(f"{apart}: not separable, they are equal at these ε")
        else:
            lines += [
                f"{apart}: not separable; they differ by {step.difference:.2g} at ε = {step.epsilon:g};",
                f"  about {step.test:,} {words} per database would tell them apart (now {step.now:,})",
            ]
    return lines


def _uncertified(result: Result) -> list[str]:
    """That a bound up to the leftover decides nothing."""
    return ["up to the leftover ≥: by itself no bound on δ, and no violation (see show)."] if result.is_tape else []


def notes(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> list[str]:
    """What verdicts rest on."""
    result = verdicts[0].result
    lines = [
        f"violated: certified ≥ is above the claim; finite-sample, {rests_on(result)}. gap/se, chance and sample",
        "  sizes are asymptotic and take the classifier as it is; what it misses lowers δ̂.",
        *_uncertified(result),
        *basis_lines(result),
        *trust_lines(result.study),
        *changed_lines(result),
    ]
    if not np.isnan(result.resolution.limits).all():
        lines += [*limit_lines(percent(result.confidence), [result]), *warning_lines(result)]
    if ranking is not None:
        lines.append(
            "score: sum over ε of (residual/se)², at the pair and direction that training ranks first at each ε."
        )
    lines += [f"{v.claim.text} is an estimate itself, no guarantee." for v in verdicts if v.claim.is_estimate]
    if len({v.family for v in verdicts}) > 1:
        lines.append(
            "Claims of pure ε are judged by [pure], others by the cells: each by itself at the confidence, not all at once."
        )
    return lines


def _incomplete(verdicts: Sequence[Verdict]) -> list[str]:
    result = verdicts[0].result
    if result.complete:
        return []
    return [
        f"INCOMPLETE: only what has all its counts was judged, {verdicts[0].cells_words}. A violation counts; "
        f"go on with: {resume_command(result.store)}",
        *looks_lines(result),
    ]


def looks_lines(result: Result) -> list[str]:
    """What several looks at a store that grows do not say together."""
    return [
        f"  This look holds by itself at {percent(result.confidence)}. Several looks at a store that grows do not hold",
        "  together: which cells get half of the failure probability is settled only when all pairs have learned.",
    ]
