"""The likeliest tilt of a place, by kind of variate, from weighted values that were found there (cross-entropy)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance.elite import Component, Place
from hpcdp.importance.kinds import BINS, MOST_VALUES, PLAIN

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CLEAR = 3.0  # standard errors from which on a place is tilted at all
_WIDEST, _LARGEST_TILT = 4.0, 30.0
_PLAIN_SHARE = 0.01  # of each place with tilted masses, so that no value is impossible
STEP = 2.0**-53
"""Of uniforms."""
_SPLIT = 8.0  # of the log-likelihood, by which another bin must be worth it


def fit_product(places: Sequence[Place], weights: Floats) -> Component:
    """The likeliest product of tilts."""
    lengths: dict[str, int] = {}
    for place in places:
        lengths[place.kind] = max(lengths.get(place.kind, 0), place.place + 1)
    found = {kind: np.tile(PLAIN[kind], (n, 1)) for kind, n in lengths.items()}
    for place in places:
        own = weights[place.output]
        inside = own > 0.0
        total = float(own.sum())
        if total > 0.0:
            own, values = own[inside] / total, place.values[inside]
            size = 1.0 / float((own * own).sum())
            row = _FIT[place.kind](values, own, size, _selected(place.base, inside, place.kind))
            if row is not None:
                found[place.kind][place.place, : row.size] = row
    return {kind: table for kind, table in found.items() if (table != PLAIN[kind]).any()}


def _selected(base: Any, inside: NDArray[np.bool_], kind: str) -> Any:
    if kind == "binomial":
        return tuple(part[inside] for part in base)
    return base[inside] if kind in ("gamma", "poisson") else base


def _fit_normal(x: Floats, w: Floats, size: float, _: Any) -> Floats | None:
    mean = float(w @ x)
    scale = float(np.sqrt(w @ (x - mean) ** 2))
    is_moved, is_wide = abs(mean) > _CLEAR / np.sqrt(size), scale > 1.0 + _CLEAR / np.sqrt(2.0 * size)
    # never narrower than the noise itself: the weights beyond a shift then fall, and are bounded on a half-line
    return (
        np.array([mean if is_moved else 0.0, min(_WIDEST, scale) if is_wide else 1.0]) if is_moved or is_wide else None
    )


def _fit_scale(x: Floats, w: Floats, size: float, base: Any = None) -> Floats | None:
    mean = float(w @ x) / (1.0 if base is None else float(w @ base))
    return np.array([max(mean, 0.05)]) if abs(mean - 1.0) > _CLEAR / np.sqrt(size) else None


def _fit_laplace(x: Floats, w: Floats, size: float, _: Any) -> Floats | None:
    up = x >= 0.0
    chance = float(w[up].sum())
    if abs(chance - 0.5) <= _CLEAR / np.sqrt(4 * size) and abs(float(w @ np.abs(x)) - 1.0) <= _CLEAR / np.sqrt(size):
        return None
    scales = [
        float(w[s] @ np.abs(x[s])) / max(1e-300, float(w[s].sum())) if w[s].sum() > 10.0 / size else 1.0
        for s in (up, ~up)
    ]
    bounded = min(max(chance, _PLAIN_SHARE), 1.0 - _PLAIN_SHARE)
    return np.array([bounded, max(scales[0], 0.1), max(scales[1], 0.1)])


def _fit_poisson(x: Floats, w: Floats, size: float, mean: Any) -> Floats | None:
    found, plain = float(w @ x), float(w @ mean)
    if plain <= 0.0 or abs(found - plain) <= _CLEAR * np.sqrt(plain / size):
        return None
    return np.array([np.log(max(found, 0.05 * plain) / plain)])


def _fit_binomial(x: Floats, w: Floats, size: float, base: Any) -> Floats | None:
    trials, chance = base
    spread = float(w @ (trials * chance * (1.0 - chance)))
    if abs(float(w @ (x - trials * chance))) <= _CLEAR * np.sqrt(max(spread, 1e-300) / size):
        return None
    tilt = 0.0
    for _ in range(50):
        odds = chance * np.exp(tilt)
        p = odds / (1.0 - chance + odds)
        slope = float(w @ (trials * p * (1.0 - p)))
        step = float(w @ (x - trials * p)) / max(slope, 1e-12)
        tilt = float(np.clip(tilt + np.clip(step, -2.0, 2.0), -_LARGEST_TILT, _LARGEST_TILT))
        if abs(step) < 1e-9:
            break
    return np.array([float(np.clip(tilt, -7.0, 12.0))])


def _fit_choice(x: Ints, w: Floats, size: float, masses: Any) -> Floats | None:
    shares = np.bincount(x.astype(np.int64), w, masses.size)[: masses.size]
    if (np.abs(shares - masses) <= _CLEAR * np.sqrt(masses * (1.0 - masses) / size) + 1e-12).all():
        return None
    mixed = (1.0 - _PLAIN_SHARE) * (shares * size + masses) / (size + 1.0) + _PLAIN_SHARE * masses
    row = np.zeros(MOST_VALUES)
    some = masses > 0.0
    row[: masses.size][some] = np.log(mixed[some] / masses[some])
    return row


def _fit_order(x: Ints, w: Floats, size: float, items: Any) -> Floats | None:
    """Masses of Plackett and Luce by Hunter's minorisation (2004), of orders of which the first few items are known."""
    n, picked = int(items), x.astype(np.int64)
    masses = np.ones(n)
    steps = picked.shape[1] - (picked.shape[1] == n)  # the last of all items is no choice
    if not steps:
        return None
    wins = sum(np.bincount(picked[:, j], w, n) for j in range(steps)) + 1.0 / size
    for _ in range(30):
        left, sums = np.ones((picked.shape[0], n)), np.full(n, 1.0 / size)
        for j in range(steps):
            rate = w / (left @ masses)
            sums += rate @ left
            np.put_along_axis(left, picked[:, j : j + 1], 0.0, axis=1)
        masses = np.asarray(wins / sums)
        masses /= np.exp(np.log(masses).mean())
    return np.clip(np.log(masses), -6.0, 12.0)


