"""What a report begins with, for who decides on a release: date, subject, owner, what was tested, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from hpcdp.report.html.provenance import Run
from hpcdp.report.sentences import NONE
from hpcdp.results.decision import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.result import Result

_NEXT = {
    VIOLATION: "Do not release with this claim: correct the mechanism or claim less, and run a new study.",
    CONSISTENT: "No violation was found. This is no proof of privacy: keep the argument for the claim beside this report.",
    NOT_SEPARABLE: "No violation was certified, but an estimate is above the claim, as happens by chance to correct mechanisms "
    "too. Do not release on this report alone: run a larger study, and keep the argument for the claim beside it.",
    NONE: "Compare the certified bounds with what you want to promise: the study makes no claim.",
}
_INCOMPLETE = "Wait for the rest of the run, unless a violation is certified already: what is missing may show one."


def summary_of(result: Result, kind: str, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Headings and words. kind: of the verdict's sentence. runs: of the store, from the first that is known."""
    header = result.study.study
    times = [run.end or run.begin for run in runs]
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
