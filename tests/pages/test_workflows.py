"""The figures of five papers: studies plan, pages say what is kept, rules can fail, and runs give what is kept."""

import copy
import csv
import json
import math
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcdp
from hpcdp import Study, TradeOffCurve
from hpcdp.analytic import exact, toy_dpsgd_pair
from hpcdp.driver.plan import plan
from hpcdp.notions.perturbed import error
from hpcdp.study.claims import parse_claim
from hpcdp.study.resolving import resolve

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
sys.path[:0] = [str(WORKFLOWS), str(WORKFLOWS / "papers")]

from at_risk.figures.catalogue import PAPER as AT_RISK  # noqa: E402
from diabetes import s2  # noqa: E402
from eureka.figures.catalogue import PAPER as EUREKA  # noqa: E402
from fdp.figures import direct as fdp_direct  # noqa: E402
from fdp.figures.audits import rarely_detected  # noqa: E402
from fdp.figures.catalogue import PAPER as FDP  # noqa: E402
from fdp.figures.claims import UPDATES, curve_points  # noqa: E402
from histogram.figures.catalogue import PAPER as HISTOGRAM  # noqa: E402
from histogram.figures.intervals import ends_curve, given  # noqa: E402
from histogram.figures.intervals import run_seeds as histogram_seeds  # noqa: E402
from local.figures import direct as local_direct  # noqa: E402
from local.figures.catalogue import PAPER as LOCAL  # noqa: E402
from paper_figures.command import main, read_paper  # noqa: E402
from paper_figures.figure import Figure, Paper  # noqa: E402
from paper_figures.methods import Once  # noqa: E402
from paper_figures.pages import INDEX, computed_block, computed_index  # noqa: E402
from paper_figures.parts import Found, Part  # noqa: E402
from paper_figures.seeds import as_text  # noqa: E402

PAPERS = {paper.name: paper for paper in (AT_RISK, EUREKA, FDP, HISTOGRAM, LOCAL)}
by_paper = pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)


@cache
def kept(paper: str, name: str) -> list[Found]:
    """The kept parts of a figure, whose exact values are computed once."""
    return PAPERS[paper].read_kept(PAPERS[paper].figures[name])


def failed(figure: Figure, found: list[Found]) -> list[str]:
    """The rules of a figure that do not hold."""
    return [str(check) for check in figure.judge(found) if not check.passed]


def doctored(found: list[Found], change: Callable[[dict[str, Any]], Any]) -> list[Found]:
    """Parts with changed results."""
    results = [copy.deepcopy(dict(one.result)) for one in found]
    for result in results:
        change(result)
    return [Found(one.part, one.study, result, one.fit) for one, result in zip(found, results, strict=True)]


def parts_of(paper: Paper) -> list[tuple[Figure, Part]]:
    """Every part of every figure."""
    return [(figure, part) for figure in paper.figures.values() for part in figure.parts]


@pytest.mark.slow
@by_paper
def test_every_study_plans(paper: Paper) -> None:
    for figure, part in parts_of(paper):
        for large in (False, True):
            study = paper.read_study(figure, part, large)
            planned = plan(study, workers=2)
            if paper is EUREKA:
                assert planned.cells == 2 * planned.pairs * len(study.estimate.epsilons), study.name
            if paper is FDP:
                (pair,) = resolve(study)[0].pairs
                call = str(study.mechanism.call)
                assert exact(call, study.mechanism.parameters, pair.d, pair.d_prime), study.name


@by_paper
def test_catalogue_and_folder_agree(paper: Paper) -> None:
    """Each figure has a picture, its results and a study of its own or another's, and nothing lies there beside."""
    figures = paper.figures.values()
    kept = {f"{figure.name}.png" for figure in figures} | {f"{figure.name}.json" for figure in figures if figure.parts}
    studies = {f"{figure.study or figure.name}.toml" for figure in figures if figure.parts}
    assert {path.name for path in paper.folder.iterdir() if path.suffix in (".png", ".json", ".toml")} == kept | studies
    names = [paper.read_study(figure, part).name for figure, part in parts_of(paper)]
    assert len(set(names)) == len(names)


