"""Numbers that code made which is there no more are told from the present code's, wherever they are shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import call, write_study
from programs import program_study

import hpcdp
from hpcdp.report.html.page import write_page
from hpcdp.report.plots import draw_comparison
from hpcdp.report.plots_methods import draw_audit
from hpcdp.results.comparison import compare

FIRST = "def noisy(database, size, rng):\n    return database.sum() + rng.laplace(0.0, 2.0, size)\n"
SECOND = FIRST.replace("2.0", "0.5")
GIVEN = {
    "call": "own:noisy",
    "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]",
    "train": 3000,
    "test": 3000,
    "chunk": 1500,
}
WORDS = "WARNING: mechanism.call: the source of own:noisy changed since the first draws of this store were made"


def shown(store: Path, folder: Path) -> list[str]:
    """All that is made of a store, on one line each."""
    page = folder / "page.html"
    call("report", store, "-o", page)
    copy = folder / "copy"
    call("export", store, copy)
    made = [
        call("show", store).stdout,
        call("verify", store, "--claim", "dp(epsilon=0.1)", code=3).stdout,
        call("show", store, "--delta", "0.1").stdout,
        call("show", copy).stdout,
        page.read_text(),
    ]
    return [" ".join(text.split()) for text in made]


@pytest.mark.promise
@pytest.mark.slow
def test_all_that_is_made_of_a_store_says_that_its_code_changed(tmp_path: Path) -> None:
    study = write_study(tmp_path, FIRST, **GIVEN)
    store = tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", "0")
    assert not any("WARNING" in text for text in shown(store, tmp_path))
    before = json.loads(call("show", store, "--format", "json").stdout)
    write_study(tmp_path, SECOND, **GIVEN)
    refused = call("run", study, "--store", store, "--workers", "0", code=2).stderr
    assert "so its numbers are of what it was; accepted: another --store" in refused
    call("run", study, "--store", store, "--workers", "0", "--allow-changed-code")
    for _ in range(2):  # and when it is run again, without the option
        assert all(WORDS in text for text in shown(store, tmp_path))
        assert WORDS in " ".join(call("run", study, "--store", store, "--workers", "0").stdout.split())
    after = json.loads(call("show", store, "--format", "json").stdout)
    assert after["cells"] == before["cells"], "they are the first code's"
    first = hpcdp.load_result(store)
    assert [one for one in after["warnings"] if one not in before["warnings"]] == first.code_warnings
    call("run", study, "--store", tmp_path / "second.zarr", "--workers", "0")
    second = hpcdp.load_result(tmp_path / "second.zarr")
    assert max(row["lower"] for row in second.spectrum()) > max(row["upper"] for row in first.spectrum())
    assert not second.changed


@pytest.mark.slow
@pytest.mark.parametrize("claims", [False, True])
def test_a_run_ends_with_what_says_more(claims: bool, tmp_path: Path) -> None:
    study = write_study(tmp_path, FIRST, **GIVEN, **({"claim": "laplace(epsilon=0.5)"} if claims else {}))
    for _ in range(2):
        lines = call("run", study, "--store", tmp_path / "s.zarr", "--workers", "0").stdout.splitlines()
        told = [line.split() for line in lines[-4:] if line.startswith(("check:", "page:"))]
        assert [words[2] for words in told] == ["verify"] * claims + ["report"]
        for words in told:
            call(*words[2:], code=0)


RELATIVE = {key: value for key, value in GIVEN.items() if key != "pairs"} | {"databases": [[0.0, 1.0]], "rows": [1]}


def spaced(text: str) -> str:
    """On one line."""
    return " ".join(text.split())


def other_code(folder: Path, **given: Any) -> Path:
    """A store that went on with other code."""
    store = folder / "s.zarr"
    for number, code in enumerate((FIRST, SECOND)):
        study = write_study(folder, code, **given)
        call("run", study, "--store", store, "--workers", "0", *["--allow-changed-code"] * number)
    return store


@pytest.mark.slow
def test_other_pages_and_json_say_so_too(tmp_path: Path) -> None:
    store, plain = other_code(tmp_path, **RELATIVE), tmp_path / "plain.zarr"
    call("run", tmp_path / "study.toml", "--store", plain, "--workers", "0")
    other = tmp_path / "other.zarr"
    call("run", tmp_path / "study.toml", "--store", other, "--workers", "0")
    claim, picture = ("--claim", "dp(epsilon=9)"), ("-o", tmp_path / "c.png")
    asked: list[list[Any]] = [
        ["show", store, "--rows"],
        ["show", store, "--accuracy"],
        ["verify", store, *claim, "--format", "junit"],
        ["verify", store, *claim, "--format", "markdown"],
        ["compare", store, plain, *picture],
    ]
    for words in asked:
        said = spaced(call(*words).stdout)
        assert said.count(WORDS) == 1, words
        words[words.index(store)] = other
        assert "WARNING" not in call(*words).stdout, words
    call("report", store, plain, "-o", tmp_path / "both.html")
    index = (tmp_path / "both.html").read_text().split("<nav")[1].split("</nav>")[0]
    assert index.count("(code changed)") == 1
    assert "incomplete" not in index, "a store whose code changed is complete all the same"
    found = hpcdp.load_result(store)
    (warned,) = found.code_warnings
    for one in (found, hpcdp.audit(found, claim[1])):
        write_page(one, page := tmp_path / "p.html")
        assert spaced(page.read_text()).count(WORDS) == 1
    for words in (
        ["show", store, "--rows"],
        ["show", store, "--risk", "0.5"],
        ["verify", store, *claim],
        ["audit", tmp_path / "study.toml", "--store", store, *claim, "--no-plot", "--workers", "0"],
    ):
        assert json.loads(call(*words, "--format", "json").stdout)["warnings"] == [warned], words
    shown = json.loads(call("compare", store, plain, *picture, "--format", "json").stdout)["stores"]
    assert [entry.get("warnings") for entry in shown] == [[warned], None]
    for value in (found, hpcdp.verify(found, claim[1]), hpcdp.audit(found, claim[1])):
        assert spaced(value._repr_html_() or "").count(WORDS) == 1
    assert "WARNING" not in (hpcdp.load_result(plain)._repr_html_() or "")


@pytest.mark.slow
def test_sequential_audits_say_so(tmp_path: Path) -> None:
    store, page = tmp_path / "s.zarr", tmp_path / "p.html"
    words = ["--claim", "dp(epsilon=9)", "--sequential", "--batch", 1500, "--no-plot", "--store", store, "--workers", 0]
    for number, code in enumerate((FIRST, SECOND)):
        command = ["audit", write_study(tmp_path, code, **GIVEN), *words, "--budget", 1500 * (1 + number)]
        said = spaced(call(*command, *["--allow-changed-code"] * number).stdout)
        call("report", store, "-o", page)
        assert [said.count(WORDS), page.read_text().count(WORDS)] == [number, number]
    found = json.loads(call(*command, "--format", "json").stdout)
    assert found["warnings"] == hpcdp.load_result(store).code_warnings


@pytest.mark.slow
def test_no_page_shows_the_paths_of_a_program(tmp_path: Path) -> None:
    study, store, page = program_study(tmp_path), tmp_path / "s.zarr", tmp_path / "p.html"
    secret = tmp_path / "secret"
    secret.mkdir()
    text = study.read_text().replace('"program.py"', json.dumps(str(secret / "program.py")))
    study.write_text(text)
    for name in ("serve.py", "program.py"):
        (tmp_path / name).rename(secret / name)
    call("run", study, "--store", store)
    with (secret / "program.py").open("a") as handle:
        handle.write("# another\n")
    call("run", study, "--store", store, "--allow-changed-code")
    call("report", store, "-o", page)
    call("export", store, tmp_path / "copy")
    assert "mechanism.call: the command or a file that it names changed since" in page.read_text()
    for path in (page, *(tmp_path / "copy").iterdir()):
        assert b"secret" not in path.read_bytes(), path.name


@pytest.mark.slow
def test_code_that_comes_from_elsewhere_now_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of the study's folder, of which a store keeps a digest, in a place whose code it does not."""
    own, other = tmp_path / "own_classifier.py", tmp_path / "other"
    own.write_text(
        "from sklearn.linear_model import LogisticRegression as Own  # noqa\n\n\nclass Mine(Own):\n    pass\n"
    )
    study = write_study(tmp_path / "study", FIRST, **GIVEN, loss="learned")
    own.rename(tmp_path / "study" / own.name)
    study.write_text(study.read_text() + 'parameters = { classifier = "own_classifier:Mine" }\n')
    store = tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", "0")
    assert not hpcdp.load_result(store).changed
    other.mkdir()
    (tmp_path / "study" / own.name).rename(other / own.name)
    monkeypatch.syspath_prepend(other)
    monkeypatch.delitem(sys.modules, "own_classifier", raising=False)
    call("run", study, "--store", store, "--workers", "0", "--allow-changed-code")
    assert hpcdp.load_result(store).changed == ["estimate.parameters: the source of own_classifier:Mine"]


