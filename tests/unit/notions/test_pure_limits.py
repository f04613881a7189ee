"""Pure ε: its certified limit by enumeration of all counts; DPL and the second stage of MPL against sums and standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from hpcdp.losses.counts import PlainCounter
from hpcdp.losses.kde.kde import Kde
from hpcdp.losses.local import UNIT, counter_inside, find_peak, in_region, weigh
from hpcdp.losses.protocol import Side
from hpcdp.notions.bounds import joint_lower
from hpcdp.notions.pure import STEPS, LossAt, choose_regions, pure_lower


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


def sides(*outputs):
    return tuple(Side(x, x.shape[0]) for x in outputs)


def test_dpl_of_discrete_outputs_to_the_letter():
    rng = np.random.default_rng(5)
    x, y = rng.choice(6, 500, p=[0.5, 0.2, 0.2, 0.06, 0.04, 0.0]), rng.choice(6, 500, p=[0.3, 0.3, 0.2, 0.1, 0.0, 0.1])
    for floor in (1e-3, 0.05):
        for within in (None, ((1.0, 3.0),)):
            inside = range(6) if within is None else range(1, 4)
            losses = {t: math.log(max((x == t).mean(), floor)) - math.log(max((y == t).mean(), floor)) for t in inside}
            at = max(losses, key=lambda t: abs(losses[t]))
            found = find_peak(*sides(x, y), floor, within, 1000)
            assert found.at == at
            assert found.bandwidths == ()
            assert abs(found.loss - losses[at]) < 1e-12
    rows = np.stack([x, y], axis=1) > 2
    assert find_peak(*sides(rows, ~rows), 1e-3, None, 10).at in rows.tolist() + (~rows).tolist()


def test_dpl_of_strings():
    x = np.array([b"yes", b"no", b"yes", b"0x", b"\xff"] * 9, object)
    y = np.array([b"no", b"no", b"yes", b"0x", b"yes"] * 9, object)
    found = find_peak(*sides(x, y), 1e-3, None, 10)
    assert (found.at, found.bandwidths) == ("0xff", ())
    assert found.loss == pytest.approx(math.log(0.2 / 1e-3))
    assert [weigh(x, at, ()) for at in ("0xff", "yes", "0x3078", "maybe")] == [9, 18, 9, 0]


def test_dpl_of_reals_is_the_largest_of_the_kernel_sums():
    rng = np.random.default_rng(6)
    x, y = rng.laplace(0.0, 1.0, 4000), rng.laplace(0.8, 1.0, 4000)
    floor, low, high = 1e-3, -1.5, 2.25
    found = find_peak(*sides(x, y), floor, ((low, high),), 9000)
    spread = [0.9 * min(v.std(ddof=1), np.subtract(*np.percentile(v, [75, 25])) / 1.34) for v in (x, y)]
    grid = np.linspace(low, high, 1501)

    def density(t, v, h):
        return np.exp(-0.5 * ((t - v[:, None]) / h) ** 2).mean(axis=0) / (h * math.sqrt(2.0 * math.pi))

    f = [np.maximum(density(grid, v, s * 4000**-0.2), floor) for v, s in zip((x, y), spread, strict=True)]
    exact = np.abs(np.log(f[0]) - np.log(f[1])).max()
    assert abs(abs(found.loss) - exact) < 0.01  # the nodes' interpolation, see test_kde
    assert low <= found.at <= high
    (h,) = found.bandwidths
    assert h == pytest.approx(min(spread) * 9000 ** (-1 / 3 - 0.06), rel=1e-12)


def test_weights_are_whole_and_do_not_depend_on_order():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(30_000, 2))
    at, h = [0.3, -0.2], (0.2, 0.5)
    whole = weigh(x, at, h)
    assert isinstance(whole, int)
    assert whole == sum(weigh(part, at, h) for part in np.array_split(rng.permutation(x), 7))
    exact = np.exp(-0.5 * (((x - at) / h) ** 2).sum(axis=1)).sum()
    assert abs(whole / UNIT - exact) <= 30_000 / UNIT
    assert weigh(np.array([1, 2, 2, 3]), 2, ()) == 2
    assert weigh(np.array([[True, False], [True, True]]), [True, True], ()) == 1


def test_equation_24_is_the_standard_error():
    # of many second stages, with a fixed point; 4 standard errors of a standard deviation are 4/√(2·400)
    rng, n, runs = np.random.default_rng(9), 4000, 400
    found = [
        LossAt.of([(rng.random(n) < 0.31).sum(), (rng.random(n) < 0.19).sum()], (n, n), (), 1e-3, UNIT)
        for _ in range(runs)
    ]
    losses, errors = np.array([[v.loss, v.error] for v in found]).T
    assert abs(losses.std() / errors.mean() - 1.0) < 4.0 / math.sqrt(2.0 * runs)
    assert abs(losses.mean() - math.log(0.31 / 0.19)) < 4.0 * errors.mean() / math.sqrt(runs) + 1e-3
    h = (0.15,)
    found = [
        LossAt.of([weigh(rng.normal(m, 1.0, n), 0.0, h) for m in (0.0, 1.0)], (n, n), h, 1e-3, UNIT)
        for _ in range(runs)
    ]
    losses, errors = np.array([[v.loss, v.error] for v in found]).T
    assert abs(losses.std() / errors.mean() - 1.0) < 4.0 / math.sqrt(2.0 * runs) + 0.03  # h² terms of the variance
    low, high = found[0].interval(0.05)
    assert high - low == pytest.approx(2 * 1.959964 * found[0].error, rel=1e-6)


def test_the_absolute_value_doubles_false_alarms():
    # two equal laws: 10 % by the normal approximation to the letter, 5 % with the sign of training; ± 4σ of 2000 runs
    rng, n, runs, level = np.random.default_rng(10), 3000, 2000, 0.05
    found = [LossAt.of(rng.binomial(n, 0.2, 2).tolist(), (n, n), (), 1e-3, UNIT) for _ in range(runs)]
    literal = np.mean([v.literal(level) > 0.0 for v in found])
    signed = np.mean([v.lower(1.0, level) > 0.0 for v in found])
    spread = 4.0 * math.sqrt(0.1 * 0.9 / runs)
    assert abs(literal - 0.10) < spread
    assert abs(signed - 0.05) < spread


def test_a_counter_of_what_lies_in_c_is_the_whole_one_there():
    rng = np.random.default_rng(13)
    p, q = sides(rng.laplace(size=3000), rng.laplace(0.8, 1.2, size=3000))
    model, thresholds = Kde().fit(p, q), np.linspace(-1.0, 1.0, 41)
    x = rng.uniform(-12.0, 12.0, 20_000)
    for within in (((-1.0, 1.5),), ((-30.0, 0.123),), ((11.0, 40.0),), None):
        kept = x[in_region(x, within)]
        found = counter_inside(model, thresholds, within).count(kept)
        assert (found == model.counter(thresholds).count(kept)).all()
