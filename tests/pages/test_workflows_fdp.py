"""The f-DP figures: they plan, pages say what kept results say, rules can fail, and what has no store equals what has one."""

from __future__ import annotations

import copy
import csv
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcdp.analytic import exact, toy_dpsgd_pair
from hpcdp.engine.driver import run
from hpcdp.notions.curve import TradeOffCurve
from hpcdp.notions.perturbed import error
from hpcdp.planning.summary import plan
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study
from hpcdp.study.problem import resolve

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
FDP = WORKFLOWS / "fdp"
sys.path.insert(0, str(WORKFLOWS))

from fdp.claims import UPDATES, curve_points  # noqa: E402
from fdp.figures.audits import Audits, rarely_detected  # noqa: E402
from fdp.figures.catalogue import PAPER  # noqa: E402
from fdp.figures.curves import Curves  # noqa: E402
from fdp.figures.direct import (  # noqa: E402
    PROCEDURES,
    audit_box,
    count_violations,
    learn,
    make_result,
    measure,
    measure_errors,
    with_sizes,
)
from paper_figures.command import main  # noqa: E402
from paper_figures.figure import Figure  # noqa: E402
from paper_figures.methods import Place  # noqa: E402
from paper_figures.pages import computed_block, computed_index, read_figure  # noqa: E402
from paper_figures.parts import Found, read_study  # noqa: E402
from paper_figures.seeds import as_text, over_seeds  # noqa: E402

FIGURES = PAPER.figures
STUDIES = sorted(path.relative_to(FDP) for path in FDP.glob("fig*/*.toml"))
MOST_BYTES = 80_000


@cache
def kept(name: str) -> list[Found]:
    """The kept parts of a figure."""
    return read_figure(PAPER, FIGURES[name])


@pytest.mark.parametrize("path", STUDIES, ids=str)
def test_every_study_plans(path: Path) -> None:
    study = Study.from_toml(FDP / path)
    suffix = path.stem.removeprefix("study").removeprefix("paper")
    assert study.name == f"fdp-{path.parent}{suffix}{'-paper' if path.stem.startswith('paper') else ''}"
    problem, _ = resolve(study)
    d, d_prime = problem.pairs[0].d, problem.pairs[0].d_prime
    assert exact(str(study.mechanism.call), study.mechanism.parameters, d, d_prime) is not None
    assert plan(study, workers=2).pairs == 1


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_catalogue_and_folders_agree(figure: Figure) -> None:
    files = {path.name for path in (FDP / figure.name).glob("*.toml")}
    assert {part.file("study", ".toml") for part in figure.parts} == {f for f in files if f.startswith("study")}
    assert {f for f in files if f.startswith("paper")} <= {part.file("paper", ".toml") for part in figure.parts}
    for part in figure.parts:
        small, large = (read_study(FDP / figure.name, part, paper) for paper in (False, True))
        sizes = figure.method.small, figure.method.paper  # type: ignore[attr-defined]
        if isinstance(figure.method, Audits):
            assert [max(test for _, test in size) for size in sizes] == [small.estimate.test, large.estimate.test]
            assert small.study.claim is not None
        else:
            assert [max(size) for size in sizes] == [small.estimate.train, large.estimate.train]
            assert len(small.estimate.etas) == 1000
        assert large.mechanism == small.mechanism
        assert large.pairs == small.pairs
        assert large.study.claim == small.study.claim
        assert large.estimate.model_copy(update={"train": 1, "test": 1}) == small.estimate.model_copy(
            update={"train": 1, "test": 1}
        )


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
def test_pages_say_what_kept_results_say(figure: Figure) -> None:
    found = kept(figure.name)
    assert not [str(check) for check in figure.judge(found) if not check.passed]
    assert [one.result["name"] for one in found] == [one.study.name for one in found]
    page = (FDP / figure.name / "README.md").read_text(encoding="utf-8")
    assert computed_block(PAPER, figure, found) in page
    assert "](plot.png)" in page
    plot = FDP / figure.name / "plot.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert plot.stat().st_size < MOST_BYTES
    for file in re.findall(r"\]\(([^)]+)\)", page):
        assert (FDP / figure.name / file).exists(), file


def test_index_says_what_kept_results_say() -> None:
    index = (FDP / "README.md").read_text(encoding="utf-8")
    assert computed_index(PAPER, {name: kept(name) for name in FIGURES}) in index
    for file in re.findall(r"\]\(([^)]+)\)", index):
        assert (FDP / file).exists(), file


def _set(change: Any) -> Any:
    """A change of the cells of audits."""
    return lambda result: [change(cell) for cell in result["cells"]]


