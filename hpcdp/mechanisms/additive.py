"""Laplace and Gaussian noise added to numbers of a database: all of them, the sum of its rows, a bounded sum or mean."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import update_wrapper, wraps
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import integer, positive, real, refusal

Array = NDArray[np.float64]


def noise_scale(epsilon: float | None, sensitivity: float = 1.0, scale: float | None = None) -> float:
    """Return the scale b of Laplace noise, of density exp(-|x|/b) / (2b): `scale`, or the L1 sensitivity / epsilon."""
    if (epsilon is None) == (scale is None):
        raise refusal("epsilon, scale", (epsilon, scale), "exactly one of the two")
    if scale is not None:
        return positive("scale", scale)
    ratio = positive("sensitivity", sensitivity) / positive("epsilon", epsilon)
    return positive("sensitivity / epsilon", ratio)


def noise_sigma(
    epsilon: float | None, delta: float | None, sensitivity: float = 1.0, sigma: float | None = None
) -> float:
    """Return the deviation of Gaussian noise: `sigma`, or the classical calibration (Dwork and Roth 2014, Theorem A.1)."""
    choice = "either epsilon and delta, or sigma"
    if sigma is not None:
        if epsilon is not None or delta is not None:
            raise refusal("epsilon, delta, sigma", (epsilon, delta, sigma), choice)
        return positive("sigma", sigma)
    if epsilon is None or delta is None:
        raise refusal("epsilon, delta, sigma", (epsilon, delta, sigma), choice)
    mass = real("delta", delta, "a number between 0 and 1, both excluded")
    if not 0.0 < mass < 1.0:
        raise refusal("delta", delta, "a number between 0 and 1, both excluded")
    spread = math.sqrt(2.0 * math.log(1.25 / mass))  # proved to give (epsilon, delta)-DP for epsilon < 1
    classical = positive("sensitivity", sensitivity) * spread / positive("epsilon", epsilon)
    return positive("sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon", classical)


def vector(database: NDArray[Any]) -> Array:
    """Return the numbers of a database as one float64 vector of shape (d,), rows first."""
    values = np.asarray(database)
    if values.dtype.kind not in "biuf" or values.size == 0 or not np.isfinite(values).all():
        raise refusal("database", database, "a non-empty array of finite numbers")
    return values.astype(np.float64).ravel()


def _flat(databases: NDArray[Any], many: bool) -> Array:
    """The vector of one database, or those of many: (size,) for one number each, else (size, d)."""
    if not many:
        return vector(databases)
    rows = vector(databases).reshape(len(databases), -1)
    return rows[:, 0] if rows.shape[1] == 1 else rows


def rows_of_numbers(
    databases: NDArray[Any], many: bool, accepted: str = "numbers of shape (rows,) or (rows, columns)"
) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Return databases, one or many, as an array, and the shape of each; refuse what is no rows of numbers."""
    databases = np.asarray(databases)
    shape = databases.shape[many:]
    if len(shape) not in (1, 2) or databases.dtype.kind not in "biuf":
        raise refusal("database", databases, accepted)
    return databases, shape


class Added(NamedTuple):
    """Noise that is added to the numbers of one database, or of many."""

    centres: NDArray[Any]  # float64 of any shape of one database, (size,) or (size, d) of many
    noise: str | None  # "laplace", "gaussian", or None for none
    spread: float = 0.0  # the scale of Laplace noise, the standard deviation of Gaussian noise

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """`size` outputs of the one database: (size,) for one number, else (size, d)."""
        if self.noise is None:
            return np.full(size, self.centres[0]) if self.centres.size == 1 else np.tile(self.centres, (size, 1))
        centres, noise = np.asarray(self.centres, np.float64).reshape(-1), self._noise(rng)
        if centres.size == 1 and type(rng) is not np.random.Generator:  # hpcdp's add as arrays do, NumPy's may contract
            return np.asarray(noise(centres.item(), self.spread, size))
        out = np.asarray(noise(0.0, self.spread, size if centres.size == 1 else (size, centres.size)))
        out += centres
        return out

    def draw_each(self, rng: np.random.Generator) -> NDArray[Any]:
        """One output of each of many databases."""
        return (
            self.centres
            if self.noise is None
            else self.centres + self._noise(rng)(0.0, self.spread, self.centres.shape)
        )

    def _noise(self, rng: np.random.Generator) -> Callable[..., Any]:
        return rng.laplace if self.noise == "laplace" else rng.normal


