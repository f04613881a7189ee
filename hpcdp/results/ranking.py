"""Which of several claims fits an estimated spectrum best, and which of them the data tell apart. Asymptotic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hpcdp.results.result import Result
from hpcdp.results.verdict import careful_error, round_up

if TYPE_CHECKING:
    from hpcdp.study.claims import Claim

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    """Blocks of cells with known covariances: which cells, and their matrix. Literal cells draw for themselves; of random
    tapes covariances are not known, so that cells are taken as fully dependent, which is on the safe side."""
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
    if spread == 0.0:
        return Neighbours(fits[first].claim, fits[second].claim, False, 0.0, at, difference, None, now)
    evidence = float(weight @ (chosen.delta - worse)) / spread
    apart = float(weight @ (better - worse)) / spread  # distance of the two expectations, in standard errors
    quantile = -float(ndtri(level))
    needed = round_up(now * (2.0 * quantile / apart) ** 2)
    return Neighbours(
        fits[first].claim, fits[second].claim, evidence >= quantile, evidence, at, difference, needed, now
    )
