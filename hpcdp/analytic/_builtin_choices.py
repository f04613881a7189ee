"""The exact pairs of the built-in mechanisms that choose: exponential mechanism, noisy max and sparse vector."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from hpcdp.analytic._curve import Curve
from hpcdp.analytic._registry import register
from hpcdp.analytic.exponential import exponential_pair, exponential_real_pair
from hpcdp.analytic.noisy_max import noisy_max_index, noisy_max_value
from hpcdp.analytic.sparse_vector import sparse_vector
from hpcdp.mechanisms.additive import vector
from hpcdp.mechanisms.exponential import exponential_scores
from hpcdp.mechanisms.exponential_real import exponential_rate, real_score
from hpcdp.mechanisms.noisy_max import noisy_max_scale, noisy_max_variant

Database = NDArray[Any]


@register("exponential")
def _exponential(
    d: Database,
    d_prime: Database,
    *,
    outcomes: Sequence[float] | Sequence[str],
    epsilon: float,
    sensitivity: float = 1.0,
    utility: str = "count",
) -> Curve:
    first, second = (exponential_scores(database, outcomes=outcomes, utility=utility) for database in (d, d_prime))
    return exponential_pair(first, second, epsilon=epsilon, sensitivity=sensitivity)


@register("exponential_real")
def _exponential_real(
    d: Database,
    d_prime: Database,
    *,
    epsilon: float | None = None,
    rate: float | None = None,
    lower: float = 1.0,
    upper: float = 2.0,
) -> Curve:
    first, second = (real_score(database, lower, upper) for database in (d, d_prime))
    return exponential_real_pair(first, second, exponential_rate(epsilon, rate, lower, upper))


@register("noisy_max")
def _noisy_max(
    d: Database,
    d_prime: Database,
    *,
    variant: str,
    epsilon: float | None = None,
    scale: float | None = None,
    sensitivity: float = 1.0,
    monotonic: bool = False,
) -> Curve | None:
    noise, output = noisy_max_variant(variant)
    spread = noisy_max_scale(epsilon, scale, sensitivity, monotonic)
    first, second = vector(d), vector(d_prime)
    if output == "value":
        return noisy_max_value(first, second, spread, noise)
    # Different numbers of queries have no index in common to compare.
    return noisy_max_index(first, second, spread, noise) if first.shape == second.shape else None


@register("sparse_vector")
def _sparse_vector(
    d: Database,
    d_prime: Database,
    *,
    variant: int,
    epsilon: float,
    threshold: float = 0.0,
    cutoff: int = 1,
    sensitivity: float = 1.0,
) -> Curve | None:
    first, second = vector(d), vector(d_prime)
    if first.shape != second.shape:
        return None
    return sparse_vector(
        first,
        second,
        variant=variant,
        epsilon=epsilon,
        threshold=threshold,
        cutoff=cutoff,
        sensitivity=sensitivity,
    )
