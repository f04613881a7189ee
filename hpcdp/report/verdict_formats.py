"""Verdicts on claims for continuous integration: JUnit's XML, and a table in Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from hpcdp.report.table import changed_lines
from hpcdp.report.verdict import verdict_lines
from hpcdp.results.decision import NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import Verdict

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(verdicts: Sequence[Verdict], incomplete: bool = False) -> str:
    """One test case a claim: a failure where it is violated; an error where the store is incomplete, unless that is accepted;
    skipped where no sample decided it. What passes says that this proves no privacy.
    """
    result = verdicts[0].result
    suite = ElementTree.Element("testsuite", name=_xml(result.name), tests=str(len(verdicts)))
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(result.name), name=_xml(verdict.claim.text))
        text = _xml("\n".join([*verdict_lines(verdict), *changed_lines(result)]))
        kind = _kind(verdict, incomplete)
        if kind is None:
            ElementTree.SubElement(case, "system-out").text = text
            continue
        message = f"incomplete: {verdict.cells_words}"
        if kind != "error":
            message = verdict.verdict if result.complete else f"{verdict.verdict}; {message}"
        ElementTree.SubElement(case, kind, message=_xml(message)).text = text
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")


def _kind(verdict: Verdict, incomplete: bool) -> str | None:
    if verdict.verdict == VIOLATION:
        return "failure"
    if not (verdict.result.complete or incomplete):
        return "error"
    return "skipped" if verdict.verdict == NOT_SEPARABLE else None


def _xml(text: str) -> str:
    return _NO_XML.sub("�", text)


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """A table with a row a claim, and the store's state where it is incomplete."""
    result = verdicts[0].result
    lines = [f"### {_cell(result.name)}", "", "| claim | verdict | |", "| --- | --- | --- |"]
    for verdict in verdicts:
        words = " ".join(line.strip() for line in verdict_lines(verdict))
        lines.append(f"| {_cell(verdict.claim.text)} | {verdict.verdict} | {_cell(words)} |")
    if not result.complete:
        lines += ["", f"The store is not complete: {verdicts[0].cells_words} have all their counts."]
    for words in result.code_warnings:
        lines += ["", f"WARNING: {_cell(words)}."]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text that stays text within a cell of a table."""
    escaped = html.escape(text.replace("\\", "\\\\"), quote=False)
    return re.sub(r"([|`*_\[\]])", r"\\\1", " ".join(escaped.split()))
