"""Which exact pair, and which exact density of an output, belong to a built-in mechanism on databases."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import real, refusal
from hpcdp.analytic._curve import Curve
from hpcdp.analytic.derived import Reversed, Subsampled
from hpcdp.analytic.discrete import Discrete, randomized_response_pair, rappor_pair
from hpcdp.analytic.gaussian import GaussianShift, equal_rows_pair
from hpcdp.analytic.laplace import laplace_pair
from hpcdp.analytic.noisy_max import (
    exponential_pair,
    exponential_real_pair,
    index_pmf,
    noise_law,
    noisy_max_index,
    noisy_max_value,
    real_log_density,
    truncated_log_density,
    truncated_pair,
    value_log_density,
)
from hpcdp.analytic.sparse_vector import sparse_vector
from hpcdp.mechanisms import BUILTINS, load_builtin
from hpcdp.mechanisms._batches import check_batch, enumerate_batches, find_runs
from hpcdp.mechanisms.additive import Added, vector
from hpcdp.mechanisms.exponential import (
    exponential_rate,
    exponential_scores,
    noisy_max_scale,
    noisy_max_variant,
    real_score,
    truncated_law,
)
from hpcdp.mechanisms.local import bloom_bits, one_integer, response_rows
from hpcdp.mechanisms.table import probability_row
from hpcdp.mechanisms.toy_dpsgd import row_values

Database = NDArray[Any]
Builder = Callable[..., Curve | None]

_BUILDERS: dict[str, Builder] = {}
_SAME = 1e-12  # what rounding leaves of delta(0) when two laws are one


def register(mechanism: str) -> Callable[[Builder], Builder]:
    """Decorate the function that builds the exact pair of the built-in mechanism of this name.

    It is called with the two databases and, as keywords, the mechanism's parameters, with their defaults; it returns None
    where no closed form is known.

    Raises:
        ValueError: the name is taken.
    """

    def add(builder: Builder) -> Builder:
        if mechanism in _BUILDERS:
            raise refusal("mechanism", mechanism, "a name that is not registered yet")
        _BUILDERS[mechanism] = builder
        return builder

    return add


def exact(mechanism: str, parameters: Mapping[str, Any], d: NDArray[Any], d_prime: NDArray[Any]) -> Curve | None:
    """Return the exact pair of a built-in mechanism on two databases, P on `d` and Q on `d_prime`.

    Args:
        mechanism: the name of a built-in mechanism, as in a study file; any other name gives None.
        parameters: its keyword arguments.
        d: the database whose outputs follow P.
        d_prime: the database whose outputs follow Q.

    Returns:
        the exact spectrum and trade-off curve, or None where no closed form is known.

    Raises:
        ValueError: parameters or databases that the mechanism itself refuses.
    """
    law = mechanism_law(mechanism)
    builder = _BUILDERS.get(mechanism) if law is None else partial(_added, law=law)
    return None if builder is None else builder(d, d_prime, **complete(mechanism, parameters, builder))


def mechanism_law(mechanism: str) -> Callable[..., Added] | None:
    """What a built-in adds noise to, where it does that and no more (`hpcdp.mechanisms.additive`)."""
    return getattr(load_builtin(mechanism), "law", None) if mechanism in BUILTINS else None


def complete(mechanism: str, parameters: Mapping[str, Any], builder: Builder | None = None) -> dict[str, Any]:
    """A mechanism's parameters with their defaults, of a built-in's function or of what builds its pair; ValueError of others."""
    signature = inspect.signature(load_builtin(mechanism) if builder is None or mechanism in BUILTINS else builder)
    own = list(signature.parameters.values())[3 if mechanism in BUILTINS else 2 :]  # behind databases, size and rng
    try:
        bound = signature.replace(parameters=own).bind(**parameters)
    except TypeError as error:
        names = ", ".join(parameter.name for parameter in own)
        raise ValueError(f"parameters of {mechanism}: {error}; accepted: {names}") from None
    bound.apply_defaults()
    return bound.arguments


def _added(d: Database, d_prime: Database, *, law: Callable[..., Added], **parameters: Any) -> Curve | None:
    """Noise of one law around two centres."""
    first, second = (law(database, False, **parameters) for database in (d, d_prime))
    if first.noise is None or first.centres.shape != second.centres.shape:
        return None
    distance = np.atleast_1d(np.abs(first.centres - second.centres)) / first.spread
    return laplace_pair(distance) if first.noise == "laplace" else GaussianShift(float(np.linalg.norm(distance)))


@register("pmf")
def _pmf(d: Database, d_prime: Database, **table: Any) -> Curve:
    return Discrete(probability_row(d, **table), probability_row(d_prime, **table))


@register("exponential")
def _exponential(
    d: Database, d_prime: Database, *, outcomes: Any, utility: Any, epsilon: float, sensitivity: float
) -> Curve:
    first, second = (exponential_scores(database, outcomes=outcomes, utility=utility) for database in (d, d_prime))
    return exponential_pair(first, second, epsilon=epsilon, sensitivity=sensitivity)


@register("exponential_real")
def _exponential_real(d: Database, d_prime: Database, *, lower: float, upper: float, **unit: Any) -> Curve:
    first, second = (real_score(database, lower, upper) for database in (d, d_prime))
    return exponential_real_pair(first, second, exponential_rate(lower=lower, upper=upper, **unit))


@register("noisy_max")
def _noisy_max(d: Database, d_prime: Database, *, variant: str, **size: Any) -> Curve | None:
    noise, output = noisy_max_variant(variant)
    spread = noisy_max_scale(**size)
    first, second = vector(d), vector(d_prime)
    if output == "value":
        return noisy_max_value(first, second, spread, noise)
    # Different numbers of queries have no index in common to compare.
    return noisy_max_index(first, second, spread, noise) if first.shape == second.shape else None


@register("sparse_vector")
def _sparse_vector(d: Database, d_prime: Database, **parameters: Any) -> Curve | None:
    first, second = vector(d), vector(d_prime)
    return sparse_vector(first, second, **parameters) if first.shape == second.shape else None


@register("randomized_response")
def _randomized_response(d: Database, d_prime: Database, *, epsilon: float, values: int) -> Curve | None:
    first, second = (response_rows(database, False, values) for database in (d, d_prime))
    if first.shape != second.shape:
        return None
    return randomized_response_pair(int(np.count_nonzero(first != second)), epsilon=epsilon, values=values)


@register("rappor")
def _rappor(d: Database, d_prime: Database, *, hashes: int, bits: int, **chances: Any) -> Curve:
    first, second = (bloom_bits(one_integer(database), hashes, bits) for database in (d, d_prime))
    return rappor_pair(first, second, **chances)


@register("truncated")
def _truncated(d: Database, d_prime: Database, *, noise: str, **interval: Any) -> Curve:
    first, second = (truncated_law(database, noise=noise, **interval) for database in (d, d_prime))
    return truncated_pair(noise, first, second)


@register("toy_dpsgd")
def _toy_dpsgd(d: Database, d_prime: Database, *, batch: int, start: float, **steps: Any) -> Curve | None:
    real("start", start)
    first, second = row_values(d), row_values(d_prime)
    check_batch(min(first.size, second.size), batch, None)
    if np.ptp(first) == 0.0:
        return equal_rows_pair(first[0], second, batch=batch, **steps)
    if np.ptp(second) == 0.0:
        curve = equal_rows_pair(second[0], first, batch=batch, **steps)
        return None if curve is None else Reversed(curve)
    return GaussianShift(0.0) if np.array_equal(np.sort(first), np.sort(second)) else None


@register("subsampled")
def _subsampled(
    d: Database,
    d_prime: Database,
    *,
    mechanism: str,
    parameters: Mapping[str, Any] | None,
    batch: int | None,
    rate: float | None,
) -> Curve | None:
    laws: list[Database] = []
    shares = []
    for database in (d, d_prime):
        check_batch(database.shape[0], batch, rate)
        law_shares = _shares(database, laws, mechanism, parameters or {}, batch, rate)
        if law_shares is None:
            return None
        shares.append(law_shares)
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
    """How often each law is a batch's; None where unknown, or a third law occurs; laws: one batch of each found, which grows."""
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


