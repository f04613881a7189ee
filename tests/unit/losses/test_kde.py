"""The loss `kde`: its L̂ and counts, its accuracy, what must not change it, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from brute import deltas, laplace_delta

from hpcdp.analytic import GaussianShift
from hpcdp.cli.command import main
from hpcdp.errors import StudyError
from hpcdp.losses import make_loss, refuse_unusable
from hpcdp.losses._plain import PlainCounter
from hpcdp.losses.counts import count_losses, merge_thresholds
from hpcdp.losses.kde._density import Line
from hpcdp.losses.kde.kde import Kde, KdeParameters, LineModel
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.outputs import Schema

EPSILONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
THRESHOLDS = merge_thresholds(EPSILONS, np.linspace(0.015, 15.0, 1000))


def learn(p, q, **parameters):
    p, q = np.asarray(p), np.asarray(q)
    return Kde(KdeParameters(**parameters)).fit(Side(p, p.shape[0]), Side(q, q.shape[0]))


# The log-ratio of two densities with floors


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
    swapped = LineModel(model.q, model.p)
    for x in (0.0, 0.4, 1.0):
        assert model.score(np.array([x]))[0] == pytest.approx(wanted, abs=1e-12)
        assert swapped.score(np.array([x]))[0] == -model.score(np.array([x]))[0]
    assert model.score(np.array([-0.1, 1.1])).tolist() == [0.0, 0.0]
    thresholds = np.array([-0.5, 0.0, 0.5])
    x = np.array([-0.1, 0.0, 0.4, 1.0, 1.1])
    np.testing.assert_array_equal(model.counter(thresholds).count(x), count_losses(model.score(x), thresholds))


def test_every_way_in_which_densities_cross_floors_and_thresholds():
    rng = np.random.default_rng(1)
    nodes = np.sort(rng.uniform(size=400))
    p, q = (np.where(rng.random(400) < 0.2, 0.0, np.exp(rng.normal(-2.0, 2.0, 400))) for _ in range(2))
    p[::7] = q[::7]  # L̂ is exactly 0 there, and on the whole cells between the next two
    p[100:120] = q[100:120]
    x = np.concatenate([rng.uniform(-0.1, 1.1, 200_000), nodes])
    for floors in ((0.1, 0.1), (0.02, 0.3), (0.3, 0.02), (1e-9, 1e-9)):
        model = LineModel(Line(nodes, p, floors[0], 1.0), Line(nodes, q, floors[1], 1.0))
        for thresholds in (THRESHOLDS, np.array([0.0]), np.array([-1.0, 0.5]), np.array([-np.log(3), 0.0])):
            found = model.counter(thresholds).count(x)
            np.testing.assert_array_equal(found, count_losses(model.score(x), thresholds))


# Counting


@pytest.mark.parametrize("law", ["laplace", "normal", "standard_cauchy"])
@pytest.mark.parametrize("bandwidth", ["silverman", "sheather-jones", 0.05])
def test_counts_are_those_of_the_scores(law, bandwidth):
    rng = np.random.default_rng(2)
    draw = getattr(rng, law)
    model = learn(draw(size=5000), 0.5 + draw(size=7000), bandwidth=bandwidth)
    x = draw(size=50_000)
    for thresholds in (THRESHOLDS, np.array([0.3]), np.empty(0)):
        counter = model.counter(thresholds)
        found = counter.count(x)
        assert found.sum() == x.size
        np.testing.assert_array_equal(found, PlainCounter(model, thresholds).count(x))
        restored = make_loss("kde", {"bandwidth": bandwidth}).restore(counter.state(), thresholds)
        np.testing.assert_array_equal(restored.count(x), found)
        np.testing.assert_array_equal(counter.count(x[:999]) + counter.count(x[999:]), found)


def test_learning_is_deterministic_and_ignores_order():
    rng = np.random.default_rng(3)
    p, q = rng.laplace(size=3000), rng.laplace(1.0, size=3000)
    x = rng.laplace(size=1000)
    wanted = learn(p, q).score(x)
    for a, b in ((p, q), (np.sort(p), q[::-1]), (p.reshape(-1, 1), q.reshape(-1, 1))):
        np.testing.assert_array_equal(learn(a, b).score(x.reshape(-1, *a.shape[1:])), wanted)


# What must not change L̂


@pytest.mark.parametrize("bandwidth", ["silverman", "sheather-jones"])
@pytest.mark.parametrize("factor, shift", [(1000.0, 1e6), (-1.0, 0.0), (2.0**-20, 0.0), (1e-3, -5.0)])
def test_counts_of_outputs_in_another_unit(factor, shift, bandwidth):
    rng = np.random.default_rng(4)
    p, q, x = rng.laplace(size=20_000), rng.laplace(0.7, size=20_000), rng.laplace(0.3, size=50_000)
    before = learn(p, q, bandwidth=bandwidth)
    after = learn(factor * p + shift, factor * q + shift, bandwidth=bandwidth)
    moved = factor * x + shift
    # Numbers are rounded by half a step of the largest, which moves all places by some steps. A step is `rounding` of a
    # bandwidth; log-densities above the floor change by less than 10 in a bandwidth.
    rounding = np.spacing(np.abs(moved).max()) / (abs(factor) * before.p.bandwidth)
    tolerance = 1000 * max(rounding, np.finfo(float).eps)
    densities = [(side.density(x), side.floor) for side in (before.p, before.q)]
    edge = np.any([np.abs(d / floor - 1) <= tolerance for d, floor in densities], axis=0)  # L̂ may jump there
    was, now = before.score(x), after.score(moved)
    assert edge.sum() <= 2
    assert np.abs(now - was)[~edge].max() <= tolerance
    near = np.abs(was[:, None] - THRESHOLDS[None, :]).min(axis=1) <= tolerance
    fragile = (edge | (near & (was != 0.0))).sum()
    changed = np.abs(after.counter(THRESHOLDS).count(moved) - before.counter(THRESHOLDS).count(x)).sum() // 2
    print(f"{changed} outputs changed their class, {fragile} may")
    assert changed <= fragile <= 5


def test_sides_in_turn_negate_the_loss():
    rng = np.random.default_rng(5)
    for shape in ((3000,), (3000, 2)):
        p, q, x = rng.laplace(size=shape), 2 * rng.laplace(size=shape), rng.laplace(size=shape)
        np.testing.assert_array_equal(learn(p, q).score(x), -learn(q, p).score(x))


def test_equal_sides_have_no_loss():
    rng = np.random.default_rng(6)
    for shape in ((2000,), (2000, 2)):
        p, x = rng.normal(size=shape), 3 * rng.normal(size=shape)
        model = learn(p, p)
        assert not model.score(x).any()
        np.testing.assert_array_equal(model.counter(np.array([0.0])).count(x), [0, 2000, 0])


# Accuracy


def check(draw, exact, train, regret, epsilons=EPSILONS, **parameters):
    """δ̂ of 2¹⁹ test outputs: at most 5 standard errors above the truth, at most that and the regret below."""
    rng = np.random.default_rng(0)
    thresholds = merge_thresholds(epsilons, [])
    model = learn(draw(rng, train, 0), draw(rng, train, 1), **parameters)
    counter, test = model.counter(thresholds), 1 << 19
    histograms = [counter.count(draw(rng, test, side)) for side in (0, 1)]
    for epsilon in epsilons:
        for (got, error), wanted in zip(deltas(*histograms, thresholds, test, epsilon), exact(epsilon), strict=True):
            assert wanted - 5 * error - regret <= got <= wanted + 5 * error, (epsilon, got, wanted, error)


def gaussian(mu):
    return lambda e: tuple(float(GaussianShift(mu).delta(np.array([e]), d)[0]) for d in ("forward", "reverse"))


RULES = ["silverman", "sheather-jones"]


@pytest.mark.parametrize("bandwidth", RULES)
@pytest.mark.parametrize("shift", [0.8, 1.4])
def test_laplace(shift, bandwidth):
    def draw(rng, size, side):
        return rng.laplace(side * shift, size=size)

    check(draw, lambda e: (laplace_delta(shift, e),) * 2, 100_000, 0.004, bandwidth=bandwidth)


@pytest.mark.parametrize("bandwidth", RULES)
@pytest.mark.parametrize("mu", [0.7, 1.6])
def test_gaussian(mu, bandwidth):
    check(lambda rng, n, side: 3 * rng.normal(side * mu, size=n), gaussian(mu), 100_000, 0.004, bandwidth=bandwidth)


@pytest.mark.parametrize("bandwidth", RULES)
def test_pairs_of_numbers(bandwidth):
    step = np.array([0.9, 1.2])  # of length 1.5; the second column has another unit

    def draw(rng, size, side):
        return rng.normal(size=(size, 2)) * [1.0, 50.0] + side * step * [1.0, 50.0]

    check(draw, gaussian(1.5), 100_000, 0.005, bandwidth=bandwidth)


def test_heavy_tails():
    """Cauchy noise: outputs up to some 10⁶ bandwidths away. δ(0) = (2/π) atan(shift/2)."""

    def draw(rng, size, side):
        return rng.standard_cauchy(size) + 0.7 * side

    check(draw, lambda _: (2 / np.pi * np.arctan(0.35),) * 2, 100_000, 0.004, epsilons=(0.0,))


def test_what_is_rare_and_far_away_is_seen():
    """One in a hundred outputs of D, near 10⁹, shows that they are of D."""

    def draw(rng, size, side):
        return np.where(rng.random(size) < 0.01 * (1 - side), 1e9, 0.0) + rng.normal(size=size)

    def exact(epsilon):
        return 0.01, max(0.0, 1 - 0.99 * np.exp(epsilon))

    check(draw, exact, 50_000, 0.001, epsilons=(0.0, 0.3, 0.9))


# Outputs that have no density


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


@pytest.mark.parametrize("bandwidth", ["silverman", "sheather-jones", 1e-12, 1e12])
@pytest.mark.parametrize("name", LONE)
def test_outputs_without_a_density(name, bandwidth):
    p, q, wanted = LONE[name]
    for copies in (1, 2):
        a, b, places = (np.stack([np.asarray(v)] * copies, axis=-1) for v in (p, q, list(wanted)))
        a, b, places = (v[:, 0] if copies == 1 else v for v in (a, b, places))
        model = learn(a, b, bandwidth=bandwidth)
        scores = model.score(places)
        assert np.isfinite(np.concatenate([scores, model.score(a), model.score(b)])).all()
        if isinstance(bandwidth, str):
            assert np.sign(scores).tolist() == list(wanted.values())
        counts = model.counter(np.array([-1.0, 0.0, 1.0])).count(places)
        np.testing.assert_array_equal(counts, count_losses(scores, np.array([-1.0, 0.0, 1.0])))


@pytest.mark.parametrize("floor", [1e-6, 1e300])
@pytest.mark.parametrize("bandwidth", [1e-150, 1.0, 1e150])
def test_floors_and_bandwidths_at_their_limits(floor, bandwidth):
    rng = np.random.default_rng(8)
    for shape in ((200,), (200, 2)):
        p, q, x = rng.normal(size=shape), 1 + rng.normal(size=shape), 20 * rng.normal(size=shape)
        model = learn(p, q, floor=floor, bandwidth=bandwidth)
        assert np.isfinite(model.score(np.concatenate([p, q, x]))).all()
        assert floor < 1 or not model.score(x).any()


def test_a_side_without_outputs():
    x = np.linspace(-3, 3, 100)
    for shape in ((0,), (0, 2)):
        some = np.random.default_rng(0).normal(size=(500, *shape[1:]))
        model = Kde().fit(Side(np.empty(shape), 500), Side(some, 500))
        scores = model.score(np.stack([x] * 2, axis=-1) if len(shape) == 2 else x)
        assert (scores <= 0).all()
        assert scores.min() < -1
        with pytest.raises(ValueError, match="no training output"):
            model.masses()
        nothing = Kde().fit(Side(np.empty(shape), 5), Side(np.empty(shape), 5))
        assert not nothing.score(some).any()


# Masses


@pytest.mark.parametrize("shape", [(4000,), (4000, 2)])
def test_masses(shape):
    rng = np.random.default_rng(7)
    p, q = rng.normal(size=shape), 0.5 + 1.5 * rng.normal(size=shape)
    model = learn(p, q)
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
    with pytest.raises(
        StudyError, match=r"estimate\.loss: 'kde' .* one or two columns.* have 3; accepted: knn, learned"
    ):
        refuse_unusable("kde", {}, Schema("float", 3), 10)
    with pytest.raises(StudyError, match=r"estimate\.loss: 'kde' .* numbers; these are strings; accepted: frequency"):
        refuse_unusable("kde", {}, Schema("bytes", None), 10)
    with pytest.raises(ValueError, match="have 4"):
        learn(np.zeros((5, 4)), np.zeros((5, 4)))


STUDY = """
[study]
name = "refused"
seed = 1