def test_a_study_file_is_a_study_and_parts_change_what_it_has() -> None:
    for paper in PAPERS.values():
        for path in paper.folder.glob("*.toml"):
            assert Study.from_toml(path).name == f"{paper.name}-{path.stem}"
        for figure, part in parts_of(paper):
            body = paper.read_study(figure, part).to_dict()
            for key, value in part.changes.items():
                found = body
                for name in key.split("."):
                    found = found[name]
                assert found == value or isinstance(value, dict), (figure.name, key)


@pytest.mark.slow
@by_paper
def test_pages_say_what_kept_results_say(paper: Paper) -> None:
    page = (paper.folder / "README.md").read_text(encoding="utf-8")
    for name, figure in paper.figures.items():
        found = kept(paper.name, name)
        assert failed(figure, found) == []
        for one in found:
            assert one.result["name"] == one.study.name
            if isinstance(figure.method, Once):
                assert one.result["complete"]
                assert one.result["confidence"] == one.study.estimate.confidence
                assert one.epsilon.tolist() == list(one.study.estimate.epsilons)
                assert {tuple(c["test"]) for c in one.result["cells"]} == {(one.test, one.test)}
        assert computed_block(paper, figure, found) in page
        assert f"\n## {figure.heading}\n" in page
        assert f"]({name}.png)" in page
    check_links(paper.folder, page)


def test_the_index_lists_every_figure_and_every_example() -> None:
    index = INDEX.read_text(encoding="utf-8")
    assert computed_index([read_paper(name) for name in ("eureka", "fdp", "local", "histogram", "at_risk")]) in index
    check_links(INDEX.parent, index)
    assert set(re.findall(r"\]\((examples/\S+)\)", index)) == {
        str(path.relative_to(INDEX.parent)) for path in (INDEX.parent / "examples").iterdir() if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["function", "table", "distributional", "claim"])
def test_examples_run(name: str, tmp_path: Path) -> None:
    """With fewer outputs."""
    path = INDEX.parent / "examples" / f"{name}.toml"
    body = Study.from_toml(path).to_dict()
    body["estimate"] |= {"train": 5000, "test": 5000}
    result = hpcdp.run(Study.from_dict(body, path.parent), tmp_path / "s.zarr", workers=0)
    assert result.spectrum()[0]["lower"] > 0.05
    claim = body["study"].get("claim")
    assert claim is None or (hpcdp.verify(result, claim).verdict == "violation") == (name == "claim")


def check_links(folder: Path, page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\S*\)", page):
        assert "://" in target or (folder / target).exists(), target


def raised(name: str, by: float) -> Callable[[dict[str, Any]], None]:
    """One number of every cell and row of the spectrum is raised."""

    def change(result: dict[str, Any]) -> None:
        for row in [*result["cells"], *result["spectrum"]]:
            row[name] += by

    return change


def cells(**numbers: int) -> Callable[[dict[str, Any]], Any]:
    return lambda result: [cell.update(numbers) for cell in result["cells"]]


def every(**numbers: float) -> Callable[[dict[str, Any]], Any]:
    """One value for all seeds."""
    return lambda result: result.update({name: [value] * result["seeds"] for name, value in numbers.items()})


