"""How likely the planned test, training included, finds a violation if outputs follow one given law.

The whole of it is simulated with a fixed seed, so that the same check has the same power everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import StudyError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.study.claims import Claim, as_claim
from hpcdp.testing.alternatives import Law, laws_of
from hpcdp.testing.planned import Sizes, choose_cell, levels_of, lower_bound

LEAST_POWER = 0.9
"""A check that finds what it is to catch less often is inconclusive."""

_GOAL = 0.995  # no more draws than it takes for this
_FEW, _MOST_TRAININGS = 200, 4000  # trainings: while sizes and sets are looked for; for the power that is said
_COUNTS, _ERROR = 4, 0.006  # counts of each training's cell; standard error that is small enough
_FEWEST_DRAWS, _MOST_DRAWS = 1 << 8, 1 << 26
_STEP = 2.0**0.5
_MOST_EPSILON = 700.0  # e^ε is a number
_SEED = 20261125


@dataclass(frozen=True)
class Planned:
    """Draws, and the power against what is to be caught: the mean over simulated trainings."""

    sizes: Sizes
    power: float


def plan_sizes(claim: str, catches: str, level: float, most: int) -> Planned:
    """The fewest draws of each database, up to a factor of 1.4, with a power of about 99.5 %; `most` where that takes more.

    Args:
        claim, catches: their texts; `catches` must name a law that violates the claim.
        level: failure probability of the test, above 0 and below 1.
        most: draws of each database, >= 4.

    Raises:
        StudyError: the claim allows what it is to catch, or a text is wrong.
    """
    return _planned(claim, catches, level, min(most, needed_draws(claim, catches, level)))


@lru_cache(maxsize=256)
def _planned(claim: str, catches: str, level: float, total: int) -> Planned:
    sizes = Sizes.of(total)
    return Planned(sizes, min(power(law, claim, sizes, level) for law in laws_of(catches)))


def refuse_allowed(claim: str, catches: str) -> None:
    """StudyError where a text is wrong, or the claim allows what the check is to catch, or is of an ε that no draws can test."""
    laws, (levels, allowed) = laws_of(catches), levels_of(as_claim(claim))
    if levels.max() > _MOST_EPSILON:
        raise StudyError(f"claim: {claim} was given; accepted: a claim of an ε of at most {_MOST_EPSILON:g}")
    if not any(law.delta(float(e)) > d for law in laws for e, d in zip(levels, allowed, strict=True)):
        raise StudyError(f"catches: {catches} was given, which {claim} allows; accepted: what violates the claim")


@lru_cache(maxsize=256)
def needed_draws(claim: str, catches: str, level: float) -> int:
    """Draws of each database with which the test misses at most one in 200 simulated violations; at most 2²⁶."""
    refuse_allowed(claim, catches)
    laws, tested = laws_of(catches), as_claim(claim)
    total = float(_FEWEST_DRAWS)
    while total < _MOST_DRAWS and not all(_is_enough(law, tested, Sizes.of(round(total)), level) for law in laws):
        total *= _STEP
    return min(round(total), _MOST_DRAWS)


def _is_enough(law: Law, claim: Claim, sizes: Sizes, level: float) -> bool:
    """Whether a law is missed no more often than the goal says, by 200 simulated tests; the first misses end it."""
    missed = 0
    for number in range(_FEW):
        missed += not _simulated(law, claim, sizes, level, (_SEED, number), 1)[0]
        if missed > (1.0 - _GOAL) * _FEW:
            return False
    return True


def power(law: Law, claim: str, sizes: Sizes, level: float, most: int = _MOST_TRAININGS, seed: int = _SEED) -> float:
    """Probability that the test of a claim, training included, rejects where outputs follow a law.

    Estimated from simulated trainings, at least 200 and at most `most`, by Laplace's rule of succession, so that it is never 1;
    the standard error is about 0.006 or less. Counts of the cell that training chose are drawn from its exact probabilities.
    """
    found: list[float] = []
    while len(found) < most and (len(found) < _FEW or np.std(found) > _ERROR * np.sqrt(len(found))):
        key = (seed, _FEW + len(found))  # not those that chose the sizes
        found.append(float(_simulated(law, as_claim(claim), sizes, level, key, _COUNTS).mean()))
    return (sum(found) + 1.0) / (len(found) + 2.0)


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
