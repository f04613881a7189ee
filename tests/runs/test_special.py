"""NaN, infinities and None are outputs like others: of functions, columns, programs and files, against exact δ."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

import hpcdp
from hpcdp.errors import StudyError
from hpcdp.study.file import Study

SHARE = 0.01  # of outputs on D′ that are special
SIZES = {"train": 20_000, "test": 100_000}


def _some(database: NDArray[Any], rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    return (rng.random(size) < SHARE) & (database[0] == 1)


def nan(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.where(_some(database, rng, size), np.nan, rng.normal(size=size))


def infinite(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.where(_some(database, rng, size), -np.inf, rng.normal(size=size))


def column(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    some = _some(database, rng, size)
    return np.column_stack([rng.integers(0, 2, size), np.where(some, np.inf, rng.integers(0, 3, size))])


def none(database: NDArray[Any], size: int, rng: np.random.Generator) -> list[float | None]:
    return [None if one else x for one, x in zip(_some(database, rng, size), rng.normal(size=size), strict=True)]


def whole(database: NDArray[Any], size: int, rng: np.random.Generator) -> list[int | None]:
    some = _some(database, rng, size)
    return [None if one else int(x) for one, x in zip(some, rng.integers(0, 10, size), strict=True)]


def text(database: NDArray[Any], size: int, rng: np.random.Generator) -> list[str | None]:
    return [
        None if one else "ab"[x] for one, x in zip(_some(database, rng, size), rng.integers(0, 2, size), strict=True)
    ]


def nested(database: NDArray[Any], size: int, rng: np.random.Generator) -> list[tuple[str, float]]:
    return [("a", math.nan if one else 1.0) for one in _some(database, rng, size)]


def both(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    share, shift = (0.3, 0.5) if database[0] == 1 else (0.1, 0.0)
    return np.where(rng.random(size) < share, np.nan, shift + rng.normal(size=size))


def exact_both(epsilon: float) -> float:
    """δ(ε) of `both`: sup over sets of Q(S) − e^ε·P(S), and the other way round; N(.5, 1)/N(0, 1) is e^(x/2 − 1/8)."""
    c = math.exp(epsilon)
    at = 2.0 * (math.log(0.9 * c / 0.7) + 0.125)
    back = 2.0 * (math.log(0.9 / (0.7 * c)) + 0.125)
    forward = max(0.0, 0.3 - 0.1 * c) + 0.7 * ndtr(0.5 - at) - 0.9 * c * ndtr(-at)
    return max(forward, max(0.0, 0.1 - 0.3 * c) + 0.9 * ndtr(back) - 0.7 * c * ndtr(back - 0.5))


@pytest.mark.parametrize("mechanism", [nan, infinite, column, none, whole, text, nested])
def test_what_one_database_alone_gives_is_certified(mechanism: Any) -> None:
    """Its share is δ at every ε: at .01 of 10⁵, 1,000 ± 32 are expected, of which .008 is certified."""
    found = hpcdp.spectrum(mechanism, [0.0], [1.0], epsilons=[0.0, 2.0], loss="knn", **SIZES)
    for row in found.spectrum():
        assert SHARE * 0.8 < row["lower"] <= SHARE * 1.16  # 5 standard errors above
    assert found.spectrum()[1]["delta"] == pytest.approx(SHARE, rel=0.16)


@pytest.mark.parametrize(
    "estimate", [{"loss": "knn"}, {"loss": "auto"}, {"loss": "kde"}, {"loss": "smooth"}, {"reuse": True}], ids=str
)
def test_they_join_what_a_loss_learns_of_numbers(estimate: dict[str, Any]) -> None:
    """δ is of both parts together: dropping NaN, or giving NaN the L̂ of 0, is off by .1 at ε = 0."""
    found = hpcdp.spectrum(both, [0.0], [1.0], epsilons=[0.0, 0.5], train=40_000, test=100_000, **estimate)
    for row in found.spectrum():
        truth = exact_both(row["epsilon"])
        assert row["lower"] <= truth
        assert row["delta"] == pytest.approx(truth, abs=0.012)  # 5 standard errors of two shares of 10⁵


def test_a_database_that_gives_nothing_else() -> None:
    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.full(size, np.nan) if database[0] == 1 else rng.normal(size=size)

    found = hpcdp.spectrum(mechanism, [0.0], [1.0], epsilons=[0.0, 3.0], train=2000, test=2000)
    assert all(row["delta"] == 1.0 and row["lower"] > 0.95 for row in found.spectrum())


def test_they_are_told_apart() -> None:
    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> list[Any]:
        return [(None if database[0] == 1 else math.nan) if one else 0.0 for one in rng.integers(0, 2, size)]

    found = hpcdp.spectrum(mechanism, [0.0], [1.0], epsilons=[0.0], train=2000, test=2000)
    assert found.spectrum()[0]["delta"] == pytest.approx(0.5, abs=0.06)  # 5 standard errors


@pytest.mark.parametrize("view", ["value", "bits"])
def test_a_result_says_how_many_there_are(view: str, tmp_path: Path) -> None:
    found = hpcdp.spectrum(nan, [0.0], [1.0], epsilons=[0.0], loss="knn", view=view, store=tmp_path / "s.zarr", **SIZES)
    drawn = int(found["special"][0, 1])
    assert 840 < drawn < 1160  # 5 standard errors
    assert f"of the test outputs of pair 0 0 of D and {drawn:,} of D′ hold one." in " ".join(str(found).split())
    assert hpcdp.load_result(tmp_path / "s.zarr")["special"].tolist() == [[0, drawn]]


def test_what_programs_and_files_print(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        dedent(
            """
            import numpy as np
            from hpcdp.serve import serve
            def noisy(database, size, rng):
                some = (rng.random(size) < .01) & (database[0] == 1)
                return np.where(some, np.nan, rng.normal(size=size))
            serve(noisy)
            """
        )
    )
    rng = np.random.default_rng(5)
    for name, share in (("d", 0.0), ("d_prime", SHARE)):
        rows = np.where(rng.random(120_000) < share, np.nan, rng.normal(size=120_000)).tolist()
        np.save(tmp_path / f"{name}.npy", rows)
        (tmp_path / f"{name}.csv").write_text("\n".join("None" if math.isnan(x) else repr(x) for x in rows))
    calls: list[dict[str, Any]] = [{"call": {"command": [sys.executable, "program.py"]}}] + [
        {"call": "stored", "parameters": {"files": [f"d.{kind}", f"d_prime.{kind}"]}} for kind in ("npy", "csv")
    ]
    for number, mechanism in enumerate(calls):
        study = {
            "study": {"name": "special", "seed": 1},
            "mechanism": mechanism,
            "pairs": {"given": [{"d": [0], "d_prime": [1]}]},
            "estimate": {"loss": "knn", "epsilons": [0.0, 1.0], **SIZES},
        }
        found = hpcdp.run(Study.from_dict(study, tmp_path), tmp_path / f"{number}.zarr")
        assert SHARE * 0.8 < found.spectrum()[0]["lower"] <= SHARE * 1.16, mechanism


def test_databases_may_hold_them() -> None:
    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.isnan(database).sum() + rng.laplace(size=size)

    found = hpcdp.spectrum(mechanism, [1.0, math.nan], [1.0, 2.0], epsilons=[0.0], loss="knn", train=5000, test=20_000)
    assert found.spectrum()[0]["delta"] == pytest.approx(1.0 - math.exp(-0.5), abs=0.025)  # 5 standard errors


@pytest.mark.parametrize("estimate", [{"refine": 2000}, {"tape": True}, {"loss": "literal-knn"}], ids=str)
def test_methods_that_have_no_place_for_them_say_so(estimate: dict[str, Any]) -> None:
    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.where(rng.random(size) < 0.5, np.nan, database[0])

    with pytest.raises(StudyError, match="returned nan; accepted: finite numbers, and NaN, infinities and None only"):
        hpcdp.spectrum(mechanism, [0.0], [1.0], epsilons=[0.5], **estimate)
