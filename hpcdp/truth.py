"""The exact spectrum of a study, where its mechanism has one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.databases import Pair
from hpcdp.distributions import Conditional
from hpcdp.study import Study

_MOST_PAIRS = 20_000  # beyond this many, the maximum over pairs is not worth a plot's wait


def exact_spectrum(study: Study, pairs: Iterable[Pair], epsilon: ArrayLike) -> NDArray[np.float64] | None:
    """Largest exact δ over pairs and directions at each ε, shape of epsilon; None where a pair has no closed form."""
    from hpcdp.analytic import exact

    grid = np.asarray(epsilon, np.float64)
    best = np.zeros(grid.shape)
    for number, pair in enumerate(pairs):
        if isinstance(pair.d, Conditional) or isinstance(pair.d_prime, Conditional):
            return None
        curve = exact(study.mechanism.call, study.mechanism.parameters, pair.d, pair.d_prime)
        if curve is None or number >= _MOST_PAIRS:
            return None
        best = np.maximum(best, np.maximum(curve.delta(grid, "forward"), curve.delta(grid, "reverse")))
    return best
