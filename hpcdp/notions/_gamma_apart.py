"""The law of T = |X₁ − X₂| with X₁, X₂ independent Gamma(k, 1), of Theorem 4 of Dandekar, Basu and Bressan (2021): exact sums.

`law` is what `weights` says of k.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]

_NEWTON = 100  # steps at most; about six are taken
_SETTLED = 1e-9  # of a step, as a part of the value
_FAR = 700.0  # where e^(−x) is nearly no float, and terms of the sum are had by their logarithms


def weights(k: int) -> Floats:
    """c_0 = 1, c_1, …: P(T > x) = Σ c_i e^(−x) xⁱ/i!, the sum over j < k − i of C(k − 1 + j, j)·2^(1 − k − j)."""
    j = np.arange(k, dtype=np.float64)
    each = np.exp(gammaln(k + j) - gammaln(j + 1.0) - gammaln(float(k)) + (1.0 - k - j) * math.log(2.0))
    sums = np.cumsum(each)[::-1]
    return sums / sums[0]


def _tail(x: Floats, law: Floats) -> tuple[Floats, Floats, Floats]:
    """e^(−x), the rest of P(T > x), and the density of T: c_i − c_(i+1) >= 0 times the Poisson terms."""
    first = term = np.exp(-x)
    rest, density = np.zeros_like(x), np.zeros_like(x)
    drops = law - np.append(law[1:], 0.0)
    for i, (weight, drop) in enumerate(zip(law.tolist(), drops.tolist(), strict=True)):
        rest += weight * term if i else 0.0
        density += drop * term
        term = term * x / (i + 1.0)
    far = x > _FAR
    if far.any() and law.size > 1:
        powers, away = np.arange(law.size), x[far][:, None]
        terms = np.exp(powers * np.log(away) - gammaln(powers + 1.0) - away)
        rest[far], density[far] = terms[:, 1:] @ law[1:], terms @ drops
    return first, rest, density


def cdf(x: Floats, law: Floats) -> Floats:
    """P(T <= x), right relatively also where it is small."""
    finite = np.where(np.isinf(x), 0.0, x)
    return np.where(np.isinf(x), 1.0, -np.expm1(-finite) - _tail(finite, law)[1])


def quantile(share: Floats, law: Floats) -> Floats:
    """Where P(T <= x) is `share`: Newton on −ln P(T > x), which is convex (T's law is log-concave), so from the right."""
    wanted = -np.log1p(-np.where(share < 1.0, share, 0.0))
    x = wanted / (law[0] - (law[1] if law.size > 1 else 0.0))
    for _ in range(_NEWTON):
        first, rest, density = _tail(x, law)
        above = first + rest
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(x < 1.0, -np.log1p(np.expm1(-x) + rest), -np.log(above))
            step = np.where(above > 0.0, (value - wanted) * above / density, 0.5 * x)
        x = np.maximum(x - step, 0.0)
        if (np.abs(step) <= _SETTLED * x).all():  # the next one would be its square
            break
    return np.where(share < 1.0, x, np.inf)
