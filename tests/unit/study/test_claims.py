"""Claims, of one output and of several: what they parse to, how wrong ones are refused, and curves that are written for them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from pairs_of_laws import every_pair
from scipy.integrate import quad

from hpcdp import TradeOffCurve
from hpcdp.analytic import (
    ApproximateDP,
    Curve,
    Discrete,
    GaussianShift,
    LaplaceShift,
    TradeOffPoints,
    gaussian_sigma,
)
from hpcdp.errors import HpcdpError, StudyError
from hpcdp.notions.curve import polygon
from hpcdp.store.lease import acquire
from hpcdp.store.results import write_results
from hpcdp.store.root import create_store
from hpcdp.study.claims import Claim, meaning, parse_claim

LEVELS = np.linspace(0.0, 3.0, 31)
SIZES = np.linspace(0.0, 1.0, 21)


def read(text: str, folder: Path = Path("nowhere")) -> Claim:
    return parse_claim(text, folder)


@pytest.mark.parametrize(
    ("text", "curve"),
    [
        ("laplace(epsilon=1)", LaplaceShift(1.0)),
        ("  laplace ( epsilon = 0.25 ) ", LaplaceShift(0.25)),
        ("gaussian(mu=.5)", GaussianShift(0.5)),
        ("gaussian(epsilon=1, delta=1e-5)", GaussianShift(1.0 / gaussian_sigma(1.0, 1e-5))),
        ("dp(epsilon=0.7)", ApproximateDP(0.7, 0.0)),
        ("dp(epsilon=0.7, delta=0.01)", ApproximateDP(0.7, 0.01)),
    ],
)
def test_exact_claims(text, curve):
    claim = read(text)
    assert claim.text == text
    np.testing.assert_array_equal(claim.delta(LEVELS), curve.spectrum(LEVELS))
    np.testing.assert_array_equal(claim.tradeoff(SIZES), curve.tradeoff(SIZES))
    copy = pickle.loads(pickle.dumps(claim))
    np.testing.assert_array_equal(copy.delta(LEVELS), claim.delta(LEVELS))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("laplac(epsilon=1)", ["laplac(", "laplace(epsilon=...)", "store(path)"]),
        ("", ["laplace(epsilon=...)"]),
        ("laplace(epsilon=1", ["laplace(epsilon=...)"]),
        ("laplace(epsilon=1) + dp(epsilon=1)", ["no call", "laplace(epsilon=...)"]),
        ("laplace(1)", ["1 without a name", "laplace(epsilon=...)"]),
        ("laplace()", ["no argument", "laplace(epsilon=...)"]),
        ("laplace(epsilon=1, delta=0)", ["epsilon, delta was given", "laplace(epsilon=...)"]),
        ("laplace(**{'epsilon': 1})", ["laplace(epsilon=...)"]),
        ("gaussian(epsilon=1)", ["epsilon was given", "gaussian(mu=...) or gaussian(epsilon=..., delta=...)"]),
        ("gaussian(mu=1, delta=1e-5)", ["mu, delta was given", "gaussian(mu=...)"]),
        ("dp(delta=0.1)", ["delta was given", "dp(epsilon=..., delta=0)"]),
        ("laplace(epsilon=-1)", ["epsilon: -1.0 was given", ">= 0"]),
        ("laplace(epsilon=True)", ["epsilon: True was given", "a number"]),
        ("laplace(epsilon=1e999)", ["epsilon: inf was given", "finite"]),
        (f"laplace(epsilon=1{'0' * 400})", ["epsilon: inf was given", "finite"]),
        ("laplace(epsilon=__import__('os').getpid())", ["a number"]),
        ("gaussian(mu=-0.5)", ["mu: -0.5 was given"]),
        ("gaussian(epsilon=0, delta=1e-5)", ["epsilon: 0.0 was given", "> 0"]),
        ("gaussian(epsilon=1, delta=1)", ["delta: 1.0 was given", "between 0 and 1"]),
        ("dp(epsilon=1, delta=-0.1)", ["delta: -0.1 was given", "from 0 to 1"]),
        ("file('')", ["no path was given", "file(path)"]),
        ("file('a.csv', 'b.csv')", ["'a.csv', 'b.csv' was given", "file(path)"]),
        ("file('a.csv)", ["'a.csv was given", "file(path)"]),
        ("file(missing.csv)", ["missing.csv", "No such file"]),
    ],
)
def test_refusals(text, parts):
    with pytest.raises(StudyError) as caught:
        read(text)
    assert isinstance(caught.value, HpcdpError)
    message = str(caught.value)
    assert "\n" not in message
    for part in [repr(text), *parts]:
        assert part in message


CSV = "epsilon,delta\n0.5,0.2\n1.0,0.05\n2.0,0.001\n"


@pytest.mark.parametrize("name", ["claim.csv", "my claims (old), all/claim-1.csv"])
@pytest.mark.parametrize("form", ["file({})", 'file("{}")', "file('{}')", " file ( {} ) "])
def test_file_claim(tmp_path, name, form):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(CSV)
    for written in (name, str(path)):
        claim = read(form.format(written), tmp_path)
        np.testing.assert_allclose(claim.delta([0.5, 1.0, 2.0]), [0.2, 0.05, 0.001], rtol=1e-14)
        middle = np.log(0.5 * (np.exp(1.0) + np.exp(2.0)))
        assert claim.delta(middle) == pytest.approx(0.0255, rel=1e-12)
        assert claim.delta(0.4) == pytest.approx(0.2 + np.exp(0.5) - np.exp(0.4), rel=1e-12)
        assert claim.delta(0.0) == pytest.approx(0.2 + np.exp(0.5) - 1.0, rel=1e-12)
        assert claim.delta(9.0) == 0.001
        truth = np.max([ApproximateDP(*p).tradeoff(SIZES) for p in ((0.5, 0.2), (1.0, 0.05), (2.0, 0.001))], axis=0)
        np.testing.assert_array_equal(claim.tradeoff(SIZES), truth)


def test_file_as_spreadsheets_write_it(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbfepsilon, delta\r\n0,1e-1\r\n\r\n1, 0.05\r\n")
    np.testing.assert_allclose(read("file(x.csv)", tmp_path).delta([0.0, 1.0, 5.0]), [0.1, 0.05, 0.05])


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["first line is no header", "epsilon,delta"]),
        ("eps,delta\n1,0\n", ["first line is no header", "epsilon,delta"]),
        ("epsilon,delta\n", ["no line after the header", "one or more"]),
        ("epsilon,delta\n1,0.1\n2\n", ["line 3 does not hold two numbers"]),
        ("epsilon,delta\n1,0.1\n1,0.1\n", ["epsilon: (1.0, 1.0) was given", "strictly increasing"]),
        ("epsilon,delta\n1,0.1\n2,0.2\n", ["delta at epsilon 2.0: 0.2 was given", "<= 0.1"]),
        ("epsilon,delta\n-1,0.1\n", ["epsilon: -1.0 was given"]),
        ("epsilon,delta\n1,nan\n", ["delta: nan was given"]),
        ("epsilon,delta\ninf,0.1\n", ["epsilon: inf was given"]),
        (b"\xff\xfe\x00", ["no text"]),
        ("alpha,beta\n0,1\n", ["shapes (k,) with k >= 2"]),
        ("alpha,beta\n0,1\n0,0.5\n", ["alpha: (0.0, 0.0) was given", "strictly increasing"]),
        ("alpha,beta\n0,1\n0.5,0.6\n", ["beta at alpha 0.5: 0.6 was given", "at most 1 - alpha"]),
        ("alpha,beta\n0,0.5\n0.4,0.55\n", ["beta at alpha 0.4: 0.55 was given", "none above the one before"]),
        ("alpha,beta\n0,1\n0.2,0.7\n1,0\n0.3,0.6", ["alpha: (1.0, 0.3) was given"]),
        ("alpha,beta\n0,0.6\n0.2,0.58\n1,0\n", ["beta at alpha 0.2: 0.58 was given", "convex curve, here at most"]),
    ],
)
def test_file_refused(tmp_path, content, parts):
    (tmp_path / "x.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StudyError) as caught:
        read("file(x.csv)", tmp_path)
    for part in ["x.csv", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize("text", ["secret:x:0:0\n", "epsilon,delta\nsecret\n"])
def test_no_message_quotes_a_file_that_a_stranger_may_have_named(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(StudyError) as caught:
        read("file(x.csv)", tmp_path)
    assert "x.csv" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_store_claim(tmp_path):
    layout = create_store(tmp_path / "runs" / "x.zarr")
    lease = acquire(layout)
    (layout.root / "study" / "study-000001.json").write_text("{}")
    values = {"epsilon": [1.0, 0.0, 0.5], "delta": [0.05, 0.3, 0.2], "spectrum_delta": [0.05, 0.3, 0.2]}
    arrays = {name: (("epsilon",), np.array(numbers)) for name, numbers in values.items()}
    head = {"version": 1, "complete": True, "name": "x", "confidence": 0.95, "pairs": []}
    with pytest.raises(StudyError, match=r"x\.zarr is not complete yet; go on with: hpcdp resume"):
        read("store(runs/x.zarr)", tmp_path)
    write_results(layout, arrays, head | {"complete": False}, lease.generation)
    with pytest.raises(StudyError, match=r"x\.zarr is not complete yet"):
        read("store(runs/x.zarr)", tmp_path)
    write_results(layout, arrays, head, lease.generation)
    lease.release()
    claim = read("store(runs/x.zarr)", tmp_path)
    np.testing.assert_allclose(claim.delta([0.0, 0.5, 1.0, 4.0]), [0.3, 0.2, 0.05, 0.05])
    (layout.root / "study" / "study-000002.json").write_text("{}")
    with pytest.raises(StudyError, match=r"x\.zarr is not complete yet"):
        read("store(runs/x.zarr)", tmp_path)
    with pytest.raises(StudyError, match=r"y\.zarr: nothing is there; accepted: a store"):
        read("store('runs/y.zarr')", tmp_path)


@pytest.mark.parametrize(
    ("one", "others", "different"),
    [
        ("dp(epsilon=1)", ["dp(epsilon=1.0)", " dp( delta=0, epsilon=1e0)"], "dp(epsilon=1.0000000000000002)"),
        ("gaussian(epsilon=0.5, delta=1e-5)", ["gaussian(delta=.00001,epsilon=5e-1)"], "gaussian(mu=0.5)"),
        ("renyi(order=2, epsilon=1)", ["renyi(epsilon=1.0, order=2.0)"], "renyi(order=3, epsilon=1)"),
        ("zcdp(rho=1)", ["zcdp(rho=1.)"], "zcdp(rho=2)"),
        ("file(a.csv)", ["file('a.csv')", "file( a.csv )"], "store(a.csv)"),
        ("laplace(epsilon=1)*gaussian(mu=1)", ["gaussian(mu=1.0) * laplace(epsilon=1)"], "laplace(epsilon=1)"),
        ("no claim", [], "no claim("),
    ],
)
def test_claims_are_the_same_whichever_way_they_are_written(one, others, different):
    assert {meaning(other) for other in others} <= {meaning(one)}
    assert meaning(one) != meaning(different)


# Claims about several outputs together, and curves that are written for a claim to read

HIGH = np.linspace(0.0, 6.0, 25)
FINE = np.linspace(0.0, 1.0, 201)
TOO_LARGE = 6e-8 + 1e-11 * np.exp(HIGH)  # a product's δ may be, as its docstring says; never too small


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
    np.testing.assert_allclose(whole.delta(HIGH), truth.delta(HIGH), atol=1e-15)
    np.testing.assert_allclose(whole.tradeoff(FINE), truth.tradeoff(FINE), atol=1e-15)
    assert whole.text == "gaussian(mu=0.6)*gaussian(mu=0.8) * gaussian(mu=2.4)"
    assert whole.is_symmetric
    many = read("*".join(["gaussian(mu=0.1)"] * 1000))
    np.testing.assert_allclose(many.delta(HIGH), GaussianShift(0.1 * 1000**0.5).delta(HIGH), rtol=1e-11)


def test_laplaces_are_those_of_a_vector():
    for first, second in ((1.0, 1.0), (0.3, 2.0)):
        found = read(f"laplace(epsilon={first})*laplace(epsilon={second})")
        truth = [with_laplace(first, LaplaceShift(second), level) for level in HIGH]
        np.testing.assert_allclose(found.delta(HIGH), truth, atol=1e-11)
    hundred = read("*".join(["laplace(epsilon=0.1)"] * 100))
    # the number of a convolution of the loss elsewhere, to four digits
    assert hundred.delta(4.2203 + 5e-5) <= 1e-5 <= hundred.delta(4.2203 - 5e-5)


@pytest.mark.parametrize("text", ["dp(epsilon=1, delta=0.01)", "dp(epsilon=1)*laplace(epsilon=1)"])
def test_a_written_curve_is_as_symmetric_as_before(text, tmp_path):
    polygon(read(text).bound).write(tmp_path / "curve.csv")
    assert read("file(curve.csv)", tmp_path).is_symmetric
    assert read(text).is_symmetric


def test_a_written_curve_is_as_asymmetric_as_before(tmp_path):
    """δ₀ on one side alone, and the points of it end with two errors of 0."""
    (tmp_path / "curve.csv").write_text("alpha,beta\n0,0.9\n0.1,0.6\n0.5,0.05\n0.9,0\n1,0\n")
    assert not read("file(curve.csv)", tmp_path).is_symmetric
    (tmp_path / "curve.csv").write_text("alpha,beta\n0,0.9\n0.3,0.3\n0.9,0\n1,0\n")
    assert read("file(curve.csv)", tmp_path).is_symmetric


@pytest.mark.parametrize("epsilon0, mu", [(1.0, 1.0), (0.3, 2.0), (3.0, 0.5)])
def test_laplace_and_gaussian(epsilon0, mu, tmp_path):
    claim = read(f"laplace(epsilon={epsilon0})*gaussian(mu={mu})")
    truth = np.array([with_laplace(epsilon0, GaussianShift(mu), level) for level in HIGH])
    over = claim.delta(HIGH) - truth
    assert over.min() >= 0.0, "a claim that is too strict would be refuted by a mechanism that meets it"
    assert (over <= TOO_LARGE).all()
    lines = 1.0 - truth[:, None] - np.exp(HIGH)[:, None] * FINE  # T is the largest of all such lines
    assert (claim.tradeoff(FINE) <= GaussianShift(mu).tradeoff(FINE)).all(), "two outputs tell more than one"
    assert (claim.tradeoff(FINE) >= lines.max(axis=0) - np.exp(6.0) * TOO_LARGE[-1]).all()
    claim.bound.write(tmp_path / "curve.csv")
    again = read("file(curve.csv)", tmp_path)
    over = again.delta(HIGH) - claim.delta(HIGH)
    assert over.min() >= -1e-12
    assert over.max() <= 1e-7
    assert (again.tradeoff(FINE) <= claim.tradeoff(FINE) + 1e-12).all()


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
        np.testing.assert_allclose(claim.delta(HIGH), truth.delta(HIGH), atol=1e-9)
        assert (claim.delta(HIGH) >= truth.delta(HIGH)).all()
        assert claim.is_symmetric
    nothing = read("dp(epsilon=0.7)*dp(epsilon=0)")
    np.testing.assert_allclose(nothing.delta(HIGH), ApproximateDP(0.7).delta(HIGH), atol=1e-10)


@every_pair
def test_a_written_curve_is_read_back(p, q, tmp_path):
    curve = TradeOffCurve.from_discrete(p, q)
    curve.write(tmp_path / "curve.csv")
    claim = read("file(curve.csv)", tmp_path)
    np.testing.assert_allclose(claim.tradeoff(FINE), curve(FINE), atol=1e-12)
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(claim.bound.delta(HIGH, direction), curve.delta(HIGH, direction), atol=1e-12)
    assert isinstance(claim.bound, TradeOffPoints)
    np.testing.assert_allclose(claim.bound.convex(FINE), curve(FINE), atol=1e-12)


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
def test_products_that_would_take_long(parts):
    """One message, before any factor is looked at: no file of these is there."""
    with pytest.raises(
        StudyError, match=rf"a product of {len(parts)} claims .*; accepted: at most 1000 \(64, 8\)"
    ) as caught:
        read("*".join(parts))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text, words",
    [
        ("laplace(epsilon=1)*laplac(epsilon=1)", "no call"),
        ("laplace(epsilon=1)*2", "product of these"),
        ("laplace(epsilon=1)*gaussian(mu=-1)", "claim 'gaussian(mu=-1)': mu: -1.0 was given"),
        ("dp(epsilon=1e9)*gaussian(mu=1)", "numbers from 0 to 700"),
    ],
)
def test_refusals_of_products(text, words):
    with pytest.raises(StudyError) as caught:
        read(text)
    assert words in str(caught.value)
