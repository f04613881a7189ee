"""literal-knn: Fig. 1 of Lu et al. gives the exact δ; which side is thinned; what ⊥ counts."""

from __future__ import annotations

import numpy as np
import pytest
from brute import exact_deltas, laplace_delta

from hpcdp.losses.knn.literal import testing_risk as risk
from hpcdp.losses.knn.parameters import LiteralKnnParameters

RULE = LiteralKnnParameters()


def estimate(draw_p, draw_q, epsilon, train, test, seed=0, parameters=RULE):
    rng = np.random.default_rng(seed)
    errors, tests = risk(
        lambda _, size: draw_p(rng, size),
        lambda _, size: draw_q(rng, size),
        rng,
        epsilon,
        train,
        test,
        parameters,
        1000,
    )
    assert tests == 2 * test
    r = errors / tests
    return max(0.0, 1 - 2 * np.exp(epsilon) * r), 2 * np.exp(epsilon) * np.sqrt(r * (1 - r) / tests)


@pytest.mark.parametrize("epsilon, allowance", [(0.0, 0.004), (0.5, 0.004), (0.9, 0.015)])
@pytest.mark.parametrize("shift", [1.0, -1.0])
def test_laplace(shift, epsilon, allowance):
    got, error = estimate(
        lambda rng, size: rng.laplace(size=size),
        lambda rng, size: rng.laplace(shift, size=size),
        epsilon,
        1 << 16,
        1 << 16,
    )
    off = abs(got - laplace_delta(1.0, epsilon))
    print(f"z of delta {got:.5f}: {off / error:.2f}, allowed: {5 + allowance / error:.2f}")
    assert off <= 5 * error + allowance


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

    z = []
    for first, second, exact in ((p, q, forward), (q, p, reverse)):
        got, error = estimate(draw(first), draw(second), 1.0, 4000, 20000)
        z.append(abs(got - exact) / error)
    print(f"z forward {z[0]:.2f}, reverse {z[1]:.2f}")
    assert max(z) <= 5


def test_nothing_is_drawn_for_the_symbol_that_is_always_right():
    asked = {"p": 0, "q": 0}

    def draw(side, value):
        def sample(_, size):
            asked[side] += size
            return np.full(size, value)

        return sample

    errors, tests = risk(draw("p", 0.0), draw("q", 1.0), np.random.default_rng(1), 2.0, 5000, 5000, RULE, 512)
    assert (errors, tests) == (0, 10000)  # the sides are told apart without fail
    thinned = np.exp(-2.0) / 2
    z_q = abs(asked["q"] - 10000) / np.sqrt(20000 / 4)
    z_p = abs(asked["p"] - 20000 * thinned) / np.sqrt(20000 * thinned)
    print(f"z of the draws: D {z_p:.2f}, D' {z_q:.2f}")
    assert max(z_p, z_q) < 5


def test_equal_votes_are_label_0():
    def one_each(seed):  # of the two labelled draws that train, one has label 1
        return (np.random.default_rng(seed).random(2) < 0.5).sum() == 1

    ones = []

    def draw_q(stage, size):
        ones.append((stage, size))
        return np.zeros(size)

    rng = np.random.default_rng(next(seed for seed in range(99) if one_each(seed)))
    errors, _ = risk(lambda _, size: np.zeros(size), draw_q, rng, 0.0, 1, 100, LiteralKnnParameters(k=2), 64)
    assert ones[0] == ("train", 1)
    assert errors == sum(size for stage, size in ones if stage == "test")


def test_labels_without_a_training_output():
    far = 60.0  # e^-60: the label 0 side is ⊥ always
    errors, tests = risk(
        lambda *_: pytest.fail("drawn"),
        lambda _, size: np.zeros((size, 2)),
        np.random.default_rng(3),
        far,
        8,
        100,
        RULE,
        64,
    )
    assert (errors, tests) == (0, 200)
    seed = next(s for s in range(99) if (np.random.default_rng(s).random(2) >= 0.5).all())  # both training draws are ⊥
    counted = []

    def draw_q(stage, size):
        counted.append((stage, size))
        return np.zeros(size)

    errors, tests = risk(lambda *_: pytest.fail("drawn"), draw_q, np.random.default_rng(seed), far, 1, 100, RULE, 64)
    assert {stage for stage, _ in counted} == {"test"}
    assert errors == sum(size for _, size in counted)  # no vote is label 0


def test_given_k_is_cut_at_the_training_outputs_that_there_are():
    parameters = LiteralKnnParameters(k=100)
    got, error = estimate(
        lambda _, size: np.zeros(size), lambda _, size: np.ones(size), 3.0, 50, 1000, parameters=parameters
    )
    assert np.isfinite([got, error]).all()


@pytest.mark.parametrize(
    "epsilon, train, test, block", [(-0.1, 1, 1, 1), (0.0, 0, 1, 1), (0.0, 1, 0, 1), (0.0, 1, 1, 0)]
)
def test_impossible_values_are_refused(epsilon, train, test, block):
    with pytest.raises(ValueError, match="at least"):
        risk(None, None, np.random.default_rng(0), epsilon, train, test, RULE, block)
