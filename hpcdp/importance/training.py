"""What training draws decide of a random tape's test: how many draws, which bets and cut-offs, how large the leftover's sample.

All of it is fixed before the test, so that the bounds hold whatever was decided; how good they become is heuristic.

With G the mean of log(1 + λX) and t = ln(1/level)/draws the expected lower bound is (e^(G − t) − 1)/λ. Its numerator is concave
in λ where the shares sum to at most 1, so that the bound rises up to one λ and falls from there; likewise (1 − e^(H − t))/κ, with
H the mean of log(1 − κX), falls and then rises (docs/mathematics-draws.md, "Bounds from weighted draws"). So the best rate is
found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance.bounds import leftover_draws, split_level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KEPT_BACK = 0.28
"""Share of δ that the leftover may cost: less takes more plain draws, more leaves a smaller bound."""

_OCTAVES = 60  # below 1/cut-off in which rates are sought: with 2^53 draws the best one is above 2^-27
_MOST_UPPER = 0.998  # the largest κ·M that is chosen: with what rounding adds, sums take it
_MOST_LOWER = 2.0**11  # the largest λ·weight: no bet is larger than the kernels' sums hold
_NO_WEIGHT = 1e-290  # below it rates would overflow
_HALVINGS = 13  # of an interval of 71 octaves, to a hundredth of one: the bound is flat there

_ROOM = 2.0  # times the largest training weight on a set: its cut-off
_NOTHING = 1e-6  # of δ that what training met beyond a cut-off may cost
_NARROW = 0.85  # of δ that the bets should keep, up to the leftover
_BINS = 100.0  # of weights to a factor of e, by which bets are chosen
_MOST = 1 << 25  # draws from proposals
_NO_LEFTOVER = 0.1  # of δ that it may cost to have no cut-off at all, and so no leftover
_WORTH = 0.1  # of δ that must be left, or the leftover's draws are for nothing
_MORE, _MORE_CERTIFIED = 4, 16  # times the draws of the estimate that bets may take; where some ε are to be certified
_UNTOLD = 1 << 20  # draws where training does not tell δ at all
_LEAST_DELTA = 1e-100  # whose square is a float
LOOK = 1 << 20  # plain draws that are made all the same, to see what hides
_FEW, _TELLING = 25.0, 50.0  # plain draws' worth that tell hardly anything of a set, and that tell it
_MANY = 100.0  # times as many draws as they are worth, where one or a few carry all
_COUNTS = 0.1  # of P(S), from which e^ε·Q(S) matters


def sums_above(classes: Ints, values: Floats, cells: int) -> Floats:
    """Sums of the values in the set of each ε, (cells,); classes: how many of the ascending ε each one's L̂ exceeds."""
    return np.asarray(np.bincount(classes, values, cells + 1)[::-1].cumsum()[::-1][1 : cells + 1])


class Bet(NamedTuple):
    """rate: λ or κ, per unit of weight, above 0. bound: on the mean, as it is to be expected of test draws; heuristic."""

    rate: float
    bound: float


def choose_lower(weights: Floats, shares: Floats, draws: int, level: float, cutoff: float) -> Bet:
    """The λ whose lower bound is largest if test draws are as training's, weights (n,) up to cutoff, shares of sum at most 1."""
    top = float(weights.max(initial=0.0))
    if top < _NO_WEIGHT:
        rate = 1.0 / cutoff
    else:
        rate = _search(weights, shares, -math.log(level) / draws, 1.0, 1.0 / top, _MOST_LOWER)
    gain = _mean_terms(weights, shares, rate)[0] + math.log(level) / draws
    return Bet(rate, min(1.0, max(0.0, math.expm1(gain) / rate)))


def choose_upper(weights: Floats, shares: Floats, draws: int, level: float, cutoff: float) -> Bet:
    """The κ whose upper bound is smallest; κ·M <= 0.998, 1/2 where all weights are 0: a draw at M then costs ln 2, not 7."""
    rate = 0.5 / cutoff
    if weights.max(initial=0.0) > 0.0:
        rate = _search(weights, shares, -math.log(level) / draws, -1.0, 1.0 / cutoff, _MOST_UPPER)
    loss = _mean_terms(weights, shares, -rate)[0] + math.log(level) / draws
    return Bet(rate, min(1.0, cutoff, -math.expm1(loss) / rate))


def _mean_terms(weights: Floats, shares: Floats, rate: float) -> tuple[float, float]:
    """Σ s log(1 + x) and Σ s x/(1 + x) with x = rate · weight; rate < 0 is an upper bet."""
    x = rate * weights
    return float(shares @ np.log1p(x)), float(shares @ (x / (1.0 + x)))


