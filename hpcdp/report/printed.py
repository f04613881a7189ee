"""What `print` shows of results: what their commands print."""

from __future__ import annotations

from hpcdp.report import audit, verdict
from hpcdp.report.table import table
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.shown import shows
from hpcdp.results.verdict import Verdict

shows(Result, table)
shows(Audit, audit.report)
shows(Verdict, lambda one: verdict.report([one]))
