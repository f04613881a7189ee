"""What a check must be able to find: one law of outputs on D and D', named by its curve or by its δ at one ε."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hpcdp.analytic import ApproximateDP, GaussianShift, LaplaceShift
from hpcdp.errors import StudyError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.study.claims import as_claim
from hpcdp.testing.planned import Cell

ACCEPTED = "laplace(epsilon=...), gaussian(mu=...), gaussian(epsilon=..., delta=...), dp(epsilon=..., delta=0) or delta(E) >= D"

_NUMBER = r"([0-9.eE+-]+)"
_AT_LEAST = re.compile(rf"\s*delta\(\s*(?:epsilon\s*=\s*)?{_NUMBER}\s*\)\s*>=\s*{_NUMBER}\s*")
_SETS = 16  # probabilities of the set of a given δ among which the least favourable is looked for


class Law(Protocol):
    """Outputs on both sides, 0 for D and 1 for D'."""

    def draw(self, side: int, size: int, rng: np.random.Generator) -> Outputs:
        """`size` independent outputs, in any order."""
        ...

    def share(self, cell: Cell, side: int) -> float:
        """Probability of a cell's set."""
        ...

    def delta(self, epsilon: float) -> float:
        """The larger exact δ of both directions."""
        ...


@dataclass(frozen=True)
class Noise:
    """A number with Laplace or normal noise: 0 on D, 1 on D'. scale: of the noise, above 0."""

    curve: LaplaceShift | GaussianShift
    scale: float

    def draw(self, side: int, size: int, rng: np.random.Generator) -> Outputs:
        """As `Law`."""
        is_laplace = isinstance(self.curve, LaplaceShift)
        return rng.laplace(side, self.scale, size) if is_laplace else rng.normal(side, self.scale, size)

    def share(self, cell: Cell, side: int) -> float:
        """As `Law`; cells are of the number itself."""
        ends = (np.array(cell.intervals) - side) / self.scale
        return float(np.diff(self._below(ends), axis=1).sum())

    def _below(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        if isinstance(self.curve, GaussianShift):
            return np.asarray(ndtr(z))
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0.0, tail, 1.0 - tail)

    def delta(self, epsilon: float) -> float:
        """As `Law`."""
        return float(self.curve.spectrum(epsilon))


@dataclass(frozen=True)
class Table:
    """Outcomes 0, 1, … with their probabilities on D and on D'."""

    both: tuple[tuple[float, ...], tuple[float, ...]]

    def draw(self, side: int, size: int, rng: np.random.Generator) -> Outputs:
        """As `Law`."""
        law = np.array(self.both[side])
        return np.repeat(np.arange(law.size), rng.multinomial(size, law))

    def share(self, cell: Cell, side: int) -> float:
        """As `Law`."""
        law = np.array(self.both[side])
        return float(law[cell.holds(np.arange(law.size, dtype=np.float64))].sum())

    def delta(self, epsilon: float) -> float:
        """As `Law`."""
        p, q = np.array(self.both)
        c = math.exp(epsilon)
        return float(max(np.maximum(p - c * q, 0.0).sum(), np.maximum(q - c * p, 0.0).sum()))


def laws_of(catches: str) -> Sequence[Law]:
    """The law that `catches` names; of a δ at one ε the sets that have it, among which the least favourable is to be found.

    A curve stands for its mechanism: `laplace` and `gaussian` for a number with noise, `dp` for randomised response, which says
    with probability δ for sure where it comes from. `delta(E) >= D` stands for one set S with P[S] − e^E·Q[S] = D, and nothing
    else to see.

    Raises:
        StudyError: the text names no law; the message says what is accepted.
    """
    found = _AT_LEAST.fullmatch(catches)
    if found:
        return _sets(catches, *(_number(catches, text) for text in found.groups()))
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
