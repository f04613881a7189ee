"""What `print` and notebooks show of results: what their commands print, and a small page."""

from __future__ import annotations

from typing import Any

from hpcdp.report import at_risk, audit, histogram, pure, verdict
from hpcdp.report.sequential import stand_alone, stored_lines
from hpcdp.report.table import table
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.shown import looks, shows
from hpcdp.results.verdict import Verdict


def text(result: Result) -> str:
    """A result as `run` and `show` print it: the table of its cells, and of pure ε, where there are such; or of [at_risk]."""
    if result.study.at_risk is not None:
        return at_risk.table(result)
    audits = ""
    if result.has_looks:
        audits = "\n".join(stored_lines(result))
        if stand_alone(result.sequential_audits, result):
            return audits
    parts = [pure.table(result)] if result.study.pure is not None else []
    parts += [histogram.table(result)] if result.study.bounds_pure else []
    parts += [table(result)] if result.study.counts_levels else []
    return "\n\n".join([*parts, audits] if audits else parts)


def _fragment(value: Any) -> str:
    from hpcdp.report.html.fragments import fragment_of  # with templates and pictures, which few need

    return fragment_of(value)


shows(Result, text)
shows(Audit, audit.report)
shows(Verdict, lambda one: verdict.report([one]))
looks(_fragment)
