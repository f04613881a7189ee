"""The local-DP figures: pages say what kept results say, rules can fail, and what has no store equals what has one."""

from __future__ import annotations

import copy
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hpcdp.engine.driver import run
from hpcdp.study.file import Study
from hpcdp.study.problem import resolve

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
LOCAL = WORKFLOWS / "local"
sys.path.insert(0, str(WORKFLOWS))

from local.figures.bounds import Bounds  # noqa: E402
from local.figures.catalogue import PAPER  # noqa: E402
from local.figures.direct import estimate_seeds, pure_level, run_seeds  # noqa: E402
from local.figures.errors import Errors  # noqa: E402
from paper_figures.command import main  # noqa: E402
from paper_figures.figure import Figure  # noqa: E402
from paper_figures.pages import computed_block, computed_index, read_figure  # noqa: E402
from paper_figures.parts import Found, read_study  # noqa: E402
from paper_figures.seeds import as_text  # noqa: E402

FIGURES = PAPER.figures
MOST_BYTES = 80_000


@cache
def kept(name: str) -> list[Found]:
    """The kept parts of a figure."""
    return read_figure(PAPER, FIGURES[name])


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_catalogue_and_folders_agree(figure: Figure) -> None:
    files = {path.name for path in (LOCAL / figure.name).glob("*.toml")}
    assert {part.file("study", ".toml") for part in figure.parts} == files
    for part in figure.parts:
        study = read_study(LOCAL / figure.name, part)
        assert study.name == f"local-{figure.name}{'-' + part.key if part.key else ''}"
        assert study.pure is not None
        if isinstance(figure.method, Errors):
            assert max(figure.method.small) == study.estimate.train
        if figure.name.startswith("fig4"):
            assert study.pure.floor_of(study.estimate.train) == (1e-3 if figure.name[4] in "abcd" else 1e-4)


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_pages_say_what_kept_results_say(figure: Figure) -> None:
    found = kept(figure.name)
    assert not [str(check) for check in figure.judge(found) if not check.passed]
    assert [one.result["name"] for one in found] == [one.study.name for one in found]
    page = (LOCAL / figure.name / "README.md").read_text(encoding="utf-8")
    assert computed_block(PAPER, figure, found) in page
    plot = LOCAL / figure.name / "plot.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert plot.stat().st_size < MOST_BYTES
    for file in re.findall(r"\]\(([^)]+)\)", page):
        assert (LOCAL / figure.name / file).exists(), file


def test_index_says_what_kept_results_say() -> None:
    index = (LOCAL / "README.md").read_text(encoding="utf-8")
    assert computed_index(PAPER, {name: kept(name) for name in FIGURES}) in index
    for file in re.findall(r"\]\(([^)#]+)\S*\)", index):
        assert (LOCAL / file).exists(), file


@pytest.mark.parametrize(("level", "truth"), [("0.2", 0.195707), ("0.7", 0.692689), ("1.5", 1.492237)])
def test_levels_are_the_exact_ones(level: str, truth: float) -> None:
    (one,) = (one for one in kept("fig4b") if one.part.key == level)
    assert one.result["level"] == pytest.approx(truth, abs=2e-6)
    assert pure_level(one.study, resolve(one.study)[0]) == pytest.approx(truth, abs=2e-6)


def _all(name: str, value: float) -> Any:
    return lambda result: result.update({name: [value] * result["seeds"]})


def _shifted(name: str, by: float) -> Any:
    return lambda result: result.update({name: [value + by for value in result[name]]})


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("fig1", lambda result: result.update(estimated=[[0.2] * len(result["points"])] * 2), "3-fold"),
        ("fig2", lambda result: result.update(level=0.9), "level"),
        ("fig3", lambda result: result.update(estimate=1.4), "0.3"),
        ("fig4a", _shifted("lower", 1.0), "within 0.03"),
        ("fig4a", _shifted("lower", 1.0), "LB is at most the level"),
        ("fig4d", lambda result: result.update(lower=[v / 2 for v in result["lower"]]), "standard deviations"),
        ("fig4b", _all("certified", 0.05), "certified limit is at least"),
        ("fig4c", _all("certified", 5.0), "at most 5 %"),
        ("fig4g", _all("lower", 0.1), "above ε₀"),
        ("fig4h", _all("certified", 0.1), "the certified limit is above ε₀"),
        ("fig6", lambda result: result["mse"].__setitem__(-1, result["mse"][0]), "2-fold"),
        ("equal", _all("literal", 0.1), "to the letter"),
        ("equal", _all("certified", 0.1), "certified"),
    ],
)
def test_rules_can_fail(name: str, change: Any, rule: str) -> None:
    doctored = []
    for one in kept(name):
        result = copy.deepcopy(dict(one.result))
        change(result)
        doctored.append(Found(one.part, one.study, result))
    failed = [check for check in FIGURES[name].judge(doctored) if not check.passed]
    assert any(rule in check.rule for check in failed)


@pytest.mark.parametrize(("name", "key"), [("fig4d", "1.5"), ("fig4b", "0.7")])
def test_what_has_no_store_equals_a_run(name: str, key: str, client: Any, tmp_path: Path) -> None:
    body = Study.from_toml(LOCAL / name / f"study-{key}.toml").to_dict()
    body["estimate"] |= {"train": 500, "test": 900, "chunk": 400, "keep": "none"}
    study = Study.from_dict(body, LOCAL / name)
    found = run(study, tmp_path / "s.zarr", client=client()).pure
    assert found is not None
    (direct,) = run_seeds(*as_text(study), [study.seed])
    assert (direct.pair, direct.certified) == (found["pair"], found["certified"])
    published = found["published"]
    assert [direct.lower, direct.literal, direct.estimate] == [published[n] for n in ("lower", "literal", "estimate")]


def test_make_runs_and_gives_the_kept_bounds(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Bounds.run
    monkeypatch.setattr(Bounds, "run", lambda _, *arguments: original(Bounds(3), *arguments))
    arguments = ["equal", "fig3", "--cluster", scheduler, "--store", str(tmp_path), "--out", str(tmp_path)]
    assert main(PAPER, arguments) in (0, 1)  # of three seeds a share is no share
    (one,) = kept("equal")
    written = json.loads((tmp_path / "equal" / "result.json").read_text())
    for bound in ("certified", "lower", "literal", "estimate"):
        assert written[bound] == pytest.approx(one.result[bound][:3], abs=2e-6)
    (one,) = kept("fig3")
    written = json.loads((tmp_path / "fig3" / "result.json").read_text())
    assert written["estimate"] == pytest.approx(one.result["estimate"], rel=1e-5)
    assert (tmp_path / "fig3" / "plot.png").stat().st_size < MOST_BYTES


def test_estimates_of_more_samples_begin_with_the_fewer() -> None:
    (one, _) = kept("fig6")
    ((few, many),) = estimate_seeds(*as_text(one.study), [1], [1000, 20_000])
    assert abs(many - 1.5) < 0.3
    assert few != many
