"""L̂ on cells of the line from weighted draws: the smoothing spline of `smooth`, of counts that tell as much."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._spline import PenalisedCurve
from hpcdp.losses.line.cells import LineCells, mirrored

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_KNOTS, _GROUPS = 200, 1600
_WINDOWS, _LEAST_GROUPS = 6, 6  # in which the curve is fitted, of so many groups at least
_ALONE = 100.0  # outputs' worth of both sides that let an atom speak for itself
_APART = 4.0  # standard errors by which an atom lies beside the curve to be none of it
_PASSES = 3  # how often it is fitted
_MOST = 0.5  # of both laws
_ALIKE = 3.0  # standard errors of a chain's mass within which it is taken to be 1
_NOT_SEEN = 3.0  # over a tile's draws in a cell: the share of that which may lie elsewhere unseen, at .95
_MOST_COUNTS = 1e7  # outputs that a cell is worth at most: more would leave its neighbours none of the groups
_NEVER = 1000.0  # outputs' worth of one side, and none of the other, from which on there is no other


def weighted_sums(cells: Ints, weights: Floats, tiles: Ints, ratios: Floats, size: int) -> tuple[Floats, Floats]:
    """Of each cell its probability and the variance of that, (size,) each, from draws in these cells.

    A chain's density has the integral 1, so that the draws on its tile are worth what makes their sum of w·g/f so (a ratio
    estimate, its variance to first order and not below `_NOT_SEEN`). tiles: of each draw the chain alone there, or −1.
    """

    def sums(places: Ints, part: Floats | None, least: int) -> Floats:
        return np.asarray(np.bincount(places, part, least), np.float64)

    draws, places = cells.size, tiles + 1
    count = int(places.max(initial=0)) + 1
    terms = weights * ratios / draws
    mass, square = sums(places, terms, count), sums(places, terms * terms, count)
    mass[(np.abs(mass - 1.0) > _ALIKE * np.sqrt(square)) | (np.arange(count) == 0)] = 1.0
    weights = weights / (draws * mass[places])
    squared = weights * weights
    own, place = np.unique(places * size + cells, return_inverse=True)
    tile, cell = np.divmod(own, size)
    held, share, plain = (sums(place, part, own.size) for part in (None, weights, squared))
    cross = sums(place, squared * ratios, own.size)
    ratio = plain - 2.0 * share * cross + share * share * (square / mass**2)[tile]
    spread = np.maximum(np.where(tile > 0, ratio, plain), np.minimum(1.0, _NOT_SEEN / held) * plain)
    return sums(cell, share, size), sums(cell, spread, size)


def fit_weighted(cells: LineCells, p: Floats, vp: Floats, q: Floats, vq: Floats) -> Floats:
    """L̂ = log p/q in each cell, ±inf allowed, never NaN; vp, vq: variances. Heuristic."""
    sums, counts = np.stack([p, vp, q, vq]), np.stack([_counts(p, vp), _counts(q, vq)])
    told = cells.atoms & (counts.sum(axis=0) >= _ALONE)
    own = np.zeros(cells.size)
    if told.any():
        draws = [_draws(side[told], share[told]) for side, share in zip(counts, (p, q), strict=True)]
        own[told] = _plain(counts[:, told], draws)
    with np.errstate(divide="ignore"):
        error = np.sqrt(1.0 / (counts[0] + 0.5) + 1.0 / (counts[1] + 0.5))
    apart = np.zeros(cells.size, np.bool_)
    for _ in range(_PASSES):  # on a lattice all are atoms, and the curve tells them better than they tell themselves
        rest = np.flatnonzero(~apart)
        ratios = np.where(apart, own, 0.0)
        if counts[:, rest].any():
            ratios[rest] = _curve(sums[:, rest])
        curve = np.interp(np.arange(cells.size), rest, np.clip(ratios[rest], -1e9, 1e9)) if rest.size else own
        with np.errstate(invalid="ignore"):
            now = told & ~(np.abs(own - curve) <= _APART * error)
        if (now == apart).all():
            break
        apart = now
    ratios = np.where(apart, own, ratios)
    # at ε = 0 a set that holds most of both laws for a difference that is not told would be told worse than nothing
    even = told & (np.minimum(p, q) > _MOST) & (np.abs(ratios) <= _APART * error)
    return np.where(even, 0.0, ratios)


def _counts(share: Floats, variance: Floats) -> Floats:
    spread = np.sqrt(variance)
    roots = np.divide(share, spread, out=np.zeros(share.size), where=spread > 0.0)
    return np.minimum(roots * roots, _MOST_COUNTS)


def _draws(counts: Floats, share: Floats) -> Floats:
    """Draws out of which the counts come; where there are none, as of the nearest with some."""
    filled = (share > 0.0) & (counts > 0.0)
    if not filled.any():
        return np.ones(share.size)
    at = np.flatnonzero(filled)
    logs = np.log(counts[at] / share[at])
    return np.exp(np.interp(np.arange(share.size), at, logs))


def _plain(counts: Floats, draws: list[Floats]) -> Floats:
    out: Floats = np.log((counts[0] + 0.5) / draws[0]) - np.log((counts[1] + 0.5) / draws[1])
    out[(counts[1] == 0.0) & (counts[0] >= _NEVER)] = np.inf
    out[(counts[0] == 0.0) & (counts[1] >= _NEVER)] = -np.inf
    return out


def _curve(sums: Floats) -> Floats:
    """The spline over places that hold about equally much; constant beyond the outermost."""
    size = sums.shape[1]
    told = _counts(sums[0], sums[1]) + _counts(sums[2], sums[3])
    held = np.flatnonzero(told > 0.0)
    first, last = int(held[0]), int(held[-1]) + 1
    inner = told[first:last]
    mass = np.cumsum(np.minimum(inner, 4.0 * inner.sum() / _GROUPS) + 1e-12 * inner.sum())
    wanted = mass[-1] * np.arange(1, _GROUPS) / _GROUPS
    cuts = np.unique(np.concatenate([[0], 1 + np.searchsorted(mass, wanted)]))
    cuts = cuts[cuts < inner.size]
    p, vp, q, vq = (np.add.reduceat(side[first:last], cuts) for side in sums)
    a, b = _counts(p, vp), _counts(q, vq)
    na, nb = _draws(a, p), _draws(b, q)
    filled = a + b > 0.0
    place = (0.5 * (np.append(cuts, inner.size)[1:] + cuts) / inner.size)[filled]
    knots = place[mirrored(place.size - 1, _KNOTS)] if place.size > 1 else place
    if knots.size < 3:
        ratios = _plain(np.stack([a, b]), [na, nb])
        which = np.searchsorted(cuts, np.arange(inner.size), "right") - 1
        inside = ratios[which]
    else:
        offset = np.log(na[filled]) - np.log(nb[filled])
        where = (np.arange(inner.size) + 0.5) / inner.size
        inside = _in_windows(place, a[filled], b[filled], offset, where)
        inside = _with_ends(inside, a, b, cuts)
    out = np.empty(size)
    out[first:last] = inside
    out[:first], out[last:] = inside[0], inside[-1]
    return out


def _in_windows(place: Floats, a: Floats, b: Floats, offset: Any, where: Floats) -> Floats:
    """The spline at each of `where`, fitted in overlapping windows: L may bend at one end and be straight at another."""
    told = np.cumsum(a + b)
    middles = (
        told[-1] * np.arange(_WINDOWS + 1) / _WINDOWS
    )  # window k is from middle k − 1 to k + 1, and weighs most at k
    at = np.minimum(np.interp(where, place, told), middles[-1])
    sums, weights = np.zeros(where.size), np.zeros(where.size)
    for k in range(_WINDOWS + 1):
        low, high = middles[max(0, k - 1)], middles[min(_WINDOWS, k + 1)]
        own = np.flatnonzero((told >= low) & (told <= high))
        if own.size < _LEAST_GROUPS:
            own = np.arange(place.size)
        knots = place[own][mirrored(own.size - 1, _KNOTS)]
        curve = PenalisedCurve(place[own], a[own], b[own], offset[own], knots)
        near = np.flatnonzero((at >= low) & (at <= high))
        weight = np.maximum(1e-9, 1.0 - np.abs(at[near] - middles[k]) / (told[-1] / _WINDOWS))
        sums[near] += weight * np.interp(where[near], knots, curve.best())
        weights[near] += weight
    return sums / weights


def _with_ends(inside: Floats, a: Floats, b: Floats, cuts: Ints) -> Floats:
    """±inf from where on one side has nothing while the other has much, up to an end."""
    ratios = inside.copy()
    for mine, other, sign in ((a, b, np.inf), (b, a, -np.inf)):
        for step in (1, -1):
            beyond = np.cumsum(other[::-step]) == 0.0  # groups from this end on in which the other has nothing
            many = np.cumsum(mine[::-step])
            count = int(beyond.sum())
            if count and many[count - 1] >= _NEVER:
                if step == 1:
                    ratios[cuts[cuts.size - count] :] = sign
                else:
                    ratios[: cuts[count] if count < cuts.size else ratios.size] = sign
    return ratios


def delta_by_loss(losses: Floats, densities: Floats, epsilon: float) -> float:
    """E max(0, 1 − e^(ε − L̂)) over draws with densities: δ as L̂ tells it. Heuristic."""
    return float(densities @ np.maximum(0.0, -np.expm1(epsilon - losses)))
