"""What a page says of one result, in its order: verdict, pictures, tables, pairs, assumptions and warnings, provenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.errors import StudyError
from hpcdp.report import audit as audits
from hpcdp.report import pure, table
from hpcdp.report import verdict as verdicts
from hpcdp.report.exposed import contents_table, exposed_lines, exposed_table, find_exposure
from hpcdp.report.html import pictures
from hpcdp.report.html.pictures import Picture
from hpcdp.report.html.provenance import Provenance, provenance_of, short_claim
from hpcdp.report.levels import renyi_notes, renyi_table
from hpcdp.report.tables import NOTHING, Table
from hpcdp.report.words import changed_words, claim_of, warning_words
from hpcdp.results.audit import Audit, audit
from hpcdp.results.decision import CONSISTENT, VIOLATION
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.results.verdict import PURE, Verdict, verify

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim


NONE = "none"
"""The kind of a sentence on a result without a claim."""


@dataclass(frozen=True)
class Sentence:
    """kind: "violation", "not separable", "consistent" or "none". epsilon: the one that it names, if any, of the spectrum's."""

    kind: str
    text: str
    epsilon: float | None = None


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
    batches = [] if asked is not None else audits.worst_first(result.sequential_audits)
    if not show_rows:
        batches = [replace(audit, claim=short_claim(audit.claim)) for audit in batches]
    batched = [sequential_sentence(audit) for audit in batches]
    batch_notes = [words for audit in batches for words in audits.sequential_notes(audit)]
    batch_notes += [] if asked is not None else audits.unnamed_words(result)
    banner, is_alone = _changed(result), audits.stand_alone(batches, result)
    if is_alone:
        sentence, details = batched[0], [*(other.text for other in batched[1:]), audits.NOTHING_ELSE]
        sections = [*_batch_sections(result, batches, key, [audits.OWN] if len(batches) > 1 else [])]
        notes = batch_notes
    else:
        claim = asked.claim if asked is not None else claim_of(result)
        if claim is not None and not show_rows:
            claim = replace(claim, text=short_claim(claim.text))
        judged = judge(result, claim)
        audited = replace(asked, claim=claim) if asked is not None and claim is not None else _audited(result, claim)
        own = (
            "This audit is a family of its own: it and what is said above each hold at the confidence, not all at once."
        )
        sections = [
            *_sections(result, claim, audited, key),
            *_batch_sections(result, batches, key, [own]),
            *_exposed(result, show_rows),
        ]
        notes = [*warning_words(result), *_notes(result, claim, judged, audited), *batch_notes]
        sentence = sentence_of(result, judged)
        details = [] if judged is None else verdicts.verdict_words(judged)
        details += [f"Sequential audit: {said.text}" for said in batched]
        if not result.complete:
            words = (
                "INCOMPLETE: this page shows only what has all its counts. A violation counts; all else may change. "
            )
            banner = [words + f"Go on with: hpcdp resume STORE. {verdicts.looks_words(result)}", *banner]
    few = [words for words in _once(notes) if not words.startswith("WARNING: ")]  # which the banner says
    sections.append(Section("notes", "Assumptions and warnings", few))
    unfinished = _unfinished_words(batches)
    said = {"incomplete": not (result.complete or is_alone), "unfinished": unfinished, "code changed": result.changed}
    state = ", ".join(word for word, holds in said.items() if holds)
    where = provenance_of(result, show_rows)
    return Report(key, result.name, state, [*banner, *unfinished], sentence, _once(details), sections, where)


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
        picture = pictures.sequential_picture(batched, f"{key}-{name}")
        yield Section(name, f"Sequential audit of {batched.claim}", words, [picture], tables)


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


def _changed(result: Result) -> list[str]:
    return _once(f"{words}." for words in changed_words(result))


