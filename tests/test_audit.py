"""Audits: false alarms, detection, error limits, converted bounds, the command and its picture."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from analytic_curves import COUNT_P, COUNT_Q
from auditing import Overconfident, Scoring, counted, learned, mass, published, shifted, swapped
from commands import call, calls, one_message, write_study
from results import NOWHERE, changed, measured
from scipy.special import betaincc

from hpcdp.analytic import (
    Discrete,
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    Symmetrised,
    TradeOffPoints,
    toy_dpsgd_pair,
)
from hpcdp.audit import DELTAS, audit
from hpcdp.claims import Claim, parse_claim
from hpcdp.counts import audit_etas
from hpcdp.errors import StudyError
from hpcdp.losses import make_loss
from hpcdp.notions.box import error_limits, margins, promises
from hpcdp.notions.converted import epsilon_lower, mu_lower
from hpcdp.plots_audit import draw_audit
from hpcdp.report.audit import report, to_json
from hpcdp.result import load_result

RUNS, GAMMA = 400, 0.05
MOST_ALARMS = RUNS * GAMMA + 4.0 * math.sqrt(RUNS * GAMMA * (1.0 - GAMMA))
LIMITS = ("exact", "hoeffding")


def claim(text):
    return parse_claim(text, NOWHERE)


def corners(p, q):
    """Points of the trade-off curve of two pmfs: where it bends and halfway between, which shows that it is straight there."""
    order = np.argsort(-q / p)
    bends = np.append([0.0], np.cumsum(p[order])).clip(0, 1), np.append([1.0], 1.0 - np.cumsum(q[order])).clip(0, 1)
    sizes = np.sort(np.concatenate([bends[0], (bends[0][1:] + bends[0][:-1]) / 2]))
    return sizes, np.interp(sizes, *bends)


def true_mu(curve):
    """The least μ for which an unordered pair is μ-GDP, on a grid, so never too large."""
    sizes = np.unique(np.concatenate([np.linspace(0.0, 1.0, 2001)[1:-1], np.geomspace(1e-12, 1e-3, 1000)]))
    return float(mu_lower(sizes, curve.tradeoff(sizes)).max())


def true_epsilons(curve, deltas=DELTAS):
    return np.maximum(*(curve.epsilon(np.array(deltas), direction) for direction in ("forward", "reverse")))


# False alarms (R20)

COUNTS, RARE = Discrete(COUNT_P, COUNT_Q), Discrete([1.0, 0.0], [0.8, 0.2])
PAIRS = {
    "gaussian": (shifted("normal", 0.0), shifted("normal", 1.0), GaussianShift(1.0)),
    "laplace": (shifted("laplace", 0.0), shifted("laplace", 1.0), LaplaceShift(1.0)),
    "counts": (mass(COUNT_P), mass(COUNT_Q), COUNTS),
    "rare": (mass(RARE.p), mass(RARE.q), RARE),
}
GRID = np.linspace(0.0, 1.0, 401)
TRUE = {
    ("gaussian", "both"): claim("gaussian(mu=1)"),
    ("laplace", "both"): claim("laplace(epsilon=1)"),
    ("counts", "forward"): Claim("T", TradeOffPoints(*corners(COUNT_P, COUNT_Q))),
    ("counts", "reverse"): Claim("T⁻¹", TradeOffPoints(*corners(COUNT_Q, COUNT_P))),
    ("counts", "both"): Claim("C[T]", TradeOffPoints(GRID, Symmetrised(COUNTS).tradeoff(GRID))),
    ("rare", "both"): claim("dp(epsilon=0, delta=0.2)"),  # met exactly at size 0
}
LOSSES = {
    "knn": make_loss("knn", {}),
    "kde": make_loss("kde", {}),
    "11 neighbours": make_loss("knn", {"k": 11}),
    "one neighbour": make_loss("knn", {"k": 1}),  # it knows its training outputs by heart
    "overconfident": Overconfident(),
    "noise": Scoring(lambda outputs: 8.0 * np.sin(1e6 * outputs)),
    "exact": Scoring(lambda outputs: 0.5 - outputs),
}
TRIED = [
    *(("knn", *case) for case in TRUE),
    ("kde", "gaussian", "both"),
    ("kde", "laplace", "both"),
    ("kde", "counts", "forward"),
    ("11 neighbours", "gaussian", "both"),
    ("one neighbour", "gaussian", "both"),
    ("one neighbour", "counts", "both"),
    ("overconfident", "gaussian", "both"),
    ("overconfident", "laplace", "both"),
    ("noise", "gaussian", "both"),
    ("exact", "gaussian", "both"),
]


@pytest.mark.parametrize(("loss", "pair", "orientation"), TRIED)
def test_true_claims_are_seldom_called_violated(loss, pair, orientation):
    """R20, and that bounds on μ and ε are seldom above what is true; whatever the classifier."""
    p, q, curve = PAIRS[pair]
    mu, epsilons = true_mu(curve), true_epsilons(curve)
    failed = np.zeros(5, int)
    for run in range(RUNS):
        result = learned(LOSSES[loss], p, q, np.random.default_rng([17, run]))
        found = audit(result, TRUE[pair, orientation], orientation)
        bounds = np.array([row[1:] for row in found.bounds.epsilon])
        failed[0] += found.verdict == "violation"
        failed[1:3] += np.array(found.bounds.mu) > mu
        failed[3:] += (bounds > epsilons[:, None]).any(axis=0)
    print(f"{loss}, {pair}, {orientation}: of {RUNS}: false alarms, μ, ε {failed}")
    assert failed.max() <= MOST_ALARMS


@pytest.mark.parametrize("loss", ["11 neighbours", "one neighbour"])
def test_the_same_outputs_that_chose_must_not_decide(loss):
    """The planted fault: outputs that trained and chose η also decide."""
    p, q, _ = PAIRS["gaussian"]
    results = [learned(LOSSES[loss], p, q, np.random.default_rng([18, run]), reuse=True) for run in range(RUNS)]
    alarms = sum(audit(result, claim("gaussian(mu=1)")).verdict == "violation" for result in results)
    print(f"{loss}: {alarms} of {RUNS} false alarms")
    assert alarms > MOST_ALARMS


# Detection (R21, R22)


def detections(runs, loss, p, q, claimed, orientation="both", **sizes):
    """How many of so many audits find a violation: with exact limits, with Hoeffding's, and as published."""
    found = np.zeros(3, int)
    for run in range(runs):
        result = learned(make_loss(loss, {}), p, q, np.random.default_rng([19, run]), **sizes)
        found[:2] += [audit(result, claimed, orientation, limits).verdict == "violation" for limits in LIMITS]
        found[2] += published(result, claimed)
    print(f"{loss}, {claimed.text}, {sizes}: of {runs}: exact, Hoeffding, published {found}")
    return found


