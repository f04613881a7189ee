"""Certified bounds on Rényi divergences of named orders: counts by class, a score that training chose, two bets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.index import Index
from hpcdp.methods.classes import families, training_counts
from hpcdp.notions.renyi import class_counts
from hpcdp.notions.resolution import share_level
from hpcdp.notions.spectrum import by_direction, exceedances
from hpcdp.notions.variational import choose_scores, class_losses, place_bets, variational_lower
from hpcdp.store.results import Arrays

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DIMS = ("pair", "direction", "order")


def variational_arrays(problem: Problem, index: Index, arrays: Arrays) -> Arrays:
    """Certified bounds on both directions of each pair and order, and what each failure probability is; NaN where unknown.

    All of a study's failure probability, apart from that of other families: half of it shared equally, half by the pair and
    direction that training ranks first at each order. Half of a share is that of either mean.
    """
    orders = np.array(problem.study.estimate.renyi or (), np.float64)
    exceed, test = arrays["exceed"][1], arrays["test"][1]
    shape, failure = (exceed.shape[0], 2, orders.size), 1.0 - problem.study.estimate.confidence
    epsilons, tests = np.asarray(problem.study.epsilons), test[:, :, 0].reshape(-1, 2)
    training, counts = (
        _both(classes) for classes in (_training(problem, index, epsilons), class_counts(exceed, epsilons, test))
    )
    counts[np.repeat(several_losses(arrays), 2)] = -1
    middle = class_losses(epsilons)
    losses = np.tile(np.stack([middle, -middle]), (shape[0], 1))
    each = failure / (2 * exceed.shape[0] * orders.size)
    chosen = [choose_scores(training, losses, tests, float(order), each) for order in orders]
    promise = np.stack([scores.promise for scores in chosen], axis=-1).reshape(shape)
    level, lower = share_level(promise, shape, failure), np.empty(shape)
    for place, scores in enumerate(chosen):
        stakes = place_bets(scores, tests, level[..., place].ravel())
        lower[..., place] = variational_lower(scores, stakes, counts).reshape(shape[:2])
    bounds = {"variational_lower": lower, "variational_level": level, "variational_promise": promise}
    return {"order": (("order",), orders), **{name: (_DIMS, values) for name, values in bounds.items()}}


def _both(classes: Ints) -> Ints:
    """Counts by class of both directions of each pair, (2·pairs, classes, 2), the first law of D_a first."""
    return np.stack([classes, classes[..., ::-1]], axis=1).reshape(-1, *classes.shape[1:])


def _training(problem: Problem, index: Index, epsilons: Floats) -> Ints:
    """Counts by class of what training shows of each pair, (pairs, classes, 2), −1 where unknown."""
    counts, sizes = [], []
    for model in problem.model_keys:
        trained = training_counts(index, model, problem.thresholds.tolist())
        counts.append(exceedances(trained.above, trained.below, problem.thresholds, epsilons))
        sizes.append(trained.samples)
    exceed = np.stack(counts)
    return class_counts(exceed, epsilons, np.broadcast_to(by_direction(np.array(sizes)), exceed.shape))


def pairs_of_one_loss(problem: Problem, index: Index) -> NDArray[np.bool_]:
    """Pairs, (pairs,), whose thresholds all have one L̂, so that its classes are those between them."""
    if not problem.joins_sets:
        return np.ones(len(problem.pairs), np.bool_)
    wanted = problem.thresholds.tolist()
    return np.array(
        [
            families(index, model, wanted, problem.stage_of("test", number)) <= 1
            for number, model in enumerate(problem.model_keys)
        ]
    )


def several_losses(arrays: Arrays) -> NDArray[np.bool_]:
    """Pairs, (pairs,), whose thresholds have not one L̂ (`pairs_of_one_loss`): no classes are common to all."""
    if "several_losses" not in arrays:
        return np.zeros(arrays["exceed"][1].shape[0], np.bool_)
    return np.asarray(arrays["several_losses"][1], np.bool_)
