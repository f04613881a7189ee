"""What notebooks show: fragments with the numbers of JSON, one line each, data frames, and progress by default."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import call
from pages import STUDIES, Page, make_store

import hpcdp
from hpcdp import Spectrum, load_result
from hpcdp.analytic import GaussianShift
from hpcdp.engine.progress import Bar, Lines, Notebook, progress_shown

Stores = Callable[[str], Path]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = make_store(tmp_path_factory.mktemp("notebooks"), kind)
        return made[kind]

    return make


def fragment(value: Any) -> Page:
    return Page(value._repr_html_())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*STUDIES])
def test_a_result_is_a_sentence_a_small_table_and_a_picture(stores: Stores, kind: str) -> None:
    result = load_result(stores(kind))
    page = fragment(result)
    assert page.text.startswith(f"{kind}{' (INCOMPLETE)' if kind == 'broken' else ''}: ")
    assert len(page.tables) == len(page.named("svg")) == 1
    assert 1 <= len(page.tables[0].rows) <= 8
    assert ("is violated, certified" in page.text) >= (kind == "batches")  # that has sequential audits alone
    assert all(mark for mark, _ in page.tables[0].marks)
    line = repr(result)
    assert line.startswith(f"<hpcdp.Result {kind}: ")
    assert "\n" not in line
    assert len(line) < 120
    assert str(result) == call("show", stores(kind)).stdout[:-1]


@pytest.mark.promise
@pytest.mark.slow
def test_verdicts_audits_and_spectra_say_what_they_are(stores: Stores) -> None:
    result = load_result(stores("points"))
    verdict, audit = hpcdp.verify(result, "laplace(epsilon=0.3)"), hpcdp.audit(result, "laplace(epsilon=0.3)")
    assert repr(verdict) == "<hpcdp.Verdict points: laplace(epsilon=0.3): violation, confidence 0.95>"
    assert repr(audit) == "<hpcdp.Audit points: laplace(epsilon=0.3): violation, confidence 0.95>"
    page = fragment(verdict)
    assert "The claim laplace(epsilon=0.3) is violated, certified at confidence 95 %" in page.text
    lower = [float(str(value)) for value in page.tables[0].column("lower")]
    assert lower == [
        row["lower"] for row in json.loads(call("show", stores("points"), "--format", "json").stdout)["spectrum"]
    ]
    page = fragment(audit)
    assert [float(str(v)) for v in page.tables[0].column("margin")] == sorted(
        (b.margin for b in audit.boxes), reverse=True
    )
    spectrum = Spectrum.of(result)
    assert repr(spectrum).startswith("<hpcdp.Spectrum 4 levels, ε 0 to 2.5, δ 0.39")
    assert str(spectrum) == repr(spectrum)
    page = fragment(spectrum)
    assert [float(str(v)) for v in page.tables[0].column("upper")] == spectrum.upper.tolist()
    fine = Spectrum.exact(GaussianShift(1.0), np.linspace(0.0, 3.0, 100))
    page = fragment(fine)
    shown = [float(str(v)) for v in page.tables[0].column("epsilon")]
    assert (len(shown), shown[0], shown[-1]) == (8, 0.0, 3.0)
    limits = [row[page.tables[0].keys.index("upper")] for row in page.tables[0].rows]
    assert all(float(text) >= float(str(value)) for text, value in limits)
    assert "Rows that are not listed here: 92" in page.text


@pytest.mark.slow
def test_fragments_of_one_notebook_share_no_names(stores: Stores) -> None:
    result = load_result(stores("points"))
    names = [a["id"] for page in (fragment(result), fragment(result)) for _, a in page.tags if "id" in a]
    assert len(names) == len(set(names)) > 10


@pytest.mark.slow
def test_data_frames_hold_what_csv_and_json_say(stores: Stores) -> None:
    for kind in ("points", "rows", "tape", "literal", "reuse", "renyi"):
        frame = load_result(stores(kind)).to_dataframe()
        lines = call("show", stores(kind), "--format", "csv").stdout.splitlines()
        names = [name for name in lines[0].split(",") if name in frame.columns]
        assert set(frame.columns) == set(lines[0].split(",")) - {"database", "rows"}
        assert len(frame) == len(lines) - 1
        heads = lines[0].split(",")
        for line, row in zip(lines[1:], frame.itertuples(index=False), strict=True):
            told = dict(zip(heads, line.split(","), strict=True))
            for name in names:
                value = getattr(row, name)
                text = str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)
                assert told[name] == text, name
    pure = load_result(stores("pure"))
    assert pure.to_dataframe()["certified"].tolist() == [row["certified"] for row in pure.pure["rows"]]  # type: ignore[index]
    risk = load_result(stores("risk"))
    assert risk.to_dataframe()["within.certified"].tolist() == [entry["within"]["certified"] for entry in risk.risk]
    result = load_result(stores("points"))
    verdict, audit = hpcdp.verify(result, "laplace(epsilon=1)"), hpcdp.audit(result, "laplace(epsilon=1)")
    assert verdict.to_dataframe().to_dict("records") == verdict.cells()
    assert audit.to_dataframe().to_dict("records") == [vars(box) for box in audit.boxes]
    assert Spectrum.of(result).to_dataframe()["lower"].tolist() == result["spectrum_lower"].tolist()


def test_a_call_shows_what_suits_its_place(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line below a notebook's cell; a bar on a terminal; else a line a minute, and none of what is short."""
    for shell, kind in ((None, Lines), (SimpleNamespace(), Lines), (SimpleNamespace(kernel=object()), Notebook)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        with progress_shown(None) as progress:
            assert isinstance(progress, kind)
    monkeypatch.delitem(sys.modules, "IPython")
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress_shown(None) as progress:
        for length in (50, 150):
            progress.begin("run", length)
            for _ in range(length):
                now += 1.0
                progress.advance(1.0)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in said] == ["run: 40 %", "run: 80 %", "run: 100 %"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_shown(None) as progress:
        assert isinstance(progress, Bar)
    monkeypatch.setattr(sys, "stderr", None)
    with progress_shown(None) as progress:
        progress.note("nobody reads this")
    assert capsys.readouterr().out == ""
