"""An interval for pure ε from counts in equal bins, where densities are C-Lipschitz; and how many bins make it narrow.

Clopper–Pearson limits of all bins of all laws hold together. The lower end rests on nothing else; the upper end rests on
densities that are C-Lipschitz on the interval, so that no value has a probability of its own: the density at an output differs
from its bin's mean by at most C·w/2.
Finite-sample: `limits`, `lower_ends`, `upper_ends`, `refuted_at`, `change_refuted_at`. Published, for one pair:
`largest_ratio`, `renyi_ratio`.
Heuristic: `choose_bins`, `least_outputs`, which decide from training outputs what is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hpcdp.losses.histogram import OutsideError
from hpcdp.notions.bounds import binomial_lower, binomial_upper

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROUNDING = 1e-12  # of logarithms and quotients, to the safe side
_PATIENCE = 8  # times the best number of bins, beyond which none is tried
_DIGITS = 3  # of a number of outputs that is decided
_NO_CHANCE = 1e-6  # that equal outputs are told from an atom
_STEP = 1.01  # within which it is found


@dataclass(frozen=True)
class Bins:
    """Equal bins of an interval, and what is assumed on it. width: of a bin. drift: how much, as a share, edges may be off."""

    width: float
    lipschitz: float
    change: float = 0.0
    drift: float = 0.0

    @classmethod
    def of(cls, interval: tuple[float, float], number: int, lipschitz: float, change: float = 0.0) -> Bins:
        """Of an interval. change: by how much more a density may differ, as where a midpoint stands for its bucket."""
        low, high = interval
        width = (high - low) / number
        return cls(width, lipschitz, change, 4.0 * math.ulp(max(abs(low), abs(high))) / width)

    @property
    def off(self) -> float:
        """By how much a density differs from the mean of its bin, at most."""
        return (0.5 * self.lipschitz * self.width + self.change) * (1.0 + self.drift + _ROUNDING)


def refuse_atoms(outputs: Floats, width: float, lipschitz: float) -> float:
    """An upper limit on the probability of any single value, one at a time, at confidence 95 %; **finite-sample**.

    A C-Lipschitz density on an interval of this width is at most 1/W + CW/2. So a value of a floating-point type has some
    probability m at most, and any k of n outputs are equal with C(n, k)·m^(k−1) at most; OutsideError where that is below 10⁻⁶.
    """
    values, held = np.unique(outputs, return_counts=True)
    with np.errstate(over="ignore"):
        types = [t for t in (np.float16, np.float32, np.float64) if (values == values.astype(t)).all()]
    mass = (1.0 / width + 0.5 * lipschitz * width) * float(np.spacing(types[0](np.abs(values).max())))
    n, often, chance = outputs.size, 1, float(outputs.size)
    while chance > _NO_CHANCE:
        chance *= (n - often) / (often + 1) * mass
        often += 1
    if held.max() >= often:
        raise OutsideError(
            f"parameters.lipschitz: outputs that have a density; given: {n:,} outputs of which {held.max():,} are "
            f"{values[held.argmax()]:.17g}, so that this value has a probability of its own (clamping makes such)"
        )
    return float(binomial_upper(often - 1, n, 0.05))


def limits(counts: Ints, outputs: int, failure: float, laws: int) -> tuple[Floats, Floats]:
    """Lower and upper limits of the probabilities of bins, (…, m) each, of counts of outputs; all 2·laws·m hold together."""
    level = failure / (2.0 * laws * counts.shape[-1])
    return binomial_lower(counts, outputs, level), binomial_upper(counts, outputs, level)


def lower_ends(low: Floats, high: Floats) -> tuple[Floats, Ints]:
    """The largest ln(low/high) over bins, and its bin: at most the pure level, without any assumption; of limits (…, m)."""
    with np.errstate(divide="ignore"):
        return _largest(np.log(low) - np.log(high), -_ROUNDING)


def upper_ends(high: Floats, low: Floats, bins: Bins) -> tuple[Floats, Ints]:
    """The largest ln of the densities' quotient that limits (…, m) allow in a bin, and its bin; inf where one may be 0."""
    most = high / bins.width * (1.0 + bins.drift + _ROUNDING) + bins.off
    least = low / bins.width * (1.0 - bins.drift - _ROUNDING) - bins.off
    with np.errstate(divide="ignore"):
        return _largest(np.log(most) - np.log(np.maximum(least, 0.0)), _ROUNDING)


def _largest(values: Floats, rounding: float) -> tuple[Floats, Ints]:
    at = values.argmax(axis=-1)
    value = np.take_along_axis(values, at[..., None], axis=-1)[..., 0]
    return value + rounding * (1.0 + np.where(np.isfinite(value), np.abs(value), 0.0)), at


def refuted_at(low: Floats, high: Floats, bins: Bins) -> tuple[int, int, int] | None:
    """A law and two of its bins whose limits differ by more than C times their distance, which refutes C; None: no such.

    Finite-sample: means of two bins differ by at most that, neighbours' by C·w; a true C is refuted only where some limit fails.
    """
    return _apart(*_densities(low, high, bins), bins.lipschitz * bins.width * (1.0 + bins.drift + _ROUNDING))


