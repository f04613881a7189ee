"""Composition: what spectra of parts say of the whole, with their certified bounds carried along.

Lu et al. (2024), Propositions 2-5, for relative and ordinary differential privacy; Dwork and Roth (2014), Theorem 3.20.
What carries through, and why:

- `union`, `parallel`: estimate, lower and upper. The whole is the largest of the parts exactly.
- `sequential`: upper, as a bound (the sums of Proposition 4). The lower bound that survives is the largest of the parts':
  each part is a post-processing of the whole. The estimate becomes an estimate of the bound, not of δ.
- `post_process`: upper. The lower bound becomes 0: the function may forget everything.
- Failure probabilities add up (union bound), so that all lower bounds of all parts hold together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import fraction, integer, non_negative, refusal
from hpcdp.analytic._curve import Curve, checked
from hpcdp.notions.epsilon_at import implied_lower
from hpcdp.results.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

    from hpcdp.results.result import Result

Floats = NDArray[np.float64]

_DIGITS = 12  # levels closer than this are one level: sums of grid points are not exact in binary
_MOST_LEVELS = 4096  # of a composition in between; fewer levels make its bound looser, never wrong


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Shown):
    """A privacy spectrum δ(ε), the larger of both directions, with its bounds.

    Args:
        epsilon: levels >= 0, strictly increasing, shape (k,), k >= 1.
        delta: estimates at these levels, from 0 to 1, shape (k,).
        lower: lower bounds, from 0 to 1, that hold together at `confidence` (certified, finite-sample, when they come from
            a result).
        upper: upper limits, from 0 to 1: approximate (asymptotic, heuristic) when they come from a result.
        confidence: of the lower bounds together, from 0 to 1; 1 of an exact curve.
        is_bound: whether `delta` estimates an upper bound on δ instead of δ itself, as after `sequential`.

    Raises:
        ValueError: a value out of range, levels that do not increase, or shapes that differ.
    """

    epsilon: Floats
    delta: Floats
    lower: Floats
    upper: Floats
    confidence: float
    is_bound: bool = False

    def __post_init__(self) -> None:
        levels = _levels(self.epsilon)
        object.__setattr__(self, "epsilon", levels)
        for name in ("delta", "lower", "upper"):
            values = checked(name, getattr(self, name), 0.0, 1.0)
            if values.shape != levels.shape:
                raise refusal(f"shape of {name}", values.shape, f"that of epsilon, {levels.shape}")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "confidence", fraction("confidence", self.confidence))

    def __repr__(self) -> str:
        what = "bound on δ" if self.is_bound else "δ"
        ends = f"ε {self.epsilon[0]:g} to {self.epsilon[-1]:g}, {what} {self.delta[0]:.3g} to {self.delta[-1]:.3g}"
        return f"<hpcdp.Spectrum {self.epsilon.size} levels, {ends}, confidence {self.confidence:g}>"

    def to_dataframe(self) -> pd.DataFrame:
        """A row a level: epsilon, delta, lower and upper, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame({name: getattr(self, name) for name in ("epsilon", "delta", "lower", "upper")})

    @classmethod
    def of(cls, result: Result) -> Spectrum:
        """The spectrum of a complete result: the largest estimate, certified bound and approximate limit at each ε.

        Raises:
            ValueError: the result is not complete.
        """
        if not result.complete:
            raise refusal("result", f"{result.name}, which is not complete", "a complete result")
        order = np.argsort(result["epsilon"])
        delta, lower, upper = (result[f"spectrum_{name}"][order] for name in ("delta", "lower", "upper"))
        return cls(result["epsilon"][order], delta, lower, upper, result.confidence)

    @classmethod
    def exact(cls, curve: Curve, epsilon: ArrayLike) -> Spectrum:
        """An exact curve at levels (k,): estimate and both bounds are its δ, at confidence 1."""
        delta = curve.spectrum(epsilon)
        return cls(np.asarray(epsilon, np.float64), delta, delta, delta, 1.0)

    def at(self, epsilon: ArrayLike) -> Spectrum:
        """The same at other levels (m,), on the safe side between and beyond the known ones.

        As functions of e^ε, δ is convex and non-increasing, and (1 − δ)/e^ε does not rise. So `upper` and `delta` are
        interpolated linearly in e^ε; below the first level ε₁ they are 1 − e^(ε−ε₁)(1 − δ₁); beyond the last, the last.
        `lower` is the largest that a known level implies: that of a level above, or 1 − e^(ε−ε₁)(1 − lower₁) of one below.
        A bound of a level implies these for sure, so the confidence stays.

        Raises:
            ValueError: levels that do not increase, or below 0.
        """
        levels = _levels(epsilon)
        delta, upper = (_between(levels, self.epsilon, values) for values in (self.delta, self.upper))
        lower = implied_lower(self.epsilon, self.lower, levels)
        return replace(self, epsilon=levels, delta=delta, lower=lower, upper=upper)


