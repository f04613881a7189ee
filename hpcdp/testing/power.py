"""What a check must be able to find, named by its curve or its δ at one ε, and how likely the planned test finds it.

The whole of the test, training included, is simulated with a fixed seed, so that the same check has the same power everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hpcdp.analytic import ApproximateDP, GaussianShift, LaplaceShift
from hpcdp.errors import StudyError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.study.claims import Claim, as_claim
from hpcdp.testing.planned import Cell, Sizes, choose_cell, levels_of, lower_bound

LEAST_POWER = 0.9
"""A check that finds what it is to catch less often is inconclusive."""

_GOAL = 0.995  # no more draws than it takes for this
_FEW, _MOST_TRAININGS = 200, 4000  # trainings: while sizes and sets are looked for; for the power that is said
_COUNTS, _ERROR = 4, 0.006  # counts of each training's cell; standard error that is small enough
_FEWEST_DRAWS, _MOST_DRAWS = 1 << 8, 1 << 26
_STEP = 2.0**0.5
_MOST_EPSILON = 700.0  # e^ε is a number
_SEED = 20261125

ACCEPTED = "laplace(epsilon=...), gaussian(mu=...), gaussian(epsilon=..., delta=...), dp(epsilon=..., delta=0) or delta(E) >= D"

_NUMBER = r"([0-9.eE+-]+)"
_AT_LEAST = re.compile(rf"\s*delta\(\s*(?:epsilon\s*=\s*)?{_NUMBER}\s*\)\s*>=\s*{_NUMBER}\s*")
_SETS = 16  # probabilities of the set of a given δ among which the least favourable is looked for


@dataclass(frozen=True)
class Noise:
    """A number with Laplace or normal noise: 0 on D, 1 on D'. scale: of the noise, above 0."""

    curve: LaplaceShift | GaussianShift
    scale: float

    def draw(self, side: int, size: int, rng: np.random.Generator) -> Outputs:
        """`size` independent outputs of a side, 0 for D and 1 for D', in any order."""
        is_laplace = isinstance(self.curve, LaplaceShift)
        return rng.laplace(side, self.scale, size) if is_laplace else rng.normal(side, self.scale, size)

    def share(self, cell: Cell, side: int) -> float:
        """Probability of a cell's set, which is of the number itself, on a side."""
        ends = (np.array(cell.intervals) - side) / self.scale
        return float(np.diff(self._below(ends), axis=1).sum())

    def _below(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        if isinstance(self.curve, GaussianShift):
            return np.asarray(ndtr(z))
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def delta(self, epsilon: float) -> float:
        """The larger exact δ of both directions."""
        return float(self.curve.spectrum(epsilon))


@dataclass(frozen=True)
class Table:
    """Outcomes 0, 1, … with their probabilities on D and on D'."""

    both: tuple[tuple[float, ...], tuple[float, ...]]

    def draw(self, side: int, size: int, rng: np.random.Generator) -> Outputs:
        """As of `Noise`."""
        law = np.array(self.both[side])
        return np.repeat(np.arange(law.size), rng.multinomial(size, law))

    def share(self, cell: Cell, side: int) -> float:
        """As of `Noise`."""
        law = np.array(self.both[side])
        return float(law[cell.holds(np.arange(law.size, dtype=np.float64))].sum())

    def delta(self, epsilon: float) -> float:
        """As of `Noise`."""
        p, q = np.array(self.both)
        c = math.exp(epsilon)
        return float(max(np.maximum(p - c * q, 0.0).sum(), np.maximum(q - c * p, 0.0).sum()))


Law = Noise | Table
"""Outputs on both sides."""


def laws_of(catches: str) -> Sequence[Law]:
    """The law that `catches` names: noise, randomised response, or one set S of that δ, in several forms; StudyError else."""
    match = _AT_LEAST.fullmatch(catches)
    if match:
        return _sets(catches, *(_number(catches, text) for text in match.groups()))
    try:
        curve = as_claim(catches).bound
    except StudyError as error:
        raise StudyError(f"catches: {error!s}; of these, catches accepts {ACCEPTED}") from None
    if isinstance(curve, LaplaceShift) and curve.epsilon0 > 0.0:
        return [Noise(curve, 1.0 / curve.epsilon0)]
    if isinstance(curve, GaussianShift) and curve.mu > 0.0:
        return [Noise(curve, 1.0 / curve.mu)]
    if isinstance(curve, ApproximateDP):
        rest = (1.0 - curve.delta0) / (1.0 + math.exp(-curve.epsilon0))
        law = (curve.delta0, rest, max(0.0, 1.0 - curve.delta0 - rest), 0.0)
        return [Table((law, law[::-1]))]
    raise StudyError(f"catches: {catches!r} was given; accepted: {ACCEPTED}")


def _number(catches: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise StudyError(f"catches: {catches!r} was given; accepted: {ACCEPTED}") from None


def _sets(catches: str, epsilon: float, delta: float) -> list[Law]:
    if not (0.0 <= epsilon < 100.0 and 0.0 < delta <= 1.0):
        raise StudyError(f"catches: {catches!r} was given; accepted: delta(E) >= D with 0 <= E < 100 and 0 < D <= 1")
    c = math.exp(epsilon)
    shares = np.linspace(delta, min(1.0, delta + c), _SETS)
    return [Table(((a, 1.0 - a), (b, 1.0 - b))) for a in shares.tolist() for b in [min(1.0, (a - delta) / c)]]


def plan_sizes(claim: str, catches: str, level: float, most: int) -> tuple[Sizes, float]:
    """The fewest draws of each database, up to a factor of 1.4, for a power of 99.5 %, at most `most` >= 4; and the power."""
    return _planned(claim, catches, level, _fewest(claim, catches, level, min(most, _MOST_DRAWS)))


@lru_cache(maxsize=256)
def _planned(claim: str, catches: str, level: float, total: int) -> tuple[Sizes, float]:
    sizes = Sizes.of(total)
    return sizes, min(power(law, claim, sizes, level) for law in laws_of(catches))


def refuse_allowed(claim: str, catches: str) -> None:
    """StudyError where a text is wrong, or the claim allows what the check is to catch, or is of an ε that no draws can test."""
    laws, (levels, allowed) = laws_of(catches), levels_of(as_claim(claim))
    if levels.max() > _MOST_EPSILON:
        raise StudyError(f"claim: {claim} was given; accepted: a claim of an ε of at most {_MOST_EPSILON:g}")
    if not any(law.delta(float(e)) > d for law in laws for e, d in zip(levels, allowed, strict=True)):
        raise StudyError(f"catches: {catches} was given, which {claim} allows; accepted: what violates the claim")


def _fewest(claim: str, catches: str, level: float, most: int) -> int:
    """Draws of each database with which the test misses at most one in 200 simulated violations; at most `most`."""
    refuse_allowed(claim, catches)
    total = float(_FEWEST_DRAWS)
    while total <= most:
        if _finds(claim, catches, level, round(total)):
            return round(total)
        total *= _STEP
    return most


@lru_cache(maxsize=1024)
def _finds(claim: str, catches: str, level: float, total: int) -> bool:
    """Whether each law is missed no more often than the goal says, by 200 simulated tests; the first misses end it."""
    tested, sizes = as_claim(claim), Sizes.of(total)
    for law in laws_of(catches):
        missed = 0
        for number in range(_FEW):
            missed += not _simulated(law, tested, sizes, level, (_SEED, number), 1)[0]
            if missed > (1.0 - _GOAL) * _FEW:
                return False
    return True


def power(law: Law, claim: str, sizes: Sizes, level: float) -> float:
    """Probability that the test of a claim rejects a law, by 200 to 4,000 simulated trainings: never 1, error about 0.006."""
    powers: list[float] = []
    while len(powers) < _MOST_TRAININGS and (len(powers) < _FEW or np.std(powers) > _ERROR * np.sqrt(len(powers))):
        key = (_SEED, _FEW + len(powers))  # not those that chose the sizes
        powers.append(float(_simulated(law, as_claim(claim), sizes, level, key, _COUNTS).mean()))
    return (sum(powers) + 1.0) / (len(powers) + 2.0)


def _simulated(
    law: Law, claim: Claim, sizes: Sizes, level: float, key: tuple[int, int], counts: int
) -> NDArray[np.bool_]:
    """Whether a test rejects, of several counts of one cell that simulated training chose."""
    rng = np.random.default_rng(np.random.SeedSequence(key[0], spawn_key=key[1:]))

    def draws(side: int, _stage: str, size: int) -> Outputs:
        return law.draw(side, size, rng)

    cell = choose_cell(draws, sizes, *levels_of(claim))
    shares = [law.share(cell, side) for side in (0, 1)]
    seen = rng.binomial(sizes.test, np.clip(shares, 0.0, 1.0), (counts, 2))
    return np.asarray(lower_bound(cell, seen, sizes.test, level) > cell.claimed)
