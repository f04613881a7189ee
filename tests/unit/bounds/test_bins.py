"""The interval of pure ε from counts of bins: against loops, its coverage, widths, refutations, and what training chooses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpcdp.lipschitz import buckets, sizes
from hpcdp.notions.bins import (
    Bins,
    change_refuted_at,
    choose_bins,
    largest_ratio,
    least_outputs,
    limits,
    lower_ends,
    refuted_at,
    renyi_ratio,
    upper_ends,
)
from hpcdp.notions.bounds import binomial_lower, binomial_upper

UNIT, FAILURE, RUNS = (0.0, 1.0), 0.05, 400
SCALES = [(1.0, 0.2, 60_000, 0.19), (2.0, 0.1, 100_000, 0.125), (5.0, 0.05, 230_000, 0.08)]
SLACK = 4.0 * math.sqrt(0.05 * 0.95 / RUNS)


def exponential(scale, bins):
    """Probabilities of equal bins under truncated Laplace noise around 0, and around 1; the pure level is 1/scale."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    p = np.diff(np.expm1(-edges / scale) / math.expm1(-1.0 / scale))
    return np.stack([p, p[::-1]])


def lipschitz(scale):
    """C of truncated Laplace noise, rounded up."""
    return -1.0 / (scale * scale * math.expm1(-1.0 / scale)) * (1.0 + 1e-12)


def draw(rng, scale, bins, outputs, runs=None):
    """Counts (…, 2, bins) of both laws."""
    size = None if runs is None else runs
    return np.stack([rng.multinomial(outputs, p / p.sum(), size=size) for p in exponential(scale, bins)], axis=-2)


def interval(counts, outputs, bins, failure=FAILURE):
    """Both ends, of both directions together, of counts (…, 2, m)."""
    low, high = limits(counts, outputs, failure, 2)
    ends = [lower_ends(low[..., a, :], high[..., 1 - a, :])[0] for a in (0, 1)]
    tops = [upper_ends(high[..., a, :], low[..., 1 - a, :], bins)[0] for a in (0, 1)]
    return np.maximum(*ends), np.maximum(*tops)


def test_ends_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    counts, outputs, bins = rng.multinomial(500, [0.4, 0.3, 0.2, 0.05, 0.05], size=2), 500, Bins.of((2.0, 4.0), 5, 0.01)
    low, high = limits(counts, outputs, FAILURE, 2)
    level = FAILURE / (2 * 2 * 5)
    w, found, tops = 0.4, [], []
    for j in range(5):
        p, q = (float(binomial_lower(n, outputs, level)) for n in counts[:, j])
        u, v = (float(binomial_upper(n, outputs, level)) for n in counts[:, j])
        assert (low[0, j], low[1, j], high[0, j], high[1, j]) == (p, q, u, v)
        found.append(math.log(p / v))
        tops.append(math.log((u / w + 0.01 * w / 2) / (q / w - 0.01 * w / 2)))
    value, at = lower_ends(low[0], high[1])
    top, top_at = upper_ends(high[0], low[1], bins)
    assert (at, top_at) == (int(np.argmax(found)), int(np.argmax(tops)))
    # rounded to the safe side
    assert max(found) - 1e-11 < value < max(found)
    assert max(tops) < top < max(tops) + 1e-11
    assert upper_ends(high[0], low[1], Bins.of((2.0, 4.0), 5, 10.0))[0] == math.inf


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "precision", "most", "widest"), SCALES)
def test_coverage_widths_and_sizes(scale, precision, most, widest):
    rng, outputs, c = np.random.default_rng([5, int(scale)]), 500_000, lipschitz(scale)
    training = draw(rng, scale, 5040, 1 << 17)
    number, promised = choose_bins(training, outputs, FAILURE, UNIT, c)
    counts, bins = draw(rng, scale, number, outputs, RUNS), Bins.of(UNIT, number, c)
    lower, upper = interval(counts, outputs, bins)
    assert np.mean((lower <= 1.0 / scale) & (1.0 / scale <= upper)) >= 0.95 - SLACK
    width = float(np.mean(upper - lower))
    assert width <= widest
    assert width == pytest.approx(promised, rel=0.05)
    # no true C is refuted more often than limits fail
    low, high = limits(counts, outputs, FAILURE, 2)
    assert np.mean([refuted_at(*both, bins) is None for both in zip(low, high, strict=True)]) >= 0.95 - SLACK
    least, found = least_outputs(training, 2 * precision, 10**11, FAILURE, UNIT, c)
    assert least <= most
    assert found <= 2 * precision
    number = choose_bins(training, least, FAILURE, UNIT, c)[0]
    lower, upper = interval(draw(rng, scale, number, least, 40), least, Bins.of(UNIT, number, c))
    assert float(np.mean(upper - lower)) == pytest.approx(2 * precision, rel=0.05)
    assert np.mean((lower <= 1.0 / scale) & (1.0 / scale <= upper)) >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / 40)


