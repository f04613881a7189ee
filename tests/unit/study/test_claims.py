"""Claims: what they parse to, and how wrong ones are refused."""

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest

from hpcdp.analytic import ApproximateDP, GaussianShift, LaplaceShift, gaussian_sigma
from hpcdp.errors import HpcdpError, StudyError
from hpcdp.store.lease import acquire
from hpcdp.store.results import write_results
from hpcdp.store.root import create_store
from hpcdp.study.claims import meaning, parse_claim

LEVELS = np.linspace(0.0, 3.0, 31)
SIZES = np.linspace(0.0, 1.0, 21)
HERE = Path("nowhere")


@pytest.mark.parametrize(
    ("text", "curve"),
    [
        ("laplace(epsilon=1)", LaplaceShift(1.0)),
        ("  laplace ( epsilon = 0.25 ) ", LaplaceShift(0.25)),
        ("gaussian(mu=.5)", GaussianShift(0.5)),
        ("gaussian(epsilon=1, delta=1e-5)", GaussianShift(1.0 / gaussian_sigma(1.0, 1e-5))),
        ("gaussian(delta=1e-5, epsilon=1)", GaussianShift(1.0 / gaussian_sigma(1.0, 1e-5))),
        ("dp(epsilon=0.7)", ApproximateDP(0.7, 0.0)),
        ("dp(epsilon=0.7, delta=0.01)", ApproximateDP(0.7, 0.01)),
        ("dp(epsilon=0)", ApproximateDP(0.0, 0.0)),
    ],
)
def test_exact_claims(text, curve):
    claim = parse_claim(text, HERE)
    assert claim.text == text
    np.testing.assert_array_equal(claim.delta(LEVELS), curve.spectrum(LEVELS))
    np.testing.assert_array_equal(claim.tradeoff(SIZES), curve.tradeoff(SIZES))
    copy = pickle.loads(pickle.dumps(claim))
    np.testing.assert_array_equal(copy.delta(LEVELS), claim.delta(LEVELS))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("laplac(epsilon=1)", ["laplac(", "laplace(epsilon=...)", "store(path)"]),
        ("laplace", ["laplace(epsilon=...)"]),
        ("", ["laplace(epsilon=...)"]),
        ("laplace(epsilon=1", ["laplace(epsilon=...)"]),
        ("laplace(epsilon=1) + dp(epsilon=1)", ["no call", "laplace(epsilon=...)"]),
        ("laplace(epsilon=1)(2)", ["no call"]),
        ("laplace(1)", ["1 without a name", "laplace(epsilon=...)"]),
        ("laplace()", ["no argument", "laplace(epsilon=...)"]),
        ("laplace(epsilon=1, delta=0)", ["epsilon, delta was given", "laplace(epsilon=...)"]),
        ("laplace(epsilon=1, epsilon=2)", ["laplace(epsilon=...)"]),
        ("laplace(**{'epsilon': 1})", ["laplace(epsilon=...)"]),
        ("laplace(scale=1)", ["scale was given", "laplace(epsilon=...)"]),
        (
            "gaussian(epsilon=1)",
            ["epsilon was given", "gaussian(mu=...) or gaussian(epsilon=..., delta=...)"],
        ),
        ("gaussian(mu=1, delta=1e-5)", ["mu, delta was given", "gaussian(mu=...)"]),
        ("dp(delta=0.1)", ["delta was given", "dp(epsilon=..., delta=0)"]),
        ("laplace(epsilon=-1)", ["epsilon: -1.0 was given", ">= 0"]),
        ("laplace(epsilon=True)", ["epsilon: True was given", "a number"]),
        ("laplace(epsilon='1')", ["epsilon: '1' was given", "a number"]),
        ("laplace(epsilon=1e999)", ["epsilon: inf was given", "finite"]),
        (f"laplace(epsilon=1{'0' * 400})", ["epsilon: inf was given", "finite"]),
        ("laplace(epsilon=1+2j)", ["a number"]),
        ("laplace(epsilon=__import__('os').getpid())", ["a number"]),
        ("gaussian(mu=-0.5)", ["mu: -0.5 was given"]),
        ("gaussian(epsilon=0, delta=1e-5)", ["epsilon: 0.0 was given", "> 0"]),
        ("gaussian(epsilon=1, delta=1)", ["delta: 1.0 was given", "between 0 and 1"]),
        ("dp(epsilon=1, delta=-0.1)", ["delta: -0.1 was given", "from 0 to 1"]),
        ("file()", ["no path was given", "file(path)"]),
        ("file('')", ["no path was given", "file(path)"]),
        ("store(  )", ["no path was given", "store(path)"]),
        ("file('a.csv', 'b.csv')", ["'a.csv', 'b.csv' was given", "file(path)"]),
        ("file(path='a.csv', b=1)", ["file(path)"]),
        ("file('a.csv)", ["'a.csv was given", "file(path)"]),
        ("file(missing.csv)", ["missing.csv", "No such file"]),
    ],
)
def test_refusals(text, parts):
    with pytest.raises(StudyError) as caught:
        parse_claim(text, HERE)
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
        claim = parse_claim(form.format(written), tmp_path)
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
    np.testing.assert_allclose(parse_claim("file(x.csv)", tmp_path).delta([0.0, 1.0, 5.0]), [0.1, 0.05, 0.05])


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["first line is no header", "epsilon,delta"]),
        ("eps,delta\n1,0\n", ["first line is no header", "epsilon,delta"]),
        ("epsilon,delta\n", ["no line after the header", "one or more"]),
        ("epsilon,delta\n1,0.1\n2\n", ["line 3 does not hold two numbers"]),
        ("epsilon,delta\n1,0.1,3\n", ["line 2"]),
        ("epsilon,delta\n1,many\n", ["line 2 does not hold two numbers"]),
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
        parse_claim("file(x.csv)", tmp_path)
    for part in ["x.csv", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize("text", ["secret:x:0:0\n", "epsilon,delta\nsecret\n"])
def test_no_message_quotes_a_file_that_a_stranger_may_have_named(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(StudyError) as caught:
        parse_claim("file(x.csv)", tmp_path)
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
        parse_claim("store(runs/x.zarr)", tmp_path)
    write_results(layout, arrays, head | {"complete": False}, lease.generation)
    with pytest.raises(StudyError, match=r"x\.zarr is not complete yet"):
        parse_claim("store(runs/x.zarr)", tmp_path)
    write_results(layout, arrays, head, lease.generation)
    lease.release()
    claim = parse_claim("store(runs/x.zarr)", tmp_path)
    np.testing.assert_allclose(claim.delta([0.0, 0.5, 1.0, 4.0]), [0.3, 0.2, 0.05, 0.05])
    (layout.root / "study" / "study-000002.json").write_text("{}")
    with pytest.raises(StudyError, match=r"x\.zarr is not complete yet"):
        parse_claim("store(runs/x.zarr)", tmp_path)
    with pytest.raises(StudyError, match=r"y\.zarr: nothing is there; accepted: a store"):
        parse_claim("store('runs/y.zarr')", tmp_path)


def test_claims_follow_from_stronger_ones(tmp_path):
    # laplace(1) is (1, 0)-private and gaussian(mu) is private at each of its points.
    laplace, pure = (parse_claim(text, HERE) for text in ("laplace(epsilon=1)", "dp(epsilon=1)"))
    assert (laplace.delta(LEVELS) <= pure.delta(LEVELS)).all()
    assert (laplace.tradeoff(SIZES) >= pure.tradeoff(SIZES) - 1e-15).all()
    gauss = parse_claim("gaussian(mu=0.8)", HERE)
    known = np.array([0.1, 0.5, 1.5])
    rows = "".join(f"{e!r},{d!r}\n" for e, d in zip(known.tolist(), gauss.delta(known).tolist(), strict=True))
    (tmp_path / "gauss.csv").write_text("epsilon,delta\n" + rows)
    points = parse_claim("file(gauss.csv)", tmp_path)
    assert (points.delta(LEVELS) >= gauss.delta(LEVELS) - 1e-15).all()
    assert (points.tradeoff(SIZES) <= gauss.tradeoff(SIZES) + 1e-15).all()
    for epsilon, claim in itertools.product(known, (gauss, points)):
        forward = max(1.0 - claim.tradeoff(SIZES) - np.exp(epsilon) * SIZES)
        assert forward <= claim.delta(epsilon) + 1e-14


def test_points_of_a_tradeoff_curve(tmp_path):
    truth = GaussianShift(1.3)
    sizes = np.linspace(0.0, 1.0, 1001)
    rows = "".join(f"{a!r},{b!r}\n" for a, b in zip(sizes.tolist(), truth.tradeoff(sizes).tolist(), strict=True))
    (tmp_path / "curve.csv").write_text("alpha,beta\n" + rows)
    claim = parse_claim("file(curve.csv)", tmp_path)
    assert claim.is_symmetric
    fine = np.linspace(0.0, 1.0, 20_001)
    assert (claim.tradeoff(fine) <= truth.tradeoff(fine) + 1e-14).all()
    np.testing.assert_allclose(claim.tradeoff(fine[200:]), truth.tradeoff(fine[200:]), atol=2e-4)
    assert (claim.delta(LEVELS) >= truth.delta(LEVELS) - 1e-14).all()
    np.testing.assert_allclose(claim.delta(LEVELS), truth.delta(LEVELS), atol=np.exp(3.0) * 1e-3)
    np.testing.assert_array_equal(claim.tradeoff(sizes), truth.tradeoff(sizes))


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