def _levels(epsilon: ArrayLike) -> Floats:
    """Levels >= 0, strictly increasing, shape (k,), k >= 1; ValueError says what else was given."""
    levels = checked("epsilon", epsilon, 0.0, np.finfo(np.float64).max)
    if levels.ndim != 1 or levels.size == 0 or (np.diff(levels) <= 0.0).any():
        raise refusal("epsilon", levels.tolist(), "a strictly increasing sequence of levels >= 0")
    return levels


def _between(levels: Floats, known: Floats, values: Floats) -> Floats:
    """Interpolate linearly in e^ε, see `Spectrum.at`."""
    scale = known[-1]  # exponents <= 0 only, so that nothing overflows
    inside = np.interp(np.exp(np.minimum(levels, scale) - scale), np.exp(known - scale), values)
    below = 1.0 - np.exp(np.minimum(levels - known[0], 0.0)) * (1.0 - values[0])
    return np.asarray(np.where(levels < known[0], np.clip(below, 0.0, 1.0), inside))


def _distinct(levels: Floats) -> Floats:
    """Sorted levels, of those that differ by rounding only one."""
    distinct = np.unique(levels)
    return distinct[np.concatenate([[True], np.diff(np.round(distinct, _DIGITS)) > 0.0])]


def _largest(parts: Sequence[Spectrum], name: str) -> Spectrum:
    if not parts:
        raise refusal(f"spectra of {name}", (), "at least one")
    levels = _distinct(np.concatenate([part.epsilon for part in parts]))
    there = [part.at(levels) for part in parts]
    delta, lower, upper = (np.max([getattr(part, n) for part in there], axis=0) for n in ("delta", "lower", "upper"))
    confidence = max(0.0, 1.0 - math.fsum(1.0 - part.confidence for part in parts))  # failure probabilities add up
    return Spectrum(levels, delta, lower, upper, confidence, any(part.is_bound for part in parts))


def union(*spectra: Spectrum) -> Spectrum:
    """One mechanism on several sets of databases: its spectrum on their union, the largest of the parts (Proposition 2).

    Exact: estimate, lower and upper carry through. At the levels of all parts, see `Spectrum.at` for parts that lack one.
    The largest estimate is biased up by the choice, the largest lower bound is not: failure probabilities add up.

    Raises:
        ValueError: no spectrum is given.
    """
    return _largest(spectra, "a union")


def parallel(*spectra: Spectrum) -> Spectrum:
    """Mechanisms with independent coins, each on a block of rows of its own (Proposition 3): the largest of the parts.

    Exact: neighbours differ in one block, and equal factors of two product laws cancel. All three carry through.

    Raises:
        ValueError: no spectrum is given.
    """
    return _largest(spectra, "a parallel composition")


def sequential(*spectra: Spectrum, epsilon: ArrayLike | None = None) -> Spectrum:
    """Mechanisms with independent coins on the same databases, all outputs seen (Proposition 4).

    δ(ε) is at most the least sum of δᵢ(εᵢ) over ε₁ + … + εₙ = ε. The least sum is taken over all ways to split ε in which
    at most one part's level is not known to it; between its levels a part is interpolated as in `Spectrum.at`. So on sums
    of known levels it is the least sum over known levels, or less, and elsewhere on the safe side.

    Args:
        spectra: the parts, at least one.
        epsilon: levels of the result, strictly increasing; by default the levels of all parts.

    Returns:
        `upper`: the bound from the parts' upper limits. `delta`: the same from their estimates, an estimate of the bound.
        `lower`: the largest lower bound of the parts, as each part is a post-processing of the whole.

    Raises:
        ValueError: no spectrum is given, or levels out of range.
    """
    parts = _largest(spectra, "a sequential composition")
    levels = parts.epsilon if epsilon is None else _levels(epsilon)
    whole = spectra[0]
    for number, part in enumerate(spectra[1:], start=2):
        sums = _distinct((whole.epsilon[:, None] + part.epsilon).ravel())
        thin = sums[np.unique(np.linspace(0, sums.size - 1, _MOST_LEVELS).astype(np.int64))]
        grid = levels if number == len(spectra) else _distinct(np.concatenate([thin, whole.epsilon, part.epsilon]))
        delta, upper = (_least_sum(grid, whole, part, name) for name in ("delta", "upper"))
        whole = Spectrum(grid, delta, np.zeros(grid.size), upper, 0.0)
    there = whole.at(levels)
    is_bound = len(spectra) > 1 or parts.is_bound
    return replace(there, lower=parts.at(levels).lower, confidence=parts.confidence, is_bound=is_bound)