def test_planted_faults_are_seen():
    """Laws that differ nowhere: any bin may break its limit, so that a level that is not shared fails, as do ends without C."""
    rng, m, outputs = np.random.default_rng(8), 40, 20_000
    counts, bins = rng.multinomial(outputs, np.full(m, 1 / m), size=(100, 2)), Bins.of(UNIT, m, 1e-9)
    lower, _ = interval(counts, outputs, bins)
    assert np.mean(lower <= 0.0) >= 0.95 - 2 * SLACK
    unshared, _ = interval(counts, outputs, bins, failure=FAILURE * 4 * m)
    assert np.mean(unshared <= 0.0) < 0.5
    # steep densities with many outputs in few bins: the mean of a bin is not its density
    scale, number = 1.0, 8
    counts = draw(rng, scale, number, 10**7, 100)
    _, right = interval(counts, 10**7, Bins.of(UNIT, number, lipschitz(scale)))
    _, wrong = interval(counts, 10**7, Bins.of(UNIT, number, 1e-9))
    assert np.mean(right >= 1.0 / scale) >= 0.95 - 2 * SLACK
    assert np.mean(wrong >= 1.0 / scale) < 0.05


def test_what_refutes_c():
    outputs = 10**6
    counts = draw(np.random.default_rng(3), 1.0, 40, outputs)
    low, high = limits(counts, outputs, FAILURE, 2)
    for c in (0.4, 0.9, 1.2):
        bins = Bins.of(UNIT, 40, c)
        law, one, other = refuted_at(low, high, bins)
        assert low[law, one] / bins.width - high[law, other] / bins.width > c * abs(one - other) * bins.width
        # and by brute force some pair of bins does
        a, b = low[:, :, None] / bins.width, high[:, None, :] / bins.width
        far = np.abs(np.subtract.outer(np.arange(40), np.arange(40))) * bins.width
        assert (a - b > c * far).any()
    assert refuted_at(low, high, Bins.of(UNIT, 40, lipschitz(1.0))) is None
    step = np.array([[0, 0, 10**6, 0, 0]])  # falls on both sides: neighbours differ, in both directions
    assert refuted_at(*limits(step, outputs, FAILURE, 1), Bins.of(UNIT, 5, 1.0)) is not None
    assert refuted_at(*limits(step[:, ::-1], outputs, FAILURE, 1), Bins.of(UNIT, 5, 1.0)) is not None
    assert refuted_at(*limits(step[:, :1], outputs, FAILURE, 1), Bins.of(UNIT, 1, 1.0)) is None


def test_a_false_change_with_the_input_is_refuted_and_a_true_one_is_not():
    points, outputs, m = (
        5,
        10**6,
        10,
    )  # inputs 0.1, 0.3, …: densities 1 + (2x − 1)·s(b), s from −½ to ½: they change by 1 at most
    slope = (np.arange(m) + 0.5) / m - 0.5
    shares = (1.0 + np.outer(2.0 * (np.arange(points) + 0.5) / points - 1.0, slope)) / m
    low, high = limits(np.rint(shares * outputs).astype(np.int64), outputs, FAILURE, points)
    steepest = 2.0 * np.abs(slope).max()  # 0.9
    for d in (0.1, 0.8):
        column, one, other = change_refuted_at(low, high, Bins.of(UNIT, m, 9.0, 0.5 * d / points))
        assert (low[one, column] - high[other, column]) * m > d * abs(one - other) / points
    assert change_refuted_at(low, high, Bins.of(UNIT, m, 9.0, 0.5 * steepest / points)) is None
    assert refuted_at(low, high, Bins.of(UNIT, m, 9.0, 0.5 * 0.1 / points)) is None  # which D cannot refute


def test_published_estimates_and_their_failure():
    first, second = np.array([4, 2, 2]), np.array([2, 2, 4])
    assert largest_ratio(first, second) == (math.log(2.0), 0)
    assert largest_ratio(first, np.array([4, 4, 0])) is None
    assert largest_ratio(np.array([0, 4, 4]), first) is None
    # order 3: (4/2)³·2/8 + 1·2/8 + (2/4)³·4/8
    assert renyi_ratio(first, second, 3.0) == pytest.approx(math.log(2.0 + 0.25 + 0.0625) / 2.0, abs=1e-14)
    assert renyi_ratio(first, np.array([8, 0, 0]), 3.0) is None
    # so many bins of exact laws give the divergence itself
    p, q = exponential(1.5, 5040)
    assert renyi_ratio(p, q, 2.0) == pytest.approx(0.142989, abs=1e-6)


def test_no_upper_end_and_none_wide_enough():
    training = draw(np.random.default_rng(4), 1.0, 5040, 1 << 15)
    number, width = choose_bins(training, 20, FAILURE, UNIT, 3.0)
    assert width == math.inf
    assert 1 <= number <= 5040
    outputs, width = least_outputs(training, 1e-3, 10**6, FAILURE, UNIT, lipschitz(1.0))
    assert outputs == 10**6
    assert width > 1e-3


# The published sizes of histograms of Lipschitz densities, and those of union bounds, against their conditions