@pytest.mark.parametrize("loss", ["knn", "kde"])
def test_half_the_noise_is_detected(loss):
    """R21: 10⁴ training and 10³ test outputs a side."""
    p, q, _ = PAIRS["gaussian"]
    exact, hoeffding, paper = detections(40, loss, p, q, claim("gaussian(mu=0.5)"), train=10_000, test=1000)
    assert exact == hoeffding == 40
    assert paper <= hoeffding


@pytest.mark.parametrize("loss", ["knn", "kde"])
def test_twice_the_updates_are_detected(loss):
    """R21: the published rule finds about 7 to 13 % with 10³ test outputs; every rule finds all with 10⁴."""
    mixture = toy_dpsgd_pair(updates=10)
    assert isinstance(mixture, NormalMixture)

    def q(rng, size):
        return rng.normal(size=size) + rng.choice(mixture.shifts, size, p=mixture.weights / mixture.weights.sum())

    claimed = Claim("τ = 5", toy_dpsgd_pair(updates=5))
    p = shifted("normal", 0.0)
    exact, hoeffding, paper = detections(40, loss, p, q, claimed, "forward", train=10_000, test=1000)
    assert paper <= 40 * 0.13 + 4.0 * math.sqrt(40 * 0.13 * 0.87)
    assert paper <= hoeffding <= exact
    assert detections(20, loss, p, q, claimed, "forward", train=10_000, test=10_000).tolist() == [20, 20, 20]


