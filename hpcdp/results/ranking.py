"""What tells claims apart: which of several fits an estimated spectrum best, and how many outputs refute one if another is true.

The ranking is asymptotic; the power, by an audit's test and a sequential audit's bets with the exact L̂, is heuristic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hpcdp.errors import StudyError
from hpcdp.losses.counts import audit_etas, eta_thresholds
from hpcdp.notions._product import Outcomes
from hpcdp.notions.betting import Rules, Wealth, is_refuted, play
from hpcdp.notions.box import Lines, error_limits, lines_of, margins, promises
from hpcdp.notions.curve import polygon
from hpcdp.results.audit import sides_of, turn
from hpcdp.results.result import Result
from hpcdp.results.verdict import careful_error, round_up
from hpcdp.study.claims import Claim
from hpcdp.study.file import Study

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_TESTS = 1 << 40  # outputs per database
_MOST_PLAYED = 1 << 17  # outputs per database of a game that is played out
_GAMES = 15  # of which most must refute
_SEED = 20261122


@dataclass(frozen=True)
class Fit:
    """How well a claim fits. score: sum over ε of ((δ̂ − claimed)/standard error)², the smaller the better.

    residual: the largest of these in absolute value, with its sign: positive where δ̂ is above the claim; epsilon: where.
    """

    claim: str
    score: float
    residual: float
    epsilon: float


@dataclass(frozen=True)
class Neighbours:
    """Two claims that are neighbours in strength. better: the one that fits better.

    separable: whether the data reject the worse one. evidence: how many standard errors they are away from it. epsilon,
    difference: where the claims differ most in standard errors, and by how much. test: test samples per database at which
    the data would tell them apart, with the same probability as the confidence, if one of them is true and the classifier
    has no regret, to two digits; None where the claims do not differ on the grid. now: test samples there are.
    """

    better: str
    worse: str
    separable: bool
    evidence: float
    epsilon: float
    difference: float
    test: int | None
    now: int


@dataclass(frozen=True)
class Ranking:
    """fits: best first. steps: neighbours when the claims are ordered from the most private to the least."""

    fits: list[Fit]
    steps: list[Neighbours]

    def to_dict(self) -> dict[str, Any]:
        """As `verify --format json` prints it."""
        return {"fits": [vars(fit) for fit in self.fits], "steps": [vars(step) for step in self.steps]}


@dataclass(frozen=True, eq=False)
class _Leading:
    """The cell of each ε that is fitted: of those, δ̂ and its standard error (k,), and where they are."""

    epsilon: Floats
    delta: Floats
    error: Floats
    pair: Ints
    direction: Ints
    column: Ints


def rank(result: Result, claims: Sequence[Claim]) -> Ranking | None:
    """Rank claims by their fit to the largest δ at each ε; None where no cell is known.

    At each ε, the pair and direction that training samples rank first is fitted, so that the choice does not bias δ̂ (of
    `literal-knn`, which ranks nothing, the largest estimate). Two claims are compared by the difference Λ of their scores,
    which is linear in the δ̂: its variance follows from the counts, with the covariances of the sets of one pair (nested,
    or disjoint in opposite directions); parts from different pairs are taken as fully dependent, which is on the safe
    side. Where every sample teaches and tests, the first block ranks, a sixteenth of what δ̂ counts, and errors are those of
    cross-fitting. The worse claim is rejected when Λ is further from what it expects than the normal quantile of the failure
    probability, shared by the steps. Asymptotic; it ignores the regret of the classifier, which lowers δ̂.
    """
    chosen = _leading(result)
    if not chosen.epsilon.size:
        return None
    curves = [claim.implied(chosen.epsilon) for claim in claims]
    fits = [_fit(claim, curve, chosen) for claim, curve in zip(claims, curves, strict=True)]
    order = sorted(range(len(claims)), key=lambda i: float(curves[i].sum()))
    level = (1.0 - result.confidence) / max(1, len(claims) - 1)
    blocks = _covariances(result, chosen)
    steps = [
        _step(result, chosen, blocks, (fits[i], fits[j]), (curves[i], curves[j]), level) for i, j in pairwise(order)
    ]
    return Ranking(sorted(fits, key=lambda fit: fit.score), steps)


def _leading(result: Result) -> _Leading:
    ranking = result[result.method.ranking]
    values = np.where(np.isnan(result["delta"]) | np.isnan(ranking), -np.inf, ranking)
    pairs, _, columns = values.shape
    flat = values.reshape(2 * pairs, columns)
    best = flat.argmax(axis=0)
    column = np.flatnonzero(flat[best, np.arange(columns)] > -np.inf)
    pair, direction = best[column] // 2, best[column] % 2
    place = (pair, direction, column)
    return _Leading(result["epsilon"][column], result["delta"][place], careful_error(result)[place], *place)


def _fit(claim: Claim, curve: Floats, chosen: _Leading) -> Fit:
    scores = (chosen.delta - curve) / chosen.error
    most = int(np.abs(scores).argmax())
    return Fit(claim.text, float((scores**2).sum()), float(scores[most]), float(chosen.epsilon[most]))


def _covariances(result: Result, chosen: _Leading) -> list[tuple[Ints, Floats]]:
    """Blocks of cells with known covariances, and these; other cells are taken as fully dependent, which is on the safe side."""
    if "exceed" not in result.arrays:
        return [(np.array([i]), np.array([[error**2]])) for i, error in enumerate(chosen.error)]
    blocks = []
    for pair in np.unique(chosen.pair):
        block = np.flatnonzero(chosen.pair == pair)
        place = (chosen.pair[block], chosen.direction[block], chosen.column[block])
        exceed, test = result["exceed"][place] + 1.0, result["test"][place] + 2.0
        inflation, direction = np.exp(chosen.epsilon[block]), chosen.direction[block]
        blocks.append((block, _covariance(exceed / test, test, inflation, direction)))
    return blocks


def _covariance(share: Floats, test: Floats, inflation: Floats, direction: Ints) -> Floats:
    """Covariance matrix of x0/n0 − e^ε·x1/n1 over cells of one pair, from shares (k, 2) and test samples (k, 2)."""
    same = direction[:, None] == direction
    total = np.zeros(same.shape)
    for law in (0, 1):  # outputs of D, then of D'
        side = np.where(direction == 0, law, 1 - law)
        u, n = share[np.arange(side.size), side], test[np.arange(side.size), side]
        weight = np.where(side == 0, 1.0, -inflation)
        both = np.where(same, np.minimum(u[:, None], u), 0.0)  # sets of one direction are nested
        total += weight[:, None] * weight * (both - u[:, None] * u) / np.sqrt(n[:, None] * n)
    return total


def _step(
    result: Result,
    chosen: _Leading,
    blocks: list[tuple[Ints, Floats]],
    fits: tuple[Fit, Fit],
    curves: tuple[Floats, Floats],
    level: float,
) -> Neighbours:
    first, second = (0, 1) if fits[0].score <= fits[1].score else (1, 0)
    better, worse = curves[first], curves[second]
    weight = 2.0 * (better - worse) / chosen.error**2
    spreads = [math.sqrt(max(0.0, float(weight[i] @ matrix @ weight[i]))) for i, matrix in blocks]
    spread = math.hypot(*spreads) if result.method.draws_apart else math.fsum(spreads)
    most = int((np.abs(better - worse) / chosen.error).argmax())
    now = result.method.tested(result.arrays, result.study.estimate)
    difference, at = float(abs(better - worse)[most]), float(chosen.epsilon[most])
    claims = fits[first].claim, fits[second].claim
    if spread == 0.0:
        return Neighbours(*claims, False, 0.0, at, difference, None, now)
    evidence = float(weight @ (chosen.delta - worse)) / spread
    apart = float(weight @ (better - worse)) / spread  # distance of the two expectations, in standard errors
    quantile = -float(ndtri(level))
    needed = round_up(now * (2.0 * quantile / apart) ** 2)
    return Neighbours(*claims, evidence >= quantile, evidence, at, difference, needed, now)


@dataclass(frozen=True)
class Power:
    """Outputs per database at which about half of all audits refute a claim, if the truth is known and L̂ is exact; heuristic.

    audit: test outputs, with as many to learn from and choose η by; None where 2^40 are not enough at the η of the study.
    sequential: outputs in all, training included, the median of 15 games; None where most do not refute within 2^17 outputs.
    """

    claim: Claim
    truth: Claim
    audit: int | None
    sequential: int | None

    def __str__(self) -> str:
        audit = (
            f"not with {_MOST_TESTS:,} test outputs per database at the study's η"
            if self.audit is None
            else f"about {self.audit:,} test outputs per database, as many to train"
        )
        games = (
            f"not within {_MOST_PLAYED:,} outputs per database in most of {_GAMES} games"
            if self.sequential is None
            else f"about {self.sequential:,} outputs per database in all"
        )
        return (
            f"{self.claim.text}, if {self.truth.text} is exact: audit {audit}; audit --sequential {games} "
            "(heuristic: half of all audits with the exact L̂; a learned one takes more)"
        )


def find_power(study: Study, claim: Claim, truth: Claim, pairs: int) -> Power:
    """What refutes a claim about some pairs if one is as the truth says, L̂ known, at expected counts or played; heuristic."""
    try:
        losses = polygon(truth.bound).convex()
    except ValueError as error:
        raise StudyError(f"--truth {truth.text}: {error}") from None
    outcomes, failure = Outcomes.of(losses.alpha, losses.beta), 1.0 - study.estimate.confidence
    etas = np.array(study.estimate.etas or audit_etas())
    audit = _tests(claim, _errors(outcomes, etas), failure, pairs)
    # bets choose sets of their own, not those of the study's η: the audit's number says nothing of them
    return Power(claim, truth, audit, _played(claim, outcomes, failure / pairs))


def _errors(outcomes: Outcomes, etas: Floats) -> Floats:
    """Both errors of the tests that reject P where q/p > η, shape (η, 2)."""
    place = np.searchsorted(outcomes.loss, eta_thresholds(etas))  # rejected: loss below −log η
    rejected = (np.append(0.0, np.cumsum(law))[place] for law in (outcomes.p, outcomes.q))
    first, second = (np.clip(share, 0.0, 1.0) for share in rejected)
    return np.stack([first, 1.0 - second], axis=-1)


def _tests(claim: Claim, errors: Floats, failure: float, pairs: int) -> int | None:
    """Test outputs per database at which a box of the expected counts violates the claim, to 1 % and two digits."""
    sides = sides_of(claim, "both")
    level = 0.5 * failure * (1.0 + 1.0 / (pairs * len(sides)))  # of the box that training ranks first

    def is_found(size: int) -> bool:
        half = np.full(errors.shape, max(1, size // 2))  # what η is chosen for: 1/n = 1/train + 1/test
        for side in sides:
            turned = turn(errors, side)
            best = turned[int(promises(claim.tradeoff, turned, half, failure).argmax())]
            counts, tests = np.rint(best * size).astype(np.int64), np.full(2, size)
            if float(margins(claim.tradeoff, error_limits(counts, tests, np.asarray(level)))) > 0.0:
                return True
        return False

    many = 2
    while not is_found(many):
        many *= 2
        if many > _MOST_TESTS:
            return None
    few = many // 2
    while many > 1.01 * few and many > few + 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_found(middle) else (middle, many)
    return _rounded(many)


def _played(claim: Claim, outcomes: Outcomes, failure: float) -> int | None:
    """Outputs per database after which most games, of draws of known losses, refute the claim; None where they never do."""
    rng, lines = np.random.default_rng(_SEED), lines_of(claim.curve)
    loss = np.clip(outcomes.loss, -1e3, 1e3)  # what only one law can give is beyond every other
    stops: list[float] = []
    while len(stops) < _GAMES:
        stops.append(_game(rng, outcomes, loss, lines, failure))
        if 2 * stops.count(np.inf) > _GAMES:
            return None
    return _rounded(float(np.median(stops)))


def _game(rng: np.random.Generator, outcomes: Outcomes, loss: Floats, lines: Lines, failure: float) -> float:
    """Outputs per database until a look refutes the claim; infinite where none of so many does."""
    rules, wealth, seen = Rules(), Wealth(), 0
    past: tuple[Floats, Floats] = np.empty(0), np.empty(0)
    laws = [np.cumsum(law) / law.sum() for law in (outcomes.p, outcomes.q)]

    def draw(law: Floats, size: int) -> Floats:
        return loss[np.minimum(np.searchsorted(law, rng.random(size)), loss.size - 1)]

    while seen < _MOST_PLAYED:
        size = max(rules.first + rules.smallest, seen // 4) if not seen else max(rules.smallest, seen // 4)
        size = min(size, _MOST_PLAYED - seen)
        batch = draw(laws[0], size), draw(laws[1], size)
        (wealth,) = play([wealth], [lines], lambda *_: lambda scores: scores, past, batch, rules)
        past = np.append(past[0], batch[0]), np.append(past[1], batch[1])
        seen += size
        if is_refuted(wealth, failure):
            return float(seen)
    return np.inf


def _rounded(value: float) -> int:
    """To two significant digits."""
    return int(float(f"{value:.1e}"))
