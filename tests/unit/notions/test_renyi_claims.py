"""Claims about Rényi divergences: what they imply for tests, and what `verify` makes of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from results import changed, measured
from scipy.optimize import brentq
from simulated import simulate

from hpcdp.analytic import ApproximateDP, Discrete, GaussianShift, LaplaceShift, Subsampled
from hpcdp.engine.derived import maximum_of
from hpcdp.errors import StudyError
from hpcdp.notions.renyi_claim import renyi_tradeoff, zcdp_tradeoff
from hpcdp.report.verdict import report, to_json
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import verify
from hpcdp.study.claims import RenyiLimit, parse_claim

HERE = Path("nowhere")
LEVELS = np.linspace(0.0, 9.0, 46)
SIZES = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 300)])
ORDERS = np.concatenate([[1.0], 1.0 + np.geomspace(1e-3, 1e3, 200)])


def least_rho(curve):
    return max(float((curve.renyi(ORDERS, way) / ORDERS).max()) for way in ("forward", "reverse"))


PAIRS = {
    "gaussian": GaussianShift(0.83),
    "laplace": LaplaceShift(1.7),
    "randomized response": ApproximateDP(1.1),
    "subsampled": Subsampled(LaplaceShift(2.0), 0.2),
    "three outcomes": Discrete([0.6, 0.3, 0.1], [0.2, 0.3, 0.5]),
    "rare": Discrete([0.999, 0.001], [0.9999, 0.0001]),
}
every_pair = pytest.mark.parametrize("curve", PAIRS.values(), ids=PAIRS.keys())


def is_allowed(bound, curve):
    """Whether no test of the pair, at any ε or size, tells more than the bound allows."""
    over = [(curve.delta(LEVELS, way) > bound.delta(LEVELS) + 1e-14).any() for way in ("forward", "reverse")]
    return not any(over) and bool((curve.tradeoff(SIZES) >= bound.tradeoff(SIZES) - 1e-14).all())


@every_pair
def test_no_pair_that_meets_a_claim_is_refuted(curve):
    assert is_allowed(zcdp_tradeoff(least_rho(curve)), curve)
    for order in (1.0, 1.4, 2.0, 7.0, 40.0):
        most = max(float(curve.renyi(order, way)) for way in ("forward", "reverse"))
        assert is_allowed(renyi_tradeoff(order, most), curve)


@pytest.mark.parametrize("order", [1.0, 1.3, 2.0, 6.0])
@pytest.mark.parametrize("p", [0.5, 0.05, 1e-4])
def test_the_curve_is_the_sharpest(order, p):
    """Two Bernoulli laws at the limit are a pair that meets it: the bound is on it at its own slope, and not much above."""
    q = p / 7.0
    curve = Discrete([p, 1.0 - p], [q, 1.0 - q])
    most = max(float(curve.renyi(order, way)) for way in ("forward", "reverse"))
    bound = renyi_tradeoff(order, most)
    assert is_allowed(bound, curve)
    assert not is_allowed(renyi_tradeoff(order, 0.9 * most), curve)  # planted: a claim that it does not meet
    # the corner of its trade-off curve, (q, 1 − p) of the reversed pair, lies on the boundary
    assert bound.tradeoff(q) == pytest.approx(1.0 - p, abs=2e-3 * p)
    assert bound.tradeoff(q) <= 1.0 - p


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 2.5])
def test_total_variation_is_that_of_randomized_response(epsilon):
    """Of all pairs at a limit, randomized response has the largest total variation: both of its divergences bind at once."""
    curve = ApproximateDP(epsilon)
    exact = pytest.approx(math.tanh(epsilon / 2.0), rel=1e-5)
    assert zcdp_tradeoff(least_rho(curve)).delta(0.0) == exact
    assert renyi_tradeoff(2.0, float(curve.renyi(2.0, "forward"))).delta(0.0) == exact


def test_of_all_orders_at_once():
    levels = LEVELS[LEVELS <= 6.0]
    above = np.geomspace(1e-3, 1e3, 20_000)[:, None]
    with np.errstate(over="ignore"):
        orders = 1.0 + above
        canonne = np.exp(above * (0.5 * orders - levels) - np.log(orders) + above * np.log1p(-1.0 / orders)).min(axis=0)
    found = zcdp_tradeoff(0.5).delta(levels)
    assert (found <= np.minimum(1.0, canonne) * 1.005).all()
    # at ε = 0 order 1 binds: two Bernoulli laws of logits x and −x, whose KL is x·tanh(x/2)
    x = brentq(lambda x: x * math.tanh(0.5 * x) - 0.5, 0.0, 50.0, xtol=1e-14)
    assert found[0] == pytest.approx(math.tanh(0.5 * x), rel=1e-9)


@pytest.mark.parametrize("rho", [8.5, 9.0, 50.0, 400.0])
def test_a_large_rho_is_no_dead_end(rho):
    """There no order above 1 breaks its limit at small ε; δ is between that of Gaussian noise and Bun and Steinke's limit."""
    levels = np.linspace(0.0, 3.0 * rho + 5.0, 400)
    found = np.asarray(zcdp_tradeoff(rho).delta(levels))
    assert (found >= [float(GaussianShift(math.sqrt(2.0 * rho)).delta(level)) for level in levels]).all()
    published = np.where(levels > rho, np.exp(-((levels - rho) ** 2) / (4.0 * rho)), 1.0)
    assert (found <= published * (1.0 + 1e-11) + 1e-15).all()


