"""What notebooks show of results: the verdict, a small table and a picture; all text is escaped."""

from __future__ import annotations

from functools import singledispatch
from itertools import count
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_most, percent, share
from hpcdp.report import at_risk, pure
from hpcdp.report import audit as audits
from hpcdp.report.html.colours import LIGHT
from hpcdp.report.html.contents import judge
from hpcdp.report.html.page import environment
from hpcdp.report.html.pictures import Picture, audit_picture, curve_picture, small_picture
from hpcdp.report.html.sentence import sentence_of
from hpcdp.report.table import spectrum_table
from hpcdp.report.tables import ASYMPTOTIC, GIVEN, MARKS, Column, Table, general, lower_column
from hpcdp.report.words import claim_of
from hpcdp.results.audit import Audit
from hpcdp.results.composition import Spectrum
from hpcdp.results.result import Result
from hpcdp.results.verdict import Verdict

_ROWS = 8  # of a small table
_number = count()


@singledispatch
def fragment_of(value: Any) -> str:
    """The HTML of a result, a verdict, an audit or a spectrum."""
    raise TypeError(f"no fragment of a {type(value).__name__}")


@fragment_of.register
def _of_result(result: Result) -> str:
    """A result beside the claim of its study, if it makes one that can be judged by it."""
    claim = claim_of(result)
    return _of(result, claim, judge(result, claim), "result")


@fragment_of.register
def _of_verdict(verdict: Verdict) -> str:
    """A verdict with the spectrum beside its claim."""
    return _of(verdict.result, verdict.claim, verdict, "verdict")


@fragment_of.register
def _of_audit(audit: Audit) -> str:
    """An audit with its boxes."""
    key = _key()
    tables = [_few(audits.box_table(audit), "audit.to_dataframe() holds them")]
    return _render(audit.result, " ".join(audits.verdict_words(audit)), tables, audit_picture(audit, key))


@fragment_of.register
def _of_spectrum(spectrum: Spectrum) -> str:
    """A spectrum with its bounds."""
    entries = [
        {"epsilon": e, "delta": d, "lower": low, "upper": up}
        for e, d, low, up in zip(
            *(getattr(spectrum, name).tolist() for name in ("epsilon", "delta", "lower", "upper")), strict=True
        )
    ]
    what = "an upper bound on δ" if spectrum.is_bound else "δ"
    columns = [
        Column("epsilon", "ε", GIVEN, general),
        Column("delta", f"estimate of {what}", ASYMPTOTIC, share),
        lower_column(heading="δ ≥"),
        Column("upper", "approx ≤", ASYMPTOTIC, at_most),
    ]
    sure = percent(spectrum.confidence)
    words = f"Lower bounds hold together at confidence {sure}; they say nothing of how large δ is at most."
    head = {"name": "Spectrum", "complete": True}
    tables = [_few(Table("Spectrum", columns, entries), "spectrum.to_dataframe() holds them")]
    return _page(head, words, tables, curve_picture(spectrum, _key()))


def _of(result: Result, claim: Any, judged: Verdict | None, name: str) -> str:
    if result.study.at_risk is not None:
        tables = [at_risk.risk_table(result)] if result.risk else []
    elif result.study.counts_levels:
        tables = [spectrum_table(result, claim)]
    elif result.pure is not None:
        tables = pure.pure_tables(result, result.pure)[:1]
    else:
        tables = []
    said = sentence_of(result, judged)
    where = f"{name}.to_dataframe() holds them"
    if result.study.counts_levels:
        where = f"print({name}) shows them, and {name}.to_dataframe() holds every cell"
    few = [_few(one, where, said.epsilon) for one in tables]
    return _render(result, said.text, few, small_picture(result, claim, _key()))


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


def _render(result: Result, words: str, tables: list[Table], picture: Picture | None) -> str:
    words = " ".join([words, *(f"WARNING: {changed}." for changed in result.code_warnings)])
    return _page({"name": result.name, "complete": result.complete}, words, tables, picture)


def _page(head: dict[str, Any], words: str, tables: list[Table], picture: Picture | None) -> str:
    template = environment().get_template("fragment.html")
    return template.render(**head, words=words, tables=tables, picture=picture, marks=MARKS, colours=LIGHT)
