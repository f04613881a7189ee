"""What `print` and notebooks show of results: what their commands print, and a small page."""

from __future__ import annotations

from typing import Any

from hpcdp.report import audit, notions, verdict
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.shown import looks, shows
from hpcdp.results.verdict import Verdict


def _fragment(value: Any) -> str:
    from hpcdp.report.html.page import fragment_of  # with templates and pictures, which few need

    return fragment_of(value)


shows(Result, notions.text)
shows(Audit, audit.report)
shows(Verdict, lambda one: verdict.report([one]))
looks(_fragment)
