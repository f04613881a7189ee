"""What `print` and notebooks show of results: what their commands print, and a small page."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from hpcdp.errors import HpcdpError
from hpcdp.report import at_risk, audit, histogram, pure, verdict
from hpcdp.report.done import find_done
from hpcdp.report.table import claim_of, csv_text, table
from hpcdp.results.audit import Audit
from hpcdp.results.resolution import write_limits
from hpcdp.results.result import Result
from hpcdp.results.shown import looks, shows
from hpcdp.results.verdict import Verdict, verify
from hpcdp.store.root import open_latest


def text(result: Result) -> str:
    """A result as `run` and `show` print it: the table of its cells, and of pure ε, where there are such; or of [at_risk]."""
    if result.study.at_risk is not None:
        return at_risk.table(result)
    audits = ""
    if result.has_looks:
        from hpcdp.report.sequential import stand_alone, stored_lines  # it loads kernels

        audits = "\n".join(stored_lines(result))
        if stand_alone(result.sequential_audits, result):
            return audits
    parts = [pure.table(result)] if result.study.pure is not None else []
    parts += [histogram.table(result)] if result.study.bounds_pure else []
    parts += [table(result)] if result.study.counts_levels else []
    return "\n\n".join([*parts, audits] if audits else parts)


_MOST_CELLS = 10_000  # that are kept as JSON and CSV: more take as long to read as results do


def texts_of(result: Result) -> dict[str, str]:
    """What `show`, `verify` and `status` print of a complete store by default, by name, and the limits that they print of claims
    and levels; where a claim comes from, others may change it, and then nothing that holds it is kept.
    """
    if not result.complete:
        return {}
    limits = {"limits": write_limits(result.resolution, result.arrays)} if result.study.at_risk is None else {}
    name, _, stages = find_done(*open_latest(result.store))
    found = limits | {"status": "\n".join([name, *stages])}
    if 2 * len(result.pairs) * len(result.study.epsilons) <= _MOST_CELLS:
        lines = at_risk.csv_text if result.study.at_risk is not None else csv_text
        found |= {"json": result.to_json()}
        found |= {} if result.changed else {"csv": lines(result)}  # beside which `show` says more
    if re.search(r"\b(file|store)\b", result.study.study.claim or ""):
        return found
    found["table"] = text(result)
    claim = claim_of(result)
    with suppress(HpcdpError):  # a claim that cannot be judged by these results
        own = [] if claim is None or result.sequential_audits else [verify(result, claim)]  # which `verify` names too
        for one in own:
            found |= {"verify table": verdict.report(own), "verify json": verdict.to_json(own), "verify": one.verdict}
            found["claim"] = one.claim.text
    return found


def _fragment(value: Any) -> str:
    from hpcdp.report.html.fragments import fragment_of  # with templates and pictures, which few need

    return fragment_of(value)


shows(Result, text)
shows(Audit, audit.report)
shows(Verdict, lambda one: verdict.report([one]))
looks(_fragment)