LogDensity = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Of outputs (size,): the natural log of their density or probability, (size,); −inf where there is none."""


def exact_log_density(mechanism: str, parameters: Mapping[str, Any], database: Database) -> LogDensity | None:
    """The exact law of a built-in mechanism on a database; None where unknown, of other names, or with several columns."""
    law = mechanism_law(mechanism)
    if law is None and mechanism not in _LAWS:
        return None
    own = complete(mechanism, parameters)
    return _LAWS[mechanism](database, **own) if law is None else _shifted(law(database, False, **own))


def _shifted(law: Added) -> LogDensity | None:
    if law.noise is None or law.centres.size != 1:
        return None
    centre, spread = float(law.centres.ravel()[0]), law.spread
    if law.noise == "laplace":
        return lambda t: np.asarray(-np.abs(t - centre) / spread - np.log(2.0 * spread), np.float64)
    return lambda t: np.asarray(
        -0.5 * ((t - centre) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2.0 * np.pi), np.float64
    )


def _real_density(database: Database, *, lower: float, upper: float, **unit: Any) -> LogDensity:
    rate = exponential_rate(lower=lower, upper=upper, **unit)
    return real_log_density(real_score(database, lower, upper), rate)


def _truncated_density(database: Database, *, noise: str, **interval: Any) -> LogDensity:
    return truncated_log_density(noise, truncated_law(database, noise=noise, **interval))


def _max_density(database: Database, *, variant: str, **size: Any) -> LogDensity:
    noise, output = noisy_max_variant(variant)
    spread = noisy_max_scale(**size)
    answers, law = vector(database) / spread, noise_law(noise)
    if output == "value":
        return lambda t: value_log_density(np.asarray(t, np.float64) / spread, answers, law) - np.log(spread)
    return _table(np.arange(answers.size), index_pmf(answers, law))


def _response_density(database: Database, *, epsilon: float, values: int) -> LogDensity | None:
    rows = np.asarray(database)
    if rows.shape != (1,):
        return None
    pmf = np.exp(np.where(np.arange(values) == rows[0], epsilon, 0.0))
    return _table(np.arange(values), pmf / pmf.sum())


def _pmf_density(database: Database, *, outcomes: Any, table: Any) -> LogDensity:
    names = np.array([o.encode() if isinstance(o, str) else o for o in outcomes])
    return _table(names, probability_row(database, outcomes=outcomes, table=table))


def _table(outcomes: NDArray[Any], probabilities: NDArray[np.float64]) -> LogDensity:
    with np.errstate(divide="ignore"):
        logs = dict(zip(outcomes.tolist(), np.log(probabilities).tolist(), strict=True))
    return lambda t: np.array([logs.get(value, -np.inf) for value in t.tolist()], np.float64)


_LAWS: Mapping[str, Callable[..., LogDensity | None]] = {
    "exponential_real": _real_density,
    "truncated": _truncated_density,
    "noisy_max": _max_density,
    "randomized_response": _response_density,
    "pmf": _pmf_density,
}
