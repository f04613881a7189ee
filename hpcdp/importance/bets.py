"""The rate λ or κ of a bet on weighted draws, and the bound to be expected of it, from training draws.

With G the mean of log(1 + λX) and t = ln(1/level)/draws the expected lower bound is (e^(G − t) − 1)/λ. Its numerator is concave
in λ where the shares sum to at most 1, so that the bound rises up to one λ and falls from there; likewise (1 − e^(H − t))/κ, with
H the mean of log(1 − κX), falls and then rises (docs/mathematics-draws.md, "Bounds from weighted draws"). So the best rate is
found by bisection. Any rate gives a bound that is finite-sample, as long as no test draw decides it; how good it is,
is heuristic.
"""

from __future__ import annotations

from math import expm1, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import integer, open_unit, positive, refusal
from hpcdp.importance._bet_kernels import mean_terms
from hpcdp.importance.bounds import LARGEST_SHARE

__all__ = ["Bet", "choose_lower", "choose_upper", "expected_lower", "expected_upper"]

Floats = NDArray[np.float64]

_OCTAVES = 60  # below 1/cut-off in which rates are sought: with 2^53 draws the best one is above 2^-27
_MOST_UPPER = 0.998  # the largest κ·M that is chosen: with what rounding adds, sums take it
_MOST_LOWER = 2.0**11  # the largest λ·weight: no bet is larger than the kernels' sums hold
_NO_WEIGHT = 1e-290  # below it rates would overflow
_HALVINGS = 13  # of an interval of 71 octaves, to a hundredth of one: the bound is flat there


class Bet(NamedTuple):
    """rate: λ or κ, per unit of weight, above 0. bound: on the mean, as it is to be expected of test draws; heuristic."""

    rate: float
    bound: float


def choose_lower(weights: ArrayLike, shares: ArrayLike, draws: int, level: float, cutoff: float) -> Bet:
    """The λ whose lower bound on E_g[w 1_S 1{w <= M}] from test draws is largest if they are as training draws were.

    Args:
        weights: of the training draws in S with w <= cutoff, (n,), 0 <= w <= cutoff; none is fine.
        shares: of each, (n,), >= 0: E_g[φ(X)] is about Σ shares φ(weights) where φ(0) = 0; 1/(all training draws) for plain
            averages. Their sum is at most 1.
        draws: test draws to come, of all strata and outside S too, 1 to 2^53.
        level: failure probability of the bound, above 0 and below 1.
        cutoff: M, above 0 and finite.

    Returns:
        Bet; 1/cutoff and the bound 0 where all weights are 0, or none is given.

    Raises:
        ValueError: an argument is out of its range.
    """
    given, parts, cost, most = _checked(weights, shares, draws, level, cutoff)
    top = float(given.max(initial=0.0))
    rate = 1.0 / most if top < _NO_WEIGHT else _search(given, parts, cost, 1.0, 1.0 / top, _MOST_LOWER)
    return Bet(rate, _lower(given, parts, cost, rate))


def choose_upper(weights: ArrayLike, shares: ArrayLike, draws: int, level: float, cutoff: float) -> Bet:
    """The κ whose upper bound on E_g[w 1_S 1{w <= M}] from test draws is smallest if they are as training draws were.

    κ·M is at most 0.998, and 1/2 where all weights are 0 or none is given: a draw at the cut-off then costs ln 2, not 7.

    Args, Raises: as `choose_lower`.
    """
    given, parts, cost, most = _checked(weights, shares, draws, level, cutoff)
    seen = given.max(initial=0.0) > 0.0
    rate = _search(given, parts, cost, -1.0, 1.0 / most, _MOST_UPPER) if seen else 0.5 / most
    return Bet(rate, _upper(given, parts, cost, rate, most))


def expected_lower(
    rate: float, weights: ArrayLike, shares: ArrayLike, draws: int, level: float, cutoff: float
) -> float:
    """The lower bound to be expected of test draws with a given λ; heuristic. Other arguments: as in `choose_lower`.

    Raises:
        ValueError: an argument is out of its range.
    """
    given, parts, cost, _ = _checked(weights, shares, draws, level, cutoff)
    return _lower(given, parts, cost, positive("rate", rate))


def expected_upper(
    rate: float, weights: ArrayLike, shares: ArrayLike, draws: int, level: float, cutoff: float
) -> float:
    """The upper bound to be expected of test draws with a given κ, rate · cutoff <= 0.999; heuristic.

    Other arguments: as in `choose_lower`.

    Raises:
        ValueError: an argument is out of its range.
    """
    given, parts, cost, most = _checked(weights, shares, draws, level, cutoff)
    if positive("rate", rate) * most > LARGEST_SHARE:
        raise refusal("rate", rate, f"at most {LARGEST_SHARE} / cutoff")
    return _upper(given, parts, cost, float(rate), most)


def _lower(weights: Floats, shares: Floats, cost: float, rate: float) -> float:
    gain = mean_terms(weights, shares, rate)[0] - cost
    return min(1.0, max(0.0, expm1(gain) / rate))


def _upper(weights: Floats, shares: Floats, cost: float, rate: float, cutoff: float) -> float:
    loss = mean_terms(weights, shares, -rate)[0] - cost
    return min(1.0, cutoff, -expm1(loss) / rate)


def _search(weights: Floats, shares: Floats, cost: float, sign: float, scale: float, most: float) -> float:
    """The best rate from 2^-60 to `most` times scale, by bisection in its logarithm; sign: 1 of a lower bet, −1 of an upper one.

    A larger rate is better where t − G − log(1 − D) > 0, D = Σ s x/(1 + x): it has the sign of the bound's derivative.
    """

    def is_better_above(at: float) -> bool:
        logs, slopes = mean_terms(weights, shares, sign * at * scale)
        return bool(slopes < 1.0 and cost - logs - log1p(-slopes) > 0.0)

    low, high = 2.0**-_OCTAVES, most
    if is_better_above(most):
        return most * scale
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if is_better_above(middle) else (low, middle)
    return low * scale


def _checked(
    weights: ArrayLike, shares: ArrayLike, draws: int, level: float, cutoff: float
) -> tuple[Floats, Floats, float, float]:
    """Both arrays as the kernels take them, ln(1/level)/draws, and M."""
    given, parts = (np.ascontiguousarray(values, np.float64) for values in (weights, shares))
    most = positive("cutoff", cutoff)
    if given.ndim != 1 or given.shape != parts.shape:
        raise refusal("weights, shares", (given.shape, parts.shape), "two shapes (n,), the same")
    if not ((given >= 0.0) & (given <= most)).all():
        raise refusal("weights", "one that is not", "numbers from 0 to the cutoff")
    if not (parts >= 0.0).all() or not parts.sum() <= 1.0 + 1e-9:
        raise refusal("shares", float(parts.sum()), "numbers >= 0 with a sum of at most 1")
    return given, parts, -log(float(open_unit("level", level))) / integer("draws", draws, 1), most
