"""Rényi divergences and Kullback–Leibler's from below by a score of classes of L̂ and two bets, for orders named beforehand.

For every g (Donsker and Varadhan 1983; Birrell, Dupuis, Katsoulakis, Rey-Bellet and Wang 2021)
D_a(P‖Q) >= a/(a − 1)·ln E_P e^((a−1)g) − ln E_Q e^(ag), and KL(P‖Q) >= E_P g − ln E_Q e^g. Here g is constant on classes of L̂.
Both means are of bounded variables, and each is bounded by a bet: with X in [0, 1] of mean at most m, every factor
1 + λ(X − m) with 0 <= λ <= 1/m is at least 0 and has a mean of at most 1, so that the product over independent outputs is
above 1/α with probability at most α (Ville 1939; Waudby-Smith and Ramdas 2024). Training outputs alone choose g and λ: what is
certified is a function of counts by class, **finite-sample**, whatever L̂ and g are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_REACH = 60.0  # of a·g below its largest value: beyond it, a class of so small a weight shows nothing of so few outputs
_NEAR = 1.1  # orders below it use (e^((a−1)g) − 1)/(a − 1), which stays exact as a falls to 1
_PRIOR = 0.5  # an output a class and side is added to the training counts, but no more than 1/16 of those in all
_FARTHEST = 30.0  # losses that count for it: of further ones one side would have nothing at all
_CAPS = 24  # of g from above, and from below, that are compared
_STAKES = np.array([0.5, 0.75, 1.0, 1.3])  # of the stake that is best of a normal variable
_SHARES = np.array([0.3, 0.9])  # of the stake that a largest value after a mean of the smallest would lose
_HALVINGS, _FEW = 64, 36  # of a range, for a limit and to compare stakes
_ROUNDING = 1e-9  # of the log of a wealth, which is made smaller by that
_SAFE = 1e-12  # of exponentials and logarithms
_BATCH = 1 << 21  # numbers of an array


@dataclass(frozen=True, eq=False)
class Scores:
    """What training says of one order: g (…, classes), shares to expect, and about what will be certified; **heuristic**."""

    order: float
    g: Floats
    p: Floats
    q: Floats
    promise: Floats


@dataclass(frozen=True, eq=False)
class Stakes:
    """The bets on both means, all (…): λ of each, and the failure probability of each."""

    on_p: Floats
    on_q: Floats
    level: Floats


def class_losses(epsilons: Floats) -> Floats:
    """About the loss in each class of `class_counts`, shape (2E + 1,)."""
    ordered = np.sort(epsilons)
    edges = np.concatenate([-ordered[::-1], ordered])
    return np.concatenate([edges[:1], 0.5 * (edges[:-1] + edges[1:]), edges[-1:]])


def choose_scores(training: Ints, losses: Floats, tests: Ints, order: float, level: float) -> Scores:
    """g of each divergence: the log ratio of training shares (n, classes, 2), cut off where that promises most."""
    parts = []
    size = max(1, _BATCH // (_CAPS * training.shape[1]))
    spread = np.broadcast_to(losses, training.shape[:2])
    for start in range(0, training.shape[0], size):
        block = slice(start, start + size)
        parts.append(_choose(training[block], spread[block], tests[block], order, level))
    g, p, q, promise = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Scores(order, g, p, q, promise)


def _choose(training: Ints, losses: Floats, tests: Ints, order: float, level: float) -> tuple[Floats, ...]:
    known = np.asarray((training >= 0).all(axis=(1, 2)))
    counts = np.where(known[:, None, None], training, 0).astype(np.float64)
    totals = counts.sum(axis=1, keepdims=True)
    prior = np.minimum(_PRIOR, (totals + 1.0) / (16.0 * training.shape[1]))
    likely = 0.5 + 0.5 * np.tanh(0.5 * np.clip(np.stack([losses, -losses], axis=-1), -_FARTHEST, _FARTHEST))
    shares = counts + prior * likely
    shares /= shares.sum(axis=1, keepdims=True)
    p, q = shares[..., 0], shares[..., 1]
    # what is chosen by training holds of other outputs up to the noise of both
    sizes = 1.0 / (1.0 / np.maximum(1, tests) + 1.0 / np.maximum(1.0, totals[:, 0]))
    base, promised = np.log(p) - np.log(q), np.full(known.shape, -np.inf)
    for side in (1, 0, 1):
        tried = _pooled(base, p, q, sizes, is_upper=side == 1)
        promise = _promise(_scaled(tried, order), p[:, None], q[:, None], sizes[:, None], order, level)
        best = promise.argmax(axis=1)[:, None]
        promised = np.take_along_axis(promise, best, 1)[:, 0]
        base = np.take_along_axis(tried, best[..., None], 1)[:, 0]
    return _scaled(base, order), p, q, np.where(known, promised, np.nan)


def _pooled(base: Floats, p: Floats, q: Floats, sizes: Floats, is_upper: bool) -> Floats:
    """Scores (n, choices, classes): as they are, and with one number for all classes from some class on, up or down."""
    if not is_upper:
        return _pooled(base[:, ::-1], p[:, ::-1], q[:, ::-1], sizes, True)[..., ::-1]
    some, other = (np.cumsum(v[:, ::-1], axis=1)[:, ::-1] for v in (p, q))
    masses = np.geomspace(0.5, 1.0 / sizes.max(), _CAPS)  # of what is pooled
    first = (np.minimum(some, other)[:, None] >= masses[:, None]).sum(axis=-1)
    first = np.maximum(0, first - 1)
    ratio = np.log(np.take_along_axis(some, first, 1)) - np.log(np.take_along_axis(other, first, 1))
    pooled = np.arange(base.shape[1]) >= first[..., None]
    merged = np.where(pooled, ratio[..., None], base[:, None])
    return np.concatenate([base[:, None], merged], axis=1)


def _scaled(g: Floats, order: float) -> Floats:
    """Less its largest value, which changes no bound, and not too far below it."""
    return np.asarray(np.maximum(g - g.max(axis=-1, keepdims=True), -_REACH / order))


def _payoffs(g: Floats, order: float) -> tuple[Floats, Floats]:
    """The variables whose means are bounded: of the first law, from below; of the second, from above."""
    above = order - 1.0
    if order == 1.0:
        first = g
    elif order < _NEAR:
        first = np.expm1(above * g) / above
    else:
        first = np.exp(above * g)
    return first, np.exp(order * g)


def _gain(first: Floats, order: float) -> Floats:
    """What the mean of the first variable adds."""
    above = order - 1.0
    if order == 1.0:
        return first
    if order < _NEAR:
        return np.asarray(order / above * np.log1p(np.maximum(-1.0, above * first)))
    return np.asarray(order / above * np.log(np.maximum(0.0, first)))


def _divergence(first: Floats, second: Floats, order: float) -> Floats:
    """What limits of both means say, rounded to the safe side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gain, loss = _gain(first, order), np.log(second)
        limit = gain - loss - _SAFE * (1.0 + np.abs(gain) + np.abs(loss))
    return np.asarray(np.maximum(0.0, np.where(np.isnan(limit), 0.0, limit)))


