"""The loss `smooth`: its L̂ against exact laws, its counts, what must not change it, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hpcdp.errors import StudyError
from hpcdp.losses import make_loss, refuse_unusable, validate_parameters
from hpcdp.losses._spline import fit_log_ratio
from hpcdp.losses.counts import count_losses, merge_thresholds
from hpcdp.losses.protocol import Side
from hpcdp.losses.smooth import Predictor, Smooth, SmoothParameters
from hpcdp.mechanisms.outputs import Schema

THRESHOLDS = merge_thresholds((0.0, 0.1, 0.3, 0.7, 1.0, 2.0), np.linspace(0.05, 5.0, 50))


def learn(p, q, draws=(None, None), **parameters):
    p, q = np.asarray(p), np.asarray(q)
    sides = (Side(x, n or x.shape[0]) for x, n in zip((p, q), draws, strict=True))
    return Smooth(SmoothParameters(**parameters)).fit(*sides)


# Exact laws


def masses(parts, cells):
    """Probability of each cell under a mixture of (weight, law), without cancellation in either tail."""
    below = np.concatenate([[0.0], sum(w * law.cdf(cells.starts[1:]) for w, law in parts), [1.0]])
    above = np.concatenate([[1.0], sum(w * law.sf(cells.starts[1:]) for w, law in parts), [0.0]])
    return np.maximum(np.where(below[1:] < 0.5, np.diff(below), -np.diff(above)), 0.0)


def kept(losses, p, q, epsilon):
    """Share of δ(ε) of cells of masses p and q that the set {L̂ > ε} keeps."""
    found = losses > epsilon
    gain = p - np.exp(epsilon) * q
    return gain[found].sum() / gain[gain > 0].sum()


LAWS = {
    # the least share kept is fixed beforehand: .97 where 2^18 samples per database leave 100 or more in the set, .9 beyond
    "normal": ([(1, stats.norm(0))], [(1, stats.norm(0.4))], {0.1: 0.97, 0.5: 0.97, 1.0: 0.97, 1.5: 0.9}),
    "two modes": (
        [(0.5, stats.norm(-0.4)), (0.5, stats.norm(0.4))],
        [(1, stats.norm(0))],
        {0.05: 0.97, 0.2: 0.97, 0.5: 0.9},
    ),
    "cauchy": ([(1, stats.cauchy(0))], [(1, stats.cauchy(0.6))], {0.1: 0.97, 0.3: 0.97, 0.5: 0.9}),
    "laplace": ([(1, stats.laplace(0))], [(1, stats.laplace(1.5))], {0.1: 0.97, 0.7: 0.97, 1.3: 0.97}),
    "gap": (
        [(0.6, stats.norm(0)), (0.4, stats.norm(5000))],
        [(0.25, stats.norm(0.4)), (0.75, stats.norm(5000.4))],
        {0.1: 0.97, 0.7: 0.97, 1.2: 0.97, 1.8: 0.9},
    ),
}


def draw(parts, rng, size):
    which = rng.choice(len(parts), size, p=[w for w, _ in parts])
    return np.choose(which, [law.rvs(size, random_state=rng) for _, law in parts])


@pytest.mark.parametrize("name", LAWS)
def test_kept_share_of_exact_deltas(name):
    p, q, least = LAWS[name]
    rng = np.random.default_rng(11)
    model = learn(draw(p, rng, 1 << 18), draw(q, rng, 1 << 18))
    exact = masses(p, model.cells), masses(q, model.cells)
    shares = {epsilon: kept(model.losses, *exact, epsilon) for epsilon in least}
    print(name, shares)
    for epsilon, share in shares.items():
        assert least[epsilon] <= share <= 1 + 1e-9, (epsilon, share)


def test_clamped_noise_has_atoms_apart():
    rng = np.random.default_rng(13)
    p, q = (np.clip(rng.normal(shift, size=1 << 17), -0.5, 0.8) for shift in (0.0, 1.0))
    model = learn(p, q)
    low, high = stats.norm.logcdf(-0.5) - stats.norm.logcdf(-1.5), stats.norm.logsf(0.8) - stats.norm.logsf(-0.2)
    for value, wanted in ((-0.5, low), (0.8, high)):
        error = np.sqrt(1 / (p == value).sum() + 1 / (q == value).sum())
        assert abs(model.score(np.array([value]))[0] - wanted) <= 5 * error
    inside = np.linspace(-0.45, 0.75, 25)
    assert np.abs(model.score(inside) - (0.5 - inside)).max() <= 0.05


@pytest.mark.parametrize(
    "low, high, wanted", [((0, 1), (2, 3), 1.0), ((0, 1), (0.7, 1.7), 0.7), ((0, 1), (0.2, 0.6), 0.6)]
)
def test_ends_of_supports(low, high, wanted):
    """P[L = ∞]: at any ε the set holds nearly all of it, and almost nothing of D'."""
    rng = np.random.default_rng(16)
    model = learn(rng.uniform(*low, 1 << 16), rng.uniform(*high, 1 << 16))
    x, y = rng.uniform(*low, 10**5), rng.uniform(*high, 10**5)
    for epsilon in (5.0, 50.0):
        assert (model.score(x) > epsilon).mean() == pytest.approx(wanted, abs=0.01)
        assert (model.score(y) > epsilon).mean() <= 1e-3


