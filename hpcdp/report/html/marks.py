"""What a number of a page is, in the words that stand above its column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """word: what stands above a column. key: of its style. means: what that says, for the page's own legend."""

    word: str
    key: str
    means: str


FINITE = Mark("finite-sample", "finite", "holds for this number of samples, at the stated confidence")
LIMITED = Mark(
    "finite-sample, of the sets", "limited", "holds at the stated confidence of the learned sets: no limit of δ"
)
LEFTOVER = Mark("finite-sample, no bound", "leftover", "holds up to the leftover only: by itself it bounds nothing")
ASSUMED = Mark("finite-sample, if assumed", "assumed", "holds at the stated confidence if what is assumed is true")
ASYMPTOTIC = Mark(
    "asymptotic", "asymptotic", "an estimate, or right as samples become many; rests on the classifier too"
)
HEURISTIC = Mark("heuristic", "heuristic", "a rule of thumb that nothing proves")
REFUTED = Mark("published, refuted", "refuted", "as a paper has it; promise nothing by it")
GIVEN = Mark("given", "given", "of the study or the claim, or a name")
CHOSEN = Mark("chosen by the samples", "chosen", "which one it is was found by these samples; others may find another")
COUNT = Mark("exact count", "count", "counted, not estimated")

MARKS = (FINITE, LIMITED, LEFTOVER, ASSUMED, ASYMPTOTIC, HEURISTIC, REFUTED, GIVEN, CHOSEN, COUNT)
"""All of them, in the order of a legend."""
