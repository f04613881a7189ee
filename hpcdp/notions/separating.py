"""Test samples after which the joint bound would pass a claimed δ, without the kernels that compute the bound. **Asymptotic.**

The test is the one of `hpcdp.notions.bounds.joint_lower`, with its probabilities from saddlepoint approximations (Lugannani and
Rice 1980) and its range of b from Paulson's approximation of beta quantiles (1942). Kernels take as long to load as all else
that `verify` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtr, ndtri

from hpcdp.notions.bounds import BERGER_BOOS_SHARE

_MOST = 2**50  # beyond this many nobody can draw; counts stay exact in float64
_WIDER = 1.02  # against the bound itself sizes come out by up to 2 % too small where many outputs are in the set
_NEAR_MEAN = 1e-4  # there the correction of the normal tail is a difference of large numbers, and no level is as large


def needed_to_pass(a: float, b: float, inflation: float, level: float, claimed: float, now: int) -> int | None:
    """The fewest test samples per database, now or more, at which the bound would pass a claim; None beyond 2⁵⁰.

    Counts are those of the rates a and b. Of 1,500 random cells it was 0 to 3 % more than the bound itself takes where at least
    100 outputs of the inflated side are expected in the set, 5 % less to 8 % more from 10 on, and else 10 % less to 21 % more.

    Args:
        a, b: shares of the side that is not inflated, and of the inflated one, from 0 to 1.
        inflation: c = e^ε, at least 1.
        level: failure probability of the bound, above 0 and below 1.
        claimed: δ that the claim allows, from 0 to 1.
        now: test samples per database that there are.
    """
    found = fewest(lambda n: _passes(a, b, inflation, level, claimed, n), now)
    return None if found is None else math.ceil(_WIDER * found)


def fewest(passes: Callable[[int], bool], now: int) -> int | None:
    """The fewest samples, now or more, that pass, within 0.1 %; None beyond 2⁵⁰. passes: false up to some number, then true."""
    few = many = now
    while not passes(many):
        few, many = many, 2 * many
        if many > _MOST:
            return None
    while many > few * 1.001 and many > few + 1:
        middle = round(math.sqrt(few * many))
        few, many = (few, middle) if passes(middle) else (middle, many)
    return many


def _passes(a: float, b: float, c: float, level: float, claimed: float, n: int) -> bool:
    """Whether the largest of the p-values at three places of the range of b is at most what the test may spend."""
    ends = 0.5 * BERGER_BOOS_SHARE * level
    low, high = 1.0 - _upper(n * (1.0 - b), n, ends), _upper(n * b, n, ends)
    low, high = max(low, -claimed / c), min(high, (1.0 - claimed) / c)
    if high <= low or a - c * b <= claimed:
        return False
    target = (1.0 - BERGER_BOOS_SHARE) * level
    places = (low + share * (high - low) for share in (0.01, 0.5, 0.99))
    return all(_tail(n, claimed + c * place, place, c, a - c * b) <= target for place in places)


def _upper(x: float, n: int, level: float) -> float:
    """About the upper Clopper–Pearson limit of x of n."""
    if x > n - 0.5:
        return 1.0
    z = -float(ndtri(level))
    first, second = 1.0 / (9.0 * (x + 1.0)), 1.0 / (9.0 * (n - x))
    p, q = 1.0 - first, 1.0 - second
    below = q * q - second * z * z
    if below <= 0.0:
        return 1.0
    ratio = (p * q + z * math.sqrt(q * q * first + p * p * second - first * second * z * z)) / below
    odds = (x + 1.0) / (n - x) * ratio**3
    return odds / (1.0 + odds)


def _tail(n: int, a: float, b: float, c: float, t: float) -> float:
    """About P(X0 − c·X1 >= n·t) of X0 ~ Bin(n, a) and X1 ~ Bin(n, b), where t is at least the mean a − c·b."""
    a, b = min(max(a, 1e-300), 1.0 - 1e-16), min(max(b, 1e-300), 1.0 - 1e-16)
    low, high, s = 0.0, 700.0, 0.0
    for _ in range(200):
        mean, variance, _ = _cumulant(a, b, c, s)
        low, high = (s, high) if mean < t else (low, s)
        step = s + (t - mean) / variance if variance > 0.0 else math.inf
        step = step if low < step < high else 0.5 * (low + high)
        if abs(step - s) <= 1e-12 * step:
            break
        s = step
    _, variance, exponent = _cumulant(a, b, c, s)
    root, scaled = math.sqrt(max(0.0, 2.0 * n * (s * t - exponent))), s * math.sqrt(n * variance)
    if root < _NEAR_MEAN or scaled <= 0.0:
        return 0.5
    return float(ndtr(-(root + math.log(scaled / root) / root)))


def _cumulant(a: float, b: float, c: float, s: float) -> tuple[float, float, float]:
    """Of log E exp(s·(Y0 − c·Y1)) of one draw of both: its slope, its second derivative, and its value."""
    inside, outside = a * math.exp(s), b * math.exp(-min(c * s, 700.0))
    p, q = inside / (1.0 - a + inside), outside / (1.0 - b + outside)
    value = math.log1p(a * math.expm1(s)) + math.log1p(b * math.expm1(-min(c * s, 700.0)))
    return p - c * q, p * (1.0 - p) + c * c * q * (1.0 - q), value