def _least_sum(levels: Floats, a: Spectrum, b: Spectrum, name: str) -> Floats:
    """The least sum over splits of each level (m,) in which a's or b's part is one of its known levels; at most 1."""
    best = np.ones(levels.size)
    for known, other in ((a, b), (b, a)):
        for level, value in zip(known.epsilon, getattr(known, name), strict=True):
            # the tolerance is that of `_distinct`: a sum that misses the level by rounding still splits it
            rest = levels - level
            fits = rest >= -(10.0**-_DIGITS)
            interpolated = _between(_snapped(rest[fits], other.epsilon), other.epsilon, getattr(other, name))
            best[fits] = np.minimum(best[fits], value + interpolated)
    return best


def _snapped(levels: Floats, known: Floats) -> Floats:
    """Levels, but known ones in place of those that differ by rounding only; none below 0."""
    place = np.clip(np.searchsorted(known, levels), 1, known.size - 1) if known.size > 1 else np.zeros(levels.size, int)
    near = np.where(np.abs(known[place - 1] - levels) < np.abs(known[place] - levels), known[place - 1], known[place])
    return np.maximum(0.0, np.where(np.abs(near - levels) <= 10.0**-_DIGITS, near, levels))


def post_process(spectrum: Spectrum) -> Spectrum:
    """Any function of the outputs, with coins of its own (Proposition 5): the same upper limits.

    The lower bound becomes 0, as the function may forget what told the databases apart; the estimate is one of a bound.
    """
    return replace(spectrum, lower=np.zeros(spectrum.epsilon.size), is_bound=True)


def basic_epsilon(epsilon: float, count: int) -> float:
    """n·ε: `count` = n ε-private mechanisms together are private at this level, with δ = 0 (Proposition 4).

    Raises:
        ValueError: a negative level, or count < 1.
    """
    return integer("count", count, 1) * non_negative("epsilon", epsilon)


def advanced_epsilon(epsilon: float, count: int, delta: float) -> float:
    """ε·√(2n ln(1/δ)) + n·ε·(e^ε − 1): the level of `count` = n ε-private mechanisms at `delta` (Dwork and Roth 2014, 3.20).

    A guarantee for pure ε, also when each mechanism is chosen after the outputs before it.

    Raises:
        ValueError: a negative level, count < 1, or delta not between 0 and 1.
    """
    return mean_loss_epsilon(epsilon, count, delta, lambda e: e * math.expm1(e))


def tight_mean_loss(epsilon: float) -> float:
    """ε·tanh(ε/2): the largest mean loss of an ε-private mechanism, that of randomised response."""
    return epsilon * math.tanh(0.5 * epsilon)


def laplace_mean_loss(epsilon: float) -> float:
    """ε − 1 + e^−ε: the mean loss of Laplace noise of scale 1/ε on values that are 1 apart."""
    return epsilon + math.expm1(-epsilon)


def mean_loss_epsilon(
    epsilon: float, count: int, delta: float, mean_loss: Callable[[float], float] = tight_mean_loss
) -> float:
    """ε·√(2n ln(1/δ)) + n·κ: the level of `count` = n ε-private mechanisms at `delta`, by the inequality of Azuma.

    A guarantee if κ = mean_loss(ε) is at least the mean privacy loss (the Kullback–Leibler divergence) of one mechanism:
    `tight_mean_loss` always is, `laplace_mean_loss` is for Laplace noise.

    Raises:
        ValueError: a negative level, count < 1, or delta not between 0 and 1.
    """
    level, many = non_negative("epsilon", epsilon), integer("count", count, 1)
    failure = fraction("delta", delta)
    if failure in (0.0, 1.0):
        raise refusal("delta", delta, "a number above 0 and below 1")
    return level * math.sqrt(2.0 * many * -math.log(failure)) + many * mean_loss(level)
