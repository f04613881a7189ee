"""The loss `kde`: bandwidths, density estimates, L̂ and counts, accuracy, what must not change it, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from hpcdp.errors import StudyError
from hpcdp.losses import make_loss, refuse_unusable, validate_parameters
from hpcdp.losses.counts import count_losses, merge_thresholds
from hpcdp.losses.kde import _density
from hpcdp.losses.kde._density import (
    LARGEST,
    SMALLEST,
    Line,
    Plane,
    Summary,
    choose_bandwidths,
    mean_derivative,
    sheather_jones,
)
from hpcdp.losses.kde.kde import Kde, KdeParameters, LineModel
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.outputs import Schema

EPSILONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
THRESHOLDS = merge_thresholds(EPSILONS, np.linspace(0.015, 15.0, 1000))
RULES = ["silverman", "sheather-jones"]


def learn(p, q, **parameters):
    p, q = np.asarray(p), np.asarray(q)
    return Kde(KdeParameters(**parameters)).fit(Side(p, p.shape[0]), Side(q, q.shape[0]))


# Bandwidths, against their formulas


def draw_sorted(law, size, seed=1):
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


@pytest.mark.parametrize("law", ["normal", "laplace", "standard_cauchy", "uniform"])
def test_bandwidths_are_those_of_the_rules(law):
    for size in (2, 3, 50, 1001):
        a, b = draw_sorted(law, size), 3 * draw_sorted(law, size + 1, 2)
        wanted = [0.9 * robust_scale(x, 1.34) * x.size**-0.2 for x in (a, b)]
        assert choose(a, b, "silverman") == pytest.approx(wanted, rel=1e-12)
        assert choose(np.random.default_rng(0).permutation(a), b, "silverman") == pytest.approx(wanted, rel=1e-12)
        wanted = [robust_scale(x, 1.34) * x.size ** (-1 / 6) for x in (a, b)]
        assert choose(a, b, "silverman", 2) == pytest.approx(wanted, rel=1e-12)
    for size in (5, 30, 600):
        x = draw_sorted(law, size)
        # Binning at g/16, with a kernel narrowed by what it adds on average, leaves errors of (1/16)²/3 of the next
        # derivative but one, which cancel over many pairs and are small against the sum when pairs are few.
        for order, pilot in ((6, 0.7), (4, 0.5)):
            assert mean_derivative(x, order, pilot) == pytest.approx(direct_sum(x, order, pilot), rel=0.01)
        found = sheather_jones(x, Summary.of(x))
        assert found == pytest.approx(direct_plug_in(x), rel=0.002)
        assert choose(x, x, "sheather-jones")[0] == found
        assert choose(x, x, "sheather-jones", 2)[0] == pytest.approx(found * size ** (1 / 30))


def test_a_given_bandwidth_is_in_the_unit_of_the_outputs():
    rng = np.random.default_rng(3)
    model = learn(50 * rng.laplace(size=500), 50 * rng.laplace(size=500), bandwidth=0.25)
    assert (model.p.bandwidth, model.q.bandwidth) == (0.25, 0.25)
    two = learn(50 * rng.laplace(size=(500, 2)), 50 * rng.laplace(size=(500, 2)), bandwidth=2)
    assert two.p.bandwidths.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("rule", RULES)
def test_outputs_without_a_scale_of_their_own(rule):
    broad = draw_sorted("normal", 1000)
    own = choose(broad, broad, rule)[1]
    spiked = np.sort(np.concatenate([np.zeros(900), broad[::10]]))  # an interquartile range of 0: the deviation is used
    assert choose(broad, np.full(400, 7.0), rule) == pytest.approx((own, 0.9 * robust_scale(broad, 1.34) * 400**-0.2))
    assert choose(np.empty(0), broad, rule)[0] == pytest.approx(0.9 * robust_scale(broad, 1.34))
    assert choose(np.full(32, 2.0), np.full(32, 5.0), rule) == pytest.approx((1.35, 1.35))  # 0.9 · 3 · 32^(−1/5)
    assert choose(spiked, spiked, "silverman")[0] == pytest.approx(0.9 * np.std(spiked, ddof=1) * 1000**-0.2)
    assert min(choose(spiked, spiked, rule)) > 0
    tenth = np.full(7, 0.1)  # the mean of equal numbers is not always that number
    assert max(choose(tenth, tenth, rule)) < 1e-13
    huge = np.array([-1.7e308, -1e308, 0.0, 1e308, 1.7e308])
    assert choose(huge, huge, rule) == (LARGEST, LARGEST)
    assert choose(np.zeros(3), np.zeros(3), "silverman") == (SMALLEST, SMALLEST)
    assert choose(np.zeros(3), np.zeros(3), 1e-200) == (SMALLEST, SMALLEST)
    coarse = 1e16 + np.array([0.0, 2.0, 4.0, 6.0])
    assert min(choose(coarse, coarse, "silverman")) == 128 * np.spacing(1e16)


# Densities, against direct sums over all outputs


def line(x, h, draws=None, floor=1.0):
    x = np.sort(np.asarray(x, np.float64))
    return Line.learn(x, Summary.of(x).median, draws or x.size, h, floor)


def plane(rows, hs, draws=None, floor=1.0):
    return Plane.learn(rows, [Summary.of(c) for c in rows.T.copy()], draws or rows.shape[0], np.asarray(hs), floor)


def direct(outputs, places, hs):
    """At places: the estimate, and sums over kernels K of |z² − 1| K and of (z⁴ + 6z² + 3) K, z the distance in h."""
    outputs, places = outputs.reshape(outputs.shape[0], -1), places.reshape(places.shape[0], -1)
    z = (places[:, None, :] - outputs[None, :, :]) / hs
    kernels = np.exp(-0.5 * (z * z).sum(axis=2)) / np.prod(np.sqrt(2 * np.pi) * np.asarray(hs)) / outputs.shape[0]
    second, fourth = np.abs(z * z - 1).sum(axis=2), (z**4 + 6 * z**2 + 3).sum(axis=2)
    return kernels.sum(axis=1), (second * kernels).sum(axis=1), (fourth * kernels).sum(axis=1)


def check_density(density, outputs, places, hs, nodes):
    """The error is no more than binning and interpolation explain.

    The nodes' kernels have variance h² − Δ²/3, and binning and interpolation add from 0 to Δ²/4 each. So at most
    Δ²/6 · |K″|, which is |z² − 1| K/6 · (Δ/h)², is missed on each axis, and terms in (Δ/h)⁴.
    """
    wanted, second, fourth = direct(outputs, places, hs)
    order = 1 / (6 * nodes**2)
    allowed = order * second + 2 * order**2 * fourth + 1e-12 * wanted.max()
    error = np.abs(density(places) - wanted)
    print(f"largest share of the allowed error: {(error / allowed).max():.2f}")
    assert (error <= allowed).all()


@pytest.mark.parametrize("size", [1, 2, 60, 1000])
@pytest.mark.parametrize("law", ["normal", "laplace", "standard_cauchy"])
def test_densities_of_numbers(law, size):
    rng = np.random.default_rng(size)
    x, h = getattr(rng, law)(size=size), 0.3
    learned = line(x, h)
    places = np.concatenate([x, x + 0.1, rng.uniform(-8, 8, 1000)])
    check_density(learned.density, x, places, [h], _density._LINE_NODES)
    assert learned.floor == pytest.approx(1 / (size * h))
    assert np.trapezoid(learned.values, learned.nodes) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("size", [1, 50, 500])
def test_densities_of_pairs_of_numbers(size):
    rng = np.random.default_rng(size)
    rows, hs = rng.laplace(size=(size, 2)) * [1.0, 5.0], np.array([0.3, 2.0])
    learned = plane(rows, hs, floor=3.0)
    places = np.concatenate([rows, rows + 0.1, rng.uniform(-9, 9, (1000, 2))])
    check_density(learned.density, rows, places, hs, _density._PLANE_NODES)
    assert learned.floor == pytest.approx(3 / (np.sqrt(2 * np.pi) * size * 0.6))
    assert learned.values.sum() * np.prod(learned.spacing) == pytest.approx(1.0, abs=1e-12)


def test_outputs_of_a_region_have_a_density_of_all_draws():
    x = np.random.default_rng(0).normal(size=100)
    whole, part = line(x, 0.3), line(x, 0.3, draws=400)
    np.testing.assert_allclose(part.density(x), whole.density(x) / 4, rtol=1e-12)
    assert part.floor == pytest.approx(whole.floor / 4)
    assert line(np.empty(0), 0.3, draws=5).density(x).tolist() == [0.0] * 100
    assert plane(np.empty((0, 2)), [1.0, 1.0], draws=5).density(np.zeros((3, 2))).tolist() == [0.0] * 3


def test_islands_are_as_good_as_one_grid():
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(size=200), 1e9 + rng.normal(size=50), [-3e4, 1e300]])
    learned = line(x, 0.2)
    assert learned.nodes.size < 2000
    for at in (0.0, 1e9, -3e4):
        near = x[np.abs(x - at) < 100]
        places = at + rng.uniform(-5, 5, 300)
        wanted = direct(near, places, [0.2])[0] * near.size / x.size
        # nodes far out are as coarse as floats are there, and what is below a thousandth of the floor counts as nothing
        np.testing.assert_allclose(learned.density(places), wanted, rtol=0.01, atol=1e-3 * learned.floor)
    between = np.array([100.0, 5e8, -1e4, 1e200, -1e300])
    assert not learned.density(between).any()
    assert learned.density(np.array([1e300])).tolist() == [0.0]  # farther than floats tell nodes apart


def test_too_many_nodes(monkeypatch):
    """The islands of fewest outputs are left out; where there are none, the bandwidth is doubled."""
    monkeypatch.setattr(_density, "_MOST_ON_LINE", 1000)
    monkeypatch.setattr(_density, "_MOST_ON_PLANE", 200**2)
    rng = np.random.default_rng(6)
    crowd, lone = rng.normal(size=500), 1e4 + 1e3 * np.arange(50.0)
    learned = line(np.concatenate([crowd, lone]), 0.1)
    assert learned.bandwidth == 0.1
    assert learned.nodes.size <= 1000
    assert (learned.density(crowd) > 0).all()
    assert 0 < (learned.density(lone) > 0).sum() < 50
    wide = line(np.linspace(0.0, 100.0, 10_000), 0.1)
    assert wide.bandwidth == 0.1 * 2 ** round(np.log2(wide.bandwidth / 0.1)) > 0.1
    np.testing.assert_allclose(wide.density(np.linspace(20, 80, 9)), 0.01, rtol=1e-3)
    rows = np.concatenate([rng.normal(size=(2000, 2)), [[1e6, 0.0], [0.0, -1e8]]])
    cut = plane(rows, [0.2, 0.2])
    assert cut.values.size <= 200**2
    whole = direct(rows, np.zeros((1, 2)), [0.2, 0.2])[0]
    np.testing.assert_allclose(cut.density(np.zeros((1, 2))), whole, rtol=0.02)
    assert not cut.density(rows[-2:]).any()
    assert plane(np.column_stack([rng.uniform(0, 400, 2000), np.zeros(2000)]), [1.0, 1.0]).values.size <= 200**2


# The log-ratio of two densities with floors, and its counts


@pytest.mark.parametrize(
    "p, q, wanted",
    [
        (0.6, 0.3, np.log(2.0)),  # both known
        (0.3, 0.6, -np.log(2.0)),
        (0.6, 0.01, np.log(6.0)),  # q is at most its floor, 0.1: p/q is at least that
        (0.04, 0.8, -np.log(20.0)),  # both known: p is from 0.02
        (0.01, 0.8, -np.log(40.0)),  # p is at most its floor
        (0.05, 0.04, 0.0),  # q may be anything up to 0.1, so p/q may be 1
        (0.1, 0.05, 0.0),
        (0.01, 0.05, 0.0),  # neither is known
        (0.0, 0.0, 0.0),
        (0.5, 0.5, 0.0),
    ],
)
def test_nearest_to_no_evidence(p, q, wanted):
    """One cell of constant densities p and q, of floors 0.02 and 0.1: score and step function."""
    nodes = np.array([0.0, 1.0])
    model = LineModel(Line(nodes, np.full(2, p), 0.02, 1.0), Line(nodes, np.full(2, q), 0.1, 1.0))
    x = np.array([-0.1, 0.0, 0.4, 1.0, 1.1])
    assert model.score(x) == pytest.approx([0.0, wanted, wanted, wanted, 0.0], abs=1e-12)
    np.testing.assert_array_equal(LineModel(model.q, model.p).score(x), -model.score(x))
    thresholds = np.array([-0.5, 0.0, 0.5])
    np.testing.assert_array_equal(model.counter(thresholds).count(x), count_losses(model.score(x), thresholds))


@pytest.mark.few
@pytest.mark.parametrize("law", ["laplace", "normal", "standard_cauchy"])
@pytest.mark.parametrize("bandwidth", [*RULES, 0.05])
def test_counts_are_those_of_the_scores(law, bandwidth):
    rng = np.random.default_rng(2)
    draw = getattr(rng, law)
    model = learn(draw(size=5000), 0.5 + draw(size=7000), bandwidth=bandwidth)
    x = draw(size=50_000)
    for thresholds in (THRESHOLDS, np.array([0.3]), np.empty(0)):
        counter = model.counter(thresholds)
        found = counter.count(x)
        np.testing.assert_array_equal(found, count_losses(model.score(x), thresholds))
        restored = make_loss("kde", {"bandwidth": bandwidth}).restore(counter.state(), thresholds)
        np.testing.assert_array_equal(restored.count(x), found)
        np.testing.assert_array_equal(counter.count(x[:999]) + counter.count(x[999:]), found)


# What must not change L̂


@pytest.mark.parametrize("bandwidth", RULES)
@pytest.mark.parametrize("factor, shift, tolerance", [(1000.0, 1e6, 1e-6), (-1.0, 0.0, 1e-12), (2.0**-20, 0.0, 1e-12)])
def test_scores_of_outputs_in_another_unit(factor, shift, tolerance, bandwidth):
    """But for the few at an edge, where a density is its floor and L̂ may jump."""
    rng = np.random.default_rng(4)
    p, q, x = rng.laplace(size=20_000), rng.laplace(0.7, size=20_000), rng.laplace(0.3, size=50_000)
    before = learn(p, q, bandwidth=bandwidth).score(x)
    after = learn(factor * p + shift, factor * q + shift, bandwidth=bandwidth).score(factor * x + shift)
    assert (np.abs(after - before) > tolerance).sum() <= 2


@pytest.mark.parametrize("shape", [(3000,), (3000, 2)])
def test_sides_in_turn_negate_the_loss_and_equal_sides_have_none(shape):
    rng = np.random.default_rng(5)
    p, q, x = rng.laplace(size=shape), 2 * rng.laplace(size=shape), 3 * rng.laplace(size=shape)
    np.testing.assert_array_equal(learn(p, q).score(x), -learn(q, p).score(x))
    same = learn(p, p)
    assert not same.score(x).any()
    np.testing.assert_array_equal(same.counter(np.array([0.0])).count(x), [0, 3000, 0])


# Outputs that have no density


def test_the_order_of_outputs_and_the_axis_of_one_column_change_no_bit():
    rng = np.random.default_rng(3)
    p, q, x = rng.laplace(size=3000), rng.laplace(1.0, size=3000), rng.laplace(size=1000)
    wanted = learn(p, q).score(x)
    np.testing.assert_array_equal(learn(np.sort(p), q[::-1]).score(x), wanted)
    np.testing.assert_array_equal(learn(p[:, None], q[:, None]).score(x[:, None]), wanted)


LONE = {
    "equal, one value": ([4.0] * 50, [4.0] * 50, {4.0: 0, 5.0: 0}),
    "equal, one value, other sizes": ([4.0] * 50, [4.0] * 90, {4.0: 0, 5.0: 0}),
    "equal, two values": ([4.0] * 50, [7.0] * 50, {4.0: 1, 7.0: -1, 100.0: 0}),
    "one side equal": ([0.5] * 50, np.linspace(0, 1, 200), {0.5: 1, 0.99: -1, 9.0: 0}),
    "one output each": ([1.0], [2.0], {1.0: 0, 2.0: 0}),
    "booleans": ([False] * 80 + [True] * 20, [True] * 80 + [False] * 20, {False: 1, True: -1}),
    "integers": (np.repeat([0, 1, 2], [50, 30, 20]), np.repeat([0, 1, 2], [20, 30, 50]), {0: 1, 2: -1}),
    "zero and a few": ([0.0] * 97 + [1.0, 2.0, 3.0], [5.0] * 100, {0.0: 1, 5.0: -1}),
    "denormal": (1e-310 * np.arange(100), 1e-310 * np.arange(100), {0.0: 0, 5e-309: 0, 1.0: 0}),
    "huge": ([-1.7e308] * 30 + [1.7e308] * 70, [-1.7e308] * 70 + [1.7e308] * 30, {0.0: 0}),
    "rounded": (1e16 + 2.0 * np.arange(50), 1e16 + 2.0 * np.arange(50) + 60, {1e16: 1, 1e16 + 150: -1}),
}


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", LONE)
def test_outputs_without_a_density(name, copies):
    """Numbers, and rows of the number twice; a rule sees which side a value is of, and no bandwidth makes a NaN."""
    a, b, places = (
        np.asarray(v) if copies == 1 else np.stack([v, v], axis=-1) for v in (*LONE[name][:2], [*LONE[name][2]])
    )
    thresholds = np.array([-1.0, 0.0, 1.0])
    models = {bandwidth: learn(a, b, bandwidth=bandwidth) for bandwidth in (*RULES, 1e-12, 1e12)}
    for model in models.values():
        scores = model.score(places)
        assert np.isfinite(np.concatenate([scores, model.score(a), model.score(b)])).all()
        np.testing.assert_array_equal(model.counter(thresholds).count(places), count_losses(scores, thresholds))
    for rule in RULES:
        assert np.sign(models[rule].score(places)).tolist() == list(LONE[name][2].values())


@pytest.mark.parametrize("floor", [1e-6, 1e300])
@pytest.mark.parametrize("bandwidth", [1e-150, 1.0, 1e150])
def test_floors_and_bandwidths_at_their_limits(floor, bandwidth):
    rng = np.random.default_rng(8)
    for shape in ((200,), (200, 2)):
        p, q, x = rng.normal(size=shape), 1 + rng.normal(size=shape), 20 * rng.normal(size=shape)
        model = learn(p, q, floor=floor, bandwidth=bandwidth)
        assert np.isfinite(model.score(np.concatenate([p, q, x]))).all()
        assert floor < 1 or not model.score(x).any()


@pytest.mark.parametrize("columns", [(), (2,)])
def test_a_side_without_outputs(columns):
    some, none = np.random.default_rng(0).normal(size=(500, *columns)), np.empty((0, *columns))
    model = Kde().fit(Side(none, 500), Side(some, 500))
    x = np.linspace(-3, 3, 100)
    scores = model.score(np.stack([x] * 2, axis=-1) if columns else x)
    assert (scores <= 0).all()
    assert scores.min() < -1
    with pytest.raises(ValueError, match="no training output"):
        model.masses()
    assert not Kde().fit(Side(none, 5), Side(none, 5)).score(some).any()


@pytest.mark.parametrize("shape", [(4000,), (4000, 2)])
def test_masses(shape):
    rng = np.random.default_rng(7)
    model = learn(rng.normal(size=shape), 0.5 + 1.5 * rng.normal(size=shape))
    masses = model.masses()
    assert masses[0].shape == masses[1].shape
    for mass in masses:
        assert (mass >= 0).all()
        assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert ((masses[0] > 0) | (masses[1] > 0)).all()
    axis = np.linspace(-9.0, 9.0, 20_001 if len(shape) == 1 else 901)
    area = (axis[1] - axis[0]) ** len(shape)
    places = axis if len(shape) == 1 else np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    densities = [side.density(places) * area for side in (model.p, model.q)]
    for ratio in (0.25, 1.0, 4.0):  # the error sums of all tests by q/p, without floors
        alpha, power = (mass[masses[1] > ratio * masses[0]].sum() for mass in masses)
        wanted = [density[densities[1] > ratio * densities[0]].sum() for density in densities]
        assert ratio * alpha - power == pytest.approx(ratio * wanted[0] - wanted[1], abs=1e-3)


# Refusals


def test_what_kde_cannot_do_is_refused():
    for columns in (None, 1, 2):
        for kind in ("bool", "int", "float"):
            refuse_unusable("kde", {}, Schema(kind, columns), 10)
    wide = r"estimate\.loss: 'kde' .* one or two columns.* have 3; accepted: knn, learned"
    with pytest.raises(StudyError, match=wide):
        refuse_unusable("kde", {}, Schema("float", 3), 10)
    with pytest.raises(
        StudyError, match=r"estimate\.loss: 'kde' .* these are strings or sequences; accepted: frequency"
    ):
        refuse_unusable("kde", {}, Schema("bytes", None), 10)
    with pytest.raises(ValueError, match="have 4"):
        learn(np.zeros((5, 4)), np.zeros((5, 4)))


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"bandwidth": "scott"}, ["parameters.bandwidth", "'silverman' or 'sheather-jones'", "given: 'scott'"]),
        ({"bandwidth": 0.0}, ["parameters.bandwidth", "above 0", "given: 0.0"]),
        ({"bandwidth": np.inf}, ["parameters.bandwidth", "finite number", "given: inf"]),
        ({"bandwidth": True}, ["parameters.bandwidth", "given: True"]),
        ({"floor": 0}, ["parameters.floor", "at least 1e-06", "given: 0"]),
        ({"k": 3}, ["parameters.k: unknown; accepted by kde: bandwidth, floor"]),
    ],
)
def test_refused_parameters(parameters, words):
    with pytest.raises(ValueError, match="parameters") as caught:
        validate_parameters("kde", parameters)
    for word in words:
        assert word in str(caught.value)
