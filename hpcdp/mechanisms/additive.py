"""Laplace and Gaussian noise, added to the database taken as a vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import positive, real, refusal

Array = NDArray[np.float64]


def noise_scale(epsilon: float | None, sensitivity: float = 1.0, scale: float | None = None) -> float:
    """Return the scale b of Laplace noise, of density exp(-|x|/b) / (2b): `scale`, or sensitivity / epsilon.

    Args:
        epsilon: the nominal privacy level, > 0; exactly one of `epsilon` and `scale` is given.
        sensitivity: the L1 sensitivity of what the noise is added to, > 0; used with `epsilon` only.
        scale: the scale itself, > 0.

    Raises:
        ValueError: both or none of `epsilon` and `scale`, or a value out of range.
    """
    if (epsilon is None) == (scale is None):
        raise refusal("epsilon, scale", (epsilon, scale), "exactly one of the two")
    if scale is not None:
        return positive("scale", scale)
    ratio = positive("sensitivity", sensitivity) / positive("epsilon", epsilon)
    return positive("sensitivity / epsilon", ratio)


def noise_sigma(
    epsilon: float | None, delta: float | None, sensitivity: float = 1.0, sigma: float | None = None
) -> float:
    """Return the standard deviation of Gaussian noise: `sigma`, or the classical calibration.

    The classical calibration is sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon (Dwork and Roth 2014,
    Theorem A.1). It is proved to give (epsilon, delta)-differential privacy for epsilon < 1.

    Args:
        epsilon: the nominal privacy level, > 0; given together with `delta`, and without `sigma`.
        delta: the nominal failure mass, 0 < delta < 1.
        sensitivity: the L2 sensitivity of what the noise is added to, > 0; used with `epsilon` only.
        sigma: the standard deviation itself, > 0.

    Raises:
        ValueError: not exactly one of (`epsilon` and `delta`) and `sigma`, or a value out of range.
    """
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
    spread = math.sqrt(2.0 * math.log(1.25 / mass))
    classical = positive("sensitivity", sensitivity) * spread / positive("epsilon", epsilon)
    return positive("sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon", classical)


def vector(database: NDArray[Any]) -> Array:
    """Return the numbers of a database as one float64 vector of shape (d,), rows first.

    Raises:
        ValueError: the database is empty, or holds anything but finite numbers.
    """
    values = np.asarray(database)
    if values.dtype.kind not in "biuf" or values.size == 0 or not np.isfinite(values).all():
        raise refusal("database", database, "a non-empty array of finite numbers")
    return values.astype(np.float64).ravel()


def vectors(databases: NDArray[Any]) -> Array:
    """Return databases (size, rows) or (size, rows, columns) as float64 vectors: (size,) for one number each, else (size, d).

    Raises:
        ValueError: the databases are empty, or hold anything but finite numbers.
    """
    values = np.asarray(databases)
    rows = vector(values).reshape(values.shape[0], -1)
    return rows[:, 0] if rows.shape[1] == 1 else rows


def _adds(rng: np.random.Generator) -> bool:
    """Whether the generator adds a centre as it draws, rounded as an array's sum is: NumPy's may contract it, hpcdp's do not."""
    return type(rng) is not np.random.Generator


def draw_laplace(centre: Array | float, scale: float, size: int, rng: np.random.Generator) -> Array:
    """Draw `size` outputs `centre` + Laplace noise of `scale`: (size,) for one number, else (size, d)."""
    centres = np.atleast_1d(np.asarray(centre, dtype=np.float64))
    if centres.size == 1 and _adds(rng):
        return rng.laplace(centres.item(), scale, size)
    out = rng.laplace(0.0, scale, size=size if centres.size == 1 else (size, centres.size))
    out += centres
    return out


def draw_gaussian(centre: Array | float, sigma: float, size: int, rng: np.random.Generator) -> Array:
    """Draw `size` outputs `centre` + normal noise of `sigma`: (size,) for one number, else (size, d)."""
    centres = np.atleast_1d(np.asarray(centre, dtype=np.float64))
    if centres.size == 1 and _adds(rng):
        return rng.normal(centres.item(), sigma, size)
    out = rng.standard_normal(size=size if centres.size == 1 else (size, centres.size))
    if sigma != 1.0:
        out *= sigma
    out += centres
    return out


def laplace(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    epsilon: float | None = None,
    sensitivity: float = 1.0,
    scale: float | None = None,
) -> Array:
    """Draw outputs of the Laplace mechanism on the database taken as a vector.

    Independent Laplace noise is added to every number of the database. The scale is `scale`, or
    sensitivity / epsilon (Dwork, McSherry, Nissim and Smith 2006).

    Args:
        database: finite numbers, any shape; taken as a vector of its d numbers, rows first.
        size: how many outputs.
        rng: the source of randomness; one call draws all the noise.
        epsilon: the nominal privacy level, > 0; exactly one of `epsilon` and `scale`.
        sensitivity: the L1 sensitivity, > 0; used with `epsilon` only.
        scale: the noise scale itself, > 0.

    Returns:
        float64 of shape (size,) for a database of one number, else (size, d).

    Raises:
        ValueError: a parameter or the database is refused.
    """
    return draw_laplace(vector(database), noise_scale(epsilon, sensitivity, scale), size, rng)


def laplace_each(
    databases: NDArray[Any],
    rng: np.random.Generator,
    *,
    epsilon: float | None = None,
    sensitivity: float = 1.0,
    scale: float | None = None,
) -> Array:
    """Draw one output of `laplace` on each database (size, rows) or (size, rows, columns): (size,) or (size, d)."""
    spread = noise_scale(epsilon, sensitivity, scale)
    centres = vectors(databases)
    return centres + rng.laplace(0.0, spread, centres.shape)


def gaussian(
    database: NDArray[Any],
    size: int,
    rng: np.random.Generator,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sensitivity: float = 1.0,
    sigma: float | None = None,
) -> Array:
    """Draw outputs of the Gaussian mechanism on the database taken as a vector.

    Independent normal noise is added to every number of the database. Its standard deviation is `sigma`,
    or the classical calibration of `noise_sigma`.

    Args:
        database: finite numbers, any shape; taken as a vector of its d numbers, rows first.
        size: how many outputs.
        rng: the source of randomness; one call draws all the noise.
        epsilon: the nominal privacy level, > 0; given with `delta`, and without `sigma`.
        delta: the nominal failure mass, 0 < delta < 1.
        sensitivity: the L2 sensitivity, > 0; used with `epsilon` only.
        sigma: the standard deviation itself, > 0.

    Returns:
        float64 of shape (size,) for a database of one number, else (size, d).

    Raises:
        ValueError: a parameter or the database is refused.
    """
    return draw_gaussian(vector(database), noise_sigma(epsilon, delta, sensitivity, sigma), size, rng)


def gaussian_each(
    databases: NDArray[Any],
    rng: np.random.Generator,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sensitivity: float = 1.0,
    sigma: float | None = None,
) -> Array:
    """Draw one output of `gaussian` on each database (size, rows) or (size, rows, columns): (size,) or (size, d)."""
    spread = noise_sigma(epsilon, delta, sensitivity, sigma)
    centres = vectors(databases)
    return centres + rng.normal(0.0, spread, centres.shape)


laplace.each = laplace_each  # type: ignore[attr-defined]
gaussian.each = gaussian_each  # type: ignore[attr-defined]