def _promise(g: Floats, p: Floats, q: Floats, sizes: Floats, order: float, level: float) -> Floats:
    """About what bets of these sizes certify, by the margins of Bernstein's inequality; may be below 0."""
    first, second = _payoffs(g, order)
    lower = _mean(first, p) - _margin(first, p, sizes[..., 0], 0.5 * level)
    upper = _mean(second, q) + _margin(second, q, sizes[..., 1], 0.5 * level)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(_gain(lower, order) - np.log(upper))


def _mean(values: Floats, shares: Floats) -> Floats:
    return np.asarray((values * shares).sum(axis=-1))


def _spread(values: Floats, shares: Floats) -> Floats:
    """The standard deviation."""
    centred = values - _mean(values, shares)[..., None]
    return np.sqrt(_mean(centred * centred, shares))


def _margin(values: Floats, shares: Floats, size: Floats, level: float) -> Floats:
    strength = -np.log(level) / size
    reach = values.max(axis=-1) - values.min(axis=-1)
    return np.asarray(np.sqrt(2.0 * strength) * _spread(values, shares) + strength * reach / 3.0)


def place_bets(scores: Scores, tests: Ints, level: Floats) -> Stakes:
    """The stakes that certify most if training is right, at these failure probabilities (…) of both limits together."""
    half = 0.5 * level
    first, second = _payoffs(scores.g, scores.order)
    on_p = _stake(-first, scores.p, tests[..., 0], half)
    on_q = _stake(second, scores.q, tests[..., 1], half)
    return Stakes(on_p, on_q, half)


def _stake(values: Floats, shares: Floats, size: Ints, level: Floats) -> Floats:
    """λ of the bet that bounds a mean from above."""
    expected = shares * size[..., None]
    reach = np.maximum(values.max(axis=-1) - values.min(axis=-1), 1e-100)
    plain = np.sqrt(-2.0 * np.log(level) / size) / np.maximum(_spread(values, shares), 1e-9 * reach)
    tried = np.concatenate([_STAKES * plain[..., None], _SHARES / reach[..., None]], axis=-1)
    limits = np.stack(
        [upper_mean(values, expected, stake, level, _FEW) for stake in np.moveaxis(tried, -1, 0)], axis=-1
    )
    return np.asarray(np.take_along_axis(tried, limits.argmin(axis=-1)[..., None], -1)[..., 0])


def upper_mean(
    values: Floats, counts: Floats | Ints, stake: Floats, level: Floats, halvings: int = _HALVINGS
) -> Floats:
    """An upper limit on the mean of a variable with values (…, classes), from how often each came up, at most the largest value.

    Finite-sample: below the mean with probability at most `level`, if values and stake do not depend on the counts. The limit is
    the least m at which Π (1 + λ(m − x)) is 1/level; no factor is below 0 where m >= max x − 1/λ, and no mean of one above 1
    where m is at most the mean. halvings: of the range in which it lies, whose larger end is taken.
    """
    top = values.max(axis=-1)
    with np.errstate(divide="ignore"):
        low, high = np.maximum(values.min(axis=-1), top - 1.0 / stake), top.copy()
    needed = _ROUNDING - np.log(level)
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log1p(np.maximum(-1.0, stake[..., None] * (middle[..., None] - values)))
            wealth = np.where(counts > 0, counts * logs, 0.0).sum(axis=-1)
        enough = wealth >= needed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def variational_lower(scores: Scores, stakes: Stakes, counts: Ints) -> Floats:
    """Certified lower bounds, (n,), of counts (n, classes, 2); NaN: unknown. **Finite-sample**, each at its level."""
    known = (counts >= 0).all(axis=(-2, -1)) & ~np.isnan(scores.promise)
    whole = np.where(known[..., None, None], counts, 0)
    first, second = _payoffs(scores.g, scores.order)
    lower = -upper_mean(-first, whole[..., 0], stakes.on_p, stakes.level)
    upper = upper_mean(second, whole[..., 1], stakes.on_q, stakes.level)
    return np.where(known, _divergence(lower, upper, scores.order), np.nan)