def _search(weights: Floats, shares: Floats, cost: float, sign: float, scale: float, most: float) -> float:
    """The best rate up to most·scale by bisection on the sign of t − G − log(1 − D), D = Σ s x/(1 + x), the bound's slope."""

    def is_better_above(at: float) -> bool:
        logs, slopes = _mean_terms(weights, shares, sign * at * scale)
        return bool(slopes < 1.0 and cost - logs - math.log1p(-slopes) > 0.0)

    low, high = 2.0**-_OCTAVES, most
    if is_better_above(most):
        return most * scale
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_better_above(middle) else (low, middle)
    return low * scale


@dataclass(frozen=True, eq=False)
class Taught:
    """Draws in one direction's sets: classes, ε that L̂ exceeds; E φ(w) is Σ shares·φ(w); within: variances in strata."""

    classes: Ints
    weights: Floats
    shares: Floats
    largest: float
    within: Floats | float = 1.0

    def sums(self, cells: int) -> list[Floats]:
        """Of the set of each ε: draws in it, its probability, the mean of w² there, and the sum of squares of its terms."""
        own = self.shares * self.weights
        parts = (np.ones(own.size), own, self.shares * self.weights**2, own * own)
        return [sums_above(self.classes, part, cells) for part in parts]

    def inside(self, column: int, cutoff: float) -> tuple[Floats, Floats]:
        """Weights in the set of an ε up to a cut-off, those within a hundredth of each other as one, and their shares."""
        weights, sums, shares = self._binned
        if column + 1 >= shares.shape[1]:
            return np.zeros(0), np.zeros(0)
        own, total = shares[:, column + 1], sums[:, column + 1]
        which = (own > 0.0) & (weights <= cutoff)
        own = own[which]
        return np.minimum(total[which] / own, weights[which]), own

    @cached_property
    def _binned(self) -> tuple[Floats, Floats, Floats]:
        """Of bins the largest weight, (bins,); sums of shares · weights, and shares, from each class on, (bins, classes)."""
        cells = int(self.classes.max(initial=0)) + 1
        which = np.flatnonzero((self.weights > 0.0) & (self.classes > 0))
        weights, shares, classes = self.weights[which], self.shares[which], self.classes[which]
        _, bins = np.unique(np.floor(np.log(weights) * _BINS), return_inverse=True)
        count = int(bins.max(initial=-1)) + 1
        largest = np.zeros(count)
        np.maximum.at(largest, bins, weights)
        places = bins * cells + classes
        sums, parts = (
            np.asfortranarray(
                np.bincount(places, v, count * cells).reshape(count, cells)[:, ::-1].cumsum(axis=1)[:, ::-1]
            )
            for v in (weights * shares, shares)
        )
        return largest, sums, parts

    def largest_inside(self, column: int, spared: float = 0.0) -> float:
        """The largest weight in the set of an ε, but for those that together hold no more than this of it; 0: there is none."""
        weights, sums, _ = self._binned
        if column + 1 >= sums.shape[1]:
            return 0.0
        beyond = sums[::-1, column + 1].cumsum()
        at = int(np.searchsorted(beyond, spared, "right"))
        return float(weights[::-1][at]) if at < beyond.size else 0.0


