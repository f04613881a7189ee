"""What a page says of one result, in its order: verdict, pictures, tables, pairs, assumptions and warnings, provenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hpcdp.errors import StudyError
from hpcdp.report import at_risk, histogram, pure, renyi, table
from hpcdp.report import audit as audits
from hpcdp.report import verdict as verdicts
from hpcdp.report.exposed import exposed_lines, find_exposure
from hpcdp.report.html import listed, pictures
from hpcdp.report.html.batches import (
    looks_table,
    pairs_table,
    sequential_sentence,
    unfinished_lines,
)
from hpcdp.report.html.pictures import Picture
from hpcdp.report.html.provenance import Provenance, provenance_of
from hpcdp.report.html.redacted import short_claim
from hpcdp.report.html.sentence import Sentence, sentence_of
from hpcdp.report.html.tables import NOTHING, Table
from hpcdp.report.rows import held_rows
from hpcdp.report.sequential import NOTHING_ELSE, OWN, scope_words, stand_alone, unnamed_words, worst_first
from hpcdp.report.sequential import notes as batch_notes
from hpcdp.results.audit import Audit, audit
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.results.verdict import Verdict, verify

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim


@dataclass
class Section:
    """A part of a page under a heading."""

    key: str
    title: str
    words: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """One result as a page says it. key: of its place in the page. state: in a word, empty of a complete store whose code never
    changed; banner: the same in sentences.
    """

    key: str
    name: str
    state: str
    banner: Sequence[str]
    sentence: Sentence
    details: Sequence[str]
    sections: Sequence[Section]
    provenance: Provenance


def describe(found: Result | Audit, key: str, show_rows: bool = False) -> Report:
    """What a page says of a result, or of an audit and its result.

    key: begins the names of all its parts. show_rows: what is in the most exposed rows, inline databases and local paths too,
    which are private.
    """
    result, asked = (found.result, found) if isinstance(found, Audit) else (found, None)
    batches = [] if asked is not None else _batches(result, show_rows)
    if stand_alone(batches, result):
        return _of_batches(result, batches, key, show_rows)
    claim = asked.claim if asked is not None else table.claim_of(result)
    if claim is not None and not show_rows:
        claim = replace(claim, text=short_claim(claim.text))
    judged = judge(result, claim)
    audited = replace(asked, claim=claim) if asked is not None and claim is not None else _audited(result, claim)
    own = "This audit is a family of its own: it and what is said above each hold at the confidence, not all at once."
    sections = [
        *_sections(result, claim, audited, key),
        *_batch_sections(result, batches, key, [own]),
        *_exposed(result, show_rows),
    ]
    notes = [*table.warning_lines(result), *_notes(result, claim, judged, audited), *_batch_notes(result, batches)]
    few = [words for words in paragraphs(notes) if not words.startswith("WARNING: ")]  # which the banner says
    sections.append(Section("notes", "Assumptions and warnings", few))
    return Report(
        key,
        result.name,
        _state(result, not result.complete, batches),
        [*_banner(result), *unfinished_lines(batches)],
        sentence_of(result, judged),
        [
            *([] if judged is None else paragraphs(verdicts.verdict_lines(judged))),
            *(f"Sequential audit: {sequential_sentence(audit).text}" for audit in batches),
        ],
        sections,
        provenance_of(result, show_rows),
    )


def _batches(result: Result, show_rows: bool) -> list[SequentialAudit]:
    """The sequential audits of a store, with claims as they may be handed on."""
    found = worst_first(result.sequential_audits)
    return found if show_rows else [replace(audit, claim=short_claim(audit.claim)) for audit in found]


def _of_batches(result: Result, audits: Sequence[SequentialAudit], key: str, show_rows: bool) -> Report:
    """The page of a store that holds sequential audits and nothing else that is counted."""
    first, *others = [sequential_sentence(audit) for audit in audits]
    details = [
        *(other.text for other in others),
        NOTHING_ELSE,
    ]
    sections = list(_batch_sections(result, audits, key, [OWN] if others else []))
    sections.append(Section("notes", "Assumptions and warnings", paragraphs(_batch_notes(result, audits))))
    banner, state = [*_changed(result), *unfinished_lines(audits)], _state(result, False, audits)
    return Report(key, result.name, state, banner, first, details, sections, provenance_of(result, show_rows))


def _batch_sections(
    result: Result, audits: Sequence[SequentialAudit], key: str, own: Sequence[str]
) -> Iterable[Section]:
    for number, batched in enumerate(audits):
        name = f"batches{number}"
        many = len(batched.cells)
        cut = scope_words(result, batched)
        tables = [looks_table(batched), *([pairs_table(batched)] if many > 1 else [])]
        picture = pictures.sequential_picture(batched, f"{key}-{name}")
        yield Section(name, f"Sequential audit of {batched.claim}", [*own, cut], [picture], tables)


def _batch_notes(result: Result, audits: Sequence[SequentialAudit]) -> Iterable[str]:
    for batched in audits:
        yield from batch_notes(batched)
    yield from unnamed_words(result)


def judge(result: Result, claim: Claim | None) -> Verdict | None:
    """What the result says of a claim; None of one that cannot be judged by these results."""
    with suppress(StudyError):
        return None if claim is None else verify(result, claim)
    return None


def _audited(result: Result, claim: Claim | None) -> Audit | None:
    """The audit of a claim, where the result has what it needs."""
    with suppress(StudyError):
        return audit(result, claim) if claim is not None and "eta" in result.arrays else None
    return None


def _state(result: Result, incomplete: bool, audits: Sequence[SequentialAudit]) -> str:
    said = {"incomplete": incomplete, "unfinished": unfinished_lines(audits), "code changed": result.changed}
    return ", ".join(word for word, holds in said.items() if holds)


def _changed(result: Result) -> list[str]:
    return paragraphs([f"WARNING: {words}." for words in result.code_warnings])


def _banner(result: Result) -> list[str]:
    changed = _changed(result)
    if result.complete:
        return changed
    words = "INCOMPLETE: this page shows only what has all its counts. A violation counts; all else may change. "
    return paragraphs([words + "Go on with: hpcdp resume STORE.", *verdicts.looks_lines(result), *changed])


def _sections(result: Result, claim: Claim | None, audited: Audit | None, key: str) -> Iterable[Section]:
    if result.study.at_risk is not None:
        if result.risk:
            picture = pictures.risk_picture(result, key)
            yield Section("risk", "Privacy at risk", [], [picture], [listed.risk_table(result)])
        return
    if result.study.counts_levels:
        own = pictures.spectrum_pictures(result, claim, key)
        yield Section("spectrum", "Spectrum", [], own, [listed.spectrum_table(result, claim)])
    if result.pure is not None:
        tables = listed.histogram_tables if result.study.bounds_pure else listed.pure_tables
        yield Section("pure", "Pure ε", [], [pictures.pure_picture(result, key)], tables(result, result.pure))
    if result.tradeoff():
        own = [pictures.tradeoff_picture(result, claim, key)]
        yield Section("tradeoff", "Trade-off", [], own, [listed.tradeoff_table(result)])
    if audited is not None:
        words = [
            "This test of the same claim is a family of its own: it and the verdict above each hold at the confidence, not both "
            "at once.",
            *paragraphs(audits.verdict_lines(audited)),
        ]
        own = [pictures.audit_picture(audited, key)]
        yield Section("audit", "Audit", words, own, [listed.box_table(audited), listed.bounds_table(audited)])
    if orders := result.study.estimate.renyi:
        levels = result.renyi(list(orders))
        yield Section("renyi", "Rényi divergences", [], [], [listed.renyi_table(levels, result.zcdp())])


def _exposed(result: Result, show_rows: bool) -> Iterable[Section]:
    """The most exposed pairs; where there is one pair, or nothing tells them apart, that it is so."""
    if result.study.at_risk is not None or not result.study.counts_levels:
        return
    found = find_exposure(result)
    section = Section("pairs", "Most exposed pairs", paragraphs(exposed_lines(result)))
    if len(result.pairs) == 1:
        section.words = ["The study has one pair."]
    elif found is None:
        section.words = ["No δ̂ is resolved, so that no pair leads but by noise."]
    else:
        section.tables = [listed.exposed_table(result, found)]
        if found.order.size < len(section.tables[0].rows):
            section.words = [*section.words, f"{NOTHING}: no δ̂ is resolved at this ε."]
    if show_rows and result.study.pairs.relative is not None:
        section.tables.append(listed.rows_table(held_rows(result)))
    yield section


def _notes(result: Result, claim: Claim | None, judged: Verdict | None, audited: Audit | None) -> Iterable[str]:
    """What every number of the page rests on."""
    if result.study.at_risk is not None:
        yield from at_risk.notes(result) if result.risk else ()
        return
    if result.study.counts_levels:
        yield from table.footnotes(result, claim)
    if judged is not None:
        yield from verdicts.notes([judged])
    if result.pure is not None:
        yield from histogram.notes(result, result.pure) if result.study.bounds_pure else pure.notes(result, result.pure)
    if audited is not None:
        yield from audits.notes(audited)
    if orders := result.study.estimate.renyi:
        yield from renyi.notes(result, result.renyi(list(orders)))


def paragraphs(lines: Iterable[str]) -> list[str]:
    """Lines of a text as its paragraphs, each once: a line that is indented goes on with the one before, but for a pair's own."""
    found: list[str] = []
    for line in lines:
        words = line.strip()
        if not words:
            continue
        indent = len(line) - len(line.lstrip())
        if found and indent and not (indent == 2 and words.startswith("pair ")):
            found[-1] += f"{'; ' if indent > 2 else ' '}{words}"
        else:
            found.append(words)
    return list(dict.fromkeys(found))
