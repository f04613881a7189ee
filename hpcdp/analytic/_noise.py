"""Log densities and log distribution functions of the noise laws of scale 1."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import refusal

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """A noise law of scale 1: the logarithms of its density, of P(X <= x) and of P(X > x), elementwise."""

    log_pdf: Callable[[Array], Array]
    log_cdf: Callable[[Array], Array]
    log_sf: Callable[[Array], Array]


def _laplace_log_pdf(x: Array) -> Array:
    return -np.abs(x) - np.log(2.0)


def _laplace_log_cdf(x: Array) -> Array:
    return np.where(x < 0.0, x - np.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))


def _laplace_log_sf(x: Array) -> Array:
    return _laplace_log_cdf(-x)


def _exponential_log_pdf(x: Array) -> Array:
    return np.where(x >= 0.0, -x, -np.inf)


def _exponential_log_cdf(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-np.maximum(x, 0.0)))


def _exponential_log_sf(x: Array) -> Array:
    return -np.maximum(x, 0.0)


LAPLACE = Noise(_laplace_log_pdf, _laplace_log_cdf, _laplace_log_sf)
EXPONENTIAL = Noise(_exponential_log_pdf, _exponential_log_cdf, _exponential_log_sf)

_LAWS = {"laplace": LAPLACE, "exponential": EXPONENTIAL}


def noise_law(noise: str) -> Noise:
    """Return the noise law of this name.

    Raises:
        ValueError: `noise` is neither "laplace" nor "exponential".
    """
    if noise not in _LAWS:
        raise refusal("noise", noise, '"laplace" or "exponential"')
    return _LAWS[noise]
