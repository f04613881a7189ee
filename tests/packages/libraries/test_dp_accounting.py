"""Claims of dp_accounting: curves against exact ones, verdicts on true and false claims, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hpcdp
from hpcdp.analytic import GaussianShift, NormalMixture
from hpcdp.errors import StudyError
from hpcdp.results.shown import VIOLATION
from hpcdp.study.claims import parse_claim

MODULE = """
import sys

sys.path.append({folder!r})
import dp_accounting as dp
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as pld

loss = pld.from_gaussian_mechanism(1.0)
less = pld.from_gaussian_mechanism(1.0 / 0.98)
composed = pld.from_gaussian_mechanism(2.0).self_compose(4)
event = dp.GaussianDpEvent(1.0)
sampled = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0))
accountant = rdp.RdpAccountant().compose(dp.GaussianDpEvent(1.0))
number = 3
"""
LEVELS = np.linspace(0.0, 5.0, 41)
ROUNDING = {"loss": 1e-7, "composed": 1e-7, "event": 1e-5, "sampled": 1e-5}
"""By which δ is too large: of a grid of 10⁻⁴ in the privacy loss, which dp_accounting interpolates for one mechanism."""


@pytest.fixture(name="folder")
def folder_fixture(dp_accounting: Path, tmp_path: Path) -> Path:
    (tmp_path / "accounts.py").write_text(MODULE.format(folder=str(dp_accounting)))
    return tmp_path


@pytest.mark.parametrize("name", ROUNDING)
def test_curves_are_the_exact_ones_up_to_rounding_to_the_safe_side(name: str, folder: Path) -> None:
    claim = parse_claim(f"pld(accounts:{name})", folder)
    if name == "sampled":  # N(0, 1) against a mixture with N(1, 1), both ways
        pair = NormalMixture([0.0, 1.0], [0.9, 0.1])
        exact = np.maximum(pair.delta(LEVELS), pair.delta(LEVELS, "reverse"))
    else:
        exact = GaussianShift(1.0).spectrum(LEVELS)
    excess = claim.delta(LEVELS) - exact
    assert excess.min() > -1e-12
    assert excess.max() < ROUNDING[name]
    assert claim.is_symmetric


def test_an_accountant_of_renyi_divergences_allows_more(folder: Path) -> None:
    claim = parse_claim("pld(accounts:accountant)", folder)
    assert (claim.delta(LEVELS) > GaussianShift(1.0).spectrum(LEVELS)).all()


@pytest.mark.slow
def test_false_claims_are_refuted_and_true_ones_are_not(folder: Path) -> None:
    """μ = 1 against .98, with 5·10⁵ test outputs of each database, ε at most 1."""
    false, true = (parse_claim(f"pld(accounts:{name})", folder) for name in ("less", "loss"))
    refuted = [0, 0]
    for seed in range(20):
        found = hpcdp.spectrum(
            "gaussian", [0.0], [1.0], parameters={"sigma": 1.0}, epsilons=[0.0, 0.25, 0.5, 0.75, 1.0], seed=seed,
            loss="smooth", train=200_000, test=500_000, keep="none",
        )  # fmt: skip
        for number, claim in enumerate((false, true)):
            refuted[number] += hpcdp.verify(found, claim).verdict == VIOLATION
    assert refuted[0] >= 18
    assert refuted[1] <= 4  # at 95 %: five or more of 20 with probability .0026


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ("pld(accounts:number)", "accounts:number is a builtins.int; accepted: \"package.module:object\""),
        ("pld(accounts:nothing)", "module 'accounts' has no 'nothing'"),
        ("pld(accounts)", "accounts was given; accepted: \"package.module:object\""),
        ("pld()", "no path was given; accepted: pld(package.module:object)"),
    ],
)  # fmt: skip
def test_what_is_no_claim_is_named(claim: str, words: str, folder: Path) -> None:
    with pytest.raises(StudyError) as caught:
        parse_claim(claim, folder)
    assert words in str(caught.value)
