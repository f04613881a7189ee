"""Audits without a store: losses that learn from draws, counts of fresh draws, or counts that are given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from results import NOWHERE, unmeasured
from studies import make_study

from hpcdp.losses import make_loss
from hpcdp.losses.counts import audit_etas, below, count_losses, eta_thresholds
from hpcdp.losses.protocol import Densities, Side
from hpcdp.notions.perturbed import perturbed_points
from hpcdp.notions.tradeoff import make_tradeoff
from hpcdp.results.result import Result

ETAS = np.array(audit_etas()[::4])
"""Every fourth of an audit's own thresholds, which saves time."""

Draw = Callable[[np.random.Generator, int], Any]
Score = Callable[[Any], Any]


def counted(rejected, training, etas=ETAS, test=1000, train=1000, confidence=0.95) -> Result:
    """A result of counts that are given: rejections (pairs, etas, 2) out of `test` outputs per database.

    training: both errors by training, (pairs, etas, 2).
    """
    rejected, training = np.asarray(rejected), np.asarray(training, float)
    pairs = rejected.shape[0]
    sizes = np.full((pairs, 2), test)
    points = make_tradeoff(rejected, sizes, confidence)
    arrays = {
        "eta": (("eta",), np.asarray(etas, float)),
        "rejected": (("pair", "eta", "side"), rejected),
        "rejected_test": (("pair", "side"), sizes),
        "training_alpha": (("pair", "eta"), training[..., 0]),
        "training_beta": (("pair", "eta"), training[..., 1]),
        "training_rejected": (("pair", "eta", "side"), np.abs([0.0, 1.0] - training)),
        **{name: (("pair", "eta"), getattr(points, name)) for name in ("alpha", "beta", "alpha_upper", "beta_upper")},
    }
    given = [([0.0], [1.0 + pair]) for pair in range(pairs)]
    sizes = {"train": train, "test": test}
    study = make_study("laplace", {"epsilon": 1.0}, given, seed=1, epsilons=[0.0], confidence=confidence, **sizes)
    spectrum = unmeasured(study).arrays  # no output was counted for it
    return Result(study, NOWHERE, True, [{"pair": pair} for pair in range(pairs)], spectrum | arrays, [], 1)


def swapped(result: Result) -> Result:
    """The same counts as those of (D', D)."""
    rejected = (result["rejected_test"][:, None] - result["rejected"])[..., ::-1]
    training = np.stack([result["training_beta"], result["training_alpha"]], axis=-1)
    e = result.study.estimate
    return counted(rejected, training, 1.0 / result["eta"], e.test, e.train, e.confidence)


@dataclass(frozen=True)
class _Scored:
    """A model, and its counter, whose L̂ is any function of the outputs."""

    score: Score
    thresholds: Any = None

    def counter(self, thresholds):
        return _Scored(self.score, thresholds)

    def count(self, outputs):
        return count_losses(np.asarray(self.score(outputs), float), self.thresholds)


@dataclass(frozen=True)
class Scoring:
    """A loss that learns nothing: its L̂ is a function of the outputs that is given."""

    score: Score

    def fit(self, p, q):
        return _Scored(self.score)


@dataclass(frozen=True)
class Overconfident:
    """A loss whose L̂ is that of knn with the wrong sign, tenfold."""

    def fit(self, p, q):
        model = make_loss("knn", {}).fit(p, q)
        return _Scored(lambda outputs: -10.0 * model.score(outputs))


def learned(loss, p: Draw, q: Draw, rng, train=1000, test=1000, reuse=False, confidence=0.95) -> Result:
    """What a loss learns from draws of both laws, counted on fresh draws.

    reuse plants a fault: the outputs that trained and chose η also decide.
    """
    sides = [draw(rng, train) for draw in (p, q)]
    model = loss.fit(*(Side(side, train) for side in sides))
    counter = model.counter(np.sort(eta_thresholds(ETAS)))

    def rejections(draws):
        return np.stack([below(counter.count(side))[::-1] for side in draws], axis=-1)

    own = rejections(sides)
    alpha, beta = own[:, 0] / train, 1.0 - own[:, 1] / train
    if isinstance(model, Densities):
        alpha, beta = perturbed_points(*model.masses(), ETAS)
    fresh = own if reuse else rejections([draw(rng, test) for draw in (p, q)])
    return counted(fresh[None], np.stack([alpha, beta], axis=-1)[None], ETAS, test, train, confidence)


def shifted(law: str, shift: float) -> Draw:
    """Draws of `normal` or `laplace` of scale 1 around `shift`."""
    return lambda rng, size: getattr(rng, law)(shift, 1.0, size)


def mass(probabilities) -> Draw:
    """Draws of a pmf on 0, 1, …"""
    return lambda rng, size: rng.choice(len(probabilities), size, p=probabilities).astype(float)
