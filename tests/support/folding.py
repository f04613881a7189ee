"""Laws, and counts of cross-fitted and of prequential blocks, for the tests of samples that teach and test."""

import numpy as np
from scipy.special import ndtri

from hpcdp.analytic import Discrete, GaussianShift, LaplaceShift
from hpcdp.losses.frequency import Frequency
from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.protocol import Side
from hpcdp.notions.prequential import folds

LEVELS = (np.arange(4000) + 0.5) / 4000
VALUES = np.arange(-150, 151)


def _pmf(centre):
    weights = np.exp(-np.abs(VALUES - centre) / 30.0)
    return weights / weights.sum()


def _laplace_quantiles(levels):
    return np.where(levels < 0.5, np.log(2.0 * levels), -np.log(2.0 - 2.0 * levels))


class Shifted:
    """Noise around `shift` for D and around 0 for D'; `measure` gives points of equal mass under each."""

    def __init__(self, noise, quantiles, shift, curve):
        self.noise, self.shift, self.curve = noise, shift, curve
        self.quantiles = quantiles(LEVELS)

    def draw(self, rng, size):
        noise = getattr(rng, self.noise)
        return self.shift + noise(size=size), noise(size=size)

    def masses(self, model, epsilon):
        """P and Q of {L̂ > ε}, to some 1/4000."""
        return tuple((model.score(self.quantiles + shift) > epsilon).mean() for shift in (self.shift, 0.0))


class Integers:
    """Two-sided geometric laws on 301 values, ten or so outputs a value at most: rich enough to be learned by heart."""

    def __init__(self):
        self.p, self.q = _pmf(15), _pmf(-15)
        self.curve = Discrete(self.p, self.q)

    def draw(self, rng, size):
        return tuple(rng.choice(VALUES, size=size, p=law) for law in (self.p, self.q))

    def masses(self, model, epsilon):
        inside = model.score(VALUES) > epsilon
        return self.p[inside].sum(), self.q[inside].sum()


CASES = {
    "gaussian": (Shifted("normal", ndtri, 0.8, GaussianShift(0.8)), Knn(), 0.5),
    "laplace": (Shifted("laplace", _laplace_quantiles, 1.3, LaplaceShift(1.3)), Knn(), 0.6),
    "integers": (Integers(), Frequency(), 0.4),
}


def learn(loss, p, q):
    return loss.fit(Side(p, p.shape[0]), Side(q, q.shape[0]))


def count(model, p, q, epsilon):
    return (model.score(p) > epsilon).sum(), (model.score(q) > epsilon).sum()


def cross_count(loss, p, q, epsilon, parts):
    """Counts of the folds (2, parts), their sizes, and the model of each."""
    found, models = [], []
    cut = folds(p.shape[0], parts)
    for fold in cut:
        held = np.zeros(p.shape[0], bool)
        held[fold.start : fold.stop] = True
        models.append(learn(loss, p[~held], q[~held]))
        found.append(count(models[-1], p[held], q[held], epsilon))
    return np.array(found).T, np.array([len(fold) for fold in cut]), models


def block_counts(loss, p, q, epsilon, cut, saw_itself=False):
    """Counts (2, blocks), practice first. saw_itself, the planted fault: the loss of a block has learned that block."""
    first = cut[0].stop
    found = [cross_count(loss, p[:first], q[:first], epsilon, 4)[0].sum(axis=1)]
    for block in cut[1:]:
        known = block.stop if saw_itself else block.start
        inside = slice(block.start, block.stop)
        found.append(count(learn(loss, p[:known], q[:known]), p[inside], q[inside], epsilon))
    return np.array(found).T
