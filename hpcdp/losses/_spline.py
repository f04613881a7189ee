"""L̂ on cells from tallies: a smoothing spline of the log-ratio, with atoms and ends of supports apart.

An end of a side's support: a stretch that one law certainly reaches and the other seems never to reach. The coordinate of a fit
is the line itself near the bulk, its logarithm far from it and inside wide gaps.

`PenalisedCurve`: penalised binomial likelihood of a function that is linear between knots, with the penalty chosen by REML.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded
from scipy.special import expit, log_expit

from hpcdp.losses.line.cells import mirrored

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STEPS = 60
_SETTLED = 1e-3  # of the log-likelihood
_RIDGE = 1e-12  # of the largest curvature: what neither counts nor penalty tell
_DECADES = range(1, -14, -1)
_REFINED = (-0.5, 0.5, -0.25, 0.25)


@dataclass(frozen=True, eq=False)
class PenalisedCurve:
    """Counts a, b at places t, increasing, and knots, at least 3, that begin and end as t does."""

    t: Floats
    a: Floats
    b: Floats
    offset: float  # the log-odds of side a where f is 0
    knots: Floats

    @cached_property
    def _piece(self) -> Ints:
        return np.clip(np.searchsorted(self.knots, self.t, "right") - 1, 0, self.knots.size - 2)

    @cached_property
    def _part(self) -> Floats:
        j = self._piece
        return (self.t - self.knots[j]) / (self.knots[j + 1] - self.knots[j])

    @cached_property
    def _saturated(self) -> tuple[Floats, Floats]:
        """Log-chances that fit each count exactly; 0 where the count is 0."""
        n = self.a + self.b
        return tuple(np.log(np.where(side > 0, side, n) / n) for side in (self.a, self.b))  # type: ignore[return-value]

    @cached_property
    def _second(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Coefficients (m - 2,) of the change of slope at inner knots, and the weight of its square in ∫ f''²."""
        h = np.diff(self.knots)
        return 1 / h[:-1], -(1 / h[:-1] + 1 / h[1:]), 1 / h[1:], 2 / (h[:-1] + h[1:])

    @cached_property
    def _penalty(self) -> Floats:
        """∫ f''² as a banded matrix, upper form, (3, m)."""
        c0, c1, c2, w = self._second
        m = self.knots.size
        out = np.zeros((3, m))
        out[2, :-2] += w * c0 * c0
        out[2, 1:-1] += w * c1 * c1
        out[2, 2:] += w * c2 * c2
        out[1, 1:-1] += w * c0 * c1
        out[1, 2:] += w * c1 * c2
        out[0, 2:] += w * c0 * c2
        return out

    def _bent(self, f: Floats) -> tuple[float, Floats]:
        """∫ f''² and half its gradient, (m,)."""
        c0, c1, c2, w = self._second
        turn = np.diff(np.diff(f) * np.append(c0, c2[-1]))
        pull = np.zeros(f.size)
        pull[:-2] += w * turn * c0
        pull[1:-1] += w * turn * c1
        pull[2:] += w * turn * c2
        return float((w * turn * turn).sum()), pull

    def _gather(self, values: Floats) -> Floats:
        m, j = self.knots.size, self._piece
        out = np.zeros(m)
        out += np.bincount(j, values * (1 - self._part), m)
        out += np.bincount(j + 1, values * self._part, m)
        return out

    def _at(self, f: Floats) -> Floats:
        j = self._piece
        return f[j] * (1 - self._part) + f[j + 1] * self._part + self.offset

    def _gain(self, f: Floats, penalty: float) -> float:
        """Penalised log-likelihood relative to the saturated one: large counts must not drown it in rounding."""
        z, (full_a, full_b) = self._at(f), self._saturated
        miss = self.a * (log_expit(z) - full_a) + self.b * (log_expit(-z) - full_b)
        return float(miss.sum()) - 0.5 * penalty * self._bent(f)[0]

    def fit(self, penalty: float, f: Floats) -> tuple[Floats, float]:
        """The best f (m,) for a penalty, by Newton's steps from a start f, and its REML score (Laplace's approximation)."""
        n, m, j, part = self.a + self.b, self.knots.size, self._piece, self._part
        now = self._gain(f, penalty)
        for _ in range(_STEPS):
            s = expit(self._at(f))
            weight = n * s * (1 - s)
            matrix = penalty * self._penalty
            diagonal = np.bincount(j, weight * (1 - part) ** 2, m) + np.bincount(j + 1, weight * part**2, m)
            matrix[2] += diagonal + _RIDGE * diagonal.max()
            matrix[1] += np.bincount(j + 1, weight * part * (1 - part), m)
            factor = cholesky_banded(matrix)
            step = cho_solve_banded((factor, False), self._gather(self.a - n * s) - penalty * self._bent(f)[1])
            step *= min(1.0, 20.0 / max(float(np.abs(step).max()), 1e-300))
            for _ in range(20):
                gain = self._gain(f + step, penalty) - now
                if gain >= 0:
                    break
                step = step / 2
            if gain < 0:
                break
            f, now = f + step, now + gain
            if gain < _SETTLED:
                break
        return f, now - float(np.log(factor[2]).sum()) + 0.5 * (m - 2) * np.log(penalty)

    def best(self) -> Floats:
        """f (m,) with the penalty of the largest REML score: decades first, then between them."""
        total = float((self.a + self.b).sum())
        f = np.zeros(self.knots.size)
        best: tuple[float, float, Floats] | None = None

        def attempt(power: float, start: Floats) -> Floats:
            nonlocal best
            try:
                fitted, score = self.fit(total * 10.0**power, start)
            except LinAlgError:  # a penalty that rounding cannot bear
                return start
            if np.isfinite(score) and (best is None or score > best[0]):
                best = score, power, fitted
            return fitted

        for power in _DECADES:
            f = attempt(float(power), f)
        if best is None:
            return np.zeros(self.knots.size)
        centre = best[1]
        for shift in _REFINED:
            attempt(centre + shift, best[2])
        return best[2]


