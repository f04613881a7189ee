"""In words: what a result says of a claim, or at all, and what it does not say; and what numbers rest on. Each is said once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_least, at_most, percent, share
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import PURE, Separation, Verdict, round_up
from hpcdp.store.root import resume_command
from hpcdp.study.file import Study
from hpcdp.study.pairs import describe_equal

NONE = "none"
"""The kind of a sentence on a result without a claim."""

_ORIGIN = ("database", "rows", "distribution", "index", "view")  # of a pair, in CSV: numbers, never contents
FOR_MORE = "The risk may grow when outputs are processed further."
NO_PRIVACY = "This proves no privacy"
NO_ATOMS = "no single value has a probability of its own (clamping makes such)"
BY_ITSELF = "Bounds on δ, limits on pure ε and each audit hold at the confidence level separately, not all at once."
_HOLDS = "this does not say that the claim holds: no number of samples shows that a mechanism is private"


@dataclass(frozen=True)
class Sentence:
    """kind: "violation", "not separable", "consistent" or "none". details: more of it, paragraphs. epsilon: the one that
    it names, if any, of the spectrum's.
    """

    kind: str
    text: str
    details: Sequence[str] = ()
    epsilon: float | None = None

    @property
    def paragraphs(self) -> list[str]:
        """All of it."""
        return [self.text, *self.details]


def sentence_of(result: Result, verdict: Verdict | None) -> Sentence:
    """What a result says of its claim, or at all, and what it does not say."""
    if verdict is None:
        return _unclaimed(result)
    claim, sure = verdict.claim.text, percent(result.confidence)
    if not verdict.is_judged:
        nothing = "no pair is tested yet" if verdict.family == PURE else "no counts are complete yet"
        return Sentence(verdict.verdict, f"The claim {claim} is not judged: {nothing}.", [], None)
    parts = _pure(verdict) if verdict.family == PURE else _delta(verdict)
    if result.depends is not None:
        parts = "draws depend on each other", [f"{result.depends}."], None
    shown, details, epsilon = parts
    if verdict.verdict == VIOLATION:
        beyond = "the loss" if verdict.family == PURE else "δ"
        words = (
            f"The claim {claim} is violated, certified at confidence {sure} (finite-sample): {shown}; the "
            f"true {beyond} may be larger."
        )
    elif verdict.verdict == CONSISTENT:
        words = f"No violation of the claim {claim} was found at confidence {sure}; {_HOLDS}."
    else:
        words = (
            f"The claim {claim} is not separable from what was measured: {shown}, and nothing above the claim is certified at "
            f"confidence {sure}; this says neither that the claim holds nor that it fails."
        )
    return Sentence(verdict.verdict, words, details, epsilon)


def _delta(verdict: Verdict) -> tuple[str, list[str], float | None]:
    """Of a claim by the bounds on δ: what shows the verdict most, more of it, and at which ε it is."""
    result, known, order = verdict.result, verdict.known, _order(verdict)
    if verdict.verdict == VIOLATION:
        excess = np.where(known, result["lower"] - verdict.claimed, -np.inf)
        if not (excess > 0.0).any():
            assert verdict.order is not None
            lower = at_least(verdict.order.lower, ".5f")
            shown = f"the divergence is at least {lower}, and the claim allows {verdict.order.claimed:g}"
            return shown, ["No certified δ is above what the claim implies.", *order], None
        place = np.unravel_index(int(excess.argmax()), excess.shape)
        epsilon, many = float(result["epsilon"][place[2]]), int((excess > 0.0).any(axis=(0, 1)).sum())
        bound, allowed = float(result["lower"][place]), float(verdict.claimed[place])
        return (
            f"at ε = {epsilon:g} δ is at least {at_least(bound)}, and the claim allows {share(allowed)}",
            [
                f"It is violated at {many} of {excess.shape[2]} ε, most clearly at ε = {epsilon:g}, by "
                f"{result.describe_pair(int(place[0]))}, {DIRECTIONS[place[1]]}; all bounds hold together.",
                *order,
            ],
            epsilon,
        )
    if verdict.verdict == CONSISTENT:
        return "", order, None
    separation = verdict.separation
    if separation is None:
        return "D̂ of the order that it limits lies above it", ["No δ̂ is above what the claim implies.", *order], None
    errors = f"{separation.gap / separation.standard_error:.1f} standard errors"
    chance = f"chance alone gives as much with probability at most {at_most(separation.chance, '.1g')} (asymptotic)"
    shown = (
        f"the largest excess of an estimate over the claim is {errors}, at ε = {separation.epsilon:g}; "
        f"{'chance alone explains it' if separation.is_chance else chance}"
    )
    return shown, [_separation(verdict, separation), *order], separation.epsilon


def _separation(verdict: Verdict, separation: Separation) -> str:
    """Where the largest gap is, and what would separate it from the claim."""
    result = verdict.result
    over = int((result["delta"][verdict.known] > verdict.claimed[verdict.known]).sum())
    head = (
        f"δ̂ is above the claim at {over:,} of {int(verdict.known.sum()):,} entries. The largest gap is at "
        f"ε = {separation.epsilon:g}, "
        f"{result.describe_pair(separation.pair)}, {separation.direction}: {separation.gap:.2g}, with a standard error of "
        f"{separation.standard_error:.2g}."
    )
    column = int(np.flatnonzero(result["epsilon"] == separation.epsilon)[0])
    if not result.has_bound((separation.pair, DIRECTIONS.index(separation.direction), column)):
        is_other = result.has_bound(np.s_[separation.pair, :, column])
        what = (
            "direction has no bound (target.direction)" if is_other else "ε has no bound of its own (estimate.certify)"
        )
        return f"{head} That {what}: another study, with fresh draws, could certify it."
    if separation.test is None:
        return f"{head} No number of {result.method.tests_words} that can be drawn would separate it from the claim."
    leftover = round_up(separation.leftover) if separation.leftover else separation.leftover
    return f"{head} {result.method.describe_needed(separation.test, separation.now, leftover)}"


def _order(verdict: Verdict) -> list[str]:
    """What is certified of the divergence that the claim limits."""
    certified, limit = verdict.order, verdict.claim.limit
    if certified is None or limit is None:
        return []
    name = "ρ" if limit.order is None else "KL" if limit.order == 1.0 else f"D of order {limit.order:g}"
    who = "" if certified.pair is None else f" by {verdict.result.describe_pair(certified.pair)}, {certified.direction}"
    words = (
        f"{name} is at least {at_least(certified.lower, '.5f')}{who}; the claim allows "
        f"{certified.claimed:g}{' (violated)' if certified.violated else ''}; certified with confidence "
        f"{percent(verdict.result.confidence)}, together with the bounds on δ."
    )
    return [words if certified.estimate is None else f"{words} D̂ is {certified.estimate:.5f} (asymptotic)."]


def _pure(verdict: Verdict) -> tuple[str, list[str], float | None]:
    """The same by what is certified of pure ε."""
    pure, result = verdict.pure, verdict.result
    assert pure is not None
    lower, is_binned = at_least(pure.lower, ".5f"), "interval" in result.notions
    who = "midpoints of the domain" if pure.pair < 0 else f"{result.describe_pair(pure.pair)}, {pure.direction}"
    judge = "the limits of all bins" if is_binned else "the test of [pure]"
    violated = " (violated)" if pure.violated else ""
    details = [
        f"Pure ε is at least {lower} by {who}; the claim allows {pure.claimed:g}{violated}. It is judged by {judge} alone."
    ]
    upper = (result.pure or {}).get("upper")
    if upper is not None and upper <= pure.claimed:
        where = "this domain" if pure.pair < 0 else "these pairs"
        details.append(
            f"Of {where} the claim holds if {assumed(result)}, and {NO_ATOMS}: pure ε is then at most "
            f"{at_most(upper, '.5f')}, with the same confidence."
        )
    elif verdict.verdict == CONSISTENT:
        details.append("No estimate from a tested set is above the claim.")
    elif not pure.violated:
        shown = f"{pure.estimate:.5f}" if math.isfinite(pure.estimate) else "infinite"
        whose = "that set" if pure.estimate_pair == pure.pair else f"the set of pair {pure.estimate_pair}"
        details.append(f"The estimate from {whose} is above the claim ({shown}), but not certified.")
    if verdict.known.size:
        details.append("The bounds on δ are a family of their own, by which this claim is not judged.")
    shown = f"pure ε is at least {lower}, and {pure.claimed:g} is claimed"
    return shown if pure.violated else "an estimate lies above it", details, None


def _unclaimed(result: Result) -> Sentence:
    """What is certified where nothing is claimed."""
    sure, shown, epsilon = percent(result.confidence), "", None
    rest = "this is a lower bound alone, which cannot show that the mechanism is private"
    if result.risk:
        entry, rest = result.risk[-1], "this says nothing of the other pairs"
        shown = f"at least {entry['cover']:g} of such pairs have a sensitivity of at most {at_most(entry['sensitivity'], '.6g')}"
    elif "spectrum" in result.notions:
        if rows := result.spectrum():
            best = max(rows, key=lambda row: (row["lower"], -row["epsilon"]))
            epsilon = best["epsilon"]
            shown = f"δ at ε = {epsilon:g} is at least {at_least(best['lower'])}"
    elif result.pure is not None:
        shown = f"pure ε is at least {at_least(result.pure['certified'], '.5f')}"
    if not shown:
        return Sentence(NONE, "No claim is judged, and counts are missing, so that nothing is known yet.")
    return Sentence(NONE, f"No claim is judged: with confidence {sure} (finite-sample) {shown}; {rest}.", (), epsilon)


def audit_sentence(audit: Audit) -> Sentence:
    """What an audit of one test a pair says of its claim, with the box that shows it most."""
    box, result = audit.worst, audit.result
    test = int(result["rejected_test"][box.pair].min())
    if audit.verdict == VIOLATION:
        limits = (box.alpha_upper, box.beta_upper)
        first, second = limits if box.orientation == "forward" else limits[::-1]
        words = (
            f"Violated by {result.describe_pair(box.pair)}, {box.orientation}: the test that decides for D′ where L̂ puts q/p "
            f"above {box.eta:.4g} has errors of at most {at_most(first)} and {at_most(second)}; the claim allows no second error "
            f"below {at_least(box.claimed)}. Certified with confidence {percent(result.confidence)}."
        )
    elif result.depends is not None:
        words = f"{NOT_SEPARABLE}: {result.depends}"
    elif audit.verdict == NOT_SEPARABLE:
        words = (
            "No box lies below the claimed curve, but an estimated point does. Chance gives such a point easily; if it is real, "
            f"more test samples would show it (now {test:,} per database)."
        )
    else:
        words = (
            f"No point (α̃, β̃) of a box lies below the claimed curve with {test:,} test samples per database. {NO_PRIVACY}: "
            "another pair, another classifier or more samples may find what this audit did not."
        )
    return Sentence(audit.verdict, words)


def sequential_sentence(audit: SequentialAudit) -> Sentence:
    """What a sequential audit says of its claim, and what it does not say."""
    last, sure = audit.looks[-1], percent(audit.confidence)
    evidence, needed = at_least(last.evidence, ".4g"), f"{audit.needed:g}"
    drawn = f"{last.samples:,} samples per database, training included"
    if last.refuted:
        words = (
            f"The claim {audit.claim} is violated, certified at confidence {sure} (finite-sample, however often one looked): "
            f"after {drawn}, the evidence against it is at least {evidence}, and {needed} refutes it; the true "
            "loss may be larger still."
        )
    else:
        so_far = "was" if audit.ended else "has so far been"
        words = (
            f"The claim {audit.claim} {so_far} not refuted at confidence {sure} by {drawn}: the evidence against it is "
            f"{evidence}, and {needed} would refute it; {_HOLDS}."
        )
    return Sentence(audit.verdict, words)


def leading_words(result: Result, pairs: Sequence[int | None]) -> list[str]:
    """Where pairs that a table names come from; nothing of a study with one pair."""
    named = dict.fromkeys(pair for pair in pairs if pair is not None)
    return [result.describe_pair(pair) for pair in named] if len(result.pairs) > 1 else []


def over_words(result: Result) -> str:
    """Over which pairs the largest is taken, and whether entries are missing."""
    many = len(result.pairs)
    over = "both directions of 1 pair" if many == 1 else f"{many:,} pairs and both directions"
    return f"the largest over {over}{state_words(result)}"


def state_words(result: Result) -> str:
    """That entries are missing, if they are."""
    return "" if result.complete else "  (INCOMPLETE: only what has all its counts)"


def missing_words(what: str, result: Result) -> str:
    """That nothing can be said yet."""
    return f"{what}; go on with: {resume_command(result.store)}"


def estimate(delta: float, limit: float | None) -> str:
    """δ̂ as texts print it: where it may be 0, the limit of the sets that were learned (see `Method.describe_limits`)."""
    return share(delta) if limit is None else f"< {at_most(limit)}*"


def limit_words(results: Sequence[Result]) -> list[str]:
    """What "<" and "*" of `estimate` mean, if there are any; one for each method among the results."""
    marked = [result for result in results if result.resolution.warnings]
    return [*dict.fromkeys(result.method.describe_limits(percent(result.confidence)) for result in marked)]


def changed_words(result: Any) -> list[str]:
    """That code changed while the store grew, and that draws depend on each other; of a result or a sequential audit."""
    return [f"WARNING: {words}" for words in result.code_warnings]


def trust_words(study: Study, tried: str = "the first chunk of each database") -> list[str]:
    """What certified numbers rest on besides independent draws, and of what they are. tried: what foreign code was tried on."""
    e, paragraphs = study.estimate, []
    foreign = e.foreign
    if foreign is not None:
        paragraphs.append(
            f"Certified numbers also rest on {foreign} judging each output by itself, whatever else is in its batch. That was "
            f"tried on trial outputs and on {tried}, not proved."
        )
    if not study.mechanism.reproducible:
        paragraphs.append(
            "reproducible = false: a chunk that failed is drawn anew, so that certified numbers are of the distribution of "
            "outputs given that the mechanism does not fail. Whether it fails may tell D from D′; that is not counted."
        )
    if study.pairs.distributional is not None:
        paragraphs.append(
            "Distributional DP: one row has a known value, and all other rows are random. The numbers hold for the distributions "
            "of databases of this study only."
        )
    return paragraphs


def shared_words(result: Result, sizes: bool = True) -> list[str]:
    """What all numbers rest on besides independent draws, and what speaks against them. sizes: with the samples it takes."""
    grown = (
        f"This is a new estimate; the study of this store was before: {'; '.join(result.grown)}. The bounds of each "
        "estimate hold by themselves, if what was added was not chosen after a look at the results."
    )
    equal = [pair["pair"] for pair in result.pairs if pair.get("equal")]
    return [
        *(result.method.describe_basis(result) if "spectrum" not in result.notions or result.spectrum() else []),
        *trust_words(result.study),
        *changed_words(result),
        *(f"WARNING: {words}" for words in [describe_equal(equal)] if words),
        *(f"warning: {words}" for words in result.resolution.warnings[: None if sizes else 1]),
        *([grown] if result.grown else []),
    ]


def origin_names(result: Result) -> list[str]:
    """Columns of a CSV file that say where a pair comes from."""
    return [key for key in _ORIGIN if any(key in entry for entry in result.pairs)]


def origin_of(pair: Mapping[str, Any]) -> dict[str, Any]:
    """These columns of a pair, rows apart by spaces."""
    columns = {key: pair.get(key, "") for key in _ORIGIN}
    return {key: " ".join(map(str, value)) if isinstance(value, list) else value for key, value in columns.items()}


def assumed(result: Result) -> str:
    """What upper limits of a histogram rest on."""
    return "C holds" if result.study.pairs.domain is None else "C and D hold"
