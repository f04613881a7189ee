"""Rényi divergences, Kullback–Leibler and zero-concentrated DP from the spectrum and from classes of L̂.

With t = e^ε (Sason and Verdú 2016): E_Q[(p/q)^a] = 1 + a(a − 1)·∫₀^∞ [e^((a−1)ε) δ_PQ(ε) + e^(−aε) δ_QP(ε)] dε, and KL(P‖Q) is
that integral at a = 1. Both weights are above 0, so lower bounds on δ that hold together bound every order from below
at once, and the largest D_a/a with them. Between two ε only what bounds imply is used: δ does not rise, nor does
(1 − δ)/e^ε. A chord between two of them would lie above it, as δ is convex in e^ε.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST_ORDER = 1e100
"""Times any loss it is a number."""
ORDER = "at least 1 (1: Kullback–Leibler)"
"""Which orders are accepted."""
ORDERS = np.array([1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 16.0, 32.0, 64.0])
"""Orders at which ρ is looked for first; whichever is taken bounds it."""

_FINER = 65  # orders between the neighbours of the best one
_REACH = 1e300
_LARGE = 1e6  # an order: what larger ones add is next to nothing
_NEAR = 1e-3  # orders this close to 1
_LEAST = 1e-300  # 1 − δ, so that its logarithm is finite
_ROUNDING = 1e-15  # of a difference of two integrals, each right within some units in the last place
_SAFE = 1e-12  # of sums of terms >= 0, and of logarithms


@dataclass(frozen=True, eq=False)
class Pieces:
    """A function nowhere above δ, (…, 2, pieces): 1 − rate·e^ε on a piece, with `value` at its end, or flat, of rate 0."""

    start: Floats
    stop: Floats
    value: Floats
    rate: Floats


def make_pieces(epsilons: Floats, lower: Floats) -> Pieces:
    """What bounds lower (…, 2, E), NaN: unknown, on δ at different epsilons (E,) imply. As sure as they are."""
    order = np.argsort(epsilons)
    known, bounds = epsilons[order], np.clip(np.nan_to_num(lower[..., order]), 0.0, 1.0)
    # δ(0) is the total variation distance, the same in both directions
    first = np.broadcast_to(bounds.max(axis=(-2, -1))[..., None, None], (*bounds.shape[:-1], 1))
    if known[0] > 0.0:
        known, bounds = np.append(0.0, known), np.concatenate([first, bounds], axis=-1)
    else:
        bounds = np.concatenate([first, bounds[..., 1:]], axis=-1)
    ahead = np.maximum.accumulate(bounds[..., ::-1], axis=-1)[..., ::-1]
    floor = np.concatenate([ahead[..., 1:], np.zeros_like(first)], axis=-1)
    rate = np.minimum.accumulate(np.maximum(1.0 - bounds, _LEAST) * np.exp(-known), axis=-1)
    start = np.broadcast_to(known, rate.shape)
    corner = np.maximum(start, np.log(np.maximum(1.0 - floor, _LEAST)) - np.log(rate))
    corner = np.minimum(corner, np.append(known[1:], np.inf))
    end = np.broadcast_to(np.append(known[1:], known[-1]), rate.shape)  # beyond the last bound nothing is flat
    falling = np.maximum(0.0, 1.0 - rate * np.exp(corner) - _ROUNDING)
    return Pieces(
        np.concatenate([start, np.minimum(corner, end)], axis=-1),
        np.concatenate([corner, end], axis=-1),
        np.concatenate([falling, floor], axis=-1),
        np.concatenate([rate, np.zeros_like(rate)], axis=-1),
    )


def renyi_lower(pieces: Pieces, order: float) -> Floats:
    """Lower bounds on D_order of (P, Q) and (Q, P), (…, 2), for all orders at once. Finite-sample."""
    lower = _integral_lower(pieces, order)
    return np.maximum(lower, _integral_lower(pieces, _LARGE)) if order > _LARGE else lower


def _integral_lower(pieces: Pieces, order: float) -> Floats:
    above, reach = order - 1.0, float(pieces.stop.max(initial=0.0))
    with np.errstate(divide="ignore"):
        log_integral = np.logaddexp(_log_rising(pieces, above), np.log(_falling(pieces, order))[..., ::-1])
    if order == 1.0:
        divergence = np.exp(log_integral)
    else:
        divergence = np.logaddexp(0.0, log_integral + np.log(order) + np.log(above)) / above
    return np.asarray(np.maximum(0.0, divergence * (1.0 - _SAFE) - _ROUNDING * reach))


def _weight(rate: float, width: Floats) -> Floats:
    """∫₀^width e^(−rate·s) ds."""
    return width if rate == 0.0 else -np.expm1(-rate * width) / rate


def _log_rising(pieces: Pieces, above: float) -> Floats:
    """ln ∫ e^(above·ε) of the function, (…, 2): of its value at each end, and of what it is above that."""
    width = pieces.stop - pieces.start
    whole, less = _weight(above, width), _weight(above + 1.0, width)
    drop = pieces.rate * np.exp(pieces.stop)
    inner = pieces.value * whole + drop * np.maximum(0.0, whole - less - _ROUNDING * whole)
    with np.errstate(divide="ignore"):
        logs = np.log(inner) + above * pieces.stop
    most = np.maximum(logs.max(axis=-1, keepdims=True), -_REACH)  # finite, so that the sums are
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logs - most).sum(axis=-1)) + most[..., 0])


def _falling(pieces: Pieces, order: float) -> Floats:
    """∫ e^(−order·ε) of the function, (…, 2)."""
    width = pieces.stop - pieces.start
    whole, less = _weight(order, width), _weight(order - 1.0, width)
    top, bottom = pieces.rate * np.exp(pieces.stop) * whole, pieces.rate * np.exp(pieces.start) * less
    inner = pieces.value * whole + np.maximum(0.0, top - bottom - _ROUNDING * (top + bottom))
    return np.asarray((np.exp(-order * pieces.start) * inner).sum(axis=-1))


@dataclass(frozen=True)
class Concentration:
    """A lower bound on ρ = sup D_a/a, and whose it is: an order, and an index of `make_pieces` without its last axis."""

    lower: float
    order: float
    place: tuple[int, ...]


def zcdp_lower(pieces: Pieces) -> Concentration:
    """The largest lower bound on D_a/a, a >= 1: what ρ-zCDP (Bun and Steinke 2016) asks to be at most ρ. Finite-sample."""
    values = np.stack([renyi_lower(pieces, float(order)) / order for order in ORDERS])
    best, *place = (int(i) for i in np.unravel_index(int(values.argmax()), values.shape))
    pair = tuple(place[:-1])
    own = Pieces(*(part[pair] for part in (pieces.start, pieces.stop, pieces.value, pieces.rate)))
    finer = np.linspace(ORDERS[max(best - 1, 0)], ORDERS[min(best + 1, ORDERS.size - 1)], _FINER)
    sharper = np.array([renyi_lower(own, float(order))[place[-1]] / order for order in finer])
    sharpest = int(sharper.argmax())
    if sharper[sharpest] > values[(best, *place)]:
        return Concentration(float(sharper[sharpest]), float(finer[sharpest]), tuple(place))
    return Concentration(float(values[(best, *place)]), float(ORDERS[best]), tuple(place))


def class_counts(exceed: Ints, epsilons: Floats, test: Ints) -> Ints:
    """Test outputs in each class of L̂ between thresholds, (pairs, 2E + 1, 2), of D and of D'; negative: unknown."""
    order = np.argsort(epsilons)
    over, under = exceed[:, 0, order], exceed[:, 1, order, ::-1]
    right, left = (
        -np.diff(np.concatenate([part, np.zeros_like(part[:, :1])], axis=1), axis=1) for part in (over, under)
    )
    middle = test[:, 0, :1] - over[:, :1] - under[:, :1]
    known = np.asarray((exceed >= 0).all(axis=(1, 2, 3)))
    return np.asarray(np.where(known[:, None, None], np.concatenate([left[:, ::-1], middle, right], axis=1), -1))


def renyi_plugin(classes: Ints, order: float) -> Floats:
    """D_order of the shares of classes, (pairs, 2), inf or NaN where these do not tell. **Asymptotic**."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.maximum(classes, 0)) - np.log(np.maximum(1, classes.sum(axis=1)))[:, None]
        divergences = [_divergence(logs[..., side], logs[..., 1 - side], order) for side in (0, 1)]
    unknown = np.asarray((classes < 0).any(axis=(1, 2)))
    return np.where(unknown[:, None], np.nan, np.stack(divergences, axis=-1))


def _divergence(log_p: Floats, log_q: Floats, order: float) -> Floats:
    there = log_p > -np.inf
    loss = np.where(there, log_p - log_q, 0.0)
    above = order - 1.0
    if above <= _NEAR:  # the logarithm of a moment near 1 would lose digits
        excess = np.where(there, np.exp(log_p) * (loss if above == 0.0 else np.expm1(above * loss) / above), 0.0).sum(
            axis=1
        )
        return np.asarray(excess if above == 0.0 else np.log1p(above * excess) / above)
    logs = np.where(there, log_p + above * loss, -np.inf)
    return np.asarray(np.maximum(0.0, np.logaddexp.reduce(logs, axis=1) / above))
