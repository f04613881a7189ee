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


CLAIM = ("--claim", "dp(epsilon=9)")


def spaced(text: str) -> str:
    """On one line."""
    return " ".join(text.split())


@pytest.mark.promise
@pytest.mark.slow
def test_a_store_goes_on_with_other_code_where_that_is_allowed(tmp_path: Path) -> None:
    study, store, here = write_study(tmp_path, FIRST, **GIVEN), tmp_path / "s.zarr", ("--workers", "0")
    call("run", study, "--store", store, *here)
    before = json.loads(call("show", store, "--format", "json").stdout)
    write_study(tmp_path, SECOND, **GIVEN)
    for command in (("run", study, "--store", store), ("resume", store)):
        refused = call(*command, *here, code=2).stderr
        assert "so the store's numbers describe the earlier version; accepted: another --store" in refused
        assert "--allow-changed-code" in refused
    for more in (["--allow-changed-code"], []):  # and when it is run again, without the option
        assert WORDS in spaced(call("run", study, "--store", store, *here, *more).stdout)
    after = json.loads(call("show", store, "--format", "json").stdout)
    assert after["cells"] == before["cells"], "they are the first code's"
    first = hpcdp.load_result(store)
    assert [one for one in after["warnings"] if one not in before["warnings"]] == first.code_warnings
    call("run", study, "--store", tmp_path / "second.zarr", *here)
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


def drawn_words(figure: Any) -> str:
    """What is written under a picture, which lies in it and on nothing else; without spaces, as lines end anywhere."""
    figure.draw_without_rendering()
    for text in figure.texts:
        box = text.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert box.y0 >= 0
        assert all(box.y1 <= axis.xaxis.get_tightbbox().y0 for axis in figure.axes)
    return "".join(word for text in figure.texts for word in text.get_text().split())


RELATIVE = {key: value for key, value in GIVEN.items() if key != "pairs"} | {"databases": [[0.0, 1.0]], "rows": [1]}


@pytest.fixture(scope="module", name="stores")
def stores_fixture(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A store of one code alone, and one that went on with other code."""
    folder = tmp_path_factory.mktemp("changed")
    plain, changed = folder / "plain.zarr", folder / "changed.zarr"
    for code, store, more in ((FIRST, changed, []), (SECOND, changed, ["--allow-changed-code"]), (SECOND, plain, [])):
        study = write_study(folder, code, **RELATIVE, etas=[0.5, 1.0])
        call("run", study, "--store", store, "--workers", "0", *more)
    return [plain, changed]


PRINTED: list[list[str]] = [
    *(["show", *more] for more in ([], ["--rows"], ["--accuracy"], ["--delta", "0.1"])),
    *(["verify", *CLAIM, "--format", kind] for kind in ("table", "junit", "markdown")),
]
JSON: list[list[str]] = [["show", "--rows"], ["show", "--risk", "0.5"], ["verify", *CLAIM]]
CSV: list[list[str]] = [[], ["--rows"], ["--delta", "0.1"], ["--risk", "0.5"], ["--zcdp"]]


@pytest.mark.slow
@pytest.mark.parametrize("changed", [0, 1])
def test_all_that_commands_print_says_it(changed: int, stores: list[Path]) -> None:
    store = stores[changed]
    warned = hpcdp.load_result(store).code_warnings
    for command, *more in PRINTED:
        assert spaced(call(command, store, *more).stdout).count(WORDS) == changed, (command, *more)
    audit = ["audit", store.parent / "study.toml", "--store", store, *CLAIM, "--no-plot", "--workers", "0"]
    for words in (audit, *([command, store, *more] for command, *more in JSON)):
        assert json.loads(call(*words, "--format", "json").stdout).get("warnings", []) == warned, words
    for more in CSV:
        said = call("show", store, "--format", "csv", *more)
        assert "WARNING" not in said.stdout
        assert said.stderr == "".join(f"hpcdp: WARNING: {one}\n" for one in warned)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [0, 1])
def test_all_that_is_made_of_it_says_it(changed: int, stores: list[Path], tmp_path: Path) -> None:
    """Pages, pictures, what notebooks show, data frames, and copies with their tables and arrays."""
    pa = pytest.importorskip("pyarrow.parquet")
    found = hpcdp.load_result(stores[changed])
    words, audit = " ".join(found.code_warnings), hpcdp.audit(found, CLAIM[1])
    for one in (found, audit):
        write_page(one, page := tmp_path / "p.html")
        assert spaced(page.read_text()).count(WORDS) == changed
    for value in (found, hpcdp.verify(found, CLAIM[1]), audit):
        assert spaced(value._repr_html_() or "").count(WORDS) == changed
    for figure in (found.plot(), draw_audit(audit), draw_audit(audit, upright=True)):
        assert drawn_words(figure).count("WARNING:mechanism.call:thesourceof") == changed
    assert found.to_dataframe().attrs == ({"warnings": [words]} if changed else {})
    assert ("warnings" in found.data.attrs) == bool(changed)
    call("export", found.store, copy := tmp_path / "copy")
    assert spaced(call("show", copy).stdout).count(WORDS) == changed
    (table, *_) = sorted(copy.glob("by-*.parquet"))
    assert (pa.read_table(table).schema.metadata or {}) == ({b"warnings": words.encode()} if changed else {})
    assert (b"the source of own:noisy changed" in (copy / "arrays.nc").read_bytes()) == bool(changed)


@pytest.mark.slow
def test_comparisons_say_which_store_it_is(stores: list[Path], tmp_path: Path) -> None:
    plain, changed = stores
    words = ["compare", changed, plain, "-o", tmp_path / "c.png"]
    assert spaced(call(*words).stdout).count(WORDS) == 1
    found = [hpcdp.load_result(store) for store in (changed, plain)]
    shown = json.loads(call(*words, "--format", "json").stdout)["stores"]
    assert [entry.get("warnings") for entry in shown] == [found[0].code_warnings, None]
    assert drawn_words(draw_comparison(compare(found))).count("WARNING") == 1
    call("report", changed, plain, "-o", tmp_path / "both.html")
    index = (tmp_path / "both.html").read_text().split("<nav")[1].split("</nav>")[0]
    assert index.count("(code changed)") == 1
    assert "incomplete" not in index, "a store whose code changed is complete all the same"


@pytest.mark.slow
def test_sequential_audits_say_so(tmp_path: Path) -> None:
    store, page = tmp_path / "s.zarr", tmp_path / "p.html"
    words = [*CLAIM, "--sequential", "--batch", 1500, "--no-plot", "--store", store, "--workers", 0]
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
