"""What the curves found by quadrature, convolution and enumeration satisfy, within the accuracy that they document."""

import math

import numpy as np
import pytest

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    Piecewise,
    noiseless_count,
    noisy_max_index,
    noisy_max_value,
    randomized_response_pair,
    rappor_pair,
    sparse_vector,
)

ACCURACY = 1e-12  # of the spectrum, as documented

ONES, ZEROS = np.ones(4), np.zeros(4)
FIRST, SECOND = np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0])


def normals(x):
    """Two normal laws of different width: the loss turns at 0."""
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi), -0.125 * x * x - 0.5 * math.log(8 * math.pi)


def wide_normals(x):
    return normals(x)[::-1]


def svt(variant, cutoff=1, swap=False):
    first, second = (SECOND, FIRST) if swap else (FIRST, SECOND)
    return sparse_vector(first, second, variant=variant, epsilon=1.3, threshold=0.7, cutoff=cutoff)


FAMILIES = {
    "two shifts": lambda _: LaplaceVector([0.3, 1.1]),
    "50 shifts": lambda _: LaplaceVector(np.full(50, 0.02)),
    "turning loss": lambda swap: Piecewise([(wide_normals if swap else normals, [-60.0, 60.0])]),
    "NM1": lambda swap: noisy_max_index(*((SECOND, FIRST) if swap else (FIRST, SECOND)), 1.5),
    "NM2": lambda swap: noisy_max_value(*((ZEROS, ONES) if swap else (ONES, ZEROS)), 2.0),
    "NM4": lambda swap: noisy_max_value(*((ZEROS, ONES) if swap else (ONES, ZEROS)), 2.0, "exponential"),
    "SVT 1": lambda swap: svt(1, 2, swap),
    "SVT 2": lambda swap: svt(2, 2, swap),
    "SVT 3": lambda swap: svt(3, 1, swap),
    "SVT 4": lambda swap: svt(4, 2, swap),
    "SVT 5": lambda swap: svt(5, 1, swap),
    "SVT 6": lambda swap: svt(6, 1, swap),
    "responses": lambda _: randomized_response_pair(3, epsilon=0.4, values=4),
    "rappor": lambda swap: rappor_pair(*(([0, 0, 0, 1], [1, 1, 0, 0]) if swap else ([1, 1, 0, 0], [0, 0, 0, 1]))),
    "counts": lambda swap: (
        Discrete(noiseless_count(30, 0.2).q, noiseless_count(30, 0.2).p) if swap else noiseless_count(30, 0.2)
    ),
}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


@every_family
def test_spectrum_properties(family):
    curve, factors = family(False), np.linspace(1.0, 9.0, 201)
    for direction in ("forward", "reverse"):
        delta = curve.delta(np.log(factors), direction)
        assert ((delta >= 0.0) & (delta <= 1.0)).all()
        assert (np.diff(delta) <= ACCURACY).all()
        assert (np.diff(delta, 2) >= -ACCURACY).all()  # convex in e^epsilon
        assert (delta >= 1.0 - factors * (1.0 - delta[0]) - ACCURACY).all()
        assert (np.diff(delta) >= -np.diff(factors) - ACCURACY).all()
    assert curve.delta(0.0) == pytest.approx(float(curve.delta(0.0, "reverse")), abs=ACCURACY)


@every_family
def test_swapping_the_databases_swaps_the_directions(family):
    curve, swapped = family(False), family(True)
    levels, sizes = np.linspace(0.0, 3.0, 61), np.linspace(0.0, 1.0, 41)
    np.testing.assert_allclose(curve.delta(levels), swapped.delta(levels, "reverse"), atol=ACCURACY)
    np.testing.assert_allclose(curve.delta(levels, "reverse"), swapped.delta(levels), atol=ACCURACY)
    # The trade-off curve of the swapped pair is the inverse: T(T'(a)) <= a, with equality where T' falls.
    assert (curve.tradeoff(swapped.tradeoff(sizes)) <= sizes + 1e-10).all()
    # A point of one at 1/eta is a point of the other at eta, but for the atoms at the threshold, of which there are none.
    etas = np.array([0.0123, 0.377, 0.913, 1.077, 2.19, 33.3])
    np.testing.assert_allclose(curve.point(etas), swapped.point(1.0 / etas)[::-1], atol=1e-10)


@every_family
def test_tradeoff_properties(family):
    curve, sizes = family(False), np.linspace(0.0, 1.0, 101)
    beta = curve.tradeoff(sizes)
    assert (np.diff(beta) <= ACCURACY).all()
    assert (np.diff(beta, 2) >= -ACCURACY).all()
    assert (beta <= 1.0 - sizes + ACCURACY).all()
    assert beta[-1] == pytest.approx(0.0, abs=ACCURACY)
    assert beta[0] == pytest.approx(1.0 - float(curve.delta(np.inf, "reverse")), abs=ACCURACY)


@every_family
def test_points_and_spectrum_agree(family):
    curve = family(False)
    etas = np.concatenate((np.geomspace(1e-3, 1e3, 61), [1.0]))
    alpha, beta = curve.point(etas)
    np.testing.assert_allclose(curve.tradeoff(np.minimum(alpha, 1.0)), beta, atol=1e-10)
    up, down = etas >= 1.0, etas <= 1.0
    reverse = 1.0 - beta[up] - etas[up] * alpha[up]
    forward = 1.0 - alpha[down] - beta[down] / etas[down]
    np.testing.assert_allclose(curve.delta(np.log(etas[up]), "reverse"), reverse, atol=1e-10)
    np.testing.assert_allclose(curve.delta(-np.log(etas[down]), "forward"), forward, atol=1e-10)
    assert curve.point(np.inf)[0] == 0.0
    assert curve.point(np.inf)[1] == pytest.approx(1.0, abs=1e-14)
    assert curve.point(0.0)[1] == 0.0


