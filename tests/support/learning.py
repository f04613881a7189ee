"""Laws, sides and comparisons for the tests of the loss `learned`."""

import numpy as np
from brute import deltas

from hpcdp.analytic import LaplaceShift
from hpcdp.losses import make_loss
from hpcdp.losses.counts import merge_thresholds
from hpcdp.losses.learned.learned import Learned, LearnedModel
from hpcdp.losses.protocol import Side

EPSILONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
REGRET = 0.01
LDA = "sklearn.discriminant_analysis:LinearDiscriminantAnalysis"
SVC = "sklearn.svm:LinearSVC"


def learned(classifier="mlp", **parameters) -> Learned:
    return make_loss("learned", {"classifier": classifier, **parameters})


def agree(model: LearnedModel, draw, exact, size: int, seed: int, epsilons=EPSILONS) -> None:
    """Compare counts of fresh outputs, draw(rng, size, side), with exact(epsilon) -> (forward, reverse)."""
    rng = np.random.default_rng(seed)
    thresholds = merge_thresholds(epsilons, [])
    histograms = [model.counter(thresholds).count(draw(rng, size, side)) for side in (0, 1)]
    for epsilon in epsilons:
        for (got, error), wanted in zip(deltas(*histograms, thresholds, size, epsilon), exact(epsilon), strict=True):
            assert wanted - 5 * error - REGRET <= got <= wanted + 5 * error, (epsilon, got, wanted, error)


def laplace(rng, size, side):
    return rng.laplace(size=size) + side


def mixture(rng, size, side):
    """An index that tells nothing, and Laplace noise around −1, 0 or 1 times the side, by the index."""
    index = rng.integers(0, 3, size)
    return np.column_stack([index, rng.laplace(size=size) + side * (index - 1)])


def thirds(epsilon):
    return (2 / 3 * float(LaplaceShift(1.0).delta(np.array([epsilon]), "forward")[0]),) * 2


def both(curve):
    return lambda epsilon: tuple(float(curve.delta(np.array([epsilon]), d)[0]) for d in ("forward", "reverse"))


def vector(shifts, noise):
    def draw(rng, size, side):
        return getattr(rng, noise)(size=(size, shifts.size)) + side * shifts

    return draw


def sides(draw, size: int, seed: int = 0) -> tuple[Side, Side]:
    rng = np.random.default_rng(seed)
    return tuple(Side(draw(rng, size, side), size) for side in (0, 1))