@pytest.mark.parametrize(
    ("lipschitz", "precision", "published", "union", "half", "global_published", "global_buckets", "in_x"),
    [
        (1.58, 0.2, (226, 39_501_853), (226, 4_878_062), (113, 2_264_766), (678, 1_205_855_615), 226, 3.16),
        (0.64, 0.1, (57, 12_278_577), (57, 1_284_752), None, (170, 373_224_458), 57, 1.27),
        (0.22, 0.05, (30, 19_728_566), (30, 1_897_841), None, (89, 596_947_276), 30, 0.44),
        (1.49, 0.3, (117, 7_503_518), (117, 878_871), None, (351, 228_661_444), 64, 1.62),
    ],
)
def test_sizes(lipschitz, precision, published, union, half, global_published, global_buckets, in_x):
    found = sizes(lipschitz, 1, precision, 0.95)
    assert (found["published"], found["union"]) == (published, union)
    assert half is None or found["half"] == half
    assert sizes(lipschitz, 1.0, precision / 3, math.sqrt(0.95))["published"] == global_published
    assert buckets(in_x, 1.0, lipschitz, 1.0, precision) == global_buckets


def test_sizes_of_a_domain_and_of_an_order():
    assert sizes(1.58, 1, 2 * 0.2 / 3, 0.95, laws=226)["half"] == (170, 11_890_145)
    found = sizes(0.913, 1, 0.04, 0.95, order=2)
    assert found["published"][0] == 4850
    assert found["published"][1] == pytest.approx(7.657e12, rel=1e-4)
    assert (found["union"][0], found["half"]) == (252, (126, 96_339_132))
    # of inputs: 3(2a − 1)K·D/(2(a − 1)K′·τγ), with K = 2τ₁²/τ and K′ = τ²/τ₁
    low, high = 1 - 0.913 / 2, 1 + 0.913 / 2
    assert buckets(1.8, 1, 0.913, 1, 0.04, order=2) == math.ceil(
        9 * (2 * high**2 / low) / (low**2 / high) * 1.8 / (2 * low * 0.04)
    )


@pytest.mark.parametrize("order", [None, 2.0])
@pytest.mark.parametrize("name", ["union", "half"])
def test_n_is_the_least_that_its_condition_allows(name, order):
    lipschitz, width, gamma, confidence, laws = 0.3, 2.0, 0.3, 0.9, 5
    bins, n = sizes(lipschitz, width, gamma, confidence, order, laws)[name]
    low = 1 / width - lipschitz * width / 2
    z = gamma / 3 if order is None else gamma / 6
    y = width / bins * low

    def miss(n):
        tails = math.exp(-n * y * (math.exp(z) - 1) ** 2 / (1 + math.exp(z)))
        return laws * bins * (tails + math.exp(-n * y * (1 - math.exp(-z)) ** 2 / 2))

    assert miss(n) <= 1 - confidence < miss(n - 1)
    # what is left of the precision holds the bias: C·w/2 a side, and as much again with all the bins
    share = 1.0 if order is None else 1.5  # (2a − 1)/(2(a − 1))
    bias = lipschitz * (width / bins) * (1 if name == "half" else 2) / low * share
    assert bias <= gamma / (3 if order is None else 2)


def test_units_do_not_matter():
    # of outputs: C is in density per unit
    assert sizes(1.58 / 100, 10.0, 0.2, 0.95) == sizes(1.58, 1.0, 0.2, 0.95)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lipschitz": 2.0}, "below 2/width² = 2, as published; the certified interval needs no such limit"),
        ({"lipschitz": 0.0}, "lipschitz: 0.0 was given; accepted: a finite number > 0"),
        ({"width": math.inf}, "width: inf was given"),
        ({"precision": -0.1}, "precision: -0.1 was given"),
        ({"precision": 1e-9}, "precision: one that at most 2^62 outputs have"),
        ({"confidence": 1.0}, "confidence: 1.0 was given; accepted: a number above 0 and below 1"),
        ({"order": 1.0}, "order: 1.0 was given; accepted: a finite number above 1"),
        ({"laws": 1}, "laws: 1 was given; accepted: an integer >= 2"),
        ({"order": 1e6}, "precision: more outputs are needed than can be said"),
        ({"width": 1e-200}, "precision: more outputs are needed than can be said"),
    ],
)
def test_what_is_impossible_is_said(given, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace("^", r"\^")):
        sizes(**{"lipschitz": 1.58, "width": 1.0, "precision": 0.2, "confidence": 0.95, **given})


def test_buckets_that_cannot_be_said():
    for given in ((1e300, 1e300, 1.58, 1, 0.2), (3, 1, 0.5, 1, 0.2, 1e4)):
        with pytest.raises(ValueError, match="precision: more buckets are needed than can be said"):
            buckets(*given)


def test_a_precision_that_is_met_by_anything():
    # 2·.79ⁿ + 4·exp(−.21n/2)/(1 − .79ⁿ) is .0488 at 42 and .0541 at 41
    assert sizes(1.58, 1, 1e9, 0.95)["published"] == (1, 42)