def test_tails_are_no_ends_of_supports():
    rng = np.random.default_rng(17)
    for draws in (rng.normal(size=(2, 1 << 17)), rng.standard_t(3, size=(2, 1 << 17)), rng.laplace(size=(2, 1 << 17))):
        model = learn(draws[0], draws[1] + 5.0)
        assert np.isfinite(model.losses).all()


def test_an_atom_of_one_side_alone_is_judged_by_each_sides_draws():
    """1500 outputs of D' and none of D, of a quarter of the draws: 375 would be there if both laws had the same share."""
    centres, atoms = np.array([0.0, 1.0, 2.0]), np.ones(3, np.bool_)
    a, b = np.array([0, 10**5, 10**5]), np.array([1500, 4 * 10**5, 4 * 10**5])
    assert fit_log_ratio(centres, a, b, 10**6, 4 * 10**6, atoms)[0] == pytest.approx(np.log(4 * 0.5 / 1500.5))
    assert fit_log_ratio(centres, b, a, 4 * 10**6, 10**6, atoms)[0] == pytest.approx(-np.log(4 * 0.5 / 1500.5))
    assert fit_log_ratio(centres, a, b, 10**6, 10**6, atoms)[0] == -np.inf
    assert fit_log_ratio(centres, b, a, 10**6, 10**6, atoms)[0] == np.inf


@pytest.mark.slow
def test_no_tally_makes_a_nan():
    rng = np.random.default_rng(18)
    for _ in range(100):
        size = int(rng.integers(1, 40))
        centres = np.sort(rng.standard_cauchy(size)) * 10.0 ** rng.integers(-300, 300)
        a, b = (rng.poisson(10.0 ** rng.uniform(-2, 9, size)) * (rng.random(size) < 0.6) for _ in range(2))
        losses = fit_log_ratio(centres, a, b, int(rng.integers(1, 10**9)), 10**6, rng.random(size) < 0.2)
        assert losses.shape == (size,)
        assert not np.isnan(losses).any()


# Vectors


def test_degree_2_is_chosen_where_scales_differ():
    """N(0, 1)² against N(0, 1.3²)²: L is a multiple of the squared length, minus a constant."""
    rng = np.random.default_rng(22)
    model = learn(rng.normal(size=(1 << 17, 2)), 1.3 * rng.normal(size=(1 << 17, 2)))
    assert model.predictor.products.shape == (2, 2)
    x = rng.normal(size=(1000, 2))
    wanted = 2 * np.log(1.3) - 0.5 * (x**2).sum(axis=1) * (1 - 1.3**-2)
    assert np.abs(model.score(x) - wanted)[np.abs(wanted) < 3].max() <= 0.15
    assert np.abs(model.coordinate(x) - wanted)[np.abs(wanted) < 3].max() <= 0.15