def one_or_many(draw: Callable[..., Any]) -> Any:
    """Make a mechanism, with `each`, of draw(databases, many, size, rng, **parameters), which describes it.

    many: whether there are many databases, along the first axis, and one output of each is drawn.
    """

    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator, **parameters: Any) -> Any:
        return draw(database, False, size, rng, **parameters)

    def each(databases: NDArray[Any], rng: np.random.Generator, **parameters: Any) -> Any:
        return draw(databases, True, len(databases), rng, **parameters)

    given = list(inspect.signature(mechanism).parameters.values())[:3]
    own = [p for p in inspect.signature(draw).parameters.values() if p.kind is p.KEYWORD_ONLY]
    made: Any = update_wrapper(mechanism, draw)
    made.__signature__, made.each = inspect.Signature([*given, *own]), each
    return made


def additive(law: Callable[..., Added]) -> Any:
    """Make a mechanism of what it adds noise to: law(databases, many, **parameters), which describes it, as in `one_or_many`."""

    @wraps(law)
    def draw(databases: NDArray[Any], many: bool, size: int, rng: np.random.Generator, **parameters: Any) -> Any:
        added = law(databases, many, **parameters)
        return added.draw_each(rng) if many else added.draw(size, rng)

    made = one_or_many(draw)
    made.law = law  # for its exact curves
    return made


@additive
def laplace(
    databases: NDArray[Any],
    many: bool,
    *,
    epsilon: float | None = None,
    sensitivity: float = 1.0,
    scale: float | None = None,
) -> Added:
    """Draw outputs of the Laplace mechanism on the database taken as a vector.

    Independent Laplace noise is added to every number of the database. The scale is `scale`, or
    sensitivity / epsilon (Dwork, McSherry, Nissim and Smith 2006).

    Args:
        database: finite numbers, any shape; taken as a vector of its d numbers, rows first.
        epsilon: the nominal privacy level, > 0; exactly one of `epsilon` and `scale`.
        sensitivity: the L1 sensitivity, > 0; used with `epsilon` only.
        scale: the noise scale itself, > 0.

    Returns float64 of shape (size,) for a database of one number, else (size, d).
    """
    return Added(_flat(databases, many), "laplace", noise_scale(epsilon, sensitivity, scale))


@additive
def gaussian(
    databases: NDArray[Any],
    many: bool,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sensitivity: float = 1.0,
    sigma: float | None = None,
) -> Added:
    """Draw outputs of the Gaussian mechanism on the database taken as a vector.

    Independent normal noise is added to every number of the database. Its standard deviation is `sigma`,
    or the classical calibration of `noise_sigma`.

    Args:
        database: finite numbers, any shape; taken as a vector of its d numbers, rows first.
        epsilon: the nominal privacy level, > 0; given with `delta`, and without `sigma`.
        delta: the nominal failure mass, 0 < delta < 1.
        sensitivity: the L2 sensitivity, > 0; used with `epsilon` only.
        sigma: the standard deviation itself, > 0.

    Returns float64 of shape (size,) for a database of one number, else (size, d).
    """
    return Added(_flat(databases, many), "gaussian", noise_sigma(epsilon, delta, sensitivity, sigma))


@additive
def noisy_sum(databases: NDArray[Any], many: bool, *, sigma: float | None = None, scale: float | None = None) -> Added:
    """Draw the sum of the rows, column by column, plus normal noise of deviation `sigma` or Laplace noise of `scale`.

    Rows are not clipped, so how private it is depends on how far one row can move the sum.

    Args:
        database: finite numbers of shape (rows,) or (rows, columns); rows may be none, which sum to 0.
        sigma: the standard deviation of normal noise, > 0; exactly one of `sigma` and `scale`.
        scale: the scale of Laplace noise, > 0.

    Returns float64 of shape (size,) for numbers or one column, else (size, columns).
    """
    noise, accepted = sum_noise(sigma, scale), "finite numbers of shape (rows,) or (rows, columns)"
    databases, shape = rows_of_numbers(databases, many, accepted)
    if 0 in shape[1:] or not np.isfinite(databases).all():
        raise refusal("database", databases, accepted)
    sums = databases.astype(np.float64).sum(axis=int(many))
    return Added(np.asarray(sums[:, 0] if many and shape[1:] == (1,) else sums), *noise)