_SEEN = 64  # outputs of the side that ends, next to its end; and of the other side beyond the end
_NEAR = 20  # of them in the nearer half of their stretch: a tail that fades has some √64 there
_PARTS = 32
_WIDE = 8.0  # times all narrower spacings together: such a spacing of quantiles is a gap between modes
_STRAIGHT = 2.0  # widths of the bulk that stay straight on either side of it
_KNOTS = 400
_GROUPS = 8  # of cells between two knots
_ATOM = 100  # outputs of both sides that let an atom speak for itself
_BEYOND = 0.25  # widths of the bulk by which the curve goes on straight beyond the counts


def never_reached(t: Floats, has: Floats, other: Floats) -> NDArray[np.bool_]:
    """Which places t, increasing, are beyond an end of the side with counts `other`, though `has` counts many."""
    out = np.zeros(t.size, np.bool_)
    # A stretch without `other` is so where `other` is dense up to its ends, and it is at least half as long as what holds 64 of
    # them next to it: with the density of the nearer half 20 were expected, of which none is seen with probability e⁻²⁰.
    at = np.flatnonzero(other > 0)
    if not at.size:
        out[has > 0] = bool(has.sum() >= _SEEN)
        return out
    sums = np.append(0.0, np.cumsum(other))
    held = np.append(0.0, np.cumsum(has))
    firsts = np.append(0, at + 1)
    stops = np.append(at, t.size)  # stretch: cells firsts[i] … stops[i] - 1
    for first, stop in zip(firsts, stops, strict=True):
        if held[stop] - held[first] < _SEEN:
            continue
        places = first + np.flatnonzero(has[first:stop] > 0)
        length = t[places[-1]] - t[places[0]]
        ends = []
        if first > 0:
            ends.append(_is_dense(t, sums, first - 1, -1, length))
        if stop < t.size:
            ends.append(_is_dense(t, sums, stop, 1, length))
        if all(ends):
            out[first:stop] = True
    return out


def _is_dense(t: Floats, sums: Floats, edge: int, way: int, length: float) -> bool:
    """Whether counts end abruptly at the cell `edge`, seen from a stretch of this length; way: where they go on."""
    if way < 0:
        total = sums[edge + 1]
        last = int(np.searchsorted(sums, total - _SEEN, "right")) - 1
    else:
        total = sums[-1] - sums[edge]
        last = int(np.searchsorted(sums, sums[edge] + _SEEN, "left")) - 1
    if total < _SEEN:
        return False
    span = abs(t[edge] - t[last])
    if length < span / 2:
        return False
    middle = t[edge] + way * span / 2
    if way < 0:
        near = sums[edge + 1] - sums[int(np.searchsorted(t, middle, "left"))]
    else:
        near = sums[int(np.searchsorted(t, middle, "right"))] - sums[edge]
    return bool(near >= _NEAR)


def bulk_coordinate(x: Floats, weights: Floats) -> Floats:
    """Increasing coordinate of increasing places with these weights, straight in the bulk and a logarithm far from it."""
    most = float(np.abs(x[weights > 0]).max())
    exponent = int(np.frexp(most)[1]) if most > 0 else 0
    x = np.ldexp(x, -exponent)
    middle = np.cumsum(weights) - 0.5 * weights
    ends = np.unique(np.interp(np.arange(1, _PARTS) / _PARTS * weights.sum(), middle, x))
    if ends.size == 1:
        held = np.flatnonzero(weights > 0)
        ends = np.unique(x[[held[0], held[-1]]])
    gaps = np.diff(ends)
    order = np.sort(gaps)
    before = np.append(np.inf, np.cumsum(order)[:-1])  # the narrowest spacing is no gap
    wide = order[order > _WIDE * before]
    is_gap = gaps >= (wide[0] if wide.size else np.inf)
    unit = float(gaps[~is_gap].sum()) or 1.0
    straight = _STRAIGHT * unit
    lengths = np.where(is_gap, 2 * _bend(gaps / 2, straight), gaps)
    at = np.append(0.0, np.cumsum(lengths))
    piece = np.clip(np.searchsorted(ends, x, "right") - 1, 0, max(gaps.size - 1, 0))
    out = np.empty(x.size)
    below, above = x < ends[0], x >= ends[-1]
    out[below] = -_bend(ends[0] - x[below], straight)
    out[above] = at[-1] + _bend(x[above] - ends[-1], straight)
    inside = ~(below | above)
    i, place = piece[inside], x[inside]
    left, right = place - ends[i], ends[i + 1] - place
    bent = np.where(left <= right, at[i] + _bend(left, straight), at[i + 1] - _bend(right, straight))
    out[inside] = np.where(is_gap[i], bent, at[i] + left)
    result: Floats = out / unit
    return result


