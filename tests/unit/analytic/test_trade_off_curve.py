"""Trade-off curves as objects, one or several together, against exact curves, brute force and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from analytic_curves import CURVES
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pairs_of_laws import DIRECTIONS, LEVELS, PAIRS, SIZES, P, Q, every_pair
from scipy.stats import binom

import hpcdp
from hpcdp.analytic import Discrete, GaussianShift, LaplaceShift, LaplaceVector, Subsampled
from hpcdp.notions.curve import TradeOffCurve

ROUNDING = 1e-14
SMOOTH = {name: CURVES[name] for name in ("laplace 12", "gaussian 3e-4", "gaussian 9", "dp (.6, .03)", "dp-sgd")} | {
    "gaussian 1": GaussianShift(1.0),
    "laplace 1": LaplaceShift(1.0),
    "three laplace": LaplaceVector([0.5, 0.3, 0.2]),
    "subsampled": Subsampled(GaussianShift(1.0), 0.5),
}
every_smooth = pytest.mark.parametrize("exact", SMOOTH.values(), ids=SMOOTH)


def levels_of(curve):
    """The levels at which the spectra of a convex polygon bend: there they say all that there is to say."""
    convex = curve.convex()
    sides = np.diff(convex.alpha) > 0.0
    slopes = -np.diff(convex.beta)[sides] / np.diff(convex.alpha)[sides]
    return np.unique(np.concatenate(([0.0], np.abs(np.log(slopes[slopes > 0.0])))))


@every_pair
def test_discrete_pairs_are_exact(p, q):
    curve, exact = TradeOffCurve.from_discrete(p, q), Discrete(p, q)
    np.testing.assert_array_equal(curve(SIZES), exact.tradeoff(SIZES))
    for direction in DIRECTIONS:
        np.testing.assert_allclose(curve.delta(LEVELS, direction), exact.delta(LEVELS, direction), atol=1e-15)
    np.testing.assert_allclose(curve.spectrum(LEVELS), exact.spectrum(LEVELS), atol=1e-15)
    np.testing.assert_allclose(curve.inverse()(SIZES), Discrete(q, p).tradeoff(SIZES), atol=ROUNDING)
    np.testing.assert_array_equal(TradeOffCurve.from_curve(exact).alpha, curve.alpha)


@every_pair
def test_polygon_from_its_own_spectrum(p, q):
    curve = TradeOffCurve.from_discrete(p, q)
    levels = levels_of(curve)
    back = TradeOffCurve.from_delta(levels, *(curve.delta(levels, direction) for direction in DIRECTIONS))
    np.testing.assert_allclose(back(SIZES), curve(SIZES), atol=ROUNDING)
    # swapping the two directions is the reversed pair
    swapped = TradeOffCurve.from_delta(levels, *(curve.delta(levels, direction) for direction in DIRECTIONS[::-1]))
    np.testing.assert_allclose(swapped(SIZES), curve.inverse()(SIZES), atol=ROUNDING)


@every_smooth
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_polygon_of_an_exact_curve_is_as_near_as_it_says(exact, tolerance):
    curve = TradeOffCurve.from_curve(exact, tolerance)
    over = curve(SIZES) - exact.tradeoff(SIZES)
    assert over.min() > -ROUNDING
    assert over.max() <= tolerance + ROUNDING
    for direction in DIRECTIONS:
        short = exact.delta(LEVELS, direction) - curve.delta(LEVELS, direction)
        assert short.min() > -1e-11
        assert short.max() <= tolerance + ROUNDING
    back = curve.inverse()
    np.testing.assert_array_equal(back.inverse().alpha, curve.alpha)
    np.testing.assert_array_equal(back.inverse().beta, curve.beta)


@every_smooth
def test_curve_from_delta_is_below_and_near(exact):
    step = 0.06 if exact is SMOOTH["gaussian 9"] else 0.01  # whose losses reach beyond 100
    levels = step * np.arange(2001)
    curve = TradeOffCurve.from_delta(levels, *(exact.delta(levels, direction) for direction in DIRECTIONS))
    under = exact.tradeoff(SIZES) - curve(SIZES)
    assert under.min() > -1e-11
    # the triangle under two supporting lines whose log-slopes differ by a step
    assert under.max() < step / 4
    for direction in DIRECTIONS:
        np.testing.assert_allclose(curve.delta(levels, direction), exact.delta(levels, direction), atol=1e-11)


def test_from_delta_takes_one_spectrum_for_both_directions():
    levels = np.array([0.3, 0.0])
    curve = TradeOffCurve.from_delta(levels, [0.05, 0.2])
    assert curve.is_symmetric(1e-15)
    f = np.maximum(1.0 - 0.05 - np.exp(0.3) * SIZES, np.exp(-0.3) * (1.0 - 0.05 - SIZES))
    np.testing.assert_allclose(curve(SIZES), np.maximum(0.0, np.maximum(f, 0.8 - SIZES)), atol=ROUNDING)


@st.composite
def polygons(draw):
    """Curves that never rise, convex or not."""
    count = draw(st.integers(0, 6))
    points = [np.sort(draw(arrays(np.float64, count, elements=st.integers(0, 20)))) / 20.0 for _ in range(2)]
    return TradeOffCurve.from_points(points[0], points[1][::-1])


@given(polygons())
def test_operations_on_any_polygon(curve):
    back = curve.inverse()
    np.testing.assert_array_equal(back.inverse().alpha, curve.alpha)
    np.testing.assert_array_equal(back.inverse().beta, curve.beta)
    # the inverse is the least size that reaches an error
    reached = curve(back(SIZES))
    assert (reached <= SIZES + 1e-12).all()
    convex, both = curve.convex(), curve.symmetrise()
    for part, whole in ((convex, curve), (both, convex), (both, back)):
        assert part.gap(whole).size >= 0.0
        assert whole.gap(part).size <= ROUNDING
    for hull in (convex, both):
        steps = np.diff(hull.alpha) > 0.0
        slopes = np.diff(hull.beta)[steps] / np.diff(hull.alpha)[steps]
        assert (np.diff(slopes) > -1e-9).all()
        np.testing.assert_allclose(hull.convex()(SIZES), hull(SIZES), atol=ROUNDING)
    assert both.is_symmetric(ROUNDING)
    np.testing.assert_allclose(both.symmetrise()(SIZES), both(SIZES), atol=ROUNDING)
    np.testing.assert_allclose(both.delta(LEVELS), curve.spectrum(LEVELS), atol=ROUNDING)
    # brute force over all corners
    for direction, (x, y) in zip(DIRECTIONS, ((curve.beta, curve.alpha), (curve.alpha, curve.beta)), strict=True):
        factors = np.exp(LEVELS[:-3, None])
        np.testing.assert_allclose(
            curve.delta(LEVELS[:-3], direction), (1.0 - y - factors * x).max(axis=1).clip(0.0), atol=ROUNDING
        )


def test_a_corner_at_minus_zero_is_one_at_zero():
    flat = TradeOffCurve([0.0, 0.0, 0.5, 1.0], [1.0, 0.4, -0.0, 0.0])
    assert flat.delta([2.0, np.inf]).tolist() == [0.5, 0.5]


def test_gap_is_found_between_the_samples():
    # Figure 5 of Askin et al. (2025): the claim mu = 0.5 where 1 is true
    claim, truth = (TradeOffCurve.from_curve(GaussianShift(mu), 1e-7) for mu in (0.5, 1.0))
    gap = truth.gap(claim)
    assert gap.size == pytest.approx(0.1974, abs=6e-5)
    assert gap.alpha == pytest.approx(0.227, abs=6e-4)
    assert claim.gap(truth).size <= 1e-7
    step = TradeOffCurve([0.0, 0.5, 0.5, 1.0], [1.0, 1.0, 0.0, 0.0])
    line = TradeOffCurve.from_points([], [])
    assert line.gap(step) == (0.5, 0.5)  # the limit from the left
    assert step(0.5) == 0.0
    assert step.inverse()([0.0, 0.3, 1.0]).tolist() == [0.5, 0.5, 0.0]


def test_symmetry_is_measured_across():
    steep = TradeOffCurve([0.0, 1e-9, 1.0], [1.0, 2e-9, 0.0])
    assert steep.is_symmetric(3e-9)
    assert not steep.is_symmetric(1e-9)
    assert not TradeOffCurve.from_discrete(P, Q).is_symmetric(1e-3)
    assert TradeOffCurve.from_curve(LaplaceShift(1.0)).is_symmetric(1e-6)


def test_tests_of_any_kind():
    rng = np.random.default_rng(3)
    sizes = rng.random(40)
    errors = np.minimum(1.0, GaussianShift(1.0).tradeoff(sizes) + 0.3 * rng.random(40))
    curve = TradeOffCurve.from_tests(sizes, errors)
    assert (curve(sizes) <= errors + ROUNDING).all()
    assert (curve(SIZES) >= GaussianShift(1.0).tradeoff(SIZES) - ROUNDING).all()
    with pytest.raises(ValueError, match="from_tests takes the best of any tests"):
        TradeOffCurve.from_points(sizes, errors)


def test_the_package_offers_it_and_claims_can_use_it(tmp_path):
    assert hpcdp.TradeOffCurve is TradeOffCurve
    curve = TradeOffCurve.from_discrete(P, Q)
    np.testing.assert_array_equal(curve.tradeoff(SIZES), curve(SIZES))
    assert curve(np.full((2, 3), 0.5)).shape == curve.delta(np.full((2, 3), 0.5)).shape == (2, 3)
    assert curve(0.5).shape == curve.delta(0.5).shape == ()
    with pytest.raises(ValueError, match="read-only"):
        curve.alpha[0] = 0.5
    figure = curve.plot(path=tmp_path / "new" / "curve.svg", label="T")
    assert curve.inverse().plot(axis=figure.axes[0]) is figure
    assert len(figure.axes[0].lines) == 3
    assert "<svg" in (tmp_path / "new" / "curve.svg").read_text()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TradeOffCurve([0.0, 0.5], [1.0, 0.2]), r"first and last corner: .* accepted: \(0, 1\) and \(1, 0\)"),
        (lambda: TradeOffCurve([0.0, 0.6, 0.4, 1.0], [1.0, 0.3, 0.2, 0.0]), r"\(0.6, 0.3\), \(0.4, 0.2\).*never falls"),
        (lambda: TradeOffCurve([0.0, 0.4, 0.6, 1.0], [1.0, 0.2, 0.3, 0.0]), r"\(0.4, 0.2\), \(0.6, 0.3\).*never rises"),
        (lambda: TradeOffCurve.from_points([0.1, 0.2], [0.3]), r"shapes of alpha, beta: \(\(2,\), \(1,\)\)"),
        (lambda: TradeOffCurve.from_points([0.1], [1.2]), "beta: 1.2 was given; accepted: numbers from 0 to 1"),
        (lambda: TradeOffCurve.from_discrete([0.5, 0.6], [0.5, 0.5]), "p: .* of sum 1"),
        (lambda: TradeOffCurve.from_curve("gaussian"), "exact: 'gaussian' was given; accepted: a curve of"),
        (lambda: TradeOffCurve.from_curve(GaussianShift(1.0), 0.0), "tolerance: 0.0 was given"),
        (lambda: TradeOffCurve.from_curve(GaussianShift(1.0), 1e-14), "tolerance: 1e-14 .* too many points"),
        (lambda: TradeOffCurve.from_delta([0.0, 1.0], [0.5]), "shapes of epsilons, forward, reverse"),
        (lambda: TradeOffCurve.from_delta([], []), "with k >= 1"),
        (lambda: TradeOffCurve.from_delta([np.inf], [0.1]), "epsilons: inf was given; accepted: numbers from 0 to 700"),
        (lambda: TradeOffCurve.from_points([], [])(1.5), "alpha: 1.5"),
        (lambda: TradeOffCurve.from_points([], []).delta(-1.0), "epsilon: -1.0"),
        (lambda: TradeOffCurve.from_points([], []).delta(1.0, "both"), "direction: 'both'"),
        (lambda: TradeOffCurve.from_points([], []).gap(GaussianShift(1.0)), "a TradeOffCurve; from_curve makes one"),
        (lambda: TradeOffCurve.from_points([], []).tensor(3), "other: 3"),
        (lambda: TradeOffCurve.from_points([], []).power(0), "n: 0 was given; accepted: an integer >= 1"),
        (lambda: TradeOffCurve.from_points([], []).is_symmetric(-1.0), "tolerance: -1.0"),
        (
            lambda: TradeOffCurve.from_points([], []).plot(path="x.pdf"),
            "path: 'x.pdf' was given; accepted: .png or .svg",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Several outputs together


def product(*pairs):
    """The laws of independent outputs, by brute force."""
    laws = [np.ones(1), np.ones(1)]
    for pair in pairs:
        laws = [np.outer(law, part).ravel() for law, part in zip(laws, pair, strict=True)]
    return Discrete(*(law / law.sum() for law in laws))


@pytest.mark.parametrize("first, second", list(itertools.combinations_with_replacement(PAIRS, 2)))
def test_tensor_of_discrete_pairs_is_exact(first, second):
    both = TradeOffCurve.from_discrete(*PAIRS[first]).tensor(TradeOffCurve.from_discrete(*PAIRS[second]))
    truth = product(PAIRS[first], PAIRS[second])
    np.testing.assert_allclose(both(SIZES), truth.tradeoff(SIZES), atol=2e-15)
    for direction in DIRECTIONS:
        np.testing.assert_allclose(both.delta(LEVELS, direction), truth.delta(LEVELS, direction), atol=2e-15)


@every_pair
def test_power_of_discrete_pairs_is_exact(p, q):
    curve = TradeOffCurve.from_discrete(p, q)
    for count in (1, 2, 5):
        np.testing.assert_allclose(curve.power(count)(SIZES), product(*[(p, q)] * count).tradeoff(SIZES), atol=1e-14)


def test_power_of_randomised_response_is_binomial():
    curve = TradeOffCurve.from_discrete([0.6, 0.4], [0.4, 0.6])
    for count in (40, 2000):  # exact, and on a grid
        ones = np.arange(count + 1)
        truth = Discrete(*(law / law.sum() for law in (binom.pmf(ones, count, 0.4), binom.pmf(ones, count, 0.6))))
        whole = curve.power(count)
        np.testing.assert_allclose(whole(SIZES), truth.tradeoff(SIZES), atol=1e-11)
        assert whole.is_symmetric(1e-11)


def test_a_power_on_the_grid_is_on_or_below_the_exact_one():
    p, q = np.array([0.45, 0.25, 0.2, 0.1, 0.0]), np.array([0.1, 0.2, 0.3, 0.35, 0.05])
    curve = TradeOffCurve.from_discrete(p, q)
    truth = product(*[(p, q)] * 7).tradeoff(SIZES)
    np.testing.assert_allclose(curve.power(7)(SIZES), truth, atol=1e-14)
    np.testing.assert_allclose(curve.power(3).tensor(curve.power(4))(SIZES), truth, atol=1e-14)
    # twelve losses of five kinds have 1820 sums, more than a power takes exactly; two halves are 210 by 210 outcomes
    grid, exact = curve.power(12), curve.power(6).tensor(curve.power(6))
    assert exact.alpha.size < 2000 < grid.alpha.size
    for under in (
        exact(SIZES) - grid(SIZES),
        *(grid.delta(LEVELS, direction) - exact.delta(LEVELS, direction) for direction in DIRECTIONS),
    ):
        assert under.min() >= -1e-12
        assert under.max() <= 1e-6
    both = grid.tensor(exact)  # on a grid as well
    np.testing.assert_allclose(both(SIZES), exact.power(2)(SIZES), atol=1e-6)


def test_what_only_one_law_can_give_adds_up():
    # the mass of infinite loss of n outputs, and a curve that reaches 0
    p, q = [0.9, 0.1, 0.0], [0.0, 0.998, 0.002]
    for curve, count in ((TradeOffCurve.from_discrete(p, q), 200), (TradeOffCurve.from_discrete(P, Q), 500)):
        shared = 1.0 - curve.delta(np.inf), 1.0 - curve.delta(np.inf, "reverse")
        whole = curve.power(count)
        assert whole.delta(np.inf) == pytest.approx(1.0 - shared[0] ** count, abs=1e-12)
        assert whole.delta(np.inf, "reverse") == pytest.approx(1.0 - shared[1] ** count, abs=1e-12)
    equal = TradeOffCurve.from_discrete([0.5, 0.5], [0.5, 0.5])
    assert equal.power(10**6)(0.25) == pytest.approx(0.75, abs=1e-15)


def test_a_polygon_is_a_curve_like_exact_ones():
    pair = Discrete([0.5, 0.3, 0.15, 0.05], [0.2, 0.25, 0.25, 0.3])
    curve, etas = TradeOffCurve.from_discrete(pair.p, pair.q), [0.0, 0.3, 1.0, 2.0, 5.9, np.inf]
    np.testing.assert_allclose(curve.point(etas), pair.point(etas), atol=1e-12)
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.epsilon(0.1, direction), pair.epsilon(0.1, direction), rtol=1e-9)
