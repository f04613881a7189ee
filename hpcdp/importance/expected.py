"""What training draws decide of a random tape's test: how many draws, which bets and cut-offs, how large the leftover's sample.

All of it is fixed before the test, so that the bounds hold whatever was decided; how good they become is heuristic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance.bets import choose_lower, choose_upper
from hpcdp.importance.bounds import leftover_draws, split_level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KEPT_BACK = 0.28
"""Share of δ that the leftover may cost: less takes more plain draws, more leaves a smaller bound."""

_ROOM = 2.0  # times the largest training weight on a set: its cut-off
_NOTHING = 1e-6  # of δ that what training met beyond a cut-off may cost
_NARROW = 0.85  # of δ that the bets should keep, up to the leftover
_BINS = 100.0  # of weights to a factor of e, by which bets are chosen
_MOST = 1 << 25  # draws from proposals
_NO_LEFTOVER = 0.1  # of δ that it may cost to have no cut-off at all, and so no leftover
_WORTH = 0.1  # of δ that must be left, or the leftover's draws are for nothing
_MORE, _MORE_CERTIFIED = (
    4,
    16,
)  # times the draws of the estimate that bets may take, where no ε is to be certified and where some are
_UNTOLD = 1 << 20  # draws where training does not tell δ at all
_LEAST_DELTA = 1e-100  # whose square is a float
LOOK = 1 << 20  # plain draws that are made all the same, to see what hides
_FEW, _TELLING = 25.0, 50.0  # plain draws' worth that tell hardly anything of a set, and that tell it
_MANY = 100.0  # times as many draws as they are worth, where one or a few carry all
_COUNTS = 0.1  # of P(S), from which e^ε·Q(S) matters


@dataclass(frozen=True, eq=False)
class Taught:
    """Training draws of a law in one direction's sets.

    classes: how many of the ascending ε each output's L̂ exceeds, (n,). weights: by the final proposal, (n,). shares: of each, so
    that the mean of φ(w) under that proposal is about their sum of shares·φ(w). largest: no weight is above it. within: of the
    set of each ε the variance of a draw within its stratum, as a share of that of all draws, (epsilons,).
    """

    classes: Ints
    weights: Floats
    shares: Floats
    largest: float
    within: Floats | float = 1.0

    def moments(self, cells: int) -> tuple[Floats, Floats, Floats]:
        """Of the set of each ε: probability, the mean of w² there, and the variance of the former as training tells it."""
        parts = (self.shares * self.weights, self.shares * self.weights**2, (self.shares * self.weights) ** 2)
        sums = [np.bincount(self.classes, part, cells + 1)[::-1].cumsum()[::-1][1 : cells + 1] for part in parts]
        return sums[0], sums[1], np.maximum(0.0, sums[2] - sums[0] ** 2 / max(1, self.classes.size))

    def worth(self, cells: int) -> tuple[Ints, Floats, Floats]:
        """Of the set of each ε: draws in it, its probability, and how many plain draws would tell as much of that."""
        parts = (np.ones(self.classes.size), self.shares * self.weights, (self.shares * self.weights) ** 2)
        count, share, square = (
            np.bincount(self.classes, part, cells + 1)[::-1].cumsum()[::-1][1 : cells + 1] for part in parts
        )
        worth = np.divide(share * share, square, out=np.zeros(cells), where=square > 0.0)
        return count.astype(np.int64), share, worth

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


@dataclass(frozen=True, eq=False)
class Direction:
    """P's and Q's training draws of one direction, and what they say of each ε: δ̂, its standard error, the variance of a draw."""

    p: Taught
    q: Taught
    epsilons: Floats
    by_loss: Floats | None = None
    """δ as L̂ tells it, which is told where a difference of two tails is not."""

    def __post_init__(self) -> None:
        c = np.exp(self.epsilons)
        p, p2, vp = self.p.moments(self.epsilons.size)
        q, q2, vq = self.q.moments(self.epsilons.size)
        found = {
            "delta": p - c * q,
            "error": np.sqrt(vp + c * c * vq),
            "variance": self.p.within * np.maximum(0.0, p2 - p * p)
            + c * c * self.q.within * np.maximum(0.0, q2 - q * q),
            "unstratified": np.maximum(0.0, p2 - p * p) + c * c * np.maximum(0.0, q2 - q * q),
            "plain": p * (1.0 - p) + c * c * q * (1.0 - q),
        }
        self.__dict__.update(found)

    delta: Floats = None  # type: ignore[assignment]
    error: Floats = None  # type: ignore[assignment]
    variance: Floats = None  # type: ignore[assignment]
    unstratified: Floats = None  # type: ignore[assignment]
    plain: Floats = None  # type: ignore[assignment]

    @cached_property
    def unexplained(self) -> dict[int, tuple[int, float]]:
        """By column, where proposals reach S with many draws, of P and of Q, and yet a few of Q's carry nearly all of Q(S).

        How many of Q's lie in S, and how many plain draws would tell as much of Q(S). What leads those few there has next to no
        share in the proposals: a region of tape that they miss, or sets that were learned badly. Heuristic.
        """
        (_, p, p_worth), (reached, q, worth) = (side.worth(self.epsilons.size) for side in (self.p, self.q))
        few = (worth <= _FEW) & (reached >= _MANY * worth) & (np.exp(self.epsilons) * q >= _COUNTS * p) & (q > 0.0)
        return {int(j): (int(reached[j]), float(worth[j])) for j in np.flatnonzero(few & (p_worth >= _TELLING))}

    def told(self, column: int) -> float:
        """δ̂, or δ as L̂ tells it where the former is within its error; 0 where neither tells it."""
        delta = float(self.delta[column])
        if not delta > 3.0 * float(self.error[column]):
            delta = 0.0 if self.by_loss is None else float(self.by_loss[column])
        return delta if delta > _LEAST_DELTA else 0.0

    def draws(self, column: int, relative_error: float) -> float:
        """Draws of each law for this relative standard error of δ̂, where δ is told."""
        return float(self.variance[column]) / (relative_error * self.told(column)) ** 2

    def bet(self, column: int, draws: int, level: float, cutoff: float) -> tuple[float, float, float]:
        """λ, κ, and the bound up to the leftover that is to be expected."""
        parts = split_level(level)
        large = max(self.p.largest, cutoff)
        low = choose_lower(*self.p.inside(column, large), draws, float(parts.p), large)
        high = choose_upper(*self.q.inside(column, cutoff), draws, float(parts.q), cutoff)
        return low.rate, high.rate, low.bound - math.exp(float(self.epsilons[column])) * high.bound

    def near(self, column: int) -> float:
        """A cut-off that leaves next to nothing over, as training tells; 0 where it met nothing in the set.

        Draws of other levels reach tapes that have next to no probability, where the final proposal is plain and weights are
        as large as they may be: one of them would make a cut-off that no bet gains by.
        """
        spared = _NOTHING * max(0.0, float(self.delta[column])) / math.exp(float(self.epsilons[column]))
        return _ROOM * (self.q.largest_inside(column, spared) or self.q.largest_inside(column))

    def cutoff(self, column: int, draws: int, level: float) -> tuple[float, bool]:
        """M, and whether weights beyond it are left over; none are where bets without a cut-off cost little."""
        whole = self.q.largest * (1.0 + 1e-9)
        near = self.near(column)
        if near == 0.0:
            near = self.q.largest
        if near >= whole:
            return whole, False
        loss = self.bet(column, draws, level, near)[2] - self.bet(column, draws, level, whole)[2]
        return (
            (whole, False)
            if loss <= _NO_LEFTOVER * max(0.0, float(self.delta[column]))
            else (near * (1.0 + 1e-9), True)
        )


class DeclaredDirection(Direction):
    """One whose sets the inflated law cannot enter, as a study declares: P alone is bounded, by the whole level."""

    def bet(self, column: int, draws: int, level: float, cutoff: float) -> tuple[float, float, float]:
        """λ, a κ that nothing uses, and the bound that is to be expected."""
        large = self.p.largest
        low = choose_lower(*self.p.inside(column, large), draws, level, large)
        return low.rate, 0.5 / cutoff, low.bound

    def cutoff(self, column: int, draws: int, level: float) -> tuple[float, bool]:
        """Any M, and nothing beyond it."""
        return self.q.largest, False


def draws_for(
    direction: Direction,
    column: int,
    relative_error: float,
    level: float,
    least: int,
    most: int,
    certifies: bool = True,
) -> int:
    """Draws of each law from proposals for this relative standard error of δ̂, and for bets that keep most of it.

    certifies: whether a certificate is asked for; bets know of no strata, and take many times the draws of the estimate.
    Where training cannot explain what it saw, its variance tells nothing of how many that takes.
    """
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
    """Plain draws of the inflated law, and how many a certificate would take; level: of the union of all leftovers.

    Where a certificate takes more than `most` draws, and these would leave little, a look is all that is made.
    """
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
