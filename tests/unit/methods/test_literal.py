"""literal-knn: δ of Fig. 1 of Lu et al. and BayBox points against exact truths; which side is thinned; what ⊥ counts."""

from __future__ import annotations

import numpy as np
import pytest
from brute import exact_deltas, laplace_delta

from hpcdp.analytic import Discrete, GaussianShift
from hpcdp.losses.knn.literal import count_rejections
from hpcdp.losses.knn.literal import testing_risk as risk
from hpcdp.losses.parameters import LiteralKnnParameters
from hpcdp.notions.tradeoff import make_point_cells, make_tradeoff

RULE = LiteralKnnParameters()


class Asked:
    """Draws of one value for D and another for D', or of one each in columns, and how many were asked of which side."""

    def __init__(self, p=0.0, q=0.0, columns=()):
        self.values, self.columns, self.sizes = {"p": p, "q": q}, columns, {}

    def __getitem__(self, side):
        def sample(stage, size):
            self.sizes.setdefault((side, stage), []).append(size)
            return np.full((size, *self.columns), self.values[side])

        return sample

    def total(self, side, *stages):
        return sum(sum(self.sizes.get((side, stage), [])) for stage in stages or ("train", "test"))


# δ by the testing risk


def estimate(draw_p, draw_q, epsilon, train, test, seed=0, parameters=RULE):
    rng = np.random.default_rng(seed)
    sides = [lambda _, size, draw=draw: draw(rng, size) for draw in (draw_p, draw_q)]
    errors, tests = risk(*sides, rng, epsilon, train, test, parameters, 1000)
    assert tests == 2 * test
    r = errors / tests
    return max(0.0, 1 - 2 * np.exp(epsilon) * r), 2 * np.exp(epsilon) * np.sqrt(r * (1 - r) / tests)


@pytest.mark.parametrize("epsilon, allowance", [(0.0, 0.004), (0.5, 0.004), (0.9, 0.015)])
@pytest.mark.parametrize("shift", [1.0, -1.0])
def test_laplace(shift, epsilon, allowance):
    """The allowance is for the classifier, as of δ̂ of knn."""
    got, error = estimate(
        lambda rng, size: rng.laplace(size=size),
        lambda rng, size: rng.laplace(shift, size=size),
        epsilon,
        1 << 16,
        1 << 16,
    )
    assert abs(got - laplace_delta(1.0, epsilon)) <= 5 * error + allowance


@pytest.mark.parametrize("columns", [None, 1, 2])
def test_the_first_side_is_thinned(columns):
    p, q = np.array([0.6, 0.35, 0.05]), np.array([0.2, 0.35, 0.45])
    forward, reverse = exact_deltas(p, q, 1.0)
    assert reverse - forward > 0.2

    def draw(probabilities):
        def sample(rng, size):
            x = rng.choice(3, size, p=probabilities)
            return x if columns is None else np.repeat(x[:, None], columns, axis=1)

        return sample

    for first, second, exact in ((p, q, forward), (q, p, reverse)):
        got, error = estimate(draw(first), draw(second), 1.0, 4000, 20000)
        assert abs(got - exact) <= 5 * error


def test_nothing_is_drawn_for_the_symbol_that_is_always_right():
    asked = Asked(0.0, 1.0)
    found = risk(asked["p"], asked["q"], np.random.default_rng(1), 2.0, 5000, 5000, RULE, 512)
    assert found == (0, 10000)  # the sides are told apart without fail
    thinned = np.exp(-2.0) / 2
    assert abs(asked.total("q") - 10000) < 5 * np.sqrt(20000 / 4)
    assert abs(asked.total("p") - 20000 * thinned) < 5 * np.sqrt(20000 * thinned)


def test_equal_votes_are_label_0():
    def one_each(seed):  # of the two labelled draws that train, one has label 1
        return (np.random.default_rng(seed).random(2) < 0.5).sum() == 1

    asked = Asked()
    rng = np.random.default_rng(next(seed for seed in range(99) if one_each(seed)))
    errors, _ = risk(asked["p"], asked["q"], rng, 0.0, 1, 100, LiteralKnnParameters(k=2), 64)
    assert asked.total("q", "train") == 1
    assert errors == asked.total("q", "test")


