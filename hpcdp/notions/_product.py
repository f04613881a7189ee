"""Pairs of discrete laws behind convex polygons, and the pairs of several independent outputs.

`inscribed`: polygons through Neyman–Pearson points of an exact trade-off curve, refined until they are close to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import refusal
from hpcdp.analytic._curve import Curve

Floats = NDArray[np.float64]

_FIRST = np.linspace(16.0, -16.0, 65)  # log η
_LARGEST = 690.0  # log η whose exp, and that of its opposite, is finite and normal
_ROUNDS = 80  # enough to bring two thresholds around an atom to neighbouring numbers
_MOST = 1 << 20


def inscribed(exact: Curve, tolerance: float) -> tuple[Floats, Floats]:
    """Return points of T, alpha ascending from 0; the lines between them are nowhere more than `tolerance` above T.

    At threshold η the line of slope −η supports T, so between two neighbours T lies in the triangle of their lines and the chord.
    Thresholds are halved until every triangle is at most `tolerance` high and wide: derived, not sampled.
    """
    log_eta = np.concatenate(([np.inf], _FIRST, [-np.inf]))
    alpha, beta = _points(exact, log_eta)
    for _ in range(_ROUNDS):
        wide = np.flatnonzero(_excess(log_eta, alpha, beta) > tolerance)
        middle = _between(log_eta[wide], log_eta[wide + 1])
        new = (middle < log_eta[wide]) & (middle > log_eta[wide + 1])
        if not new.any():
            break
        middle = middle[new]
        if middle.size + log_eta.size > _MOST or np.abs(middle).max() > _LARGEST:
            raise refusal("tolerance", tolerance, "a larger one, as this curve would need too many points")
        more = _points(exact, middle)
        place = wide[new] + 1
        log_eta = np.insert(log_eta, place, middle)
        alpha, beta = np.insert(alpha, place, more[0]), np.insert(beta, place, more[1])
    return np.maximum.accumulate(alpha), np.minimum.accumulate(beta)


def _points(exact: Curve, log_eta: Floats) -> tuple[Floats, Floats]:
    alpha, beta = exact.point(np.exp(log_eta))
    # at η = ∞ the first point of the curve, not the test that never rejects
    return alpha, np.where(log_eta == np.inf, exact.tradeoff(0.0), beta)


def _between(left: Floats, right: Floats) -> Floats:
    """Halfway; from an infinite end, twice as far from 0 as the finite one."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (left + right)
    middle = np.where(left == np.inf, 2.0 * np.abs(right), middle)
    return np.where(right == -np.inf, -2.0 * np.abs(left), middle)


def _excess(log_eta: Floats, alpha: Floats, beta: Floats) -> Floats:
    """The larger of height and width of each triangle; 0 where two points are one."""
    steep, flat = np.exp(log_eta[:-1]), np.exp(log_eta[1:])
    wide, high = np.maximum(np.diff(alpha), 0.0), np.maximum(-np.diff(beta), 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        chord = np.clip(high / wide, flat, steep)  # rounding may take it out of the two slopes
        # with one factor divided by `steep`, which may be infinite
        height = wide * (chord - flat) * np.where(steep == np.inf, 1.0, (steep - chord) / (steep - flat))
        width = height / chord
    positive = (wide > 0.0) & (high > 0.0)
    return np.where(positive, np.maximum(height, width), 0.0)


STEPS = 1 << 18
"""Steps of the grid of losses over the range that holds all but 1e-18 of the mass, at least."""

_MOST_PRODUCTS = 1 << 20  # outcomes of an exact product, before equal losses are merged: a tenth of a second
_MOST_SUMS = 1 << 10  # distinct losses of an exact power; one more factor is then still an exact product
_SAME = 1e-12  # losses that differ by this are one loss with rounding
_LEFT_OUT = 1e-18  # mass beyond the range of the grid
_ON_GRID = 1e-9  # a loss this near to a grid point, in steps, is on it
_TILTS = np.geomspace(1e-3, 1e3, 25)
_p, _q = attrgetter("p"), attrgetter("q")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Masses under P and Q of outcomes by ascending loss log(p/q), (k,) each; the polygon has the step (p, −q) for each."""

    p: Floats
    q: Floats

    @classmethod
    def of(cls, alpha: Floats, beta: Floats) -> Outcomes:
        """From the corners of a convex polygon, alpha ascending from (0, 1) to (1, 0)."""
        p, q = np.diff(alpha), beta[:-1] - beta[1:]
        kept = (p > 0.0) | (q > 0.0)
        return cls(p[kept], q[kept])

    def corners(self) -> tuple[Floats, Floats]:
        """The corners of the polygon, from (0, 1) to (1, 0)."""
        alpha = np.concatenate(([0.0], np.cumsum(self.p)))
        beta = np.concatenate((np.cumsum(self.q[::-1])[::-1], [0.0]))  # tail sums keep the digits of small values
        return alpha, beta

    @property
    def loss(self) -> Floats:
        """log(p/q), (k,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.p) - np.log(self.q))

    @property
    def finite(self) -> Outcomes:
        """The outcomes that both laws can give."""
        both = (self.p > 0.0) & (self.q > 0.0)
        return Outcomes(self.p[both], self.q[both])


