"""The perturbed likelihood-ratio estimator of the whole trade-off curve, Algorithm 3 of Askin et al. (2025).

The test rejects P where q/p > eta + width · U, with U uniform on [-1/2, 1/2]. Averaged over U, the probability that it
rejects is a clipped linear function of q/p. Each of its points is a mixture of Neyman–Pearson points, so it lies on or
above the trade-off curve of the two densities that are given (not: of the mechanism, if these are estimates).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import integer, positive, refusal
from hpcdp.analytic._curve import checked
from hpcdp.analytic.discrete import Discrete

Floats = NDArray[np.float64]
Points = tuple[Floats, Floats]

_LARGEST = 1e100  # thresholds whose square is finite


class HasTradeOff(Protocol):
    """An exact curve, a claim or a `TradeOffCurve`."""

    def tradeoff(self, alpha: ArrayLike) -> Floats:
        """Return the type-II error at sizes between 0 and 1, same shape."""


def default_etas(count: int = 1000, stop: float = 15.0) -> Floats:
    """Return the paper's grid of thresholds on q/p, `count` equal steps from 0 to `stop`: Algorithm 3 of Askin et al. (2025)."""
    return np.linspace(0.0, positive("stop", stop), integer("count", count, 2))


def perturbed_points(p: ArrayLike, q: ArrayLike, etas: ArrayLike, width: float = 0.1) -> Points:
    """Return the points of Algorithm 3 of Askin et al. (2025), (etas,) each: alpha = Σ p·w, beta = 1 − Σ q·w.

    w = clip((q/p − eta)/width + 1/2, 0, 1) in each cell; q/p is infinite where p = 0 < q. Cells are sorted by q/p once: a
    threshold then needs cumulated sums only, as w is linear inside a window. width: h in the paper; its bias:
    docs/mathematics-claims.md.
    """
    pair = Discrete(p, q)
    thresholds = checked("etas", etas, 0.0, _LARGEST)
    if thresholds.ndim != 1:
        raise refusal("shape of etas", thresholds.shape, "(etas,)")
    h = positive("width", width)
    kept = (pair.p > 0.0) | (pair.q > 0.0)
    first, second = pair.p[kept], pair.q[kept]
    with np.errstate(divide="ignore", over="ignore"):
        ratio = second / first
    order = np.argsort(ratio)
    ratio, first, second = ratio[order], first[order], second[order]
    low = thresholds - 0.5 * h
    start, stop = np.searchsorted(ratio, low), np.searchsorted(ratio, thresholds + 0.5 * h)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = _cumulated(second * ratio)
    below = _cumulated(second)
    # in the window w = (ratio − low)/h, and first · ratio = second
    moments = [sums[stop] - sums[start] for sums in (_cumulated(first), below, squared)]
    # no more than all of the window, also where the threshold is too large for the width to be seen
    share_p = np.clip((moments[1] - low * moments[0]) / h, 0.0, moments[0])
    share_q = np.clip((moments[2] - low * moments[1]) / h, 0.0, moments[1])
    alpha = _cumulated(first[::-1])[first.size - stop] + share_p
    beta = below[stop] - share_q
    return np.clip(alpha, 0.0, 1.0), np.clip(beta, 0.0, 1.0)


def error(points: Points, truth: HasTradeOff) -> float:
    """Return Error_T, the largest |beta − T(alpha)| over the points: Askin et al. (2025), the error of Algorithm 3."""
    alpha, beta = _points(*points)
    return float(np.abs(beta - truth.tradeoff(alpha)).max())


def most_vulnerable(alpha: ArrayLike, beta: ArrayLike, claimed: HasTradeOff) -> int:
    """Return η*, argmax T0(alpha) − beta, equation 7 of Askin et al. (2025). Heuristic: an audit must use other samples."""
    sizes, errors = _points(alpha, beta)
    return int(np.argmax(claimed.tradeoff(sizes) - errors))


def _points(alpha: ArrayLike, beta: ArrayLike) -> Points:
    sizes, errors = checked("alpha", alpha, 0.0, 1.0), checked("beta", beta, 0.0, 1.0)
    if sizes.shape != errors.shape or sizes.ndim != 1 or not sizes.size:
        raise refusal("shapes of alpha, beta", (sizes.shape, errors.shape), "equal shapes (etas,) with one or more")
    return sizes, errors


def _cumulated(values: Floats) -> Floats:
    """Sums of the first 0, 1, … values."""
    return np.concatenate(([0.0], np.cumsum(values)))
