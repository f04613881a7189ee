"""Draws that depend on each other: the tests of order, and results whose certified bounds they withhold."""

from __future__ import annotations

import json
from math import sqrt

import numpy as np
import pytest
from results import measured
from scipy.stats import binom, hypergeom

from hpcdp import Study, audit, run, spectrum, verify
from hpcdp.losses import make_loss
from hpcdp.losses.counts import PlainCounter
from hpcdp.losses.protocol import Side
from hpcdp.losses.views import Viewed, WithSpecial
from hpcdp.notions.dependence import ALARM, COLUMNS, _above, count_in_order, dependence, looked_thresholds, merge_orders
from hpcdp.report.audit import report as audit_text
from hpcdp.report.notions import text as table_of
from hpcdp.report.verdict import report, to_json

THRESHOLDS = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])


class Itself:
    """L̂ is the output."""

    def score(self, outputs):
        return np.asarray(outputs, np.float64)


def p_value(draw, rng, chunks=4, size=5000, thresholds=THRESHOLDS):
    """Of so many chunks of both sides, all tests together."""
    counter, sets = PlainCounter(Itself(), thresholds), looked_thresholds(thresholds.size).size
    histogram, order = np.zeros((2, 2 * thresholds.size + 1), np.int64), np.zeros((2, sets, COLUMNS), np.int64)
    for side in (0, 1):
        for _ in range(chunks):
            count_in_order(counter, draw(rng, size, side), size, histogram[side], order[side])
    p = dependence(merge_orders([order], [histogram]), np.array(size))
    return min(1.0, p.size * p.min())


def laplace(rng, size, side):
    return rng.laplace(side - 0.5, size=size)


def rare(rng, size, side):
    return rng.normal(-4.5 + 0.3 * side, size=size)


def discrete(rng, size, side):
    return (rng.geometric(0.3 + 0.1 * side, size=size) - rng.geometric(0.3, size=size)) / 2


def repeated(rng, size, side):
    return side - 0.5 + rng.normal() + 0.5 * rng.normal(size=size)


def walking(rng, size, side, near=0.3):
    steps, found = sqrt(1 - near * near) * rng.normal(size=size), 0.0
    return side - 0.5 + np.array([found := near * found + step for step in steps])


def warming(rng, size, side):
    """By half a standard deviation, from the first output of a call to its last."""
    return side - 0.5 + np.linspace(0.0, 0.5, size) + rng.normal(size=size)