def _sections(result: Result, claim: Claim | None, audited: Audit | None, key: str) -> Iterable[Section]:
    if result.study.at_risk is not None:
        if result.risk:
            picture = pictures.risk_picture(result, key)
            yield Section("risk", "Privacy at risk", [], [picture], [pure.risk_table(result)])
        return
    if result.study.counts_levels:
        own = pictures.spectrum_pictures(result, claim, key)
        yield Section("spectrum", "Spectrum", [], own, [table.spectrum_table(result, claim)])
    if result.pure is not None:
        picture = pictures.pure_picture(result, key)
        yield Section("pure", "Pure ε", [], [picture], pure.pure_tables(result, result.pure))
    if points := table.leading_points(result):
        own = [pictures.tradeoff_picture(result, claim, points, key)]
        yield Section("tradeoff", "Trade-off", [], own, [table.tradeoff_table(points)])
    if audited is not None:
        words = [
            "This test of the same claim is a family of its own: it and the verdict above each hold at the confidence, not both "
            "at once.",
            *audits.verdict_words(audited),
        ]
        own = [pictures.audit_picture(audited, key)]
        yield Section("audit", "Audit", words, own, [audits.box_table(audited), audits.bounds_table(audited)])
    if orders := result.study.estimate.renyi:
        levels = result.renyi(list(orders))
        yield Section("renyi", "Rényi divergences", [], [], [renyi_table(result, levels, result.zcdp())])


def _exposed(result: Result, show_rows: bool) -> Iterable[Section]:
    """The most exposed pairs; where there is one pair, or nothing tells them apart, that it is so."""
    if result.study.at_risk is not None or not result.study.counts_levels:
        return
    found = find_exposure(result)
    section = Section("pairs", "Most exposed pairs", exposed_lines(result))
    if len(result.pairs) == 1:
        section.words = ["The study has one pair."]
    elif found is None:
        section.words = ["No δ̂ is resolved, so that no pair leads but by noise."]
    else:
        section.tables = [exposed_table(result, found)]
        if found.order.size < len(section.tables[0].rows):
            section.words = [*section.words, f"{NOTHING}: no δ̂ is resolved at this ε."]
    if show_rows and result.study.pairs.relative is not None:
        section.tables.append(contents_table(result))
    yield section


def _notes(result: Result, claim: Claim | None, judged: Verdict | None, audited: Audit | None) -> Iterable[str]:
    """What every number of the page rests on."""
    if result.study.at_risk is not None:
        yield from pure.risk_notes(result) if result.risk else ()
        return
    if result.study.counts_levels:
        yield from table.footnotes(result, claim)
    if judged is not None:
        yield from verdicts.notes([judged])
    if result.pure is not None:
        yield from pure.notes(result, result.pure)
    if audited is not None:
        yield from audits.notes(audited)
    if orders := result.study.estimate.renyi:
        yield from renyi_notes(result, result.renyi(list(orders)))


def _once(paragraphs: Iterable[str]) -> list[str]:
    """Each of some paragraphs once, without those that are empty."""
    return [words for words in dict.fromkeys(paragraphs) if words]


def sentence_of(result: Result, verdict: Verdict | None) -> Sentence:
    """What a result says of its claim, or at all, and what it does not say."""
    if verdict is None:
        return _unclaimed(result)
    claim, sure = verdict.claim.text, percent(result.confidence)
    epsilon = None
    if verdict.verdict == VIOLATION:
        beyond = "how large the loss really is" if verdict.family == PURE else "how large δ really is"
        shown, epsilon = _shown(verdict)
        words = (
            f"The claim {claim} is violated, certified at confidence {sure} (finite-sample): {shown}; "
            f"this does not say {beyond}, which may be more, nor that anything else about the mechanism is as claimed."
        )
    elif verdict.verdict == CONSISTENT:
        words = (
            f"No violation of the claim {claim} was found at confidence {sure}; this does not say that the claim holds: no "
            "number of samples shows that a mechanism is private."
        )
    else:
        why, epsilon = _undecided(verdict)
        words = (
            f"The claim {claim} is not separable from what was measured: {why}, and nothing above the claim is certified at "
            f"confidence {sure}; this says neither that the claim holds nor that it fails."
        )
    return Sentence(verdict.verdict, words, epsilon)