@pytest.mark.parametrize(("loss", "train"), [("knn", 100), ("knn", 1000), ("kde", 1000)])
@pytest.mark.parametrize("gamma", [0.01, 0.1])
def test_a_fifth_of_the_noise_is_always_detected(loss, train, gamma):
    """R22: 10⁴ test outputs a side."""
    p, q, _ = PAIRS["gaussian"]
    sizes = {"train": train, "test": 10_000, "confidence": 1.0 - gamma}
    assert detections(20, loss, p, q, claim("gaussian(mu=0.2)"), **sizes).tolist() == [20, 20, 20]


# Limits of errors, and what they leave of a claim


def test_exact_error_limits_are_those_of_the_binomial():
    errors = np.array([[0, 10], [3, 7], [40, 0], [999, 1000]])
    test = np.array([[50, 20], [60, 8], [41, 9], [1000, 1000]])
    level = np.array([0.05, 0.01, 1e-4, 0.2])
    limits = error_limits(errors, test, level)
    assert limits.shape == (4, 2)
    all_wrong = errors == test
    np.testing.assert_array_equal(limits[all_wrong], 1.0)
    half = np.broadcast_to(level[:, None] / 2, errors.shape)
    tail = betaincc(errors + 1.0, np.maximum(test - errors, 1), limits)  # the binomial distribution function
    assert (tail[~all_wrong] <= half[~all_wrong] * (1 + 1e-12)).all()  # to the safe side
    np.testing.assert_allclose(tail[~all_wrong], half[~all_wrong], rtol=1e-5)
    none = errors == 0
    np.testing.assert_allclose(limits[none], 1.0 - half[none] ** (1.0 / test[none]), rtol=1e-12)


def test_hoeffding_error_limits():
    errors, test = np.array([[100, 900]]), np.array([[1000, 1000]])
    radius = math.sqrt(math.log(2.0 / 0.05) / 2000.0)
    limits = error_limits(errors, test, np.array([0.05]), "hoeffding")
    np.testing.assert_allclose(limits, [[0.1 + radius, 0.9 + radius]], rtol=1e-14)
    assert error_limits(np.array([[990, 0]]), test, np.array([0.05]), "hoeffding")[0, 0] > 1.0
    assert (error_limits(errors, test, np.array([0.05])) < limits).all()


def test_margins():
    straight = claim("dp(epsilon=0)").tradeoff  # 1 − α
    errors = np.array([[0.1, 0.2], [0.3, 0.7], [0.5, 0.6], [1.0, 0.0], [1.2, 0.0]])
    np.testing.assert_allclose(margins(straight, errors), [0.7, 0.0, -0.1, 0.0, -1.0], atol=1e-15)
    assert float(margins(straight, errors[0])) == margins(straight, errors)[0]


@pytest.mark.parametrize("limits", LIMITS)
def test_a_promise_is_a_margin_in_units_of_a_box(limits):
    claimed = claim("gaussian(mu=0.5)").tradeoff
    errors = np.array([[0.2, 0.3], [0.3, 0.5], [0.0, 0.9], [0.5, 0.5]])
    size = np.full(errors.shape, 500)
    found = promises(claimed, errors, size, GAMMA, limits)
    for point, promise in zip(errors, found, strict=True):
        over = error_limits(np.rint(500 * point).astype(int), size[0], np.asarray(GAMMA), limits)
        gap = float(claimed(point[0])) - point[1]
        lost = gap - (float(claimed(over[0])) - over[1])
        assert promise == pytest.approx(gap / lost, rel=1e-12)
        assert (promise > 1.0) == bool(margins(claimed, over) > 0.0)
    assert found[0] > 1.0 > found[1] > 0.0 > found[3]


# Bounds on μ and ε


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_mu_of_exact_errors(mu):
    alpha, beta = GaussianShift(mu).point(np.exp(mu * np.linspace(-3.0, 3.0, 25)))
    np.testing.assert_allclose(mu_lower(alpha, beta), mu, rtol=1e-9)