def test_the_predictor_and_its_numpy_twin():
    rng = np.random.default_rng(23)
    rows = rng.standard_cauchy(size=(2000, 3))
    rows[0] = [1e308, -1e308, 0.0]
    for products in (np.triu(rng.normal(size=(3, 3))), np.empty((0, 0))):
        found = Predictor(rng.normal(size=3), rng.uniform(0.5, 2, 3), 0.7, rng.normal(size=3), products)
        z = (rows - found.centre) / found.scale
        far = 6 + np.log1p(np.clip(np.abs(z), 6, 1e300) - 6)
        z = np.where(np.abs(z) > 6, np.sign(z) * far, z)
        wanted = 0.7 + z @ found.linear
        if products.size:
            wanted += np.einsum("ij,jk,ik->i", z, products, z)
        np.testing.assert_allclose(found.coordinate(rows), wanted, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(found.coordinate(rows[5:9]), found.coordinate(rows)[5:9])
        np.testing.assert_array_equal(Predictor.restore(found.state()).coordinate(rows), found.coordinate(rows))


def test_few_vectors_are_calibrated_out_of_fold():
    """With 12 noise columns and 300 outputs per database the predictor fits chance; L̂ must not believe it."""
    rng = np.random.default_rng(24)
    model = learn(rng.normal(size=(300, 12)), rng.normal(size=(300, 12)), degree=1)
    x = rng.normal(size=(5000, 12))
    assert model.coordinate(x).std() > 0.2
    assert np.abs(model.score(x)).mean() < 0.15


# Counting


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_counts_are_those_of_the_scores(columns):
    rng = np.random.default_rng(31)
    shape = () if columns is None else (columns,)
    p, q, x = (rng.laplace(shift, size=(size, *shape)) for shift, size in ((0, 5000), (0.6, 7000), (0.3, 50_000)))
    model = learn(p, q)
    for thresholds in (THRESHOLDS, np.array([0.3]), np.empty(0)):
        counter = model.counter(thresholds)
        found = counter.count(x)
        np.testing.assert_array_equal(found, count_losses(model.score(x), thresholds))
        np.testing.assert_array_equal(counter.count(x[:999]) + counter.count(x[999:]), found)
        restored = make_loss("smooth", {}).restore(counter.state(), thresholds)
        np.testing.assert_array_equal(restored.count(x), found)
    if columns == 3:
        np.testing.assert_array_equal(model.projection().coordinate(x), model.coordinate(x))
        again = make_loss("smooth", {}).restore_projection(model.projection().state())
        np.testing.assert_array_equal(again.coordinate(x), model.coordinate(x))


# What must not change L̂


@pytest.mark.parametrize("kind", [bool, np.int64])
def test_booleans_and_integers_are_reals(kind):
    rng = np.random.default_rng(35)
    p, q = (rng.random(50_000) < 0.7).astype(kind), (rng.random(50_000) < 0.3).astype(kind)
    found = learn(p, q).score(np.array([0, 1]).astype(kind))
    np.testing.assert_allclose(found, [-np.log(7 / 3), np.log(7 / 3)], atol=0.05)
    both = learn(np.stack([p, q], axis=1), np.stack([q, p], axis=1)).score(np.array([[1, 0]]).astype(kind))
    np.testing.assert_allclose(both, [2 * np.log(7 / 3)], atol=0.1)


# Refusals


def test_strings_are_refused():
    wanted = "needs outputs that are numbers; these are strings or sequences; accepted: frequency, knn"
    with pytest.raises(StudyError, match=f"estimate.loss: 'smooth' {wanted}"):
        refuse_unusable("smooth", {}, Schema("bytes", None), 100)
    refuse_unusable("smooth", {}, Schema("int", 3), 100)
    words = np.array([b"a", b"b"], object)
    with pytest.raises(ValueError, match=wanted):
        learn(words, words)


def test_other_degrees_are_refused():
    for degree in (0, 3, True, "2", 1.5):
        with pytest.raises(ValueError, match=r"parameters\.degree: 'auto', 1 or 2; given"):
            validate_parameters("smooth", {"degree": degree})
