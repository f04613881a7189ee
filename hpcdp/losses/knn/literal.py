"""literal-knn: Fig. 1 of Lu et al. ("Eureka", S&P 2024) to the letter, the reference of the fast path; and so BayBox.

BayBox is Algorithm 1 of Askin et al. (2025), with the threshold of their Section 4: the printed one is its reciprocal.
Both draw and train anew for each ε and each η. Their majority vote takes the same balls as `knn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, inf
from typing import Literal

import numpy as np

from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.parameters import KnnParameters, LiteralKnnParameters
from hpcdp.losses.protocol import Counter, Outputs, Side

__all__ = ["LiteralKnnParameters", "count_rejections", "testing_risk"]

Stage = Literal["train", "test"]
Draw = Callable[[Stage, int], Outputs]
"""Fresh independent outputs of one database: draw(stage, size), new ones at each call."""

_LABEL_1 = np.array([0.0])  # the threshold of L̂ below which label 1 has the majority, with equal draws per database


def testing_risk(
    draw_p: Draw,
    draw_q: Draw,
    coins: np.random.Generator,
    epsilon: float,
    train: int,
    test: int,
    parameters: LiteralKnnParameters,
    block: int,
) -> tuple[int, int]:
    """Errors of the majority vote on fresh labelled draws, and how many of them there were: (errors, tests).

    A labelled draw (Definition 12): a fair bit b; b = 1 gives an output of D' (draw_q) with label 1; b = 0 gives, with
    probability e^-epsilon, an output of D (draw_p), else ⊥, with label 0. The thinned side is the first of the pair.
    2·train of them train, 2·test test, at most `block` at a time; ⊥ is counted as tested and always right. A vote is label 1 when
    label 1 has strictly more votes. k is chosen by the training points that are not ⊥, and is never above their number.

    With r = errors/tests the estimate is delta_hat = max(0, 1 - 2 e^epsilon r), its standard error is
    2 e^epsilon sqrt(r (1 - r)/tests) (asymptotic). Given the training draws, 1 - 2 e^epsilon r is at most δ in
    expectation, whatever the classifier (Theorem 4). ValueError: epsilon < 0, or train, test or block < 1.
    """
    if epsilon < 0:
        raise ValueError(f"epsilon: at least 0; given: {epsilon}")
    _refuse_none(train, test, block)
    ones, zeros = 0, 0
    for size in _blocks(2 * train, block):
        labelled = _flip(coins, size, epsilon)
        ones, zeros = ones + labelled[0], zeros + labelled[1]
    counter = _train(draw_p, draw_q, zeros, ones, parameters)

    errors = 0
    for size in _blocks(2 * test, block):
        ones, zeros = _flip(coins, size, epsilon)
        if ones:
            errors += ones - _count_label_1(counter, draw_q("test", ones))
        if zeros:
            errors += _count_label_1(counter, draw_p("test", zeros))
    return errors, 2 * test


def count_rejections(
    draw_p: Draw,
    draw_q: Draw,
    coins: np.random.Generator,
    eta: float,
    train: int,
    test: int,
    parameters: LiteralKnnParameters,
    block: int,
) -> tuple[int, int]:
    """How many fresh outputs of D and of D' the majority vote labels 1, "from D'": (of D, of D'), of `test` each.

    The vote learns to reject where q/p > η (BayBox: Askin et al. 2025, Algorithm 1): of `train` draws per database, η >= 1
    keeps those of D' with probability 1/η, η < 1 those of D with probability η; the others are ⊥, which are counted and
    never drawn. Priors are equal: label 1 needs strictly more votes. k is chosen by the points that are kept, and is
    never above their number. Test outputs are not thinned.

    α̃ is the share of D, β̃ is 1 minus the share of D'. Given the training draws both counts are binomial, and their
    mean point lies on or above T, whatever the classifier (Theorem 5.1(1)). At most `block` outputs are drawn at a time.
    ValueError: eta is not above 0 or not finite, or train, test or block < 1.
    """
    if not 0.0 < eta < inf:
        raise ValueError(f"eta: a finite number above 0; given: {eta}")
    _refuse_none(train, test, block)
    zeros = _thin(coins, train, min(1.0, eta), block)
    ones = _thin(coins, train, min(1.0, 1.0 / eta), block)
    counter = _train(_in_blocks(draw_p, block), _in_blocks(draw_q, block), zeros, ones, parameters)
    sizes = list(_blocks(test, block))
    return (
        sum(_count_label_1(counter, draw_p("test", size)) for size in sizes),
        sum(_count_label_1(counter, draw_q("test", size)) for size in sizes),
    )


def _refuse_none(train: int, test: int, block: int) -> None:
    if min(train, test, block) < 1:
        raise ValueError(f"train, test and block: at least 1; given: {train}, {test}, {block}")


def _thin(coins: np.random.Generator, draws: int, share: float, block: int) -> int:
    """Of so many draws, how many are kept, each with probability `share`; no coin is needed to keep all."""
    if share == 1.0:
        return draws
    return sum(int((coins.random(size) < share).sum()) for size in _blocks(draws, block))


def _in_blocks(draw: Draw, block: int) -> Draw:
    """The same draws, at most so many at a time."""
    return lambda stage, size: np.concatenate([draw(stage, part) for part in _blocks(size, block)])


def _flip(coins: np.random.Generator, size: int, epsilon: float) -> tuple[int, int]:
    """Of so many labelled draws, how many have label 1, and how many of the others are not ⊥."""
    label_1 = coins.random(size) < 0.5
    kept = coins.random(size) < exp(-epsilon)
    return int(label_1.sum()), int((~label_1 & kept).sum())


def _blocks(total: int, block: int) -> Iterator[int]:
    for start in range(0, total, block):
        yield min(block, total - start)


def _train(draw_p: Draw, draw_q: Draw, zeros: int, ones: int, parameters: KnnParameters) -> Counter | None:
    """Counts by the majority of so many training outputs, or None without any."""
    p = draw_p("train", zeros) if zeros else None
    q = draw_q("train", ones) if ones else None
    if p is None or q is None:
        either = q if p is None else p
        if either is None:
            return None
        p, q = (either[:0], either) if p is None else (either, either[:0])
    points = zeros + ones
    if isinstance(parameters.k, int):
        parameters = parameters.model_copy(update={"k": min(parameters.k, points)})
    model = Knn(parameters).fit(Side(p, points), Side(q, points))  # equal draws: L̂ < 0 is label 1's majority
    return model.counter(_LABEL_1)


def _count_label_1(counter: Counter | None, outputs: Outputs) -> int:
    return 0 if counter is None else int(counter.count(outputs)[0])