def twins(rng, size, side):
    return side - 0.5 + np.repeat(rng.laplace(size=size // 2), 2)


def shifted_twins(rng, size, side):
    """The first output has its twin in the call before."""
    return side - 0.5 + np.repeat(rng.laplace(size=size // 2 + 1), 2)[1 : size + 1]


def test_tails_bound_the_exact_ones_closely():
    """Of small hypergeometric distributions: no tail below the exact one, rare ones above it by less than a third."""
    for total, marked, drawn in ((40, 7, 20), (60, 30, 12), (500, 250, 250), (3000, 40, 1000), (10, 0, 4), (9, 9, 3)):
        law = hypergeom(total, marked, drawn)
        x = np.arange(max(0, marked + drawn - total), min(marked, drawn) + 1)
        found = np.exp(_above(x.astype(float), *(np.full(x.size, float(v)) for v in (total, marked, drawn))))
        exact = law.sf(x - 1)
        assert (found >= exact * (1 - 1e-9)).all()
        few = exact < 0.01
        assert (found[few] <= exact[few] * 4 / 3).all()


@pytest.mark.parametrize("draw", [laplace, rare, discrete])
@pytest.mark.parametrize("runs", [100, pytest.param(1000, marks=pytest.mark.release)])
def test_independent_draws_raise_no_alarm(draw, runs):
    """Of true runs no more p-values lie below α than chance allows; it fails with probability 3·10⁻⁶ or less a case."""
    rng = np.random.default_rng(7)
    found = np.array([p_value(draw, rng) for _ in range(runs)])
    for level in (ALARM, 0.01, 0.1):
        assert binom.sf((found < level).sum() - 1, runs, level) > 1e-6


@pytest.mark.parametrize("draw", [repeated, walking, warming, twins, shifted_twins])
def test_draws_that_depend_on_each_other_are_seen(draw):
    rng = np.random.default_rng(8)
    assert max(p_value(draw, rng) for _ in range(5)) < ALARM


def test_one_chunk_cannot_show_what_is_common_to_it():
    """Neighbours show the rest; a false alarm of the first has a chance of 10⁻⁴."""
    rng = np.random.default_rng(9)
    assert p_value(repeated, rng, chunks=1) >= ALARM
    assert p_value(walking, rng, chunks=1) < ALARM


def outputs_of(kind, rng, size, shift):
    if kind == "values":
        return rng.geometric(0.3 + shift / 10, size=size)
    return rng.normal(shift, size=size if kind == "line" else (size, 3))


@pytest.mark.few
@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("auto", "line"),
        ("knn", "line"),
        ("kde", "line"),
        ("smooth", "line"),
        ("frequency", "values"),
        ("knn", "vectors"),
        ("smooth", "vectors"),
        ("learned", "vectors"),
        ("auto", "vectors"),
    ],
)
def test_every_loss_counts_in_order_what_it_counts(loss, kind):
    """Histograms are those of `count`, and the order is that of classes one by one, whatever the number of outputs."""
    rng = np.random.default_rng(3)
    p, q = (Side(outputs_of(kind, rng, 400, shift), 400) for shift in (0.0, 1.0))
    own = make_loss(loss, {})
    losses = [own, WithSpecial(own), Viewed("value", lambda outputs: outputs, own)]
    for each, sizes in zip(losses, [(1, 2, 6, 777, 4099), (98,), (98,)], strict=True):
        check_order(each.fit(p, q).counter(THRESHOLDS), kind, rng, sizes)


def check_order(counter, kind, rng, sizes):
    sets = looked_thresholds(THRESHOLDS.size)
    for size in sizes:
        outputs, histogram = outputs_of(kind, rng, size, 0.5), np.zeros(2 * THRESHOLDS.size + 1, np.int64)
        order = np.zeros((sets.size, COLUMNS), np.int64)
        count_in_order(counter, outputs, size, histogram, order)
        assert (histogram == counter.count(outputs)).all()
        one = np.array([counter.count(output).argmax() for output in np.split(outputs, size)])
        last = size - size % 2 - 1
        half = min(1024, max(0, last) // 4)  # pairs: early ones from an even place, late ones from an odd one
        late = list(range(1, last - 1, 2))[len(range(1, last - 1, 2)) - half :]
        pairs = [(i, i + 1) for i in [*range(0, 2 * half, 2), *late]]
        hit = one[np.array(pairs, int).reshape(-1, 2)] > 2 * sets[:, None, None] + 1
        early = hit[:, : len(hit[0]) // 2].sum(axis=(1, 2))
        wanted = [len(hit[0]), *hit.sum(axis=1).T, hit.all(axis=2).sum(axis=1), early]
        assert (order[:, :5] == np.transpose(np.broadcast_arrays(*wanted))).all()
        most = [histogram[2 * t + 2 :].sum() for t in sets]
        assert (order[:, 5] == most).all()
        assert (order[:, 6] == size - np.array(most)).all()


def together(database, size, rng):
    return database[0] + 0.5 * rng.normal() + rng.normal(size=size)


@pytest.mark.promise
@pytest.mark.slow
def test_dependence_withholds_every_certified_bound():
    """Noise that all outputs of a call share: what was certified of it was false at any level."""
    sizes = {"train": 4000, "test": 16_000, "chunk": 4000}
    result = spectrum(
        together, [0.0], [1.0], epsilons=[0.0, 0.5, 1.0], etas=[0.5, 1.0, 2.0], renyi=[2.0], seed=3, workers=1, **sizes
    )

    assert result["dependence"].max() < ALARM
    assert not result["lower"].any()
    assert not result["spectrum_lower"].any()
    assert (result["delta"] > 0.1).any()  # estimates stay
    for name in ("alpha_upper", "beta_upper", "radius"):
        assert (result[name] == 1.0).all()
    assert (
        result.epsilon_at(0.0).lower == result.epsilon_at(0.0, alone=True).lower == result.epsilon_at(0.01).lower == 0.0
    )
    (order,) = result.renyi([2.0])
    assert order.lower == order.variational.lower == result.zcdp().lower == 0.0
    for claim in ("gaussian(mu=0.01)", "gaussian(mu=9)", "dp(epsilon=0.1)"):
        found, audited = verify(result, claim), audit(result, claim)
        assert found.verdict == audited.verdict == "not separable"
        assert not any(box.violated for box in audited.boxes)
        assert audited.bounds.mu == (0.0, 0.0)
        for text in (report([found]), audit_text(audited), table_of(result)):
            assert "draws depend on each other (p ≤ " in text
        (words,) = json.loads(to_json([found]))["warnings"]
        assert words.startswith("draws depend on each other")
    assert result.to_dict()["warnings"][0].startswith("draws depend on each other")


@pytest.mark.promise
@pytest.mark.slow
def test_pure_epsilon_is_withheld_too(tmp_path):
    given = {
        "study": {"name": "t", "seed": 4},
        "mechanism": {"call": together},
        "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
        "estimate": {"train": 4000, "test": 16_000, "chunk": 4000, "keep": "none"},
        "pure": {},
    }
    result = run(Study.from_dict(given), tmp_path / "s.zarr", workers=1)
    assert result["dependence"].max() < ALARM
    assert result["pure_certified"].tolist() == [0.0]
    for claim in ("dp(epsilon=0.01)", "dp(epsilon=9)"):
        assert verify(result, claim).verdict == "not separable"


def test_honest_draws_keep_their_bounds():
    """The true claim of independent draws; a false alarm has a chance of 10⁻⁴."""
    result = measured(
        "laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=5, train=4000, test=16_000, epsilons=[0.0, 0.5]
    )
    assert "dependence" not in result.arrays
    assert result["lower"].max() > 0.3
