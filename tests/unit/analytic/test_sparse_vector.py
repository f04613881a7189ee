"""The sparse vector technique: reference numbers, and every variant against a direct computation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from cells import sparse_vector_laws
from scipy import stats

from hpcdp.analytic import Discrete, Piecewise, exact, sparse_vector

GRID = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0]
X_SPECTRA = {
    1: (".087482 .057487 .035940 .020262 .010045 .005631 .002583 .000524 0", 0.989331),
    4: (".107629 .088354 .073799 .067480 .062401 .056788 .043728 .029441 .023714", 1.741600),
}


def x_pair(epsilon):
    """Answers of the 40 queries of the X-shaped pair, for threshold 1; the gaps to it are the pattern and its complement."""
    half = int(10 * epsilon + 2)
    gaps = np.repeat([1.0, 0.0, 1.0, 0.0], [half, half, 20 - half, 20 - half])
    return 1.0 - gaps, gaps


def patterns(queries):
    """The eight input patterns of Ding et al. (2018)."""
    ones, half = np.ones(queries), np.arange(queries) < queries // 2
    single = np.arange(queries) == 0
    yield ones, np.where(single, 2.0, 1.0)
    yield ones, np.where(single, 0.0, 1.0)
    yield ones, np.where(single, 2.0, 0.0)
    yield ones, np.where(single, 0.0, 2.0)
    yield ones, np.where(half, 2.0, 0.0)
    yield ones, 2.0 * ones
    yield ones, 0.0 * ones
    yield half.astype(float), (~half).astype(float)


@pytest.mark.parametrize("variant", X_SPECTRA)
def test_x_pair_reference(variant):
    """Of forty queries."""
    truth, level = X_SPECTRA[variant]
    curve = sparse_vector(*x_pair(1.0), variant=variant, epsilon=1.0, threshold=1.0)
    np.testing.assert_allclose(curve.delta(GRID), np.array(truth.split(), float), rtol=0, atol=5.01e-7)
    np.testing.assert_allclose(curve.spectrum(GRID), curve.delta(GRID), atol=1e-14)  # forward is the larger direction
    assert curve.pure() == pytest.approx(level, abs=5.01e-7)


def test_what_is_private_and_what_is_not():
    # Variants 1 and 2 keep their level on every pattern, at cut-offs 1 and 2; 4 exceeds it on the X-shaped pair.
    for pair, variant, cutoff in itertools.product(patterns(6), (1, 2), (1, 2)):
        curve = sparse_vector(*pair, variant=variant, epsilon=0.8, threshold=1.0, cutoff=cutoff)
        assert curve.pure() <= 0.8 + 1e-12
    first, second = x_pair(1.0)
    for cutoff in (1, 2):
        level = sparse_vector(first, second, variant=4, epsilon=1.0, threshold=1.0, cutoff=cutoff).pure()
        assert 1.0 < level <= (1 + 6 * cutoff) / 4
    same = [sparse_vector(first, second, variant=v, epsilon=1.0, threshold=1.0).delta([0.0, 0.4]) for v in (1, 2)]
    np.testing.assert_array_equal(*same)
    # A shift of all answers alike is a shift of the threshold: at most half the level.
    uniform = sparse_vector(np.ones(20), np.zeros(20), variant=1, epsilon=1.0, threshold=3.0)
    assert 0.45 < uniform.pure() <= 0.5


# Direct computations, written from the definition

ANSWERS = (np.array([0.3, -0.4, 1.1]), np.array([1.0, 0.2, 0.5]))
THRESHOLD, EPSILON, SENSITIVITY = 0.6, 0.9, 0.5
UNIT = SENSITIVITY / EPSILON


@pytest.mark.parametrize(
    ("variant", "cutoff", "rho", "nu"),
    [(1, 1, 2, 4), (1, 2, 2, 8), (2, 2, 4, 8), (4, 2, 4, 4 / 3), (4, 3, 4, 4 / 3), (6, 1, 2, 2)],
)
def test_all_outcomes_against_direct_quadrature(variant, cutoff, rho, nu):
    end = 4 if variant == 6 else cutoff  # it never ends early
    laws = [sparse_vector_laws(a, THRESHOLD, rho * UNIT, nu * UNIT, end, variant == 2) for a in ANSWERS]
    direct = Discrete(*(list(law.values()) for law in laws))
    curve = sparse_vector(
        *ANSWERS, variant=variant, epsilon=EPSILON, threshold=THRESHOLD, cutoff=cutoff, sensitivity=SENSITIVITY
    )
    assert curve.p.size == len(laws[0])
    levels = [0.0, 0.1, 0.4, 1.0]
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(levels, direction), direct.delta(levels, direction), atol=1e-9)
    np.testing.assert_allclose(curve.tradeoff([0.1, 0.5]), direct.tradeoff([0.1, 0.5]), atol=1e-9)


def test_exact_answers_against_a_grid_of_noise():
    count = 200_000
    noise = stats.laplace(0.0, 2 * UNIT).ppf((np.arange(count) + 0.5) / count)
    laws = []
    for answers in ANSWERS:
        codes = (answers >= THRESHOLD + noise[:, None]) @ (1 << np.arange(3))
        laws.append(np.bincount(codes, minlength=8) / count)
    curve = sparse_vector(*ANSWERS, variant=5, epsilon=EPSILON, threshold=THRESHOLD, sensitivity=SENSITIVITY)
    for direction in ("forward", "reverse"):
        truth = Discrete(*laws).delta([0.0, 0.2, 0.9, np.inf], direction)
        np.testing.assert_allclose(curve.delta([0.0, 0.2, 0.9, np.inf], direction), truth, atol=10 / count)


def test_released_answers_against_direct_quadrature():
    rho, nu = 2 * UNIT, 2 * UNIT
    noise = stats.laplace(0.0, nu)
    curve = sparse_vector(*ANSWERS, variant=3, epsilon=EPSILON, threshold=THRESHOLD, sensitivity=SENSITIVITY)
    assert isinstance(curve, Piecewise)
    # Index j and value v: f(v - q_j) times the mean, over thresholds up to v, of "all before are below"; by rectangles.
    none = [sparse_vector_laws(answers, THRESHOLD, rho, nu, 1)[()] for answers in ANSWERS]
    cells = np.linspace(-25.0, 26.0, 2501)
    middle, width = 0.5 * (cells[1:] + cells[:-1]), cells[1] - cells[0]
    fine = np.linspace(-45.0, 46.0, 60_001)
    weight = stats.laplace(THRESHOLD, rho).pdf(fine) * (fine[1] - fine[0])
    densities = []
    for answers in ANSWERS:
        passed, lines = np.ones(fine.size), []
        for answer in answers:
            lines.append(noise.pdf(middle - answer) * np.interp(middle, fine, np.cumsum(weight * passed)))
            passed = passed * noise.cdf(fine - answer)
        densities.append(np.concatenate(lines))
    for level in (0.0, 0.2, 0.7):
        for direction, (p, q), (a, b) in (
            ("forward", densities, none),
            ("reverse", densities[::-1], none[::-1]),
        ):
            truth = width * np.maximum(p - math.exp(level) * q, 0).sum() + max(a - math.exp(level) * b, 0.0)
            assert curve.delta(level, direction) == pytest.approx(truth, abs=1e-3)


def test_where_no_exact_way_is_practical():
    many = np.arange(60.0)
    assert sparse_vector(many, many + 1, variant=1, epsilon=1.0, cutoff=3) is None
    assert sparse_vector(many, many + 1, variant=3, epsilon=1.0, cutoff=2) is None
    assert sparse_vector(many, many + 1, variant=6, epsilon=1.0) is None
    assert sparse_vector(np.zeros(501), np.ones(501), variant=1, epsilon=1.0) is None
    assert sparse_vector(np.zeros(501), np.ones(501), variant=6, epsilon=1.0) is not None
    assert exact("sparse_vector", {"variant": 1, "epsilon": 1.0}, np.zeros(2), np.zeros(3)) is None


def test_builder_passes_everything_on():
    parameters = {"variant": 4, "epsilon": 0.9, "threshold": 0.6, "cutoff": 2, "sensitivity": 0.5}
    built = exact("sparse_vector", parameters, *ANSWERS)
    np.testing.assert_array_equal(built.p, sparse_vector(*ANSWERS, **parameters).p)


def test_alike_queries_are_counted_once():
    # Bits of queries with equal answers weigh alike, so their number is enough: 2^6 outcomes against 4 times 4.
    first, second = np.repeat([1.0, 0.0], 3), np.repeat([0.0, 1.0], 3)
    curve = sparse_vector(first, second, variant=6, epsilon=1.0)
    apart = sparse_vector(first + 1e-9 * np.arange(6), second, variant=6, epsilon=1.0)
    np.testing.assert_allclose(curve.delta([0.0, 0.5, 2.0]), apart.delta([0.0, 0.5, 2.0]), atol=1e-8)