def test_labels_without_a_training_output():
    far = 60.0  # e^-60: the label 0 side is ⊥ always
    asked = Asked(columns=(2,))
    assert risk(asked["p"], asked["q"], np.random.default_rng(3), far, 8, 100, RULE, 64) == (0, 200)
    assert asked.total("p") == 0
    seed = next(s for s in range(99) if (np.random.default_rng(s).random(2) >= 0.5).all())  # both training draws are ⊥
    asked = Asked()
    errors, _ = risk(asked["p"], asked["q"], np.random.default_rng(seed), far, 1, 100, RULE, 64)
    assert (asked.total("p"), asked.total("q", "train")) == (0, 0)
    assert errors == asked.total("q", "test")  # no vote is label 0


def test_given_k_is_cut_at_the_training_outputs_that_there_are():
    many, apart = LiteralKnnParameters(k=100), Asked(0.0, 1.0)
    errors, tests = risk(apart["p"], apart["q"], np.random.default_rng(0), 3.0, 50, 1000, many, 1000)
    assert 0 <= errors <= tests == 2000
    found = count_rejections(apart["p"], apart["q"], np.random.default_rng(0), 3.0, 60, 100, many, 64)
    assert found == (0, 0)  # all of P outvote all of Q


# Points


def count(draws, eta, train, test, *, seed=0, parameters=RULE, block=1 << 14):
    """BayBox from draws(side, rng, size): side 0 is D. Returns (alpha, beta)."""
    rng = np.random.default_rng([seed, 7])
    sides = [lambda _, size, side=side: draws(side, rng, size) for side in (0, 1)]
    rejected = count_rejections(*sides, rng, eta, train, test, parameters, block)
    return rejected[0] / test, 1 - rejected[1] / test


def excess(alpha, beta, eta, curve, size):
    """Weighted risk above the least one, and its standard error at the exact point.

    The risk is ηα + β, for η < 1 divided by η: 1 minus it is δ of one direction. The error is at least that of one output.
    """
    weights = np.array([eta, 1.0]) / min(1.0, eta)
    exact = np.array([float(x) for x in curve.point(eta)])
    error = np.sqrt(weights**2 @ (exact * (1 - exact)) / size)
    return float(weights @ (np.array([alpha, beta]) - exact)), max(float(error), weights.max() / size)


MODE = np.exp(np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 0.0]]))
MODE /= MODE.sum(axis=1, keepdims=True)
"""The exponential mechanism of ε0 = 2 for the most frequent of 0, 1, 2, on {0,1,1} and {0,1}: q/p is 1.7257, .6349, 1.7257."""


def draw_mode(kind):
    """Outputs of that pair: numbers, rows, or strings, among which no number can stand for ⊥."""

    def draw(side, rng, size):
        x = rng.choice(3, size, p=MODE[side])
        if kind == "bytes":
            return np.array([b"a", b"b", b"c"], object)[x]
        return np.repeat(x[:, None], 2, axis=1) if kind == "rows" else x

    return draw


def draw_normal(side, rng, size):
    return rng.normal(float(side), size=size)


POINTS = {
    "normal": (draw_normal, GaussianShift(1.0), 0.004, [3.0, 1 / 3]),
    "numbers": (draw_mode("numbers"), Discrete(*MODE), 0.001, [0.5, 1.6, 2.0]),
    "rows": (draw_mode("rows"), Discrete(*MODE), 0.001, [0.5, 1.6, 2.0]),
    "bytes": (draw_mode("bytes"), Discrete(*MODE), 0.001, [0.5, 1.6, 2.0]),
}
"""Draws, the exact curve, the regret allowed in δ (as of δ̂, see test_truth), and η at which 1/η has another point."""


