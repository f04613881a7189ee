"""Bandwidths of `kde`: Silverman's rule against its formula, the plug-in against its double sums, and outputs without scale."""

from __future__ import annotations

import numpy as np
import pytest

from hpcdp.losses.kde._bandwidth import LARGEST, SMALLEST, Summary, choose_bandwidths, mean_derivative, sheather_jones
from hpcdp.losses.kde.kde import Kde, KdeParameters
from hpcdp.losses.protocol import Side

LAWS = ("normal", "laplace", "standard_cauchy", "uniform")


def draw(law, size, seed=1):
    return np.sort(getattr(np.random.default_rng(seed), law)(size=size))


def choose(a, b, rule, columns=1):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return choose_bandwidths((a, b), (Summary.of(a), Summary.of(b)), rule, columns)


def robust_scale(x, normal_iqr):
    return min(np.std(x, ddof=1), np.subtract(*np.quantile(x, [0.75, 0.25])) / normal_iqr)


def direct_sum(x, order, pilot):
    """n⁻² ΣΣ of the derivative, one pair after the other."""
    z = (x[:, None] - x[None, :]) / pilot
    hermite = z**4 - 6 * z**2 + 3 if order == 4 else z**6 - 15 * z**4 + 45 * z**2 - 15
    return (hermite * np.exp(-0.5 * z * z)).sum() / np.sqrt(2 * np.pi) / pilot ** (order + 1) / x.size**2


def direct_plug_in(x):
    """The two stages, written out in the outputs' own unit."""
    n, sigma = x.size, robust_scale(x, 1.349)
    psi8 = 105 / (32 * np.sqrt(np.pi) * sigma**9)
    psi6 = direct_sum(x, 6, (30 / (np.sqrt(2 * np.pi) * psi8 * n)) ** (1 / 9))
    psi4 = direct_sum(x, 4, (-6 / (np.sqrt(2 * np.pi) * psi6 * n)) ** (1 / 7))
    return (2 * np.sqrt(np.pi) * psi4 * n) ** (-1 / 5)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [2, 3, 50, 1001])
def test_silverman(law, size):
    a, b = draw(law, size), 3 * draw(law, size + 1, 2)
    for found, x in zip(choose(a, b, "silverman"), (a, b), strict=True):
        assert found == pytest.approx(0.9 * robust_scale(x, 1.34) * x.size**-0.2, rel=1e-12)
    shuffled = np.random.default_rng(0).permutation(a)
    assert choose(shuffled, b, "silverman") == pytest.approx(choose(a, b, "silverman"), rel=1e-12)
    for found, x in zip(choose(a, b, "silverman", 2), (a, b), strict=True):
        assert found == pytest.approx(robust_scale(x, 1.34) * x.size ** (-1 / 6), rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [5, 30, 600])
def test_sheather_jones(law, size):
    x = draw(law, size)
    # Binning at g/16, with a kernel narrowed by what it adds on average, leaves errors of (1/16)²/3 of the next derivative
    # but one, which cancel over many pairs and are small against the sum when pairs are few.
    for order, pilot in ((6, 0.7), (4, 0.5)):
        assert mean_derivative(x, order, pilot) == pytest.approx(direct_sum(x, order, pilot), rel=0.01)
    assert sheather_jones(x, Summary.of(x)) == pytest.approx(direct_plug_in(x), rel=0.002)
    assert choose(x, x, "sheather-jones")[0] == sheather_jones(x, Summary.of(x))
    assert choose(x, x, "sheather-jones", 2)[0] == pytest.approx(sheather_jones(x, Summary.of(x)) * size ** (1 / 30))


@pytest.mark.parametrize("rule", ["silverman", "sheather-jones"])
def test_bandwidths_move_and_scale_with_the_outputs(rule):
    a, b = draw("laplace", 2000), draw("laplace", 3000, 2) + 1
    for factor, shift in ((1000.0, 1e6), (1e-6, 0.0), (2.0**400, 0.0)):
        found = choose(factor * a + shift, factor * b + shift, rule)
        assert np.array(found) / factor == pytest.approx(choose(a, b, rule), rel=1e-9)


def test_a_given_bandwidth_is_in_the_unit_of_the_outputs():
    rng = np.random.default_rng(3)
    sides = [Side(50 * rng.laplace(size=500), 500) for _ in range(2)]
    model = Kde(KdeParameters(bandwidth=0.25)).fit(*sides)
    assert (model.p.bandwidth, model.q.bandwidth) == (0.25, 0.25)
    two = Kde(KdeParameters(bandwidth=2)).fit(*(Side(50 * rng.laplace(size=(500, 2)), 500) for _ in range(2)))
    assert two.p.bandwidths.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("rule", ["silverman", "sheather-jones"])
def test_outputs_without_a_scale_of_their_own(rule):
    broad = draw("normal", 1000)
    own = choose(broad, broad, rule)[1]
    spiked = np.sort(np.concatenate([np.zeros(900), broad[::10]]))  # an interquartile range of 0: the deviation is used
    assert choose(broad, np.full(400, 7.0), rule) == pytest.approx((own, 0.9 * robust_scale(broad, 1.34) * 400**-0.2))
    assert choose(np.empty(0), broad, rule)[0] == pytest.approx(0.9 * robust_scale(broad, 1.34))
    assert choose(np.full(32, 2.0), np.full(32, 5.0), rule) == pytest.approx((1.35, 1.35))  # 0.9 · 3 · 32^(−1/5)
    assert choose(spiked, spiked, "silverman")[0] == pytest.approx(0.9 * np.std(spiked, ddof=1) * 1000**-0.2)
    assert min(choose(spiked, spiked, rule)) > 0
    tenth = np.full(7, 0.1)  # the mean of equal numbers is not always that number
    assert max(choose(tenth, tenth, rule)) < 1e-13


def test_limits():
    assert choose(np.zeros(3), np.zeros(3), "silverman") == (SMALLEST, SMALLEST)
    assert choose(np.zeros(3), np.zeros(3), 1e-200) == (SMALLEST, SMALLEST)
    huge = np.array([-1.7e308, -1e308, 0.0, 1e308, 1.7e308])
    for rule in ("silverman", "sheather-jones"):
        assert choose(huge, huge, rule) == (LARGEST, LARGEST)
    coarse = 1e16 + np.array([0.0, 2.0, 4.0, 6.0])
    assert min(choose(coarse, coarse, "silverman")) == 128 * np.spacing(1e16)