CHANGES: list[tuple[Paper, str, Callable[[dict[str, Any]], Any], str]] = [
    (EUREKA, "fig4a", raised("delta", 0.005), "within 5 standard errors"),
    (EUREKA, "fig4a", raised("lower", 0.01), "no certified bound is above"),
    (EUREKA, "fig9a", raised("lower", -1.0), "faulty, so bound above 0"),
    (EUREKA, "fig9a", raised("lower", 0.001), "correct, so bound not above 0"),
    (EUREKA, "fig4c", lambda result: result["accuracy"][1].update(alpha=0.1), "stated α"),
    (EUREKA, "fig4d", lambda r: r.update(estimates=[[[0.0, 0.0]]] * len(r["sizes"])), "rms error"),
    (FDP, "fig1", lambda result: result.update(mse=[3 * mse for mse in result["mse"]]), "reference simulation"),
    (FDP, "fig1", lambda result: result["mse"].__setitem__(0, 20 * result["mse"][2]), "25-fold"),
    (FDP, "fig2", lambda result: result["runs"][3].update(error=0.02), "Error_T²"),
    (FDP, "fig10", lambda result: result["runs"][0].update(clear=-1e-6), "certified limits"),
    (FDP, "fig4", cells(exact=38), "false alarms"),
    (FDP, "fig5", cells(hoeffding=399), "every audit"),
    (FDP, "fig12", cells(exact=399), "exact limits most often"),
    (HISTOGRAM, "precision", lambda result: result.update(upper=[[0.01] * 100] * 4), "holds ε"),
    (HISTOGRAM, "precision", lambda result: result.update(published=[[None] * 100] * 4), "published estimates"),
    (HISTOGRAM, "precision", lambda result: result.update(upper=[[9.0] * 100] * 4), "wide"),
    (HISTOGRAM, "domain", lambda result: result.update(upper=[[0.9] * 20] * 2), "holds ε"),
    (LOCAL, "fig1", lambda r: r.update(estimated=[[0.2] * len(r["points"])] * 2), "3-fold"),
    (LOCAL, "fig2", lambda result: result.update(level=0.9), "level"),
    (LOCAL, "fig3", lambda result: result.update(estimate=1.4), "0.3"),
    (LOCAL, "fig4a", lambda result: result.update(lower=[v + 1.0 for v in result["lower"]]), "within 0.03"),
    (LOCAL, "fig4a", lambda r: r.update(lower=[v + 1.0 for v in r["lower"]]), "LB is at most the level"),
    (LOCAL, "fig4d", lambda result: result.update(lower=[v / 2 for v in result["lower"]]), "standard deviations"),
    (LOCAL, "fig4b", every(certified=0.05), "certified limit is at least"),
    (LOCAL, "fig4c", every(certified=5.0), "at most 5 %"),
    (LOCAL, "fig4g", every(lower=0.1), "above ε₀"),
    (LOCAL, "fig6", lambda result: result["mse"].__setitem__(-1, result["mse"][0]), "2-fold"),
    (LOCAL, "equal", every(literal=0.1), "to the letter"),
]
"""Of each kind of rule: a change of kept results that breaks it, and words of the rule."""


@by_paper
def test_rules_can_fail(paper: Paper) -> None:
    for own, name, change, rule in CHANGES:
        if own is paper:
            found = failed(paper.figures[name], doctored(kept(paper.name, name), change))
            assert any(rule in words for words in found), (name, rule)


def test_rules_about_risk_and_claims_can_fail() -> None:
    mean, ridge = kept("at_risk", "fig7")
    small = doctored(
        [mean], lambda result: result["risk"][0].update(sensitivity=0.97 * result["risk"][0]["sensitivity"])
    )
    large = doctored([ridge], lambda result: result.update(quantiles=[9.0]))
    assert len(failed(AT_RISK.figures["fig7"], [*small, *large])) == 2
    found = kept("eureka", "fig11")  # a true claim that is rejected
    swapped = [Found(one.part, one.study, one.result, other.fit) for one, other in zip(found, found[::-1], strict=True)]
    assert failed(EUREKA.figures["fig11"], swapped)
    sgd = next(one for one in kept("fdp", "fig5") if one.part.key == "sgd")
    for count, passes in ((78, True), (79, False), (8, True), (7, False)):  # a binomial band of 400 seeds
        counted = doctored([sgd], lambda r, count=count: (r.update(seeds=400), cells(published=count)(r)))
        assert rarely_detected("sgd", 1000, (0.07, 0.13))(counted)[0].passed is passes


