"""What `print` shows of results: what their commands print."""

from __future__ import annotations

from hpcdp.report import audit, notions, verdict
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.shown import Shown
from hpcdp.results.verdict import Verdict


def words_of(value: Shown) -> str:
    """The table of a result, an audit or a verdict; what else there is reads as Python writes it."""
    if isinstance(value, Result):
        return notions.text(value)
    if isinstance(value, Audit):
        return audit.report(value)
    return verdict.report([value]) if isinstance(value, Verdict) else repr(value)
