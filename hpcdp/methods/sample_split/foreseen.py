"""What a target will take, said before anything is drawn: from the study's claim, if it has one, else the least and the most."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcdp._base.rounding import duration
from hpcdp.engine.method import Rows
from hpcdp.engine.task import Costs
from hpcdp.methods.sample_split.targets import COUNT_SECONDS, LEARNING
from hpcdp.study.claims import parse_claim
from hpcdp.study.estimate import Target
from hpcdp.study.file import Study

_STEP = 1e-5  # of ε, to take the slope of a spectrum


def rates_of(spectrum: Callable[[Any], Any], epsilon: float) -> tuple[float, float]:
    """P(S) and Q(S) of the best set at ε, from a spectrum δ(·) alone.

    δ(ε) = P(S) − e^ε Q(S) has the slope −e^ε Q(S), by the envelope theorem; where it has a kink, the slope to its right.
    """
    here, beyond = (float(np.asarray(spectrum(at))) for at in (epsilon, epsilon + _STEP))
    inflated = min(1.0, max(0.0, (here - beyond) / _STEP))
    return min(1.0, here + inflated), min(1.0, inflated * math.exp(-epsilon))


def draws_needed(target: Target, epsilon: float, rates: tuple[float, float]) -> float:
    """Test draws per database, equal sides, for the target's standard error where P(S) and Q(S) are these; inf for δ = 0."""
    (a, b), c = rates, math.exp(epsilon)
    delta = a - c * b
    if delta <= 0.0:
        return math.inf
    return (a * (1.0 - a) + c * c * b * (1.0 - b)) / (target.relative_error * delta) ** 2


def foresee(study: Study) -> tuple[str, float] | None:
    """When the target of a study takes how many test draws per database, the former in words; None where nothing tells.

    Heuristic: it says what is true if the claim is exact. Without a claim a δ still has a least number, for P(S) >= δ.
    """
    target = study.estimate.target
    assert target is not None
    if study.study.claim is not None:
        claim, epsilons = parse_claim(study.study.claim, study.folder), np.asarray(study.estimate.epsilons)
        epsilon = target.epsilon
        if epsilon is None:
            enough = np.flatnonzero(claim.implied(epsilons) >= float(target.delta or 0.0))
            epsilon = float(epsilons[enough[-1]]) if enough.size else float(epsilons[0])
        draws = draws_needed(target, epsilon, rates_of(claim.implied, epsilon))
        return f"if {claim.text} is exact, at ε = {epsilon:g}, about", draws
    if target.delta is not None:
        return f"where δ is as small as {target.delta:g}, at least", draws_needed(target, 0.0, (target.delta, 0.0))
    return None


def describe_target(study: Study, costs: Costs, workers: int) -> Rows:
    """Lines of a plan: what a target or a time asks for, how many draws a leading pair will take, and how long."""
    e, target = study.estimate, study.estimate.target
    if target is None:
        return [("target", f"as many draws as {e.time} allows")] if e.time else []
    wanted = (
        f"{aim_words(target)}; validation tallies decide how many draws that takes, before the first of them is counted"
    )

    def takes(draws: float) -> str:
        seconds = 2.0 * (1.0 + 2.0 * LEARNING) * draws * (costs.draw + COUNT_SECONDS) / workers
        return f"{draws:.1e} test draws per database of a pair that leads, {duration(seconds)} on {workers} workers"

    known = foresee(study)
    if known is None:
        words = f"at most {takes(target.most)}; the first tallies will tell, or a claim"
    elif math.isinf(known[1]):
        words = f"{known[0].removesuffix(', about')}, δ is 0: no number of draws tells it"
    else:
        when, draws = known
        too_many = (
            f"; more than target.most = {target.most:.1e}: raise target.most, or accept a larger standard error"
            if draws > target.most
            else ""
        )
        words = f"{when} {takes(draws)}{too_many}"
    return [("target", wanted), ("foreseen", words)]


def aim_words(target: Target) -> str:
    """The δ that a target is about, and how well it is wanted."""
    what = f"δ at ε = {target.epsilon:g}" if target.epsilon is not None else f"δ = {target.delta:g}"
    return f"{what} with a standard error of {100 * target.relative_error:g} %"