def test_the_patients_are_those_of_scikit_learn() -> None:
    """They are read without its functions, which take longer to load than the data."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    np.testing.assert_array_equal(s2(), data.data[:, data.feature_names.index("s2")])


@pytest.mark.parametrize("figure", UPDATES)
def test_claim_files_hold_the_exact_curve(figure: str) -> None:
    curve, name = toy_dpsgd_pair(updates=UPDATES[figure]), f"dpsgd-{UPDATES[figure]}.csv"
    with (FDP.folder / name).open(encoding="utf-8") as file:
        points = np.array(list(csv.reader(file))[1:], float)
    np.testing.assert_allclose(points, curve_points(curve), atol=1e-12)  # twelve digits are written
    sizes = np.linspace(0.0, 1.0, 5001)
    too_low = curve.tradeoff(sizes) - parse_claim(f"file({name})", FDP.folder).tradeoff(sizes)
    assert too_low.min() >= -1e-12  # a true claim stays true
    assert too_low.max() < 2e-4


def test_histograms_assume_what_is_so() -> None:
    """C and D are at least the steepest slopes of the exact densities."""
    for figure in HISTOGRAM.figures.values():
        for part in figure.parts:
            study = HISTOGRAM.read_study(figure, part)
            scale = study.mechanism.parameters["scale"]
            if study.mechanism.parameters.get("noise") == "gaussian":
                mass = 0.5 * math.erf(1.0 / (scale * math.sqrt(2.0)))
                slope, level = math.exp(-0.5) / (scale**2 * math.sqrt(2.0 * math.pi) * mass), 0.5 / scale**2
            else:
                slope, level = -1.0 / (scale**2 * math.expm1(-1.0 / scale)), 1.0 / scale
            assert slope <= given(study).lipschitz < 1.001 * slope
            assert ends_curve(study).pure() == pytest.approx(level)
            assert study.pairs.domain is None or 2.0 * slope <= study.pairs.domain.lipschitz


@pytest.mark.parametrize(("level", "truth"), [("0.2", 0.195707), ("0.7", 0.692689), ("1.5", 1.492237)])
def test_levels_are_the_exact_ones(level: str, truth: float) -> None:
    (one,) = (one for one in kept("local", "fig4b") if one.part.key == level)
    assert one.result["level"] == pytest.approx(truth, abs=2e-6)  # results have six digits
    assert local_direct.pure_level(one.study, resolve(one.study)[0]) == pytest.approx(truth, abs=2e-6)


def smaller(paper: Paper, name: str, key: str, **estimate: Any) -> Study:
    """A study of a figure with other settings of its estimate."""
    figure = paper.figures[name]
    (part,) = (part for part in figure.parts if part.key == key)
    body = paper.read_study(figure, part).to_dict()
    body["estimate"] |= estimate
    if body["pairs"].get("domain"):
        body["pairs"]["domain"]["points"] = 5
    return Study.from_dict(body, paper.folder)


FEW = {"train": 500, "test": 700, "chunk": 300, "etas": [0.1, 0.5, 0.9, 1.5, 4.0]}


@pytest.mark.slow
def test_trade_offs_without_a_store_equal_a_run(tmp_path: Path) -> None:
    study = smaller(FDP, "fig5", "sgd", **FEW)
    stored = hpcdp.run(study, tmp_path / "s.zarr", workers=0)
    problem, _ = resolve(study)
    direct = fdp_direct.make_result(study, fdp_direct.measure(problem, fdp_direct.learn(problem)))
    for name in direct.arrays:
        np.testing.assert_array_equal(direct[name], stored[name], err_msg=name)
    claim = parse_claim(str(study.study.claim), study.folder)
    for procedure in fdp_direct.PROCEDURES:
        boxes = (fdp_direct.audit_box(result, claim, procedure) for result in (direct, stored))
        assert next(boxes) == next(boxes)
    truth = TradeOffCurve.from_curve(toy_dpsgd_pair(), 1e-6)
    ((one_sided, _),) = fdp_direct.measure_errors(*as_text(study), [study.seed])
    assert one_sided == error((stored["training_alpha"][0], stored["training_beta"][0]), truth)


@pytest.mark.parametrize(("name", "key"), [("precision", "1"), ("domain", "")])
def test_histograms_without_a_store_equal_a_run(name: str, key: str, tmp_path: Path) -> None:
    study = smaller(HISTOGRAM, name, key, train=2000, test=3000, chunk=1000)
    found = hpcdp.run(study, tmp_path / "s.zarr", workers=0).pure
    (((certified, upper, _),),) = histogram_seeds(*as_text(study), [study.seed], [3000], None, 10)
    assert (certified, upper) == (found["certified"], found["upper"])


@pytest.mark.parametrize(("name", "key"), [("fig4d", "1.5"), pytest.param("fig4b", "0.7", marks=pytest.mark.slow)])
def test_local_bounds_without_a_store_equal_a_run(name: str, key: str, tmp_path: Path) -> None:
    study = smaller(LOCAL, name, key, train=500, test=900, chunk=400, keep="none")
    found = hpcdp.run(study, tmp_path / "s.zarr", workers=0).pure
    (direct,) = local_direct.run_seeds(*as_text(study), [study.seed])
    assert (direct.pair, direct.certified) == (found["pair"], found["certified"])
    assert {n: getattr(direct, n) for n in ("lower", "literal", "estimate")}.items() <= found["published"].items()


def test_audits_find_false_claims_and_no_true_ones() -> None:
    study = smaller(FDP, "fig5", "gauss", **FEW | {"test": 2000, "etas": np.geomspace(0.05, 20.0, 41).tolist()})
    assert fdp_direct.count_violations(*as_text(study), [1, 2, 3], [0.05, 0.01]) == [[3, 3, 3], [3, 3, 3]]
    true = Study.from_dict({**study.to_dict(), "study": {**study.to_dict()["study"], "claim": "gaussian(mu=1)"}})
    assert fdp_direct.count_violations(*as_text(true), [1, 2, 3], [0.05]) == [[0, 0, 0]]


def made(paper: Paper, folder: Path, figure: str, key: str) -> tuple[Any, Any]:
    """A kept result of a part, and the one that was written into a folder."""
    return tuple(
        json.loads((place / f"{figure}.json").read_text())["parts"][key]["result"] for place in (paper.folder, folder)
    )


def test_make_judges_and_draws_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says when a rule fails."""
    assert main(["eureka", "fig5a", "--kept", "--out", str(tmp_path)]) == 0
    assert "fig5a pass" in capsys.readouterr().out
    assert (tmp_path / "fig5a.png").is_file()
    one, other = made(EUREKA, tmp_path, "fig5a", "")
    assert one == other
    found = doctored(kept("eureka", "fig4a"), raised("lower", 0.01))
    monkeypatch.setattr(Paper, "read_kept", lambda *_: found)
    assert main(["eureka", "fig4a", "--kept", "--out", str(tmp_path)]) == 1
    assert "fig4a FAIL: no certified bound" in capsys.readouterr().out


def test_make_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, word in ((["fig99"], "fig99"), (["fig4a", "--paper", "--update"], "--paper")):
        with pytest.raises(SystemExit) as caught:
            main(["eureka", *arguments])
        assert caught.value.code == 2
        assert word in capsys.readouterr().err


@pytest.mark.slow
def test_make_runs_and_gives_the_kept_counts(scheduler: str, tmp_path: Path) -> None:
    assert main(["eureka", "fig5a", "--cluster", scheduler, "--store", str(tmp_path), "--out", str(tmp_path)]) == 0
    one, other = ([cell["exceed"] for cell in r["cells"]] for r in made(EUREKA, tmp_path, "fig5a", ""))
    assert one == other
    assert json.loads((tmp_path / "fig5a.json").read_text())["seconds"] is not None
