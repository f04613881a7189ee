"""Exceptions that a study names are outputs, where they recur: of numbers, vectors and texts, against exact δ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hpcdp
from hpcdp.errors import HpcdpError, StudyError
from hpcdp.study.file import Study

SHARE = 0.1  # of calls on D′ that raise
SIZES = {"train": 500, "test": 2000, "epsilons": [0.0, 2.0]}
FEW = {**SIZES, "train": 200, "test": 500}  # where most calls raise


def _refuse(database: NDArray[Any], rng: np.random.Generator) -> None:
    if database[0] == 1 and rng.random() < SHARE:
        raise ValueError("out of range")


def number(database: NDArray[Any], rng: np.random.Generator) -> float:
    _refuse(database, rng)
    return float(rng.normal())


def text(database: NDArray[Any], rng: np.random.Generator) -> str:
    _refuse(database, rng)
    return "ab"[rng.integers(2)]


@pytest.mark.parametrize("mechanism", [number, text])
def test_what_one_database_alone_raises_is_certified(mechanism: Any) -> None:
    """Its share is δ at every ε: .1 of 2,000 are 200 ± 13, of which .085 is certified."""
    found = hpcdp.spectrum(mechanism, [0.0], [1.0], raises=["ValueError"], loss="knn", **SIZES)
    for row in found.spectrum():
        assert SHARE * 0.5 < row["lower"] <= SHARE * 1.34  # 5 standard errors below and above
    assert found.spectrum()[1]["delta"] == pytest.approx(SHARE, rel=0.34)


@pytest.mark.parametrize("mechanism", [number, text])
def test_a_database_that_gives_nothing_else(mechanism: Any) -> None:
    def always(database: NDArray[Any], rng: np.random.Generator) -> Any:
        if database[0] == 1:
            raise KeyError("none")
        return mechanism(database, rng)

    found = hpcdp.spectrum(always, [0.0], [1.0], raises=["LookupError"], **FEW)
    assert all(row["delta"] == 1.0 and row["lower"] > 0.9 for row in found.spectrum())


def test_classes_are_told_apart() -> None:
    """Each raises in half of the calls, D the one class and D′ the other: δ = .5, of 500 up to 5 standard errors, .16."""

    def mechanism(database: NDArray[Any], rng: np.random.Generator) -> float:
        if rng.integers(2):
            raise (ValueError if database[0] == 1 else KeyError)("x")
        return 0.0

    found = hpcdp.spectrum(mechanism, [0.0], [1.0], raises=[KeyError, ValueError], **FEW)
    assert found.spectrum()[0]["delta"] == pytest.approx(0.5, abs=0.16)


def test_a_class_of_the_study_and_a_resumed_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of 2 runs holds what one run gives; the table says how many outputs are exceptions."""
    (tmp_path / "refusing_release.py").write_text(
        dedent(
            """
            class Refused(Exception):
                def __init__(self, why, code):
                    super().__init__(why)

            def release(database, rng):
                if database[0] == 1 and rng.random() < 0.1:
                    raise Refused("no", 3)
                return rng.normal()
            """
        )
    )
    body = {
        "study": {"name": "refused", "seed": 3},
        "mechanism": {"call": "refusing_release:release", "raises": ["refusing_release:Refused"]},
        "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
        "estimate": SIZES,
    }
    monkeypatch.chdir(tmp_path)
    whole_run = hpcdp.run(Study.from_dict(body, tmp_path), tmp_path / "one.zarr")
    small = {**body, "estimate": {**SIZES, "epsilons": [0.0]}}
    hpcdp.run(Study.from_dict(small, tmp_path), tmp_path / "two.zarr")
    resumed = hpcdp.run(Study.from_dict(body, tmp_path), tmp_path / "two.zarr")
    assert whole_run.spectrum() == resumed.spectrum()
    assert 133 < int(whole_run["special"][0, 1]) < 267  # 5 standard errors of a share of .1 of 2,000
    assert "refusing_release:Refused (raised) are values of their own" in " ".join(str(whole_run).split())
    sys.modules.pop("refusing_release", None)


def _every_seventh(database: NDArray[Any], rng: np.random.Generator, state: dict[str, int]) -> None:
    state["calls"] = state.get("calls", 0) + 1
    if state["calls"] % 7 == 0:
        raise ValueError("every seventh call")


def _after_one(database: NDArray[Any], rng: np.random.Generator, state: dict[str, int]) -> None:
    """One that recurs has others after it, which do not recur alone."""
    if state.get("left", 0) > 0:
        state["left"] -= 1
        raise ValueError("open")
    if database[0] == 1 and rng.random() < 0.05:
        state["left"] = 20
        raise ValueError("first")


def _by_variable(database: NDArray[Any], rng: np.random.Generator, state: dict[str, int]) -> None:
    """What the process that draws has changed is not so in a fresh one."""
    if os.environ.get("HPCDP_TEST_STUCK"):
        raise ValueError("stuck")
    if database[0] == 1 and rng.random() < 0.05:
        os.environ["HPCDP_TEST_STUCK"] = "1"
        raise ValueError("first")


