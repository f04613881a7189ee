"""Mechanisms given by a table: one row of probabilities per database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal

ROW_SUM_TOLERANCE = 1e-9
"""How far the sum of a row of probabilities may be from 1; the row is then divided by its sum."""

_FEW_EDGES = 64  # below this, comparing with every edge is faster than bisecting for every draw


def pmf(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    outcomes: Sequence[float] | Sequence[str],
    table: ArrayLike,
) -> NDArray[Any]:
    """Draw outcomes with the probabilities that the table's row for this database holds.

    Args:
        database: one integer, the index of the row, from 0; any shape with one element.
        outcomes: k different finite numbers, or k different strings.
        table: (rows, k) probabilities; entries >= 0, every row sums to 1 within 1e-9.

    Returns:
        (size,), of the type of the outcomes: int64, float64 or fixed-length str. An outcome of
        probability 0 is never returned.
    """
    values = outcome_values(outcomes)
    probabilities = probability_row(database, outcomes=outcomes, table=table)
    # Only the support takes part, so rounding in the sums cannot reach an impossible outcome.
    support = np.flatnonzero(probabilities)
    edges = np.cumsum(probabilities[support])[:-1]
    return values[support][_edges_passed(edges, rng.random(size))]


def outcome_values(outcomes: Sequence[float] | Sequence[str] | NDArray[Any]) -> NDArray[Any]:
    """Return the outcomes as an array of shape (k,)."""
    if isinstance(outcomes, _Checked):
        return outcomes.view(np.ndarray)
    accepted = "a list of different finite numbers or of different strings"
    items = list(outcomes) if isinstance(outcomes, Sequence | np.ndarray) else []
    texts = sum(isinstance(item, str) for item in items)
    # NumPy would turn numbers beside strings into strings without a word.
    if isinstance(outcomes, str) or not items or texts not in (0, len(items)):
        raise refusal("outcomes", outcomes, accepted)
    try:
        values = np.asarray(items)
    except ValueError:
        raise refusal("outcomes", outcomes, accepted) from None
    numbers = values.dtype.kind in "iuf" and bool(np.isfinite(values).all())
    if values.ndim != 1 or not (numbers or texts) or np.unique(values).size != values.size:
        raise refusal("outcomes", outcomes, accepted)
    return values


def probability_row(
    database: NDArray[Any], *, outcomes: Sequence[float] | Sequence[str], table: ArrayLike
) -> NDArray[np.float64]:
    """Return the row of the table that the database's one number chooses, float64 of shape (k,), of sum 1."""
    rows = _rows(table, outcome_values(outcomes).size)
    index = np.asarray(database)
    accepted = f"one integer from 0 to {len(rows) - 1}, the index of a row of the table"
    if index.size != 1 or index.dtype.kind not in "iuf":
        raise refusal("database", database, accepted)
    number = float(index.item())
    if not number.is_integer() or not 0 <= number < len(rows):
        raise refusal("database", database, accepted)
    row = rows[int(number)]
    return np.asarray(row / row.sum(), dtype=np.float64)


def _edges_passed(edges: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[Any]:
    """How many edges are <= each uniform: the inverse cdf, as an index into the support."""
    if edges.size >= _FEW_EDGES:
        return np.searchsorted(edges, uniforms, side="right")
    passed = np.zeros(uniforms.shape, dtype=np.uint8)
    for edge in edges:
        passed += uniforms >= edge
    return passed


class _Checked(np.ndarray):
    """Outcomes or a table that was checked: of a table of many rows, that takes longer than a draw."""


def _prepare(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of pmf, checked; wrong ones stay, for the draw to refuse."""
    with suppress(ValueError):
        values = outcome_values(parameters["outcomes"])
        table = _rows(parameters["table"], values.size).copy()
        return {**parameters, "outcomes": values.view(_Checked), "table": table.view(_Checked)}
    return dict(parameters)


pmf.prepare = _prepare  # type: ignore[attr-defined]


def _rows(table: ArrayLike, count: int) -> NDArray[np.float64]:
    if isinstance(table, _Checked):
        return table.view(np.ndarray)
    accepted = f"one row of {count} probabilities, one per outcome, for every database"
    try:
        rows = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # an integer beyond all floats
        raise refusal("table", table, accepted) from None
    if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] != count:
        raise refusal("table", table, accepted)
    if not (np.isfinite(rows) & (rows >= 0.0)).all():
        raise refusal("table", table, "a table of finite entries >= 0")
    sums = rows.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
    if wrong.size:
        given, accepted = float(sums[wrong[0]]), f"a sum of 1 within {ROW_SUM_TOLERANCE:g}"
        raise refusal(f"table: row {wrong[0]}: sum", given, accepted)
    return rows