def multiply(first: Outcomes, second: Outcomes) -> Outcomes:
    """Return the pair of both outputs together: exact, or on a grid where the outcomes would be more than 2^20."""
    if first.p.size * second.p.size > _MOST_PRODUCTS:
        return _on_grid([(first, 1), (second, 1)])
    p, q = np.outer(first.p, second.p).ravel(), np.outer(first.q, second.q).ravel()
    with np.errstate(invalid="ignore"):
        loss = np.add.outer(first.loss, second.loss).ravel()
    kept = (p > 0.0) | (q > 0.0)  # infinite losses of both signs, or an underflow
    p, q, loss = p[kept], q[kept], loss[kept]
    order = np.argsort(loss, kind="stable")
    p, q, loss = p[order], q[order], loss[order]
    finite = np.isfinite(loss)
    with np.errstate(invalid="ignore"):
        same = np.diff(loss) <= _SAME * (1.0 + np.abs(loss[1:]))
    apart = np.where(finite[1:] & finite[:-1], ~same, loss[1:] != loss[:-1])
    starts = np.flatnonzero(np.concatenate(([True], apart)))
    return Outcomes(np.add.reduceat(p, starts), np.add.reduceat(q, starts))


def power(pair: Outcomes, count: int) -> Outcomes:
    """Return the pair of `count` independent outputs together: exact if they have at most 2^10 losses, else on a grid."""
    if count == 1:
        return pair
    kinds = pair.p.size
    if max(count, kinds) > _MOST_SUMS or math.comb(count + kinds - 1, kinds - 1) > _MOST_SUMS:
        return _on_grid([(pair, count)])
    half = power(pair, count // 2)
    whole = multiply(half, half)
    return multiply(whole, pair) if count % 2 else whole


def _on_grid(parts: Sequence[tuple[Outcomes, int]]) -> Outcomes:
    """The pair of independent outputs, each repeated as often as it says, with losses spread over a common grid.

    Each loss goes to its neighbours so that its masses under P and Q stay: the outcome is a function of what it is spread to, so
    the curve is on or below the exact one (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).
    """
    finite = [(pair.finite, count) for pair, count in parts]
    shared = [math.prod(float(masses(pair).sum()) ** count for pair, count in finite) for masses in (_p, _q)]
    if 0.0 in shared:
        return Outcomes(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    low, high = _range(finite)
    if high - low <= _SAME:  # all losses are 0
        return Outcomes(np.array([0.0, shared[0], 1.0 - shared[0]]), np.array([1.0 - shared[1], shared[1], 0.0]))
    step = (high - low) / STEPS
    spread = [(_spread(pair, step), count) for pair, count in finite]
    low, high = _range([(pair, count) for (_, pair), count in spread])  # it has grown by the spreading
    first, last = math.floor(low / step), math.ceil(high / step)
    size = 1 << (last - first + 1).bit_length()  # a power of two is transformed fastest
    at = np.arange(first, last + 1)
    sums = [
        _convolve([(places, masses(pair), count) for (places, pair), count in spread], size)[at % size]
        for masses in (_p, _q)
    ]
    loss = step * at
    # of the two masses at a loss, the larger is kept and gives the other: so the rounding of the transform stays small
    p = np.where(loss >= 0.0, sums[0], sums[1] * np.exp(np.minimum(loss, 0.0)))
    q = np.where(loss >= 0.0, sums[0] * np.exp(-np.maximum(loss, 0.0)), sums[1])
    kept, alone = (p > 0.0) | (q > 0.0), [max(0.0, 1.0 - float(masses.sum())) for masses in (p, q)]
    return Outcomes(np.concatenate(([0.0], p[kept], alone[:1])), np.concatenate((alone[1:], q[kept], [0.0])))


def _range(parts: Sequence[tuple[Outcomes, int]]) -> tuple[float, float]:
    """Bounds of the sum of losses: below the first lies at most 1e-18 of Q, above the second of P (Chernoff's bound)."""
    ends = []
    for mine, other in ((_p, _q), (_q, _p)):
        logs = [(np.log(mine(pair)), np.log(mine(pair)) - np.log(other(pair)), count) for pair, count in parts]
        reach = [sum(count * float(np.max(loss)) for _, loss, count in logs)]
        for tilt in _TILTS:
            moments = sum(count * _log_sum(log_mass + tilt * loss) for log_mass, loss, count in logs)
            reach.append((moments - math.log(_LEFT_OUT)) / tilt)
        ends.append(max(0.0, min(reach)))
    return -ends[1], ends[0]


def _log_sum(logs: Floats) -> float:
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()))


def _spread(pair: Outcomes, step: float) -> tuple[NDArray[np.int64], Outcomes]:
    """Places on the grid, ascending, and the masses there."""
    place = pair.loss / step
    left = np.floor(place + _ON_GRID)
    over = np.maximum(place - left, 0.0) * step
    share = np.expm1(-over) / math.expm1(-step)  # of p, to the right
    to_left, to_right = 1.0 - share, share * np.exp(over - step)  # of q: what p · e^−loss leaves for each
    first = int(left.min())
    index = (left - first).astype(np.int64)
    length = int(index.max()) + 2
    p, q = (
        _binned(index, mass * a, length) + _binned(index + 1, mass * b, length)
        for mass, a, b in ((pair.p, to_left, share), (pair.q, 1.0 - to_right, to_right))
    )
    kept = (p > 0.0) & (q > 0.0)
    return first + np.flatnonzero(kept), Outcomes(p[kept], q[kept])


def _convolve(parts: Sequence[tuple[NDArray[np.int64], Floats, int]], size: int) -> Floats:
    """The masses of the sum, at places modulo `size`."""
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    for places, masses, count in parts:
        transform *= np.fft.rfft(_binned(places % size, masses, size)) ** count
    return np.maximum(np.fft.irfft(transform, size), 0.0)


def _binned(places: NDArray[np.int64], masses: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, masses, size), np.float64)
