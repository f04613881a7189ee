"""Pages of sequential audits: numbers and pictures are those of the wealths, nothing private leaks, copies keep them."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from journals import records
from pages import EVIL, STUDIES, Page, audit_batches, check_text_only, compare, make_store, page_of

from hpcdp import load_result
from hpcdp._base.files import to_toml
from hpcdp.errors import StoreError
from hpcdp.report.html.page import render
from hpcdp.results.sequential import Look
from hpcdp.store.layout import Layout
from hpcdp.store.records import read_record

pytestmark = pytest.mark.slow

FALSE, TRUE = STUDIES["batches"]["audits"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two audits: one refuted its claim, one drew its budget."""
    return make_store(tmp_path_factory.mktemp("sequential"), "batches")


def found(store: Path) -> dict[str, dict[str, Any]]:
    """What the audits print, by claim: they are done, so that nothing is drawn."""
    return {claim: audit_batches(store, claim, code=code) for claim, code in ((FALSE, 3), (TRUE, 0))}


def test_numbers_are_those_of_json_and_of_the_wealths(store: Path, tmp_path: Path) -> None:
    page, said = page_of(load_result(store), tmp_path / "p.html"), found(store)
    layout = Layout(store)
    for head in (record.body for record in records(store, "audits")):
        looks, peak = said[head["claim"]]["looks"], 1.0
        table = page.table(f"Sequential audit of {head['claim']}, orientation both")
        assert compare(table, looks, "refuted") == 3 * len(looks)
        assert table.headings == ["samples per database", "evidence ≥", "p-value ≤", "claim refuted"]
        assert [mark for mark, _ in table.marks] == ["count", "finite", "finite", "finite"]
        assert [row[3][0] == "refuted" for row in table.rows] == [look["evidence"] >= 20 for look in looks]
        for number, row in enumerate(table.rows):
            games = read_record(layout, "rounds", f"{head['rounds']}-{number:06d}")["wealths"]
            evidence = np.mean([np.mean(np.exp(game["logs"])) for game in games])  # of players, then of pairs
            peak = max(peak, evidence)
            assert float(str(row[1][1])) == pytest.approx(evidence, rel=1e-12)
            assert float(str(row[2][1])) == pytest.approx(1.0 / peak, rel=1e-12)
            assert float(str(row[1][0])) <= float(str(row[1][1]))
            assert float(str(row[2][0])) >= float(str(row[2][1]))
        pairs = page.table(f"Each pair alone, of {head['claim']}")
        assert compare(pairs, sorted(said[head["claim"]]["cells"], key=lambda cell: -cell["evidence"])) == 3 * 2
        assert [mark for mark, _ in pairs.marks] == ["given", "assumed", "assumed"]
    assert len(page.tables) == 4


def test_it_leads_with_the_worst_verdict_and_says_what_it_does_not_say(store: Path, tmp_path: Path) -> None:
    page, said = page_of(load_result(store), tmp_path / "p.html"), found(store)
    (kind,) = [a["class"] for _, a in page.tags if a.get("class", "").startswith("verdict")]
    assert kind == "verdict violation"
    last = said[FALSE]["looks"][-1]
    first = f"The claim {FALSE} is violated, certified at confidence 95 % (finite-sample, however often one looked)"
    other = f"The claim {TRUE} was not refuted at confidence 95 % by 400 samples per database"
    assert (
        page.text.index(first) < page.text.index(other) < page.text.index("Nothing else of the study has been counted")
    )
    assert f"after {last['samples']} samples per database, training included" in page.text
    assert "the true loss may be larger still" in page.text
    assert "this does not say that the claim holds: no number of samples shows" in page.text
    assert "whatever the classifier learned, however often one looks" in page.text
    assert "INCOMPLETE" not in page.text
    assert "UNFINISHED" not in page.text


def commands(page: Page) -> list[str]:
    """What is to be typed to repeat it."""
    return re.findall(r"^hpcdp (?:run|audit|report) .*$", "".join(page.texts), re.MULTILINE)