@pytest.mark.parametrize("curve", [GaussianShift(1.0), LaplaceShift(1.0), COUNTS, toy_dpsgd_pair()])
def test_epsilon_of_exact_errors(curve):
    deltas = np.array([1e-4, 0.01, 0.1])
    truth = true_epsilons(curve, deltas)
    alpha, beta = curve.point(np.geomspace(1e-3, 1e3, 401))
    found = epsilon_lower(alpha[:, None], beta[:, None], deltas)
    assert (found <= truth + 1e-9).all()
    assert (found[:, -1] > 0).any()
    # Reached where the ratio is e^ε in the direction with the larger δ.
    best = [epsilon_lower(*(v[:, None] for v in curve.point(np.exp(side * truth))), deltas) for side in (1.0, -1.0)]
    np.testing.assert_allclose(np.maximum(*(np.diag(b) for b in best)), truth, atol=1e-6)


def test_bounds_of_corner_cases():
    assert epsilon_lower(0.2, 0.3, 0.1) == pytest.approx(math.log(0.6 / 0.2), rel=1e-14)
    assert epsilon_lower(0.3, 0.2, 0.1) == epsilon_lower(0.2, 0.3, 0.1)
    assert epsilon_lower(0.5, 0.5, 0.0) == 0.0
    assert epsilon_lower(0.0, 0.3, 0.1) == math.inf
    np.testing.assert_array_equal(epsilon_lower([0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.5]), 0.0)
    np.testing.assert_array_equal(mu_lower([0.0, 0.2], [0.5, 0.0]), math.inf)
    np.testing.assert_array_equal(mu_lower([0.0, 1.0, 0.7], [1.0, 1.0, 0.6]), 0.0)


# An audit of counts that are given

ETA_GRID = np.array([0.25, 1.0, 4.0])


def some_counts(pairs=3, seed=4):
    """Counts and training errors with nothing in common, of tests at three η."""
    rng = np.random.default_rng(seed)
    rejected = np.sort(rng.integers(50, 950, (pairs, 3, 2)), axis=1)[:, ::-1]
    return counted(rejected, rng.uniform(0.02, 0.6, (pairs, 3, 2)), ETA_GRID)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("orientation", ["both", "forward", "reverse"])
def test_an_audit_step_by_step(orientation, limits):
    result, claimed = some_counts(), TRUE["counts", "forward"]
    assert not claimed.is_symmetric
    found = audit(result, claimed, orientation, limits)
    sides = ["forward", "reverse"] if orientation == "both" else [orientation]
    assert [(box.pair, box.orientation) for box in found.boxes] == [(pair, side) for pair in range(3) for side in sides]
    most = []
    for box in found.boxes:
        turn = 1 if box.orientation == "forward" else -1
        training = np.stack([result["training_alpha"], result["training_beta"]], -1)[box.pair, :, ::turn]
        # 1000 training and 1000 test outputs differ as much as 500 do from the truth
        score = promises(claimed.tradeoff, training, np.full((3, 2), 500), GAMMA, limits)
        most.append(float(score.max()))
        best = int(score.argmax())
        assert box.eta == ETA_GRID[best]
        counts = np.array([result["rejected"][box.pair, best, 0], 1000 - result["rejected"][box.pair, best, 1]])
        assert (box.alpha, box.beta) == tuple(counts / 1000)
        over = error_limits(counts, np.array([1000, 1000]), np.asarray(box.level), limits)
        assert (box.alpha_upper, box.beta_upper) == tuple(over)
        first, second = over[::turn]
        assert box.claimed == float(claimed.tradeoff(min(1.0, first)))
        assert box.margin == pytest.approx(box.claimed - second - (first > 1.0), abs=1e-15)
        assert box.violated == (first <= 1.0 and box.claimed > second)
        a, b = (counts / 1000)[::turn]
        assert box.point_margin == pytest.approx(float(claimed.tradeoff(a)) - b, abs=1e-15)
    level = np.array([box.level for box in found.boxes])
    expected = np.full(level.size, 0.5 * GAMMA / level.size)
    expected[int(np.argmax(most))] += 0.5 * GAMMA
    np.testing.assert_allclose(level, expected, rtol=1e-12)
    assert level.sum() <= GAMMA * (1 + 1e-12)
    assert found.worst.margin == max(box.margin for box in found.boxes)