@pytest.mark.parametrize(
    ("name", "change", "rule"),
    [
        ("fig1", lambda result: result.update(mse=[3 * mse for mse in result["mse"]]), "reference simulation"),
        ("fig1", lambda result: result["mse"].__setitem__(0, 20 * result["mse"][2]), "25-fold"),
        ("fig2", lambda result: result["runs"][3].update(error=0.02), "Error_T²"),
        ("fig10", lambda result: result["runs"][0].update(clear=-1e-6), "certified limits"),
        ("fig4", _set(lambda cell: cell.update(exact=38)), "false alarms"),
        ("fig5", _set(lambda cell: cell.update(hoeffding=399)), "every audit"),
        ("fig5", _set(lambda cell: cell.update(published=79)), "published procedure"),
        ("fig5", _set(lambda cell: cell.update(published=7)), "published procedure"),
        ("fig12", _set(lambda cell: cell.update(exact=399)), "exact limits most often"),
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


def test_bands_are_binomial() -> None:
    sgd = [one for one in kept("fig5") if one.part.key == "sgd"]
    for count, passes in ((78, True), (79, False), (8, True), (7, False)):
        cells = [cell | {"published": count} for cell in sgd[0].result["cells"]]
        found = [Found(sgd[0].part, sgd[0].study, {**sgd[0].result, "seeds": 400, "cells": cells})]
        assert rarely_detected("sgd", 1000, (0.07, 0.13))(found)[0].passed is passes


@pytest.mark.parametrize("figure", UPDATES)
def test_claim_files_hold_the_exact_curve(figure: str) -> None:
    curve = toy_dpsgd_pair(updates=UPDATES[figure])
    with (FDP / figure / "claim.csv").open(encoding="utf-8") as file:
        points = np.array(list(csv.reader(file))[1:], float)
    np.testing.assert_allclose(points, curve_points(curve), atol=1e-12)
    sizes = np.linspace(0.0, 1.0, 5001)
    too_low = curve.tradeoff(sizes) - parse_claim("file(claim.csv)", FDP / figure).tradeoff(sizes)
    assert too_low.min() >= -1e-12  # a true claim stays true
    assert too_low.max() < 2e-4


def _small(name: str, key: str, **estimate: Any) -> Study:
    body = Study.from_toml(FDP / name / f"study-{key}.toml").to_dict()
    body["estimate"] |= {"train": 500, "test": 700, "chunk": 300, "etas": [0.1, 0.5, 0.9, 1.5, 4.0]} | estimate
    return Study.from_dict(body, FDP / name)


def test_what_has_no_store_equals_a_run(client: Any, tmp_path: Path) -> None:
    study = _small("fig5", "sgd")
    stored = run(study, tmp_path / "s.zarr", client=client())
    problem, _ = resolve(study)
    direct = make_result(study, measure(problem, learn(problem)))
    for name in direct.arrays:
        np.testing.assert_array_equal(direct[name], stored[name], err_msg=name)
    claim = parse_claim(str(study.study.claim), study.folder)
    for procedure in PROCEDURES:
        assert audit_box(direct, claim, procedure) == audit_box(stored, claim, procedure)
    truth = TradeOffCurve.from_curve(toy_dpsgd_pair(), 1e-6)
    points = stored["training_alpha"][0], stored["training_beta"][0]
    ((one_sided, _),) = measure_errors(*as_text(study), [study.seed])
    assert one_sided == error(points, truth)


def test_audits_and_their_procedures() -> None:
    study = _small("fig5", "gauss", test=2000, etas=np.geomspace(0.05, 20.0, 41).tolist())
    assert count_violations(*as_text(study), [1, 2, 3], [0.05, 0.01]) == [[3, 3, 3], [3, 3, 3]]
    true = Study.from_dict({**study.to_dict(), "study": {**study.to_dict()["study"], "claim": "gaussian(mu=1)"}})
    assert count_violations(*as_text(true), [1, 2, 3], [0.05]) == [[0, 0, 0]]


def test_seeds_come_in_blocks_and_in_order(tmp_path: Path) -> None:
    class Inline:
        def submit(self, function: Any, *arguments: Any, pure: bool) -> Any:
            return function(*arguments)

        def gather(self, futures: Any) -> Any:
            return futures

    place = Place("local", 1, Inline(), tmp_path)  # type: ignore[arg-type]
    study = _small("fig5", "gauss")

    def name_of(text: str, _: str, seeds: list[int], more: int) -> tuple[str, list[int], int]:
        return json.loads(text)["study"]["name"], seeds, more

    found = over_seeds(place, study, 60, name_of, 7)
    assert [seed for _, seeds, _ in found for seed in seeds] == list(range(1, 61))
    assert {(name, more) for name, _, more in found} == {(study.name, 7)}
    assert with_sizes(study, 10, 20, 0.9).estimate.confidence == 0.9


def test_make_runs_and_gives_the_kept_curve(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curves, "run", _only_the_first(Curves.run))
    assert main(PAPER, ["fig9", "--cluster", scheduler, "--store", str(tmp_path), "--out", str(tmp_path)]) == 0
    (one,) = kept("fig9")
    written = json.loads((tmp_path / "fig9" / "result-laplace.json").read_text())
    for run_kept, run_now in zip(one.result["runs"], written["runs"], strict=False):
        assert run_now["train"] == run_kept["train"]
        assert run_now["error"] == pytest.approx(run_kept["error"], rel=1e-9)
        np.testing.assert_allclose(run_now["curve"], run_kept["curve"], atol=2e-5)
    assert (tmp_path / "fig9" / "plot.png").stat().st_size < MOST_BYTES
    assert (tmp_path / "fig9" / "run.json").exists()


def _only_the_first(original: Any) -> Any:
    return lambda self, *arguments: original(Curves(self.small[:2], self.paper), *arguments)
