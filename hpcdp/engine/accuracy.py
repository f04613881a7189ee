"""What is stated of the accuracy of δ̂ before anything is drawn, for `plan` and `show`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hpcdp._base.rounding import at_most
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.mechanisms.outputs import Schema
from hpcdp.notions.accuracy import corollary2
from hpcdp.study.file import Study


@dataclass(frozen=True)
class Statement:
    """What is stated at one level.

    radius: with probability `confidence`, the estimates of all cells at once (pairs, directions and levels; before cutting
    them at 0) are within it of 1 − 2e^ε·R(h), which the learned classifier h of each would have with infinitely many tests;
    so the largest is within it of the largest of these. Finite-sample (Hoeffding), whatever h. It says nothing of how far h
    is from the best classifier.
    alpha: Corollaries 2 to 4 of Lu et al. (2024), corrected: |δ̂ − δ| of all cells of this level at once. **Heuristic**: not
    proved at any given n. None where they do not apply: other losses than nearest neighbours with k = √n and Euclidean
    distance, outputs that are no numbers, or samples that teach and test. Of these the radius is about the mean over the folds of
    what each fold's classifier would have: every fold is within its own radius at a share of the failure probability.
    """

    epsilon: float
    radius: float
    alpha: float | None


def state_accuracy(
    study: Study, columns: int | None, pairs: int, test: int, radius: Callable[[float, float], Any]
) -> list[Statement]:
    """Statements at each level. columns: see `dimension`; pairs: unordered; radius: at a level, with a share of the failure."""
    e, kind = study.estimate, kind_of(study.estimate.default_loss)
    failure, levels = 1.0 - e.confidence, study.epsilons
    is_published = kind.has_published_rate(validate_parameters(e.default_loss, e.parameters))
    is_published = is_published and not (e.refine or e.has_budget)
    samples = 4 * min(e.train, test)  # labelled samples of both halves of Figure 1
    return [
        Statement(
            level,
            float(radius(level, failure / (2 * pairs * len(levels)))),
            corollary2(columns, level, samples, failure, 2 * pairs) if is_published and columns is not None else None,
        )
        for level in levels
    ]


def dimension(schema: Schema) -> int | None:
    """d of outputs that are d numbers each; None of others."""
    return (schema.columns or 1) if schema.kind in ("int", "float") else None


def state_lines(statements: Sequence[Statement], sure: str, pooled: bool = False) -> list[tuple[str, str]]:
    """The same in words at the first, middle and last level. sure: the confidence. pooled: whether samples are reused."""
    ordered = sorted(statements, key=lambda s: s.epsilon)
    shown = [ordered[i] for i in sorted({0, len(ordered) // 2, len(ordered) - 1})]
    radius = "; ".join(f"{at_most(s.radius, '.1e')} at ε = {s.epsilon:g}" for s in shown)
    sets = "The folds' learned sets, over which δ̂ is a mean," if pooled else "The learned sets"
    words = (
        f"the sampling error of δ̂ is at most {radius}, all entries together with confidence {sure} (finite-sample). "
        f"{sets} may miss part of δ."
    )
    lines = [("radius", words)]
    known = [(s.epsilon, s.alpha) for s in shown if s.alpha is not None and s.alpha < 1.0]
    if known:
        words = "; ".join(f"at most {at_most(alpha, '.1e')} at ε = {epsilon:g}" for epsilon, alpha in known)
        lines.append(("published α", f"|δ̂ − δ| {words} (Lu et al., Cor. 2–4, corrected; heuristic)"))
    return lines
