"""Views: what the bits of outputs tell, against exact laws; several views of one set of draws; views of one's own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from numpy.typing import NDArray
from scipy.stats import chisquare

import hpcdp
from hpcdp import RunFailed
from hpcdp.errors import StudyError
from hpcdp.losses.views import bits
from hpcdp.results.shown import VIOLATION
from hpcdp.study.file import Study

SIZES = {"train": 200_000, "test": 200_000}


def textbook(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return database[0] + rng.laplace(size=size)


def on_a_lattice(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.round((database[0] + rng.laplace(size=size)) * 2.0**20) / 2.0**20


def lowest_bit(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Exponent of the lowest bit that is set of numbers that are not 0, from their fractions."""
    exact = [float(x).as_integer_ratio() for x in numbers]
    return np.array([(n & -n).bit_length() - d.bit_length() for n, d in exact])


def test_classes_are_sign_exponent_and_lowest_bit() -> None:
    rng = np.random.default_rng(3)
    numbers = rng.normal(size=2000) * 2.0 ** rng.integers(-1070, 1000, 2000)
    numbers = np.concatenate(
        [numbers[numbers != 0.0], [1.0, -1.5, 5e-324, 2.0**-1022, 2.0**-1022 - 5e-324, 2.0**53 - 1, 2.0**53 + 2]]
    )
    wanted = [
        (math.copysign(1.0, x), math.frexp(x)[1], low) for x, low in zip(numbers, lowest_bit(numbers), strict=True)
    ]
    codes = bits(numbers).tolist()
    assert len(set(wanted)) == len(set(codes)) == len(set(zip(wanted, codes, strict=True)))


def test_what_is_no_plain_number_has_classes_of_its_own() -> None:
    payload = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    numbers = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, *payload, 5e-324, 1.0, -1.0])
    assert len(set(bits(numbers).tolist())) == len(numbers)
    narrow = np.array([0.1, -3.5], np.float32)
    assert bits(narrow).tolist() == bits(narrow.astype(np.float64)).tolist()


def test_frequencies_of_classes_are_those_of_an_exact_law() -> None:
    """rng.random() is k/2⁵³, k uniform: the lowest bit of k is 2ᵗ with probability 2^−(t + 1)."""
    numbers = np.random.default_rng(8).random(1_000_000)
    low = np.bincount((bits(numbers) & 4095) - 1100 + 53, minlength=12)
    found = np.append(low[:12], low[12:].sum())
    law = np.append(0.5 ** np.arange(1.0, 13.0), 0.5**12)
    assert chisquare(found, law * len(numbers)).pvalue > 1e-4


