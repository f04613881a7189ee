"""The one test of a check: some draws learn sets, others choose one cell among them, the last test it.

A cell is a direction, an ε and a set S, which the claim says to have P[S] − e^ε·Q[S] <= δ(ε). Draws that test teach and choose
nothing, so the test is exact whatever was learned: finite-sample, at the check's level. Sets are of views: numbers that stand for
outputs, each of which a few lines of NumPy can compute again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.analytic import ApproximateDP, SpectrumPoints
from hpcdp.errors import MechanismError
from hpcdp.keys import digest_json
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.special import count_special, name_special
from hpcdp.notions.bounds import joint_lower
from hpcdp.study.claims import Claim

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STAGES = ("learn", "choose", "test")

_CELLS = 64  # of equally many outputs, and ever smaller ones towards both ends
_SMALLEST = 16  # outputs of a cell
_LEVELS = 25  # of a claim that is a curve
_MOST_TAUGHT = 1 << 16  # outputs per database that learn, and as many that choose
_NO_MASS = 1e-9
_ROUNDING = 1e-12  # a claimed δ may be off by so much
_MOST_COLUMNS = 32  # looked at one by one, those whose means differ most
_MOST_LINE = 256  # columns of a line, whose covariances are solved
_MOST_VALUES, _FEWEST = 256, 8  # values that are told apart, each seen so often while learning


Draws = Callable[[int, str, int], Outputs]
"""Draws fresh outputs of a side, 0 for D and 1 for D', of a stage: so many."""


class Sizes(NamedTuple):
    """Draws of each database that learn, choose and test."""

    learn: int
    choose: int
    test: int

    @classmethod
    def of(cls, total: int) -> Sizes:
        """`total` >= 4 draws: a quarter learns and a quarter chooses, but no more than 65,536; the rest tests."""
        taught = min(total // 4, _MOST_TAUGHT)
        return cls(taught, taught, total - 2 * taught)

    @property
    def total(self) -> int:
        """Draws of each database in all."""
        return self.learn + self.choose + self.test


@dataclass(frozen=True)
class Declared:
    """One check: claim, catches and seconds as the test gives them; its weight, level, draws and power against catches."""

    claim: str
    catches: str
    seconds: float
    weight: int
    level: float
    draws: Sizes
    power: float

    @property
    def digest(self) -> str:
        """Of what was planned together. People may change the weight; the level must be the share that it has."""
        planned = asdict(self) | {"draws": [*self.draws]}
        return digest_json([planned[name] for name in sorted(planned.keys() - {"weight", "level"})])


@dataclass(frozen=True)
class View:
    """A number of each output.

    name: "number", "value", "column", "line", "max", "argmax", "min" or "sum". column: of "column". centre, weights: of "line":
    weights times the columns and their distances from the centre. values: of "value", whose place it gives, −1 of all others.
    """

    name: str
    column: int = 0
    centre: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    values: tuple[Any, ...] = ()

    def apply(self, outputs: Outputs) -> Floats:
        """The number of each of some canonical outputs, shape (size,)."""
        if self.name == "number":
            return np.asarray(outputs, np.float64)
        if self.name == "value":
            return np.array([self._places.get(value, -1) for value in keys_of(outputs)], np.float64)
        numbers = np.asarray(outputs, np.float64)
        if self.name == "column":
            return numbers[:, self.column]
        if self.name == "line":
            return _features(numbers, np.array(self.centre)) @ np.array(self.weights)
        return np.asarray(getattr(numbers, self.name)(axis=1), np.float64)

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.values)}


def keys_of(outputs: Outputs) -> list[Any]:
    """Outputs as what can be told apart: bytes, or tuples of numbers."""
    return outputs.tolist() if outputs.ndim == 1 else [tuple(row) for row in outputs.tolist()]


