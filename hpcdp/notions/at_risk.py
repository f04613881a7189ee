"""Privacy at risk (Dandekar, Basu and Bressan, PoPETs 2021): P(|L| <= ε), and which ε a sampled sensitivity allows.

`model_*` and `*_as_published` are what the paper says. The model takes noise of its own on each of the two databases, where
there is one noise, so that γ₁ overstates P(|L| <= ε), fourfold at ε₀ = 1, ε = 0.5: nothing may be promised by it.
`exact_*` are exact. `order_statistic`, `certified_cover` and `certified_within` are finite-sample, whatever the laws are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtr

from hpcdp._base.rounding import at_least, at_most
from hpcdp._check import integer, non_negative, open_unit, refusal
from hpcdp.analytic._curve import checked
from hpcdp.notions.bounds import binomial_lower

Floats = NDArray[np.float64]

RHO = 0.01
"""The accuracy ρ of Section 6 of the paper."""

MOST_K = 10_000
"""Numbers that a query returns, of which the model is computed."""

_MOST_PAIRS = 2**53
_NONE_BEYOND = 0.1  # of the failure probability, for S₍ⱼ₎ that no pair is beyond
_GRID = 2000  # levels among which the best is bracketed
_NEWTON = 100  # steps at most; about six are taken
_SETTLED = 1e-9  # of a step, as a part of the value
_FAR = 700.0  # where e^(−x) is nearly no float, and terms of the sum are had by their logarithms


class Optimum(NamedTuple):
    """The ε that makes the compensation budget least, P(|L| <= ε), the budget there, and at ε₀ without it; floats or arrays."""

    epsilon: Any
    confidence: Any
    budget: Any
    budget_at_epsilon0: Any


def model_confidence(epsilon: ArrayLike, epsilon0: ArrayLike, k: int = 1) -> Any:
    """γ₁ = P(T <= ε)/P(T <= ε₀) of Theorem 4, as published; above the truth for k = 1 (see `exact_confidence`).

    T = |X₁ − X₂| with X₁, X₂ independent Gamma(k, 1), summed in closed form: right to about 1e-14 relatively.

    Args:
        epsilon: levels >= 0, of any shape. epsilon0: the mechanism's level, > 0, of a shape that broadcasts with it.
        k: numbers that the query returns, from 1 to 10,000.

    Returns:
        From 0 to 1, 1 from ε₀ on; a float of two numbers, else an array.

    Raises:
        ValueError: an argument is out of its range.
    """
    level, level0 = np.broadcast_arrays(_level("epsilon", epsilon), _positive("epsilon0", epsilon0))
    law = _weights(_k(k))
    return _like(np.where(level >= level0, 1.0, _cdf(level, law) / _cdf(level0, law)))


def model_epsilon(confidence: ArrayLike, epsilon0: ArrayLike, k: int = 1) -> Any:
    """The ε at which γ₁ of Theorem 4 is `confidence`, as published (equation 4 for k = 1).

    Args:
        confidence: from 0 to 1, of any shape. epsilon0: > 0, broadcasts with it. k: from 1 to 10,000.

    Returns:
        From 0 to ε₀; a float of two numbers, else an array.

    Raises:
        ValueError: an argument is out of its range.
    """
    share, level0 = np.broadcast_arrays(_share("confidence", confidence), _positive("epsilon0", epsilon0))
    if _k(k) == 1:
        return _like(-np.log1p(share * np.expm1(-level0)))
    law = _weights(_k(k))
    return _like(np.minimum(_quantile(share * _cdf(level0, law), law), level0))


def model_epsilon0(epsilon: ArrayLike, confidence: ArrayLike, k: int = 1) -> Any:
    """The ε₀ at which γ₁ of Theorem 4 is `confidence` at ε, as published (Section 6.2, case 1).

    Args:
        epsilon: > 0, of any shape. confidence: above 0, at most 1, broadcasts with it. k: from 1 to 10,000.

    Returns:
        At least ε; a float of two numbers, else an array.

    Raises:
        ValueError: an argument is out of its range, or there is no such ε₀: γ₁ falls with ε₀, but not below P(T <= ε).
    """
    level, share = np.broadcast_arrays(_positive("epsilon", epsilon), _share("confidence", confidence))
    law = _weights(_k(k))
    least = _cdf(level, law)
    none = np.flatnonzero(least >= share)
    if none.size:
        at, has = level.flat[none[0]], least.flat[none[0]]
        raise ValueError(
            f"confidence: {share.flat[none[0]]:g} was given; at ε = {at:g} every ε0 has confidence "
            f"{at_least(float(has), '.4f')} or more"
        )
    return _like(np.maximum(_quantile(least / share, law), level))


def exact_confidence(epsilon: ArrayLike, epsilon0: ArrayLike) -> Any:
    """P(|L| <= ε) of the Laplace mechanism, exact: one number that moves by the whole sensitivity.

    ½(e^(−(ε₀ − ε)/2) − e^(−(ε₀ + ε)/2)) below ε₀, 1 from there on.

    Args:
        epsilon: levels >= 0, of any shape. epsilon0: shift/scale, >= 0, broadcasts with it.

    Returns:
        From 0 to 1; a float of two numbers, else an array.

    Raises:
        ValueError: an argument is out of its range.
    """
    level, level0 = np.broadcast_arrays(_level("epsilon", epsilon), _level("epsilon0", epsilon0))
    below = np.minimum(level, level0)
    return _like(np.where(level >= level0, 1.0, -0.5 * np.exp(0.5 * (below - level0)) * np.expm1(-below)))


def exact_confidence_gaussian(epsilon: ArrayLike, mu: ArrayLike) -> Any:
    """P(|L| <= ε) of Gaussian noise, exact: Φ((ε − μ²/2)/μ) − Φ((−ε − μ²/2)/μ).

    Args:
        epsilon: levels >= 0, of any shape. mu: shift/σ, > 0, broadcasts with it.

    Returns:
        From 0 to 1; a float of two numbers, else an array.

    Raises:
        ValueError: an argument is out of its range.
    """
    level, shift = np.broadcast_arrays(_level("epsilon", epsilon), _positive("mu", mu))
    return _like(ndtr(level / shift - 0.5 * shift) - ndtr(-level / shift - 0.5 * shift))


def overlap(epsilon: ArrayLike, other: ArrayLike) -> Any:
    """∫ min of the densities of Laplace noise at two levels (Lemma 5), exact; the paper reads a share of privacy into it.

    Args:
        epsilon, other: > 0, of shapes that broadcast.

    Returns:
        From 0 to 1; a float of two numbers, else an array.

    Raises:
        ValueError: an argument is out of its range.
    """
    a, b = np.broadcast_arrays(_positive("epsilon", epsilon), _positive("other", other))
    ratio = np.minimum(a, b) / np.maximum(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        narrow = np.where(ratio < 1.0, np.log(ratio) / (1.0 - ratio), -1.0)  # −(rate·crossing) of the narrower law
    return _like(np.exp(narrow) - np.expm1(narrow * ratio))


def composed_as_published(
    epsilon: ArrayLike, epsilon0: ArrayLike, confidence: ArrayLike, n: ArrayLike, delta: ArrayLike
) -> Any:
    """ε′ of n mechanisms by Theorem 3: ε₀·√(2n·ln(1/δ)) + n·½(γε² + (1 − γ)ε₀²). Refuted: it is no guarantee.

    Of 300 Laplace mechanisms of ε₀ = 1 with δ = 1e-5 it says 166.02, where δ is 1.53e-5 (`TradeOffCurve.power`).

    Args:
        epsilon: >= 0. epsilon0: > 0. confidence: γ, from 0 to 1. n: whole numbers >= 1. delta: above 0, below 1. All broadcast.

    Returns:
        A float of five numbers, else an array.

    Raises:
        ValueError: an argument is out of its range.
    """
    count = np.asarray(n)
    if count.dtype.kind not in "iu" or (count < 1).any():
        raise refusal("n", np.asarray(n).tolist(), "whole numbers >= 1")
    level, level0, share = _level("epsilon", epsilon), _positive("epsilon0", epsilon0), _share("confidence", confidence)
    root = np.sqrt(2.0 * count * -np.log(open_unit("delta", delta)))
    return _like(level0 * root + 0.5 * count * (share * level**2 + (1.0 - share) * level0**2))


def optimum(epsilon0: ArrayLike, cost: float, people: float, law: Literal["model", "exact"] = "model") -> Optimum:
    """The ε that makes the budget of Section 5 least: people·cost·(γ(ε)·e^(−1/ε) + (1 − γ(ε))·e^(−1/ε₀)).

    Args:
        epsilon0: the mechanism's level, from 1e-300 to 1e7, of any shape. cost: E, what a person is paid without privacy, >= 0.
        people: >= 0. law: of γ: "model", Theorem 4 with k = 1, as published (equation 10), or "exact", P(|L| <= ε) itself.

    Returns:
        ε, γ(ε), the budget, and the budget at ε₀, each of the shape of `epsilon0`.

    Raises:
        ValueError: an argument is out of its range.
    """
    if law not in ("model", "exact"):
        raise refusal("law", law, '"model", "exact"')
    accepted = "a number from 1e-300 to 1e7: beyond, rounding makes ε equal to ε₀ or to 0"
    level0 = checked("epsilon0", _positive("epsilon0", epsilon0), 1e-300, 1e7, accepted)
    amount = non_negative("cost", cost) * non_negative("people", people)
    best = np.array([(_best_of_model if law == "model" else _best_of_exact)(float(e)) for e in level0.flat])
    best = best.reshape(level0.shape)
    confidence = np.asarray((model_confidence if law == "model" else exact_confidence)(best, level0))
    before, after = np.exp(-1.0 / level0), np.exp(-1.0 / best)
    budget = amount * (confidence * after + (1.0 - confidence) * before)
    return Optimum(_like(best), _like(confidence), _like(budget), _like(amount * before))


def order_statistic(pairs: int, cover: float, confidence: float) -> int:
    """The smallest j for which the j-th smallest of n sampled sensitivities covers a new one's law as wanted. Finite-sample.

    P(F(S₍ⱼ₎) >= cover) >= confidence: F(S₍ⱼ₎) is Beta(j, n + 1 − j) where F, the law of S, is continuous, and larger where it
    is not. The draws are independent.

    Args:
        pairs: n, >= 1. cover, confidence: above 0 and below 1.

    Returns:
        j, from 1 to n.

    Raises:
        ValueError: an argument is out of its range, or n pairs are too few; it says how many are needed.
    """
    n = integer("pairs", pairs, 1)
    if n > _MOST_PAIRS:
        raise refusal("pairs", pairs, f"an integer from 1 to {_MOST_PAIRS:,}")
    share, level = float(open_unit("cover", cover)), 1.0 - float(open_unit("confidence", confidence))
    most = float(binomial_lower(n, n, level))
    if most < share:
        needed = needed_pairs(share, level)
        words = f"more than {_MOST_PAIRS:,}" if needed is None else f"{needed:,}"
        raise ValueError(
            f"{n:,} pair{'s cover' if n > 1 else ' covers'} at most {at_most(most, '.4f')}; {words} are needed"
        )
    return 1 + bisect_left(range(1, n), True, key=lambda rank: bool(binomial_lower(rank, n, level) >= share))


def needed_pairs(cover: float, level: float) -> int | None:
    """The fewest pairs whose largest sensitivity has this cover at failure probability `level`; None: more than 2^53."""
    sizes = range(1, _MOST_PAIRS + 1)
    needed = 1 + bisect_left(sizes, True, key=lambda pairs: bool(binomial_lower(pairs, pairs, level) >= cover))
    return needed if needed <= _MOST_PAIRS else None


def certified_cover(pairs: int, rank: int, confidence: float) -> float:
    """What S₍ⱼ₎ covers of the law of S with this confidence: the lower limit of Beta(j, n + 1 − j). Finite-sample.

    Args:
        pairs: n, >= 1. rank: j, from 1 to n. confidence: above 0 and below 1.

    Raises:
        ValueError: an argument is out of its range.
    """
    n, j = integer("pairs", pairs, 1), integer("rank", rank, 1)
    return float(binomial_lower(j, n, 1.0 - float(open_unit("confidence", confidence))))


def certified_within(hits: int, pairs: int, rank: int, covered: int, confidence: float) -> float:
    """A lower limit on P(|L| <= ε) where ε = S₍ⱼ₎/scale was taken from the same pairs. Finite-sample, whatever the laws.

    The pairs with S <= S₍ⱼ₎ have |L| <= ε always. Given S₍ⱼ₎ the others are independent draws of their law, so that their hits
    are binomial. P(S <= S₍ⱼ₎), by the rank, and the rate of hits beyond it have a limit each. Ties are told by S₍ⱼ₎, as `covered`
    is: how many there are is no independent count, but where none is beyond, S₍ⱼ₎ is the largest and has that one's rank.

    Args:
        hits: pairs with |L| <= ε, of `pairs`. rank: j. covered: those with S <= S₍ⱼ₎, at least j, of which each is a hit.
        confidence: above 0 and below 1.

    Raises:
        ValueError: an argument is out of its range.
    """
    failure = 1.0 - float(open_unit("confidence", confidence))
    n, j = integer("pairs", pairs, 1), integer("rank", rank, 1)
    if integer("covered", covered, j) == n:
        return float(binomial_lower(n, n, _NONE_BEYOND * failure))
    half = 0.5 * (1.0 - _NONE_BEYOND) * failure
    cover, rate = float(binomial_lower(j, n, half)), float(binomial_lower(hits - covered, n - covered, half))
    return min(1.0, cover + (1.0 - cover) * rate)


def cover_as_published(cover: ArrayLike, pairs: ArrayLike, rho: ArrayLike = RHO) -> Any:
    """γ̂₂ of Theorem 5: γ₂·(1 − 2e^(−2ρ²n)), at least 0. Refuted: it exceeds what n pairs can know (n = 10, γ₂ = .9, ρ = 1).

    Args:
        cover: γ₂, from 0 to 1. pairs: n, >= 1. rho: ρ, > 0. All broadcast.

    Returns:
        A float of three numbers, else an array.

    Raises:
        ValueError: an argument is out of its range.
    """
    share, count = _share("cover", cover), _positive("pairs", pairs)
    return _like(share * np.maximum(0.0, 1.0 - 2.0 * np.exp(-2.0 * _positive("rho", rho) ** 2 * count)))


def both_as_published(
    epsilon: ArrayLike, epsilon0: ArrayLike, cover: ArrayLike, pairs: ArrayLike, rho: ArrayLike = RHO, k: int = 1
) -> Any:
    """γ̂₃ of Theorem 6: P(T <= ε)/P(T <= ηε₀)·γ̂₂, with `epsilon0` for ηε₀, which is Δ/scale. Refuted: it keeps Theorem 4's model.

    Raises:
        ValueError: an argument is out of its range (see `model_confidence`, `cover_as_published`).
    """
    return _like(np.asarray(model_confidence(epsilon, epsilon0, k)) * cover_as_published(cover, pairs, rho))


def samples_as_published(confidence: ArrayLike, rho: ArrayLike) -> Any:
    """n of Figure 2: ln(2/(1 − α))/(2ρ²), the pairs for which 1 − 2e^(−2ρ²n) (equation 13) is `confidence`; no whole number.

    Args:
        confidence: α, from 0 to below 1. rho: ρ, > 0, broadcasts with it.

    Raises:
        ValueError: an argument is out of its range.
    """
    share = _share("confidence", confidence)
    if (share >= 1.0).any():
        raise refusal("confidence", float(share.max()), "a number from 0 to below 1")
    return _like(np.log(2.0 / (1.0 - share)) / (2.0 * _positive("rho", rho) ** 2))


def _best_of_model(level0: float) -> float:
    """The root of equation 10, in u = 1/ε: u − ln(1 + u²(e^(1/u) − 1)) rises with u and is 1/ε₀ there."""
    wanted = 1.0 / level0

    def excess(u: float) -> float:
        return float(u - math.log1p(u * (u * math.expm1(1.0 / u))) - wanted)

    return 1.0 / _root(excess, max(wanted, 0.5), 2.0 * wanted + 10.0, xtol=1e-14 * wanted)


def _best_of_exact(level0: float) -> float:
    """Where γ(ε)·(e^(−1/ε₀) − e^(−1/ε)) is largest: the best of a grid, then the root of the derivative beside it.

    In u = 1/ε − 1/ε₀, of which ε₀ has 0: the root may be nearer to ε₀ than numbers that are told from it.
    """
    grid = level0 * np.arange(1, _GRID + 1) / _GRID

    def at(u: float) -> float:
        return 1.0 / (1.0 / level0 + u)

    def excess(u: float) -> float:  # of the sign of the derivative of ln sinh(ε/2) + ln(1 − e^(−u)) with respect to u
        e = at(u)
        return math.log1p(2.0 * math.tanh(0.5 * e) / e / e) - u

    beyond = 1.0 / grid - 1.0 / level0
    beyond[-1] = 0.0
    with np.errstate(divide="ignore"):
        gain = 0.5 * grid + np.log(-np.expm1(-grid)) + np.log(-np.expm1(-beyond))
    best = int(gain.argmax())
    near, far = beyond[best + 1], beyond[best - 1] if best else 2.0 * beyond[0]
    return at(_root(excess, near, far, xtol=1e-14 * min(far, 1.0 / level0 / level0)))


def _root(function: Callable[[float], float], start: float, stop: float, xtol: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(function, start, stop, xtol=xtol, rtol=1e-14))


def _k(value: Any) -> int:
    if integer("k", value, 1) > MOST_K:
        raise refusal("k", value, f"an integer from 1 to {MOST_K:,}")
    return int(value)


_level = partial(checked, accepted="a number >= 0", least=0.0, most=math.inf)
_positive = partial(checked, accepted="a finite number > 0", least=5e-324, most=1.7976931348623157e308)
_share = partial(checked, accepted="a number from 0 to 1", least=0.0, most=1.0)


def _like(values: Any) -> Any:
    """A float of what has no dimensions, else the array."""
    array = np.asarray(values, np.float64)
    return float(array) if array.ndim == 0 else array


def _weights(k: int) -> Floats:
    """c_0 = 1, c_1, …: P(T > x) = Σ c_i e^(−x) xⁱ/i!, the sum over j < k − i of C(k − 1 + j, j)·2^(1 − k − j)."""
    j = np.arange(k, dtype=np.float64)
    each = np.exp(gammaln(k + j) - gammaln(j + 1.0) - gammaln(float(k)) + (1.0 - k - j) * math.log(2.0))
    sums = np.cumsum(each)[::-1]
    return sums / sums[0]


def _tail(x: Floats, law: Floats) -> tuple[Floats, Floats, Floats]:
    """e^(−x), the rest of P(T > x), and the density of T: c_i − c_(i+1) >= 0 times the Poisson terms."""
    first = term = np.exp(-x)
    rest, density = np.zeros_like(x), np.zeros_like(x)
    drops = law - np.append(law[1:], 0.0)
    for i, (weight, drop) in enumerate(zip(law.tolist(), drops.tolist(), strict=True)):
        rest += weight * term if i else 0.0
        density += drop * term
        term = term * x / (i + 1.0)
    far = x > _FAR
    if far.any() and law.size > 1:
        powers, away = np.arange(law.size), x[far][:, None]
        terms = np.exp(powers * np.log(away) - gammaln(powers + 1.0) - away)
        rest[far], density[far] = terms[:, 1:] @ law[1:], terms @ drops
    return first, rest, density


def _cdf(x: Floats, law: Floats) -> Floats:
    """P(T <= x), right relatively also where it is small."""
    finite = np.where(np.isinf(x), 0.0, x)
    return np.where(np.isinf(x), 1.0, -np.expm1(-finite) - _tail(finite, law)[1])


def _quantile(share: Floats, law: Floats) -> Floats:
    """Where P(T <= x) is `share`: Newton on −ln P(T > x), which is convex (T's law is log-concave), so from the right."""
    wanted = -np.log1p(-np.where(share < 1.0, share, 0.0))
    x = wanted / (law[0] - (law[1] if law.size > 1 else 0.0))
    for _ in range(_NEWTON):
        first, rest, density = _tail(x, law)
        above = first + rest
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(x < 1.0, -np.log1p(np.expm1(-x) + rest), -np.log(above))
            step = np.where(above > 0.0, (value - wanted) * above / density, 0.5 * x)
        x = np.maximum(x - step, 0.0)
        if (np.abs(step) <= _SETTLED * x).all():  # the next one would be its square
            break
    return np.where(share < 1.0, x, np.inf)
