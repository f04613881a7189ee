"""One test of a pair against a claimed trade-off curve: upper limits of its two errors, and what they leave of the claim,
of ε at a given δ, and of μ of Gaussian differential privacy.

Arrays of errors have a last axis of two: the first error, whose size the curve T0 is a function of, and the second.

A claim as lines: Q(R) <= δ + η P(R) for every set R, at some slopes η > 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from hpcdp._check import refusal
from hpcdp.analytic._curve import DIRECTIONS, Direction
from hpcdp.notions.bounds import binomial_upper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TradeOffFunction = Callable[[Floats], Floats]
Limits = Literal["exact", "hoeffding"]
Orientation = Literal["both", "forward", "reverse"]

_LARGEST_LEVEL = 20.0
_SAME = 1e-4  # levels closer than this share of the largest are one
# Levels: so many evenly from 0 to where δ has fallen by the first of these factors, and one where it has by each.
_EVEN = 16
_FALLS = (1e-2, 1e-3, 1e-4, 1e-6, 1e-9)
_PARTS, _SPLITS = 16, 10  # 20 · 16^−10 is 2e-11
_ROUNDING = 1e-12  # added to δ, which must not be below the true one


def error_limits(errors: Ints, test: Ints, level: Floats, limits: Limits = "exact") -> Floats:
    """Upper limits (…, 2) of both errors at `level` together; "exact" (Clopper–Pearson) or "hoeffding". Finite-sample."""
    half = 0.5 * np.broadcast_to(level, errors.shape[:-1])[..., None]
    if limits == "exact":
        return binomial_upper(errors, test, np.broadcast_to(half, errors.shape))
    return np.asarray(errors / test + np.sqrt(-np.log(half) / (2.0 * test)))


def margins(claimed: TradeOffFunction, errors: Floats) -> Floats:
    """T0 at the first error minus the second, (…) of (…, 2); above 0 the claim is violated (Askin et al. 2025, eq. 20)."""
    first, second = errors[..., 0], errors[..., 1]
    return np.asarray(claimed(np.minimum(first, 1.0)) - second - np.where(first > 1.0, 1.0, 0.0))


def promises(claimed: TradeOffFunction, errors: Floats, size: Ints, level: float, limits: Limits = "exact") -> Floats:
    """How far below the claim tests with errors (…, 2) lie, in units of what boxes of `size` outputs take away."""
    over = error_limits(np.rint(errors * size).astype(np.int64), size, np.full(errors.shape[:-1], level), limits)
    gap = margins(claimed, errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = gap / (gap - margins(claimed, over))
    return np.where(np.isnan(share), 0.0, share)


def epsilon_lower(alpha_upper: ArrayLike, beta_upper: ArrayLike, delta: ArrayLike) -> Floats:
    """Lower bound on the ε at which the unordered pair can have this δ; as sure as the two limits are, finite-sample.

    Errors α and β show δ_QP(ε) >= 1 − β − e^ε α and δ_PQ(ε) >= 1 − α − e^ε β, so ε >= ln((1 − δ − β)/α), ln((1 − δ − α)/β)
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1). Infinite where a limit is 0 and the other errors leave room.
    """
    a, b, d = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (alpha_upper, beta_upper, delta)))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(np.maximum(1.0 - d - second, 0.0) / first) for first, second in ((a, b), (b, a))]
    return np.fmax(0.0, np.fmax(*logs))  # 0/0 says nothing


def mu_lower(alpha_upper: ArrayLike, beta_upper: ArrayLike) -> Floats:
    """Lower bound on the μ of GDP, Φ⁻¹(1 − α) − Φ⁻¹(β) (Dong, Roth and Su 2022, Definition 3). Finite-sample."""
    a, b = np.broadcast_arrays(np.asarray(alpha_upper, np.float64), np.asarray(beta_upper, np.float64))
    with np.errstate(invalid="ignore"):
        mu = -ndtri(a) - ndtri(b)
    return np.maximum(0.0, np.where(np.isnan(mu), 0.0, mu))


class HasDelta(Protocol):
    """A curve that tells δ of both directions: an exact one, or one of points."""

    def delta(self, epsilon: Floats, direction: Direction) -> Floats:
        """δ at each level."""
        ...


@dataclass(frozen=True, eq=False)
class Lines:
    """What a claim says of (P, Q): Q(R) <= delta + eta P(R) for every R; etas (S,) above 0, deltas from max(0, 1 − eta) to 1."""

    etas: Floats
    deltas: Floats


def lines_from_delta(epsilons: ArrayLike, forward: ArrayLike, reverse: ArrayLike) -> Lines:
    """The lines of the largest P(S) − e^ε Q(S), δ of (D, D'), and Q(S) − e^ε P(S) allowed at levels from 0 to 700, (k,) each."""
    levels, first, second = (np.asarray(values, np.float64) for values in (epsilons, forward, reverse))
    below = np.exp(-levels)
    return Lines(np.append(np.exp(levels), below), np.append(second, 1.0 - below * (1.0 - first)))


def lines_of(curve: HasDelta, orientation: Orientation = "both") -> Lines:
    """Lines of a curve at 40 to 84 slopes that its δ(ε) chooses; of (D, D') forward, of (D', D) reverse, or of both."""

    def from_above(levels: Floats, direction: Direction) -> Floats:
        rounding = _ROUNDING * np.maximum(1.0, 1e-3 * (1.0 + np.exp(levels)))
        return np.clip(curve.delta(levels, direction) + rounding, 0.0, 1.0)

    first, second = (partial(from_above, direction=direction) for direction in DIRECTIONS)

    def least(levels: Floats) -> Floats:
        return np.minimum(first(levels), second(levels))

    ways: dict[str, tuple[TradeOffFunction, TradeOffFunction]] = {
        "forward": (first, second),
        "reverse": (second, first),
        "both": (least, least),
    }
    if orientation not in ways:
        raise refusal("orientation", orientation, '"both", "forward" or "reverse"')
    forward, reverse = ways[orientation]
    levels = np.sort(np.append(_levels(forward), _levels(reverse)))
    levels = levels[np.append(np.diff(levels) > _SAME * levels[-1], True)]
    return lines_from_delta(levels, forward(levels), reverse(levels))


def _levels(delta: Callable[[Floats], Floats]) -> Floats:
    """Levels from 0 to where δ is next to nothing, or as little as it gets: evenly at first, then one a fall."""
    ends = delta(np.array([0.0, _LARGEST_LEVEL]))
    wanted = np.maximum(ends[0] * np.array(_FALLS), ends[1])
    low, high = np.zeros(wanted.size), np.full(wanted.size, _LARGEST_LEVEL)
    for _ in range(_SPLITS):  # δ never rises: the first of some points that is not above what is wanted
        inner = np.linspace(low, high, _PARTS + 1)
        above = delta(inner[1:-1]) > wanted
        first = np.where(above.all(axis=0), _PARTS - 1, np.argmin(above, axis=0))
        low, high = (np.take_along_axis(inner, (first + step)[None], 0)[0] for step in (0, 1))
    return np.append(np.linspace(0.0, high[0], _EVEN), high[1:])
