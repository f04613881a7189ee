"""How accurate δ̂ is, as a readable table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hpcdp._base.rounding import at_most, percent, share
from hpcdp.report.table import changed_lines, estimate, grid, limit_lines, warning_lines
from hpcdp.report.tape import basis_lines
from hpcdp.results.bootstrap import Error
from hpcdp.results.result import Result

_METHODS = {
    "chunks": "chunks of test outputs drawn with replacement",
    "classes": "multinomial over the classes of L̂ (records hold several chunks, or there are few)",
    "folds": "multinomial over the classes of L̂, fold by fold",
    "errors": "binomial over testing errors",
    "weights": "chunks of draws from proposals drawn with replacement",
    "normal": "normal, by the standard error, as there are few chunks",
}


def table(result: Result, errors: Sequence[Error]) -> str:
    """At each level: the largest estimate, its standard errors, and what is stated of it."""
    sure = percent(result.confidence)
    stated = {statement.epsilon: statement for statement in result.accuracy()}
    limits = {row["epsilon"]: row["limit"] for row in result.spectrum()}
    rows = [["ε", "δ̂", "standard error", "resampled", *(() if result.is_tape else ("radius", "published α"))]]
    for error in errors:
        values = [share(error.standard_error), share(error.resampled)]
        if (statement := stated.get(error.epsilon)) is not None:
            values += [at_most(statement.radius), "-" if statement.alpha is None else at_most(statement.alpha)]
        rows.append([f"{error.epsilon:g}", estimate(error.delta, limits[error.epsilon]), *values])
    methods = dict.fromkeys(error.method for error in errors)
    lines = [f"{result.name}: accuracy of the largest δ̂", "", *grid(rows), ""]
    if any(limit is not None for limit in limits.values()):
        lines += limit_lines(sure, [result])
    known = "its folds' learned sets, on average" if result.way.pools else "its learned sets"
    lines += [f"resampled: {_METHODS[method]}; asymptotic" for method in methods]
    if result.is_tape:
        weights = (
            "standard error: of a mean of weights, those above the cut-offs included; asymptotic; of the learned sets"
        )
        return "\n".join([*lines, weights, *basis_lines(result), *changed_lines(result), *warning_lines(result)])
    return "\n".join(
        [
            *lines,
            "standard error: binomial, at the observed counts; asymptotic",
            f"radius: every cell's δ̂ is within it of the exact δ of {known}, so the largest is within it of the",
            f"  largest of that, which is below δ by what they miss; at all ε together with confidence {sure}; finite-sample",
            "published α: |δ̂ − δ|, Lu et al., Corollaries 2 to 4, corrected; heuristic: not proved at any given size",
            *changed_lines(result),
        ]
    )


def to_json(errors: Sequence[Error]) -> str:
    """A list with one object for each level."""
    return json.dumps([vars(error) for error in errors], allow_nan=False, ensure_ascii=False)
