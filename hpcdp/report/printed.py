"""What `print` and notebooks show of results: what their commands print, and a small page."""

from __future__ import annotations

from typing import Any

from hpcdp.report import audit, pure, verdict
from hpcdp.report.table import table
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.shown import looks, shows
from hpcdp.results.verdict import Verdict


def text(result: Result) -> str:
    """A result as `run` and `show` print it: the table of its cells, and of pure ε, where there are such; or of [at_risk]."""
    if result.study.at_risk is not None:
        return pure.risk_text(result)
    audits = ["\n".join(audit.stored_lines(result))] if result.has_looks else []
    if audits and audit.stand_alone(result.sequential_audits, result):
        return audits[0]
    parts = [pure.table(result)] if result.study.pure is not None or result.study.bounds_pure else []
    parts += [table(result)] if result.study.counts_levels else []
    return "\n\n".join([*parts, *audits])


def _fragment(value: Any) -> str:
    from hpcdp.report.html.page import fragment_of  # with templates and pictures, which few need

    return fragment_of(value)


shows(Result, text)
shows(Audit, audit.report)
shows(Verdict, lambda one: verdict.report([one]))
looks(_fragment)
