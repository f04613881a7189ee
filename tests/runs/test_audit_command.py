"""The command audit: its JSON, the pair that violates among others, exit codes, refusals, orientations, its picture."""

import json
import re

import pytest
from analytic_curves import COUNT_P, COUNT_Q
from commands import call, calls, one_message, write_study
from true_claims import GAMMA, GRID, corners

from hpcdp.analytic import LaplaceShift
from hpcdp.losses.counts import audit_etas
from hpcdp.report.audit import notes
from hpcdp.report.plots_methods import draw_audit
from hpcdp.results.audit import DELTAS, audit
from hpcdp.results.load import load_result
from hpcdp.study.claims import parse_claim


def loads(text):
    """JSON without NaN and infinities."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(name="laplace", scope="module")
def laplace_fixture(tmp_path_factory, scheduler):
    """A study of four pairs whose sums differ by 0, 0.5, 1 and 2, without etas, audited once; and how to do it again."""
    folder = tmp_path_factory.mktemp("audit")
    study = write_study(folder, etas=[], claim="laplace(epsilon=1)", epsilons=[0.0])

    def audited(*arguments, code=0):
        return call("audit", study, "--store", folder / "s.zarr", "--cluster", scheduler, *arguments, code=code)

    done = audited(code=3)
    assert "audit of laplace(epsilon=1): violation" in done.stdout
    return folder, study, audited


@pytest.mark.slow
def test_the_pair_that_violates_is_found_among_others(laplace):
    folder, _, audited = laplace
    found = loads(audited("--format", "json", code=3).stdout)
    assert (found["verdict"], found["orientation"], found["limits"]) == ("violation", "both", "exact")
    assert [cell["pair"] for cell in found["cells"] if cell["violated"]] == [3]
    assert sum(cell["level"] for cell in found["cells"]) <= GAMMA * (1 + 1e-12)
    assert found["cells"][3]["level"] == max(cell["level"] for cell in found["cells"])
    assert [row["delta"] for row in found["bounds"]["epsilon"]] == list(DELTAS)
    for row in found["bounds"]["epsilon"]:
        assert 0.0 <= row["box"] <= 2.0
        assert 1.0 < row["all"] <= 2.0  # the pair is Laplace with ε = 2
    text = audited(code=3).stdout
    assert "Violated by pair 3 (" in text
    assert f"plot:  {folder / 's-audit.png'}" in text
    assert (folder / "s-audit.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_study_without_etas_gets_the_audits_own(laplace, scheduler):
    folder, study, audited = laplace
    assert tuple(load_result(folder / "s.zarr")["eta"]) == audit_etas()
    call("report", folder / "s.zarr", "-o", folder / "page.html")
    assert re.search(r"\nhpcdp audit (--claim CLAIM )?\w+\.toml |>hpcdp audit ", (folder / "page.html").read_text())
    before = sorted(calls(folder, folder / "s.zarr"))
    assert before
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    assert "eta" not in load_result(folder / "s.zarr").arrays
    first = audited("--format", "json", code=3).stdout
    assert audited("--format", "json", code=3).stdout == first
    assert sorted(calls(folder, folder / "s.zarr")) == before


@pytest.mark.promise
@pytest.mark.slow
def test_claims_limits_and_exit_codes(laplace, tmp_path, monkeypatch):
    folder, _, audited = laplace
    text = audited("--claim", "laplace(epsilon=2)").stdout
    assert "no violation found at this sample size" in text
    assert ", 4 boxes together; finite-sample" in text
    hoeffding = loads(audited("--limits", "hoeffding", "--format", "json", "-o", tmp_path / "a.svg", code=3).stdout)
    assert hoeffding["limits"] == "hoeffding"
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    # A path in --claim is relative to the current folder.
    rows = "".join(f"{a},{float(LaplaceShift(2.0).tradeoff(a))!r}\n" for a in GRID)
    (tmp_path / "curve.csv").write_text("alpha,beta\n" + rows)
    monkeypatch.chdir(tmp_path)
    found = loads(audited("--claim", "file(curve.csv)", "--format", "json").stdout)
    assert found["claim"] == "file(curve.csv)"
    # An estimate of another run is no guarantee, and the report says so.
    assert "is an estimate itself" in audited("--claim", f"store({folder / 's.zarr'})").stdout


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        ({}, ["--claim", "gaussian(mu=-1)"], "mu"),
        ({}, ["--claim", "private"], "accepted: laplace(epsilon=...)"),
        ({}, ["--claim", "file(none.csv)"], "none.csv"),
        ({}, [], "--claim: none was given"),
        ({"claim": "file(own.py)"}, [], "header"),
        ({}, ["--claim", "dp(epsilon=1)", "-o", "picture.pdf"], ".png and .svg"),
        ({"loss": "literal-knn"}, ["--claim", "dp(epsilon=1)"], "literal-knn has no L̂ of all η"),
    ],
)
def test_refused_before_anything_runs(tmp_path, settings, arguments, words):
    study = write_study(tmp_path, **settings)
    done = call("audit", study, "--store", tmp_path / "s.zarr", *arguments, code=2)
    assert words in one_message(done)
    assert done.stdout == ""
    assert not (tmp_path / "s.zarr").exists()


@pytest.fixture(name="counting", scope="module")
def counting_fixture(tmp_path_factory, scheduler):
    """A study of the asymmetric pair M3 that claims its exact curve from a file, audited once; and how to audit it."""
    folder = tmp_path_factory.mktemp("counts")
    rows = "".join(f"{float(a)!r},{float(b)!r}\n" for a, b in zip(*corners(COUNT_P, COUNT_Q), strict=True))
    (folder / "curve.csv").write_text("alpha,beta\n" + rows)
    parameters = {"outcomes": [0, 1, 2], "table": [COUNT_P.tolist(), COUNT_Q.tolist()]}
    settings = {"loss": "frequency", "train": 20_000, "test": 20_000, "chunk": 10_000, "claim": "file(curve.csv)"}
    settings |= {"pairs": "given = [{ d = [0], d_prime = [1] }]", "etas": [0.25, 0.5, 0.9, 1.1, 1.5, 2.0, 4.0]}
    study = write_study(folder, call="pmf", parameters=parameters, **settings)

    def audited(*arguments, code=0):
        place = ("--store", folder / "s.zarr", "--cluster", scheduler, "--format", "json")
        return loads(call("audit", study, *place, *arguments, code=code).stdout)

    audited(code=3)
    return folder, audited


@pytest.mark.slow
def test_orientations(counting):
    """The curve of (D, D′) is true of (D, D′), and false of (D′, D)."""
    folder, audited = counting
    forward, reverse = audited("--orientation", "forward"), audited("--orientation", "reverse", code=3)
    both = audited(code=3)
    assert forward["verdict"] != "violation"
    assert [cell["orientation"] for cell in forward["cells"]] == ["forward"]
    assert [cell["violated"] for cell in reverse["cells"]] == [True]
    assert [cell["orientation"] for cell in both["cells"]] == ["forward", "reverse"]
    assert [cell["violated"] for cell in both["cells"]] == [False, True]
    assert sum(cell["level"] for cell in both["cells"]) == pytest.approx(GAMMA)
    assert (folder / "s-audit.png").exists()
    for claim, told in (
        ("dp(epsilon=1)", ", 1 box; finite-"),
        ("file(curve.csv)", ", 2 boxes together; finite-sample"),
    ):
        found = audit(load_result(folder / "s.zarr"), parse_claim(claim, folder), "both")
        assert told in notes(found)[0]
    lines = draw_audit(found).axes[0].get_lines()
    (drawn,) = [line.get_xydata() for line in lines if str(line.get_label()).startswith("vulnerable point")]
    assert drawn.tolist() == [[found.worst.beta, found.worst.alpha]], "the worst box is reversed"
    assert load_result(folder / "s.zarr")["eta"].size == 7  # the study's own grid
