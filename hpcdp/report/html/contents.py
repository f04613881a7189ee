"""What a page says of a result, in order: verdict, summary, pictures, tables, pairs, assumptions and warnings, provenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from hpcdp.errors import StudyError
from hpcdp.report import audit as audits
from hpcdp.report import verdict as verdicts
from hpcdp.report.exposed import contents_table, exposed_lines, exposed_table, find_exposure
from hpcdp.report.html import pictures
from hpcdp.report.html.pictures import Picture
from hpcdp.report.html.provenance import provenance_of, short_claim
from hpcdp.report.levels import read_renyi
from hpcdp.report.notions import NOTIONS
from hpcdp.report.sentences import (
    BY_ITSELF,
    NONE,
    Sentence,
    audit_sentence,
    sentence_of,
    sequential_sentence,
    shared_words,
)
from hpcdp.report.tables import NOTHING, Table
from hpcdp.results.audit import Audit, audit
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import judge
from hpcdp.study.claims import Claim

_TITLES = {
    "spectrum": "Spectrum",
    "tradeoff": "Trade-off",
    "pure": "Pure ε",
    "interval": "Pure ε",
    "covers": "Privacy at risk",
}


_NEXT = {
    VIOLATION: "Do not release with this claim: correct the mechanism or claim less, and run a new study.",
    CONSISTENT: "No violation was found. This is no proof of privacy: keep the argument for the claim beside this report.",
    NOT_SEPARABLE: "No violation was certified, but an estimate is above the claim, as happens by chance to correct mechanisms "
    "too. Do not release on this report alone: run a larger study, and keep the argument for the claim beside it.",
    NONE: "Compare the certified bounds with what you want to promise: the study makes no claim.",
}
_INCOMPLETE = "Wait for the rest of the run, unless a violation is certified already: what is missing may show one."


@dataclass
class Section:
    """A part of a page under a heading. notes: what its numbers rest on, which stands at the end of the page."""

    key: str
    title: str
    words: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """One result as a page says it. key: of its place. state, banner: in a word and in sentences, empty of a complete store."""

    key: str
    name: str
    state: str
    summary: Sequence[tuple[str, str]]
    banner: Sequence[str]
    sentence: Sentence
    details: Sequence[str]
    sections: Sequence[Section]
    provenance: Mapping[str, Any]


def describe(subject: Result | Audit, key: str, show_rows: bool = False) -> Report:
    """What a page says of a result, or of an audit and it. key: begins the names of its parts. show_rows: as for `write_page`."""
    result, asked = (subject.result, subject) if isinstance(subject, Audit) else (subject, None)
    batches = [] if asked is not None else audits.worst_first(result.sequential_audits)
    if not show_rows:
        batches = [replace(audit, claim=short_claim(audit.claim)) for audit in batches]
    batched = [sequential_sentence(audit) for audit in batches]
    shared, is_alone = shared_words(result), audits.stand_alone(batches, result)
    banner = _once(f"{words.removesuffix('.')}." for words in shared if words.startswith("WARNING: "))
    sections, notes = list[Section](), list[str]()
    if is_alone:
        sentence, details = batched[0], [*(other.text for other in batched[1:]), audits.NOTHING_ELSE]
    else:
        claim = asked.claim if asked is not None else result.claim
        if claim is not None and not show_rows:
            claim = replace(claim, text=short_claim(claim.text))
        judged = judge(result, claim)
        audited = replace(asked, claim=claim) if asked is not None and claim is not None else _audited(result, claim)
        sections = [*_sections(result, claim, audited, key)]
        notes = [] if judged is None else verdicts.notes([judged])
        sentence = sentence_of(result, judged)
        details = [*sentence.details, *(f"Sequential audit: {said.text}" for said in batched)]
        if not result.complete:
            words = (
                "INCOMPLETE: this page shows only what has all its counts. A violation counts; all else may change. "
            )
            banner = [words + f"Go on with: hpcdp resume STORE. {verdicts.looks_words(result)}", *banner]
    sections += _batch_sections(result, batches, key, [] if is_alone and len(batches) == 1 else [BY_ITSELF])
    sections += [] if is_alone else _exposed(result, show_rows)
    notes = [*(words for section in sections for words in section.notes), *notes, *shared]
    notes += [] if asked is not None else audits.unnamed_words(result)
    # warnings are in the banner, and no table of a page has stars
    few = [words for words in _once(notes) if not words.startswith(("WARNING: ", "* "))]
    sections.append(Section("notes", "Assumptions and warnings", few))
    unfinished = _unfinished_words(batches)
    said = {"incomplete": not (result.complete or is_alone), "unfinished": unfinished, "code changed": result.changed}
    state = ", ".join(word for word, holds in said.items() if holds)
    where = provenance_of(result, show_rows)
    summary = summary_of(result, sentence.kind, where["runs"])
    return Report(key, result.name, state, summary, [*banner, *unfinished], sentence, _once(details), sections, where)


def _unfinished_words(batches: Sequence[SequentialAudit]) -> list[str]:
    """Of audits that ended before their claim was refuted and their budget drawn."""
    return [
        f"UNFINISHED: the sequential audit of {audit.claim} has drawn {audit.looks[-1].samples:,} of "
        f"{audit.rounds.rounds * audit.rounds.batch:,} samples per database. A violation counts; all else may change. Go on with "
        'the command under "To repeat it".'
        for audit in batches
        if not audit.ended
    ]


def _batch_sections(
    result: Result, batches: Sequence[SequentialAudit], key: str, own: Sequence[str]
) -> Iterable[Section]:
    for number, batched in enumerate(batches):
        name = f"batches{number}"
        words = [*own, audits.scope_words(result, batched)]
        tables = [audits.looks_table(batched), *([audits.pairs_table(batched)] if len(batched.cells) > 1 else [])]
        picture, notes = pictures.sequential_picture(batched, f"{key}-{name}"), audits.sequential_notes(batched)
        yield Section(name, f"Sequential audit of {batched.claim}", words, [picture], tables, notes)


def _audited(result: Result, claim: Claim | None) -> Audit | None:
    """The audit of a claim, where the result has what it needs."""
    with suppress(StudyError):
        return audit(result, claim) if claim is not None and "eta" in result.arrays else None
    return None


def _sections(result: Result, claim: Claim | None, audited: Audit | None, key: str) -> Iterator[Section]:
    """What is read off a result: its notions, the audit of its claim, and Rényi divergences of orders that the study names."""
    for name in result.notions:
        reading = NOTIONS[name](result, claim)
        if reading.tables and (reading.tables[0].entries or name == "spectrum"):
            own = pictures.DRAWN[name](result, claim, key)
            yield Section(name, _TITLES[name], [], own, reading.tables, reading.notes)
    if audited is not None:
        reading = audits.read_audit(audited)
        words, own = [BY_ITSELF, *audit_sentence(audited).paragraphs], [pictures.audit_picture(audited, key)]
        yield Section("audit", "Audit", words, own, reading.tables, reading.notes)
    if orders := result.study.estimate.renyi:
        reading = read_renyi(result, orders)
        yield Section("renyi", "Rényi divergences", [], [], reading.tables, reading.notes)


def _exposed(result: Result, show_rows: bool) -> Iterable[Section]:
    """The most exposed pairs; where there is one pair, or nothing tells them apart, that it is so."""
    if "spectrum" not in result.notions:
        return
    exposure = find_exposure(result)
    section = Section("pairs", "Most exposed pairs", exposed_lines(result))
    if len(result.pairs) == 1:
        section.words = ["The study has one pair."]
    elif exposure is None:
        section.words = ["No δ̂ is significantly above 0, so that no pair leads but by noise."]
    else:
        section.tables = [exposed_table(result, exposure)]
        if exposure.order.size < len(section.tables[0].rows):
            section.words = [*section.words, f"{NOTHING}: no δ̂ is significantly above 0 at this ε."]
    if show_rows and result.study.pairs.relative is not None:
        section.tables = [*section.tables, contents_table(result)]
    yield section


def _once(paragraphs: Iterable[str]) -> list[str]:
    """Each of some paragraphs once, without those that are empty."""
    return [words for words in dict.fromkeys(paragraphs) if words]


def summary_of(result: Result, kind: str, runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Headings and words. kind: of the verdict's sentence. runs: of the store, from the first that is known."""
    header = result.study.study
    times = [run["end"] or run["begin"] for run in runs]
    following = _INCOMPLETE if not result.complete and kind != VIOLATION else _NEXT[kind]
    entries = [
        ("Date", times[-1][:10] if times else None),
        ("Subject", header.about),
        ("Owner", header.owner),
        ("What was tested", _tested(result)),
        ("What to do next", following),
    ]
    return [(heading, words) for heading, words in entries if words]


def _tested(result: Result) -> str:
    """The threat that was tested, in two sentences."""
    if "covers" in result.notions:
        return (
            "Databases were drawn, and it was measured by how much a query changes when one row does. Privacy at risk limits how "
            "often noise of a given size is too little."
        )
    if result.study.pairs.distributional is not None:
        return (
            "An attacker sees one output, knows the mechanism, and wants to learn the value of one row; all other rows are "
            "random to the attacker. Only the distributions of databases in this study were tested, and only on "
            "outputs that were drawn."
        )
    many = len(result.pairs)
    pairs = "two neighbouring databases" if many == 1 else f"the databases of {many:,} neighbouring pairs"
    return (
        f"An attacker sees one output, knows the mechanism, and wants to tell {pairs} apart. Only these databases were "
        "tested, and only on the outputs that were drawn."
    )
