"""Random batches, mixtures of normal laws and built-in noise: reference numbers, other derivations, and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cells import update_laws
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
from hpcdp.mechanisms.additive import bounded_mean, bounded_sum, gaussian, laplace
from hpcdp.mechanisms.table import pmf

SIZES = np.array([0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
ZEROS, ODD = np.zeros(10), np.eye(10)[0]
SUM = {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}
DIRECTIONS = ("forward", "reverse")


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


@pytest.mark.parametrize(
    ("value", "rows"), [(0.0, [0, 0, 0.7, 0]), (2.0, [2, -1, 2, 2]), (1.0, [3, 1.5, 1, 2]), (0.0, [0, 0, 0, 0])]
)
def test_toy_dpsgd_from_all_choices_of_batches(value, rows):
    parameters = {"batch": 2, "rate": 0.3, "sigma": 1.1, "updates": 3}
    d, d_prime = np.full(4, value), np.array(rows, float)
    (first, *_), _, spread = update_laws(d, **parameters)
    centres, weights, _ = update_laws(d_prime, **parameters)
    shifts = np.abs(centres - first) / spread
    truth = ndtr(-ndtri(SIZES)[:, None] - shifts) @ weights
    curve, back = exact("toy_dpsgd", parameters, d, d_prime), exact("toy_dpsgd", parameters, d_prime, d)
    np.testing.assert_allclose(curve.tradeoff(SIZES), truth, atol=1e-14)
    np.testing.assert_allclose(back.tradeoff(truth), SIZES, atol=1e-13)
    levels = np.linspace(0, 3, 13)
    np.testing.assert_array_equal(back.delta(levels), curve.delta(levels, "reverse"))


# Which pairs have a curve


def test_pairs_of_toy_dpsgd():
    np.testing.assert_array_equal(
        exact("toy_dpsgd", {}, ZEROS, ODD).delta([0.0, 1.0]), toy_dpsgd_pair().delta([0.0, 1.0])
    )
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

TABLE = np.array([[1.0, 0.0], [9.0, 4.0], [-3.0, 6.0]])
LIMITS = {"lower": 0.0, "upper": 5.0, "epsilon": 0.5}
NORMAL = {"lower": -2.0, "upper": 5.0, "epsilon": 1.0, "delta": 0.01, "noise": "gaussian"}
SHIFTED = stats.norm(-2.0 + (3 + 7 + 0) / 4, gaussian_sigma(1.0, 0.01, 7 / 4))
DRAWS = [
    (laplace, np.array([3.0]), {"epsilon": 0.4, "sensitivity": 2.0}, [stats.laplace(3.0, 5.0)]),
    (gaussian, np.array(-1.0), {"sigma": 0.3}, [stats.norm(-1.0, 0.3)]),
    (laplace, TABLE, {"epsilon": 1.0}, [stats.laplace(x, 1.0) for x in TABLE.ravel()]),
    (
        gaussian,
        TABLE,
        {"epsilon": 1.0, "delta": 1e-5},
        [stats.norm(x, gaussian_sigma(1.0, 1e-5)) for x in TABLE.ravel()],
    ),
    (bounded_mean, TABLE, LIMITS | {"count": 4}, [stats.laplace(6.0 / 4.0, 5.0 / 4.0 / 0.5)]),
    (bounded_mean, TABLE[:, 0], NORMAL | {"count": 4}, [SHIFTED]),
    (bounded_sum, TABLE, LIMITS | {"column": 1}, [stats.laplace(9.0, 10.0)]),
    (bounded_sum, np.empty((0, 2)), LIMITS, [stats.laplace(0.0, 10.0)]),
]


@pytest.mark.parametrize(("mechanism", "database", "parameters", "laws"), DRAWS)
def test_noise_follows_its_law(mechanism, database, parameters, laws):
    """Within the finite-sample limit of DKW and Massart at 1e-6, independent in columns, and the database stays as it is."""
    size, before = 100_000, database.copy()
    draws = mechanism(database, size, np.random.default_rng(5), **parameters)
    assert draws.shape == ((size,) if len(laws) == 1 else (size, len(laws)))
    assert draws.dtype == np.float64
    np.testing.assert_array_equal(database, before)
    grid = np.arange(size + 1) / size
    for column, law in zip(draws.reshape(size, -1).T, laws, strict=True):
        exact_values = law.cdf(np.sort(column))
        distance = max(np.max(grid[1:] - exact_values), np.max(exact_values - grid[:-1]))
        assert distance < math.sqrt(math.log(2.0 / 1e-6) / (2.0 * size))
    apart = np.abs(np.atleast_2d(np.corrcoef(draws.reshape(size, -1).T)) - np.eye(len(laws)))
    assert apart.max() < stats.norm.isf(1e-6 / 30) / math.sqrt(size)


def test_table_draws():
    for outcomes in ([7, -1, 3], [0.5, 1.0, 2.5], list("abc")):
        draws = pmf(
            np.array([1]), 9, np.random.default_rng(1), outcomes=outcomes, table=[[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
        )
        np.testing.assert_array_equal(draws, np.array([outcomes[1]] * 9))
        assert draws.dtype == np.asarray(outcomes).dtype
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