@pytest.mark.parametrize("refuse", [_every_seventh, _after_one, _by_variable])
def test_an_exception_that_does_not_recur_is_no_output(refuse: Any) -> None:
    state: dict[str, int] = {}

    def mechanism(database: NDArray[Any], rng: np.random.Generator) -> float:
        refuse(database, rng, state)
        return float(rng.normal())

    with pytest.raises(HpcdpError, match=r"returned an output when the call was repeated .* in a fresh process"):
        hpcdp.spectrum(mechanism, [0.0], [1.0], raises=["ValueError"], **SIZES)


def test_classes_of_functions_that_go_by_value(tmp_path: Path) -> None:
    """A script's own class, and one of a module whose function closes over another: the same class in every process."""
    (tmp_path / "made.py").write_text(
        dedent(
            """
            class Refused(Exception): pass
            def make(share):
                def release(database, rng):
                    if database[0] == 1:
                        raise Refused("no")
                    raise ValueError("other")
                return release
            """
        )
    )
    (tmp_path / "script.py").write_text(
        dedent(
            """
            import hpcdp, made
            class Own(Exception): pass
            def release(database, rng):
                if database[0] == 1:
                    raise Own("no")
                return rng.normal()
            if __name__ == "__main__":
                sizes = dict(epsilons=[0.0], train=200, test=400)
                for function, raises in [(release, [Own]), (made.make(0.5), [made.Refused, "Exception"])]:
                    print(hpcdp.spectrum(function, [0.0], [1.0], raises=raises, **sizes).spectrum()[0]["delta"])
            """
        )
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["1.0", "1.0"], 0), done.stderr


@pytest.mark.slow
def test_vectors_of_other_lengths_and_a_mechanism_that_nearly_always_raises() -> None:
    """Whatever the first trial outputs are."""

    def mixed(database: NDArray[Any], rng: np.random.Generator) -> list[float]:
        if rng.random() < 0.5:
            raise ValueError("x")
        return [0.0] * (2 + int(database[0]))

    def seldom(database: NDArray[Any], rng: np.random.Generator) -> list[float]:
        if rng.random() < 0.97:
            raise ValueError("x")
        return [0.0] * 3

    for seed in range(3):
        found = hpcdp.spectrum(mixed, [0.0], [1.0], raises=["ValueError"], seed=seed, **FEW)
        assert found.spectrum()[0]["delta"] == pytest.approx(0.5, abs=0.12)  # 5 standard errors
        assert hpcdp.spectrum(seldom, [0.0], [1.0], raises=["ValueError"], seed=seed, **FEW).complete


def test_bits_tell_classes_apart() -> None:
    def mechanism(database: NDArray[Any], rng: np.random.Generator) -> float:
        raise (ValueError if database[0] == 1 else KeyError)("x")

    listed = ["KeyError", "TypeError", "ValueError"]
    found = hpcdp.spectrum(mechanism, [0.0], [1.0], raises=listed, view=["bits"], **FEW)
    assert found.spectrum()[0]["delta"] == 1.0


def _grouped(text: str) -> ExceptionGroup[Any]:
    return ExceptionGroup(text, [MemoryError()])


@pytest.mark.few
@pytest.mark.parametrize("error", [MemoryError, TimeoutError, FileNotFoundError, SystemExit, _grouped, TypeError])
def test_what_ends_a_study(error: Any) -> None:
    """What the machine or a time-out causes, or what the study does not name."""

    def mechanism(database: NDArray[Any], rng: np.random.Generator) -> float:
        if rng.random() < 0.3:
            raise error("x")
        return float(rng.normal())

    listed = ["ValueError"] if error is TypeError else ["Exception"]
    with pytest.raises(HpcdpError, match=rf"raised {type(error('x')).__name__}"):
        hpcdp.spectrum(mechanism, [0.0], [1.0], raises=listed, **SIZES)


@pytest.mark.parametrize(
    "name", ["OSError", "PermissionError", "MemoryError", "BaseException", "SystemExit", "len", "Nope"]
)
def test_classes_that_are_refused(name: str) -> None:
    with pytest.raises(StudyError, match=rf"mechanism\.raises: .*given: '{name}'"):
        hpcdp.spectrum(number, [0.0], [1.0], raises=[name], **SIZES)


def many(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.normal(size=size)


@pytest.mark.parametrize(
    "mechanism, more, words",
    [
        (many, {}, r"mechanism\.raises: .*takes size"),
        ("laplace", {"parameters": {"epsilon": 1.0}}, r"mechanism\.raises: .*mechanism.call = 'laplace'"),
        (number, {"reproducible": False}, r"mechanism\.raises: .*reproducible = false"),
        (number, {"refine": 500}, r"mechanism\.raises: .*accepted: only in studies without"),
    ],
)
def test_where_they_have_no_place(mechanism: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        hpcdp.spectrum(mechanism, [0.0], [1.0], raises=["ValueError"], **SIZES, **more)
