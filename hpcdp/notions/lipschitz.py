"""How many bins and outputs suffice where densities are C-Lipschitz on an interval: as published, and by union bounds.

Gorla, Jalouzot, Granese, Palamidessi and Piantanida (2023), Theorems 2 and 3 and their versions for Rényi divergences.
Finite-sample, all of it, under that assumption.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from hpcdp._check import integer, positive, real, refusal

NAMES = ("published", "union", "half")
"""Of sizes: those of the paper, those of a union bound, and those with half as many bins."""

_MOST_OUTPUTS = 2**62
_LARGEST = 100.0  # e to twice that is a float


def sizes(
    lipschitz: float, width: float, precision: float, confidence: float, order: float | None = None, laws: int = 2
) -> Mapping[str, tuple[int, int]]:
    """Bins m and outputs a law n with which the largest of ln(N_j/M_j) is within `precision` of the pure level of a pair.

    "published": equations (4) and (5) of Gorla et al. (2023), for one pair, whatever `laws` is. "union": as many bins, and a
    union bound over the bins of all laws, which the published condition lacks (it halves the precision instead). "half": the
    same with half the bins, since the mean of a bin lies within C·w/2 of its density. With an order a > 1: for
    ln(Σ_j (N_j/M_j)^a M_j/n)/(a − 1) and the Rényi divergence of that order; union and half then rest on each term of the sum
    changing by at most e^(±(2a − 1)z). Finite-sample, where densities are `lipschitz`-Lipschitz on an interval of this width.

    Args:
        lipschitz: C > 0, in density per unit of outputs, below 2/width².
        width: W > 0 of the interval, in the unit of outputs.
        precision: γ > 0, in the unit of ε, on either side.
        confidence: above 0 and below 1.
        order: of a Rényi divergence, above 1; None: pure ε.
        laws: of how many laws limits hold together, at least 2.

    Returns:
        {"published": (m, n), "union": (m, n), "half": (m, n)}, integers; n is rounded up.

    Raises:
        ValueError: an argument is out of its range, C >= 2/W² among them, or more than 2^62 outputs are needed.
    """
    return {name: size_of(name, lipschitz, width, precision, confidence, order, laws) for name in NAMES}


def size_of(
    name: str, lipschitz: float, width: float, precision: float, confidence: float, order: float | None, laws: int
) -> tuple[int, int]:
    """One of `sizes`, by its name."""
    c, w, gamma = positive("lipschitz", lipschitz), positive("width", width), positive("precision", precision)
    accepted = "a number above 0 and below 1"
    miss = 1.0 - real("confidence", confidence, accepted, lambda number: 0.0 < number < 1.0)
    count = integer("laws", laws, 2)
    with _said("outputs"):
        return _size(name, c, w, gamma, miss, order, count)


def _size(name: str, c: float, w: float, gamma: float, miss: float, order: float | None, count: int) -> tuple[int, int]:
    both = _bounds(c, w)
    low = both[0]
    if order is None:
        bias, z, paper_z = 6.0 * c * w / (low * gamma), gamma / 3.0, gamma / 12.0
        paper = bias
    else:
        a, ratio = _order(order), _ratio(both, _order(order))
        share = (2.0 * a - 1.0) / (a - 1.0)
        bias, paper = 2.0 * c * w * share / (gamma * low), c * ratio * w * share / (gamma * low)
        z, paper_z = gamma / (2.0 * share), min(gamma / (2.0 * ratio * share), math.log(2.0) / (2.0 * a - 1.0))
    m = math.ceil({"published": paper, "union": bias, "half": 0.5 * bias}[name])
    y = w / m * low
    if name == "published":
        factor = 4.0 if order is None else 2.0 * m
        return m, _least(lambda n: _published(n, m, y, paper_z, factor), miss)
    return m, _least(lambda n: count * m * sum(_tails(n, y, z)), miss)


def buckets(
    lipschitz_in_x: float,
    length: float,
    lipschitz: float,
    width: float,
    precision: float,
    order: float | None = None,
) -> int:
    """Into how many buckets Algorithm 2 of Gorla et al. (2023) cuts the inputs, whose midpoints stand for all of them.

    Args:
        lipschitz_in_x: D > 0: how fast the density at an output changes with the input.
        length: of the interval of inputs, > 0.
        lipschitz, width, precision, order: as in `sizes`; the precision is that of the whole, not of a pair.

    Returns:
        k, at least 1.

    Raises:
        ValueError: an argument is out of its range, C >= 2/W² among them.
    """
    c, w, gamma = positive("lipschitz", lipschitz), positive("width", width), positive("precision", precision)
    steepness, span = positive("lipschitz_in_x", lipschitz_in_x), positive("length", length)
    with _said("buckets"):
        both = _bounds(c, w)
        needed = 3.0 * steepness * span / (both[0] * gamma)
        if order is not None:
            a = _order(order)
            needed *= (2.0 * a - 1.0) * _ratio(both, a) / (2.0 * (a - 1.0))
        return math.ceil(needed)


def precision_at(outputs: int, needed: Callable[[float], int]) -> float:
    """The precision with which so many outputs suffice, to a thousandth; inf where none is up to 64, or too many are needed."""
    low, high = 1e-6, 64.0

    def suffices(gamma: float) -> bool:
        try:
            return needed(gamma) <= outputs
        except ValueError:
            return False

    if not suffices(high):
        return math.inf
    while high - low > 1e-3 * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


@contextmanager
def _said(what: str) -> Iterator[None]:
    """ValueError where numbers on the way are no floats."""
    try:
        yield
    except (OverflowError, ZeroDivisionError):
        raise ValueError(f"precision: more {what} are needed than can be said") from None


def _order(value: float) -> float:
    return real("order", value, "a finite number above 1", lambda number: number > 1.0)


def _bounds(c: float, w: float) -> tuple[float, float]:
    """Between which all C-Lipschitz densities on an interval lie."""
    if not c * w * w < 2.0:
        raise refusal(
            "lipschitz",
            c,
            f"below 2/width² = {2.0 / (w * w):.6g}, as published; the certified interval needs no such limit",
        )
    return 1.0 / w - 0.5 * c * w, 1.0 / w + 0.5 * c * w


def _ratio(both: tuple[float, float], a: float) -> float:
    """K/K′."""
    low, high = both
    return 2.0 * high**a / low ** (a - 1.0) * high ** (a - 1.0) / low**a


def _tails(n: int, y: float, z: float) -> tuple[float, float]:
    """Chances that a frequency of mass y is below e^(-z), or above e^z, times it, as the paper bounds them."""
    z = min(z, _LARGEST)  # chances fall with z
    high = math.exp(-n * y * math.expm1(z) ** 2 / (1.0 + math.exp(z)))
    return high, math.exp(-n * y * math.expm1(-z) ** 2 / 2.0)


def _published(n: int, bins: int, y: float, z: float, factor: float) -> float:
    """The left side of equation (5)."""
    empty = n * math.log1p(-y) if y < 1.0 else -math.inf
    some = -math.expm1(empty)
    return 2.0 * bins * math.exp(empty) + (factor * sum(_tails(n, y, z)) / some if some > 0.0 else math.inf)


def _least(chance: Callable[[int], float], miss: float) -> int:
    """The least n at which what decreases with it is at most `miss`."""
    least = 1 + bisect_left(range(1, _MOST_OUTPUTS + 1), True, key=lambda n: chance(n) <= miss)
    if least > _MOST_OUTPUTS:
        words = f"with {_MOST_OUTPUTS:,} the chance of a miss is too large"
        raise ValueError(f"precision: one that at most 2^62 outputs have; {words}")
    return least