def test_reverse_is_forward_of_the_swapped_pair():
    result, claimed = some_counts(), TRUE["counts", "forward"]
    reverse, forward = audit(result, claimed, "reverse"), audit(swapped(result), claimed, "forward")
    for one, other in zip(reverse.boxes, forward.boxes, strict=True):
        assert (one.eta, one.margin, one.level) == pytest.approx((1.0 / other.eta, other.margin, other.level))
        assert (one.alpha, one.beta, one.alpha_upper) == pytest.approx((other.beta, other.alpha, other.beta_upper))
    assert reverse.verdict == forward.verdict


def test_a_claim_that_is_its_own_inverse_has_one_box_a_pair():
    found = audit(some_counts(), claim("gaussian(mu=1)"))
    assert [(box.pair, box.orientation) for box in found.boxes] == [(pair, "forward") for pair in range(3)]
    assert "its own inverse" in report(found)
    # Bounds that are not known to be symmetric are audited in both orientations.
    assert len(audit(some_counts(), Claim("τ = 5", toy_dpsgd_pair(updates=5))).boxes) == 6


@pytest.mark.parametrize(
    ("rejected", "verdict", "words"),
    [
        ([100, 500], "violation", "violation"),
        ([100, 150], "not separable", "more test samples would show it"),
        ([100, 90], "consistent", "proves no privacy"),
    ],
)
def test_verdicts(rejected, verdict, words):
    found = audit(counted([[rejected]], [[[0.1, 0.6]]], [2.0]), claim("dp(epsilon=0, delta=0.02)"))
    assert found.verdict == verdict
    text = report(found)
    assert words in text
    assert ("no violation found at this sample size" in text) == (verdict != "violation")
    assert json.loads(to_json(found))["verdict"] == verdict


def test_the_box_that_training_ranks_first_gets_most_of_the_level():
    training = [[[0.5, 0.5]], [[0.1, 0.5]], [[0.4, 0.5]]]
    found = audit(counted([[[100, 500]]] * 3, training, [1.0]), claim("dp(epsilon=0)"))
    np.testing.assert_allclose([box.level / GAMMA for box in found.boxes], [1 / 6, 4 / 6, 1 / 6], rtol=1e-12)


def test_few_training_outputs_do_not_send_the_test_to_rare_events():
    # In training, no output of D is rejected at the second η: of 100 outputs a side this says little, of 10⁵ much.
    training = [[[0.1, 0.3], [0.0, 0.68]]]
    for train, eta in ((100, 1.0), (100_000, 9.0)):
        result = counted([[[1000, 7000], [0, 3200]]], training, [1.0, 9.0], test=10_000, train=train)
        assert audit(result, claim("gaussian(mu=0.5)")).worst.eta == eta


def test_results_that_cannot_be_audited():
    good = some_counts()
    literal = changed(good)
    literal.arrays["errors"] = literal.arrays["rejected"]  # which only literal-knn has
    older = changed(good)
    del older.arrays["training_rejected"]
    none = changed(good)
    del none.arrays["eta"]
    incomplete = changed(good)
    object.__setattr__(incomplete, "complete", False)
    for result, words in (
        (literal, "accepted by audit: every other loss"),
        (older, "an earlier hpcdp"),
        (none, "etas: none"),
        (incomplete, "hpcdp resume nowhere.zarr"),
    ):
        with pytest.raises(StudyError, match=words):
            audit(result, claim("dp(epsilon=1)"))


