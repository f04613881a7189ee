"""The exact spectrum of a study, where its mechanism has one."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.analytic import exact
from hpcdp.results.exported import Exported
from hpcdp.store.root import latest_version
from hpcdp.study.databases import Pair, enumerate_pairs
from hpcdp.study.distributions import Conditional
from hpcdp.study.stored import stored_databases

if TYPE_CHECKING:
    from hpcdp.analytic import Curve
    from hpcdp.results.result import Result

_MOST_PAIRS = 5_000  # beyond, the maximum is not worth a plot's wait; by number, so that equal stores make equal pages


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
