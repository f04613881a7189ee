"""`hpcdp check`: verdicts and exit codes of true and false claims, the study that it saves, tables, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hpcdp
from hpcdp.cli.command import main
from hpcdp.errors import DONE, VIOLATED, WRONG

FUNCTIONS = """
import random


def noisy_sum(database, size, rng):
    return database.sum() + rng.laplace(scale=1.0, size=size)


def own_noise(database):
    return random.gauss(float(database.sum()), 1.0)
"""
SIZES = ("--train", "20000", "--test", "20000", "--workers", "0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "count.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("claim", "code", "verdict"),
    [
        (("--epsilon", "0.5"), VIOLATED, "dp(epsilon=0.5, delta=0.0): violation"),
        (("--epsilon", "1"), DONE, "dp(epsilon=1.0, delta=0.0): consistent"),
        (("--epsilon", "0.5", "--delta", "0.3"), DONE, "dp(epsilon=0.5, delta=0.3): consistent"),
        (("--claim", "gaussian(mu=0.5)"), VIOLATED, "gaussian(mu=0.5): violation"),
    ],
)
def test_the_verdict_comes_first(
    folder: Path, capsys: pytest.CaptureFixture[str], claim: tuple[str, ...], code: int, verdict: str
) -> None:
    assert main(["check", "count.py:noisy_sum", "--d", "0", "--d-prime", "1", *claim, *SIZES]) == code
    assert capsys.readouterr().out.splitlines()[0] == f"noisy_sum: {verdict}"
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["count.py"]


def test_the_saved_study_does_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("--d", "3", "0", "5", "--d-prime", "3", "0")
    code = main(
        [
            "check",
            "count.py:noisy_sum",
            *rows,
            "--epsilon",
            "0.5",
            "--seed",
            "7",
            *SIZES,
            "--save",
            "saved.toml",
            "--store",
            "a",
        ]
    )
    assert code == VIOLATED
    assert "hpcdp run saved.toml --verify" in capsys.readouterr().out
    assert "\nseed = 7\n" in (folder / "saved.toml").read_text()
    assert main(["run", "saved.toml", "--store", "b", "--verify", "--workers", "0"]) == VIOLATED
    a, b = (hpcdp.load_result(name).to_dict() for name in ("a", "b"))
    assert json.dumps(a) == json.dumps(b)


def test_a_table_loses_each_of_its_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "people.csv").write_text("income\n0.25\n0.5\n3\n")
    given = ("--d", "people.csv", "--epsilon", "1", *SIZES, "--store", "kept")
    assert main(["check", "count.py:noisy_sum", *given]) == VIOLATED
    result = hpcdp.load_result("kept")
    assert len(result.pairs) == 3
    assert {row["lower_pair"] for row in result.spectrum()} == {2}, "the row of 3 changes the sum by most"


def test_a_function_without_rng_draws_by_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--d", "0", "--d-prime", "3", "--epsilon", "1", "--train", "500", "--test", "500", "--workers", "0")
    assert main(["check", "count.py:own_noise", *given]) == VIOLATED
    assert "takes no rng" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("nothing.py:f", "--d", "0", "--d-prime", "1"), "no such file"),
        (("count.py", "--d", "0", "--d-prime", "1"), "FILE.py:function"),
        (("count.py:missing", "--d", "0", "--d-prime", "1"), "missing"),
        (("count.py:noisy_sum", "--d", "zero", "--d-prime", "1"), "--d: zero"),
        (("count.py:noisy_sum", "--d", "0"), "--d-prime: is missing"),
        (("count.py:noisy_sum", "--d", "0", "2", "--d-prime", "0.0", "2"), "is the same database as --d"),
        (("count.py:noisy_sum", "--d", "0", "--d-prime", "1", "--save", "count.py"), "--save"),
    ],
)
def test_wrong_arguments_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], named: str
) -> None:
    assert main(["check", *given, "--epsilon", "1"]) == WRONG
    said = capsys.readouterr().err
    assert named in said
    assert "Traceback" not in said
