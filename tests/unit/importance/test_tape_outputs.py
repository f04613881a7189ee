"""Random tapes: which output gets what is drawn, of arrays of all layouts, in loops, of orders and trials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tapes import RARE, SIZE, by_rows, check_weights, one_by_one, proposal, quantiles

from hpcdp.importance.kinds import Proposal


@pytest.mark.slow
def test_what_a_mechanism_changes_in_place_stays_on_the_tape() -> None:
    means = np.full(SIZE, 2.0)

    def spoiled(g: Any, n: int) -> Any:
        first = [g.standard_normal(n), g.poisson(means, n), g.gamma(means), g.choice(2, n), g.random((n, 2))]
        copies = [array.copy() for array in first]
        for array in first:
            array[...] = 7
        means[...] = 9.0
        return copies[0]

    out, tape = by_rows(spoiled, proposal(5, 0.3), 4)
    check_weights(out, tape, quantiles(stats.norm()), "rows")

    def loop(g: Any) -> Any:
        x = g.standard_normal(3)
        found = x[0]
        x[...] = 7.0
        return found

    out, tape = one_by_one(loop, proposal(5), 4, 4_000)
    check_weights(out, tape, quantiles(stats.norm()), "one by one")


def random_number(g: Any) -> Any:
    """The sum of a Poisson number of normals."""
    return float(sum(g.normal() for _ in range(g.poisson(1.5))))


def rejection(g: Any) -> Any:
    """A normal above 0.5, by rejection."""
    while (x := g.normal()) <= 0.5:
        pass
    return x


def batch(g: Any) -> Any:
    """Items 0 to 4 of a random number, without replacement; how large the largest is."""
    some = g.choice(5, g.integers(1, 4), replace=False)
    return int(some.max())


def compound(x: float) -> float:
    return sum(stats.poisson(1.5).pmf(k) * (stats.norm(0, math.sqrt(k)).cdf(x) if k else x >= 0.0) for k in range(40))


@pytest.mark.slow
def test_loops_with_a_random_number_of_variates() -> None:
    cuts = (-1.0, 0.3, 1.7)
    out, tape = one_by_one(random_number, proposal(6, 0.7), 3, 6_000)
    check_weights(out, tape, [(lambda x, c=c: x <= c, compound(c)) for c in cuts], "compound")
    out, tape = one_by_one(rejection, proposal(7, 0.5), 3, 6_000)
    law = stats.truncnorm(0.5, np.inf)
    check_weights(out, tape, quantiles(law), "rejection")
    out, tape = one_by_one(batch, proposal(9, 0.7), 3, 6_000)
    exact = [
        (lambda x, c=c: x <= c, float(np.mean([math.comb(c + 1, k) / math.comb(5, k) for k in (1, 2, 3)])))
        for c in (1, 2, 3)
    ]
    check_weights(out, tape, exact, "batch")


def first_of(g: Any) -> Any:
    return g.permutation(4)[0]


def first_shuffled(g: Any) -> Any:
    items = np.arange(8).reshape(2, 4)
    g.shuffle(items, axis=1)
    return items[1, 0] - 4


def first_of_list(g: Any) -> Any:
    items = [0, 1, 2, 3]
    g.shuffle(items)
    return items[0]


def first_permuted(g: Any) -> Any:
    return g.permuted(np.arange(4))[0]


def of_one_trial(g: Any) -> Any:
    return int(g.multinomial(1, [0.25] * 4).argmax())


@pytest.mark.slow
@pytest.mark.parametrize("style", (first_of, first_shuffled, first_of_list, first_permuted, of_one_trial))
def test_orders(style: Any) -> None:
    out, tape = one_by_one(style, proposal(3), 5, 5_000)
    check_weights(out, tape, [(lambda x, k=k: x == k, 0.25) for k in range(4)], style.__name__)
    plain, _ = one_by_one(style, Proposal.plain(), 5, 8_000)
    assert stats.chisquare(np.bincount(plain, minlength=4)).pvalue > RARE


def test_orders_and_trials_by_rows() -> None:
    def permuted(g: Any, n: int) -> Any:
        return g.permuted(np.tile(np.arange(4), (n, 1)), axis=1) @ np.array([1, 10, 100, 1000])

    out, tape = by_rows(permuted, proposal(3), 5)
    values = np.unique(out)
    assert values.size == 24
    check_weights(out, tape, [(lambda x, v=v: x == v, 1.0 / 24.0) for v in values[:5]], "permuted")
    out, tape = by_rows(lambda g, n: g.multinomial(1, [0.2, 0.3, 0.5], n) @ np.arange(3), proposal(3), 5)
    check_weights(out, tape, [(lambda x: x == 1, 0.3), (lambda x: x == 2, 0.5)], "multinomial")
    out, tape = by_rows(
        lambda g, n: g.multivariate_normal([0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]], n).sum(axis=1), proposal(3), 5
    )
    check_weights(out, tape, quantiles(stats.norm(1.0, math.sqrt(6.0))), "multivariate_normal")
    out, tape = by_rows(lambda g, n: g.dirichlet([0.5, 1.0, 1.5], n)[:, 0], proposal(3), 5)
    check_weights(out, tape, quantiles(stats.beta(0.5, 2.5)), "dirichlet")


def test_weights_of_two_laws_of_their_own_for_each_row() -> None:
    """Means and chances that differ from row to row, and depend on what was drawn before."""

    def chained(g: Any, n: int) -> Any:
        shape = n if n else None
        return g.poisson(np.exp(0.3 * g.normal(size=shape)))

    exact = [
        (lambda x, k=k: x <= k, float(stats.norm().expect(lambda z, k=k: stats.poisson.cdf(k, np.exp(0.3 * z)))))
        for k in (0, 1, 3)
    ]
    out, tape = by_rows(chained, proposal(2), 8)
    check_weights(out, tape, exact, "rows")
    out, tape = one_by_one(lambda g: chained(g, 0), proposal(2), 8, 5_000)
    check_weights(out, tape, exact, "one by one")
