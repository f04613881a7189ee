"""Trade-off points: the perturbed estimator, its error, and agreement with the spectrum."""

from __future__ import annotations

import numpy as np
import pytest
from analytic_curves import COUNT_P, COUNT_Q
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr
from studies import make_study, run

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    Subsampled,
    Symmetrised,
    exact,
)
from hpcdp.losses.kde.kde import Kde
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.subsampled import subsampled
from hpcdp.notions.bounds import hoeffding_radius
from hpcdp.notions.curve import TradeOffCurve
from hpcdp.notions.perturbed import default_etas, error, most_vulnerable, perturbed_points
from hpcdp.notions.tradeoff import make_tradeoff

ETAS = default_etas()
SURE = 1.0 - 1e-6  # so that what holds with this confidence fails in no test


def plain(p, q, etas, width):
    """The definition, as one product of matrices."""
    known = (p > 0.0) | (q > 0.0)
    with np.errstate(divide="ignore"):
        ratio = q[known] / p[known]
    weight = np.clip((ratio - etas[:, None]) / width + 0.5, 0.0, 1.0)
    return weight @ p[known], 1.0 - weight @ q[known]


def normal_cells(shift, cells=20000):
    """Masses of N(0, 1) and N(shift, 1) on cells of 18 standard deviations."""
    edges = np.linspace(-8.5, 8.5 + shift, cells + 1)
    return [masses / masses.sum() for masses in (np.diff(ndtr(edges)), np.diff(ndtr(edges - shift)))]


def test_default_grid_is_that_of_the_paper():
    assert (ETAS.size, ETAS[0], ETAS[-1]) == (1000, 0.0, 15.0)
    np.testing.assert_allclose(np.diff(ETAS), 15.0 / 999, rtol=1e-10)
    assert default_etas(3, 2.0).tolist() == [0.0, 1.0, 2.0]


masses = arrays(np.float64, 6, elements=st.integers(0, 9).map(float)).filter(lambda m: m.sum() > 0.0)


@given(masses, masses, st.floats(0.001, 50.0))
def test_points_of_any_masses(p, q, width):
    p, q = p / p.sum(), q / q.sum()
    etas = np.concatenate((np.linspace(0.0, 10.0, 101), [1e6, 1e100]))
    alpha, beta = perturbed_points(p, q, etas, width)
    known = plain(p, q, etas[:-2], width)
    np.testing.assert_allclose((alpha[:-2], beta[:-2]), known, atol=1e-15 * 10.0 / width + 1e-14)
    # only what P can not give is rejected beyond all finite ratios
    np.testing.assert_allclose((alpha[-2:], beta[-2:]), [[0.0] * 2, [q[p > 0.0].sum()] * 2], atol=1e-15)
    np.testing.assert_array_equal(perturbed_points(p, q, etas[::-1], width), [alpha[::-1], beta[::-1]])
    assert (np.diff(alpha) <= 1e-13).all()
    assert (np.diff(beta) >= -1e-13).all()
    # mixtures of Neyman–Pearson points lie on or above the curve
    assert (beta >= Discrete(p, q).tradeoff(alpha) - 1e-12).all()


def test_bias_of_the_perturbation_on_exact_densities():
    # as docs/mathematics-claims.md has it
    p, q = normal_cells(1.0)
    etas = np.append(ETAS, 0.2)
    alpha, beta = perturbed_points(p, q, etas)
    bias = beta - GaussianShift(1.0).tradeoff(alpha)
    assert bias.min() >= -1e-13
    assert bias[etas >= 1.0].max() <= 1.5e-4
    assert 4.3e-4 <= bias[-1] <= 4.5e-4
    assert error((alpha, beta), GaussianShift(1.0)) == np.abs(bias).max()
    narrow = perturbed_points(p, q, etas, 0.01)
    assert error(narrow, GaussianShift(1.0)) <= 0.011 * bias.max()  # of second order in the width


