"""Built-in noise and tables follow the laws that the exact pairs are of."""

import math

import numpy as np
import pytest
from scipy import stats

from hpcdp.analytic import (
    exact,
    gaussian_sigma,
)
from hpcdp.mechanisms.additive import gaussian, laplace, noise_scale, noise_sigma
from hpcdp.mechanisms.aggregates import bounded_mean, bounded_sum
from hpcdp.mechanisms.table import pmf

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
    quantile = stats.norm.isf(LEVEL / 2)
    assert abs(draws.mean() - 3.0) < quantile * math.sqrt(2 * 25.0 / size)
    assert abs(draws.var() / 50.0 - 1.0) < quantile * math.sqrt(5.0 / size)  # kurtosis 6
    normal = gaussian(np.array(-1.0), size, np.random.default_rng(6), sigma=0.3)
    assert normal.shape == (size,)
    assert within_dkw(normal, stats.norm(-1.0, 0.3).cdf)
    assert abs(normal.var() / 0.09 - 1.0) < quantile * math.sqrt(2.0 / size)


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


def test_exact_pair_predicts_the_mechanism():
    d, d_prime = np.array([0.2, 0.9, 0.4]), np.array([0.2, 0.4])
    parameters = {"lower": 0.0, "upper": 1.0, "count": 3, "epsilon": 1.5}
    curve = exact("bounded_mean", parameters, d, d_prime)
    size, centre = 200_000, 0.6 / 3
    first = bounded_mean(d, size, np.random.default_rng(11), **parameters)
    second = bounded_mean(d_prime, size, np.random.default_rng(12), **parameters)
    # q/p > 1 exactly where the output is nearer to the lower centre.
    alpha, beta = curve.point(1.0)
    threshold = centre + 0.5 * 0.9 / 3
    for rate, truth in ((np.mean(first < threshold), alpha), (np.mean(second >= threshold), beta)):
        assert abs(rate - truth) < stats.norm.isf(LEVEL / 2) * math.sqrt(truth * (1 - truth) / size)


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
