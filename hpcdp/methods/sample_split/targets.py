"""Targets: how many draws each pair's stages get, decided from its tallies before the first test count is read.

A decision is a function of committed records, and is a record itself before anything acts on it. The size of a test stage never
depends on test counts, so every bound on them holds as if the study had named that size. Many pairs race: fresh draws screen what
training taught, round by round, until few pairs may lead; these are refined, the others get as many test draws as screened them.
Which pairs may still lead is a heuristic; that the largest δ of all pairs is at least the bound of whichever pair was
tested is certified all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.rounding import duration
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.index import Index, first_of
from hpcdp.engine.method import Rows
from hpcdp.engine.task import Costs
from hpcdp.methods.classes import taught
from hpcdp.notions.spectrum import by_direction
from hpcdp.store.layout import Generation, Layout
from hpcdp.study.claims import parse_claim
from hpcdp.study.estimate import Target
from hpcdp.study.file import Study
from hpcdp.study.pairs import describe_pair
from hpcdp.study.problem import MANY, Problem, Sizes
from hpcdp.study.stored import commit_sizes, known_sizes

LEARNING = 0.03
"""Share of the test draws that refining takes, and as many validation."""
COUNT_SECONDS = 5e-9
"""To find an output's class or cell."""

_GROWTH = 64  # times the refining draws of one decision to the next, at most
_BLIND_GROWTH = 4  # the same where the tallies do not tell δ̂
_LEAST_GROWTH = 1.6  # of any decision that asks for more
_COUNTS = 10.0  # below so many outputs in a set its share is not known well enough to plan with
_MOST_RATIO = 16.0  # of the draws of one side to those of the other
_MOST_TALLY_RATIO = 4.0  # of tallies: the side that the target needs less teaches the other direction's sets
_LEAST_TALLY_RATIO = 3.0  # less saves less than a fifth of them, and where L has a plateau sets are learned worse
# Standard errors of δ̂ above 0 from which on it can be planned with. Looks go on until it is, so chance helps it; and draws that
# tell δ̂ better cost no more than those that its error adds to the test.
_KNOWN = 6.0
_APART = 3.0  # standard errors between what a pair may have and what another has at least
_ROUND = 4  # times the draws of one racing round to the next
_SLOPE_STEP = 1e-5  # of ε, to take the slope of a spectrum
_WORTH = 8  # a racing round takes at most this part of what testing the pair takes


@dataclass(frozen=True)
class Forecast:
    """What the validation tallies of a pair say of its target.

    epsilon: where δ̂ is wanted. delta: δ̂ there, of the wanted or the better direction; between low and high, about. draws: test
    draws per database that its standard error needs; None where the tallies do not tell. ratio: draws of D' to one of D.
    told: draws of equal sides that would tell δ̂ as well as the tallies, to one of D. tallies: draws of D and of D' that do
    so in place of one of each, together the fewest.
    """

    epsilon: float
    delta: float
    low: float
    high: float
    draws: float | None
    ratio: float = 1.0
    told: float = 1.0
    tallies: tuple[float, float] = (1.0, 1.0)

    @property
    def growth(self) -> float:
        """Times the draws so far that should tell δ̂ well enough."""
        error = (self.high - self.delta) / _APART
        if self.delta <= 2.0 * error:  # nothing to go by
            return _BLIND_GROWTH
        return float(np.clip(1.2 * (_KNOWN * error / self.delta) ** 2, _LEAST_GROWTH, _BLIND_GROWTH))


def target_column(target: Target, epsilons: NDArray[np.float64], shares: NDArray[np.float64]) -> int:
    """Which ε the target is about, by shares (pairs, 2, epsilons, 2); of a target δ the last at which some δ̂ is δ or more."""
    if target.epsilon is not None:
        return int(np.argmin(np.abs(epsilons - target.epsilon)))
    deltas = shares[..., 0] - np.exp(epsilons) * shares[..., 1]
    enough = np.flatnonzero(_wanted(target, deltas).max(axis=(0, 1)) >= float(target.delta or 0.0))
    return int(enough[-1]) if enough.size else 0


