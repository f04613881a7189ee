"""Audits of trained models: DP-SGD on digits, its law, its claim, and a network with Opacus."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SEED, call, write_study
from digits import DIGITS, QUICK, accountant, training
from loaded import load_script
from numpy.typing import NDArray

from hpcdp.analytic import GaussianShift
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study

FEW = np.vstack([training.load()[0][:7], training.with_canary()[-1:]])


def first_step(rows: NDArray[np.int64], clip: float) -> NDArray[np.float64]:
    """What rows change of a model at its first step, in units of what one row changes at most by."""
    settings: dict[str, Any] = {"noise": 0.0, "steps": 1, "rate": QUICK["rate"], "clip": clip, "direction": "random"}
    found = training.train(rows, 1, np.random.default_rng(2), **settings)
    return found[..., 0] * training.LOT / (QUICK["rate"] * clip)


def test_every_row_is_clipped_by_itself_and_the_canary_too() -> None:
    """At the first step all classes are as likely, so that a row's gradient is x (1/10 − 1{its label})."""
    for clip in (0.5, 4.5):
        each = [first_step(row[None], clip) for row in FEW[:-1]]
        for row, change in zip(FEW[:-1], each, strict=True):
            gradient = np.outer(training.features(row[None])[0], 0.1 - np.eye(10)[row[-1]])
            np.testing.assert_allclose(change, -gradient / max(clip, np.linalg.norm(gradient)), atol=1e-12)
        whole, of_digits = first_step(FEW, clip), first_step(FEW[:-1], clip)
        np.testing.assert_allclose(of_digits, sum(each), atol=1e-12)  # to rounding
        assert np.linalg.norm(whole - of_digits) == pytest.approx(1.0)


