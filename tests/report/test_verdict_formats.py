"""`hpcdp run --verify`, and `hpcdp verify` for continuous integration: exit codes, JUnit's XML, Markdown."""

import contextlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hpcdp.cli.command import main

STUDY = """
[study]
name = "{name}"
seed = 7
{claim}
[mechanism]
call = "laplace"
parameters = {{ epsilon = 1.0 }}
[pairs]
given = [{{ d = [0.0], d_prime = [1.0] }}]
[estimate]
train = 4000
test = 4000
epsilons = [0.0, 0.5]
"""
FALSE, TRUE, NEAR = "laplace(epsilon=0.5)", "laplace(epsilon=2)", "laplace(epsilon=0.98)"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    with contextlib.chdir(folder):
        Path("study.toml").write_text(STUDY.format(name="a-b", claim=f'claim = "{FALSE}"'))
        assert main(["run", "study.toml", "--workers", "0", "--no-plot"]) == 0
    return folder / "runs" / "a-b.zarr"


@pytest.mark.slow
def test_run_verify_ends_with_the_verdict(store, capsys, monkeypatch):
    monkeypatch.chdir(store.parents[1])
    for _ in range(2):  # the second prints what is kept
        assert main(["run", "study.toml", "--verify", "--workers", "0", "--no-plot"]) == 3
        assert f"a-b: {FALSE}: violation" in capsys.readouterr().out
    assert main(["run", "study.toml", "--verify"]) == 3
    Path("true.toml").write_text(STUDY.format(name="true", claim=f'claim = "{TRUE}"'))
    assert main(["run", "true.toml", "--verify", "--workers", "0", "--no-plot"]) == 0
    assert f"true: {TRUE}: consistent" in capsys.readouterr().out
    Path("none.toml").write_text(STUDY.format(name="none", claim=""))
    assert main(["run", "none.toml", "--verify"]) == 2
    assert "--verify: none.toml makes no claim" in capsys.readouterr().err
    assert not Path("runs/none.zarr").exists()  # before anything ran


def verified(store, capsys, form, *claims):
    code = main(["verify", str(store), "--format", form, *(word for claim in claims for word in ("--claim", claim))])
    return code, capsys.readouterr().out


def test_junit_has_a_case_a_claim(store, capsys):
    code, out = verified(store, capsys, "junit", FALSE, TRUE, NEAR)
    assert code == 3
    suite = ElementTree.fromstring(out.split("\n", 1)[1])
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "0", "1"]
    cases = {case.get("name"): case for case in suite}
    assert cases[FALSE].find("failure").get("message") == "violation"
    assert "certified at confidence 95 %" in cases[FALSE].find("failure").text
    assert cases[NEAR].find("skipped").get("message") == "not separable"
    assert "no number of samples shows that a mechanism is private" in cases[TRUE].find("system-out").text
    assert verified(store, capsys, "junit", TRUE)[0] == 0


def test_what_stands_in_a_claim_stays_text(store, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = "<b>|]]>&.csv"
    Path(path).write_text("epsilon,delta\n0,0.01\n")
    claim = f"file({path})"
    suite = ElementTree.fromstring(verified(store, capsys, "junit", claim)[1].split("\n", 1)[1])
    assert suite[0].get("name") == claim
    code, out = verified(store, capsys, "markdown", claim, TRUE)
    assert code == 3
    rows = [line for line in out.splitlines() if line.startswith("| file") or line.startswith("| laplace")]
    assert len(rows) == 2
    assert "<b>" not in out
    assert rows[0].startswith(r"| file(&lt;b&gt;\|\]\]&gt;&amp;.csv) | violation |")
    assert "consistent | No violation of the claim" in rows[1]


def test_contents_of_rows_stay_out_of_them(store, capsys):
    for form in ("junit", "markdown"):
        assert main(["verify", str(store), "--format", form, "--show-rows"]) == 2
        assert "--show-rows: accepted with --format table" in capsys.readouterr().err
