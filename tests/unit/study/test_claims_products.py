"""Claims about several outputs together, and curves that are written for a claim to read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import call, write_study
from pairs_of_laws import every_pair
from scipy.integrate import quad
from scipy.stats import binom

from hpcdp import TradeOffCurve, audit, load_result, verify
from hpcdp.analytic import ApproximateDP, Curve, Discrete, GaussianShift, LaplaceShift, TradeOffPoints
from hpcdp.errors import StudyError
from hpcdp.notions.tensor import polygon
from hpcdp.study import claims
from hpcdp.study.claims import parse_claim

LEVELS = np.linspace(0.0, 6.0, 25)
SIZES = np.linspace(0.0, 1.0, 201)
TOO_LARGE = 6e-8 + 1e-11 * np.exp(LEVELS)  # a product's δ may be, as its docstring says; never too small
HERE = Path("nowhere")


def read(text: str, folder: Path = HERE):
    return parse_claim(text, folder)


def delta_at(curve: Curve, level: float) -> float:
    """δ of a symmetric curve at any real level: P(S) − e^ε Q(S) = 1 − e^ε + e^ε (Q(S^c) − e^−ε P(S^c))."""
    if level >= 0.0:
        return float(curve.delta(level))
    return float(-np.expm1(level) + np.exp(level) * curve.delta(-level))


def with_laplace(epsilon0: float, other: Curve, level: float) -> float:
    """δ of Laplace noise and another output together: the mean of the other δ over the loss of the first, under P.

    That loss has the atoms 1/2 at ε0 and e^−ε0 / 2 at −ε0, and the density e^((l − ε0)/2) / 4 between.
    """

    def inner(loss: float) -> float:
        return 0.25 * np.exp(0.5 * (loss - epsilon0)) * delta_at(other, level - loss)

    knot = min(max(level, -epsilon0), epsilon0)  # where the other δ bends
    density = sum(quad(inner, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in ((-epsilon0, knot), (knot, epsilon0)))
    atoms = 0.5 * delta_at(other, level - epsilon0) + 0.5 * np.exp(-epsilon0) * delta_at(other, level + epsilon0)
    return atoms + density


def test_gaussians_make_a_gaussian():
    whole, truth = read("gaussian(mu=0.6)*gaussian(mu=0.8) * gaussian(mu=2.4)"), GaussianShift(2.6)
    np.testing.assert_allclose(whole.delta(LEVELS), truth.delta(LEVELS), atol=1e-15)
    np.testing.assert_allclose(whole.tradeoff(SIZES), truth.tradeoff(SIZES), atol=1e-15)
    assert whole.text == "gaussian(mu=0.6)*gaussian(mu=0.8) * gaussian(mu=2.4)"
    assert whole.is_symmetric


def test_laplaces_are_those_of_a_vector():
    for first, second in ((1.0, 1.0), (0.3, 2.0)):
        found = read(f"laplace(epsilon={first})*laplace(epsilon={second})")
        truth = [with_laplace(first, LaplaceShift(second), level) for level in LEVELS]
        np.testing.assert_allclose(found.delta(LEVELS), truth, atol=1e-11)
    hundred = read("*".join(["laplace(epsilon=0.1)"] * 100))
    # the number of a convolution of the loss elsewhere, to four digits
    assert hundred.delta(4.2203 + 5e-5) <= 1e-5 <= hundred.delta(4.2203 - 5e-5)


@pytest.mark.parametrize(
    "text, is_symmetric",
    [
        ("dp(epsilon=1, delta=0.01)", True),
        ("dp(epsilon=0.5, delta=0.2)", True),
        ("dp(epsilon=1, delta=0.01)*gaussian(mu=1)", True),
        ("dp(epsilon=1)*laplace(epsilon=1)", True),
    ],
)
def test_a_written_curve_is_as_symmetric_as_before(text, is_symmetric, tmp_path):
    polygon(read(text).bound).write(tmp_path / "curve.csv")
    assert read("file(curve.csv)", tmp_path).is_symmetric == read(text).is_symmetric == is_symmetric


def test_a_written_curve_is_as_asymmetric_as_before(tmp_path):
    """δ₀ on one side alone, and the points of it end with two errors of 0."""
    (tmp_path / "curve.csv").write_text("alpha,beta\n0,0.9\n0.1,0.6\n0.5,0.05\n0.9,0\n1,0\n")
    assert not read("file(curve.csv)", tmp_path).is_symmetric
    (tmp_path / "curve.csv").write_text("alpha,beta\n0,0.9\n0.3,0.3\n0.9,0\n1,0\n")
    assert read("file(curve.csv)", tmp_path).is_symmetric


@pytest.mark.parametrize("epsilon0, mu", [(1.0, 1.0), (0.3, 2.0), (3.0, 0.5)])
def test_laplace_and_gaussian(epsilon0, mu, tmp_path):
    claim = read(f"laplace(epsilon={epsilon0})*gaussian(mu={mu})")
    truth = np.array([with_laplace(epsilon0, GaussianShift(mu), level) for level in LEVELS])
    over = claim.delta(LEVELS) - truth
    assert over.min() >= 0.0, "a claim that is too strict would be refuted by a mechanism that meets it"
    assert (over <= TOO_LARGE).all()
    lines = 1.0 - truth[:, None] - np.exp(LEVELS)[:, None] * SIZES  # T is the largest of all such lines
    assert (claim.tradeoff(SIZES) <= GaussianShift(mu).tradeoff(SIZES)).all(), "two outputs tell more than one"
    assert (claim.tradeoff(SIZES) >= lines.max(axis=0) - np.exp(6.0) * TOO_LARGE[-1]).all()
    claim.bound.write(tmp_path / "curve.csv")
    again = read("file(curve.csv)", tmp_path)
    over = again.delta(LEVELS) - claim.delta(LEVELS)
    assert over.min() >= -1e-12
    assert over.max() <= 1e-7
    assert (again.tradeoff(SIZES) <= claim.tradeoff(SIZES) + 1e-12).all()


def test_how_much_too_large_a_product_is_at_high_levels():
    levels, times = np.linspace(0.0, 10.0, 21), np.arange(26)
    p = binom.pmf(times, 25, 1.0 / (1.0 + np.exp(-1.0)))  # randomised response, 25 times
    answers = [np.maximum(p - np.exp(level) * p[::-1], 0.0).sum() for level in levels]
    noise = [with_laplace(0.1, GaussianShift(4.0), level) for level in levels]
    for text, truth, more in (
        ("*".join(["dp(epsilon=1)"] * 25), answers, 1e-10),
        ("laplace(epsilon=0.1)*gaussian(mu=4)", noise, 6e-8),
    ):
        over = read(text).delta(levels) - truth
        assert over.min() >= 0.0
        assert (over <= more + 1e-11 * np.exp(levels)).all()
        assert over.max() > 2e-7, "or the docstring could promise more"


def test_pure_privacy_and_points(tmp_path):
    # randomised response twice, with what fails: sixteen outcomes
    parts = [(0.7, 0.01), (0.4, 0.0)]
    laws = [np.ones(1), np.ones(1)]
    for epsilon, delta in parts:
        likely, unlikely = (1.0 - delta) / (1.0 + np.exp(-epsilon)), (1.0 - delta) / (1.0 + np.exp(epsilon))
        pair = [delta, likely, unlikely, 0.0], [0.0, unlikely, likely, delta]
        laws = [np.outer(law, part).ravel() for law, part in zip(laws, pair, strict=True)]
    truth = Discrete(*(law / law.sum() for law in laws))
    (tmp_path / "x.csv").write_text("epsilon,delta\n0.4,0\n")
    for text in ("dp(epsilon=0.7, delta=0.01)*dp(epsilon=0.4)", "dp(epsilon=0.7, delta=0.01)*file(x.csv)"):
        claim = read(text, tmp_path)
        np.testing.assert_allclose(claim.delta(LEVELS), truth.delta(LEVELS), atol=1e-9)
        assert (claim.delta(LEVELS) >= truth.delta(LEVELS)).all()
        assert claim.is_symmetric
    nothing = read("dp(epsilon=0.7)*dp(epsilon=0)")
    np.testing.assert_allclose(nothing.delta(LEVELS), ApproximateDP(0.7).delta(LEVELS), atol=1e-10)


@every_pair
def test_a_written_curve_is_read_back(p, q, tmp_path):
    curve = TradeOffCurve.from_discrete(p, q)
    curve.write(tmp_path / "curve.csv")
    claim = read("file(curve.csv)", tmp_path)
    np.testing.assert_allclose(claim.tradeoff(SIZES), curve(SIZES), atol=1e-12)
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(claim.bound.delta(LEVELS, direction), curve.delta(LEVELS, direction), atol=1e-12)
    assert isinstance(claim.bound, TradeOffPoints)
    np.testing.assert_allclose(claim.convex_tradeoff(SIZES), curve(SIZES), atol=1e-12)


def test_a_polygon_below_an_exact_curve(tmp_path):
    for exact in (GaussianShift(1.0), LaplaceShift(4.0), GaussianShift(0.05)):
        below = TradeOffCurve.below(exact)
        over = below.delta(LEVELS) - exact.delta(LEVELS)
        assert over.min() >= -1e-15
        assert over.max() <= 5e-8
        assert (below(SIZES) <= exact.tradeoff(SIZES) + 1e-15).all()
        below.write(tmp_path / "below.csv")
        again = read("file(below.csv)", tmp_path)
        assert np.abs(again.delta(LEVELS) - exact.delta(LEVELS)).max() <= 1.5e-7
        assert (again.tradeoff(SIZES) <= exact.tradeoff(SIZES) + 1e-12).all()


@pytest.mark.parametrize(
    "parts",
    [
        [f"laplace(epsilon=1.{i})" for i in range(300)],
        [f"dp(epsilon=0.{i})" for i in range(65)],
        ["dp(epsilon=0.1)"] * 65,
        ["file(x.csv)"] * 9,
        [f"store({i}.zarr)" for i in range(9)],
        ["gaussian(mu=1)"] * 1001,
    ],
)
def test_products_that_would_take_long(parts, monkeypatch):
    """One message, before any factor is looked at."""
    monkeypatch.setattr(claims, "tensor", lambda _: pytest.fail("it is computed"))
    with pytest.raises(
        StudyError, match=rf"a product of {len(parts)} claims .*; accepted: at most 1000 \(64, 8\)"
    ) as caught:
        read("*".join(parts))
    assert len(str(caught.value)) < 1000


def test_a_product_of_many_gaussians():
    bound = read("*".join(["gaussian(mu=0.1)"] * 1000)).bound
    assert bound.mu == pytest.approx(0.1 * 1000**0.5, rel=1e-12)


@pytest.mark.parametrize(
    "text, words",
    [
        ("laplace(epsilon=1)*laplac(epsilon=1)", "no call"),
        ("laplace(epsilon=1)*2", "product of these"),
        ("laplace(epsilon=1)*gaussian(mu=-1)", "claim 'gaussian(mu=-1)': mu: -1.0 was given"),
        ("laplace(epsilon=1)**2", "product of these"),
        ("dp(epsilon=1e9)*gaussian(mu=1)", "numbers from 0 to 700"),
    ],
)
def test_refusals(text, words):
    with pytest.raises(StudyError) as caught:
        read(text)
    assert words in str(caught.value)


def test_wherever_a_claim_is_accepted(tmp_path, scheduler):
    """Two numbers, one with Laplace and one with normal noise; a true product, and one that is too strict."""
    own = (
        "import numpy as np\n\n\ndef both(database, size, rng):\n"
        "    return database.sum() + np.column_stack([rng.laplace(size=size), rng.normal(size=size)])\n"
    )
    true, false = "laplace(epsilon=1)*gaussian(mu=1)", "laplace(epsilon=0.3)*gaussian(mu=0.3)"
    settings = {"call": "own:both", "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]", "claim": true}
    study, store = write_study(tmp_path, own, **settings), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    assert f"claimed: {true}" in call("show", store).stdout
    call("verify", store, "--claim", false, "--claim", true, code=3)
    place = ("--store", store, "--cluster", scheduler)
    call("audit", study, *place)
    call("audit", study, *place, "--sequential", "--batch", 500, "--budget", 1000)
    result = load_result(store)
    assert verify(result, true).verdict != audit(result, false).verdict == "violation"