@pytest.mark.parametrize("steps, direction", [(1, "random"), (6, "blank")])
def test_without_noise_a_canary_moves_the_score_by_one(steps: int, direction: str) -> None:
    """In a random direction only at the first step exactly: then the model that it moved changes the other gradients."""
    settings: dict[str, Any] = {"noise": 0.0, "steps": steps, "rate": 4.0, "clip": 0.7, "direction": direction}
    without, once, twice = (
        training.canary_score(np.vstack([FEW[:-1], *[FEW[-1:]] * count]), 1, np.random.default_rng(0), **settings)[0]
        for count in range(3)
    )
    assert once - without == pytest.approx(1.0, abs=1e-12)
    assert twice - without == pytest.approx(2.0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("steps, direction", [(1, "random"), (4, "blank")])
@pytest.mark.parametrize("count", [0, 1])
def test_the_score_is_normal(steps: int, direction: str, count: int) -> None:
    """With mean 0 or 1 more than without noise, and standard deviation noise/√steps: μ = √steps/noise, no more, no less."""
    database, size = training.with_canary()[: training.LOT + count], 1500
    settings: dict[str, Any] = {"steps": steps, "rate": 4.0, "direction": direction}
    rng = np.random.default_rng([SEED, steps, count])
    still = training.canary_score(training.with_canary()[:-1], 1, rng, noise=0.0, **settings)[0] + count
    scores = training.canary_score(database, size, rng, noise=2.0, **settings)
    spread = 2.0 / math.sqrt(steps)
    assert abs(scores.mean() - still) < 5 * spread / math.sqrt(size)
    assert abs(scores.var(ddof=1) / spread**2 - 1.0) < 5 * math.sqrt(2 / (size - 1))


def test_models_learn() -> None:
    parameters = Study.from_toml(DIGITS / "correct.toml").mechanism.parameters
    rows, others = training.load()
    assert training.accuracy(training.train(rows, 4, np.random.default_rng(3), **parameters), others).min() > 0.75


def test_the_claim_is_the_whole_curve_of_the_accountant() -> None:
    noise, steps = accountant.claimed_training()
    mu = accountant.gaussian_mu(noise, steps)
    assert mu >= 1.0
    kept = np.loadtxt(accountant.CLAIM, delimiter=",", skiprows=1)
    np.testing.assert_allclose(kept, accountant.curve_points(mu), rtol=1e-13)
    claim, sizes = parse_claim("file(claim.csv)", DIGITS), np.linspace(0.0, 1.0, 1001)
    exact = GaussianShift(mu).tradeoff(sizes)
    assert (claim.tradeoff(sizes) <= exact + 1e-12).all()
    assert np.abs(claim.tradeoff(sizes) - exact).max() < 1e-3
    for delta in accountant.DELTAS:
        assert GaussianShift(mu).spectrum(accountant.exact_epsilon(mu, delta)) == pytest.approx(delta, rel=1e-6)


def quick_study(folder: Path, **changes: Any) -> Path:
    """The workflow's study with fewer steps and models; μ stays 1."""
    settings = {"train": 300, "test": 600, "chunk": 60, "loss": "knn", "epsilons": [0.0, 1.0], "etas": []} | changes
    pairs = 'relative = { call = "training:with_canary", rows = [600], relation = "remove" }'
    parameters = QUICK | settings.pop("parameters", {})
    study = write_study(folder, call="training:canary_score", parameters=parameters, pairs=pairs, **settings)
    (folder / "training.py").symlink_to(DIGITS / "training.py")
    return study


@pytest.mark.slow
@pytest.mark.parametrize("noise, code", [(QUICK["noise"], 0), (QUICK["noise"] / 2, 3)])
def test_the_audit_finds_half_the_noise_and_nothing_else(noise, code, tmp_path, scheduler):
    study, store = quick_study(tmp_path, parameters={"noise": noise}), tmp_path / "s.zarr"
    where = ("--claim", f"file({accountant.CLAIM})", "--store", store, "--cluster", scheduler, "--format", "json")
    found = json.loads(call("audit", study, *where, "-o", tmp_path / "plot.png", code=code).stdout)
    assert found["verdict"] == "violation" or code == 0
    assert found["bounds"]["mu"]["all"] <= math.sqrt(QUICK["steps"]) / noise


def test_kept_results_are_what_they_should_be_and_the_page_says_them() -> None:
    make = load_script("dpsgd_digits_make", DIGITS / "make.py")
    found = json.loads(make.RESULTS.read_text(encoding="utf-8"))
    assert [one["study"] for one in found] == [case.study for case in make.CASES]
    for case, one in zip(make.CASES, found, strict=True):
        assert make.judge(case, one)
        assert not make.judge(make.Case(case.study, not case.violates), one)
        study = Study.from_toml(case.file)
        assert one["audit"]["name"] == study.name
        assert one["audit"]["claim"] == study.study.claim
        assert {key: one[key] for key in ("noise", "steps")}.items() <= study.mechanism.parameters.items()
        assert one["test"] == study.estimate.test >= 150
        assert one["audit"]["bounds"]["mu"]["all"] <= one["mu"]
    assert make.computed_block(found) in make.PAGE.read_text(encoding="utf-8")


def test_a_network_with_opacus(tmp_path: Path) -> None:
    pytest.importorskip("opacus", reason="this test trains with PyTorch and Opacus, the extra `torch`")
    import opacus_training

    parameters: dict[str, Any] = {"noise": 0.0, "steps": 1, "rate": 4.0}
    with_canary, without = (
        opacus_training.canary_score(training.with_canary()[:rows], np.random.default_rng(0), **parameters)
        for rows in (training.LOT + 1, training.LOT)
    )
    assert with_canary - without == pytest.approx(1.0, abs=1e-5)  # Opacus clips to C/(1 + 10⁻⁶/C), in 32 bits
    prv, _ = accountant.opacus_epsilons(5.0, 25, 1e-5)
    assert prv == pytest.approx(accountant.exact_epsilon(1.0, 1e-5), abs=0.02)  # its error is 0.01
