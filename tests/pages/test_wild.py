"""Published bugs of released libraries: the cases are whole, the page says what was found, and runs go on where they were."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "workflows" / "wild"))

import make  # noqa: E402
from cases import Case, read_cases  # noqa: E402
from page import START, tables  # noqa: E402

from hpcdp import Study  # noqa: E402

CASES = read_cases()
SHOWN = [case for case in CASES if case.sides]
by_case = pytest.mark.parametrize("case", SHOWN, ids=[case.name for case in SHOWN])


def test_enough_is_attempted_and_shown() -> None:
    assert len(CASES) >= 12
    assert sum("red" in case.results() for case in CASES) >= 6
    assert all(case.told["reference"].startswith("https://") for case in CASES)
    assert all(case.sides or case.told["not_shown"] for case in CASES)


@by_case
def test_a_case_is_short_and_pinned(case: Case) -> None:
    study = Study.from_toml(case.folder / "study.toml")
    assert len((case.folder / "study.toml").read_text().splitlines()) <= 20
    assert study.name == case.name
    assert study.estimate.confidence == 0.999
    assert list(case.releases) == case.sides
    for side in case.sides:
        text = (case.folder / f"{side}.txt").read_text().lower()
        assert f"{case.told['library'].lower()}=={case.told[side]} " in text
        assert "://" not in text
        pinned = re.split(r"\n(?=\S)", text.strip())
        assert all(re.fullmatch(r"\S+==\S+ (; .*)?\\\n( +--hash=sha256:[0-9a-f]{64}( \\\n)?)+", one) for one in pinned)


@by_case
def test_kept_results_are_as_expected(case: Case) -> None:
    results = case.results()
    assert list(results) == case.sides
    for side, runs in results.items():
        assert [run["seed"] for run in runs] == list(range(1, len(runs) + 1))
        assert len(runs) >= 2
        assert {run["verdict"] == "violation" for run in runs} == {side == "red"}
        assert {run["confidence"] for run in runs} == {0.999}
        assert all((run["lower"] > run["claimed"]) == (side == "red") for run in runs)


def test_the_page_says_what_is_kept() -> None:
    page = (ROOT / "docs" / "wild.md").read_text(encoding="utf-8")
    assert f"{START}\n{tables(CASES)}" in page, "python workflows/wild/make.py --page"


@pytest.mark.slow
def test_a_release_is_run_in_its_environment_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this Python in place of an environment, and Laplace noise of a third of the scale."""
    folder = tmp_path / "cases" / "third"
    folder.mkdir(parents=True)
    (folder / "case.toml").write_text('library = "none"\nred = "1.0"\npython = "3.11"\n')
    (folder / "red.txt").touch()
    (folder / "mechanism.py").write_text(
        "from serve import serve\n\n\ndef mechanism(database, size, rng):\n"
        "    return database[0] + rng.laplace(0.0, 1 / 3, size)\n\n\nserve(mechanism)\n"
    )
    study = (SHOWN[0].folder / "study.toml").read_text().replace(SHOWN[0].name, "third")
    study = re.sub(r"given = .*", "given = [{ d = [0.0], d_prime = [1.0] }]", study)
    study = re.sub(r"epsilons = .*", "epsilons = [1.0]", re.sub(r'loss = ".*"', 'loss = "knn"', study))
    (folder / "study.toml").write_text(re.sub(r'claim = ".*"', 'claim = "dp(epsilon=1)"', study))
    monkeypatch.setattr(make, "make_environment", lambda *_: Path(sys.prefix))
    (case,) = [Case(folder, {"library": "none", "red": "1.0", "python": "3.11"})]
    assert make.run_case(case, {"red": 2, "green": 0}, tmp_path / "out")
    runs = case.results()["red"]
    assert [run["verdict"] for run in runs] == ["violation", "violation"]
    assert (folder / "plot.png").is_file()