def _undecided(verdict: Verdict) -> tuple[str, float | None]:
    """Why a claim is not separable, and the ε that this names."""
    if verdict.result.depends is not None:
        return "draws depend on each other", None
    if verdict.family == PURE:
        known = verdict.pure is not None
        return ("an estimate lies above it" if known else "no pair is tested yet"), None
    if not verdict.known.any():
        return "no cell has all its counts yet", None
    if (found := verdict.separation) is None:
        return "D̂ of the order that it limits lies above it", None
    errors = f"{found.gap / found.standard_error:.1f} standard errors"
    gap = f"such a gap as at ε = {found.epsilon:g}, where an estimate lies {errors} above it"
    if found.is_chance:
        return f"chance alone gives {gap}", found.epsilon
    return f"chance gives {gap}, with probability at most {at_most(found.chance, '.1g')} (asymptotic)", found.epsilon


def _shown(verdict: Verdict) -> tuple[str, float | None]:
    """The clearest bound above the claim, and its ε if it has one."""
    result = verdict.result
    if verdict.pure is not None:
        return (
            f"pure ε is at least {at_least(verdict.pure.lower, '.5f')}, and {verdict.pure.claimed:g} is claimed",
            None,
        )
    above = verdict.known & (result["lower"] > verdict.claimed)
    if above.any():
        excess = np.where(above, result["lower"] - verdict.claimed, -np.inf)
        place = np.unravel_index(int(excess.argmax()), excess.shape)
        lower, allowed = float(result["lower"][place]), float(verdict.claimed[place])
        epsilon = float(result["epsilon"][place[2]])
        return f"at ε = {epsilon:g} δ is at least {at_least(lower)}, and the claim allows {share(allowed)}", epsilon
    assert verdict.order is not None
    words = f"the divergence is at least {at_least(verdict.order.lower, '.5f')}, and the claim allows {verdict.order.claimed:g}"
    return words, None


def _unclaimed(result: Result) -> Sentence:
    sure, rest = percent(result.confidence), "it says nothing of how large it is at most, so nothing of privacy"
    if result.study.at_risk is not None:
        if not result.risk:
            return Sentence(NONE, "No claim is judged, and pairs are missing, so that nothing is known yet.")
        entry = result.risk[-1]
        return Sentence(
            NONE,
            f"No claim is judged: with confidence {sure} (finite-sample) at least {entry['cover']:g} of such pairs "
            f"have a sensitivity of at most {at_most(entry['sensitivity'], '.6g')}; this says nothing of the other pairs.",
        )
    if not result.study.counts_levels:
        found = result.pure
        if found is None:
            return Sentence(NONE, "No claim is judged, and counts are missing, so that nothing is known yet.")
        lower = at_least(found["certified"], ".5f")
        return Sentence(
            NONE, f"No claim is made: with confidence {sure} (finite-sample) pure ε is at least {lower}; {rest}."
        )
    rows = result.spectrum()
    if not rows:
        return Sentence(NONE, "No claim is judged, and no cell has all its counts, so that nothing is known yet.")
    best = max(rows, key=lambda row: (row["lower"], -row["epsilon"]))
    return Sentence(
        NONE,
        f"No claim is made: with confidence {sure} (finite-sample) δ at ε = {best['epsilon']:g} is at least "
        f"{at_least(best['lower'])}; {rest}.",
        best["epsilon"],
    )


def sequential_sentence(audit: SequentialAudit) -> Sentence:
    """What an audit says of its claim, and what it does not say."""
    last, sure = audit.looks[-1], percent(audit.confidence)
    evidence, needed = at_least(last.evidence, ".4g"), f"{audit.needed:g}"
    drawn = f"{last.samples:,} samples per database, training included"
    if last.refuted:
        words = (
            f"The claim {audit.claim} is violated, certified at confidence {sure} (finite-sample, however often one looked): "
            f"after {drawn}, the evidence against it is at least {evidence}, and {needed} refutes it; this does not say by how "
            "much it is violated, nor that anything else about the mechanism is as claimed."
        )
    else:
        so_far = "was" if audit.ended else "has so far been"
        words = (
            f"The claim {audit.claim} {so_far} not refuted at confidence {sure} by {drawn}: the evidence against it is "
            f"{evidence}, and {needed} would refute it; this does not say that the claim holds: no number of samples shows that "
            "a mechanism is private."
        )
    return Sentence(audit.verdict, words)