def test_threshold_on_an_asymmetric_pair():
    # q/p is 1.7256, 0.6348, 1.7256. At 3 and 1/3 p/q would say the same; at 1.2 and 1/1.2 it would not.
    etas = np.array([3.0, 1 / 3, 1.2, 1 / 1.2, 1.65])
    first = COUNT_P[0] + COUNT_P[2], COUNT_Q[1]
    expected = np.array([(0.0, 1.0), (1.0, 0.0), first, first, first])
    exact = Discrete(COUNT_P, COUNT_Q).point(etas)
    found = perturbed_points(COUNT_P, COUNT_Q, etas)  # 1.65 is 0.05 and more below the ratio, half a width
    np.testing.assert_allclose(np.transpose(exact), expected, atol=1e-15)
    np.testing.assert_allclose(np.transpose(found), expected, atol=1e-14)
    # inside the window: a random choice between the points on both sides
    share = (COUNT_Q[0] / COUNT_P[0] - 1.75) / 0.1 + 0.5
    halfway = perturbed_points(COUNT_P, COUNT_Q, [1.75])
    np.testing.assert_allclose(np.ravel(halfway), [share * first[0], 1.0 - share * (1.0 - first[1])], atol=1e-14)


def test_the_curve_of_the_points_and_its_symmetrised_one():
    shares = normal_cells(1.0, 4096)
    p, q = shares[0], 0.5 * shares[0] + 0.5 * shares[1]
    exact = Subsampled(GaussianShift(1.0), 0.5)
    points = perturbed_points(p, q, ETAS)
    curve = TradeOffCurve.from_points(*points)
    assert curve.convex().gap(curve).size <= 1e-13  # a curve of averages over moving windows is convex
    assert error(points, exact) < 1e-3
    both = curve.symmetrise()
    sizes = np.linspace(0.0, 1.0, 201)
    over = both(sizes) - Symmetrised(exact).tradeoff(sizes)
    assert over.min() > -1e-12
    assert over.max() < 1e-3


def test_most_vulnerable_point():
    # Figure 5 of Askin et al. (2025): the largest gap between the claim mu = 0.5 and the truth mu = 1 is at alpha = 0.227
    alpha, beta = perturbed_points(*normal_cells(1.0), ETAS)
    claim = GaussianShift(0.5)
    place = most_vulnerable(alpha, beta, claim)
    assert alpha[place] == pytest.approx(0.227, abs=0.003)
    assert claim.tradeoff(alpha[place]) - beta[place] == pytest.approx(0.1974, abs=2e-4)
    # a curve object is a claim as well
    assert most_vulnerable(alpha, beta, TradeOffCurve.from_curve(claim, 1e-8)) == place
    assert most_vulnerable([0.2, 0.2], [0.3, 0.3], claim) == 0