def impossible_of_1(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which numbers are no sum 1 + x of floats.

    A sum of at least 1/2 has no bit below 2⁻⁵³; one from 0 to 1/2 is exact, of x <= −1/2, which has none either. A negative one
    is exact too: |x| is 1 + |sum|, and both are multiples of the last place of x.
    """
    last = np.where(numbers < 0.0, np.frexp(1.0 + np.abs(numbers))[1] - 53, -53)
    return lowest_bit(numbers) < last


def test_textbook_laplace_noise_is_told_by_its_bits() -> None:
    """No output of D′ is in the set, and a third of those of D: δ(ε) is at least P(S) at every ε, and certified at ε = 8."""
    rng = np.random.default_rng(1)
    of_d, of_d_prime = (impossible_of_1(shift + rng.laplace(size=20_000)) for shift in (0.0, 1.0))
    assert not of_d_prime.any()
    found = hpcdp.spectrum(textbook, [0.0], [1.0], epsilons=[0.0, 8.0, 9.0], view="bits", **SIZES)
    assert found.epsilon_at(0.0).lower >= 8.0
    rare = 0.06  # of classes with less than 20 training outputs, which are one class
    assert of_d.mean() - 0.02 - rare < found.spectrum()[1]["delta"] < of_d.mean() + 0.02  # 5 standard errors of 20,000


@pytest.mark.parametrize("runs", [10, pytest.param(200, marks=pytest.mark.slow)], ids=str)
def test_noise_on_a_lattice_keeps_its_claim(runs: int) -> None:
    """Rounding follows from the output, so the claim holds of every view; at 95 % more than these have a chance below 10⁻³."""
    alarms = sum(
        hpcdp.verify(
            hpcdp.spectrum(
                on_a_lattice, [0.0], [1.0], epsilons=[0.0, 0.5, 1.0], view=["value", "bits"], loss="knn",
                train=4000, test=4000, seed=seed, claim="laplace(epsilon=1)",
            )
        ).verdict == VIOLATION
        for seed in range(runs)
    )  # fmt: skip
    assert alarms <= {10: 4, 200: 21}[runs]


def test_several_views_share_draws_and_level(tmp_path: Path) -> None:
    how: dict[str, Any] = {"epsilons": [0.0, 1.0], "loss": "knn", "train": 20_000, "test": 20_000}
    both = hpcdp.spectrum(textbook, [0.0], [1.0], view=["value", "bits"], store=tmp_path / "both.zarr", **how)
    alone = hpcdp.spectrum(textbook, [0.0], [1.0], view="bits", **how)
    plain = hpcdp.spectrum(textbook, [0.0], [1.0], **how)
    assert [pair["view"] for pair in both.pairs] == ["value", "bits"]
    np.testing.assert_array_equal(both["exceed"][1], alone["exceed"][0])
    np.testing.assert_array_equal(both["exceed"][0], plain["exceed"][0])
    assert both["level"].sum() == pytest.approx(0.05)
    assert both["lower"][1].max() < alone["lower"][0].max(), "each has half of the level"
    verdict = hpcdp.verify(both, "laplace(epsilon=1)")
    assert verdict.verdict == VIOLATION
    for text in (str(both), str(verdict)):
        assert "pair 1 (view bits)" in text
        assert "Views: value, bits, of the outputs as they were printed" in " ".join(text.split())
    assert hpcdp.verify(plain, "laplace(epsilon=1)").verdict != VIOLATION
    with pytest.raises(StudyError, match=r"estimate\.view"):
        hpcdp.spectrum(textbook, [0.0], [1.0], view="bits", store=tmp_path / "both.zarr", **how)


@pytest.mark.parametrize(("view", "code"), [("bits", 3), ("value", 0)])
def test_audits_see_the_view_too(view: str, code: int, tmp_path: Path) -> None:
    """The values keep the claim, and the bits do not: by boxes, and batch by batch."""
    (tmp_path / "own.py").write_text(
        "def noisy(database, size, rng):\n    return database[0] + rng.laplace(size=size)\n"
    )
    study = tmp_path / "study.toml"
    study.write_text(
        '[study]\nname = "s"\nseed = 3\n[mechanism]\ncall = "own:noisy"\n[pairs]\ngiven = [{ d = [0.0], d_prime = [1.0] }]\n'
        f'[estimate]\ntrain = 20000\ntest = 20000\nepsilons = [0.0]\nloss = "knn"\nview = "{view}"\n'
    )
    for more in ((), ("--sequential",)):
        store = tmp_path / f"{len(more)}.zarr"
        call("audit", study, "--claim", "laplace(epsilon=1)", "--store", store, "--workers", 0, *more, code=code)


@pytest.mark.parametrize("kind", ["npy", "callable"])
def test_outputs_reach_a_view_as_they_were_printed(kind: str, tmp_path: Path) -> None:
    """A zero of another sign is the same output, and other bits."""
    for name, zero in (("d", 0.0), ("d_prime", -0.0)):
        np.save(
            tmp_path / f"{name}.npy", np.where(np.arange(4000) % 2, zero, np.random.default_rng(1).integers(1, 9, 4000))
        )

    def signed(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.where(rng.random(size) < 0.5, -0.0 if database[0] else 0.0, rng.integers(1, 9, size))

    stored = {"call": "stored", "parameters": {"files": ["d.npy", "d_prime.npy"]}}
    for view, delta in (("bits", 0.5), ("value", 0.0)):
        study = {
            "study": {"name": "signed", "seed": 1},
            "mechanism": stored if kind == "npy" else {"call": signed},
            "pairs": {"given": [{"d": [0], "d_prime": [1]}]},
            "estimate": {"epsilons": [0.5], "train": 2000, "test": 2000, "view": view, "loss": "frequency"},
        }
        found = hpcdp.run(Study.from_dict(study, tmp_path), tmp_path / f"{view}.zarr")
        assert found.spectrum()[0]["delta"] == pytest.approx(delta, abs=0.06)  # 5 standard errors


VIEWS = """
import numpy as np

def parity(outputs):
    return (np.round(outputs) % 2).astype(bool)

def centred(outputs):
    return outputs > outputs.mean()

def wrong(outputs):
    return outputs[:-1]
"""


def test_a_view_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(VIEWS)
    monkeypatch.chdir(tmp_path)
    how: dict[str, Any] = {"epsilons": [0.0], "train": 4000, "test": 20_000, "loss": "frequency"}
    found = hpcdp.spectrum(textbook, [0.0], [1.0], view="mine:parity", **how)
    shares = [np.mean(np.round(shift + np.random.default_rng(2).laplace(size=400_000)) % 2) for shift in (0.0, 1.0)]
    assert found.spectrum()[0]["delta"] == pytest.approx(abs(shares[0] - shares[1]), abs=0.02)  # 5 standard errors
    with pytest.raises(RunFailed, match="mine:centred"):
        hpcdp.spectrum(textbook, [0.0], [1.0], view="mine:centred", **how)
    with pytest.raises(RunFailed, match=r"estimate\.view mine:wrong: it returned shape"):
        hpcdp.spectrum(textbook, [0.0], [1.0], view="mine:wrong", **how)


@pytest.mark.parametrize(
    ("view", "more", "words"),
    [
        ("bit", {}, "estimate.view: value, bits, or \"package.module:function\", or a list of several different"),
        (["bits", "bits"], {}, "list of several different ones"),
        (3, {}, "list of several different ones"),
        ("nowhere:f", {}, "nowhere"),
        ("bits", {"refine": 2000}, "estimate.view"),
        ("bits", {"reuse": True}, "estimate.view"),
        ("bits", {"tape": True}, "estimate.view"),
    ],
)  # fmt: skip
def test_views_that_cannot_be_had(view: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError) as caught:
        hpcdp.spectrum(textbook, [0.0], [1.0], epsilons=[0.5], view=view, **more)
    assert words in str(caught.value)