def _wanted(target: Target, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values (…, 2, epsilons) of the directions that the target is about."""
    if target.direction is None:
        return values
    row = DIRECTIONS.index(target.direction)
    return values[..., row : row + 1, :]


def forecast_target(
    target: Target, epsilon: float, shares: NDArray[np.float64], tallied: tuple[int, int] | NDArray[np.int64]
) -> Forecast:
    """From shares (2, 2) of `tallied` draws of D and of D' in the sets of each direction, the side not inflated first.

    Asymptotic: the variance of a − e^ε b with the shares put in, of one output more than there is on either side: none in the
    set of the inflated side would tell nothing of the variance, and e^ε of them may be missing in δ̂.
    Where one direction is asked for, both sides are drawn in proportion to their parts of the standard error, which takes
    the fewest draws together (Neyman allocation); draws is then their mean. So are tallies to come, within bounds.
    """
    c = math.exp(epsilon)
    rows = [0, 1] if target.direction is None else [DIRECTIONS.index(target.direction)]
    row = max(rows, key=lambda row: shares[row, 0] - c * shares[row, 1])
    a, b = (float(share) for share in shares[row])
    seen = (int(tallied[row]), int(tallied[1 - row]))
    delta = max(0.0, a - c * b)
    parts = _parts(a, b, c, seen)
    both = parts[0] + parts[1] * (seen[0] / seen[1])
    error = math.sqrt(both / seen[0])
    low, high = max(0.0, delta - _APART * error), delta + _APART * error
    told, ratio, tallies = 1.0, 1.0, (1.0, 1.0)
    if both > 0.0:
        told = sum(parts) / both if row == 0 else sum(parts) / both * (seen[0] / seen[1])
    is_known = a * seen[0] >= _COUNTS
    inflated = _best_ratio(parts, _MOST_TALLY_RATIO) if is_known and target.direction is not None else 1.0
    if max(inflated, 1.0 / inflated) >= _LEAST_TALLY_RATIO:
        first = (parts[0] + parts[1] / inflated) / sum(parts)
        tallies = (first, first * inflated) if row == 0 else (first * inflated, first)
    if not is_known or delta <= _KNOWN * error:
        return Forecast(epsilon, delta, low, high, None, told=told, tallies=tallies)
    # δ̂ one standard error smaller and its variance one larger, so that about four tests of five are long enough
    parts = _parts(a, b, c, seen, 1.0)
    variance = sum(parts)
    if target.direction is not None:
        inflated = _best_ratio(parts, _MOST_RATIO)
        variance = (parts[0] + parts[1] / inflated) * (1.0 + inflated) / 2.0
        ratio = inflated if row == 0 else 1.0 / inflated
    draws = variance / (target.relative_error * (delta - error)) ** 2
    return Forecast(epsilon, delta, low, high, draws, ratio, told, tallies)


def _best_ratio(parts: tuple[float, float], most: float) -> float:
    """Draws of the second side to one of the first that tell a difference with the fewest draws, from 1/most to most."""
    return min(most, max(1.0 / most, math.sqrt(parts[1] / parts[0]))) if min(parts) > 0.0 else 1.0


def _parts(a: float, b: float, c: float, seen: tuple[int, int], errors: float = 0.0) -> tuple[float, float]:
    """Variances of one draw's part of a and of c·b, the shares larger by one output of those seen and by so many errors."""
    first, second = (
        min(1.0, share + 1.0 / n + errors * math.sqrt(1.0 / n) * math.sqrt(share))
        for share, n in zip((a, b), seen, strict=True)
    )
    return first * (1.0 - a), c * c * second * (1.0 - b)


def next_sizes(target: Target, now: Sizes, forecast: Forecast, chunk: int, leads: bool, rivals: int) -> Sizes:
    """What a refined pair gets next.

    A pair that cannot lead any more gets one chunk to test. Others get more refining draws as long as these are few beside the
    test draws, or, where others may lead too, few beside what testing all takes; then the test stage. Where the tallies
    do not tell δ̂ where it could just be had, or the target would take more than the most draws, the test is as long as
    refining was.
    """
    if not leads:
        return replace(now, test=chunk)
    # all of these are draws of equal sides that would tell as much
    have = forecast.told * now.refine
    # so many draws of both stages tell δ̂ just well enough where its test takes the most
    most = max(LEARNING, (_KNOWN * target.relative_error) ** 2 / 2.0) * target.most
    enough = most if forecast.draws is None else LEARNING * forecast.draws
    wanted = min(enough, most, (forecast.growth if forecast.draws is None else _GROWTH) * have)
    if forecast.draws is not None and rivals and _WORTH * _ROUND * forecast.told * now.validation < forecast.draws:
        wanted = max(wanted, _ROUND * have)
    if wanted > 1.5 * have:
        pairs = zip(now.tallies, forecast.tallies, strict=True)
        d, d_prime = (max(held[0], _round(wanted * each, chunk)) for held, each in pairs)
        return replace(now, refine=d, validation=d, d_prime=(0, 0) if d == d_prime else (d_prime, d_prime))
    if forecast.draws is None or forecast.draws > target.most:
        return replace(now, test=math.ceil(have / chunk) * chunk)
    larger = _round(forecast.draws * 2.0 * max(1.0, forecast.ratio) / (1.0 + forecast.ratio), chunk)
    if forecast.ratio == 1.0:
        return replace(now, test=larger)
    smaller = max(1, round(chunk * min(forecast.ratio, 1.0 / forecast.ratio)))
    split = (smaller, chunk) if forecast.ratio > 1.0 else (chunk, smaller)
    return replace(now, test=larger // chunk * split[0], split=split)


def next_screen(target: Target, screen: int, leaders: Sequence[Forecast], pairs: int) -> int:
    """Draws of the next screening round, 0 to refine instead; at most 3 % of testing all."""
    testing = min(target.most, leaders[0].draws or target.most)
    after = _ROUND * screen
    if len(leaders) <= MANY or after > testing or len(leaders) * after > LEARNING * pairs * testing:
        return 0
    return after


def _round(draws: float, chunk: int) -> int:
    """Whole chunks, in steps of a sixteenth of a power of two, so that pairs much alike get equal sizes."""
    chunks = max(1.0, draws / chunk)
    step = 2.0 ** math.floor(math.log2(chunks)) / 16.0
    return math.ceil(math.ceil(chunks / step) * step) * chunk


def decide(problem: Problem, index: Index, layout: Layout, generation: Generation) -> list[str]:
    """Commit what each pair without a test stage gets, when every pair has all it was given; in words, largest δ̂ first."""
    e = problem.study.estimate
    if e.target is None:
        return []
    epsilons, numbers = np.asarray(e.epsilons), list(first_of(problem.pilot_keys).values())
    exceed, samples = taught(problem, index, [problem.model_key(number) for number in numbers], epsilons)
    if (exceed < 0).any():
        return []
    seen = np.maximum(1, samples)
    shares = exceed / by_direction(seen)
    column = target_column(e.target, epsilons, shares)
    forecasts = [
        forecast_target(e.target, float(epsilons[column]), share[:, column], tallied)
        for share, tallied in zip(shares, seen, strict=True)
    ]
    floor = max(forecast.low for forecast in forecasts)
    leading = [forecast.high >= floor for forecast in forecasts]
    order = [int(at) for at in np.argsort([-forecast.delta for forecast in forecasts], kind="stable")]
    now = [problem.sizes_of(number) for number in numbers]
    todo = [at for at in order if not now[at].test]
    racing = [at for at in todo if leading[at] and not now[at].refine]
    last = max((now[at].screen for at in racing), default=0)
    screen = next_screen(e.target, last, [forecasts[at] for at in racing], len(numbers)) if racing else 0
    refined, rivals = set(racing[:MANY]), sum(leading[at] for at in todo) - 1
    decided: dict[str, Sizes] = {}
    why, words = {}, []
    for at in todo:
        number, pilot = numbers[at], problem.pilot_keys[numbers[at]]
        if now[at].refine:
            after = next_sizes(e.target, now[at], forecasts[at], e.chunk, leading[at], rivals)
        elif screen and leading[at]:
            after = replace(now[at], screen=screen)
        elif at in refined:
            refine = _round(max(2 * e.train, now[at].screen), e.chunk)
            after = replace(now[at], refine=refine, validation=refine)
        else:
            after = replace(now[at], test=min(e.chunk, now[at].screen))
        decided[pilot], why[pilot] = after, vars(forecasts[at])
        what = _words(e.target, forecasts[at], after, leading[at])
        words.append(f"pair {number} ({describe_pair(number, problem.pairs[number].origin)}): {what}")
    if decided:
        commit_sizes(layout, problem, decided, why, generation)
    return words


def share_time(problem: Problem, costs: Costs, workers: int, layout: Layout, generation: Generation) -> list[str]:
    """Commit sizes of pairs without any of a study with a time: equal shares of what this machine's speed allows; in words."""
    e, known = problem.study.estimate, known_sizes(layout, problem)
    pairs = first_of(problem.pilot_keys)
    todo = [pilot for pilot in pairs if pilot not in known]
    if e.seconds is None or not todo:
        return []
    training = len(problem.laws) * e.train * (costs.draw + costs.learn)
    laws = len(problem.laws) / len(pairs)  # a D is drawn once for its pairs
    each = laws * costs.draw + 2.0 * COUNT_SECONDS + laws * costs.call / e.chunk
    draws = max(0.0, 0.9 * e.seconds * workers - training) / (each * len(pairs))
    refine = _round(LEARNING * draws, e.chunk)
    sizes = Sizes(refine, refine, _round((1.0 - 2.0 * LEARNING) * draws, e.chunk))
    why = {"seconds": e.seconds, "workers": workers}
    commit_sizes(layout, problem, dict.fromkeys(todo, sizes), why, generation)
    return [
        f"{e.time} with {workers} workers: {sizes.refine:,} draws per database refine, {sizes.test:,} certify each pair"
    ]


def _words(target: Target, forecast: Forecast, after: Sizes, leads: bool) -> str:
    if forecast.draws is None:
        what = f"δ({forecast.epsilon:g}) is not resolved, at most about {forecast.high:.2g}"
    else:
        what = f"δ({forecast.epsilon:g}) is about {forecast.delta:.2g}"
        if forecast.draws > target.most:
            what += (
                f", which would take {forecast.draws:.1g} draws per database, more than target.most = {target.most:.1g}"
            )
    if not leads:
        return f"{what}; another leads"
    if after.test and not after.refine:
        return f"{what}; other pairs do not differ significantly from it and go on"
    if after.test:
        return f"{what}; {_draws(*after.tests)} certify"
    if not after.refine:
        return f"{what}; {after.screen:,} draws screen"
    return f"{what}; {_draws(after.of('refine', 0), after.of('refine', 1))} refine"


def _draws(d: int, d_prime: int) -> str:
    return f"{d:,} draws per database" if d == d_prime else f"{d:,} draws of D and {d_prime:,} of D′"


def rates_of(spectrum: Callable[[Any], Any], epsilon: float) -> tuple[float, float]:
    """P(S) and Q(S) of the best set at ε, from δ(·) alone, whose slope is −e^ε Q(S) by the envelope theorem."""
    here, beyond = (float(np.asarray(spectrum(at))) for at in (epsilon, epsilon + _SLOPE_STEP))
    inflated = min(1.0, max(0.0, (here - beyond) / _SLOPE_STEP))
    return min(1.0, here + inflated), min(1.0, inflated * math.exp(-epsilon))


def draws_needed(target: Target, epsilon: float, rates: tuple[float, float]) -> float:
    """Test draws per database, equal sides, for the target's standard error where P(S) and Q(S) are these; inf for δ = 0."""
    (a, b), c = rates, math.exp(epsilon)
    delta = a - c * b
    if delta <= 0.0:
        return math.inf
    return (a * (1.0 - a) + c * c * b * (1.0 - b)) / (target.relative_error * delta) ** 2


def foresee(study: Study) -> tuple[str, float] | None:
    """When a study's target takes how many test draws per database, in words, if its claim is exact; None: untold. Heuristic."""
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