@pytest.mark.parametrize("loss", ["knn", "kde"])
def test_the_whole_path_without_a_store(loss):
    sizes = {"train": 3000, "test": 3000, "epsilons": [0.0], "etas": audit_etas()[::4]}
    result = measured("gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=6, loss=loss, **sizes)
    exact = GaussianShift(1.0)
    # By training, the curve is near the exact one: for a density perturbed points, else shares of its own outputs.
    gap = result["training_beta"][0] - exact.tradeoff(result["training_alpha"][0])
    assert np.abs(gap).max() < 0.1
    assert audit(result, claim("gaussian(mu=0.7)")).verdict == "violation"
    found = audit(result, claim("gaussian(mu=1)"))
    assert found.verdict != "violation"
    assert 0.8 < max(found.bounds.mu) < 1.0


# The command

KEYS = {
    "pair",
    "orientation",
    "eta",
    "alpha",
    "beta",
    "alpha_upper",
    "beta_upper",
    "level",
    "claimed",
    "margin",
    "point_margin",
    "violated",
}


def loads(text):
    """JSON without NaN and infinities."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(name="laplace", scope="module")
def laplace_fixture(tmp_path_factory, scheduler):
    """A study of four pairs whose sums differ by 0, 0.5, 1 and 2, without etas, audited once; and how to do it again."""
    folder = tmp_path_factory.mktemp("audit")
    study = write_study(folder, etas=[], claim="laplace(epsilon=1)", epsilons=[0.0])

    def audited(*arguments, code=0):
        return call("audit", study, "--store", folder / "s.zarr", "--cluster", scheduler, *arguments, code=code)

    done = audited(code=3)
    assert "audit of laplace(epsilon=1): violation" in done.stdout
    return folder, study, audited


def test_the_pair_that_violates_is_found_among_others(laplace):
    folder, _, audited = laplace
    found = loads(audited("--format", "json", code=3).stdout)
    assert {k: found[k] for k in ("verdict", "claim", "confidence", "name", "orientation", "limits")} == {
        "verdict": "violation",
        "claim": "laplace(epsilon=1)",
        "confidence": 0.95,
        "name": "s",
        "orientation": "both",
        "limits": "exact",
    }
    assert set(found) == {"verdict", "claim", "confidence", "name", "orientation", "limits", "bounds", "cells"}
    assert all(set(cell) == KEYS for cell in found["cells"])
    assert [cell["pair"] for cell in found["cells"] if cell["violated"]] == [3]
    assert sum(cell["level"] for cell in found["cells"]) <= GAMMA * (1 + 1e-12)
    assert found["cells"][3]["level"] == max(cell["level"] for cell in found["cells"])
    assert set(found["bounds"]) == {"mu", "epsilon"}
    assert [row["delta"] for row in found["bounds"]["epsilon"]] == list(DELTAS)
    for row in found["bounds"]["epsilon"]:
        assert 0.0 <= row["box"] <= 2.0
        assert 1.0 < row["all"] <= 2.0  # the pair is Laplace with ε = 2
    assert set(found["bounds"]["mu"]) == {"box", "all"}
    text = audited(code=3).stdout
    assert "Violated by pair 3 (" in text
    assert f"plot:  {folder / 's-audit.png'}" in text
    assert (folder / "s-audit.png").read_bytes().startswith(b"\x89PNG")


def test_a_study_without_etas_gets_the_audits_own(laplace, scheduler):
    folder, study, audited = laplace
    assert tuple(load_result(folder / "s.zarr")["eta"]) == audit_etas()
    before = sorted(calls(folder, folder / "s.zarr"))
    assert before
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    assert "eta" not in load_result(folder / "s.zarr").arrays
    first = audited("--format", "json", code=3).stdout
    assert audited("--format", "json", code=3).stdout == first
    assert sorted(calls(folder, folder / "s.zarr")) == before


def test_claims_limits_and_exit_codes(laplace, tmp_path, monkeypatch):
    folder, _, audited = laplace
    assert "no violation found at this sample size" in audited("--claim", "laplace(epsilon=2)").stdout
    hoeffding = loads(audited("--limits", "hoeffding", "--format", "json", "-o", tmp_path / "a.svg", code=3).stdout)
    assert hoeffding["limits"] == "hoeffding"
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    # A path in --claim is relative to the current folder.
    rows = "".join(f"{a},{float(LaplaceShift(2.0).tradeoff(a))!r}\n" for a in GRID)
    (tmp_path / "curve.csv").write_text("alpha,beta\n" + rows)
    monkeypatch.chdir(tmp_path)
    found = loads(audited("--claim", "file(curve.csv)", "--format", "json").stdout)
    assert found["claim"] == "file(curve.csv)"
    # An estimate of another run is no guarantee, and the report says so.
    assert "is an estimate itself" in audited("--claim", f"store({folder / 's.zarr'})").stdout


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        ({}, ["--claim", "gaussian(mu=-1)"], "mu"),
        ({}, ["--claim", "private"], "accepted: laplace(epsilon=...)"),
        ({}, ["--claim", "file(none.csv)"], "none.csv"),
        ({}, [], "--claim: none was given"),
        ({"claim": "file(own.py)"}, [], "header"),
        ({}, ["--claim", "dp(epsilon=1)", "-o", "picture.pdf"], ".png and .svg"),
        ({"loss": "literal-knn"}, ["--claim", "dp(epsilon=1)"], "literal-knn learns anew"),
    ],
)
def test_refused_before_anything_runs(tmp_path, settings, arguments, words):
    study = write_study(tmp_path, **settings)
    done = call("audit", study, "--store", tmp_path / "s.zarr", *arguments, code=2)
    assert words in one_message(done)
    assert done.stdout == ""
    assert not (tmp_path / "s.zarr").exists()


@pytest.fixture(name="counting", scope="module")
def counting_fixture(tmp_path_factory, scheduler):
    """A study of the asymmetric pair M3 that claims its exact curve from a file; and how to audit it."""
    folder = tmp_path_factory.mktemp("counts")
    rows = "".join(f"{float(a)!r},{float(b)!r}\n" for a, b in zip(*corners(COUNT_P, COUNT_Q), strict=True))
    (folder / "curve.csv").write_text("alpha,beta\n" + rows)
    parameters = {"outcomes": [0, 1, 2], "table": [COUNT_P.tolist(), COUNT_Q.tolist()]}
    settings = {"loss": "frequency", "train": 20_000, "test": 20_000, "chunk": 10_000}
    study = write_study(
        folder,
        call="pmf",
        parameters=parameters,
        pairs="given = [{ d = [0], d_prime = [1] }]",
        claim="file(curve.csv)",
        etas=[0.25, 0.5, 0.9, 1.1, 1.5, 2.0, 4.0],
        **settings,
    )

    def audited(*arguments, code=0):
        place = ("--store", folder / "s.zarr", "--cluster", scheduler, "--format", "json")
        return loads(call("audit", study, *place, *arguments, code=code).stdout)

    return folder, audited


def test_orientations(counting):
    """The curve of (D, D′) is true of (D, D′), and false of (D′, D)."""
    folder, audited = counting
    forward, reverse, both = (
        audited("--orientation", "forward"),
        audited("--orientation", "reverse", code=3),
        audited(code=3),
    )
    assert forward["verdict"] != "violation"
    assert [cell["orientation"] for cell in forward["cells"]] == ["forward"]
    assert [cell["violated"] for cell in reverse["cells"]] == [True]
    assert [cell["orientation"] for cell in both["cells"]] == ["forward", "reverse"]
    assert [cell["violated"] for cell in both["cells"]] == [False, True]
    assert sum(cell["level"] for cell in both["cells"]) == pytest.approx(GAMMA)
    assert (folder / "s-audit.png").exists()
    assert load_result(folder / "s.zarr")["eta"].size == 7  # the study's own grid


# The picture


def test_the_picture_shows_the_worst_box(counting, laplace):
    folder, _ = counting
    result = load_result(folder / "s.zarr")
    found = audit(result, parse_claim("file(curve.csv)", folder), "both")
    assert found.worst.orientation == "reverse"
    whole, near = draw_audit(found).axes
    drawn = {line.get_label(): line for line in whole.get_lines()}
    (name,) = [label for label in drawn if label.startswith("vulnerable point")]
    assert f"{found.worst.eta:.3g}" in name
    np.testing.assert_array_equal(drawn[name].get_xydata(), [[found.worst.beta, found.worst.alpha]])
    (tested,) = [line for label, line in drawn.items() if label.startswith("test")]
    np.testing.assert_array_equal(tested.get_xydata(), np.stack([result["beta"][0], result["alpha"][0]], axis=1))
    assert near.get_xlim()[0] <= found.worst.beta <= near.get_xlim()[1]
    assert near.get_ylim()[0] <= found.worst.alpha_upper <= near.get_ylim()[1]
    assert "violation" in whole.get_title()
    assert "no violation found" in draw_audit(audit(result, claim("dp(epsilon=1)"))).axes[0].get_title()