def drawn_words(figure: Any) -> str:
    """What is written under a picture, which lies in it and on nothing else; without spaces, as lines end anywhere."""
    figure.draw_without_rendering()
    for text in figure.texts:
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert box.y0 >= 0
        assert all(box.y1 <= axis.xaxis.get_tightbbox().y0 for axis in figure.axes)
    return "".join(word for text in figure.texts for word in text.get_text().split())


@pytest.mark.slow
def test_pictures_csv_and_tables_of_other_programs_say_so(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow.parquet")
    store, plain = other_code(tmp_path, **RELATIVE, etas=[0.5, 1.0]), tmp_path / "plain.zarr"
    call("run", tmp_path / "study.toml", "--store", plain, "--workers", "0")
    found, other = hpcdp.load_result(store), hpcdp.load_result(plain)
    (words,) = found.code_warnings
    for one, count in ((found, 1), (other, 0)):
        audit = hpcdp.audit(one, "dp(epsilon=9)")
        for figure in (one.plot(), draw_audit(audit), draw_audit(audit, upright=True)):
            assert drawn_words(figure).count(f"WARNING: {words}".replace(" ", "")) == count
        assert one.to_dataframe().attrs == ({"warnings": [words]} if count else {})
        assert ("warnings" in one.data.attrs) == bool(count)
        copy = tmp_path / f"copy {count}"
        call("export", one.store, copy)
        (table, *_) = sorted(copy.glob("by-*.parquet"))
        kept = pa.read_table(table).schema.metadata or {}
        assert kept == ({b"warnings": words.encode()} if count else {})
        assert (words.encode() in (copy / "arrays.nc").read_bytes()) == bool(count)
        for asked in ((), ("--rows",), ("--delta", "0.1"), ("--risk", "0.5"), ("--zcdp",)):
            said = call("show", one.store, "--format", "csv", *asked)
            assert "WARNING" not in said.stdout
            assert said.stderr == f"hpcdp: WARNING: {words}\n" * count
    comparison = drawn_words(draw_comparison(compare([found, other])))
    assert comparison.count("WARNING") == 1
    assert words.replace(" ", "") in comparison
