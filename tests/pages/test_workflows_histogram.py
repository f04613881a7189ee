"""The figures of the histogram paper: pages say what kept results say, rules can fail, and a seed's run is that of a store."""

from __future__ import annotations

import copy
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcdp.engine.driver import run
from hpcdp.study.file import Study

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
HERE = WORKFLOWS / "histogram"
sys.path.insert(0, str(WORKFLOWS))

from histogram.figures.catalogue import PAPER  # noqa: E402
from histogram.figures.intervals import ends_curve, given, run_seeds  # noqa: E402
from paper_figures.figure import Figure  # noqa: E402
from paper_figures.pages import computed_block, computed_index, read_figure  # noqa: E402
from paper_figures.parts import Found, read_study  # noqa: E402
from paper_figures.seeds import as_text  # noqa: E402

FIGURES = PAPER.figures


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_pages_say_what_kept_results_say(figure: Figure) -> None:
    found = read_figure(PAPER, figure)
    assert not [str(check) for check in figure.judge(found) if not check.passed]
    page = (HERE / figure.name / "README.md").read_text(encoding="utf-8")
    assert computed_block(PAPER, figure, found) in page
    for file in re.findall(r"\]\(([^)]+)\)", page):
        assert (HERE / figure.name / file).exists(), file
    assert (HERE / figure.name / "plot.png").stat().st_size < 80_000


def test_index_says_what_kept_results_say() -> None:
    index = (HERE / "README.md").read_text(encoding="utf-8")
    assert computed_index(PAPER, {name: read_figure(PAPER, FIGURES[name]) for name in FIGURES}) in index


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_studies_assume_what_is_so(figure: Figure) -> None:
    """C and D are at least the steepest slopes of the exact densities."""
    for part in figure.parts:
        study = read_study(HERE / figure.name, part)
        scale = study.mechanism.parameters["scale"]
        if study.mechanism.parameters.get("noise") == "gaussian":
            mass = 0.5 * math.erf(1.0 / (scale * math.sqrt(2.0)))
            slope, level = math.exp(-0.5) / (scale**2 * math.sqrt(2.0 * math.pi) * mass), 0.5 / scale**2
        else:
            slope, level = -1.0 / (scale**2 * math.expm1(-1.0 / scale)), 1.0 / scale
        assert slope <= given(study).lipschitz < 1.001 * slope
        assert ends_curve(study).pure() == pytest.approx(level)
        if study.pairs.domain is not None:
            assert 2.0 * slope <= study.pairs.domain.lipschitz


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("precision", lambda r: r.update(upper=[[0.01] * 100] * 4), "holds ε"),
        ("precision", lambda r: r.update(certified=[[9.0] * 100] * 4), "holds ε"),
        ("precision", lambda r: r.update(published=[[None] * 100] * 4), "published estimates"),
        ("precision", lambda r: r.update(upper=[[9.0] * 100] * 4), "wide"),
        ("renyi", lambda r: r.update(published=[[1.0] * 20] * 2), "published estimates"),
        ("domain", lambda r: r.update(upper=[[0.9] * 20] * 2), "holds ε"),
    ],
)
def test_rules_can_fail(name: str, change: Any, rule: str) -> None:
    doctored = []
    for one in read_figure(PAPER, FIGURES[name]):
        result = copy.deepcopy(dict(one.result))
        change(result)
        doctored.append(Found(one.part, one.study, result))
    failed = [check for check in FIGURES[name].judge(doctored) if not check.passed]
    assert any(rule in check.rule for check in failed)


@pytest.mark.parametrize(("name", "file"), [("precision", "study-1.toml"), ("domain", "study.toml")])
def test_what_has_no_store_equals_a_run(name: str, file: str, tmp_path: Path) -> None:
    body = Study.from_toml(HERE / name / file).to_dict()
    body["estimate"] |= {"train": 2000, "test": 3000, "chunk": 1000}
    if body["pairs"].get("domain"):
        body["pairs"]["domain"]["points"] = 5
    study = Study.from_dict(body, HERE / name)
    found = run(study, tmp_path / "s.zarr", workers=0).pure
    assert found is not None
    (((certified, upper, _),),) = run_seeds(*as_text(study), [study.seed], [3000], None, 10)
    assert (certified, upper) == (found["certified"], found["upper"])