def sum_noise(sigma: float | None, scale: float | None) -> tuple[str, float]:
    """Return which noise is meant, "gaussian" or "laplace", and its deviation or scale."""
    if (sigma is None) == (scale is None):
        raise refusal("sigma, scale", (sigma, scale), "exactly one of the two")
    return ("gaussian", positive("sigma", sigma)) if scale is None else ("laplace", positive("scale", scale))


@additive
def bounded_mean(
    databases: NDArray[Any],
    many: bool,
    *,
    lower: float,
    upper: float,
    count: int,
    epsilon: float,
    delta: float | None = None,
    noise: Literal["laplace", "gaussian"] = "laplace",
    column: int = 0,
) -> Added:
    """Draw outputs of the noisy mean of one column, clipped to [lower, upper].

    The noise is added to lower + sum(clip(x, lower, upper) - lower) / count over the numbers x of the column: a row that is
    missing stands for `lower`. One row moves it by (upper - lower) / count at most, from which the noise's scale follows.

    Args:
        database: (rows,) or (rows, columns); rows may be none; the column's numbers must not be NaN.
        lower: the lower limit that values are clipped to, finite.
        upper: the upper limit that values are clipped to, finite, above `lower`.
        count: what the sum is divided by, public, the same for a database and its neighbours, >= 1.
        delta: the nominal failure mass, 0 < delta < 1; with Gaussian noise only, and required there.
        noise: "laplace" or "gaussian" (classical calibration, see `noise_sigma`).
        column: which column, from 0; must be 0 for a database of shape (rows,).

    Returns float64 of shape (size,).
    """
    values, low, high = _clipped(databases, many, lower, upper, column)
    rows = integer("count", count, 1)
    centres = np.asarray(low + np.sum(values - low, axis=-1) / rows)
    return Added(centres, noise, _aggregate_noise(noise, epsilon, delta, (high - low) / rows))


@additive
def bounded_sum(
    databases: NDArray[Any],
    many: bool,
    *,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float | None = None,
    noise: Literal["laplace", "gaussian"] = "laplace",
    column: int = 0,
) -> Added:
    """Draw outputs of the noisy sum of one column, clipped to [lower, upper].

    The noise is added to sum(clip(x, lower, upper)) over the numbers x of the column. Its scale follows from sensitivity
    max(|lower|, |upper|, upper - lower), which holds when a row is removed and when one is edited.

    Args: as `bounded_mean`, without count.

    Returns float64 of shape (size,).
    """
    values, low, high = _clipped(databases, many, lower, upper, column)
    spread = _aggregate_noise(noise, epsilon, delta, max(abs(low), abs(high), high - low))
    return Added(np.asarray(values.sum(axis=-1)), noise, spread)


def _aggregate_noise(noise: str, epsilon: float | None, delta: float | None, sensitivity: float) -> float:
    """The scale of the Laplace noise or the standard deviation of the Gaussian noise."""
    if noise == "laplace":
        if delta is not None:
            raise refusal("delta", delta, 'no delta with noise = "laplace"')
        return noise_scale(epsilon, sensitivity)
    if noise == "gaussian":
        return noise_sigma(epsilon, delta, sensitivity)
    raise refusal("noise", noise, '"laplace" or "gaussian"')


def _clipped(
    databases: NDArray[Any], many: bool, lower: float, upper: float, column: int
) -> tuple[Array, float, float]:
    """One column clipped to its limits, (rows,) or (size, rows), and these."""
    low, high = real("lower", lower), real("upper", upper)
    if not low < high:
        raise refusal("lower, upper", (lower, upper), "lower < upper")
    databases, shape = rows_of_numbers(databases, many)
    columns = 1 if len(shape) == 1 else shape[1]
    if integer("column", column, 0) >= columns:
        raise refusal("column", column, f"a column of the database, 0 to {columns - 1}")
    chosen = (databases if len(shape) == 1 else databases[..., column]).astype(np.float64, order="C")
    if np.isnan(chosen).any():
        raise refusal("database", databases, "a column without NaN")
    return np.clip(chosen, low, high), low, high