def test_error_takes_the_largest_distance_on_both_sides():
    truth = LaplaceShift(1.0)
    sizes = np.array([0.1, 0.5])
    assert error((sizes, truth.tradeoff(sizes) + np.array([0.02, -0.03])), truth) == pytest.approx(0.03, abs=1e-15)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: perturbed_points([0.5, 0.4], [0.5, 0.5], [1.0]), "p: .* of sum 1"),
        (lambda: perturbed_points([0.5, 0.5], [1.0], [1.0]), "q: "),
        (lambda: perturbed_points([1.0], [1.0], [-1.0]), "etas: -1.0 was given"),
        (lambda: perturbed_points([1.0], [1.0], [np.inf]), "etas: inf was given"),
        (lambda: perturbed_points([1.0], [1.0], 1.0), r"shape of etas: \(\) was given; accepted: \(etas,\)"),
        (lambda: perturbed_points([1.0], [1.0], [1.0], 0.0), "width: 0.0 was given; accepted: a finite number > 0"),
        (lambda: default_etas(1), "count: 1 was given; accepted: an integer >= 2"),
        (lambda: default_etas(10, 0.0), "stop: 0.0"),
        (lambda: error(([], []), GaussianShift(1.0)), "shapes of alpha, beta"),
        (lambda: most_vulnerable([0.1], [0.2, 0.3], GaussianShift(1.0)), "shapes of alpha, beta"),
        (lambda: most_vulnerable([1.1], [0.2], GaussianShift(1.0)), "alpha: 1.1"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_radius_holds_for_sets_that_are_not_nested() -> None:
    """Sets of 32 L̂ of their own at one n: the largest gap of all rates, 2,000 runs; w(γ) of one family fails."""
    rng, n, groups, runs = np.random.default_rng(1), 400, 32, 2000
    rates = rng.binomial(n, 0.5, (runs, groups, 2)) / n
    largest = np.abs(rates - 0.5).max(axis=(1, 2))
    counts = np.full((1, groups, 2), n // 2)
    radius = make_tradeoff(counts, np.array([[n, n]]), 0.5, groups).radius
    np.testing.assert_allclose(radius, hoeffding_radius(n, 0.5 / groups))
    assert (largest > radius.max()).mean() <= 0.5
    assert (largest > float(hoeffding_radius(n, 0.5))).mean() > 0.5


# Errors as samples grow

ZEROS, ODD = [0.0] * 10, [1.0] + [0.0] * 9
SUM = {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}


# One of the paper's mechanisms (Figures 1, 2, 9 and 10), and the mean squared Error_T of 100 runs of a reference simulation
# with Silverman bandwidths at 10³ outputs per database.
REFERENCE = 7.9e-4


def estimate(rng, size):
    """The points of Algorithm 3 from so many outputs per database."""
    outputs = [np.ravel(subsampled(np.array(d), size, rng, **SUM)) for d in (ZEROS, ODD)]
    return perturbed_points(*Kde().fit(*(Side(x, size) for x in outputs)).masses(), ETAS)


def test_error_of_a_small_sample_is_that_of_the_reference_simulation():
    """And with the two databases exchanged, planted, it is not."""
    truth = TradeOffCurve.from_curve(Subsampled(GaussianShift(1.0), 0.5))
    points = [estimate(np.random.default_rng([1000, run]), 1000) for run in range(20)]
    assert np.mean([error(found, truth) ** 2 for found in points]) <= 2 * REFERENCE
    assert np.mean([error((1.0 - beta, 1.0 - alpha), truth) ** 2 for alpha, beta in points]) > 2 * REFERENCE


# δ(ε) from the curve, and the curve from δ(ε)

LEVELS = np.linspace(0.05, 1.5, 30)
PAIRS = {
    "subsampled": ("subsampled", SUM, (ZEROS, ODD)),
    "dp-sgd": ("toy_dpsgd", {}, (ODD, ZEROS)),
    "laplace": ("laplace", {"scale": 1.0}, ([0.0], [1.0])),
}


@pytest.mark.parametrize("loss", ["knn", "kde"])
@pytest.mark.parametrize("name", PAIRS)
def test_points_and_spectrum_agree(name, loss, client, tmp_path):
    call, parameters, pair = PAIRS[name]
    etas = np.exp(np.concatenate([-LEVELS[::-1], LEVELS]))
    size, count = 30_000, LEVELS.size
    study = make_study(
        call, parameters, [pair], seed=23, loss=loss, epsilons=LEVELS.tolist(), etas=etas.tolist(),
        train=size, test=size, chunk=size, keep="none", confidence=SURE,
    )  # fmt: skip
    result = run(study, tmp_path / "store", client)
    alpha, beta, radius = result["alpha"][0], result["beta"][0], result["radius"][0, 0]

    # The counts are the same: of the outputs of D' with L̂ < −ε and of D, the point at η = e^ε has 1 − β and α. At e^−ε
    # it has the outputs with L̂ < ε; those with L̂ > ε are the others, as none of these outputs has L̂ = ε exactly.
    rejected = result["rejected"][0]
    np.testing.assert_array_equal(result["exceed"][0, 1], rejected[count:, ::-1])
    np.testing.assert_array_equal(result["exceed"][0, 0], size - rejected[count - 1 :: -1])

    # δ from the curve of all points: the best of the tests, of which δ̂ has one.
    curve = TradeOffCurve.from_points(alpha, beta)
    truth = exact(call, parameters, *(np.array(d) for d in pair))
    for direction, direct, lower, upper in zip(
        ("forward", "reverse"), result["delta"][0], result["lower"][0], result["upper"][0], strict=True
    ):
        found = curve.delta(LEVELS, direction)
        assert (found >= np.maximum(direct - 1e-14, lower)).all()
        # the normal approximation behind `upper` needs some outputs in the set
        assert (found <= upper + 1e-14)[direct > 0.0].all()
        # both errors of every point are within the radius of those of one test
        assert (found <= truth.delta(LEVELS, direction) + (1.0 + np.exp(LEVELS)) * radius).all()

    # T from both δ̂: lines of slope −η, of which each passes through the point at its η where δ̂ is above 0.
    forward, reverse = result["delta"][0]
    over = TradeOffCurve.from_delta(LEVELS, forward, reverse)(alpha) - beta
    assert over[np.concatenate([forward[::-1], reverse]) > 0.0].min() >= -1e-12
    assert np.abs(over).max() <= radius