def _bend(u: Floats, straight: float) -> Floats:
    return np.where(u <= straight, u, straight * (1.0 + np.log(np.maximum(u, straight)) - np.log(straight)))


def fit_log_ratio(
    centres: Floats, a: Ints, b: Ints, n0: int, n1: int, atoms: NDArray[np.bool_] | None = None
) -> Floats:
    """L̂ = log p/q in each cell, ±inf allowed, never NaN, from tallies a, b of n0, n1 draws. Heuristic: no bound on its error."""
    own = np.zeros(centres.size, np.bool_) if atoms is None else atoms & (a + b >= _ATOM)
    out = np.zeros(centres.size)
    out[own] = _plain(a[own], b[own], n0, n1)
    rest = ~own
    if (a[rest] + b[rest]).any():
        out[rest] = _fit_curve(centres[rest], a[rest].astype(np.float64), b[rest].astype(np.float64), n0, n1)
    return out


def _plain(a: NDArray[np.number], b: NDArray[np.number], n0: int, n1: int) -> Floats:
    """log-ratios of counts with half an output more; ±inf where one side has none and would have 1000 with the other's share."""
    out: Floats = np.log((a + 0.5) / n0) - np.log((b + 0.5) / n1)
    out[(b == 0) & (a * (n1 / n0) >= 1000)] = np.inf
    out[(a == 0) & (b * (n0 / n1) >= 1000)] = -np.inf
    return out


def _fit_curve(x: Floats, a: Floats, b: Floats, n0: int, n1: int) -> Floats:
    held = np.flatnonzero(a + b > 0)
    span = slice(int(held[0]), int(held[-1]) + 1)
    if held.size < 3:
        ratios = _plain(a[held], b[held], n0, n1)
        return ratios[np.searchsorted(0.5 * x[held[1:]] + 0.5 * x[held[:-1]], x)]
    t = bulk_coordinate(x, a / max(1.0, float(a.sum())) + b / max(1.0, float(b.sum())))
    cuts = mirrored(span.stop - span.start, _KNOTS * _GROUPS + 1) + span.start
    counts = [np.add.reduceat(side, cuts[:-1]) if side.size else side for side in (a[: span.stop], b[: span.stop])]
    total = counts[0] + counts[1]
    filled = total > 0
    weight = (a + b)[: span.stop]
    place = np.add.reduceat(weight * t[: span.stop], cuts[:-1])[filled] / total[filled]
    knots = _knots(place)
    if knots.size < 3:
        ratios = _plain(a[held].sum(keepdims=True), b[held].sum(keepdims=True), n0, n1)
        return np.full(x.size, ratios[0])
    curve = PenalisedCurve(place, counts[0][filled], counts[1][filled], float(np.log(n0) - np.log(n1)), knots)
    f = curve.best()
    out = _extend(t, knots, f)
    out[never_reached(t, a, b)] = np.inf
    out[never_reached(t, b, a)] = -np.inf
    return out


def _knots(place: Floats) -> Floats:
    """Some of the increasing places, the first and the last included, not nearer than rounding can tell."""
    knots = place[mirrored(place.size - 1, _KNOTS)] if place.size > 1 else place
    least = 1e-9 * (knots[-1] - knots[0])
    keep = np.append(True, np.diff(knots) > least)
    knots = knots[keep]
    knots[-1] = place[-1]
    return knots


def _extend(t: Floats, knots: Floats, f: Floats) -> Floats:
    """The curve at t: linear between knots, straight a little beyond them, constant from there."""
    reach = np.clip(t, knots[0] - _BEYOND, knots[-1] + _BEYOND)
    out = np.interp(reach, knots, f)
    tail = max(2, knots.size // 50)  # the slope of the outermost knots
    low = (f[tail - 1] - f[0]) / (knots[tail - 1] - knots[0])
    high = (f[-1] - f[-tail]) / (knots[-1] - knots[-tail])
    out += low * np.minimum(reach - knots[0], 0.0) + high * np.maximum(reach - knots[-1], 0.0)
    return out
