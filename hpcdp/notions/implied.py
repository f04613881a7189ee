"""What lower bounds on δ at some ε imply at all others, and that curve as a polygon which is nowhere above it.

δ does not rise with ε. Nor does (1 − δ)/e^ε, as 1 − δ(ε) is the smallest P(not S) + e^ε·Q(S). So a bound l at ε' says
δ >= l up to ε', and δ >= 1 − e^(ε − ε')·(1 − l) from there on. Both are as sure as the bound is: no confidence is spent.
They hold for each pair and direction, and so for the largest of them.

Of a bound that rests on a set S more is known: the region of (P(S), Q(S)) that the bound's own level pays for. It bounds
P(S) − e^ε·Q(S), and so δ, at every ε (see `hpcdp.notions.anchors`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LARGEST_EXPONENT = 700.0  # e to this is finite
_STEPS = 32  # chords of a piece that falls; it is concave, so that they lie below it however few they are
_LEAST = 1e-9  # of a piece that falls to 0, where its last chord but one ends, for logarithmic axes


def implied_lower(known: Floats, lower: Floats, epsilon: Floats) -> Floats:
    """The largest lower bound on δ at each level (m,) that bounds (k,) at known levels (k,) imply, from 0 to 1."""
    rise = np.exp(np.minimum(epsilon[:, None] - known, _LARGEST_EXPONENT))
    lift = np.clip(1.0 - rise * (1.0 - lower), 0.0, 1.0)
    return np.asarray(np.where(known >= epsilon[:, None], lower, lift).max(axis=1))


def outline(known: Floats, lower: Floats, start: float, stop: float) -> tuple[Floats, Floats]:
    """Vertices (ε, δ) of a polygon that is nowhere above `implied_lower`, and on it at the vertices; from start to stop.

    The implied curve is flat or falls as 1 − r·e^ε, which is concave, so that chords of one piece lie below it. Where it turns
    from falling to flat a chord would lie above, so that each such corner is a vertex. known (k,) strictly increases.
    """
    ahead = np.append(np.maximum.accumulate(lower[::-1])[::-1], 0.0)  # flat from before each level, and beyond the last
    with np.errstate(divide="ignore"):
        log_r = np.minimum.accumulate(np.log1p(-lower) - known)
    x, y = [np.array([start])], [np.array([ahead[0]])]
    for place, level in enumerate(known):
        end = known[place + 1] if place + 1 < known.size else max(stop, level)
        floor, r = ahead[place + 1], log_r[place]
        with np.errstate(divide="ignore", invalid="ignore"):
            corner = np.log1p(-floor) - r  # where the falling piece reaches the flat one; NaN where both are 1
        last = max(level, min(end, corner))
        steps = np.linspace(level, last, _STEPS + 1)
        top = -np.expm1(level + r)
        if floor == 0.0 and corner <= end and top > _LEAST:
            steps = np.union1d(steps, np.clip(np.log1p(-np.geomspace(top, _LEAST, _STEPS + 1)) - r, level, last))
        x += [steps, np.array([end])]
        y += [np.maximum(floor, -np.expm1(steps + r)), np.array([max(floor, -np.expm1(end + r))])]
    ends, values = np.concatenate(x), np.concatenate(y)
    inside = (ends > start) & (ends < stop)
    sides = implied_lower(known, lower, np.array([start, stop]))
    return (
        np.concatenate([[start], ends[inside], [stop]]),
        np.concatenate([[sides[0]], values[inside], [sides[1]]]),
    )
