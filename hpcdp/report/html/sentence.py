"""The verdict in one sentence: the claim, the confidence, and what it does not say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.results.result import Result
from hpcdp.results.verdict import CONSISTENT, PURE, VIOLATION, Verdict

NONE = "none"
"""The kind of a sentence on a result without a claim."""


@dataclass(frozen=True)
class Sentence:
    """kind: "violation", "not separable", "consistent" or "none"."""

    kind: str
    text: str


def sentence_of(result: Result, verdict: Verdict | None) -> Sentence:
    """What a result says of its claim, or at all, and what it does not say."""
    if verdict is None:
        return Sentence(NONE, _unclaimed(result))
    claim, sure = verdict.claim.text, percent(result.confidence)
    if verdict.verdict == VIOLATION:
        beyond = "how large the loss really is" if verdict.family == PURE else "how large δ really is"
        words = (
            f"The claim {claim} is violated, certified at confidence {sure} (finite-sample): {_shown(verdict)}; "
            f"this does not say {beyond}, which may be more, nor that anything else about the mechanism is as claimed."
        )
    elif verdict.verdict == CONSISTENT:
        words = (
            f"No violation of the claim {claim} was found at confidence {sure}; this does not say that the claim holds: no "
            "number of samples shows that a mechanism is private."
        )
    else:
        words = (
            f"The claim {claim} is neither refuted nor met: nothing above it is certified at confidence {sure}, but an estimate "
            "lies above it, or none is known; this says neither that the claim holds nor that it fails."
        )
    return Sentence(verdict.verdict, words)


def _shown(verdict: Verdict) -> str:
    """The clearest bound above the claim."""
    result = verdict.result
    if verdict.pure is not None:
        return f"pure ε is at least {at_least(verdict.pure.lower, '.5f')}, and {verdict.pure.claimed:g} is claimed"
    above = verdict.known & (result["lower"] > verdict.claimed)
    if above.any():
        excess = np.where(above, result["lower"] - verdict.claimed, -np.inf)
        place = np.unravel_index(int(excess.argmax()), excess.shape)
        lower, allowed = float(result["lower"][place]), float(verdict.claimed[place])
        return f"at ε = {result['epsilon'][place[2]]:g} δ is at least {at_least(lower)}, and the claim allows {share(allowed)}"
    assert verdict.order is not None
    return f"the divergence is at least {at_least(verdict.order.lower, '.5f')}, and the claim allows {verdict.order.claimed:g}"


def _unclaimed(result: Result) -> str:
    sure, rest = percent(result.confidence), "it says nothing of how large it is at most, so nothing of privacy"
    if result.study.at_risk is not None:
        if not result.risk:
            return "No claim is judged, and pairs are missing, so that nothing is known yet."
        entry = result.risk[-1]
        return (
            f"No claim is judged: with confidence {sure} (finite-sample) at least {entry['cover']:g} of such pairs "
            f"have a sensitivity of at most {at_most(entry['sensitivity'], '.6g')}; this says nothing of the other pairs."
        )
    if not result.study.counts_levels:
        found = result.pure
        if found is None:
            return "No claim is judged, and counts are missing, so that nothing is known yet."
        lower = at_least(found["certified"], ".5f")
        return f"No claim is made: with confidence {sure} (finite-sample) pure ε is at least {lower}; {rest}."
    rows = result.spectrum()
    if not rows:
        return "No claim is judged, and no cell has all its counts, so that nothing is known yet."
    best = max(rows, key=lambda row: (row["lower"], -row["epsilon"]))
    return (
        f"No claim is made: with confidence {sure} (finite-sample) δ at ε = {best['epsilon']:g} is at least "
        f"{at_least(best['lower'])}; {rest}."
    )
