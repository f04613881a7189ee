"""The exponential mechanism over a finite range, with any utility, and for one number; noise that is cut to an interval.

Report noisy max: the four published variants, two correct and two faulty.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from hpcdp._check import non_negative, positive, real, refusal
from hpcdp.mechanisms._batches import blocks
from hpcdp.mechanisms.additive import noise_scale, vector
from hpcdp.mechanisms.table import outcome_values, pmf
from hpcdp.mechanisms.user_code import import_callable

Array = NDArray[np.float64]


def exponential(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    outcomes: Sequence[float] | Sequence[str],
    epsilon: float,
    sensitivity: float = 1.0,
    utility: str | Callable[..., Any] = "count",
) -> NDArray[Any]:
    """Draw outcomes o with p(o) proportional to exp(epsilon · u(o) / (2 · sensitivity)).

    McSherry and Talwar 2007; Dwork and Roth 2014, Definition 3.4. The claim holds: it is epsilon-DP when no score
    moves by more than `sensitivity` between neighbours (Theorem 3.10). A count moves by at most 1 when a row is
    removed or edited. With "count", Lu et al. 2024, Fig. 5a.

    Args:
        database: for "count" numbers of shape (rows,), rows may be none; else whatever the utility takes.
        outcomes: k different finite numbers, or k different strings (with a utility of one's own).
        sensitivity: how far a score can move between neighbours, > 0.
        utility: "count", the number of rows equal to the outcome, or "package.module:callable" or the callable itself,
            see `exponential_scores`.

    Returns:
        (size,), of the type of the outcomes: int64, float64 or fixed-length str.

    Raises:
        StudyError: the utility cannot be imported.
    """
    values = outcome_values(outcomes)
    factor = positive("epsilon", epsilon) / (2.0 * positive("sensitivity", sensitivity))
    scores = exponential_scores(database, outcomes=outcomes, utility=utility)
    weights = np.exp(factor * (scores - scores.max()))
    row = weights / weights.sum()
    return pmf(np.zeros(1, np.int64), size, rng, outcomes=values.tolist(), table=row[None, :])


def exponential_scores(
    database: NDArray[Any], *, outcomes: Sequence[float] | Sequence[str], utility: str | Callable[..., Any] = "count"
) -> Array:
    """Return the utility of every outcome on a database, float64 of shape (k,).

    utility: "count", or a callable or its path "package.module:callable", called as utility(database, outcomes) with the
    outcomes as an array of shape (k,); it returns k finite scores and draws nothing at random.
    """
    values = outcome_values(outcomes)
    if utility == "count":
        return _counts(database, values)
    if not callable(utility) and (not isinstance(utility, str) or ":" not in utility):
        raise refusal("utility", utility, '"count" or "package.module:callable"')
    # Hpcdp gives a run the callable itself; a path is found from the first place on the import path.
    where = "mechanism.parameters.utility"
    function = utility if callable(utility) else import_callable(utility, Path(sys.path[0] or "."), where)
    given = function(np.array(database), values.copy())
    accepted = f"an array of {values.size} finite scores, one per outcome"
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal(f"what utility {utility} returned", given, accepted) from None
    if scores.shape != values.shape or not np.isfinite(scores).all():
        raise refusal(f"what utility {utility} returned", given, accepted)
    return scores


def _counts(database: NDArray[Any], values: NDArray[Any]) -> Array:
    rows = np.asarray(database)
    if rows.ndim != 1 or rows.dtype.kind not in "biuf":
        raise refusal("database", database, "numbers of shape (rows,), for the utility count")
    if values.dtype.kind == "U":
        raise refusal("outcomes", values.tolist(), "numbers, for the utility count")
    return np.array([np.count_nonzero(rows == value) for value in values], np.float64)


_BISECTIONS = 200


def exponential_real(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    epsilon: float | None = None,
    rate: float | None = None,
    lower: float = 1.0,
    upper: float = 2.0,
) -> NDArray[np.float64]:
    """Draw t >= 0 with density rate · exp(-rate · |s - t|) / (2 - exp(-rate · s)), s the database's one number.

    McSherry and Talwar 2007 with the utility -|s - t|; Askin, Kutta and Dette 2022, Section V. The claim holds: it is
    epsilon-DP for all s between `lower` and `upper`, with rate · (upper - lower) + ln(2 - exp(-rate · upper))
    - ln(2 - exp(-rate · lower)) = epsilon, which the pair of both ends attains.

    Args:
        database: one number s, from `lower` to `upper`.
        epsilon: the nominal privacy level, > 0; exactly one of `epsilon` and `rate`.
        rate: the rate itself, > 0; the interval then only says which s are accepted.
        lower, upper: between which numbers s lies, 0 <= lower < upper.

    Returns float64 of shape (size,), >= 0.
    """
    decay, s = exponential_rate(epsilon, rate, lower, upper), real_score(database, lower, upper)
    mass = 1.0 - math.exp(-decay * s)  # times the normaliser: what lies left of s
    u = rng.random(size) * (1.0 + mass)
    with np.errstate(divide="ignore"):
        left = s + np.log1p(np.minimum(u, mass) - mass) / decay
        right = s - np.log1p(-np.maximum(u - mass, 0.0)) / decay
    return np.asarray(np.maximum(np.where(u < mass, left, right), 0.0))


def real_score(database: NDArray[Any], lower: float, upper: float) -> float:
    """Return the one number of a database."""
    values = vector(database)
    if values.size != 1 or not lower <= values[0] <= upper:
        raise refusal("database", values, f"one number from {lower:g} to {upper:g}")
    return float(values[0])


def exponential_rate(epsilon: float | None, rate: float | None, lower: float, upper: float) -> float:
    """Return the rate: as given, or that at which the level over the interval is `epsilon`, by bisection."""
    if (epsilon is None) == (rate is None):
        raise refusal("epsilon, rate", (epsilon, rate), "exactly one of the two")
    start, stop = non_negative("lower", lower), positive("upper", upper)
    if not start < stop:
        raise refusal("lower, upper", (lower, upper), "0 <= lower < upper")
    if rate is not None:
        return positive("rate", rate)
    level = positive("epsilon", epsilon)
    low, high = 0.0, level / (stop - start)  # the logarithms do not decrease in s
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exponential_level(middle, start, stop) < level else (low, middle)
    return high


def exponential_level(rate: float, first: float, second: float) -> float:
    """Return the pure level of two numbers s: rate · |s - s'| + |ln(2 - exp(-rate · s')) - ln(2 - exp(-rate · s))|."""
    logs = [math.log1p(-math.expm1(-rate * s)) for s in (first, second)]
    return rate * abs(first - second) + abs(logs[0] - logs[1])


Law = tuple[float, float, float, float]


def truncated(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    scale: float,
    noise: str = "laplace",
    lower: float = 0.0,
    upper: float = 1.0,
) -> Array:
    """Draw from a Laplace or normal density around the database's one number, renormalised on [lower, upper].

    Gorla et al. 2023. Laplace: (upper - lower)/scale-DP for all numbers of the interval, which its two ends attain, and
    1/(scale² (1 - exp(-(upper - lower)/scale)))-Lipschitz at most. Gaussian: (upper - lower)²/(2 scale²)-DP at the ends.

    Args:
        database: one number, from `lower` to `upper`.
        scale: of Laplace noise, or the standard deviation of Gaussian noise, > 0, in the unit of outputs.
        noise: "laplace" or "gaussian".
        lower, upper: the interval, lower < upper.

    Returns float64 of shape (size,), from `lower` to `upper`.
    """
    x, s, start, stop = truncated_law(database, scale, noise, lower, upper)
    u = rng.random(size)
    if noise == "gaussian":
        below, above = ndtr((start - x) / s), ndtr((stop - x) / s)
        drawn = x + s * ndtri(below + u * (above - below))
    else:
        left, right = (-math.expm1(-distance / s) for distance in (x - start, stop - x))
        u *= left + right
        with np.errstate(divide="ignore"):
            drawn = np.where(
                u < left, x + s * np.log1p(np.minimum(u, left) - left), x - s * np.log1p(-np.maximum(u - left, 0.0))
            )
    return np.clip(drawn, start, stop)


def truncated_law(database: NDArray[Any], scale: float, noise: str, lower: float, upper: float) -> Law:
    """Return the number, the scale, and both ends of the interval."""
    if noise not in ("laplace", "gaussian"):
        raise refusal("noise", noise, '"laplace" or "gaussian"')
    start, stop = real("lower", lower), real("upper", upper)
    if not start < stop or not math.isfinite(stop - start):
        raise refusal("lower, upper", (lower, upper), "lower < upper")
    return real_score(database, start, stop), positive("scale", scale), start, stop


Variant = Literal["NM1", "NM2", "NM3", "NM4"]

VARIANTS = {
    "NM1": ("laplace", "index"),
    "NM2": ("laplace", "value"),
    "NM3": ("exponential", "index"),
    "NM4": ("exponential", "value"),
}
"""Noise and output of each variant, numbered as in Lu et al. 2024, Fig. 9c."""


def noisy_max(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    variant: Variant,
    epsilon: float | None = None,
    scale: float | None = None,
    sensitivity: float = 1.0,
    monotonic: bool = False,
) -> NDArray[Any]:
    """Draw the index (NM1, NM3) or the value (NM2, NM4: faulty) of the largest of noisy query answers.

    Independent noise of one scale b is added to each of the K answers; a draw is where the maximum is, or the maximum.

    | variant | noise | output | Ding et al. 2018 | Bichsel et al. 2021 | epsilon-DP at b = 2 · sensitivity / epsilon |
    | --- | --- | --- | --- | --- | --- |
    | NM1 | Laplace | index | Alg. 5 | NoisyMax 1 | holds |
    | NM2 | Laplace | value | Alg. 7 | NoisyMax 3 | no: K · epsilon / 2, attained when all answers move together |
    | NM3 | exponential | index | Alg. 6 | NoisyMax 2 | holds |
    | NM4 | exponential | value | Alg. 8 | NoisyMax 4 | no: no finite level, since the supports differ |

    NM1 to NM4 are numbered by the rows of Fig. 9c of Lu et al. 2024. Where all answers move in one direction between
    neighbours (`monotonic`; counts when a row is removed), b = sensitivity / epsilon suffices for NM1 and NM3, and the
    true level of NM2 is K · epsilon. At any b the level of NM2 is K · sensitivity / b.

    Args:
        database: the query answers, finite numbers of any shape; taken as a vector of K numbers.
        variant: "NM1", "NM2", "NM3" or "NM4".
        epsilon: the nominal privacy level, > 0; exactly one of `epsilon` and `scale`.
        scale: the noise scale b itself, > 0.
        sensitivity: how far one answer can move between neighbours, > 0; used with `epsilon` only.
        monotonic: whether all answers move in one direction; used with `epsilon` only.

    Returns int64 indices from 0, or float64 values, of shape (size,).
    """
    noise, output = noisy_max_variant(variant)
    spread = noisy_max_scale(epsilon, scale, sensitivity, monotonic)
    answers = vector(database)
    out = np.zeros(size, np.int64 if output == "index" else np.float64)
    for block in blocks(size, 1):
        part = out[block]
        top, drawn, other = np.full(part.size, -np.inf), np.empty(part.size), np.empty(part.size)
        for index, answer in enumerate(answers):
            rng.standard_exponential(out=drawn)
            if noise == "laplace":  # the difference of two exponentials: half the time of rng.laplace
                drawn -= rng.standard_exponential(out=other)
            drawn *= spread
            drawn += answer
            if output == "index":
                np.copyto(part, index, where=drawn > top)
            np.maximum(top, drawn, out=top)
        if output == "value":
            part[:] = top
    return out


def noisy_max_variant(variant: str) -> tuple[str, str]:
    """Return the noise ("laplace" or "exponential") and the output ("index" or "value") of a variant."""
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise refusal("variant", variant, " or ".join(f'"{name}"' for name in VARIANTS))
    return VARIANTS[variant]


def noisy_max_scale(
    epsilon: float | None, scale: float | None = None, sensitivity: float = 1.0, monotonic: bool = False
) -> float:
    """Return the scale of the noise: `scale`, or 2 · sensitivity / epsilon, or half of it when monotonic."""
    if not isinstance(monotonic, bool):
        raise refusal("monotonic", monotonic, "true or false")
    moved = positive("sensitivity", sensitivity)
    return noise_scale(epsilon, moved if monotonic else 2.0 * moved, scale)
