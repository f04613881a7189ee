"""Pages for tests: one store of every kind of study, and a page taken apart by Python's own parser."""

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from commands import call

from hpcdp._base.files import to_toml
from hpcdp.driver.driver import run
from hpcdp.engine.progress import Silent
from hpcdp.errors import HpcdpError
from hpcdp.results.result import Result
from hpcdp.study.file import Study

EVIL = "<script>alert(1)</script>"
VOID = ("meta", "link", "br", "hr", "img", "input")

OWN = f"""
import os

EVIL = {EVIL!r}
Evil = type(EVIL, (Exception,), {{}})


def noisy(database, size, rng):
    return database.sum() + rng.laplace(size=size)


def shifted(database, size, rng):
    return 0.25 * database.sum() + rng.normal(size=size)


def words(database, size, rng):
    return [EVIL if u < 0.3 + 0.3 * database[0] else "no" for u in rng.random(size)]


def broken(database, size, rng):
    if database.sum() > 0.5 and os.path.exists(os.path.join(os.path.dirname(__file__), "broken")):
        raise Evil("the row is 8.06298828125")
    return database.sum() + rng.laplace(size=size)


def mean(database):
    return database.mean()


def uniform(size, rng):
    return rng.random(size)
"""
PAIR = {"given": [{"d": [0.0], "d_prime": [1.0]}]}
TWO = {"given": [{"d": [0.0], "d_prime": [1.0]}, {"d": [0.0], "d_prime": [0.5]}]}
LEVELS = [0.0, 0.5, 1.0, 2.5]
LAPLACE = {"call": "laplace", "parameters": {"epsilon": 1.0}}
SIZES = {"train": 4000, "test": 4000}
BINNED = {"loss": "histogram", "parameters": {"range": [0, 1], "lipschitz": 1.582}, "train": 3000, "test": 6000}
TAPED = {"train": 1 << 14, "test": 1 << 18, "epsilons": [0.0, 0.5, 0.8], "certify": [0.8], "tape": True, "keep": "none"}
DOMAIN = {"domain": {"lower": 0.0, "upper": 1.0, "points": 5, "lipschitz": 3.164}}
ROWS = {"relative": {"databases": [[0.0, 0.8126953125, 1.5, 2.2841796875]], "rows": "all"}}
STUDIES: dict[str, dict[str, Any]] = {
    "points": {
        "claim": "laplace(epsilon=0.3)",
        "mechanism": LAPLACE,
        "pairs": PAIR,
        "estimate": {**SIZES, "epsilons": LEVELS, "etas": [0.5, 1.0, 2.0]},
    },
    "rows": {
        "claim": "dp(epsilon=4)",
        "mechanism": {"call": "own:noisy"},
        "pairs": ROWS,
        "estimate": {**SIZES, "epsilons": LEVELS},
    },
    "edits": {
        "mechanism": {"call": "own:noisy"},
        "pairs": {"relative": {**ROWS["relative"], "relation": "edit", "values": [4.8134765625]}},
        "estimate": {**SIZES, "epsilons": [0.0, 1.0]},
    },
    "tape": {"claim": "gaussian(mu=0.3)", "mechanism": {"call": "own:shifted"}, "pairs": PAIR, "estimate": TAPED},
    "pure": {
        "claim": "dp(epsilon=0.4)",
        "mechanism": LAPLACE,
        "pairs": TWO,
        "estimate": {"loss": "kde", "train": 3000, "test": 6000},
        "pure": {"test": "all", "at": [0.5]},
    },
    "words": {
        "mechanism": {"call": "own:words"},
        "pairs": PAIR,
        "estimate": {"loss": "frequency", **SIZES},
        "pure": {},
    },
    "bins": {"mechanism": {"call": "truncated", "parameters": {"scale": 1.0}}, "pairs": TWO, "estimate": BINNED},
    "domain": {
        "claim": "dp(epsilon=3)",
        "mechanism": {"call": "truncated", "parameters": {"scale": 1.0}},
        "pairs": DOMAIN,
        "estimate": BINNED,
    },
    "renyi": {
        "claim": "renyi(order=2, epsilon=0.2)",
        "mechanism": {"call": "gaussian", "parameters": {"sigma": 1.0}},
        "pairs": PAIR,
        "estimate": {**SIZES, "epsilons": LEVELS, "renyi": [2.0, 3.0]},
    },
    "literal": {
        "mechanism": LAPLACE,
        "pairs": PAIR,
        "estimate": {"train": 300, "test": 300, "epsilons": [0.0, 1.0], "loss": "literal-knn"},
    },
    "reuse": {"mechanism": LAPLACE, "pairs": PAIR, "estimate": {**SIZES, "epsilons": LEVELS, "reuse": True}},
    "risk": {
        "at_risk": {
            "query": "own:mean",
            "population": {"call": "own:uniform"},
            "rows": 20,
            "pairs": 300,
            "scale": 0.02,
            "cover": [0.5, 0.9],
        }
    },
    "batches": {
        "mechanism": LAPLACE,
        "pairs": TWO,
        "estimate": {"epsilons": [0.0, 1.0], "chunk": 25},
        "audits": ["laplace(epsilon=0.3)", "laplace(epsilon=1)"],
    },
    "broken": {
        "claim": "laplace(epsilon=1)",
        "mechanism": {"call": "own:broken"},
        "pairs": {"given": [{"d": [0.0], "d_prime": [0.25]}, {"d": [0.0], "d_prime": [1.0]}]},
        "estimate": {**SIZES, "epsilons": [0.0, 1.0]},
    },
}
"""A study of every kind; what is not given is the same in all. That of `broken` fails in the middle; of that of `batches` claims
are audited, sequentially, and nothing else is done."""

