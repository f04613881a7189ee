"""Pages of results: every number is that of JSON, all text stays text, nothing is asked of the network, nothing private leaks."""

import base64
import hashlib
import itertools
import json
import re
import shutil
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, hpcdp
from contrasts import contrast
from journals import change
from matplotlib.colors import to_hex
from pages import ALLOWED, EVIL, STUDIES, Page, check_text_only, compare, make_store, page_of
from some_slow import some_slow
from studies import make_study

from hpcdp import load_result
from hpcdp._base.files import to_toml
from hpcdp.driver.driver import run
from hpcdp.report import colours
from hpcdp.report.colours import DARK, LIGHT, drawn_colours, seen_in
from hpcdp.report.export import write_export
from hpcdp.report.html.page import render, write_page
from hpcdp.report.html.provenance import failure_words, redacted, short_claim, shortened, stop_words
from hpcdp.report.sentences import sentence_of
from hpcdp.report.tables import MARKS
from hpcdp.results.audit import audit
from hpcdp.results.result import Result
from hpcdp.results.verdict import verify
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study
from hpcdp.study.pairs import LEFT_OUT

Stores = Callable[[str], Path]
Pages = Callable[[str], Page]
KINDS = [*STUDIES]
LAPLACE: Any = ("laplace", {"epsilon": 1.0}, [([0.0], [1.0])])
SMALL: dict[str, Any] = {"seed": 1, "train": 500, "test": 500, "epsilons": [0.0, 1.0]}
COMPLETE = [kind for kind in KINDS if kind != "broken"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = make_store(tmp_path_factory.mktemp("pages"), kind)
        return made[kind]

    return make


@pytest.fixture(scope="module")
def files(stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """The file of the page of a store, which is made once: its pictures are dear."""
    folder = tmp_path_factory.mktemp("files")

    @cache
    def make(kind: str) -> Path:
        load_result(stores(kind)).report(folder / f"{kind}.html")
        return folder / f"{kind}.html"

    return make


@pytest.fixture(scope="module")
def pages(files: Stores) -> Pages:
    """That page taken apart, for tests that change nothing in it."""
    return cache(lambda kind: Page(files(kind).read_text(encoding="utf-8")))


def shown(store: Path, *options: str) -> Any:
    """What `show --format json` prints."""
    return json.loads(call("show", store, "--format", "json", *options).stdout)


@pytest.mark.few
@pytest.mark.parametrize(
    "kind", some_slow(["points", "rows", "tape", "renyi", "literal", "reuse", "broken"], "tape".__eq__)
)
def test_numbers_of_spectra_are_those_of_json(stores: Stores, pages: Pages, kind: str) -> None:
    result, rows = load_result(stores(kind)), shown(stores(kind))["spectrum"]
    table = pages(kind).table("Spectrum")
    assert compare(table, rows, "claimed", "violated", "standard_error") >= 4 * len(rows)
    if result.study.study.claim:
        claim = parse_claim(str(result.study.study.claim), stores(kind).parent)
        allowed = [float(claim.implied(row["epsilon"])) for row in rows]
        assert [float(str(v)) for v in table.column("claimed")] == allowed
        marked = [row[table.keys.index("violated")][0] == "violated" for row in table.rows]
        assert marked == [row["lower"] > most for row, most in zip(rows, allowed, strict=True)]
    if kind == "tape":
        cells = {(c["pair"], c["direction"], c["epsilon"]): c["standard_error"] for c in shown(stores(kind))["cells"]}
        errors = [cells[row["pair"], row["direction"], row["epsilon"]] for row in rows]
        assert [float(str(v)) for v in table.column("standard_error")] == errors


def audited_boxes(_: Any, result: Result) -> Any:
    return sorted(audit(result, "laplace(epsilon=0.3)").to_dict()["cells"], key=lambda box: -box["margin"])


def audited_bounds(_: Any, result: Result) -> Any:
    bounds = audit(result, "laplace(epsilon=0.3)").to_dict()["bounds"]
    return [bounds["mu"], *bounds["epsilon"]]


def divergences(said: Any, _: Result) -> Any:
    return [*said["renyi"], {"estimate": None, "variational": None, **said["zcdp"]}]


def by_certified(said: Any, _: Result) -> Any:
    pure = said["pure"]
    return sorted(pure["rows"] or [pure], key=lambda row: -row["certified"])


Rows = Callable[[Any, Result], Any]
PURE = ("--pure",)
TABLES: dict[tuple[str, str], tuple[tuple[str, ...], Rows, tuple[str, ...], int]] = {
    ("points", "Trade-off points"): ((), lambda said, _: said["tradeoff"], (), 7),
    ("points", "Audit"): ((), audited_boxes, ("violated",), 8),
    ("points", "Certified lower bounds"): ((), audited_bounds, ("what",), 2),
    ("pure", "Pure ε"): (PURE, by_certified, (), 6),
    ("words", "Pure ε"): (PURE, by_certified, (), 3),
    ("bins", "Pure ε"): (PURE, by_certified, (), 2),
    ("domain", "Pure ε"): (PURE, by_certified, (), 2),
    ("pure", "Loss of pair"): (PURE, lambda said, _: said["pure"]["published"]["intervals"], (), 4),
    ("risk", "ε of a sampled"): ((), lambda said, _: said["risk"], (), 8),
    ("renyi", "Rényi"): (("--renyi", "2", "--renyi", "3", "--zcdp"), divergences, ("what",), 2),
}
"""Of tables: options of `show` that tell the same, the rows in it, columns that it has not, least numbers a row."""


@pytest.mark.parametrize(
    ("kind", "caption"), some_slow(TABLES, lambda case: case[0] not in ("points", "pure") or case[1] == "Pure ε")
)
def test_numbers_of_tables_are_those_of_json(stores: Stores, pages: Pages, kind: str, caption: str) -> None:
    options, rows, others, least = TABLES[kind, caption]
    found = rows(shown(stores(kind), *options), load_result(stores(kind)))
    assert compare(pages(kind).table(caption), found, *others) >= least * len(found) > 0


@pytest.mark.slow
def test_the_page_of_an_audit_is_of_its_own_claim(stores: Stores, tmp_path: Path) -> None:
    found = audit(load_result(stores("points")), "gaussian(mu=0.1)", "forward")
    write_page(found, tmp_path / "p.html")
    page = Page((tmp_path / "p.html").read_text())
    assert compare(page.table("Audit"), found.to_dict()["cells"], "violated") == 8
    assert "The claim gaussian(mu=0.1) is violated" in page.text
    assert page.text.count("laplace(epsilon=0.3)") == 1  # in the study's own text alone


def test_numbers_of_pairs_are_those_of_json(stores: Stores, pages: Pages) -> None:
    page, said = pages("rows"), shown(stores("rows"), "--rows")
    table = page.table("Most exposed pairs")
    assert table.caption == f"Most exposed pairs at ε = {said['epsilon']:g}"
    by_row = {f"row {row['row']}": row for row in said["rows"]}
    assert len(by_row) == len(table.rows) == 4
    words = "–: no δ̂ is significantly above 0 at this ε."
    assert (words in page.text) == any(row["delta"] is None for row in said["rows"])
    for (who, _), *cells in table.rows:
        row = by_row[str(re.search(r"row \d+", who)[0])]  # type: ignore[index]
        numbers = [json.loads(str(v)) if v else None for _, v in (cells[0], cells[1], cells[3])]
        assert numbers == [row[name] for name in ("delta", "standard_error", "lower")]


HEADINGS = {
    "resolved": ("significantly above 0", "finite"),
    "limit": ("learned sets ≤", "limited"),
    "lower": ("certified ≥", "finite"),
    "lower_up_to_leftover": ("up to the leftover ≥", "leftover"),
    "certified": ("certified ≥", "finite"),
    "variational.lower": ("or: certified ≥", "finite"),
    "radius": ("radius", "finite"),
    "alpha_upper": ("α ≤", "finite"),
    "beta_upper": ("β ≤", "finite"),
    "margin": ("margin", "finite"),
    "violated": ("claim violated", "finite"),
    "box": ("certified ≥, from the boxes", "finite"),
    "all": ("certified ≥, from every η", "finite"),
    "sensitivity": ("Δ", "finite"),
    "within.certified": ("P[|L| ≤ ε] ≥", "finite"),
}
"""The columns that hold with a confidence: which number, under which heading, with which mark."""

OF_KINDS = {
    "bins": {"upper": ("≤ if C holds", "assumed")},
    "domain": {"upper": ("≤ if C and D hold", "assumed")},
    "risk": {"epsilon": ("ε", "finite")},
}


@pytest.mark.parametrize("kind", some_slow([k for k in KINDS if k != "batches"], lambda k: k not in ("points", "pure")))
def test_what_is_certified_has_its_heading_and_mark_and_is_rounded_to_the_safe_side(pages: Pages, kind: str) -> None:
    """And nothing else has one. Those of sequential audits are compared in `test_sequential_report`."""
    words, known = {mark.key: mark.word for mark in MARKS}, HEADINGS | OF_KINDS.get(kind, {})
    known = {key: told for key, told in known.items() if (kind, key) != ("tape", "certified")}  # which η are, there
    rounded = 0
    for table in pages(kind).tables:
        assert all(words[key] == word for key, word in table.marks)
        assert len(table.keys) == len(set(table.keys))
        columns = zip(table.keys, table.headings, table.marks, strict=True)
        sure = {k: (h, m) for k, h, (m, _) in columns if m in ("finite", "limited", "leftover", "assumed")}
        is_loss = table.caption.startswith("Loss of pair")  # intervals of one output, asymptotic
        assert sure == {key: known[key] for key in table.keys if key in known and not is_loss}, table.caption
        for key, (heading, _) in sure.items():
            for text, value in (row[table.keys.index(key)] for row in table.rows):
                if value is None or text == "–":
                    continue
                read, number = float(text.replace(",", "")), float(value)
                assert read <= number if "≥" in heading or heading == "margin" else read >= number, heading
                rounded += read != number
    assert rounded or kind in ("broken", "edits", "rows", "literal", "reuse")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["points", "broken"])
def test_a_copy_of_a_store_gives_equal_bytes(stores: Stores, files: Stores, tmp_path: Path, kind: str) -> None:
    store = stores(kind)
    copy = tmp_path / "elsewhere" / "another.zarr"
    shutil.copytree(store, copy, copy_function=shutil.copyfile)  # with other times
    hpcdp("report", copy, "-o", tmp_path / "p.html", folder=tmp_path)  # in another process
    assert (tmp_path / "p.html").read_bytes() == files(kind).read_bytes()
    assert load_result(copy).to_json() == load_result(store).to_json()


@pytest.mark.parametrize("kind", some_slow(KINDS, ("edits", "batches", "words").__contains__))
def test_a_page_asks_for_nothing_and_its_parts_have_names(pages: Pages, kind: str) -> None:
    page = pages(kind)
    check_text_only(page)
    assert not page.open
    assert "url(" not in page.style
    assert "@import" not in page.style
    (policy,) = [a["content"] for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    names = [a["id"] for _, a in page.tags if "id" in a]
    assert len(names) == len(set(names))
    used = [name for _, a in page.tags for name in a.get("aria-labelledby", "").split()]
    used += [a["href"][1:] for _, a in page.tags if "href" in a]
    used += [name for _, a in page.tags for v in a.values() for name in re.findall(r"url\(#([^)]*)\)", v)]
    assert set(used) <= set(names)
    pictures = page.named("svg")
    assert pictures or kind == "words"
    assert all(a["role"] == "img" and len(a["aria-labelledby"].split()) == 2 for a in pictures)
    for table in page.tables:
        assert table.caption
        assert all(len(row) == len(table.keys) for row in table.rows)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def named(result: Result, name: str) -> Result:
    """The same of a study with a name that no study file may give it."""
    header = result.study.study.model_copy(update={"name": name})
    study = result.study.model_copy(update={"study": header})
    return Result(study, result.store, result.complete, result.pairs, result.arrays, [], result.columns)


@pytest.mark.slow
def test_names_claims_outputs_and_exceptions_stay_text(stores: Stores, tmp_path: Path) -> None:
    folder = tmp_path / "<script>alert(1)<"
    folder.mkdir()
    (folder / "script>").write_text("epsilon,delta\n0,0.1\n1,0.01\n")
    claimed = make_study(*LAPLACE, folder=tmp_path, head={"claim": f"file({EVIL})"}, **SMALL, etas=[1.0])
    result = run(claimed, tmp_path / "evil.zarr", workers=0)
    cases = [
        (named(load_result(stores("points")), EVIL), False, 4),  # in the title, the heading, the commands
        (result, True, 4),  # of a claim: in the sentence, pictures and table
        (load_result(stores("words")), False, 1),  # an output
        (load_result(stores("broken")), False, 1),  # an exception
        (load_result(stores("broken")), True, 1),
    ]
    for one, private, least in cases:
        page = page_of(one, tmp_path / "p.html", show_rows=private and one.study.pairs.relative is None)
        check_text_only(page)
        assert page.text.count(EVIL[:20]) >= least  # of an output as many characters as tables show
        assert EVIL[:20] not in (tmp_path / "p.html").read_text()
        fragment = Page(one._repr_html_() or "")
        assert {tag for tag, _ in fragment.tags} <= ALLOWED
        assert not [name for _, a in fragment.tags for name in a if name.startswith("on") or name == "src"]
    page = page_of(named(load_result(stores("risk")), "a\u202eb\x07c"), tmp_path / "p.html")
    assert "a\\u202eb\\u0007c" in page.text
    assert not re.search("[\x07\u202e]", (tmp_path / "p.html").read_text())


@pytest.mark.slow
def test_nothing_private_is_in_a_page_unless_rows_are_asked_for(stores: Stores, tmp_path: Path) -> None:
    """Inline databases, values of edits, local paths and texts of exceptions."""
    curve = tmp_path / "secret folder" / "curve.csv"
    curve.parent.mkdir()
    curve.write_text("epsilon,delta\n0,0.9\n1,0.8\n")
    pair = [([0.40673828125], [1.28271484375])]
    study = make_study(*LAPLACE[:2], pair, folder=tmp_path, head={"claim": f"file({curve})"}, **SMALL)
    run(study, tmp_path / "held.zarr", workers=0)
    secrets: dict[Path, tuple[str, ...]] = {
        tmp_path / "held.zarr": ("0.40673828125", "1.28271484375", "secret folder", str(tmp_path)),
        stores("rows"): ("0.8126953125", "2.2841796875", str(stores("rows").parent)),
        stores("edits"): ("0.8126953125", "4.8134765625", str(stores("edits").parent)),
        stores("broken"): ("8.06298828125", str(stores("broken").parent), "own.py"),
    }
    for store, hidden in secrets.items():
        page = tmp_path / "p.html"
        call("report", store, "-o", page)
        text = page.read_text()
        assert not [word for word in hidden if word in text]
        assert "PRIVATE" not in text
        call("report", store, "-o", page, "--show-rows")
        text = page.read_text()
        assert hidden[0] in text
        assert "PRIVATE" in text
    assert "file(curve.csv)" in render([load_result(tmp_path / "held.zarr")])


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_of_a_study_is_that_study(stores: Stores, pages: Pages, kind: str) -> None:
    result = load_result(stores(kind))
    text = to_toml(result.study.to_dict())
    assert Study.from_dict(tomllib.loads(text), result.study.folder).to_dict() == result.study.to_dict()
    shared, gone = redacted(result.study.to_dict())
    assert (LEFT_OUT in json.dumps(shared)) == bool(gone)
    Study.from_dict(shared)  # still one, of nothing
    assert pages(kind).text.count(" ".join(to_toml(shared).split())) == 1


def test_texts_lose_paths_and_contents() -> None:
    body = {"b": 'x"\\\n\x7f\u2028é', "c": [1, 2.5, True, [1e-300]], "d e": {"f": None, "g": {}}, "h": -0.0, "i": []}
    assert tomllib.loads(to_toml({"a": body, "gone": None})) == {"a": {**body, "d e": {"g": {}}}}
    cases = {
        "file(/home/me/x.csv)": "file(x.csv)",
        "file( a/b.csv )*laplace(epsilon=1)": "file(b.csv)*laplace(epsilon=1)",
        "laplace(epsilon=1) * gaussian(mu=1)": "laplace(epsilon=1) * gaussian(mu=1)",
        "store(runs\\other.zarr)": "store(other.zarr)",
        'store( "runs/o\'s.zarr" )*dp(epsilon=1)': 'store("o\'s.zarr")*dp(epsilon=1)',
    }
    assert {text: short_claim(text) for text in cases} == cases
    parameters = {"files": ["a.npy"], "scale": 2.0, "out": "~/x"}
    given = {
        "study": {"claim": None},
        "mechanism": {"call": {"command": ["/opt/me/run", "--fast"]}, "parameters": parameters},
        "pairs": {"relative": {"file": "people.csv"}, "given": {"call": "m:f", "parameters": {"rows": [1]}}},
    }
    found, gone = redacted(given)
    assert found["mechanism"]["call"]["command"] == [LEFT_OUT, "--fast"]
    assert found["mechanism"]["parameters"] == {"files": LEFT_OUT, "scale": 2.0, "out": LEFT_OUT}
    assert found["pairs"]["relative"]["file"] == LEFT_OUT
    assert found["pairs"]["given"] == {"call": "m:f", "parameters": {"rows": LEFT_OUT}}
    assert len(gone) == 5
    rows = {"given": [{"d": [7], "d_prime": [8]}], "relative": {"databases": [[9]], "values": [5]}}
    assert not re.search(r"\d", json.dumps(redacted({"study": {}, "pairs": rows})[0])), "contents of rows"
    left, scored = "(its text is left out)", "chunk 1 of d: the score of {} raised ValueError"
    raised = "chunk 1 of d: the mechanism raised KeyError"
    told = {f"{raised}: 'Bob' (/home/me/own.py, line 3)": raised, "chunk 1 of d: no numbers: Bob": "chunk 1 of d"}
    paths = ("/home/Ada L/models/7.npy", "models\\7.npy", "~ada/7.npy")
    for said, shown in (told | {scored.format(path): scored.format(LEFT_OUT) for path in paths}).items():
        assert failure_words(said) == f"{shown} {left}"
    assert stop_words("no room in /scratch/me now") == f"no room in {LEFT_OUT} now"
    found, gone = shortened({"pairs": {"given": [[0.5]] * 5000, "rows": [1, 2]}})
    assert found["pairs"] == {"given": f"{LEFT_OUT}: 5,000 entries", "rows": [1, 2]}
    assert gone == ["pairs.given, 5,000 entries"]


def test_verdicts_say_claim_confidence_and_what_they_do_not_say(stores: Stores) -> None:
    result = load_result(stores("points"))
    claims = {"laplace(epsilon=0.3)": "violation", "dp(epsilon=6)": "consistent", "laplace(epsilon=1)": "not separable"}
    unsure = result["delta"] > parse_claim("laplace(epsilon=1)", Path.cwd()).implied(result["epsilon"])
    assert unsure.any()
    for text, kind in claims.items():
        found = sentence_of(result, verify(result, text))
        assert found.kind == kind
        assert text in found.text
        assert "95 %" in found.text
        assert re.search("this (does not say|says neither)|may be larger", found.text)
        assert found.text.count(". ") == 0  # one sentence
    assert "the true δ may be larger" in sentence_of(result, verify(result, "laplace(epsilon=0.3)")).text
    for kind in ("bins", "risk", "edits", "words"):
        one = load_result(stores(kind))
        found = sentence_of(one, None)
        assert found.kind == "none"
        assert "95 %" in found.text
        assert re.search("a lower bound alone|says nothing of", found.text)


@pytest.mark.slow
def test_several_stores_make_one_page_with_an_index(stores: Stores, pages: Pages, tmp_path: Path) -> None:
    kinds = ("points", "broken", "risk")
    path = tmp_path / "all.html"
    assert call("report", *(stores(kind) for kind in kinds), "-o", path).stdout == f"{path}\n"
    page = Page(path.read_text())
    check_text_only(page)
    links = [a["href"] for a in page.named("a")]
    assert links == ["#r0", "#r1", "#r2"]
    assert [a["id"] for a in page.named("article")] == ["r0", "r1", "r2"]
    names = [a["id"] for _, a in page.tags if "id" in a]
    assert len(names) == len(set(names))
    assert "points: The claim laplace(epsilon=0.3) is violated" in page.text
    assert "broken (incomplete): " in page.text
    tables = {table.caption for table in page.tables}
    alone = [table for kind in kinds for table in pages(kind).tables]
    assert tables == {table.caption for table in alone}
    assert len(page.tables) == len(alone)


def test_assumptions_and_warnings_are_all_there(stores: Stores, pages: Pages) -> None:
    """Every word that `show` prints below its tables."""
    assert "up to the leftover ≥ X: X alone is no bound on δ" in pages("tape").text
    for kind in ("points", "tape", "reuse", "literal", "bins", "risk"):
        store = stores(kind)
        text = pages(kind).text
        printed = call("show", store).stdout.split("\n\n")
        notes = [line for part in printed for line in part.replace("\n  ", " ").splitlines() if ": " in line]
        other = ("---", "largest over", "largest of all", "Laplace noise of scale")  # tables and their heads
        prose = [line for line in notes if len(line) > 100 and not any(words in line for words in other)]
        assert prose or kind == "risk"
        assert [line for line in prose if line not in text] == []


@pytest.mark.parametrize(("name", "theme", "least"), [("light", LIGHT, 3.0), ("dark", DARK, 5.0)])
def test_text_and_lines_have_enough_contrast(name: str, theme: dict[str, str], least: float, files: Stores) -> None:
    assert theme["leftover"] != theme["finite"]
    for key, colour in theme.items():
        if key not in ("paper", "panel", "line"):
            assert contrast(colour, theme["paper"]) >= 4.5, key
            assert contrast(colour, theme["panel"]) >= 4.5, key
    text = "".join(files(kind).read_text() for kind in ("points", "tape", "pure", "risk", "bins"))
    drawn = drawn_colours(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert len(drawn) >= 6
    palette = [value for key, value in vars(colours).items() if key.isupper() and str(value).startswith("#")]
    drawn += [to_hex(colour) for many in range(1, 8) for colour in colours.shades(many)]
    for colour in {*drawn, *palette} - {colours.EXACT, colours.BOX}:  # boxes have an edge of ink
        assert contrast(seen_in(name, colour), theme["paper"]) >= least, colour
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0, abs=1e-12)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WebAIM's example of a colour just below AA


@pytest.mark.slow
def test_a_link_in_the_place_of_a_page_is_replaced(stores: Stores, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("mine")
    (tmp_path / "link.html").symlink_to(kept)
    load_result(stores("risk")).report(tmp_path / "link.html")
    assert kept.read_text() == "mine"
    assert not (tmp_path / "link.html").is_symlink()


@pytest.mark.release
def test_ten_thousand_pairs_take_two_megabytes_at_most(tmp_path: Path) -> None:
    """Of 2,500 laws."""
    laws = np.random.default_rng(5).dirichlet((4.0, 4.0, 4.0), 50)
    pairs = [([n % 50], [(n // 50 + n % 50 + 1) % 50]) for n in range(10_000)]
    sizes = {"train": 200, "test": 200, "epsilons": [0.0, 0.5, 1.0], "etas": [1.0, 2.0], "keep": "none", "loss": "auto"}
    parameters = {"outcomes": [0, 1, 2], "table": laws.tolist()}
    study = make_study("pmf", parameters, pairs, seed=3, head={"claim": "dp(epsilon=0.5)"}, **sizes)
    result = run(study, tmp_path / "many.zarr", workers=0)
    assert len(result.pairs) == 10_000
    for private in (False, True):
        page = page_of(result, tmp_path / "p.html", show_rows=private)
        assert (tmp_path / "p.html").stat().st_size <= 2_000_000
        assert "Rows that are not listed here: 9,950" in page.text
        assert "Rows that are not listed here: 19,800" in page.text  # of 20,000 points
        assert "10,000 entries" in page.text


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMPLETE)
def test_a_store_of_which_nothing_is_counted_has_a_page_that_claims_nothing(
    stores: Stores, tmp_path: Path, kind: str
) -> None:
    """As one that a run left early: the study and samples alone."""
    store = tmp_path / "early.zarr"
    shutil.copytree(stores(kind), store)
    (store / "records" / "results.json").unlink(missing_ok=True)  # an audit has none
    kept = ("runs",) if kind == "risk" else ("runs", "samples", "packs")
    change(store, lambda kind, _, line: line if kind in kept else b"")
    result = load_result(store)
    assert not result.complete
    write_export(result, tmp_path / "copy")
    page = Page((tmp_path / "copy" / "report.html").read_text())
    assert page.text.count("INCOMPLETE") == 1
    assert re.search("no counts are complete yet|no pair is tested yet|so that nothing is known yet", page.text)
    told = {value for table in page.tables for row in table.rows for _, value in row}
    assert told <= {None, "0.0"}  # that a divergence is at least 0 is always so
    assert kind in str(Page(result._repr_html_() or "").text)
    assert Page(render([load_result(tmp_path / "copy")])).tables == page.tables


@pytest.mark.parametrize(
    ("claim", "following"),
    [
        ("dp(epsilon=0.1)", "Do not release with this claim"),
        ("laplace(epsilon=2)", "No violation was found. This is no proof of privacy"),
        (None, "the study makes no claim"),
    ],
)
def test_a_page_begins_with_what_decides(tmp_path: Path, claim: str | None, following: str) -> None:
    """Date of the run, subject, owner, what was tested and what to do next; the texts are text, and decide no number."""
    header = {"name": "s", "seed": 1, "claim": claim, "about": "Counts of <b>patients</b>.", "owner": "A & B"}
    study = {
        "study": header,
        "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
        "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
        "estimate": {"train": 2000, "test": 20000, "epsilons": [0.5]},
    }
    result = run(Study.from_dict(study), tmp_path / "s.zarr", workers=0)
    result.report(tmp_path / "s.html")
    summary = re.search(r'<dl class="summary">(.*?)</dl>', (tmp_path / "s.html").read_text(), re.DOTALL)
    assert summary is not None
    rows = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", summary[1]))
    assert list(rows) == ["Date", "Subject", "Owner", "What was tested", "What to do next"]
    assert rows["Subject"] == "Counts of &lt;b&gt;patients&lt;/b&gt;."
    assert rows["Owner"] == "A &amp; B"
    assert abs((date.fromisoformat(rows["Date"]) - datetime.now(UTC).date()).days) <= 1
    assert "two neighbouring databases" in rows["What was tested"]
    assert following in rows["What to do next"]
    other = Study.from_dict({**study, "study": {"name": "s", "seed": 1, "claim": claim}})
    assert run(other, tmp_path / "s.zarr", workers=0).to_json() == result.to_json()
