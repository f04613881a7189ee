"""The workflows: the figures of Eureka plan, their pages say what their kept results say, and rules can fail."""

from __future__ import annotations

import copy
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcdp.engine.driver import run
from hpcdp.planning.summary import plan
from hpcdp.study.file import Study

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
EUREKA = WORKFLOWS / "eureka"
sys.path.insert(0, str(WORKFLOWS))

from diabetes import s2  # noqa: E402
from eureka.figures.catalogue import PAPER  # noqa: E402
from paper_figures.command import main  # noqa: E402
from paper_figures.figure import Figure  # noqa: E402
from paper_figures.methods import Once  # noqa: E402
from paper_figures.pages import computed_block, computed_index, read_figure  # noqa: E402
from paper_figures.parts import Found, read_study  # noqa: E402

FIGURES = PAPER.figures
STUDIES = sorted(path.relative_to(EUREKA) for path in EUREKA.glob("fig*/*.toml"))
MOST_BYTES = 80_000


@cache
def kept(name: str) -> list[Found]:
    """The kept parts of a figure, whose exact values are computed once."""
    return read_figure(PAPER, FIGURES[name])


@pytest.mark.parametrize("path", STUDIES, ids=str)
def test_every_study_plans(path: Path) -> None:
    study = Study.from_toml(EUREKA / path)
    suffix = path.stem.removeprefix("study").removeprefix("paper")
    assert study.name == f"eureka-{path.parent}{suffix}{'-paper' if path.stem.startswith('paper') else ''}"
    planned = plan(study, workers=2)
    assert planned.cells == 2 * planned.pairs * len(study.estimate.epsilons)


def test_catalogue_and_folders_agree() -> None:
    used = {Path(name, part.file(kind, ".toml")) for name, figure in FIGURES.items() for part in figure.parts
            for kind in ("study", "paper")}  # fmt: skip
    assert used == set(STUDIES)
    assert {path.name for path in EUREKA.glob("fig*/")} - {"figures"} == set(FIGURES)


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_paper_settings_differ_in_size_only(figure: Figure) -> None:
    for part in figure.parts:
        small, large = (read_study(EUREKA / figure.name, part, paper) for paper in (False, True))
        assert large.mechanism == small.mechanism
        assert large.pairs == small.pairs
        assert large.study.seed == small.study.seed
        assert large.estimate.loss == small.estimate.loss
        assert large.estimate.train > small.estimate.train


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_pages_say_what_kept_results_say(figure: Figure) -> None:
    found = kept(figure.name)
    failed = [str(check) for check in figure.judge(found) if not check.passed]
    assert not failed
    for one in found:
        assert one.result["name"] == one.study.name
        if isinstance(figure.method, Once):
            assert one.result["complete"]
            assert one.result["confidence"] == one.study.estimate.confidence
            assert one.epsilon.tolist() == list(one.study.estimate.epsilons)
            assert {tuple(c["test"]) for c in one.result["cells"]} == {(one.test, one.test)}
    page = (EUREKA / figure.name / "README.md").read_text(encoding="utf-8")
    assert computed_block(PAPER, figure, found) in page
    assert "](plot.png)" in page
    plot = EUREKA / figure.name / "plot.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert plot.stat().st_size < MOST_BYTES
    for file in re.findall(r"\]\(([^)]+)\)", page):
        assert (EUREKA / figure.name / file).exists(), file


def test_index_says_what_kept_results_say() -> None:
    index = (EUREKA / "README.md").read_text(encoding="utf-8")
    assert computed_index(PAPER, {name: kept(name) for name in FIGURES}) in index
    for file in re.findall(r"\]\(([^)]+)\)", index):
        assert (EUREKA / file).exists(), file


def _doctored(found: list[Found], change: Any) -> list[Found]:
    results = [copy.deepcopy(dict(one.result)) for one in found]
    for result in results:
        change(result)
    return [Found(one.part, one.study, result, one.fit) for one, result in zip(found, results, strict=True)]


