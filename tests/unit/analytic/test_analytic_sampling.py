"""Exact curves of random batches: reference numbers, other derivations, draws, and which pairs have one."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    Piecewise,
    Reversed,
    Subsampled,
    exact,
    toy_dpsgd_pair,
)
from hpcdp.mechanisms.toy_dpsgd import toy_dpsgd

SIZES = np.array([0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
ZEROS, ODD = np.zeros(10), np.eye(10)[0]
SUM = {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}
DIRECTIONS = ("forward", "reverse")


def numbers(text):
    return np.array(text.split(), float)


# Reference numbers

TRADEOFF = {
    10: ".80912 .60489 .47681 .32608 .23145 .11447 .04712 .00925",
    5: ".86953 .69676 .57573 .42021 .31406 .17034 .07744 .01769",
}


@pytest.mark.parametrize("updates", TRADEOFF)
def test_tradeoff_of_toy_dpsgd(updates):
    for curve in (toy_dpsgd_pair(updates=updates), exact("toy_dpsgd", {"updates": updates}, ZEROS, ODD)):
        np.testing.assert_allclose(curve.tradeoff(SIZES), numbers(TRADEOFF[updates]), rtol=0, atol=5.01e-6)


def test_gap_between_five_and_ten_updates():
    sizes = np.linspace(0.05, 0.2, 15_001)
    gap = toy_dpsgd_pair(updates=5).tradeoff(sizes) - toy_dpsgd_pair().tradeoff(sizes)
    assert gap.max() == pytest.approx(0.0991, abs=5.01e-5)
    assert sizes[gap.argmax()] == pytest.approx(0.114, abs=5.01e-4)


def test_spectrum_of_toy_dpsgd():
    levels = [0.0, 0.5, 1.0, 2.0]
    curve = toy_dpsgd_pair()
    np.testing.assert_allclose(
        curve.delta(levels, "reverse"), numbers(".476292 .363598 .264008 .120403"), rtol=0, atol=5.01e-7
    )
    np.testing.assert_allclose(curve.delta(levels), numbers(".476292 .329416 .194304 .031979"), rtol=0, atol=5.01e-7)


def test_the_empty_set_of_updates_belongs_to_the_sum():
    """Public code leaves it out, which lowers T by 2^-updates (1 - a)."""
    for updates in (5, 10):
        curve = toy_dpsgd_pair(updates=updates)
        moved = curve.shifts > 0
        assert np.count_nonzero(~moved) == 1
        without = ndtr(-ndtri(SIZES)[:, None] - curve.shifts[moved]) @ curve.weights[moved]
        np.testing.assert_allclose(curve.tradeoff(SIZES) - without, 0.5**updates * (1 - SIZES), rtol=1e-10)
        assert np.abs(without - numbers(TRADEOFF[updates])).max() > 9e-4


def test_subsampled_gaussian():
    curve = exact("subsampled", SUM, ZEROS, ODD)
    truth = numbers(".94882 .84524 .75543 .61854 .50859 .32933 .18185 .05563")
    np.testing.assert_allclose(curve.tradeoff(SIZES), truth, rtol=0, atol=5.01e-6)
    fixed = ndtr(-0.5)  # of T, where its slope is -1: the symmetrised curve is straight from there to its mirror image
    assert fixed == pytest.approx(0.308538, abs=5.01e-7)
    assert curve.tradeoff(fixed) == pytest.approx(0.5, abs=1e-14)
    back = exact("subsampled", SUM, ODD, ZEROS)
    straight = fixed + 0.5 - SIZES
    symmetrised = np.where(
        fixed >= SIZES, curve.tradeoff(SIZES), np.where(SIZES <= 0.5, straight, back.tradeoff(SIZES))
    )
    truth = numbers(".94882 .84524 .75543 .61854 .50859 .30854 .13714 .02623")
    np.testing.assert_allclose(symmetrised, truth, rtol=0, atol=5.01e-6)


# Other derivations


@pytest.mark.parametrize("rate", [0.5, 0.07, 1.0])
def test_one_moved_part_is_a_subsampled_gaussian(rate):
    one, other = NormalMixture([0.0, 1.4], [1 - rate, rate]), Subsampled(GaussianShift(1.4), rate)
    levels, etas = np.linspace(0.0, 6.0, 61), np.geomspace(1e-3, 1e3, 61)
    for direction in DIRECTIONS:
        np.testing.assert_allclose(one.delta(levels, direction), other.delta(levels, direction), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(one.tradeoff(SIZES), other.tradeoff(SIZES), atol=1e-15)
    np.testing.assert_allclose(one.point(etas), other.point(etas), atol=1e-13)


@pytest.mark.parametrize(
    ("shifts", "weights"),
    [([0.0, 0.5, 2.0], [0.2, 0.5, 0.3]), ([0.3, 0.31, 4.0], [0.1, 0.6, 0.3]), ([0.0, 1.0], [0.999, 0.001])],
)
def test_normal_mixture_by_quadrature(shifts, weights):
    def densities(x):
        shape = -0.5 * (x[:, None] - np.array([0.0, *shifts])) ** 2 - 0.5 * math.log(2 * math.pi)
        return shape[:, 0], np.logaddexp.reduce(shape[:, 1:] + np.log(weights), axis=1)

    one, other = NormalMixture(shifts, weights), Piecewise([(densities, [-38.0, 0.0, 43.0])])
    levels, etas = np.linspace(0.0, 4.0, 41), np.geomspace(0.01, 50.0, 41)
    for direction in DIRECTIONS:
        np.testing.assert_allclose(one.delta(levels, direction), other.delta(levels, direction), atol=1e-13)
    np.testing.assert_allclose(one.tradeoff(SIZES), other.tradeoff(SIZES), atol=1e-13)
    np.testing.assert_allclose(one.point(etas), other.point(etas), atol=1e-12)


def test_normal_mixture_far_out():
    one, other = NormalMixture([40.0, 90.0], [1.0, 0.0]), GaussianShift(40.0)
    levels = np.array([0.0, 1.0, 500.0, 800.0, 900.0, np.inf])
    for direction in DIRECTIONS:
        np.testing.assert_allclose(one.delta(levels, direction), other.delta(levels, direction), rtol=1e-9)
    wide = NormalMixture([0.0, 1e6], [0.75, 0.25])
    np.testing.assert_allclose(wide.delta([0.0, 1.0, 700.0], "reverse"), 0.25)
    np.testing.assert_allclose(wide.delta([0.0, 0.2, 0.3]), [0.25, 1 - 0.75 * math.exp(0.2), 0.0], atol=1e-14)
    still = NormalMixture([0.0, 0.0], [0.5, 0.5])
    assert (still.delta(levels) == 0).all()
    assert (still.delta(levels, "reverse") == 0).all()
    np.testing.assert_allclose(still.tradeoff(SIZES), 1 - SIZES)
    np.testing.assert_array_equal(still.point([0.0, 0.5, 1.0, 2.0, np.inf]), [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])


PMFS = [
    ([0.2, 0.5, 0.3, 0.0, 0.0], [0.1, 0.0, 0.3, 0.55, 0.05]),
    ([0.25, 0.25, 0.5], [0.5, 0.25, 0.25]),
    ([1, 0], [0, 1]),
]


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.11])
@pytest.mark.parametrize(("p", "q"), PMFS)
def test_subsampled_and_reversed_pmfs(p, q, rate):
    p, q = np.array(p, float), np.array(q, float)
    levels, sizes = np.array([0.0, 0.01, 0.1, 0.2, 0.7, 1.5, 800.0, np.inf]), np.linspace(0.0, 1.0, 41)
    etas = np.array([0.0, 0.3, 0.49, 0.777, 1.01, 2.5, 50.0, np.inf])  # at none of the ratios, where rounding decides
    mixed = Subsampled(Discrete(p, q), rate), Discrete(p, rate * q + (1 - rate) * p)
    turned = Reversed(Discrete(p, q)), Discrete(q, p)
    both = Reversed(mixed[0]), Discrete(rate * q + (1 - rate) * p, p)
    for one, other in (mixed, turned, both):
        for direction in DIRECTIONS:
            np.testing.assert_allclose(one.delta(levels, direction), other.delta(levels, direction), atol=1e-14)
        np.testing.assert_allclose(one.tradeoff(sizes), other.tradeoff(sizes), atol=1e-13)
        np.testing.assert_allclose(one.point(etas), other.point(etas), atol=1e-14)


def test_reversed_pair_at_its_atoms():
    one, other = (
        Reversed(Discrete([0.25, 0.25, 0.5], [0.5, 0.25, 0.25])),
        Discrete([0.5, 0.25, 0.25], [0.25, 0.25, 0.5]),
    )
    np.testing.assert_array_equal(one.point([0.5, 1.0, 2.0]), other.point([0.5, 1.0, 2.0]))


def follow_updates(rows, batch, rate, sigma, updates):
    """Centres and deviation of every way to choose the batches, all as likely, by the recursion itself."""
    means = [np.mean(chosen) for chosen in combinations(rows, batch)]
    centres = []
    for way in product(means, repeat=updates):
        theta = 0.0
        for mean in way:
            theta -= rate * (theta - mean)
        centres.append(theta)
    variance = 0.0
    for _ in range(updates):
        variance = (1 - rate) ** 2 * variance + (rate * sigma) ** 2
    return np.array(centres), math.sqrt(variance)


@pytest.mark.parametrize(
    ("value", "rows"), [(0.0, [0, 0, 0.7, 0]), (2.0, [2, -1, 2, 2]), (1.0, [3, 1.5, 1, 2]), (0.0, [0, 0, 0, 0])]
)
def test_toy_dpsgd_from_all_choices_of_batches(value, rows):
    parameters = {"batch": 2, "rate": 0.3, "sigma": 1.1, "updates": 3}
    d, d_prime = np.full(4, value), np.array(rows, float)
    (first, *_), spread = follow_updates(d, **parameters)
    centres, _ = follow_updates(d_prime, **parameters)
    shifts = np.abs(centres - first) / spread
    truth = ndtr(-ndtri(SIZES)[:, None] - shifts).mean(axis=1)
    curve, back = exact("toy_dpsgd", parameters, d, d_prime), exact("toy_dpsgd", parameters, d_prime, d)
    np.testing.assert_allclose(curve.tradeoff(SIZES), truth, atol=1e-14)
    np.testing.assert_allclose(back.tradeoff(truth), SIZES, atol=1e-13)
    levels = np.linspace(0, 3, 13)
    np.testing.assert_array_equal(back.delta(levels), curve.delta(levels, "reverse"))


# Draws


@pytest.mark.parametrize(
    ("parameters", "moved"), [({}, 1.0), ({"batch": 3, "updates": 4, "sigma": 0.5, "start": 2.0}, -1.5)]
)
def test_spectrum_of_toy_dpsgd_by_monte_carlo(parameters, moved):
    """delta(epsilon) = E[max(0, 1 - e^(epsilon - L))] over draws of the mechanism, within five standard deviations."""
    size, odd = 400_000, ODD * moved
    curve = exact("toy_dpsgd", parameters, ZEROS, odd)
    given = {"batch": 5, "updates": 10, "sigma": 0.2, "start": 0.0} | parameters
    shares = 0.2 * 0.8 ** np.arange(given["updates"])
    spread, start = given["sigma"] * math.sqrt(np.sum(shares**2)), given["start"] * 0.8 ** given["updates"]
    chance = given["batch"] / 10
    sets = np.array(list(product([0, 1], repeat=given["updates"])))
    weights = chance ** sets.sum(axis=1) * (1 - chance) ** (given["updates"] - sets.sum(axis=1))
    shifts = sets @ shares * moved / given["batch"] / spread

    def loss(outputs):
        """log p/q at the outputs, interpolated finely: it is smooth."""
        grid = np.linspace(-9, 9 + np.abs(shifts).max(), 4001) * np.sign(moved)
        exponents = grid[:, None] * shifts - shifts**2 / 2 + np.log(weights)
        order = np.argsort(grid)
        at = (outputs - start) / spread
        return np.interp(at, grid[order], -np.logaddexp.reduce(exponents, axis=1)[order])

    for number, (database, sign, direction) in enumerate([(ZEROS, 1, "forward"), (odd, -1, "reverse")]):
        losses = sign * loss(toy_dpsgd(database, size, np.random.default_rng(number), **parameters))
        for level in (0.0, 0.5, 1.0, 2.0):
            terms = np.maximum(0.0, -np.expm1(level - losses))
            assert abs(terms.mean() - curve.delta(level, direction)) < 5 * terms.std() / math.sqrt(size) + 1e-6


# Which pairs have a curve


def test_pairs_of_toy_dpsgd():
    assert exact("toy_dpsgd", {}, ZEROS, ZEROS[:9]).delta(0.0) == 0  # a sum of fewer zeros is 0 too
    assert exact("toy_dpsgd", {}, np.arange(10), np.arange(10)[::-1]) == GaussianShift(0.0)
    assert exact("toy_dpsgd", {}, np.arange(10), np.arange(10) + ODD) is None
    assert exact("toy_dpsgd", {}, ZEROS, ODD - np.eye(10)[1]) is None
    assert exact("toy_dpsgd", {"updates": 17}, ZEROS, ODD) is None
    all_rows = exact("toy_dpsgd", {"batch": 10, "updates": 400}, ZEROS, ODD)
    np.testing.assert_allclose(all_rows.shifts, 0.1 / 0.2 * (1 - 0.8**400) / 0.2 / math.sqrt(1 / 0.36), rtol=1e-12)
    with pytest.raises(ValueError, match="updates: 17 was given; accepted: at most 16"):
        toy_dpsgd_pair(updates=17)
    with pytest.raises(ValueError, match="batch: 11 was given; accepted: at most the 10 rows"):
        exact("toy_dpsgd", {"batch": 11}, ZEROS, ODD)


def rate_of(curve, inner):
    assert isinstance(curve, Subsampled)
    assert curve.curve == inner
    return curve.rate


def test_pairs_of_subsampling():
    middle = np.eye(10)[4]
    assert rate_of(exact("subsampled", SUM, ZEROS, middle), GaussianShift(1.0)) == pytest.approx(0.5)
    assert rate_of(
        exact("subsampled", SUM | {"batch": 3}, ZEROS + 1, 1 - 2 * middle), GaussianShift(2.0)
    ) == pytest.approx(0.3)
    back = exact("subsampled", SUM, middle, ZEROS)
    assert isinstance(back, Reversed)
    assert rate_of(back.curve, GaussianShift(1.0)) == pytest.approx(0.5)
    assert exact("subsampled", SUM, ZEROS, ZEROS) == GaussianShift(0.0)
    assert rate_of(exact("subsampled", SUM | {"batch": 10}, ZEROS, middle), GaussianShift(1.0)) == 1.0
    poisson = {"mechanism": "noisy_sum", "parameters": {"scale": 0.5}, "rate": 0.2}
    assert rate_of(exact("subsampled", poisson, ZEROS, middle), LaplaceShift(2.0)) == pytest.approx(0.2)
    assert rate_of(exact("subsampled", poisson, ZEROS[:9], middle), LaplaceShift(2.0)) == pytest.approx(0.2)
    big = exact("subsampled", SUM | {"batch": 600}, np.zeros(60_000), np.eye(1, 60_000, 77)[0])
    assert rate_of(big, GaussianShift(1.0)) == pytest.approx(0.01)
    counts = {"mechanism": "exponential", "parameters": {"outcomes": [0, 1], "epsilon": 2.0}, "batch": 1}
    curve = exact("subsampled", counts, np.array([0, 0, 0, 0]), np.array([0, 1, 0, 0]))
    assert rate_of(curve, curve.curve) == pytest.approx(0.25)
    np.testing.assert_allclose(curve.curve.p, [1 / (1 + math.exp(-1)), 1 / (1 + math.e)])


def test_pairs_of_subsampling_without_a_curve():
    middle, own = np.eye(10)[4], {"mechanism": "own:noisy", "batch": 5}
    assert exact("subsampled", own, ZEROS, middle) is None
    assert exact("subsampled", SUM, ZEROS, middle + ODD) is None  # the sums 0, 1 and 2
    assert exact("subsampled", SUM, ODD, middle + ODD) is None
    assert exact("subsampled", SUM, np.arange(40), np.arange(40) + 1) is None  # too many batches
    assert exact("subsampled", SUM | {"rate": 0.5, "batch": None}, ZEROS + 1, 1 + middle) is None
    vector = {"mechanism": "gaussian", "parameters": {"sigma": 2.0}, "batch": 5}
    assert exact("subsampled", vector, ZEROS, middle) is None  # five places that the row may have
    assert rate_of(exact("subsampled", vector, ZEROS, ODD), GaussianShift(0.5)) == pytest.approx(
        0.5
    )  # always the first
    with pytest.raises(ValueError, match="batch, rate"):
        exact("subsampled", SUM | {"rate": 0.5}, ZEROS, middle)
    with pytest.raises(ValueError, match="parameters of noisy_sum"):
        exact("subsampled", SUM | {"parameters": {"epsilon": 1}}, ZEROS, middle)


def test_pairs_of_the_noisy_sum():
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert exact("noisy_sum", {"sigma": 2.0}, table, table[:2]) == GaussianShift(math.hypot(5, 6) / 2)
    assert exact("noisy_sum", {"scale": 2.0}, table[:, 0], table[:2, 0]) == LaplaceShift(2.5)
    np.testing.assert_allclose(
        exact("noisy_sum", {"scale": 2.0}, table, table[:2]).delta(0.3),
        exact("laplace", {"scale": 2.0}, table.sum(axis=0), table[:2].sum(axis=0)).delta(0.3),
    )
    assert exact("noisy_sum", {"sigma": 2.0}, table, table[:, 0]) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NormalMixture([-1e101], [1.0]), r"shifts: -1e\+101 was given; accepted: numbers from -1e\+100"),
        (lambda: NormalMixture([1.0], [0.5]), "weights: sum: 0.5 was given; accepted: 1 within"),
        (lambda: NormalMixture([1.0, 2.0], [1.0]), "accepted: equal shapes"),
        (lambda: NormalMixture([], []), "shifts, weights: "),
        (lambda: Subsampled(GaussianShift(1.0), 0.0), "rate: 0.0 was given"),
        (lambda: Subsampled(GaussianShift(1.0), 1.1), "rate: 1.1 was given; accepted: a number above 0, at most 1"),
        (lambda: toy_dpsgd_pair(rows=0), "rows: 0 was given"),
        (lambda: toy_dpsgd_pair(shift=math.inf), "shift: inf was given"),
        (lambda: exact("toy_dpsgd", {"start": "0"}, ZEROS, ODD), "start: '0' was given"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
