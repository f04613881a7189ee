"""Draws of L by its classes between thresholds: their laws, and cells as a run makes them, without drawing outputs."""

import numpy as np

from hpcdp.notions.resolution import share_level
from hpcdp.notions.spectrum import exceedances, lower_bounds, make_cells


def laws_by_class(curve, thresholds):
    """Masses of D and of D' in the classes of L between thresholds, (classes, 2); strict above a threshold."""
    eta = np.exp(-thresholds)
    alpha, beta = curve.point(eta)  # P(L < t), Q(L >= t)
    below = np.array([alpha, 1.0 - beta])
    inner = np.diff(np.concatenate([np.zeros((2, 1)), below, np.ones((2, 1))], axis=1), axis=1)
    return np.maximum(inner, 0.0)


def simulate(curve, epsilons, n, rng):
    """Cells of one pair as a run makes them of n test and n training outputs, of an L̂ that is L but for ties."""
    thresholds = np.unique(np.concatenate([-epsilons, epsilons]))
    masses = laws_by_class(curve, thresholds)
    masses /= masses.sum(axis=1, keepdims=True)
    test, train = (rng.multinomial(n, masses) for _ in range(2))
    found = []
    for counts in (test, train):
        below = np.cumsum(counts, axis=1)[:, :-1]
        found.append(exceedances(n - below, below, thresholds, epsilons)[None])
    exceed, sizes = found[0], np.full(found[0].shape, n)
    share = found[1] / n
    level = share_level(share[..., 0] - np.exp(epsilons) * share[..., 1], exceed.shape[:3], 0.05)
    return make_cells(exceed, sizes, share, epsilons, level, 0.95, lower_bounds)
