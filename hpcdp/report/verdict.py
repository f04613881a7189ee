"""Verdicts on claims as a readable text, as JSON, and for continuous integration as JUnit's XML and a table in Markdown."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.report.exposed import exposed_lines
from hpcdp.report.pure import NO_ATOMS, assumed
from hpcdp.report.tables import Column, Table, formed, general, lower_column, text_of, wrapped
from hpcdp.report.words import base_words, changed_words, estimate, limit_words, pair_words, rests_on, warning_words
from hpcdp.results.decision import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.result import to_json as json_text
from hpcdp.results.verdict import PURE, Separation, Verdict, round_up, worst
from hpcdp.store.again import resume_command

if TYPE_CHECKING:
    from hpcdp.results.ranking import Ranking
    from hpcdp.results.result import Result

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_json(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> str:
    """One object: the worst verdict at the top; with several claims, all of them under "claims", and "ranking"."""
    found = worst(verdicts).to_dict()
    if len(verdicts) > 1:
        found["claims"] = [verdict.to_dict() for verdict in verdicts]
        found["ranking"] = None if ranking is None else ranking.to_dict()
    return json_text(found)


def report(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> str:
    """Each verdict with the spectrum beside its claim; which claim fits best, if there are several; what it rests on."""
    result = verdicts[0].result
    blocks: list[str | list[str]] = []
    for verdict in verdicts:
        blocks += [
            f"{result.name}: {verdict.claim.text}: {verdict.verdict}",
            _table(verdict).lines() if verdict.known.size else [],
            wrapped(verdict_words(verdict)),
        ]
    if ranking is not None:
        blocks.append(_ranking(ranking, result.method.tests_words))
    blocks += [exposed_lines(result), [*wrapped(notes(verdicts, ranking)), *_incomplete(verdicts)]]
    return text_of(*blocks)


def verdict_words(verdict: Verdict) -> list[str]:
    """A verdict in words, with what shows it most; paragraphs."""
    if verdict.result.depends is not None:
        return [f"not separable: {verdict.result.depends}"]
    return [*_words(verdict), *_order(verdict)]


def _table(verdict: Verdict) -> Table:
    """At each ε: the claim, the largest estimate and bound, and the largest gap in standard errors."""
    result = verdict.result
    with np.errstate(divide="ignore", invalid="ignore"):  # a set in which no draw fell has no error
        gap = np.where(
            verdict.standard_error > 0.0, (result["delta"] - verdict.claimed) / verdict.standard_error, -np.inf
        )
    names = ("delta", "lower", *(["lower_up_to_leftover"] if result.is_tape else []))
    entries: list[dict[str, Any]] = [
        {name: float(result[f"spectrum_{name}"][column]) for name in names}
        | {
            "epsilon": float(epsilon),
            "claimed": float(verdict.claimed[0, 0, column]),
            "limit": result.resolution.limit(column),
            "gap": float(np.nanmax(gap[..., column])),
        }
        for column, epsilon in enumerate(result["epsilon"])
        if verdict.known[..., column].any()
    ]
    columns = [
        Column("epsilon", "ε", form=general),
        Column("claimed", "claimed", form=share),
        Column("delta", "δ̂", said=lambda e: estimate(e["delta"], e["limit"])),
        *([Column("lower_up_to_leftover", "up to the leftover ≥", form=at_least)] if result.is_tape else []),
        lower_column(said=lambda e: at_least(e["lower"]) + " violated" * (e["lower"] > e["claimed"])),
        Column("gap", "gap/se", form=formed("+.1f")),
    ]
    return Table("", columns, entries)


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
            f"{pair_words(result, int(place[0]))}, {direction}: δ is at "
            f"least {at_least(float(result['lower'][place]))}, the claim allows {share(float(verdict.claimed[place]))}; "
            f"certified with confidence {percent(result.confidence)}, all cells together.",
        ]
    if verdict.verdict == CONSISTENT:
        which = (
            "No δ̂ is above what the claim implies" if verdict.order is not None else "No estimate is above the claim"
        )
        return [f"{which}. This proves no privacy: an upper bound cannot be had from samples."]
    if verdict.separation is None:
        return ["No bound is above the claim, and no δ̂ above what it implies, but D̂ of the order that it limits is."]
    return [_separation(verdict, verdict.separation)]


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
        f"Pure ε is at least {at_least(found.lower, '.5f')} by {who}; "
        f"the claim allows {found.claimed:g}{' (violated)' if found.violated else ''}; certified with confidence {sure}, by "
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
    words = (
        f"{name} is at least {at_least(found.lower, '.5f')}{who}; the claim allows {found.claimed:g}"
        f"{' (violated)' if found.violated else ''}; certified with confidence {sure}, together with the bounds on δ."
    )
    return [words if found.estimate is None else f"{words} D̂ is {found.estimate:.5f} (asymptotic)."]


def _separation(verdict: Verdict, found: Separation) -> str:
    over = int((verdict.result["delta"][verdict.known] > verdict.claimed[verdict.known]).sum())
    words = verdict.result.method.tests_words
    chance = (
        "Chance alone gives such a gap."
        if found.is_chance
        else f"Chance gives such a gap with probability at most {at_most(found.chance, '.1g')} (asymptotic)."
    )
    head = (
        f"No bound is above the claim, but δ̂ is, at {over:,} of {int(verdict.known.sum()):,} cells. The largest gap is at "
        f"ε = {found.epsilon:g}, {pair_words(verdict.result, found.pair)}, "
        f"{found.direction}: {found.gap:.2g}, {found.gap / found.standard_error:.1f} standard errors of "
        f"{found.standard_error:.2g}. {chance}"
    )
    column = int(np.flatnonzero(verdict.result["epsilon"] == found.epsilon)[0])
    if not verdict.result.has_bound((found.pair, DIRECTIONS.index(found.direction), column)):
        is_other = verdict.result.has_bound(np.s_[found.pair, :, column])
        what = (
            "direction has no bound (target.direction)" if is_other else "ε has no bound of its own (estimate.certify)"
        )
        return f"{head} That {what}: another study, with fresh draws, could certify it."
    if verdict.result.is_tape:
        return f"{head} {_tape_separation(found)}"
    if found.test is None:
        return f"{head} No number of {words} that can be drawn would separate it from the claim."
    needed = f"about {found.test:,} {words} per database (now {found.now:,})"
    return f"{head} If it is real, the bound would pass the claim with {needed}."


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
    columns = [
        Column("fit", "fit"),
        Column("score", "score", form=formed(".1f")),
        Column("residual", "largest residual", form=lambda residual: f"{residual:+.1f} se"),
        Column("epsilon", "at ε", form=general),
        Column("claim", "claim"),
    ]
    fits = [{"fit": place, **vars(fit)} for place, fit in enumerate(ranking.fits, start=1)]
    head, lines = ["best fit first (asymptotic)", *Table("", columns, fits).lines(), ""], []
    for step in ranking.steps:
        apart = f"{step.better} and {step.worse}"
        if step.separable:
            lines.append(f"{apart}: the data reject the second, {step.evidence:.1f} standard errors away")
        elif step.test is None:
            lines.append(f"{apart}: not separable, they are equal at these ε")
        else:
            lines.append(
                f"{apart}: not separable; they differ by {step.difference:.2g} at ε = {step.epsilon:g}; "
                f"about {step.test:,} {words} per database would tell them apart (now {step.now:,})"
            )
    return [*head, *wrapped(lines)]


def notes(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> list[str]:
    """What verdicts rest on."""
    result = verdicts[0].result
    lines = [
        f"violated: certified ≥ is above the claim; finite-sample, {rests_on(result)}. gap/se, chance and sample "
        "sizes are asymptotic and take the classifier as it is; what it misses lowers δ̂.",
        *(["up to the leftover ≥: by itself no bound on δ, and no violation (see show)."] if result.is_tape else []),
        *base_words(result),
    ]
    if not np.isnan(result.resolution.limits).all():
        lines += [limit_words(percent(result.confidence), [result]), *warning_words(result)]
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
        *wrapped([looks_words(result)]),
    ]


def looks_words(result: Result) -> str:
    """What several looks at a store that grows do not say together."""
    return (
        f"This look holds by itself at {percent(result.confidence)}. Several looks at a store that grows do not hold "
        "together: which cells get half of the failure probability is settled only when all pairs have learned."
    )


def to_junit(verdicts: Sequence[Verdict], incomplete: bool = False) -> str:
    """One test case a claim: a failure where it is violated; an error where the store is incomplete, unless that is accepted;
    skipped where no sample decided it. What passes says that this proves no privacy.
    """
    result = verdicts[0].result
    suite = ElementTree.Element("testsuite", name=_xml(result.name), tests=str(len(verdicts)))
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(result.name), name=_xml(verdict.claim.text))
        text = _xml("\n".join([*verdict_words(verdict), *changed_words(result)]))
        kind = _kind(verdict, incomplete)
        if kind is None:
            ElementTree.SubElement(case, "system-out").text = text
            continue
        message = f"incomplete: {verdict.cells_words}"
        if kind != "error":
            message = verdict.verdict if result.complete else f"{verdict.verdict}; {message}"
        ElementTree.SubElement(case, kind, message=_xml(message)).text = text
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")


def _kind(verdict: Verdict, incomplete: bool) -> str | None:
    if verdict.verdict == VIOLATION:
        return "failure"
    if not (verdict.result.complete or incomplete):
        return "error"
    return "skipped" if verdict.verdict == NOT_SEPARABLE else None


def _xml(text: str) -> str:
    return _NO_XML.sub("�", text)


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """A table with a row a claim, and the store's state where it is incomplete."""
    result = verdicts[0].result
    lines = [f"### {_cell(result.name)}", "", "| claim | verdict | |", "| --- | --- | --- |"]
    for verdict in verdicts:
        words = _cell(" ".join(verdict_words(verdict)))
        lines.append(f"| {_cell(verdict.claim.text)} | {verdict.verdict} | {words} |")
    if not result.complete:
        lines += ["", f"The store is not complete: {verdicts[0].cells_words} have all their counts."]
    for words in result.code_warnings:
        lines += ["", f"WARNING: {_cell(words)}."]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text that stays text within a cell of a table."""
    escaped = html.escape(text.replace("\\", "\\\\"), quote=False)
    return re.sub(r"([|`*_\[\]])", r"\\\1", " ".join(escaped.split()))
