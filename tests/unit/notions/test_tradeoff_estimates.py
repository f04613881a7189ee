"""Estimates of whole trade-off curves: their errors as samples grow, against the spectrum, and which way η points.

From the estimates to the store: what a study says is what its samples say, computed here without it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from analytic_curves import COUNT_P, COUNT_Q, every_curve
from studies import make_study, run

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    Reversed,
    Subsampled,
    Symmetrised,
    exact,
    toy_dpsgd_pair,
)
from hpcdp.engine.context import open_context
from hpcdp.losses.kde.kde import Kde
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.additive import gaussian, laplace
from hpcdp.mechanisms.subsampled import subsampled
from hpcdp.mechanisms.toy_dpsgd import toy_dpsgd
from hpcdp.notions.curve import TradeOffCurve
from hpcdp.notions.perturbed import default_etas, error, perturbed_points

GRID = default_etas()
SIZES = (100, 1000, 10_000)
RUNS = 100
SURE = 1.0 - 1e-6  # so that what holds with this confidence fails in no test

ZEROS, ODD = [0.0] * 10, [1.0] + [0.0] * 9
SUM = {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}
ONE_SIDED = Subsampled(GaussianShift(1.0), 0.5)

# The paper's four mechanisms (Figures 1, 2, 9 and 10): what draws, its parameters and databases, the exact curve, and
# the mean squared Error_T of 100 runs of a reference simulation with Silverman bandwidths, at 10², 10³ and 10⁴ per database.
MECHANISMS = {
    "gaussian": (gaussian, {"sigma": 1.0}, [[0.0], [1.0]], GaussianShift(1.0), [7.7e-3, 1.0e-3, 1.5e-4]),
    "laplace": (laplace, {"scale": 1.0}, [[0.0], [1.0]], LaplaceShift(1.0), [1.3e-2, 2.0e-3, 3.0e-4]),
    "dp-sgd": (toy_dpsgd, {"updates": 10}, [ZEROS, ODD], toy_dpsgd_pair(), [1.1e-2, 1.3e-3, 2.0e-4]),
    "subsampled": (subsampled, SUM, [ZEROS, ODD], ONE_SIDED, [4.3e-3, 7.9e-4, 1.0e-4]),
}


def estimate(name, rng, size):
    """The points of Algorithm 3 from so many outputs per database."""
    draw, parameters, databases, _, _ = MECHANISMS[name]
    outputs = [np.ravel(draw(np.array(d), size, rng, **parameters)) for d in databases]
    return perturbed_points(*Kde().fit(*(Side(x, size) for x in outputs)).masses(), GRID)


@cache
def estimates(name):
    """Points of 100 runs at each size."""
    return [[estimate(name, np.random.default_rng([size, run]), size) for run in range(RUNS)] for size in SIZES]


def mean_square(errors):
    """The mean of squared errors (sizes, runs), and its own relative standard error."""
    squares = np.square(errors)
    mean = squares.mean(axis=1)
    return mean, squares.std(axis=1) / np.sqrt(RUNS) / mean


@pytest.mark.parametrize("name", MECHANISMS)
def test_error_of_the_whole_curve_falls_as_in_the_reference_simulation(name):
    truth = TradeOffCurve.from_curve(MECHANISMS[name][3])  # within 1e-6, and much faster than the exact one
    found, spread = mean_square([[error(points, truth) for points in runs] for runs in estimates(name)])
    reference = np.array(MECHANISMS[name][4])
    print(f"MSE {found}, relative standard error {spread.round(2)}, over the reference {(found / reference).round(2)}")
    print(f"from {SIZES[0]} to {SIZES[-1]} it falls {found[0] / found[-1]:.0f}-fold")
    assert found[0] >= 25 * found[-1]
    assert (found <= 2 * reference).all()


def test_error_of_the_symmetrised_curve():
    """Against C[T̄] of the subsampled pair, anywhere between 0 and 1; as it is, T̂ would stay 0.04 above it."""
    exact_sizes = np.linspace(0.0, 1.0, 401)
    truth = Symmetrised(ONE_SIDED).tradeoff(exact_sizes)
    errors, one_sided = np.empty((2, len(SIZES), RUNS))
    for i, runs in enumerate(estimates("subsampled")):
        for j, points in enumerate(runs):
            curve = TradeOffCurve.from_points(*points)
            errors[i, j] = np.abs(curve.symmetrise()(exact_sizes) - truth).max()
            one_sided[i, j] = np.abs(curve(exact_sizes) - truth).max()
    found, spread = mean_square(errors)
    print(f"MSE {found}, relative standard error {spread.round(2)}; falls {found[0] / found[-1]:.0f}-fold")
    print(f"without symmetrisation {mean_square(one_sided)[0]}")
    assert found[0] >= 25 * found[-1]
    assert (found <= 2 * np.array(MECHANISMS["subsampled"][4])).all()  # the reference has the one-sided errors only
    assert (one_sided[-1] > 0.03).all()


# Through the store


def test_a_study_says_what_its_samples_say(client, tmp_path):
    study = make_study(
        "subsampled", SUM, [(ZEROS, ODD)], seed=19, loss="kde", epsilons=[0.0], etas=GRID[1:].tolist(),
        train=10_000, test=20_000, chunk=4096, confidence=SURE,
    )  # fmt: skip
    store = tmp_path / "store"
    result = run(study, store, client)
    context = open_context(str(store), 1)
    laws = context.problem.pair_laws[0]
    train, test = (
        [np.concatenate(list(context.chunks(stage, law, range(stage.chunks)))) for law in laws]
        for stage in (context.problem.train, context.problem.test)
    )
    model = Kde().fit(*(Side(x, x.size) for x in train))
    alpha, beta = perturbed_points(*model.masses(), GRID[1:])
    np.testing.assert_array_equal(result["training_alpha"][0], alpha)
    np.testing.assert_array_equal(result["training_beta"][0], beta)
    truth = exact("subsampled", SUM, np.array(ZEROS), np.array(ODD))
    assert error((alpha, beta), truth) <= 5 * np.sqrt(MECHANISMS["subsampled"][4][-1])

    shares = [(model.score(x)[:, None] < -np.log(GRID[1:])).mean(axis=0) for x in test]
    np.testing.assert_allclose(result["alpha"][0], shares[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(result["beta"][0], 1.0 - shares[1], rtol=0, atol=1e-12)
    # both errors are within the radius of those of a test
    radius = result["radius"][0]
    assert (truth.tradeoff(np.minimum(1.0, result["alpha"][0] + radius)) <= result["beta"][0] + radius).all()


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
    size = 30_000
    study = make_study(
        call, parameters, [pair], seed=23, loss=loss, epsilons=LEVELS.tolist(), etas=etas.tolist(),
        train=size, test=size, chunk=size, keep="none", confidence=SURE,
    )  # fmt: skip
    result = run(study, tmp_path / "store", client)
    alpha, beta = result["alpha"][0], result["beta"][0]
    delta = dict(zip(("forward", "reverse"), result["delta"][0], strict=True))
    count = LEVELS.size

    # The counts are the same: of the outputs of D' with L̂ < −ε and of D, the point at η = e^ε has 1 − β and α. At e^−ε
    # it has the outputs with L̂ < ε; those with L̂ > ε are the others, as none of these outputs has L̂ = ε exactly.
    rejected = result["rejected"][0]
    np.testing.assert_array_equal(result["exceed"][0, 1], rejected[count:, ::-1])
    np.testing.assert_array_equal(result["exceed"][0, 0], size - rejected[count - 1 :: -1])
    identity = {
        "reverse": 1.0 - beta[count:] - etas[count:] * alpha[count:],
        "forward": 1.0 - alpha[count - 1 :: -1] - etas[count:] * beta[count - 1 :: -1],
    }
    for direction, found in identity.items():
        np.testing.assert_allclose(np.maximum(found, 0.0), delta[direction], rtol=0, atol=1e-14)

    # δ from the curve of all points: the best of the tests, of which δ̂ has one.
    curve = TradeOffCurve.from_points(alpha, beta)
    truth = exact(call, parameters, *(np.array(d) for d in pair))
    radius = result["radius"][0, 0]
    for number, (direction, direct) in enumerate(delta.items()):
        found = curve.delta(LEVELS, direction)
        over = found - direct
        print(f"{name}, {loss}, {direction}: δ from the curve is {over.max():.5f} above δ̂ at most")
        assert over.min() >= -1e-14
        assert (found >= result["lower"][0, number]).all()
        # the normal approximation behind `upper` needs some outputs in the set
        assert (found <= result["upper"][0, number] + 1e-14)[direct > 0.0].all()
        # both errors of every point are within the radius of those of one test
        assert (found <= truth.delta(LEVELS, direction) + (1.0 + np.exp(LEVELS)) * radius).all()

    # T from both δ̂: lines of slope −η, of which each passes through the point at its η where δ̂ is above 0.
    back = TradeOffCurve.from_delta(LEVELS, delta["forward"], delta["reverse"])
    over = back(alpha) - beta
    known = np.concatenate([delta["forward"][::-1], delta["reverse"]]) > 0.0
    print(f"{name}, {loss}: T from δ̂ is {over[known].max():.5f} above the points at most; radius {radius:.5f}")
    assert over[known].min() >= -1e-12
    assert np.abs(over).max() <= radius
    between = np.linspace(alpha.min(), alpha.max(), 1001)
    assert np.abs(back(between) - curve(between)).max() <= radius
    assert curve.gap(back).size <= radius  # beyond the grid it knows less, so it is lower


@every_curve
def test_points_and_spectrum_of_an_exact_curve(curve):
    """Exact points give the exact δ, and exact δ the points."""
    levels = np.linspace(0.0, 3.0, 61)
    etas = np.exp(np.concatenate([-levels[:0:-1], levels]))
    alpha, beta = curve.point(etas)
    polygon = TradeOffCurve.from_points(alpha, beta)
    deltas = [curve.delta(levels, direction) for direction in ("forward", "reverse")]
    for direction, wanted in zip(("forward", "reverse"), deltas, strict=True):
        np.testing.assert_allclose(polygon.delta(levels, direction), wanted, rtol=0, atol=1e-11)
    back = TradeOffCurve.from_delta(levels, *deltas)
    np.testing.assert_allclose(back(alpha), beta, rtol=0, atol=1e-10)
    np.testing.assert_allclose(back.inverse()(beta), alpha, rtol=0, atol=1e-10)


# Which way η points: from the study to the result


def ask(folder, client, loss, call, parameters, pairs, etas, size, **more):
    """The result of a study that asks for trade-off points."""
    study = make_study(
        call, parameters, pairs, seed=29, loss=loss, epsilons=[0.0], etas=etas, train=size, test=size, chunk=size,
        confidence=SURE, **more,
    )  # fmt: skip
    return run(study, folder / "store", client)


@pytest.mark.parametrize("loss", ["frequency", "knn", "literal-knn"])
def test_orientation_of_an_asymmetric_pair(loss, client, tmp_path):
    """Three outcomes with q/p 1.7256, 0.6348, 1.7256. A threshold on p/q would give at 0.6 what is due at 1.65."""
    table = {"outcomes": [0, 1, 2], "table": [COUNT_P.tolist(), COUNT_Q.tolist()]}
    etas = [1 / 3, 0.6, 1.2, 1.65, 3.0]
    size = 20_000
    result = ask(tmp_path, client, loss, "pmf", table, [([0], [1]), ([1], [0])], etas, size)
    both = COUNT_P[0] + COUNT_P[2], COUNT_Q[1]
    wanted = np.array([(1.0, 0.0), (1.0, 0.0), both, both, (0.0, 1.0)])
    np.testing.assert_allclose(np.transpose(Discrete(COUNT_P, COUNT_Q).point(etas)), wanted, atol=1e-15)
    # of the pair the other way round q/p is 0.5795, 1.5752, 0.5795
    turned = np.array([(1.0, 0.0), both[::-1], both[::-1], (0.0, 1.0), (0.0, 1.0)])
    np.testing.assert_allclose(np.transpose(Reversed(Discrete(COUNT_P, COUNT_Q)).point(etas)), turned, atol=1e-15)
    for number, known in enumerate((wanted, turned)):
        found = np.column_stack([result["alpha"][number], result["beta"][number]])
        assert np.abs(found - known).max() <= result["radius"][number].max()
        if loss != "literal-knn":  # which has no training outputs of its own beside
            trained = np.column_stack([result["training_alpha"][number], result["training_beta"][number]])
            assert np.abs(trained - known).max() <= result["radius"][number].max()
    assert result["radius"].max() < 0.03


@pytest.mark.parametrize(
    "loss, more", [("knn", {}), ("literal-knn", {}), ("kde", {}), ("learned", {"classifier": "logistic"})]
)
def test_orientation_of_a_gaussian_pair(loss, more, client, tmp_path):
    etas = [1 / 3, 3.0]
    result = ask(
        tmp_path, client, loss, "gaussian", {"sigma": 1.0}, [([0.0], [1.0])], etas, 50_000, loss_parameters=more
    )
    wanted = np.transpose(GaussianShift(1.0).point(etas))
    np.testing.assert_allclose(wanted, [(0.72528, 0.05495), (0.05495, 0.72528)], atol=5e-6)
    found = [np.column_stack([result["alpha"][0], result["beta"][0]])]
    if loss != "literal-knn":
        found.append(np.column_stack([result["training_alpha"][0], result["training_beta"][0]]))
    print([part.round(4).tolist() for part in found])
    for part in found:
        # the threshold on the outputs is log η + ½; to move it by 0.1 changes no error by 0.04
        assert np.abs(part - wanted).max() <= 0.04
        assert np.abs(part - wanted[::-1]).min() > 0.6
