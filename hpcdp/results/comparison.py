"""Results beside each other, at each common ε which is below which beyond the bounds; and beside the exact spectrum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.analytic import Curve, exact
from hpcdp.errors import StudyError
from hpcdp.results.load import Exported
from hpcdp.results.result import Result, rows_of
from hpcdp.results.verdict import careful_error
from hpcdp.store.root import latest_version
from hpcdp.study.databases import Pair, enumerate_pairs
from hpcdp.study.distributions import Conditional
from hpcdp.study.stored import stored_databases

Floats = NDArray[np.float64]

_MOST_PAIRS = 5_000  # beyond, the maximum is not worth a plot's wait; by number, so that equal stores make equal pages
_SAME = 1e-9  # levels of two grids that differ by less are one level


@dataclass(frozen=True, eq=False)
class Comparison:
    """Spectra at their common levels.

    results, names: at least two, each with a name of its own. epsilon: common levels, shape (k,). delta, lower, upper,
    standard_error: shape (results, k), the largest estimate, certified bound and approximate limit of each result, and the
    standard error of the largest estimate. limit: the same shape, where the largest estimate is not resolved an upper
    limit of what the learned sets hold (see `hpcdp.results.resolution`), else NaN. below: entry (i, j, k) is whether result i is
    below result j beyond the bounds: the certified lower bound of j is above the approximate upper limit of i, and above its
    `limit`. Finite-sample for j, but **approximate** for i, as nothing certifies an upper limit: normal, one cell at a
    time, and without the regret of i's classifier.
    """

    results: tuple[Result, ...]
    names: tuple[str, ...]
    epsilon: Floats
    delta: Floats
    lower: Floats
    upper: Floats
    standard_error: Floats
    limit: Floats

    @property
    def reach(self) -> Floats:
        """What each may reach, shape (results, k): the largest of approximate limit, that of the sets, and what is certified."""
        return np.fmax(np.fmax(self.upper, self.limit), self.lower)

    @property
    def below(self) -> NDArray[np.bool_]:
        """Shape (results, results, k), see the class."""
        return np.asarray(self.reach[:, None] < self.lower)

    @property
    def complete(self) -> bool:
        """Whether all results are."""
        return all(result.complete for result in self.results)

    def score(self, i: int, j: int) -> Floats:
        """(δ̂ of j − δ̂ of i) in standard errors of the difference, shape (k,); asymptotic, results taken as independent."""
        spread = np.hypot(self.standard_error[i], self.standard_error[j])
        return np.asarray((self.delta[j] - self.delta[i]) / spread)

    def to_dict(self) -> dict[str, Any]:
        """The object that `compare --format json` prints."""
        return {
            "complete": self.complete,
            "stores": [
                {
                    "name": name,
                    "store": str(result.store),
                    "confidence": result.confidence,
                    "complete": result.complete,
                    **result.changed_entry,
                }
                for name, result in zip(self.names, self.results, strict=True)
            ],
            "spectra": [{"name": name} | row for i, name in enumerate(self.names) for row in self._rows(i)],
            "below": [
                {
                    "below": self.names[i],
                    "above": self.names[j],
                    "epsilon": float(self.epsilon[k]),
                    "upper": float(self.reach[i, k]),
                    "lower": float(self.lower[j, k]),
                }
                for i, j in permutations(range(len(self.names)), 2)
                for k in np.flatnonzero(self.below[i, j])
            ],
        }

    def _rows(self, i: int) -> list[dict[str, Any]]:
        """What JSON has of one result, but for its name."""
        names = ("delta", "lower", "upper", "standard_error")
        limits = np.where(np.isnan(self.limit[i]), None, self.limit[i])
        return rows_of({"epsilon": self.epsilon, **{name: getattr(self, name)[i] for name in names}, "limit": limits})


def compare(results: Sequence[Result]) -> Comparison:
    """Put results beside each other at the levels that all have counts for; StudyError: fewer than two, or no common level."""
    if len(results) < 2:
        raise StudyError(f"compare: {len(results)} store was given; accepted: two or more")
    without = [result.name for result in results if "spectrum" not in result.notions]
    if without:
        raise StudyError(
            f"compare: needs studies with counts by ε; given, with [pure] or [at_risk]: {', '.join(without)}"
        )
    leading = [_leading(result) for result in results]
    places = [[_place(levels, e) for levels, _ in leading] for e in leading[0][0]]
    shared = [row for row in places if None not in row]
    if not shared:
        grids = "; ".join(f"{r.name}: {', '.join(f'{e:g}' for e in leading[i][0])}" for i, r in enumerate(results))
        raise StudyError(f"compare: the stores have no ε in common that is counted in each ({grids})")
    columns = np.array(shared, np.int64)
    common = leading[0][0][columns[:, 0]]
    values = np.stack([rows[:, columns[:, i]] for i, (_, rows) in enumerate(leading)])
    return Comparison(tuple(results), _names(results), common, *np.moveaxis(values, 1, 0))


def _leading(result: Result) -> tuple[Floats, Floats]:
    """Levels with a known cell, ascending, and δ̂, lower, upper, the standard error of δ̂ and its limit there, shape (5, k)."""
    names = ("spectrum_delta", "spectrum_lower", "spectrum_upper")
    place = (result["spectrum_pair"], result["spectrum_direction"], np.arange(result["epsilon"].size))
    rows = np.stack([*(result[name] for name in names), careful_error(result)[place], result.resolution.limits])
    order = np.argsort(result["epsilon"])
    order = order[~np.isnan(rows[0, order])]
    return result["epsilon"][order], rows[:, order]


def _place(levels: Floats, epsilon: float) -> int | None:
    """Where a level is in a grid, if it is."""
    near = np.flatnonzero(np.abs(levels - epsilon) <= _SAME * max(1.0, abs(epsilon)))
    return int(near[0]) if near.size else None


def _names(results: Sequence[Result]) -> tuple[str, ...]:
    """The studies' names; where two are equal, the stores' paths."""
    names = [result.name for result in results]
    if len(set(names)) == len(names):
        return tuple(names)
    paths = [str(result.store) for result in results]
    if len(set(paths)) < len(paths):
        raise StudyError(f"compare: {', '.join(paths)}; accepted: stores that differ")
    return tuple(path if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True))


def largest_difference(comparison: Comparison, i: int, j: int) -> tuple[float, float, float]:
    """Where two spectra differ most in standard errors: ε, δ̂ of j − δ̂ of i, and how many standard errors. Asymptotic."""
    score = comparison.score(i, j)
    place = int(np.abs(score).argmax())
    difference = float(comparison.delta[j, place] - comparison.delta[i, place])
    return float(comparison.epsilon[place]), difference, math.fabs(float(score[place]))


def exact_of(result: Result, epsilon: ArrayLike) -> NDArray[np.float64] | None:
    """Largest exact δ over pairs and directions at each ε, shape of epsilon; None where a pair has no closed form."""
    if len(result.pairs) > _MOST_PAIRS:
        return None
    grid = np.asarray(epsilon, np.float64)
    best = np.zeros(grid.shape)
    for number in range(len(result.pairs)):
        if (curve := exact_curve(result, number)) is None:
            return None
        best = np.maximum(best, np.maximum(curve.delta(grid, "forward"), curve.delta(grid, "reverse")))
    return best if result.pairs else None


def exact_curve(result: Result, number: int) -> Curve | None:
    """The exact curves of one pair of a result; None where there is no closed form."""
    call, pairs = result.study.mechanism.call, _stored_pairs(result)
    if pairs is None or not isinstance(call, str):
        return None  # of a program nothing is known
    pair = pairs[number]
    if isinstance(pair.d, Conditional) or isinstance(pair.d_prime, Conditional):
        return None
    return exact(call, result.study.mechanism.parameters, pair.d, pair.d_prime)


@lru_cache(maxsize=1)
def _stored_pairs(result: Result) -> list[Pair] | None:
    """Pairs of a result; those of the last one are kept, because neighbours are told apart by the bytes of all."""
    if result.study.pairs.distributional is not None or isinstance(result, Exported):
        return None
    layout = result.layout
    return enumerate_pairs(result.study, stored_databases(layout, latest_version(layout)))
