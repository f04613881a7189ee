"""The pass rules: what must hold between estimates, certified bounds and exact values for a figure to be reproduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from paper_figures.figure import Check
from paper_figures.parts import Found

MOST_ERRORS = 5.0
"""Standard errors of the Bayes classifier that an estimate may be off, beyond the allowance for regret."""


def near_exact(found: Sequence[Found]) -> list[Check]:
    """truth − 5 se − regret <= δ̂ <= truth + 5 se at every pair, direction and ε, se of Figure 1 with the Bayes classifier."""
    checks = []
    for one in found:
        epsilon, delta, truth, error = _cells(one)
        allowed = one.part.allowance(epsilon)
        above, below = (delta - truth) / error, (truth - delta) / error
        # δ̂ is cut at 0, so where the truth is 0 it is never below it
        beyond = (truth - allowed - delta) / error
        passed = above.max() <= MOST_ERRORS and beyond.max() <= MOST_ERRORS
        terms = " or ".join(f"{value:g} up to ε = {most:g}" for most, value in one.part.regret if most < np.inf)
        terms = " and ".join(filter(None, [terms, *(f"{v:g}" for m, v in one.part.regret if m == np.inf)])) or "0"
        rule = f"{one.part.label}: δ̂ within 5 standard errors of the exact value, regret at most {terms}"
        seen = (
            f"{epsilon.size} entries, at most {max(above.max(), 0.0):.2f} above and {max(below.max(), 0.0):.2f} below"
        )
        if (allowed > 0).any():
            seen += f" ({max(beyond.max(), 0.0):.2f} beyond the regret)"
        checks.append(Check(rule, bool(passed), seen))
    return checks


def bounds_hold(found: Sequence[Found]) -> list[Check]:
    """No certified bound is above the exact value."""
    gaps = [cell["exact"] - cell["lower"] for one in found for cell in one.cells if cell["lower"] > 0]
    rule = "no certified bound is above the exact value"
    seen = f"{len(gaps)} bounds above 0"
    if gaps:
        seen += f", the nearest is {min(gaps):.1e} below"
    return [Check(rule, min(gaps, default=0.0) >= 0.0, seen)]


def exposed(found: Sequence[Found]) -> list[Check]:
    """The certified bound is above 0 at the nominal ε for the faulty mechanisms and for no correct one."""
    checks = []
    for one in found:
        if one.part.exposed is None:
            continue
        lower = at(one, one.part.nominal)["lower"]
        kind = "faulty, so bound above 0" if one.part.exposed else "correct, so bound not above 0"
        checks.append(
            Check(
                f"{one.part.label} at ε = {one.part.nominal:g}: {kind}",
                (lower > 0.0) is one.part.exposed,
                f"certified δ ≥ {lower:.6f}",
            )
        )
    return checks


def at(one: Found, epsilon: float) -> dict[str, Any]:
    """The row of a spectrum at one of its levels.

    Raises:
        KeyError: it is none of them.
    """
    for row in one.result["spectrum"]:
        if abs(row["epsilon"] - epsilon) < 1e-9:
            return dict(row)
    raise KeyError(f"{one.study.name} has no ε = {epsilon:g}")


def _cells(one: Found) -> tuple[Any, ...]:
    return tuple(np.array([cell[name] for cell in one.cells]) for name in ("epsilon", "delta", "exact", "error"))