def test_parsing():
    claim = parse_claim("renyi(order=2, epsilon=0.5)", HERE)
    assert claim.limit == RenyiLimit(2.0, 0.5)
    assert claim.is_symmetric
    np.testing.assert_array_equal(claim.delta(LEVELS), renyi_tradeoff(2.0, 0.5).spectrum(LEVELS))
    assert parse_claim("zcdp(rho=0.1)", HERE).limit == RenyiLimit(None, 0.1)
    assert (parse_claim("zcdp(rho=0)", HERE).delta(LEVELS) == 0.0).all()
    assert (parse_claim("zcdp(rho=1e5)", HERE).delta(LEVELS[:9]) == 1.0).all()
    for text in ("renyi(order=1, epsilon=1e308)", "renyi(order=2, epsilon=701)", "zcdp(rho=1e303)"):
        assert (parse_claim(text, HERE).implied(np.array([0.0, 50.0, 700.0])) == 1.0).all()  # they allow everything
    for text in (
        "renyi(order=0.5, epsilon=1)",
        "renyi(order=1e101, epsilon=1)",
        "zcdp(rho=-1)",
        "renyi(order=2, epsilon=-1)",
        "zcdp(epsilon=1)",
    ):
        with pytest.raises(StudyError, match="accepted"):
            parse_claim(text, HERE)
    product = parse_claim("zcdp(rho=0.1)*gaussian(mu=0.5)", HERE)
    assert product.limit is None
    both = GaussianShift(math.hypot(math.sqrt(0.2), 0.5))
    assert (product.delta(LEVELS[:20]) >= both.spectrum(LEVELS[:20])).all()


# verify


@pytest.fixture(scope="module", name="gaussian")
def gaussian_fixture():
    """A result of Gaussian noise, μ = 1, with the cells of 10⁶ simulated test samples and 81 ε."""
    return of_gaussian(np.linspace(0.0, 4.0, 81))


def of_gaussian(epsilons):
    result = measured(
        "gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=1301, train=2000, test=2000, chunk=2000,
        epsilons=epsilons.tolist(),
    )  # fmt: skip
    cells = simulate(GaussianShift(1.0), epsilons, 10**6, np.random.default_rng(1302))
    names = ("delta", "lower", "upper", "standard_error", "exceed", "test")
    largest = {name: values for name, (_, values) in maximum_of(cells).items()}
    return changed(result, **{name: getattr(cells, name) for name in names}, **largest)


def test_rho_of_gaussian_noise(gaussian):
    refuted, true = (verify(gaussian, f"zcdp(rho={rho})") for rho in (0.45, 0.5))
    assert refuted.verdict == VIOLATION
    assert not (gaussian["lower"] > refuted.claimed).any()  # the curve alone would not tell
    assert true.verdict == CONSISTENT
    assert refuted.order.violated
    assert 0.45 < refuted.order.lower < 0.5
    text = report([refuted])
    assert f"ρ is at least {math.floor(refuted.order.lower * 1e5) / 1e5:.5f}" in text
    assert "(violated)" in text
    assert "the divergence is at least" in text
    shown = json.loads(to_json([refuted]))
    assert shown["verdict"] == "violation"
    assert shown["certified_order"]["claimed"] == 0.45
    assert "certified_order" not in json.loads(to_json([verify(gaussian, "gaussian(mu=1)")]))


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("renyi(order=2, epsilon=0.92)", VIOLATION),
        ("renyi(order=2, epsilon=1)", CONSISTENT),
        ("renyi(order=1, epsilon=0.46)", VIOLATION),
        ("renyi(order=1, epsilon=0.5)", CONSISTENT),
        ("renyi(order=4, epsilon=1.6)", VIOLATION),
        ("renyi(order=4, epsilon=2)", CONSISTENT),
        ("zcdp(rho=0.1)", VIOLATION),
    ],
)
def test_verdicts(gaussian, claim, verdict):
    assert verify(gaussian, claim).verdict == verdict


def test_the_implied_curve_alone_refutes_too(gaussian):
    """Where no order is compared, as of a product, a bound on δ is above what a much too strict claim implies."""
    found = verify(gaussian, "zcdp(rho=0.1)*zcdp(rho=0.1)")
    assert found.order is None
    assert found.verdict == VIOLATION
    assert verify(gaussian, "zcdp(rho=0.3)*zcdp(rho=0.2)").verdict in (CONSISTENT, NOT_SEPARABLE)


def test_an_estimate_of_the_order_above_the_claim_is_not_consistent():
    gaussian = of_gaussian(np.linspace(0.0, 2.0, 21))  # whose last classes are not empty
    (level,) = gaussian.renyi([2.0])
    assert level.estimate > level.lower
    found = verify(gaussian, f"renyi(order=2, epsilon={0.5 * (level.estimate + level.lower)})")
    assert not (gaussian["delta"] > found.claimed).any()
    assert found.verdict == NOT_SEPARABLE
    assert found.separation is None
    text = " ".join(report([found]).split())
    assert "D̂ of the order that it limits lies above it" in text
    assert f"D̂ is {level.estimate:.5f}" in text
    assert json.loads(to_json([found]))["certified_order"]["estimate"] == level.estimate
    assert verify(gaussian, f"renyi(order=2, epsilon={1.01 * level.estimate})").verdict == CONSISTENT
