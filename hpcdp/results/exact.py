"""The exact spectrum of a study, where its mechanism has one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.analytic import exact
from hpcdp.results.exported import Exported
from hpcdp.store.root import latest_version
from hpcdp.study.databases import Pair, enumerate_pairs
from hpcdp.study.distributions import Conditional
from hpcdp.study.file import Study
from hpcdp.study.stored import stored_databases

if TYPE_CHECKING:
    from hpcdp.analytic import Curve
    from hpcdp.results.result import Result

_MOST_PAIRS, _MOST_SECONDS = 20_000, 60.0  # beyond these, the maximum over pairs is not worth a plot's wait


def exact_spectrum(
    study: Study, pairs: Iterable[Pair], epsilon: ArrayLike, seconds: float = _MOST_SECONDS
) -> NDArray[np.float64] | None:
    """Largest exact δ over pairs and directions at each ε, shape of epsilon; None where a pair has no closed form.

    seconds: after which it is given up, None.
    """
    grid = np.asarray(epsilon, np.float64)
    best, begin = np.zeros(grid.shape), time.monotonic()
    for number, pair in enumerate(pairs):
        curve = _curve_of(study, pair)
        if curve is None or number >= _MOST_PAIRS or time.monotonic() - begin > seconds:
            return None
        best = np.maximum(best, np.maximum(curve.delta(grid, "forward"), curve.delta(grid, "reverse")))
    return best


def exact_of(result: Result, epsilon: ArrayLike, seconds: float = _MOST_SECONDS) -> NDArray[np.float64] | None:
    """The same of a result, whose databases are read from its store."""
    pairs = _stored_pairs(result)
    return None if pairs is None else exact_spectrum(result.study, pairs, epsilon, seconds)


def exact_curve(result: Result, pair: int) -> Curve | None:
    """The exact curves of one pair of a result; None where there is no closed form."""
    pairs = _stored_pairs(result)
    return None if pairs is None else _curve_of(result.study, pairs[pair])


def _curve_of(study: Study, pair: Pair) -> Curve | None:
    call = study.mechanism.call
    if not isinstance(call, str) or isinstance(pair.d, Conditional) or isinstance(pair.d_prime, Conditional):
        return None  # of a program nothing is known
    return exact(call, study.mechanism.parameters, pair.d, pair.d_prime)


@lru_cache(maxsize=1)
def _stored_pairs(result: Result) -> list[Pair] | None:
    """Pairs of a result; those of the last one are kept, because neighbours are told apart by the bytes of all."""
    if result.study.pairs.distributional is not None or isinstance(result, Exported):
        return None
    layout = result.layout
    return enumerate_pairs(result.study, stored_databases(layout, latest_version(layout)))
