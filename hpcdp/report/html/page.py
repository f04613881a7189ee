"""Pages of results: one HTML file without scripts that asks the network for nothing, and what notebooks show; text is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache, singledispatch
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hpcdp._base.files import replaced
from hpcdp._base.rounding import at_most, percent, share
from hpcdp._base.terminal import plain
from hpcdp.report import audit as audits
from hpcdp.report._spectra import check_path
from hpcdp.report.colours import LIGHT, THEMES, drawn_colours, seen_in
from hpcdp.report.html.contents import describe
from hpcdp.report.html.pictures import DRAWN, Picture, audit_picture, curve_picture, sequential_picture
from hpcdp.report.notions import NOTIONS
from hpcdp.report.plots import is_about_small
from hpcdp.report.sentences import audit_sentence, sentence_of, sequential_sentence
from hpcdp.report.tables import ASYMPTOTIC, GIVEN, MARKS, Column, Table, general, lower_column
from hpcdp.results.audit import Audit
from hpcdp.results.composition import Spectrum
from hpcdp.results.result import Result, rows_of
from hpcdp.results.verdict import Verdict, judge

PAGES = (".html", ".htm")
"""What files of pages are called."""

_ROWS = 8  # of a small table
_number = count()


def write_page(subjects: Result | Audit | Sequence[Result | Audit], path: str | Path, show_rows: bool = False) -> None:
    """Write a page of results or audits, the same of equal stores; show_rows: with what is private; the path: `check_path`."""
    check_path(path, PAGES)
    text = render(subjects if isinstance(subjects, Sequence) else [subjects], show_rows)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as new:
        new.write_text(text, encoding="utf-8")


def render(subjects: Sequence[Result | Audit], show_rows: bool = False) -> str:
    """The text of a page."""
    reports = [describe(subject, f"r{number}", show_rows) for number, subject in enumerate(subjects)]
    sections = [section for report in reports for section in report.sections]
    used = {column.mark for section in sections for table in section.tables for column in table.columns_of("page")}
    colours = drawn_colours(picture.svg for section in sections for picture in section.pictures)
    drawn = {theme: {colour: seen_in(theme, colour) for colour in colours} for theme in THEMES}
    style = environment().get_template("style.css").render(themes=THEMES, drawn=drawn)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        environment()
        .get_template("page.html")
        .render(
            reports=reports,
            title=", ".join(report.name for report in reports),
            style=Markup(style),  # our own text and colours
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
            marks=[mark for mark in MARKS if mark in used],
            version=metadata.version("hpcdp"),
            show_rows=show_rows,
        )
    )


@cache
def environment() -> Environment:
    """Of all templates: what a template is given is escaped, and holds no character that a terminal or a page would obey."""
    made = Environment(
        loader=PackageLoader("hpcdp.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    made.filters |= {"drawing": Markup, "percent": percent}
    return made


def _shown(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@singledispatch
def fragment_of(value: Any) -> str:
    """The HTML of a result, a verdict, an audit or a spectrum."""
    raise TypeError(f"no fragment of a {type(value).__name__}")


@fragment_of.register
def _of_judged(subject: Result | Verdict) -> str:
    """A result beside the claim of its study, if it makes one that can be judged by it; or beside that of a verdict."""
    sequential = audits.worst_first(subject.sequential_audits) if isinstance(subject, Result) else []
    if isinstance(subject, Result) and audits.stand_alone(sequential, subject):
        worst = sequential[0]
        looks, picture = _few(audits.looks_table(worst), "print(result) shows them"), sequential_picture(worst, _key())
        return _render(subject, sequential_sentence(worst).text, [looks], picture, True)
    result, name = (subject, "result") if isinstance(subject, Result) else (subject.result, "verdict")
    claim, judged = subject.claim, judge(subject, subject.claim) if isinstance(subject, Result) else subject
    shown = "spectrum" if "spectrum" in result.notions else result.notions[0]
    tables = NOTIONS[shown](result, claim).tables[:1]
    said, where = sentence_of(result, judged), f"{name}.to_dataframe() holds them"
    if shown == "spectrum":
        where = f"print({name}) shows them, and {name}.to_dataframe() holds every entry"
    few = [_few(table, where, said.epsilon) for table in tables]
    drawn = DRAWN[shown](result, claim, _key()) if tables else [None]
    scale = int(shown == "spectrum" and is_about_small(result))  # of the axes, the one that shows it
    return _render(result, said.text, few, drawn[scale if tables else 0])


@fragment_of.register
def _of_audit(audit: Audit) -> str:
    """An audit with its boxes."""
    key = _key()
    tables = [_few(audits.box_table(audit), "audit.to_dataframe() holds them")]
    return _render(audit.result, audit_sentence(audit).text, tables, audit_picture(audit, key))


@fragment_of.register
def _of_spectrum(spectrum: Spectrum) -> str:
    """A spectrum with its bounds."""
    entries = rows_of({name: getattr(spectrum, name) for name in ("epsilon", "delta", "lower", "upper")})
    what = "an upper bound on δ" if spectrum.is_bound else "δ"
    columns = [
        Column("epsilon", "ε", GIVEN, general),
        Column("delta", f"estimate of {what}", ASYMPTOTIC, share),
        lower_column(heading="δ ≥"),
        Column("upper", "approx ≤", ASYMPTOTIC, at_most),
    ]
    sure = percent(spectrum.confidence)
    words = f"Lower bounds hold together at confidence {sure}; they say nothing of how large δ is at most."
    tables = [_few(Table("Spectrum", columns, entries), "spectrum.to_dataframe() holds them")]
    return _page("Spectrum", True, words, tables, curve_picture(spectrum, _key()))


def _few(whole: Table, where: str, epsilon: float | None = None) -> Table:
    """Some rows of a table, evenly over it, the first and the last among them, and that of an ε. where: what has the others."""
    entries = whole.entries[: whole.most]
    if len(entries) <= _ROWS:
        return whole
    places = np.linspace(0, len(entries) - 1, _ROWS).round().astype(int)
    named = [] if epsilon is None else [n for n, entry in enumerate(entries) if entry["epsilon"] == epsilon]
    for place in np.setdiff1d(named, places):
        places[1 + np.abs(places[1:-1] - place).argmin()] = place
    few = [entries[int(place)] for place in places]
    return Table(whole.caption, whole.columns, few, None, where, len(entries) - len(few) + whole.left_out)


def _key() -> str:
    """Of a fragment among others of one notebook."""
    return f"hpcdp{next(_number)}"


def _render(result: Result, words: str, tables: list[Table], picture: Picture | None, complete: bool = False) -> str:
    words = " ".join([words, *(f"WARNING: {changed}." for changed in result.code_warnings)])
    return _page(result.name, complete or result.complete, words, tables, picture)


def _page(name: str, complete: bool, words: str, tables: list[Table], picture: Picture | None) -> str:
    given = {"name": name, "complete": complete, "words": words, "tables": tables, "picture": picture}
    return environment().get_template("fragment.html").render(given, marks=MARKS, colours=LIGHT)
