"""The exact pairs of the built-in mechanisms on random batches of rows, and of the noisy sum."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import real
from hpcdp.analytic._curve import Curve
from hpcdp.analytic._registry import exact, register
from hpcdp.analytic.dpsgd import equal_rows_pair
from hpcdp.analytic.gaussian import GaussianShift
from hpcdp.analytic.laplace_vector import laplace_pair
from hpcdp.analytic.reversed_pair import Reversed
from hpcdp.analytic.subsampled import Subsampled
from hpcdp.mechanisms._batches import check_batch, enumerate_batches, find_runs
from hpcdp.mechanisms.noisy_sum import row_sum, sum_noise
from hpcdp.mechanisms.toy_dpsgd import row_values

Database = NDArray[Any]

_SAME = 1e-12  # what rounding leaves of delta(0) when two laws are one


@register("noisy_sum")
def _noisy_sum(
    d: Database, d_prime: Database, *, sigma: float | None = None, scale: float | None = None
) -> Curve | None:
    noise, spread = sum_noise(sigma, scale)
    first, second = row_sum(d), row_sum(d_prime)
    if first.shape != second.shape:
        return None
    distance = np.atleast_1d(np.abs(first - second)) / spread
    return GaussianShift(float(np.linalg.norm(distance))) if noise == "gaussian" else laplace_pair(distance)


@register("toy_dpsgd")
def _toy_dpsgd(
    d: Database,
    d_prime: Database,
    *,
    batch: int = 5,
    rate: float = 0.2,
    sigma: float = 0.2,
    updates: int = 10,
    start: float = 0.0,
) -> Curve | None:
    real("start", start)
    first, second = row_values(d), row_values(d_prime)
    check_batch(min(first.size, second.size), batch, None)
    if np.ptp(first) == 0.0:
        return equal_rows_pair(first[0], second, batch=batch, rate=rate, sigma=sigma, updates=updates)
    if np.ptp(second) == 0.0:
        curve = equal_rows_pair(second[0], first, batch=batch, rate=rate, sigma=sigma, updates=updates)
        return None if curve is None else Reversed(curve)
    return GaussianShift(0.0) if np.array_equal(np.sort(first), np.sort(second)) else None


@register("subsampled")
def _subsampled(
    d: Database,
    d_prime: Database,
    *,
    mechanism: str,
    parameters: Mapping[str, Any] | None = None,
    batch: int | None = None,
    rate: float | None = None,
) -> Curve | None:
    laws: list[Database] = []
    shares = []
    for database in (d, d_prime):
        check_batch(database.shape[0], batch, rate)
        found = _shares(database, laws, mechanism, parameters or {}, batch, rate)
        if found is None:
            return None
        shares.append(found)
    first, second = shares
    if len(laws) == 1:
        return GaussianShift(0.0)
    if set(first) == {0}:
        return _mixed(mechanism, parameters or {}, laws[0], laws[1], second[1])
    if len(second) == 2:
        return None  # both databases have batches of both laws
    pure = min(second)
    curve = _mixed(mechanism, parameters or {}, laws[pure], laws[1 - pure], first[1 - pure])
    return None if curve is None else Reversed(curve)


def _shares(
    database: Database,
    laws: list[Database],
    mechanism: str,
    parameters: Mapping[str, Any],
    batch: int | None,
    rate: float | None,
) -> dict[int, float] | None:
    """How often the mechanism has each of the laws on a batch; None where that is not known, or a third law occurs.

    laws: one batch for each law that was found so far; it grows.
    """
    starts, lengths = find_runs(database)
    kinds = enumerate_batches(lengths, batch, rate)
    if kinds is None:
        return None
    contents: dict[bytes, list[Any]] = {}
    for counts, probability in zip(kinds.counts, kinds.probabilities.tolist(), strict=True):
        content = np.repeat(database[starts], counts, axis=0)
        contents.setdefault(content.tobytes(), [content, 0.0])[1] += probability
    shares: dict[int, float] = {}
    for content, probability in contents.values():
        number = 0
        while number < len(laws) and not np.array_equal(content, laws[number]):
            curve = exact(mechanism, parameters, laws[number], content)
            if curve is None:
                return None
            if curve.delta(0.0) <= _SAME:
                break
            number += 1
        if number == 2:
            return None
        if number == len(laws):
            laws.append(content)
        shares[number] = shares.get(number, 0.0) + probability
    return shares


def _mixed(
    mechanism: str, parameters: Mapping[str, Any], still: Database, moved: Database, share: float
) -> Curve | None:
    """The law of the one batch against its mixture with that of the other, of which this is the share."""
    curve = exact(mechanism, parameters, still, moved)
    return None if curve is None else Subsampled(curve, min(share, 1.0))