BATCHES = ("--sequential", "--batch", 50, "--budget", 400, "--no-plot", "--format", "json")
"""Options of its audits: the first claim is refuted, the second one is true."""


def make_store(folder: Path, kind: str) -> Path:
    """A store of this kind in a folder; that of `broken` is incomplete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.py").write_text(OWN)
    given = STUDIES[kind]
    claim = {"claim": given["claim"]} if "claim" in given else {}
    body = {"study": {"name": kind, "seed": 20, **claim}} | {
        k: v for k, v in given.items() if k not in ("claim", "audits")
    }
    study, store = Study.from_dict(body, folder), folder / f"{kind}.zarr"
    if "audits" in given:
        (folder / f"{kind}.toml").write_text(to_toml(body))
        for number, audited in enumerate(given["audits"]):
            audit_batches(store, audited, code=0 if number else 3)
        return store
    if kind != "broken":
        run(study, store, workers=0)
        return store
    try:
        run(study, store, workers=0, progress=_Breaking(folder))
    except HpcdpError:
        return store
    raise AssertionError("it did not fail")


def audit_batches(store: Path, claim: str, *options: Any, code: int = 0) -> Any:
    """A sequential audit of the study beside a store: what it prints as JSON."""
    study = store.with_suffix(".toml")
    return json.loads(call("audit", study, "--claim", claim, *BATCHES, *options, "--store", store, code=code).stdout)


class _Breaking(Silent):
    """Has the mechanism fail once work begins: trial draws went well."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, label: str, units: float) -> None:
        (self.folder / "broken").touch()


@dataclass
class Table:
    """caption, keys and marks of the columns, and of each row (text, value) of every cell; value None without a number."""

    caption: str = ""
    keys: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    marks: list[tuple[str, str]] = field(default_factory=list)
    rows: list[list[tuple[str, str | None]]] = field(default_factory=list)

    def column(self, key: str) -> list[str | None]:
        """The values of a column."""
        return [row[self.keys.index(key)][1] for row in self.rows]


class Page(HTMLParser):
    """What is in a page. tags: (name, attributes) in order. text: all that is read. tables, style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tables: list[Table] = []
        self.style = ""
        self.feed(text)
        self.close()
        self.text = " ".join("".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append(Table())
        elif tag == "th" and given.get("scope") == "col":
            self.tables[-1].keys.append(given["data-key"])
            self.tables[-1].headings.append("")
            self.tables[-1].marks.append(("", ""))
        elif tag == "small":
            self.tables[-1].marks[-1] = (given["class"].removeprefix("mark "), "")
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("td", "th"):
            self.tables[-1].rows[-1].append(("", None))
        elif tag == "data":
            self.tables[-1].rows[-1][-1] = ("", given["value"])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "thead":
            self.tables[-1].rows.clear()

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            self.style += data
            return
        self.texts.append(data)
        if "table" not in self.open:
            return
        table, words = self.tables[-1], data.strip()
        if "caption" in self.open:
            table.caption += words
        elif "small" in self.open:
            table.marks[-1] = (table.marks[-1][0], words)
        elif "thead" in self.open and "th" in self.open:
            table.headings[-1] += words
        elif table.rows and table.rows[-1] and words:
            text, value = table.rows[-1][-1]
            table.rows[-1][-1] = (text + words, value)

    def table(self, begins: str) -> Table:
        """The one table whose caption begins so."""
        (found,) = [table for table in self.tables if table.caption.startswith(begins)]
        return found

    def named(self, tag: str) -> list[dict[str, str]]:
        """Attributes of all elements of a name."""
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(result: Result, path: Path, **options: Any) -> Page:
    """The page of a result, written to a file and taken apart."""
    result.report(path, **options)
    return Page(path.read_text(encoding="utf-8"))


ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "p", "h1", "h2", "h3", "h4", "nav", "ol", "ul", "li",
    "a", "strong", "main", "article", "div", "section", "figure", "figcaption", "table", "caption", "thead", "tbody",
    "tr", "th", "td", "small", "data", "span", "dl", "dt", "dd", "pre", "code", "time", "footer", "svg", "desc",
    "defs", "g", "path", "use", "text", "tspan", "clippath", "rect",
}  # fmt: skip


def check_text_only(page: Page) -> None:
    """Nothing but the elements of the templates, and no attribute that does or fetches something."""
    assert {tag for tag, _ in page.tags} <= ALLOWED
    for _, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("src", "style", "action", "srcdoc", "data", "xlink:href")
            assert name != "href" or value.startswith("#")
            assert all(place.startswith("#") for place in re.findall(r"url\(([^)]*)\)", value))


def compare(table: Any, entries: list[dict[str, Any]], *others: str) -> int:
    """Each number of a table with that of JSON, row by row; how many were compared. others: columns that JSON has not here."""
    assert len(table.rows) == len(entries)
    compared = 0
    for place, key in enumerate(table.keys):
        if key in others:
            continue
        for row, entry in zip(table.rows, entries, strict=True):
            value, (text, number) = looked_up(entry, key), row[place]
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                assert number is not None
                assert json.loads(number) == value, (table.caption, key)
                compared += 1
            else:
                assert number is None, (table.caption, key, text)
    return compared


def looked_up(entry: Any, key: str) -> Any:
    for name in key.split("."):
        entry = None if entry is None else entry[name]
    return entry
