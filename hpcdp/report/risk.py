"""P[|L| > ε] of a store's pairs as a readable table, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from hpcdp._base.rounding import at_least, percent, share
from hpcdp.analytic import Curve
from hpcdp.report.table import changed_lines, claim_of, grid, trust_lines
from hpcdp.report.tape import basis_lines, rests_on
from hpcdp.results.result import Result
from hpcdp.results.risk import RiskLevel, risk_levels


def find_levels(result: Result, epsilons: Sequence[float]) -> list[RiskLevel]:
    """The risk at some levels, beside what the study's claim of a pure ε, if it makes one, adds."""
    claim = claim_of(result)
    bound = None if claim is None else claim.bound
    level = bound.pure() if isinstance(bound, Curve) else None
    return risk_levels(result, epsilons, level if level is not None and math.isfinite(level) else None)


def table(result: Result, levels: Sequence[RiskLevel]) -> str:
    """At each level the estimate and the certified limits, and what each number rests on."""
    epsilon0 = levels[0].epsilon0
    head = ["ε", "P̂[|L̂| > ε]", "± error", "pair", "of", "certified P[L > ε] ≥"]
    rows = [[*head, *([f"if {epsilon0:g}-DP ≥"] if epsilon0 is not None else [])]]
    for level in levels:
        told = ["-"] * 4
        if level.estimate is not None and level.standard_error is not None:
            told = [share(level.estimate), f"{level.standard_error:.1e}", str(level.pair), _OF[str(level.side)]]
        row = [f"{level.epsilon:g}", *told, at_least(level.lower)]
        rows.append([*row, *([_claimed(level)] if epsilon0 is not None else [])])
    state = "" if result.complete else "  (INCOMPLETE: only cells that have all their counts)"
    lines = [
        f"{result.name}: privacy at risk, the largest over all pairs and both databases{state}",
        "",
        *grid(rows),
        "",
    ]
    sure = percent(result.confidence)
    lines += [
        f"certified: some pair and direction has P[L > ε] of at least δ(ε), for all ε together with confidence {sure};",
        f"  finite-sample, {rests_on(result)}.",
        *basis_lines(result),
        *trust_lines(result.study),
        *changed_lines(result),
        "P̂[|L̂| > ε]: the share of test outputs of a database; it rests on the classifier, and bounds nothing. Its error is",
        "  asymptotic, of one pair. It is told at the study's ε, where sets are {L̂ > ε} (no refine, target, time, reuse, tape).",
    ]
    if epsilon0 is not None:
        lines += [
            f"if {epsilon0:g}-DP: δ(ε)/(1 − e^(ε − {epsilon0:g})), if the claim holds; above 1 it is refuted.",
            f"  By the claim the risk is 0 from ε = {epsilon0:g} on.",
        ]
    return "\n".join([*lines, "The risk may grow when outputs are processed further."])


_OF = {"d": "D", "d_prime": "D′"}


def _claimed(level: RiskLevel) -> str:
    if level.claimed is not None:
        return at_least(level.claimed)
    return "refuted" if level.lower > 0.0 else "-"


def to_json(result: Result, levels: Sequence[RiskLevel]) -> str:
    """One object; `risk` has one entry for each level."""
    head = {"name": result.name, "complete": result.complete, "confidence": result.confidence, **result.declared}
    head |= result.changed_entry
    return json.dumps(head | {"risk": [asdict(level) for level in levels]}, allow_nan=False, ensure_ascii=False)


def csv_text(levels: Sequence[RiskLevel]) -> str:
    """One line for each level; what is not known is empty."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(RiskLevel.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(level) for level in levels)
    return buffer.getvalue()
