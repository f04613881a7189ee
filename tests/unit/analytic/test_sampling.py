"""Random batches, mixtures of normal laws and built-in noise: reference numbers, other derivations, and draws."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    Reversed,
    Subsampled,
    exact,
    gaussian_sigma,
    toy_dpsgd_pair,
)
from hpcdp.mechanisms.additive import bounded_mean, bounded_sum, gaussian, laplace, noise_scale, noise_sigma
from hpcdp.mechanisms.table import pmf

SIZES = np.array([0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
ZEROS, ODD = np.zeros(10), np.eye(10)[0]
SUM = {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}
DIRECTIONS = ("forward", "reverse")


def numbers(text):
    return np.array(text.split(), float)


TRADEOFF = {
    10: ".80912 .60489 .47681 .32608 .23145 .11447 .04712 .00925",
    5: ".86953 .69676 .57573 .42021 .31406 .17034 .07744 .01769",
}


@pytest.mark.parametrize("updates", TRADEOFF)
def test_tradeoff_of_toy_dpsgd(updates):
    for curve in (toy_dpsgd_pair(updates=updates), exact("toy_dpsgd", {"updates": updates}, ZEROS, ODD)):
        np.testing.assert_allclose(curve.tradeoff(SIZES), numbers(TRADEOFF[updates]), rtol=0, atol=5.01e-6)


def test_spectrum_of_toy_dpsgd():
    levels = [0.0, 0.5, 1.0, 2.0]
    curve = toy_dpsgd_pair()
    np.testing.assert_allclose(
        curve.delta(levels, "reverse"), numbers(".476292 .363598 .264008 .120403"), rtol=0, atol=5.01e-7
    )
    np.testing.assert_allclose(curve.delta(levels), numbers(".476292 .329416 .194304 .031979"), rtol=0, atol=5.01e-7)


def test_tradeoff_of_the_subsampled_gaussian():
    truth = numbers(".94882 .84524 .75543 .61854 .50859 .32933 .18185 .05563")
    np.testing.assert_allclose(exact("subsampled", SUM, ZEROS, ODD).tradeoff(SIZES), truth, rtol=0, atol=5.01e-6)


# Mixtures of normal laws


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


def test_all_that_is_left_of_a_two_sided_mixture_at_its_supremum():
    curve = NormalMixture([-1.0, 1.0], [0.5, 0.5])
    # p/q is at most e^(1/2), at 0, and within a unit u of that on an interval of some u^(1/2), where p - e^level q is some u.
    assert curve.delta(0.5) <= 2.0**-79.5 * 2.0
    assert curve.delta([0.5 + 1e-15, 1.0, np.inf]).tolist() == [0.0, 0.0, 0.0]
    assert curve.delta(np.inf, "reverse") == 0.0
    steep = NormalMixture([-100.0, -20.0, 0.0, 100.0], [0.01, 0.01, 0.68, 0.3])
    level = steep.epsilon(1e-10)
    assert steep.delta(level) == pytest.approx(1e-10, rel=1e-6)
    assert 0.0 < -math.log(0.68) - level < 1e-9
    assert NormalMixture([-1e100, 0.0, 1e100], [0.25, 0.5, 0.25]).delta(0.0) == pytest.approx(0.5, abs=1e-15)


# Batches

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
    atoms = np.array([0.25, 0.5, 1.0, 2.0])  # where the order of strict and not strict matters
    np.testing.assert_array_equal(turned[0].point(atoms), turned[1].point(atoms))
    for one, other in (mixed, turned, both):
        for direction in DIRECTIONS:
            np.testing.assert_allclose(one.delta(levels, direction), other.delta(levels, direction), atol=1e-14)
        np.testing.assert_allclose(one.tradeoff(sizes), other.tradeoff(sizes), atol=1e-13)
        np.testing.assert_allclose(one.point(etas), other.point(etas), atol=1e-14)


def follow_updates(rows, batch, rate, sigma, updates, start=0.0):
    """Centres and deviation of every way to choose the batches, all as likely, by the recursion itself."""
    means = [np.mean(chosen) for chosen in combinations(rows, batch)]
    centres = []
    for way in product(means, repeat=updates):
        theta = start
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


# Which pairs have a curve


def test_pairs_of_toy_dpsgd():
    assert exact("toy_dpsgd", {}, ZEROS, ZEROS[:9]).delta(0.0) == 0  # a sum of fewer zeros is 0 too
    assert exact("toy_dpsgd", {}, np.arange(10), np.arange(10)[::-1]) == GaussianShift(0.0)
    assert exact("toy_dpsgd", {}, np.arange(10), np.arange(10) + ODD) is None
    assert exact("toy_dpsgd", {}, ZEROS, ODD - np.eye(10)[1]) is None
    assert exact("toy_dpsgd", {"updates": 17}, ZEROS, ODD) is None
    all_rows = exact("toy_dpsgd", {"batch": 10, "updates": 400}, ZEROS, ODD)
    np.testing.assert_allclose(all_rows.shifts, 0.1 / 0.2 * (1 - 0.8**400) / 0.2 / math.sqrt(1 / 0.36), rtol=1e-12)


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


def test_pairs_of_the_noisy_sum():
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert exact("noisy_sum", {"sigma": 2.0}, table, table[:2]) == GaussianShift(math.hypot(5, 6) / 2)
    assert exact("noisy_sum", {"scale": 2.0}, table[:, 0], table[:2, 0]) == LaplaceShift(2.5)
    np.testing.assert_allclose(
        exact("noisy_sum", {"scale": 2.0}, table, table[:2]).delta(0.3),
        exact("laplace", {"scale": 2.0}, table.sum(axis=0), table[:2].sum(axis=0)).delta(0.3),
    )
    assert exact("noisy_sum", {"sigma": 2.0}, table, table[:, 0]) is None


# Draws follow the laws that the exact pairs are of

LEVEL = 1e-6  # failure probability of each statistical check


def within_dkw(draws, cdf):
    """Distance of the empirical to the exact cdf within its DKW-Massart limit, finite-sample."""
    ordered = np.sort(draws)
    grid = np.arange(ordered.size + 1) / ordered.size
    exact_values = cdf(ordered)
    distance = max(np.max(grid[1:] - exact_values), np.max(exact_values - grid[:-1]))
    return distance < math.sqrt(math.log(2.0 / LEVEL) / (2.0 * ordered.size))


def test_noise_follows_its_law():
    size = 200_000
    draws = laplace(np.array([3.0]), size, np.random.default_rng(5), epsilon=0.4, sensitivity=2.0)
    assert draws.shape == (size,)
    assert draws.dtype == np.float64
    assert within_dkw(draws, stats.laplace(3.0, 5.0).cdf)
    assert not within_dkw(draws, stats.laplace(3.0, 5.2).cdf)  # the check has power
    normal = gaussian(np.array(-1.0), size, np.random.default_rng(6), sigma=0.3)
    assert normal.shape == (size,)
    assert within_dkw(normal, stats.norm(-1.0, 0.3).cdf)


@pytest.mark.parametrize("mechanism", [laplace, gaussian])
def test_vector_noise(mechanism):
    parameters = {"epsilon": 1.0} if mechanism is laplace else {"epsilon": 1.0, "delta": 1e-5}
    database = np.array([[0.0, 10.0], [-5.0, 2.0]])
    draws = mechanism(database, 60_000, np.random.default_rng(8), **parameters)
    assert draws.shape == (60_000, 4)
    spread = noise_scale(1.0) if mechanism is laplace else noise_sigma(1.0, 1e-5)
    law = stats.laplace if mechanism is laplace else stats.norm
    for column, centre in enumerate(database.ravel()):
        assert within_dkw(draws[:, column], law(centre, spread).cdf)
    assert np.abs(np.corrcoef(draws.T) - np.eye(4)).max() < stats.norm.isf(LEVEL / 12) / math.sqrt(60_000)
    again = mechanism(database, 60_000, np.random.default_rng(8), **parameters)
    np.testing.assert_array_equal(draws, again)
    assert (database == [[0.0, 10.0], [-5.0, 2.0]]).all()


def test_aggregates_follow_their_law():
    database = np.array([[1.0, 0.0], [9.0, 4.0], [-3.0, 6.0]])
    common = {"lower": 0.0, "upper": 5.0, "epsilon": 0.5}
    size = 100_000
    mean = bounded_mean(database, size, np.random.default_rng(1), count=4, **common)
    assert mean.shape == (size,)
    assert within_dkw(mean, stats.laplace(6.0 / 4.0, 5.0 / 4.0 / 0.5).cdf)
    total = bounded_sum(database, size, np.random.default_rng(2), column=1, **common)
    assert within_dkw(total, stats.laplace(9.0, 10.0).cdf)
    normal = {"lower": -2.0, "upper": 5.0, "epsilon": 1.0, "delta": 0.01, "noise": "gaussian"}
    shifted = bounded_mean(database[:, 0], size, np.random.default_rng(3), count=4, **normal)
    assert within_dkw(shifted, stats.norm(-2.0 + (3 + 7 + 0) / 4, gaussian_sigma(1.0, 0.01, 7 / 4)).cdf)
    empty = bounded_sum(np.empty((0, 2)), size, np.random.default_rng(4), **common)
    assert within_dkw(empty, stats.laplace(0.0, 10.0).cdf)


def test_table_draws():
    table = [[0.5, 0.0, 0.25, 0.25, 0.0], [0.0, 0.1, 0.2, 0.3, 0.4]]
    size = 200_000
    for row, outcomes in ((0, [7, -1, 3, 0, 12]), (1, [0.5, 1.0, 2.5, -4.0, 8.0]), (1, list("abcde"))):
        draws = pmf(np.array([row]), size, np.random.default_rng(row), outcomes=outcomes, table=table)
        assert draws.shape == (size,)
        assert draws.dtype == np.asarray(outcomes).dtype
        for outcome, probability in zip(outcomes, table[row], strict=True):
            count = int(np.sum(draws == outcome))
            low, high = stats.binom.ppf([LEVEL / 2, 1 - LEVEL / 2], size, probability)
            assert low <= count <= high


def test_table_of_many_outcomes():
    # Few and many outcomes take different ways through the edges: both give the inverse cdf of the same uniforms.
    uniforms = np.random.default_rng(9).random(50_000)
    for count in (1, 2, 63, 64, 65, 400):
        row = np.random.default_rng(count).dirichlet(np.ones(count))
        draws = pmf(np.array(0), 50_000, np.random.default_rng(9), outcomes=range(count), table=[row])
        upper = np.cumsum(row)
        assert (uniforms < upper[draws] + 1e-12).all()
        assert (uniforms >= upper[draws] - row[draws] - 1e-12).all()


def test_table_never_draws_the_impossible():
    class Last(np.random.Generator):
        def random(self, size):
            return np.full(size, np.nextafter(1.0, 0.0))

    # Ten times 0.1 sums to less than 1 in floating point.
    row = [0.1] * 10 + [0.0]
    rng = Last(np.random.PCG64(1))
    assert (pmf(np.array(0), 5, rng, outcomes=list(range(11)), table=[row]) == 9).all()
