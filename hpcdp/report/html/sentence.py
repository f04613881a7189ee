"""The verdict in one sentence: the claim, the confidence, and what it does not say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.results.decision import CONSISTENT, VIOLATION
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.results.verdict import PURE, Verdict

NONE = "none"
"""The kind of a sentence on a result without a claim."""


@dataclass(frozen=True)
class Sentence:
    """kind: "violation", "not separable", "consistent" or "none". epsilon: the one that it names, if any, of the spectrum's."""

    kind: str
    text: str
    epsilon: float | None = None


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
