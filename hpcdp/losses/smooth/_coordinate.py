"""The coordinate of a fit: the line itself near the bulk, its logarithm far from it and inside wide gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PARTS = 32
_WIDE = 8.0  # times all narrower spacings together: such a spacing of quantiles is a gap between modes
_STRAIGHT = 2.0  # widths of the bulk that stay straight on either side of it


def bulk_coordinate(x: Floats, weights: Floats) -> Floats:
    """Increasing coordinate of increasing finite places x (size,), of which a law has these weights, (size,).

    The bulk lies between the 1/32 and 31/32 quantiles, without spacings of 1/32 quantiles that are wider than 8 times
    all narrower ones together; its width is the unit. A place that is u > 2 beyond it has 2·(1 + log(u/2)). So a normal
    law's log-ratio stays straight for 9 standard deviations, while heavy tails and the gap between far modes stay short.
    """
    most = float(np.abs(x[weights > 0]).max())
    exponent = int(np.frexp(most)[1]) if most > 0 else 0
    x = np.ldexp(x, -exponent)
    middle = np.cumsum(weights) - 0.5 * weights
    ends = np.unique(np.interp(np.arange(1, _PARTS) / _PARTS * weights.sum(), middle, x))
    if ends.size == 1:
        held = np.flatnonzero(weights > 0)
        ends = np.unique(x[[held[0], held[-1]]])
    gaps = np.diff(ends)
    order = np.sort(gaps)
    before = np.append(np.inf, np.cumsum(order)[:-1])  # the narrowest spacing is no gap
    wide = order[order > _WIDE * before]
    is_gap = gaps >= (wide[0] if wide.size else np.inf)
    unit = float(gaps[~is_gap].sum()) or 1.0
    straight = _STRAIGHT * unit
    lengths = np.where(is_gap, 2 * _bend(gaps / 2, straight), gaps)
    at = np.append(0.0, np.cumsum(lengths))
    piece = np.clip(np.searchsorted(ends, x, "right") - 1, 0, max(gaps.size - 1, 0))
    out = np.empty(x.size)
    below, above = x < ends[0], x >= ends[-1]
    out[below] = -_bend(ends[0] - x[below], straight)
    out[above] = at[-1] + _bend(x[above] - ends[-1], straight)
    inside = ~(below | above)
    i, place = piece[inside], x[inside]
    left, right = place - ends[i], ends[i + 1] - place
    bent = np.where(left <= right, at[i] + _bend(left, straight), at[i + 1] - _bend(right, straight))
    out[inside] = np.where(is_gap[i], bent, at[i] + left)
    result: Floats = out / unit
    return result


def _bend(u: Floats, straight: float) -> Floats:
    return np.where(u <= straight, u, straight * (1.0 + np.log(np.maximum(u, straight)) - np.log(straight)))
