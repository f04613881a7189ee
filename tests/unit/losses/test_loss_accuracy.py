"""Estimates of delta by knn against exact values: strata, lattices, bits and atoms.

An estimate may miss by 5 standard errors and an allowance for the classifier, which is fixed beforehand: 0.004 up to
epsilon = 0.5, 0.015 above, or 0.1/sqrt(k π0 π1) when that is more, with π0 = e^eps0/(1 + e^eps0) of a plateau eps0.
"""

from __future__ import annotations

import numpy as np
import pytest
from brute import deltas, exact_deltas, laplace_delta

from hpcdp.losses.counts import merge_thresholds
from hpcdp.losses.knn.knn import Knn, KnnParameters, choose_k
from hpcdp.losses.protocol import Side

EPSILONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)


def check(draw, exact, plateau, size, metric="euclidean", seed=0, epsilons=EPSILONS):
    """Compare with exact(epsilon) -> (forward, reverse); draw(rng, size, side) with side 0 for D, 1 for D'."""
    rng = np.random.default_rng(seed)
    thresholds = merge_thresholds(epsilons, [])
    model = Knn(KnnParameters(metric=metric)).fit(*(Side(draw(rng, size, side), size) for side in (0, 1)))
    counter = model.counter(thresholds)
    histograms = [counter.count(draw(rng, size, side)) for side in (0, 1)]
    odds = np.exp(plateau)
    spread = choose_k("sqrt", 2 * size) * odds / (1 + odds) ** 2
    for epsilon in epsilons:
        allowance = max(0.004 if epsilon <= 0.5 else 0.015, 0.1 / np.sqrt(spread))
        for (got, error), wanted in zip(deltas(*histograms, thresholds, size, epsilon), exact(epsilon), strict=True):
            assert abs(got - wanted) <= 5 * error + allowance, (epsilon, got, wanted, error, allowance)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_index_and_value(scale):
    weights = np.array([[0.4, 0.3, 0.2, 0.1], [0.25, 0.3, 0.15, 0.3]])
    shifts = np.array([0.0, 1.0, -0.5, 0.0])  # of D' in each stratum, in scales

    def draw(rng, size, side):
        index = rng.choice(4, size, p=weights[side])
        return np.column_stack([index, scale * (rng.laplace(size=size) + side * shifts[index])])

    def exact(epsilon):
        sides = (weights, weights[::-1])
        return tuple(
            sum(x * laplace_delta(abs(s), epsilon + np.log(y / x)) for x, y, s in zip(*w, shifts, strict=True))
            for w in sides
        )

    check(draw, exact, 1.0, 1 << 17)


def lattice_laws(scale, shift):
    """Probabilities on the plane of two-sided geometric noise, for two vectors that differ by `shift`."""
    x = np.arange(-40 * scale, 40 * scale + 1)
    laws = []
    for center in (np.zeros(2), np.asarray(shift)):
        columns = [np.exp(-np.abs(x - c) / scale) for c in center]
        laws.append(np.multiply.outer(*(c / c.sum() for c in columns)).ravel())
    return laws


@pytest.mark.parametrize("scale, shift", [(1, (1, 0)), (2, (1, 1)), (10, (10, 0))])
def test_lattice(scale, shift):
    p, q = lattice_laws(scale, shift)
    stop = 1 - np.exp(-1 / scale)

    def draw(rng, size, side):
        noise = rng.geometric(stop, (2, size, 2))
        return noise[0] - noise[1] + side * np.asarray(shift)

    check(draw, lambda epsilon: exact_deltas(p, q, epsilon), sum(shift) / scale, 1 << 17)


@pytest.mark.parametrize("metric", ["hamming", "euclidean"])
@pytest.mark.parametrize(
    "losses", [[1.0] + [0.0] * 11, [0.25] * 12, [0.4] * 3 + [0.0] * 9], ids=["one", "all", "three"]
)
def test_bits(losses, metric):
    ones = 1 / (1 + np.exp(np.array(losses)))  # of D; of D' the complement
    outcomes = (np.arange(1 << 12)[:, None] >> np.arange(12)) & 1
    p, q = (np.where(outcomes == 1, r, 1 - r).prod(axis=1) for r in (ones, 1 - ones))

    def draw(rng, size, side):
        return rng.random((size, 12)) < (ones if side == 0 else 1 - ones)

    check(draw, lambda epsilon: exact_deltas(p, q, epsilon), 1.0, 1 << 18, metric)


def laplace_cdf(x):
    return 0.5 * np.exp(-abs(x)) if x < 0 else 1 - 0.5 * np.exp(-abs(x))


@pytest.mark.parametrize("lower, upper", [(-1.0, 2.0), (0.1, 0.6)])
def test_clamped(lower, upper):
    def draw(rng, size, side):
        return np.clip(rng.laplace(side, size=size), lower, upper)

    def exact(epsilon):
        out = []
        for center in (0.0, 1.0):  # reverse: mirrored about 1/2
            low, high = (lower, upper) if center == 0.0 else (1 - upper, 1 - lower)
            edge = min(max((1 - epsilon) / 2, low), high)  # between the atoms the loss is above epsilon left of this
            pieces = [(-np.inf, low), (low, edge), (high, np.inf)]
            masses = [[laplace_cdf(b - c) - laplace_cdf(a - c) for a, b in pieces] for c in (0.0, 1.0)]
            out.append(exact_deltas(*np.array(masses), epsilon)[0])
        return tuple(out)

    check(draw, exact, 1.0, 1 << 17)