def _raise_all(name: str, by: float) -> Any:
    def change(result: dict[str, Any]) -> None:
        for row in [*result["cells"], *result["spectrum"]]:
            row[name] += by

    return change


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("fig4a", _raise_all("delta", 0.005), "within 5 standard errors"),
        ("fig4a", _raise_all("delta", -0.03), "within 5 standard errors"),
        ("fig4a", _raise_all("lower", 0.01), "no certified bound is above"),
        ("fig9a", _raise_all("lower", -1.0), "faulty, so bound above 0"),
        ("fig9a", _raise_all("lower", 0.001), "correct, so bound not above 0"),
        ("fig4c", lambda result: result["accuracy"][1].update(alpha=0.1), "stated α"),
        ("fig4d", lambda result: result.update(estimates=[[[0.0, 0.0]]] * len(result["sizes"])), "rms error"),
    ],
)
def test_rules_can_fail(name: str, change: Any, rule: str) -> None:
    figure = FIGURES[name]
    failed = [check for check in figure.judge(_doctored(kept(name), change)) if not check.passed]
    assert any(rule in check.rule for check in failed)


@pytest.mark.parametrize("name", ["fig4b", "fig6a", "fig7"])
def test_what_is_not_resolved_is_a_triangle_at_its_limit(name: str) -> None:
    """And no point at 0: one triangle for each estimate that tells nothing."""
    found = kept(name)
    axes = FIGURES[name].draw(found).axes
    lines = [line for axis in axes if axis.get_ylabel() == "δ(ε)" for line in axis.get_lines()]
    drawn = [y for line in lines if line.get_marker() == "v" for y in line.get_ydata()]
    unresolved = [row for one in found for row in one.result["spectrum"] if row["delta"] == 0.0]
    assert sorted(drawn) == sorted(row["upper"] for row in unresolved)
    assert len(unresolved) > 0
    assert min(drawn) > 0.0
    points = [y for line in lines if line.get_marker() in "os" for y in line.get_ydata()]
    assert len(points) == sum(len(one.epsilon) for one in found) - len(drawn)
    assert min(points) > 0.0


def test_a_true_claim_that_is_rejected_fails() -> None:
    figure = FIGURES["fig11"]
    found = kept("fig11")
    swapped = [Found(one.part, one.study, one.result, other.fit) for one, other in zip(found, found[::-1], strict=True)]
    assert not all(check.passed for check in figure.judge(swapped))


def test_make_judges_and_draws_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PAPER, ["fig5a", "--kept", "--out", str(tmp_path)]) == 0
    assert "R4 pass" in capsys.readouterr().out
    assert (tmp_path / "fig5a" / "plot.png").stat().st_size < MOST_BYTES
    kept, written = (json.loads((place / "fig5a" / "result.json").read_text()) for place in (EUREKA, tmp_path))
    assert kept == written


def test_make_runs_and_gives_the_kept_counts(scheduler: str, tmp_path: Path) -> None:
    assert main(PAPER, ["fig5a", "--cluster", scheduler, "--store", str(tmp_path), "--out", str(tmp_path)]) == 0
    results = [json.loads((place / "fig5a" / "result.json").read_text()) for place in (EUREKA, tmp_path)]
    counts = [[cell["exceed"] for cell in result["cells"]] for result in results]
    assert counts[0] == counts[1]
    assert (tmp_path / "fig5a" / "run.json").exists()


def test_make_says_when_a_rule_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doctored = _doctored(kept("fig4a"), _raise_all("lower", 0.01))
    monkeypatch.setattr("paper_figures.command.read_figure", lambda *_: doctored)
    assert main(PAPER, ["fig4a", "--kept", "--out", str(tmp_path)]) == 1
    assert "R1 FAIL: no certified bound" in capsys.readouterr().out


def test_make_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, word in ((["fig99"], "fig99"), (["fig4a", "--paper", "--update"], "--paper")):
        with pytest.raises(SystemExit) as caught:
            main(PAPER, arguments)
        assert caught.value.code == 2
        assert word in capsys.readouterr().err


@pytest.mark.parametrize("name", ["fig9a", "fig9c"])
def test_figures_run_at_a_small_size(name: str, client: Any, tmp_path: Path) -> None:
    figure, found = FIGURES[name], []
    for part in figure.parts:
        body = read_study(EUREKA / name, part).to_dict()
        body["estimate"] |= {"train": 1 << 17, "test": 1 << 17, "chunk": 1 << 16}
        study = Study.from_dict(body, EUREKA / name)
        result = run(study, tmp_path / f"{study.name}.zarr", client=client())
        found.append(Found(part, study, json.loads(result.to_json())))
    failed = [str(check) for check in figure.judge(found) if not check.passed]
    assert not failed
    figure.draw(found).savefig(tmp_path / "plot.png")


def test_the_patients_are_those_of_scikit_learn() -> None:
    """They are read without its functions, which take longer to load than the data."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    np.testing.assert_array_equal(s2(), data.data[:, data.feature_names.index("s2")])