def test_its_commands_find_the_same_again(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = render([load_result(store)], show_rows=True)
    page = Page(text)
    *audits, _ = typed = commands(page)
    assert [words.split()[1] for words in typed] == ["audit", "audit", "report"]
    (study,) = re.findall(r"\[study\].*?(?=To repeat it)", "".join(page.texts), re.DOTALL)
    Path("batches.toml").write_text(study)
    for words, claim in zip(audits, (FALSE, TRUE), strict=True):
        options = [*shlex.split(words)[1:], "--no-plot", "--format", "json"]
        again = call(*options, code=3 if claim == FALSE else 0)
        assert json.loads(again.stdout) == found(store)[claim]
    own = render([load_result("batches.zarr")], show_rows=True)
    assert own.split("Digests")[0] == text.split("Digests")[0]


@pytest.mark.promise
def test_an_unfinished_audit_has_a_banner_and_a_larger_budget_goes_on(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "batches.zarr"
    shutil.copytree(store, other)
    shutil.copy(store.with_suffix(".toml"), tmp_path)
    (key,) = [record.body["rounds"] for record in records(other, "audits") if record.body["claim"] == TRUE]
    for record in [record for record in records(other, "rounds") if record.name.startswith(f"{key}-")][-3:]:
        record.unlink()  # as where a run was interrupted
    page = page_of(load_result(other), tmp_path / "p.html")
    assert f"UNFINISHED: the sequential audit of {TRUE} has drawn 250 of 400 samples per database." in page.text
    assert f"The claim {TRUE} has so far been not refuted" in page.text
    assert f"batches: sequential audit of {TRUE}: no violation found so far\n" in call("show", other).stdout
    said = audit_batches(other, TRUE, "--budget", 500)
    audit_batches(other, TRUE, "--budget", 100)  # says less, and leaves what is there
    page = page_of(load_result(other), tmp_path / "p.html")
    assert "UNFINISHED" not in page.text
    assert compare(page.table(f"Sequential audit of {TRUE}"), said["looks"], "refuted") == 3 * 10
    assert "--budget 500" in page.text
    audit = load_result(other).sequential_audits[0]
    for evidence, verdict in ((19.9, "not separable"), (1.0, "consistent")):
        assert replace(audit, looks=[Look(50, evidence, 0.06, False)]).verdict == verdict


def test_beside_other_results(tmp_path: Path) -> None:
    """Pages have a section of its own, and say at the top that it violates its claim; `show` ends with it, `verify` names it."""
    store, claim, own = make_store(tmp_path, "points"), "laplace(epsilon=0.2)", STUDIES["points"]["claim"]
    study = {k: v for k, v in STUDIES["points"].items() if k != "claim"}
    (tmp_path / "points.toml").write_text(to_toml({"study": {"name": "points", "seed": 20, "claim": own}, **study}))
    before, shown = page_of(load_result(store), tmp_path / "p.html"), call("show", store).stdout
    judged = call("verify", store, "--claim", claim, code=None)
    assert "sequential" not in shown + judged.stderr
    said = audit_batches(store, claim, "--batch", 1000, "--budget", 2000, code=3)
    page = page_of(load_result(store), tmp_path / "p.html")
    check_text_only(page)
    titles = [table.caption.split(" of ")[0] for table in page.tables]
    assert [title for title in titles if not title.startswith("Sequential")] == [
        table.caption.split(" of ")[0] for table in before.tables
    ]
    assert compare(page.table("Sequential audit"), said["looks"], "refuted")
    parts = (f"Sequential audit: The claim {claim} is violated", "Spectrum", "Audit of", "Sequential audit of")
    places = [page.text.index(part) for part in (*parts, "The study has one pair.")]
    assert places == sorted(places)
    assert "each audit hold at the confidence level separately, not all at once" in page.text
    assert [words.split()[1] for words in commands(page)] == ["run", "audit", "report"]

    after = call("show", store).stdout
    before_warnings = shown.partition("\nwarning: ")[0]
    assert after.startswith(before_warnings)
    assert f"points: sequential audit of {claim}: violation" in after[len(before_warnings) :]
    assert "Nothing else of the study" not in after
    again = call("verify", store, "--claim", claim, code=None)
    assert (again.returncode, again.stdout) == (judged.returncode, judged.stdout)
    for written in (again, call("verify", store, "--claim", "laplace( epsilon=2e-1 )", code=None)):
        words = f"the sequential audit of {claim} in this store, a family of its own: violation"
        assert words in written.stderr
    audit_batches(store, own, "--batch", 1000, "--budget", 2000, code=None)
    assert f"the sequential audit of {own} in this store" in call("verify", store, code=None).stderr


def test_claims_of_files_stay_text_and_lose_their_folders(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "secret"
    folder.mkdir()
    name = f"{EVIL.split('/')[0]}.csv"  # a name holds no slash
    (folder / name).write_text("epsilon,delta\n0,0.9\n1,0.8\n")
    other = tmp_path / "batches.zarr"
    shutil.copytree(store, other)
    shutil.copy(store.with_suffix(".toml"), tmp_path)
    audit_batches(other, f"file({folder / name})", "--budget", 50)
    page = page_of(load_result(other), tmp_path / "p.html")
    check_text_only(page)
    assert f"file({name})" in page.text
    call("export", other, tmp_path / "copy")
    for path in (tmp_path / "p.html", *(tmp_path / "copy").iterdir()):
        assert b"secret" not in path.read_bytes(), path.name
    assert "secret" in page_of(load_result(other), tmp_path / "p.html", show_rows=True).text


def test_copies_have_audits_and_wrong_ones_are_refused(store: Path, tmp_path: Path) -> None:
    call("export", store, tmp_path / "copy")
    assert render([load_result(tmp_path / "copy")]) == render([load_result(store)])
    head = json.loads((tmp_path / "copy" / "export.json").read_text())
    kept = head["sequential_audits"][0]
    for wrong in ({"evidence": "<b>"}, {"samples": 1.5}, {"p_value": None}):
        head["sequential_audits"] = [{**kept, "looks": [{**kept["looks"][0], **wrong}]}]
        (tmp_path / "copy" / "export.json").write_text(json.dumps(head))
        with pytest.raises(StoreError, match=f"{next(iter(wrong))}: .* was given; accepted"):
            render([load_result(tmp_path / "copy")])


def edits(row: float) -> dict[str, Any]:
    return {"relative": {"databases": [[row]], "relation": "edit", "values": [1.0]}}


TWO = STUDIES["batches"]["pairs"]["given"]
LATER = [
    ({"given": TWO[:1]}, {"given": TWO}, "It is of 1 of the study's 2 pairs, those that it had then."),
    (edits(0.0), edits(0.5), "the pairs that the study had then, which may be others than the present ones"),
]


@pytest.mark.parametrize(("first", "second", "words"), LATER)
def test_an_audit_of_pairs_that_are_not_those_of_now_says_so(
    first: Any, second: Any, words: str, tmp_path: Path
) -> None:
    store, body = tmp_path / "t.zarr", {k: v for k, v in STUDIES["batches"].items() if k in ("mechanism", "estimate")}
    for claim, pairs in ((TRUE, first), (FALSE, second)):
        (tmp_path / "t.toml").write_text(to_toml({"study": {"name": "t", "seed": 20}, "pairs": pairs, **body}))
        audit_batches(store, claim, "--budget", 50)
        page = page_of(load_result(store), tmp_path / "p.html")
        assert (words in page.text) == (pairs == second)


def test_commands_that_read_a_store_of_audits_alone_tell_of_them(store: Path, tmp_path: Path) -> None:
    said, text = found(store), call("show", store).stdout
    first = text.index(f"batches: sequential audit of {FALSE}: violation")
    assert first == 0 < text.index(f"batches: sequential audit of {TRUE}: no violation found within the budget")
    assert text.count("It looks after every batch of 50 samples per database, 400 at most.") == 2
    assert "each audit hold at the confidence level separately, not all at once" in text
    assert text.endswith("Nothing else of the study has been counted, so no δ is estimated here.\n")
    assert "INCOMPLETE" not in text
    for claim, audit in said.items():
        assert f"  {audit['looks'][-1]['samples']:,}" in text
        state = call("status", store).stdout
        assert f"audited        {claim}: {audit['verdict']}, after {audit['samples']:,}" in state
        assert state.startswith(f"batches in {store}: sequential audits alone, study version 1")
        assert not any(words in state for words in ("go on with", "incomplete", "sample train"))
    shown = json.loads(call("show", store, "--format", "json").stdout)
    assert shown["sequential_audits"] == [said[FALSE], said[TRUE]]
    assert (shown["complete"], shown["cells"]) == (False, [])
    call("export", store, tmp_path / "copy")
    assert call("show", tmp_path / "copy").stdout == text
    kept = json.loads((tmp_path / "copy" / "result.json").read_text())
    assert kept["sequential_audits"] == shown["sequential_audits"]
    for claim in (FALSE, TRUE, "laplace(epsilon=7)"):
        for options, expected in (((), 1), (("--incomplete",), 0)):  # by the study's own counts
            told = call("verify", store, "--claim", claim, *options, code=expected).stderr
            words = f"hpcdp: the sequential audit of {claim} in this store, a family of its own: "
            assert (
                (f"{words}{said[claim]['verdict']}; hpcdp show says more" in told)
                if claim in said
                else not told.count("sequential audit")
            )
