"""Where one side's support ends: stretches that one law certainly reaches and the other seems never to reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SEEN = 64  # outputs of the side that ends, next to its end; and of the other side beyond the end
_NEAR = 20  # of them in the nearer half of their stretch: a tail that fades has some √64 there


def never_reached(t: Floats, has: Floats, other: Floats) -> NDArray[np.bool_]:
    """Which places t (size,), increasing, are beyond an end of the side with counts `other`, though `has` counts many.

    A stretch without `other` counts is beyond an end when `other` counts are dense right up to it (at both of its ends,
    where it has two) and it is at least half as long as the stretch next to it that holds 64 of them. If they went on
    with the density of the nearer half, 20 or more were expected: none are seen with probability e⁻²⁰. The density
    of the whole stretch would not tell a support's end from a tail.
    """
    out = np.zeros(t.size, np.bool_)
    at = np.flatnonzero(other > 0)
    if not at.size:
        out[has > 0] = bool(has.sum() >= _SEEN)
        return out
    sums = np.append(0.0, np.cumsum(other))
    held = np.append(0.0, np.cumsum(has))
    firsts = np.append(0, at + 1)
    stops = np.append(at, t.size)  # stretch: cells firsts[i] … stops[i] - 1
    for first, stop in zip(firsts, stops, strict=True):
        if held[stop] - held[first] < _SEEN:
            continue
        some = first + np.flatnonzero(has[first:stop] > 0)
        length = t[some[-1]] - t[some[0]]
        ends = []
        if first > 0:
            ends.append(_is_dense(t, sums, first - 1, -1, length))
        if stop < t.size:
            ends.append(_is_dense(t, sums, stop, 1, length))
        if all(ends):
            out[first:stop] = True
    return out


def _is_dense(t: Floats, sums: Floats, edge: int, way: int, length: float) -> bool:
    """Whether counts end abruptly at the cell `edge`, seen from a stretch of this length; way: where they go on."""
    if way < 0:
        total = sums[edge + 1]
        last = int(np.searchsorted(sums, total - _SEEN, "right")) - 1
    else:
        total = sums[-1] - sums[edge]
        last = int(np.searchsorted(sums, sums[edge] + _SEEN, "left")) - 1
    if total < _SEEN:
        return False
    span = abs(t[edge] - t[last])
    if length < span / 2:
        return False
    middle = t[edge] + way * span / 2
    if way < 0:
        near = sums[edge + 1] - sums[int(np.searchsorted(t, middle, "left"))]
    else:
        near = sums[int(np.searchsorted(t, middle, "right"))] - sums[edge]
    return bool(near >= _NEAR)