def views_of(p: Outputs, q: Outputs) -> list[View]:
    """The views that suit outputs of D (p) and D' (q), seen while learning."""
    numbers = [View("number")] if p.dtype != object and p.ndim == 1 else []
    if numbers and not (_is_rounded(p) or _is_rounded(q)):
        return numbers
    common = Counter(keys_of(p)) + Counter(keys_of(q))
    values = tuple(value for value, count in common.most_common(_MOST_VALUES) if count >= _FEWEST)
    views = [View("value", values=values)] if values else []
    if p.dtype == object or numbers:
        return [*views, *numbers] or [View("value")]
    a, b = np.asarray(p, np.float64), np.asarray(q, np.float64)
    spread = np.sqrt(a.var(0) + b.var(0)) + np.finfo(float).tiny
    apart = np.argsort(-np.abs(a.mean(0) - b.mean(0)) / spread, kind="stable")[:_MOST_COLUMNS]
    views += [View("column", column=int(column)) for column in np.sort(apart)]
    views += [View(name) for name in ("max", "argmax", "min", "sum")]
    return [*views, _line(a, b)] if a.shape[1] <= _MOST_LINE else views


def _is_rounded(outputs: Outputs) -> bool:
    """Whether some are integers that float64 does not tell from their neighbours."""
    return outputs.dtype == np.int64 and bool(((outputs > 1 << 53) | (outputs < -(1 << 53))).any())


def _features(numbers: Floats, centre: Floats) -> Floats:
    return np.hstack([numbers, np.abs(numbers - centre)])


def _line(a: Floats, b: Floats) -> View:
    """Fisher's discriminant of the columns and their distances from the medians, which see a shift and a changed width."""
    centre = np.median(np.concatenate([a, b]), axis=0)
    x, y = _features(a, centre), _features(b, centre)
    within = (np.atleast_2d(np.cov(x.T)) + np.atleast_2d(np.cov(y.T))) / 2.0
    ridge = 1e-6 * np.diag(within).mean() + np.finfo(float).tiny
    weights = np.linalg.lstsq(within + ridge * np.eye(within.shape[0]), x.mean(0) - y.mean(0), rcond=None)[0]
    return View("line", centre=tuple(centre.tolist()), weights=tuple(weights.tolist()))


@dataclass(frozen=True)
class Cell:
    """What is tested: that a − e^ε·b <= claimed, of the probabilities of a set of outputs on both sides.

    direction: "forward", where a is of D and b of D', or "reverse". view, intervals: outputs whose number lies in one of the
    half-open intervals are in the set.
    """

    direction: str
    epsilon: float
    claimed: float
    view: View
    intervals: tuple[tuple[float, float], ...]

    def count(self, outputs: Outputs) -> int:
        """How many outputs are in the set."""
        return int(self.holds(self.view.apply(outputs)).sum())

    def holds(self, numbers: Floats) -> NDArray[np.bool_]:
        """Which numbers of the view are in the set."""
        ends = np.array(self.intervals, np.float64).ravel()
        return np.searchsorted(ends, numbers, "right") % 2 == 1


def lower_bound(cell: Cell, counts: ArrayLike, test: int, level: float) -> Floats:
    """Lower bound on a − e^ε·b, shape (…,), finite-sample; what is not above the claim may be smaller yet. counts: (…, 2)."""
    both = np.asarray(counts, np.int64)
    x0, x1 = (both[..., side] for side in ((0, 1) if cell.direction == "forward" else (1, 0)))
    return np.asarray(joint_lower(x0, test, x1, test, math.exp(cell.epsilon), level, floor=cell.claimed))


@lru_cache(maxsize=64)
def levels_of(claim: Claim) -> tuple[Floats, Floats]:
    """The ε at which a claim is tested, and the largest δ that it allows there."""
    if isinstance(claim.bound, ApproximateDP):
        return np.array([claim.bound.epsilon0]), np.array([claim.bound.delta0])  # elsewhere it says nothing more
    if isinstance(claim.bound, SpectrumPoints):
        levels = np.asarray(claim.bound.epsilons, np.float64)
        levels = levels[np.unique(np.linspace(0, levels.size - 1, _LEVELS).round().astype(int))]
    else:
        levels = np.linspace(0.0, _end(claim), _LEVELS)
    allowed = np.minimum(claim.implied(levels) + _ROUNDING, 1.0)
    return levels, allowed