def change_refuted_at(low: Floats, high: Floats, bins: Bins) -> tuple[int, int, int] | None:
    """A bin and two laws, of ascending midpoints, whose limits differ by more than these allow. Finite-sample."""
    least, most = _densities(low, high, bins)
    return _apart(least.T, most.T, 2.0 * bins.change * (1.0 + _ROUNDING))


def _densities(low: Floats, high: Floats, bins: Bins) -> tuple[Floats, Floats]:
    """Limits of the means of a density on its bins."""
    edges = bins.drift + _ROUNDING
    return low / bins.width * (1.0 - edges), high / bins.width * (1.0 + edges)


def _apart(least: Floats, most: Floats, step: float) -> tuple[int, int, int] | None:
    """A row and two of its columns of which the first is above the second by more than so much a column between them."""
    ramp = step * np.arange(least.shape[1])
    for flipped in (False, True):
        a, b = (values[:, ::-1] if flipped else values for values in (least, most))
        ahead = np.maximum.accumulate(a + ramp, axis=1)[:, :-1] - (b + ramp)[:, 1:]
        if ahead.size and ahead.max() > _ROUNDING * float(most.max() + ramp[-1]):
            row, column = (int(i) for i in np.unravel_index(int(ahead.argmax()), ahead.shape))
            other = int((a + ramp)[row, : column + 1].argmax())
            last = least.shape[1] - 1
            return (row, last - other, last - column - 1) if flipped else (row, other, column + 1)
    return None


def largest_ratio(first: Ints, second: Ints) -> tuple[float, int] | None:
    """The largest ln(N_j/M_j) and its bin, Algorithm 1 of Gorla et al. (2023); None, a failure, where a bin is empty."""
    if not (first.min() > 0 and second.min() > 0):
        return None
    ratios = np.log(first / second)
    return float(ratios.max()), int(ratios.argmax())


def renyi_ratio(first: Ints, second: Ints, order: float) -> float | None:
    """ln(Σ_j (N_j/M_j)^a M_j/n)/(a − 1) of Gorla et al. (2023); None, a failure, where a bin is empty."""
    if not (first.min() > 0 and second.min() > 0):
        return None
    logs = order * np.log(first / second) + np.log(second / second.sum())
    return float(np.logaddexp.reduce(logs)) / (order - 1.0)


def predicted(training: Ints, outputs: int, failure: float, bins: Bins) -> tuple[float, float]:
    """Width and lower end of the interval over all pairs of laws that so many outputs promise. **Heuristic.**"""
    shares = training / np.maximum(1, training.sum(axis=1, keepdims=True))
    least, most = (
        _nearly_limits(share, outputs, failure, training.shape[0]) for share in (shares.min(0), shares.max(0))
    )
    lower = max(0.0, float(lower_ends(most[0], least[1])[0]))
    return float(upper_ends(most[1], least[0], bins)[0]) - lower, lower


def _nearly_limits(share: Floats, outputs: int, failure: float, laws: int) -> tuple[Floats, Floats]:
    """About `limits` of counts at these shares, by Wilson and Hilferty's (1931) limits of Poisson means, which is fast."""
    z = -float(ndtri(failure / (2.0 * laws * share.size)))
    expected = np.maximum(share * outputs, 1e-9)
    spread = np.sqrt(1.0 - share) * z / 3.0
    low = np.maximum(1.0 - 1.0 / (9.0 * expected) - spread / np.sqrt(expected), 0.0) ** 3 * expected
    high = (1.0 - 1.0 / (9.0 * (expected + 1.0)) + spread / np.sqrt(expected + 1.0)) ** 3 * (expected + 1.0)
    return low / outputs, np.minimum(high / outputs, 1.0)


def choose_bins(
    training: Ints,
    outputs: int,
    failure: float,
    interval: tuple[float, float],
    lipschitz: float,
    change: float = 0.0,
) -> tuple[int, float]:
    """The divisor of training's fine bins (laws, m) that promises the narrowest interval. **Heuristic.**"""
    laws, fine = training.shape
    best, number = (math.inf, math.inf), 1
    for m in (d for d in range(1, fine + 1) if fine % d == 0):
        if m > _PATIENCE * number and math.isfinite(best[0]):
            break
        merged = training.reshape(laws, m, fine // m).sum(axis=2)
        width, lower = predicted(merged, outputs, failure, Bins.of(interval, m, lipschitz, change))
        if (width, -lower) < best:
            best, number = (width, -lower), m
    return number, best[0]


def least_outputs(
    training: Ints,
    width: float,
    most: int,
    failure: float,
    interval: tuple[float, float],
    lipschitz: float,
    change: float = 0.0,
    *,
    is_fixed: bool = False,
) -> tuple[int, float]:
    """Outputs a law at which training promises an interval of this width, at most `most`. **Heuristic.**"""

    def promised(outputs: int) -> float:
        if is_fixed:
            return predicted(training, outputs, failure, Bins.of(interval, training.shape[1], lipschitz, change))[0]
        return choose_bins(training, outputs, failure, interval, lipschitz, change)[1]

    promise = promised(most)
    if promise > width:
        return most, promise
    low, high = 1.0, float(most)
    while high > low * _STEP:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if promised(math.ceil(middle)) <= width else (middle, high)
    unit = 10 ** max(0, math.floor(math.log10(high)) + 1 - _DIGITS)
    outputs = min(most, -(-math.ceil(high) // unit) * unit)
    return outputs, promised(outputs)
