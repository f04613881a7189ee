"""Several spectra as a readable table, and where one is below another."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np

from hpcdp._base.rounding import at_least, at_most
from hpcdp.report.tables import grid, text_of, wrapped
from hpcdp.report.words import changed_words, estimate, limit_words, state_words
from hpcdp.results.comparison import Comparison, largest_difference


def table(comparison: Comparison) -> str:
    """δ̂ and bounds of each store at the common ε, which is below which, and what that rests on."""
    named = zip(comparison.names, comparison.results, strict=True)
    stores = [f"{name}: {result.store}{state_words(result)}" for name, result in named]
    head = "δ(ε), the largest over all pairs and both directions of each store"
    lines = [*_below(comparison), *_differences(comparison)]
    return text_of(head, stores, grid(_rows(comparison)), lines, wrapped(_notes(comparison)))


def _rows(comparison: Comparison) -> list[list[str]]:
    rows = [["ε", *(cell for name in comparison.names for cell in (f"{name} δ̂", "certified ≥", "approx ≤"))]]
    for k, epsilon in enumerate(comparison.epsilon):
        rows.append([f"{epsilon:g}"])
        for i in range(len(comparison.names)):
            limit = None if np.isnan(comparison.limit[i, k]) else float(comparison.limit[i, k])
            upper = at_most(float(comparison.upper[i, k])) if limit is None else "-"
            rows[-1] += [estimate(float(comparison.delta[i, k]), limit), at_least(float(comparison.lower[i, k])), upper]
    return rows


def _below(comparison: Comparison) -> list[str]:
    lines = []
    for i, j in permutations(range(len(comparison.names)), 2):
        columns = np.flatnonzero(comparison.below[i, j])
        if columns.size:
            where = ", ".join(f"{e:g}" for e in comparison.epsilon[columns])
            lines.append(f"{comparison.names[i]} is below {comparison.names[j]} beyond the bounds at ε = {where}")
    return lines or ["no spectrum is below another beyond the bounds at any ε"]


def _differences(comparison: Comparison) -> list[str]:
    lines = []
    for i, j in combinations(range(len(comparison.names)), 2):
        if not (comparison.below[i, j].any() or comparison.below[j, i].any()):
            epsilon, difference, errors = largest_difference(comparison, i, j)
            first, second = (i, j) if difference <= 0 else (j, i)
            lines.append(
                f"{comparison.names[first]} and {comparison.names[second]} differ most at ε = {epsilon:g}: by "
                f"{abs(difference):.2g}, {errors:.1f} standard errors of the difference"
            )
    return lines


def _notes(comparison: Comparison) -> list[str]:
    paragraphs = [
        "A is below B beyond the bounds: the certified lower bound of B (finite-sample, all pairs, directions and ε of B "
        "together) is above the approximate upper limit of A (normal, one entry at a time, without what A's classifier "
        "misses), or, marked *, above the limit of A's learned sets. Nothing certifies an upper limit, so this is no "
        "certificate about A. Standard errors take the stores as independent."
    ]
    paragraphs += limit_words(comparison.results)
    for name, result in zip(comparison.names, comparison.results, strict=True):
        if result.method.further_bounds:
            paragraphs.append(f"{name}: only what is certified is compared, not what is certified up to the leftover")
            warned = [f"warning: {words}" for words in result.resolution.warnings]
            paragraphs += [f"{name}: {words}" for words in (*result.method.describe_basis(result), *warned)]
        paragraphs += [f"{name}: {words}" for words in changed_words(result)]
    if {result["epsilon"].size for result in comparison.results} != {comparison.epsilon.size}:
        paragraphs.append(
            f"Only the {comparison.epsilon.size} ε that all stores have are compared; the plot shows all."
        )
    return paragraphs
