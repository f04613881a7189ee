"""Compiled kernels for binomial probabilities and tails, and the confidence limits that they give.

Every tail that leaves this module is an upper bound. One fact makes the bounds cheap: a binomial pmf is a log-concave
sequence. A tangent to its logarithm at the middle of a block of ``w`` values bounds the sum over the block by
``w * pmf(mid) * exp(slope^2 (w^2 - 1) / 24)``; the loss is of second order in the width of the block, and a block of
one value is exact.

Rounding is covered by ``_ROUNDING`` (relative, on probabilities). Counts are float64: whole numbers below 2^53 are exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel

Floats = NDArray[np.float64]

_jit: Any = kernel(error_model="numpy")

# Relative error allowed for rounding in one probability; log_pmf is off by at most 1.3e-10 up to n = 1e11.
_ROUNDING = 1e-7
# Block width in the tail sums of single limits, as a share of the standard deviation.
_FINE_SHARE = 1.0 / 16.0

_STIRLING_TABLE = np.array(
    [
        0.0,
        *(math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2.0 * math.pi) for k in range(1, 16)),
    ]
)


@_jit
def _stirling(k: float) -> float:
    """Error of Stirling's formula for log k! (Loader 2000)."""
    if k < 16.0:
        return _STIRLING_TABLE[int(k)]
    s = 1.0 / (k * k)
    return (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s / 1680.0))) / k


@_jit
def _log_ratio(gap: float, whole: float, part: float) -> float:
    """log(part / whole) where part = whole + gap and gap is the more exact of the two."""
    u = gap / whole
    return math.log1p(u) if abs(u) < 0.5 else math.log(part / whole)


@_jit
def log_pmf(k: float, n: float, p: float, q: float) -> float:
    """log P(X = k), X ~ Bin(n, p), q = 1 − p, by Loader (2000), from the smaller of both: rounding in the larger costs n ulps."""
    if k <= 0.0:
        return n * (math.log1p(-p) if p < 0.5 else math.log(q))
    if k >= n:
        return n * (math.log(p) if p < 0.5 else math.log1p(-q))
    rest = n - k
    gap = k - n * p if p < q else n * q - rest
    divergence = k * _log_ratio(gap, n * p, k) + rest * _log_ratio(-gap, n * q, rest)
    scale = 0.5 * math.log(n / (2.0 * math.pi * k * rest))
    return _stirling(n) - _stirling(k) - _stirling(rest) + scale - divergence


@_jit
def _middle(low: float, high: float, n: float) -> tuple[float, float, float]:
    """Whole number at or below the middle of a block, the middle, and the slope there of the pmf's interpolation."""
    mid = 0.5 * (low + high)
    base = np.floor(mid)
    if base < mid:
        return base, mid, math.log((n - base) / (base + 1.0))
    # Any slope between those of the two sides is a tangent; at an end only one side exists.
    up = (n - mid) / (mid + 1.0) if mid < n else (n - mid + 1.0) / mid
    down = (n - mid + 1.0) / mid if mid > 0.0 else up
    return base, mid, 0.5 * math.log(up * down)


@_jit
def _reach(z: float, n: float, p: float, q: float) -> float:
    """Distance from the mean beyond which a binomial tail is about exp(-z^2/2) (Bernstein's form)."""
    return z * math.sqrt(n * p * q) + 0.5 * z * z + 1.0


@_jit
def lower_tail(k: float, n: float, p: float, q: float, share: float) -> float:
    """Upper bound on P(X <= k) by blocks of `share` deviations: exact where a block is one value, else off by share²/24."""
    if k < 0.0:
        return 0.0
    if k >= n or k > n * p + _reach(6.0, n, p, q):
        return 1.0
    length = max(1.0, np.floor(share * math.sqrt(n * p * q)))
    odds = math.log(p) - math.log(q)
    total, top, edge = 0.0, k, 1.0
    while top >= 0.0:
        # edge bounds the pmf at top; the pmf falls at least geometrically from there.
        ratio = top * q / ((n - top + 1.0) * p)
        if ratio < 1.0 and edge <= 0.1 * share**3 * total * (1.0 - ratio):
            total += edge / (1.0 - ratio)
            break
        low = max(0.0, top - length + 1.0)
        size = top - low + 1.0
        base, mid, slope = _middle(low, top, n)
        slope += odds
        at_mid = log_pmf(base, n, p, q) + slope * (mid - base)
        total += size * math.exp(at_mid + slope * slope * (size * size - 1.0) / 24.0)
        if total > 1.0:
            return 1.0
        top = low - 1.0
        edge = math.exp(at_mid - max(0.0, slope) * (mid - top))
    return min(1.0, total * (1.0 + _ROUNDING))


@_jit
def upper_limit(k: float, n: float, level: float) -> tuple[float, float]:
    """Clopper–Pearson upper limit p on k of n and 1 − p, rounded the safe way: Newton in the log odds on sqrt(−2 log P)."""
    if k >= n:
        return 1.0, 0.0
    target = math.log(level)
    if k <= 0.0:
        return min(1.0, -math.expm1(target / n) * (1.0 + 1e-15)), math.exp(target / n) * (1.0 - 2e-16)
    low, high = -800.0, 800.0
    aim = math.sqrt(-2.0 * (target - 2e-7))
    guess = (k + 0.5 * aim * aim + aim * math.sqrt(k * (1.0 - k / n) + 0.25 * aim * aim)) / (n + aim * aim)
    odds = math.log(guess) - math.log1p(-guess)
    for _ in range(200):
        p, q = 1.0 / (1.0 + math.exp(-odds)), 1.0 / (1.0 + math.exp(odds))
        tail = lower_tail(k, n, p, q, _FINE_SHARE)
        if tail <= level:
            high = odds
            if tail >= level * (1.0 - 4e-7):
                break
        else:
            low = odds
        step = math.nan
        if 1e-300 < tail < 1.0:
            root = math.sqrt(-2.0 * math.log(tail))
            step = (aim - root) * root * tail / ((n - k) * p * math.exp(log_pmf(k, n, p, q)))
        odds = odds + step if low < odds + step < high else 0.5 * (low + high)
        if not low < odds < high:
            break
    p, q = 1.0 / (1.0 + math.exp(-high)), 1.0 / (1.0 + math.exp(high))
    # The smaller of the two is exact enough as it is; the other one is rounded away from the data.
    if p < q:
        return p, np.nextafter(q, 0.0)
    return min(1.0, np.nextafter(p, 2.0)), q


@_jit
def upper_limits(k: Floats, n: Floats, level: Floats) -> Floats:
    """upper_limit of every element of equally long arrays: shape (size, 2), p and 1 - p."""
    limits = np.empty((k.size, 2))
    for i in range(k.size):
        limits[i, 0], limits[i, 1] = upper_limit(k[i], n[i], level[i])
    return limits