@every_family
def test_tradeoff_is_the_dual_of_the_spectrum(family):
    curve = family(False)
    levels, sizes = np.linspace(0.0, 14.0, 1001)[:, None], np.linspace(0.0, 1.0, 23)
    steep = 1.0 - curve.delta(levels, "reverse") - np.exp(levels) * sizes
    flat = np.exp(-levels) * (1.0 - curve.delta(levels, "forward") - sizes)
    dual = np.maximum(np.maximum(steep, flat).max(axis=0), 0.0)
    truth = curve.tradeoff(sizes)
    assert (dual <= truth + ACCURACY).all()
    assert (dual >= truth - 1e-2).all()  # a maximum over a grid of levels is too small


@every_family
def test_level_of_a_delta(family):
    curve = family(False)
    for direction in ("forward", "reverse"):
        for delta in (1e-4, 0.02, 0.31):
            level = float(curve.epsilon(delta, direction))
            if level == math.inf:
                assert curve.delta(np.inf, direction) > delta
                continue
            assert curve.delta(level, direction) <= delta
            assert level == 0.0 or curve.delta(level * (1.0 - 1e-9), direction) > delta - ACCURACY


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if isinstance(family(False), Discrete)])
def test_spectrum_is_a_mean_over_the_loss(name):
    curve = FAMILIES[name](False)
    possible = curve.p > 0.0
    with np.errstate(divide="ignore"):
        loss = np.log(curve.p[possible]) - np.log(curve.q[possible])
    for level in (0.0, 0.3, 1.0):
        mean = np.sum(curve.p[possible] * np.maximum(0.0, -np.expm1(level - loss)))
        assert curve.delta(level) == pytest.approx(mean, abs=1e-14)


# Piecewise against closed forms


def laplaces(x):
    return -np.abs(x) - math.log(2.0), -np.abs(x - 2.3) - math.log(2.0)


@pytest.mark.parametrize(
    ("densities", "edges", "closed"),
    [
        (laplaces, [-45.0, 0.0, 2.3, 48.0], LaplaceShift(2.3)),
        (lambda x: (normals(x)[0], normals(x - 1.6)[0]), [-40.0, 40.0], GaussianShift(1.6)),
    ],
)
def test_piecewise_is_the_closed_form(densities, edges, closed):
    curve = Piecewise([(densities, edges)])
    levels, etas = np.linspace(0.0, 4.0, 81), np.geomspace(0.01, 50.0, 77)
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(levels, direction), closed.delta(levels, direction), atol=1e-13)
    sizes = np.linspace(0.0, 1.0, 101)
    np.testing.assert_allclose(curve.tradeoff(sizes), closed.tradeoff(sizes), atol=1e-13)
    np.testing.assert_allclose(curve.point(etas), closed.point(etas), atol=1e-12)


def test_turning_loss_closed_form():
    from scipy.special import ndtr

    curve = Piecewise([(normals, [-60.0, 60.0])])
    for level in (0.0, 0.3, 0.6):
        edge = math.sqrt(8.0 / 3.0 * (math.log(2.0) - level))
        truth = 2.0 * ndtr(edge) - 1.0 - math.exp(level) * (2.0 * ndtr(0.5 * edge) - 1.0)
        assert curve.delta(level) == pytest.approx(truth, abs=1e-14)
    assert curve.delta(math.log(2.0) + 1e-9) == 0.0


def test_piecewise_with_atoms_and_impossible_parts():
    # P uniform on [0, 1] with 1/2, else an atom; Q uniform on [0, 2] with 3/4, else the atom.
    def densities(x):
        with np.errstate(divide="ignore"):
            return np.log(np.where(x < 1.0, 0.5, 0.0)), np.full(x.shape, math.log(0.375))

    curve = Piecewise([(densities, [0.0, 1.0, 2.0])], [0.5], [0.25])
    equal = Discrete([0.5, 0.5, 0.0], [0.375, 0.25, 0.375])
    levels, sizes = np.array([0.0, 0.2, 0.5, 1.0, 800.0, np.inf]), np.linspace(0.0, 1.0, 41)
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(levels, direction), equal.delta(levels, direction), atol=1e-14)
    np.testing.assert_allclose(curve.tradeoff(sizes), equal.tradeoff(sizes), atol=1e-14)
    etas = np.array([0.0, 0.49, 0.5, 0.51, 0.7499, 0.7501, 3.0, np.inf])
    np.testing.assert_allclose(curve.point(etas), equal.point(etas), atol=1e-14)


def test_piecewise_refusals():
    with pytest.raises(ValueError, match=r"mass of P: 0\.4"):
        Piecewise([(laplaces, [0.0, 2.3, 48.0])], [0.0], [0.0])
    with pytest.raises(ValueError, match="equal shapes"):
        Piecewise([(laplaces, [-45.0, 0.0, 2.3, 48.0])], [0.0], [])
    with pytest.raises(ValueError, match="lines: "):
        Piecewise([], [1.0], [1.0])
