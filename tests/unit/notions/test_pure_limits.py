"""The certified limit on pure ε: coverage by enumeration of all counts, against its own definition, and its sharpness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from hpcdp.losses.counts import PlainCounter
from hpcdp.losses.protocol import Side
from hpcdp.notions.bounds import joint_lower
from hpcdp.notions.pure import STEPS, choose_regions, promised, promised_after, pure_lower


@pytest.mark.parametrize(("n0", "n1"), [(12, 12), (9, 17)])
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_covers_whatever_the_probabilities(n0, n1, level):
    # all counts at once, so the probabilities are exact
    x0, x1 = np.meshgrid(np.arange(n0 + 1), np.arange(n1 + 1), indexing="ij")
    limits = pure_lower(x0, n0, x1, n1, level)
    assert limits.max() > 0.5  # it is no empty bound
    for a in (0.05, 0.3, 0.5, 0.8, 1.0):
        for ratio in (0.5, 1.0, 1.37, 2.0, 5.0):
            b = a / ratio
            if b > 1.0:
                continue
            weight = np.outer(binom.pmf(np.arange(n0 + 1), n0, a), binom.pmf(np.arange(n1 + 1), n1, b))
            above = limits > max(0.0, math.log(ratio)) + 1e-12
            assert weight[above].sum() <= level


@pytest.mark.parametrize("cell", [(700, 3000, 211, 2500), (52, 400, 9, 430), (4000, 9000, 3500, 9000)])
def test_is_the_last_step_before_the_test_fails(cell):
    # joint_lower gives up a little of the margin, so what it rejects is rejected; it is asked at every step
    level = 0.03
    found = float(pure_lower(*cell, level))
    steps = np.arange(1, round((found + 0.1) * STEPS) + 1)
    first = int(np.argmax(joint_lower(*cell, np.exp(steps / STEPS), level) <= 0.0))
    assert first / STEPS <= found + 1e-12
    assert found - first / STEPS <= 0.02  # what joint_lower gives up of these margins
    assert found * STEPS == round(found * STEPS)


def test_no_second_count_and_all_of_the_first():
    # P(X0 = n, X1 = 0) <= (1 − 1/c)^n where a <= c·b: the level without the share for b's range decides
    n, level = 40, 0.05
    c = 1.0 / (1.0 - (level * 0.95) ** (1.0 / n))
    found = float(pure_lower(n, n, 0, n, level))
    assert math.log(c) - 0.02 <= found <= math.log(c)
    assert pure_lower(0, n, 0, n, level) == 0.0
    assert pure_lower(5, n, 9, n, level) == 0.0


def test_what_is_promised_is_about_what_is_found():
    level, z = 0.05, 1.6448536
    for cell in [(25_000, 50_000, 20_500, 50_000), (900, 50_000, 200, 50_000)]:
        assert abs(float(promised(*cell, z)) - float(pure_lower(*cell, level))) < 0.06
    assert promised(0, 10, 3, 10, z) == -np.inf


def test_few_training_outputs_and_many_candidates_promise_less():
    # the same shares, and the same test to come
    some = [float(promised_after(0.3 * n, 0.1 * n, n, 50_000, 0.05, 500)) for n in (100, 1_000, 10_000)]
    assert some[0] < some[1] < some[2] < math.log(3.0)
    # two of a thousand against none promise nothing, however large their ratio looks
    assert promised_after(2, 0, 1_000, 50_000, 0.05, 500) < promised_after(300, 250, 1_000, 50_000, 0.05, 500)
    # of one set nothing was picked; of 500 the smaller of two loses that seem alike
    few, many = (promised_after([30, 600], [12, 300], 1_000, 50_000, 0.05, sets) for sets in (1, 500))
    assert (many < few).all()
    assert few[0] - few[1] > many[0] - many[1]


def test_of_equal_promises_the_largest_set():
    # L̂ is −1, 0.5 or 2, and 0 is a candidate too: it cuts as −1 does forward, and as 0.5 does reverse
    outputs = np.array([2.0, 0.5, -1.0])
    sides = (Side(np.repeat(outputs, counts), 10_000) for counts in ([5000, 4000, 1000], [2500, 2000, 5500]))
    forward, reverse = choose_regions(Given(), *sides, None, 10_000, 0.05)
    assert (forward.direction, forward.above) == (0, -1.0)
    assert (reverse.direction, reverse.above) == (1, -0.5)
    assert 0.6 < forward.promised < math.log(2.0) < 1.5 < reverse.promised < math.log(5.5)


class Given:
    """A model whose L̂ is the output."""

    def score(self, outputs):
        return outputs

    def counter(self, thresholds):
        return PlainCounter(self, thresholds)
