"""Pages of results: one HTML file without scripts that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hpcdp._base.asked import option, path_of
from hpcdp._base.files import replaced
from hpcdp._base.rounding import percent
from hpcdp._base.terminal import plain
from hpcdp.errors import StudyError
from hpcdp.report.html.colours import DARK, LIGHT, drawn_colours, seen_in
from hpcdp.report.html.contents import Report, describe
from hpcdp.report.tables import MARKS, Mark
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result


def write_page(found: Result | Audit | Sequence[Result | Audit], path: str | Path, show_rows: bool = False) -> None:
    """Write a page of one or several results to a file; equal stores give equal bytes.

    Args:
        found: results, or audits, each with its result; several make one page with an index.
        path: of the file, .html or .htm; a link there is replaced, not followed.
        show_rows: what is in the most exposed rows, inline databases, local paths and texts of exceptions too: all private.

    Raises:
        StudyError: another kind of file, or rows are asked for of a study that has none.
    """
    check_page_path(path)
    text = render(found if isinstance(found, Sequence) else [found], show_rows)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as new:
        new.write_text(text, encoding="utf-8")


def check_page_path(path: str | Path) -> None:
    """Refuse what is no page, StudyError."""
    if path_of("path", path).suffix.lower() not in (".html", ".htm"):
        raise StudyError(f"{option('path', path, '-o')} was given; accepted are .html and .htm")


def render(found: Sequence[Result | Audit], show_rows: bool = False) -> str:
    """The text of a page."""
    reports = [describe(one, f"r{number}", show_rows) for number, one in enumerate(found)]
    style = _style(reports)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        environment()
        .get_template("page.html")
        .render(
            reports=reports,
            title=", ".join(report.name for report in reports),
            style=Markup(style),  # our own text and colours
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
            marks=_marks(reports),
            version=metadata.version("hpcdp"),
            show_rows=show_rows,
        )
    )


def _marks(reports: Sequence[Report]) -> list[Mark]:
    """Those that stand above some column, for the legend."""
    tables = [table for report in reports for section in report.sections for table in section.tables]
    used = {column.mark for table in tables for column in table.page_columns}
    return [mark for mark in MARKS if mark in used]


def _style(reports: Sequence[Report]) -> str:
    svgs = [picture.svg for report in reports for section in report.sections for picture in section.pictures]
    colours = drawn_colours(svgs)
    themes = {name: {colour: seen_in(name, colour) for colour in colours} for name in _THEMES}
    return environment().get_template("style.css").render(themes=_THEMES, drawn=themes)


_THEMES = {"light": LIGHT, "dark": DARK}


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
