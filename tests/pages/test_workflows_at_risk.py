"""The figures of the paper on privacy at risk: pages say what is computed and kept, and rules can fail."""

from __future__ import annotations

import copy
import re
import sys
from functools import cache
from pathlib import Path

import pytest

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
HERE = WORKFLOWS / "at_risk"
sys.path.insert(0, str(WORKFLOWS))

from at_risk.figures.catalogue import PAPER  # noqa: E402
from at_risk.figures.sampled import check_sampled  # noqa: E402
from paper_figures.figure import Figure  # noqa: E402
from paper_figures.pages import computed_block, computed_index, read_figure  # noqa: E402
from paper_figures.parts import Found, read_study  # noqa: E402

FIGURES = PAPER.figures
MOST_BYTES = 80_000


@cache
def kept(name: str) -> list[Found]:
    """The kept parts of a figure."""
    return read_figure(PAPER, FIGURES[name])


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_pages_say_what_is_computed_and_kept(figure: Figure) -> None:
    found = kept(figure.name)
    assert not [str(check) for check in figure.judge(found) if not check.passed]
    for one in found:
        study = read_study(HERE / figure.name, one.part)
        assert one.result["name"] == study.name == f"at_risk-{figure.name}-{one.part.key}"
    page = (HERE / figure.name / "README.md").read_text(encoding="utf-8")
    assert computed_block(PAPER, figure, found) in page
    plot = HERE / figure.name / "plot.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert plot.stat().st_size < MOST_BYTES
    for file in re.findall(r"\]\(([^)]+)\)", page):
        assert (HERE / figure.name / file).exists(), file


def test_the_index_says_so_too() -> None:
    index = (HERE / "README.md").read_text(encoding="utf-8")
    assert computed_index(PAPER, {name: kept(name) for name in FIGURES}) in index


def test_rules_can_fail() -> None:
    mean, ridge = kept("fig7")
    small = copy.deepcopy(mean.result)
    small["risk"][0]["sensitivity"] *= 0.97  # a Δ that covers too little
    large = {**ridge.result, "quantiles": [9.0]}
    failed = [
        c.rule
        for c in check_sampled([Found(mean.part, mean.study, small), Found(ridge.part, ridge.study, large)])
        if not c.passed
    ]
    assert len(failed) == 2
