"""The exact pairs of the built-in local mechanisms, and of truncated noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import integer, refusal
from hpcdp.analytic._curve import Curve
from hpcdp.analytic._registry import register
from hpcdp.analytic.local import randomized_response_pair, rappor_pair
from hpcdp.analytic.truncated import truncated_pair
from hpcdp.mechanisms.local import bloom_bits
from hpcdp.mechanisms.truncated import truncated_law

Database = NDArray[Any]


@register("randomized_response")
def _randomized_response(d: Database, d_prime: Database, *, epsilon: float, values: int = 2) -> Curve | None:
    first, second = (_rows(database, integer("values", values, 2)) for database in (d, d_prime))
    if first.shape != second.shape:
        return None
    return randomized_response_pair(int(np.count_nonzero(first != second)), epsilon=epsilon, values=values)


@register("rappor")
def _rappor(
    d: Database,
    d_prime: Database,
    *,
    hashes: int = 4,
    bits: int = 20,
    f: float = 0.75,
    p: float = 0.45,
    q: float = 0.55,
    one_time: bool = False,
) -> Curve:
    first, second = (bloom_bits(_value(database), hashes, bits) for database in (d, d_prime))
    return rappor_pair(first, second, f=f, p=p, q=q, one_time=one_time)


@register("truncated")
def _truncated(
    d: Database, d_prime: Database, *, scale: float, noise: str = "laplace", lower: float = 0.0, upper: float = 1.0
) -> Curve:
    first, second = (truncated_law(database, scale, noise, lower, upper) for database in (d, d_prime))
    return truncated_pair(noise, first, second)


def _rows(database: Database, values: int) -> NDArray[np.int64]:
    rows = np.asarray(database)
    accepted = f"integers from 0 to {values - 1} of shape (rows,), at least one row"
    if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "biuf" or not np.isin(rows, np.arange(values)).all():
        raise refusal("database", database, accepted)
    return rows.astype(np.int64)


def _value(database: Database) -> int:
    value = np.asarray(database)
    if value.size != 1 or value.dtype.kind not in "biuf" or not float(value.item()).is_integer():
        raise refusal("database", database, "one integer")
    return int(value.item())
