"""Verdicts on claims as a readable text, as JSON, and for continuous integration as JUnit's XML and a table in Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from hpcdp._base.rounding import at_least, percent, share
from hpcdp.report.exposed import exposed_lines
from hpcdp.report.sentences import (
    BY_ITSELF,
    changed_words,
    estimate,
    limit_words,
    missing_words,
    sentence_of,
    shared_words,
)
from hpcdp.report.spectrum import further_column
from hpcdp.report.tables import Column, Table, formed, general, lower_column, text_of, told, wrapped
from hpcdp.results.result import Result
from hpcdp.results.result import to_json as json_text
from hpcdp.results.shown import NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import Verdict, worst

if TYPE_CHECKING:
    from hpcdp.results.ranking import Ranking

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_json(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> str:
    """One object: the worst verdict at the top; with several claims, all of them under "claims", and "ranking"."""
    body = worst(verdicts).to_dict()
    if len(verdicts) > 1:
        body["claims"] = [verdict.to_dict() for verdict in verdicts]
        body["ranking"] = None if ranking is None else ranking.to_dict()
    return json_text(body)


def report(verdicts: Sequence[Verdict], ranking: Ranking | None = None) -> str:
    """Each verdict with the spectrum beside its claim; which claim fits best, if there are several; what it rests on."""
    result = verdicts[0].result
    blocks: list[str | list[str]] = []
    for verdict in verdicts:
        blocks += [
            f"{result.name}: {verdict.claim.text}: {verdict.text}",
            _table(verdict).lines() if verdict.known.size else [],
            wrapped(sentence_of(result, verdict).paragraphs),
        ]
    if ranking is not None:
        blocks.append(_ranking(ranking, result.method.tests_words))
    words = wrapped(dict.fromkeys([*notes(verdicts, ranking), *shared_words(result, sizes=False)]))
    if not result.complete:
        only = f"INCOMPLETE: only what has all its counts was judged, {verdicts[0].cells_words}. A violation counts"
        words += [missing_words(only, result), *wrapped([looks_words(result)])]
    return text_of(*blocks, exposed_lines(result), words)


def _table(verdict: Verdict) -> Table:
    """At each ε: the claim, the largest estimate and bound, and the largest gap in standard errors."""
    result = verdict.result
    with np.errstate(divide="ignore", invalid="ignore"):  # a set in which no draw fell has no error
        gap = np.where(
            verdict.standard_error > 0.0, (result["delta"] - verdict.claimed) / verdict.standard_error, -np.inf
        )
    entries = result.spectrum()
    for entry in entries:
        column = int(np.flatnonzero(result["epsilon"] == entry["epsilon"])[0])
        entry |= {"claimed": float(verdict.claimed[0, 0, column]), "gap": float(np.nanmax(gap[..., column]))}
    columns = [
        Column("epsilon", "ε", form=general),
        Column("claimed", "claimed", form=share),
        Column("delta", "δ̂", said=lambda e: estimate(e["delta"], e["limit"])),
        further_column(),
        lower_column(said=lambda e: at_least(e["lower"]) + " violated" * (e["lower"] > e["claimed"])),
        Column("gap", "gap/se", form=formed("+.1f")),
    ]
    return Table("", columns, entries)


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
    return told(
        f"violated: certified ≥ is above the claim; finite-sample, {result.method.basis}. Gaps in standard errors (gap/se), "
        "chance and sample sizes are asymptotic and take the classifier as it is; what it misses lowers δ̂.",
        *limit_words([result]),
        bool(result.method.further_bounds)
        and "up to the leftover ≥: by itself no bound on δ, and no violation (see show).",
        ranking is not None
        and "score: sum over ε of (residual/se)², at the pair and direction that training ranks first at each ε.",
        *(f"{v.claim.text} is an estimate itself, no guarantee." for v in verdicts if v.claim.is_estimate),
        len({v.family for v in verdicts}) > 1
        and f"Claims of pure ε are judged by the limits on pure ε, others by the bounds on δ. {BY_ITSELF}",
    )


def looks_words(result: Result) -> str:
    """What several looks at a store that grows do not say together."""
    sure = percent(result.confidence)
    return (
        f"This look holds by itself at {sure}. Several looks at a store that grows do not hold together: which entries get "
        "half of the failure probability is settled only when all pairs have learned."
    )


def to_junit(verdicts: Sequence[Verdict], incomplete: bool = False) -> str:
    """A test case a claim: failure where violated, error where incomplete unless that is accepted, skipped where undecided."""
    result = verdicts[0].result
    suite = ElementTree.Element("testsuite", name=_xml(result.name), tests=str(len(verdicts)))
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(result.name), name=_xml(verdict.claim.text))
        text = _xml("\n".join([*sentence_of(result, verdict).paragraphs, *changed_words(result)]))
        is_open, is_skipped = not (result.complete or incomplete), verdict.verdict == NOT_SEPARABLE
        kind = "failure" if verdict.verdict == VIOLATION else "error" if is_open else "skipped" if is_skipped else None
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


def _xml(text: str) -> str:
    return _NO_XML.sub("�", text)


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """A table with a row a claim, and the store's state where it is incomplete."""
    result = verdicts[0].result
    lines = [f"### {_cell(result.name)}", "", "| claim | verdict | |", "| --- | --- | --- |"]
    for verdict in verdicts:
        words = _cell(" ".join(sentence_of(result, verdict).paragraphs))
        lines.append(f"| {_cell(verdict.claim.text)} | {verdict.text} | {words} |")
    if not result.complete:
        lines += ["", f"The store is not complete: {verdicts[0].cells_words} have all their counts."]
    for words in result.code_warnings:
        lines += ["", f"WARNING: {_cell(words)}."]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text that stays text within a cell of a table."""
    escaped = html.escape(text.replace("\\", "\\\\"), quote=False)
    return re.sub(r"([|`*_\[\]])", r"\\\1", " ".join(escaped.split()))
