"""L̂ on cells from tallies: a smoothing spline of the log-ratio, with atoms and ends of supports apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.line.cell_edges import mirrored
from hpcdp.losses.smooth._coordinate import bulk_coordinate
from hpcdp.losses.smooth._jumps import never_reached
from hpcdp.losses.smooth._penalised import PenalisedCurve

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_KNOTS = 400
_GROUPS = 8  # of cells between two knots
_ATOM = 100  # outputs of both sides that let an atom speak for itself
_BEYOND = 0.25  # widths of the bulk by which the curve goes on straight beyond the counts


def fit_log_ratio(
    centres: Floats, a: Ints, b: Ints, n0: int, n1: int, atoms: NDArray[np.bool_] | None = None
) -> Floats:
    """L̂ = log p/q in each cell, (cells,), natural log, ±inf allowed, never NaN, from tallies of both sides.

    centres: (cells,) increasing. a, b: (cells,) how many of n0 draws of D and n1 of D' each cell holds. atoms: (cells,)
    which cells hold one value whose log-ratio is its own (`LineCells.atoms`); with at least 100 outputs they have it.

    In the other cells the log-ratio f maximises Σ a·log s + b·log(1 − s) − λ/2 ∫ f''², s = sigmoid(f + log(n0/n1)), over
    the coordinate of `bulk_coordinate`, with λ by REML (Green and Silverman 1994; Wood 2011). Heuristic: no bound on
    its error. Where one side's counts end abruptly L̂ is ±inf beyond.

    Raises:
        ValueError: arrays differ in shape, or draws are less than 1.
    """
    if not centres.shape == a.shape == b.shape:
        raise ValueError(f"centres, a and b have shapes {centres.shape}, {a.shape}, {b.shape}; accepted: (cells,) each")
    if n0 < 1 or n1 < 1:
        raise ValueError(f"draws are {n0} and {n1}; accepted: at least 1")
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
    some = total > 0
    weight = (a + b)[: span.stop]
    place = np.add.reduceat(weight * t[: span.stop], cuts[:-1])[some] / total[some]
    knots = _knots(place)
    if knots.size < 3:
        ratios = _plain(a[held].sum(keepdims=True), b[held].sum(keepdims=True), n0, n1)
        return np.full(x.size, ratios[0])
    curve = PenalisedCurve(place, counts[0][some], counts[1][some], float(np.log(n0) - np.log(n1)), knots)
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
