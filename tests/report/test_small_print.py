"""What readers trip over: the ε of a sentence in its table, whose a bound is, why a claim is undecided, lines of a fair width."""

import io
import re
from dataclasses import replace
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest
from commands import call
from pages import Page, page_of
from PIL import Image
from studies import make_study

import hpcdp
from hpcdp import load_result
from hpcdp.analytic import LaplaceShift
from hpcdp.driver.driver import run
from hpcdp.notions.curve import TradeOffCurve
from hpcdp.report.plots_methods import draw_audit
from hpcdp.report.sentences import sentence_of
from hpcdp.results.result import Result
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import PURE

LEVELS = [round(0.1 * n, 1) for n in range(23)]
CLAIMS = ["laplace(epsilon=0.45)", "laplace(epsilon=0.75)", "gaussian(mu=0.2)", "dp(epsilon=0.35)"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Laplace noise with ε = 1 at 23 levels, two pairs, and points."""
    pairs, head = [([0.0], [1.0]), ([2.0], [3.0])], {"name": "print", "claim": "laplace(epsilon=0.5)"}
    sizes = {"train": 6000, "test": 6000, "epsilons": LEVELS, "etas": [0.5, 2.0], "loss": "auto"}
    store = tmp_path_factory.mktemp("print") / "print.zarr"
    run(make_study("laplace", {"epsilon": 1.0}, pairs, seed=41, head=head, **sizes), store, workers=0)
    return load_result(store)


def unclaimed(result: Result) -> Result:
    header = result.study.study.model_copy(update={"claim": None})
    return replace(result, study=result.study.model_copy(update={"study": header}))


@pytest.mark.parametrize("claim", [*CLAIMS, None])
def test_the_level_of_a_sentence_is_in_its_small_table(result: Result, claim: str | None) -> None:
    value = unclaimed(result) if claim is None else hpcdp.verify(result, claim)
    page = Page(value._repr_html_() or "")
    (said,) = re.findall(r"ε = ([\d.]+)", page.text.split(" this ")[0].split("it says")[0].split("; the true")[0])
    (table,) = page.tables
    shown = [float(str(text)) for text in table.column("epsilon")]
    assert float(said) in shown
    assert (shown, len(shown), shown[0], shown[-1]) == (sorted(set(shown)), 8, LEVELS[0], LEVELS[-1])
    name = "result" if claim is None else "verdict"
    assert f"not listed here: {len(LEVELS) - 8}; print({name}) shows them, and {name}.to_dataframe() holds" in page.text
    assert "hpcdp show" not in page.text


def test_why_a_claim_is_not_separable(result: Result) -> None:
    kinds, gaps = set(), 0
    for epsilon in [*np.linspace(0.5, 1.6, 45).tolist(), 3.0]:
        verdict = hpcdp.verify(result, f"laplace(epsilon={epsilon})")
        said, found = sentence_of(result, verdict), verdict.separation
        kinds.add(verdict.verdict)
        assert (verdict.verdict == NOT_SEPARABLE) is ("is not separable from what was measured" in said.text)
        assert (found is not None and found.is_chance) is ("chance alone explains it" in said.text)
        if found is not None:
            gaps += 1
            assert said.epsilon == found.epsilon
            assert f"standard errors, at ε = {found.epsilon:g}; chance alone" in said.text
            real = replace(verdict, separation=replace(found, is_chance=False, chance=0.0123))
            assert "chance alone gives as much with probability at most" in sentence_of(result, real).text
            assert "with probability at most 0.02 (asymptotic)" in sentence_of(result, real).text
            nothing = replace(verdict, separation=None, known=np.zeros_like(verdict.known))
            assert "no counts are complete yet" in sentence_of(result, nothing).text
            assert nothing.text == "not judged yet"
            assert "separable" not in sentence_of(result, nothing).text
            assert "no pair is tested yet" in sentence_of(result, replace(verdict, family=PURE)).text
    assert kinds == {VIOLATION, NOT_SEPARABLE, CONSISTENT}
    assert gaps > 0


def test_whose_a_bound_is_where_it_is_not_that_of_the_estimate(result: Result) -> None:
    others = [
        row
        for row in result.spectrum()
        if row["resolved"]
        and row["lower"] > 0.0
        and (row["pair"], row["direction"]) != (row["lower_pair"], row["lower_direction"])
    ]
    assert others
    text = " ".join(call("show", result.store).stdout.split())
    words = ", ".join(f"{row['epsilon']:g} (pair {row['lower_pair']}, {row['lower_direction']})" for row in others[:4])
    has_others = any(row["pair"] != row["lower_pair"] for row in others)
    where = "others" if has_others else "the other one"
    assert f"The certified bound comes from {where} at ε = {words}" in text
    same = replace(result, arrays=dict(result.arrays))
    for name in ("pair", "direction"):
        same.arrays[f"spectrum_lower_{name}"] = same.arrays[f"spectrum_{name}"]
    assert "The certified bound comes from" not in str(same)


@pytest.mark.slow
def test_columns_that_the_samples_chose_are_not_called_given(result: Result, tmp_path: Path) -> None:
    page = page_of(result, tmp_path / "p.html")
    table = page.table("Spectrum")
    marks = dict(zip(table.keys, table.marks, strict=True))
    for key in ("pair", "direction", "lower_pair", "lower_direction"):
        assert marks[key] == ("chosen", "chosen by the samples"), key
    assert marks["epsilon"] == marks["claimed"] == ("given", "given")
    assert "these samples chose which one it is" in page.text


def test_a_picture_is_shown_wherever_a_figure_is_returned(result: Result) -> None:
    figures = [
        result.plot(),
        draw_audit(hpcdp.audit(result, "laplace(epsilon=0.5)")),
        TradeOffCurve.from_curve(LaplaceShift(1.0)).plot(),
    ]
    for figure in figures:
        assert isinstance(figure, matplotlib.figure.Figure)  # so that what `%matplotlib inline` registers is of it too
        picture = Image.open(io.BytesIO(figure._repr_png_()))
        width, height = figure.get_size_inches() * figure.dpi
        assert picture.format == "PNG"
        assert picture.size == (round(width), round(height))
        assert np.unique(np.asarray(picture)).size > 20  # something is drawn
