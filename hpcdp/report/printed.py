"""What `print` shows of results: what their commands print."""

from __future__ import annotations

from hpcdp.report import at_risk, audit, histogram, pure, verdict
from hpcdp.report.table import table
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.shown import shows
from hpcdp.results.verdict import Verdict


def text(result: Result) -> str:
    """A result as `run` and `show` print it: the table of its cells, and of pure ε, where there are such; or of [at_risk]."""
    if result.study.at_risk is not None:
        return at_risk.table(result)
    parts = [pure.table(result)] if result.study.pure is not None else []
    parts += [histogram.table(result)] if result.study.bounds_pure else []
    parts += [table(result)] if result.study.counts_levels else []
    return "\n\n".join(parts)


shows(Result, text)
shows(Audit, audit.report)
shows(Verdict, lambda one: verdict.report([one]))
