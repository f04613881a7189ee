"""The exponential mechanism over a finite range, with any utility."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import positive, refusal
from hpcdp.mechanisms.table import outcome_values, pmf
from hpcdp.mechanisms.user_code import import_callable

Array = NDArray[np.float64]


def exponential(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    outcomes: Sequence[float] | Sequence[str],
    epsilon: float,
    sensitivity: float = 1.0,
    utility: str | Callable[..., Any] = "count",
) -> NDArray[Any]:
    """Draw outcomes o with p(o) proportional to exp(epsilon · u(o) / (2 · sensitivity)).

    McSherry and Talwar 2007; Dwork and Roth 2014, Definition 3.4. The claim holds: it is epsilon-DP when no score
    moves by more than `sensitivity` between neighbours (Theorem 3.10). A count moves by at most 1 when a row is
    removed or edited. With "count", Lu et al. 2024, Fig. 5a.

    Args:
        database: for "count" numbers of shape (rows,), rows may be none; else whatever the utility takes.
        size: how many outputs.
        rng: the source of randomness; one call draws all the uniforms of the inverse cdf.
        outcomes: k different finite numbers, or k different strings (with a utility of one's own).
        epsilon: the nominal privacy level, > 0.
        sensitivity: how far a score can move between neighbours, > 0.
        utility: "count", the number of rows equal to the outcome, or "package.module:callable" or the callable itself,
            see `exponential_scores`.

    Returns:
        (size,), of the type of the outcomes: int64, float64 or fixed-length str.

    Raises:
        ValueError: a parameter, the database or the scores are refused.
        StudyError: the utility cannot be imported.
    """
    values = outcome_values(outcomes)
    factor = positive("epsilon", epsilon) / (2.0 * positive("sensitivity", sensitivity))
    scores = exponential_scores(database, outcomes=outcomes, utility=utility)
    weights = np.exp(factor * (scores - scores.max()))
    row = weights / weights.sum()
    return pmf(np.zeros(1, np.int64), size, rng, outcomes=values.tolist(), table=row[None, :])


def exponential_scores(
    database: NDArray[Any], *, outcomes: Sequence[float] | Sequence[str], utility: str | Callable[..., Any] = "count"
) -> Array:
    """Return the utility of every outcome on a database, float64 of shape (k,).

    Args:
        database: numbers of shape (rows,) for "count".
        outcomes: k different finite numbers, or k different strings.
        utility: "count", or a callable or its path "package.module:callable", called as utility(database, outcomes) with
            the outcomes as an array of shape (k,); it returns k finite scores and draws nothing at random.

    Raises:
        ValueError: the outcomes, the database or the scores are refused.
        StudyError: the utility cannot be imported.
    """
    values = outcome_values(outcomes)
    if utility == "count":
        return _counts(database, values)
    if not callable(utility) and (not isinstance(utility, str) or ":" not in utility):
        raise refusal("utility", utility, '"count" or "package.module:callable"')
    # Hpcdp gives a run the callable itself; a path is found from the first place on the import path.
    where = "mechanism.parameters.utility"
    function = utility if callable(utility) else import_callable(utility, Path(sys.path[0] or "."), where)
    given = function(np.array(database), values.copy())
    accepted = f"an array of {values.size} finite scores, one per outcome"
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal(f"what utility {utility} returned", given, accepted) from None
    if scores.shape != values.shape or not np.isfinite(scores).all():
        raise refusal(f"what utility {utility} returned", given, accepted)
    return scores


def _counts(database: NDArray[Any], values: NDArray[Any]) -> Array:
    rows = np.asarray(database)
    if rows.ndim != 1 or rows.dtype.kind not in "biuf":
        raise refusal("database", database, "numbers of shape (rows,), for the utility count")
    if values.dtype.kind == "U":
        raise refusal("outcomes", values.tolist(), "numbers, for the utility count")
    return np.array([np.count_nonzero(rows == value) for value in values], np.float64)