[mechanism]
call = "gaussian"
parameters = { sigma = 1.0 }

[pairs]
given = [{ d = [0.0, 0.0, 0.0], d_prime = [1.0, 0.0, 0.0] }]

[estimate]
loss = "kde"
parameters = PARAMETERS
train = 1000
test = 1000
epsilons = [0.0]
"""


@pytest.mark.parametrize(
    "parameters, words",
    [
        ("{}", ["estimate.loss: 'kde'", "one or two columns", "have 3", "accepted: knn, learned"]),
        ('{ bandwidth = "scott" }', ["parameters.bandwidth", "'silverman' or 'sheather-jones'", "given: 'scott'"]),
        ("{ bandwidth = 0.0 }", ["parameters.bandwidth", "greater than 0", "given: 0.0"]),
        ("{ bandwidth = inf }", ["parameters.bandwidth", "finite number", "given: inf"]),
        ("{ bandwidth = true }", ["parameters.bandwidth", "given: True"]),
        ("{ floor = 0 }", ["parameters.floor", "greater than or equal to 0.000001", "given: 0"]),
        ("{ k = 3 }", ["parameters.k: unknown; accepted by kde: bandwidth, floor"]),
    ],
)
def test_refusals_of_a_study(parameters, words, tmp_path, capsys):
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("PARAMETERS", parameters))
    assert main(["plan", str(study)]) == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message