class Direction:
    """P's and Q's training draws of a direction: δ̂, its error and variances by ε; by_loss: δ as L̂ tells it."""

    def __init__(
        self, p: Taught, q: Taught, epsilons: Floats, by_loss: Floats | None = None, is_declared: bool = False
    ) -> None:
        self.p, self.q, self.epsilons, self.by_loss, self.is_declared = p, q, epsilons, by_loss, is_declared
        c, cells = np.exp(epsilons), epsilons.size
        self._sums = p.sums(cells), q.sums(cells)
        (_, mass, second, square), (_, other, other_second, other_square) = self._sums
        spreads = [
            np.maximum(0.0, total - share**2 / max(1, side.classes.size))
            for side, share, total in ((p, mass, square), (q, other, other_square))
        ]
        variances = np.maximum(0.0, second - mass * mass), c * c * np.maximum(0.0, other_second - other * other)
        self.delta = mass - c * other
        self.error = np.sqrt(spreads[0] + c * c * spreads[1])
        self.variance = p.within * variances[0] + q.within * variances[1]
        self.unstratified = variances[0] + variances[1]
        self.plain = mass * (1.0 - mass) + c * c * other * (1.0 - other)

    @cached_property
    def unexplained(self) -> dict[int, tuple[int, float]]:
        """By column, how many of Q's draws lie in S, and what they are worth, where a few of them carry nearly all of Q(S).

        What leads those few there has next to no share in the proposals, or sets were learned badly. Heuristic.
        """
        (_, p, _, p_square), (reached, q, _, q_square) = self._sums
        p_worth, worth = (
            np.divide(share * share, square, out=np.zeros(share.size), where=square > 0.0)
            for share, square in ((p, p_square), (q, q_square))
        )
        few = (worth <= _FEW) & (reached >= _MANY * worth) & (np.exp(self.epsilons) * q >= _COUNTS * p) & (q > 0.0)
        return {int(j): (int(reached[j]), float(worth[j])) for j in np.flatnonzero(few & (p_worth >= _TELLING))}

    def told(self, column: int) -> float:
        """δ̂, or δ as L̂ tells it where the former is within its error; 0 where neither tells it."""
        delta = float(self.delta[column])
        if not delta > 3.0 * float(self.error[column]):
            delta = 0.0 if self.by_loss is None else float(self.by_loss[column])
        return delta if delta > _LEAST_DELTA else 0.0

    def draws(self, column: int, relative_error: float) -> float:
        """Draws of each distribution for this relative standard error of δ̂, where δ is told."""
        return float(self.variance[column]) / (relative_error * self.told(column)) ** 2

    def bet(self, column: int, draws: int, level: float, cutoff: float) -> tuple[float, float, float]:
        """λ, κ, and the bound up to the leftover that is to be expected; of a declared direction a κ that nothing uses."""
        if self.is_declared:
            low = choose_lower(*self.p.inside(column, self.p.largest), draws, level, self.p.largest)
            return low.rate, 0.5 / cutoff, low.bound
        parts = split_level(level)
        large = max(self.p.largest, cutoff)
        low = choose_lower(*self.p.inside(column, large), draws, float(parts.p), large)
        high = choose_upper(*self.q.inside(column, cutoff), draws, float(parts.q), cutoff)
        return low.rate, high.rate, low.bound - math.exp(float(self.epsilons[column])) * high.bound

    def near(self, column: int) -> float:
        """A cut-off that leaves next to nothing over, 0 where nothing was met."""
        spared = _NOTHING * max(0.0, float(self.delta[column])) / math.exp(float(self.epsilons[column]))
        return _ROOM * (self.q.largest_inside(column, spared) or self.q.largest_inside(column))

    def cutoff(self, column: int, draws: int, level: float) -> tuple[float, bool]:
        """M, and whether weights beyond it are left over; none are where bets without a cut-off cost little."""
        if self.is_declared:
            return self.q.largest, False
        whole = self.q.largest * (1.0 + 1e-9)
        near = self.near(column) or self.q.largest
        if near >= whole:
            return whole, False
        loss = self.bet(column, draws, level, near)[2] - self.bet(column, draws, level, whole)[2]
        if loss <= _NO_LEFTOVER * max(0.0, float(self.delta[column])):
            return whole, False
        return near * (1.0 + 1e-9), True


def draws_for(
    direction: Direction,
    column: int,
    relative_error: float,
    level: float,
    least: int,
    most: int,
    certifies: bool = True,
) -> int:
    """Draws for this relative error of δ̂ and for bets that keep most of it, where training explains what it saw."""
    if column in direction.unexplained:
        most = min(most, _UNTOLD)
    delta = direction.told(column)
    if not delta > 0.0:
        return min(most, max(least, _UNTOLD))
    draws = max(least, math.ceil(min(direction.draws(column, relative_error), most)))
    limit = max(draws, min(most, _MOST, (_MORE_CERTIFIED if certifies else _MORE) * draws))
    near = max(direction.near(column), 1e-290) if direction.q.largest > 1.0 else 1.0
    cutoff = min(near, direction.q.largest) * (1.0 + 1e-9)
    if direction.bet(column, limit, level, cutoff)[2] < _WORTH * delta:
        return draws  # no draws that are to be had would certify much
    while draws < limit and direction.bet(column, draws, level, cutoff)[2] < _NARROW * delta:
        draws = min(limit, 2 * draws)
    return draws


def leftover_for(
    direction: Direction, aims: Sequence[int], beyond: Sequence[bool], columns: Sequence[int], level: float, most: int
) -> tuple[int, float]:
    """Plain draws, and how many a certificate takes; level: of all leftovers' union."""
    wanted = [j for j, has in zip(columns, beyond, strict=True) if has and (j in aims or not aims)]
    known = [j for j in wanted if direction.delta[j] > 3.0 * direction.error[j]]
    if not any(beyond):
        return 0, 0.0
    if not known:
        return min(most, LOOK), math.inf
    j = max(known, key=lambda j: float(np.exp(direction.epsilons[j]) / direction.delta[j]))
    epsilon, delta = float(direction.epsilons[j]), float(direction.delta[j])
    needed = leftover_draws(KEPT_BACK * delta, epsilon, level)
    if needed <= most:
        return needed, float(needed)
    if most == 0:
        return 0, float(needed)
    cost = math.exp(epsilon) * -math.log(level) / most
    return (most if cost <= (_NARROW - _WORTH) * delta else min(most, LOOK)), float(needed)