def _end(claim: Claim) -> float:
    """About the least ε at which the claim allows no δ to speak of."""
    low, high = 0.0, 1.0
    while float(claim.delta(high)) > _NO_MASS and high < 64.0:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(claim.delta(middle)) > _NO_MASS else (low, middle)
    return high


def choose_cell(draws: Draws, sizes: Sizes, levels: Floats, claimed: Floats) -> Cell:
    """Learn sets by some draws, and choose by others the cell furthest above the claim in standard errors of a test."""
    learned = [draws(side, "learn", sizes.learn) for side in (0, 1)]
    if count_special(learned[0][:1]) and len({key for outputs in learned for key in keys_of(outputs)}) == 1:
        raise MechanismError(
            f"every output that was drawn is {name_special(learned[0])}, so that there is nothing to compare"
        )
    chosen = [draws(side, "choose", sizes.choose) for side in (0, 1)]
    found = [_best_of(view, learned, chosen, sizes, levels, claimed) for view in views_of(*learned)]
    return max(found, key=itemgetter(0))[1]


def _best_of(
    view: View, learned: list[Outputs], chosen: list[Outputs], sizes: Sizes, levels: Floats, claimed: Floats
) -> tuple[float, Cell]:
    x, y = (view.apply(outputs) for outputs in learned)
    edges = _edges(np.concatenate([x, y]))
    taught = [np.bincount(np.searchsorted(edges, v, "right"), minlength=edges.size + 1) for v in (x, y)]
    order = np.argsort(np.log(taught[1] + 0.5) - np.log(taught[0] + 0.5), kind="stable")  # largest L̂ first
    tested = [
        np.bincount(np.searchsorted(edges, view.apply(outputs), "right"), minlength=edges.size + 1)
        for outputs in chosen
    ]
    found = []
    for direction, first in (("forward", order), ("reverse", order[::-1])):
        p, q = tested if direction == "forward" else tested[::-1]
        score = _scores(np.cumsum(p[first])[:, None], np.cumsum(q[first])[:, None], sizes, levels, claimed)
        row, column = (int(i) for i in np.unravel_index(int(score.argmax()), score.shape))
        intervals = _intervals(edges, first[: row + 1])
        cell = Cell(direction, float(levels[column]), float(claimed[column]), view, intervals)
        found.append((float(score[row, column]), cell))
    return max(found, key=itemgetter(0))


def _scores(x0: Ints, x1: Ints, sizes: Sizes, levels: Floats, claimed: Floats) -> Floats:
    """Distances from the claim in standard errors, shape (sets, E), of rates that are never 0 or 1."""
    a, b, c = (x0 + 1.0) / (sizes.choose + 2.0), (x1 + 1.0) / (sizes.choose + 2.0), np.exp(levels)
    variance = (a * (1.0 - a) + c * c * b * (1.0 - b)) * (1.0 / sizes.choose + 1.0 / sizes.test)
    return np.asarray((a - c * b - claimed) / np.sqrt(variance))


def _edges(pooled: Floats) -> Floats:
    """Where cells of a view begin, increasing: each value's own of few, else quantiles, with single cells of common values."""
    values, counts = np.unique(pooled, return_counts=True)
    if values.size <= 2 * _CELLS:
        return values
    tails = pooled.size >> np.arange(1, pooled.size.bit_length())
    tails = tails[tails >= _SMALLEST]
    places = np.unique(
        np.concatenate([np.linspace(0, pooled.size, _CELLS + 1)[1:-1].astype(int), tails, pooled.size - tails])
    )
    last = np.cumsum(counts)
    starts = values[np.searchsorted(last, places, "right")]
    common = values[counts >= max(_SMALLEST, pooled.size // (4 * _CELLS))]
    return np.unique(np.concatenate([starts, common, np.nextafter(common, np.inf)]))


def _intervals(edges: Floats, cells: Ints) -> tuple[tuple[float, float], ...]:
    """The cells as half-open intervals, neighbours as one."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    inside = np.zeros(edges.size + 3, np.int64)
    inside[cells + 1] = 1
    steps = np.diff(inside)
    starts, stops = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return tuple((float(ends[i]), float(ends[j])) for i, j in zip(starts, stops, strict=True))