@pytest.mark.parametrize("name", POINTS)
def test_the_threshold_is_on_q_over_p(name):
    draws, curve, allowance, etas = POINTS[name]
    size = 1 << 16
    for eta in etas:
        above = {}
        for given in (eta, 1 / eta):  # the printed algorithm thins the other side, so its η is 1/η
            over, error = excess(*count(draws, given, size, size), eta, curve, size)
            above[given] = (over - allowance) / error
            assert over >= -5 * error
        print(
            f"η = {eta:.3g}: {above[eta]:.2f} se above what is allowed, of the other orientation {above[1 / eta]:.0f}"
        )
        assert above[eta] <= 5
        assert above[1 / eta] > 5


@pytest.mark.parametrize("eta", [5.0, 0.2, 1.0])
def test_the_symbol_is_never_drawn_and_tests_are_not_thinned(eta):
    asked, train, test = Asked(0.0, 1.0), 5000, 3000
    found = count_rejections(asked["p"], asked["q"], np.random.default_rng(1), eta, train, test, RULE, 512)
    assert found == (0, test)
    for side, share in (("p", min(1.0, eta)), ("q", min(1.0, 1 / eta))):
        assert asked.total(side, "test") == test
        assert abs(asked.total(side, "train") - share * train) <= 5 * np.sqrt(train * share * (1 - share))
    assert max(size for sizes in asked.sizes.values() for size in sizes) <= 512


@pytest.mark.parametrize("eta, rejected", [(1e300, (0, 0)), (1e-300, (100, 100))])
def test_a_side_without_a_training_output(eta, rejected):
    asked = Asked()
    assert count_rejections(asked["p"], asked["q"], np.random.default_rng(2), eta, 8, 100, RULE, 64) == rejected
    assert sorted(asked.total(side, "train") for side in "pq") == [0, 8]


def test_equal_votes_do_not_reject():
    same, two = Asked(), LiteralKnnParameters(k=2)
    assert count_rejections(same["p"], same["q"], np.random.default_rng(0), 1.0, 1, 100, two, 64) == (0, 0)


@pytest.mark.parametrize("level, train, test, block", [(-0.1, 1, 1, 1), (1.0, 0, 1, 1), (1.0, 1, 0, 1), (1.0, 1, 1, 0)])
def test_impossible_values_are_refused(level, train, test, block):
    for function in (risk, count_rejections):  # at an ε, and at an η
        with pytest.raises(ValueError, match=r"at least|eta: a finite number above 0"):
            function(None, None, np.random.default_rng(0), level, train, test, RULE, block)


@pytest.mark.slow
def test_limits_hold_together_for_points_that_draw_for_themselves():
    rng = np.random.default_rng(5)
    runs, etas, size = 400, 80, 500
    share = rng.uniform(0.3, 0.7, (1, etas, 2))
    test = np.full(share.shape, size)
    alpha, beta = share[..., 0], 1 - share[..., 1]
    held = []
    for _ in range(runs):
        rejected = rng.binomial(size, share)
        points = make_point_cells(rejected, test, 0.95)
        off = np.maximum(np.abs(points.alpha - alpha), np.abs(points.beta - beta))
        limits = (alpha <= points.alpha_upper) & (beta <= points.beta_upper)
        of_one_loss = make_tradeoff(rejected, test[:, 0], 0.95).radius
        held.append([(off <= points.radius).all(), limits.all(), (off <= of_one_loss).all()])
    radius, limits, fault = np.mean(held, axis=0)
    print(f"share of {runs} studies: radius {radius:.4f}, limits {limits:.4f}; with the radius of one L̂ {fault:.4f}")
    least = 0.95 - 4 * np.sqrt(0.05 * 0.95 / runs)  # the exact limits have next to no slack
    assert min(radius, limits) >= least
    assert fault < least


def test_points_that_are_not_counted_are_unknown():
    rejected = np.array([[[3, 5], [-1, -1]]])
    points = make_point_cells(rejected, np.full((1, 2, 2), 10), 0.9)
    np.testing.assert_allclose([points.alpha[0, 0], points.beta[0, 0]], [0.3, 0.5])
    for name in ("alpha", "beta", "radius", "alpha_upper", "beta_upper"):
        assert np.isnan(getattr(points, name)).tolist() == [[False, True]]