def _fit_uniform(x: Floats, w: Floats, size: float, _: Any) -> Floats | None:
    """A density of at most 16 steps: the bin whose cut gains most is cut, as long as that is worth it."""
    order = np.argsort(x, kind="stable")
    x, cumulated = x[order], np.concatenate([[0.0], np.cumsum(w[order])])
    bins = [(0.0, 1.0)]
    cuts = {bins[0]: _best_cut(x, cumulated, *bins[0])}
    while len(bins) < BINS:
        gain, at = max(((*cuts[b][:1], b) for b in bins), key=lambda pair: pair[0])
        if gain * size < _SPLIT:
            break
        edge = cuts[at][1]
        bins.remove(at)
        for part in ((at[0], edge), (edge, at[1])):
            bins.append(part)
            cuts[part] = _best_cut(x, cumulated, *part)
    if len(bins) == 1:
        return None
    bins.sort()
    edges = np.array([low for low, _ in bins[1:]])
    sums = np.diff(cumulated[np.searchsorted(x, np.concatenate([[0.0], edges, [1.0]]))])
    while edges.size < BINS - 1:  # a bin cut in two equal halves is the same density
        whole = np.concatenate([[0.0], edges, [1.0]])
        widest = int(np.argmax(np.diff(whole)))
        middle = np.round(0.5 * (whole[widest] + whole[widest + 1]) / STEP) * STEP
        share = (middle - whole[widest]) / (whole[widest + 1] - whole[widest])
        edges = np.insert(edges, widest, middle)
        sums = np.insert(sums, widest, sums[widest] * share)
        sums[widest + 1] *= 1.0 - share
    widths = np.diff(np.concatenate([[0.0], edges, [1.0]]))
    return np.concatenate([(1.0 - _PLAIN_SHARE) * sums / sums.sum() + _PLAIN_SHARE * widths, edges])


def _best_cut(x: Floats, cumulated: Floats, low: float, high: float) -> tuple[float, float]:
    """Gain of the log-likelihood by the best cut of a bin, and where it is, a little towards the sparse side."""
    first, last = (int(i) for i in np.searchsorted(x, (low, high)))
    if last - first < 8 or high - low < 2.0**-36:
        return 0.0, low
    at = x[first + 1 : last]
    left = cumulated[first + 1 : last] - cumulated[first]
    total = float(cumulated[last] - cumulated[first])
    right = total - left
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (
            left * np.log(left / (at - low))
            + right * np.log(right / (high - at))
            - total * np.log(total / (high - low))
        )
    gain[~np.isfinite(gain)] = 0.0
    best = int(gain.argmax())
    edge, dense_left = float(at[best]), left[best] * (high - at[best]) > right[best] * (at[best] - low)
    if dense_left:
        edge += min(10.0 * (edge - low) / (best + 2), 0.5 * (high - edge))
    else:
        edge = float(x[first + best]) if best else edge
        edge = float(at[best]) - min(10.0 * (high - edge) / (last - first - best), 0.5 * (edge - low))
    edge = float(np.round(edge / STEP) * STEP)
    return (float(gain[best]), edge) if low < edge < high else (0.0, low)


_FIT: dict[str, Any] = {
    "normal": _fit_normal,
    "exponential": _fit_scale,
    "laplace": _fit_laplace,
    "uniform": _fit_uniform,
    "gamma": _fit_scale,
    "poisson": _fit_poisson,
    "binomial": _fit_binomial,
    "choice": _fit_choice,
    "order": _fit_order,
}
